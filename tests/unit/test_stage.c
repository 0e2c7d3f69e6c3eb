/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory in steps, which several threads make ready at once. */
#include "guest/swap/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/unnamed_file.h"
#include "tests/check.h"

#define STEPS 7
#define BYTES (STEPS * STAGE_STEP_BYTES - 4096) /* the last one is shorter */

static _Atomic unsigned int met[STEPS];
static _Atomic uint64_t met_bytes;
static char *base;

/* A kernel before 5.14 knows no advice of these numbers. */
static bool old_kernel;

int __real_madvise(void *at, size_t len, int advice);
int __wrap_madvise(void *at, size_t len, int advice);
int __wrap_madvise(void *at, size_t len, int advice)
{
	if (!old_kernel || (advice != 22 && advice != 23))
		return __real_madvise(at, len, advice);
	errno = EINVAL;
	return -1;
}

/* (By the name that files of more than 2 GiB have.) */
/* What a disk says that is full, or that fails. */
static int full, fails;
static uint64_t reserved;

int __real_fallocate64(int fd, int mode, off_t at, off_t len);
int __wrap_fallocate64(int fd, int mode, off_t at, off_t len);
int __wrap_fallocate64(int fd, int mode, off_t at, off_t len)
{
	reserved = (uint64_t)len;
	if (!full)
		return __real_fallocate64(fd, mode, at, len);
	errno = full;
	return -1;
}

int __real_msync(void *at, size_t len, int flags);
int __wrap_msync(void *at, size_t len, int flags);
int __wrap_msync(void *at, size_t len, int flags)
{
	if (!fails)
		return __real_msync(at, len, flags);
	errno = fails;
	return -1;
}

/* 0: those that there are. */
static int processors;

int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus)
{
	if (!processors)
		return __real_sched_getaffinity(pid, size, cpus);
	CPU_ZERO_S(size, cpus);
	for (int i = 0; i < processors; i++)
		CPU_SET_S((size_t)i, size, cpus);
	return 0;
}

/* A driver that cannot pin. */
static bool refuses;

static bool meet(void *arg, char *at, uint64_t bytes)
{
	CHECK_EQ((uintptr_t)arg, 42);
	if (refuses)
		return false;
	met[(uint64_t)(at - base) / STAGE_STEP_BYTES]++;
	met_bytes += bytes;
	return true;
}

static void part(void *arg, char *at, uint64_t bytes)
{
	(void)arg;
	met[(uint64_t)(at - base) / STAGE_STEP_BYTES]--;
	met_bytes -= bytes;
}

/* Threads that nobody waits for get so far. */
static void await_known(struct stage *stage, uint64_t from, uint64_t to)
{
	for (uint64_t at = from; at < to; at += STAGE_STEP_BYTES)
		while (stage_state(stage, at) != STAGE_KNOWN)
			usleep(1000);
	stage_end(stage);
}

/* [first, end) are met once each, and no others. */
static void check_met(unsigned int first, unsigned int end)
{
	for (unsigned int i = 0; i < STEPS; i++)
		CHECK_EQ(met[i], i >= first && i < end);
}

static void check_steps(void)
{
	struct stage stage = {NULL};

	stage_end(&stage);
	stage_part(&stage, part, NULL);
	CHECK_EQ(stage_ready(&stage), 0);
	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	/* A part of it, of which nothing else is touched. */
	stage_begin(&stage, 2 * STAGE_STEP_BYTES + 1, 4 * STAGE_STEP_BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 2 * STAGE_STEP_BYTES + 1, 4 * STAGE_STEP_BYTES, true));
	stage_end(&stage);
	check_met(2, 4);
	CHECK_EQ(stage_ready(&stage), 2 * STAGE_STEP_BYTES);
	memset(base + 2 * STAGE_STEP_BYTES, 0x5a, 2 * STAGE_STEP_BYTES);
	/* All of it: what is ready stays as it is. */
	CHECK(stage_take(&stage, BYTES));
	CHECK(stage.at == base);
	stage_begin(&stage, 0, BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES, true));
	stage_end(&stage);
	check_met(0, STEPS);
	CHECK_EQ(stage_ready(&stage), BYTES);
	CHECK_EQ(met_bytes, BYTES);
	CHECK_EQ(base[2 * STAGE_STEP_BYTES], 0x5a);
	CHECK_EQ(base[4 * STAGE_STEP_BYTES - 1], 0x5a);
	/* The driver forgets it, and then learns of it anew, with what is in it. */
	CHECK_EQ(stage_state(&stage, 0), STAGE_KNOWN);
	stage_part(&stage, part, NULL);
	check_met(0, 0);
	CHECK_EQ(stage_state(&stage, 0), STAGE_READY);
	CHECK_EQ(stage_ready(&stage), BYTES);
	CHECK_EQ(base[2 * STAGE_STEP_BYTES], 0x5a);
	stage_begin_ahead(&stage, BYTES, 0, meet, (void *)42);
	await_known(&stage, 0, BYTES);
	check_met(0, STEPS);
	CHECK_EQ(base[2 * STAGE_STEP_BYTES], 0x5a);
	stage_part(&stage, part, NULL);
	stage_empty(&stage);
	CHECK_EQ(stage_ready(&stage), 0);
	CHECK_EQ(base[2 * STAGE_STEP_BYTES], 0);
	stage_give(&stage);
	CHECK(!stage.at);
	stage_give(&stage);
}

/* Made ready ahead of time, for what then is there at once; and called off. */
static void check_ahead(void)
{
	struct stage stage = {NULL};

	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	stage_begin_ahead(&stage, 3 * STAGE_STEP_BYTES, 0, meet, (void *)42);
	await_known(&stage, 0, 3 * STAGE_STEP_BYTES);
	check_met(0, 3);
	CHECK(!stage_suits(&stage, BYTES, 2 * STAGE_STEP_BYTES));
	/* Once more, and for more: called off at once. */
	stage_begin_ahead(&stage, BYTES, 0, meet, (void *)42);
	stage_end(&stage);
	CHECK(stage_ready(&stage) >= 3 * STAGE_STEP_BYTES);
	stage_begin_ahead(&stage, BYTES, 0, meet, (void *)42);
	await_known(&stage, 0, BYTES);
	check_met(0, STEPS);
	CHECK_EQ(met_bytes, BYTES);
	stage_part(&stage, part, NULL);
	check_met(0, 0);
	CHECK_EQ(met_bytes, 0);
	stage_give(&stage);
}

/* By one thread: the pages of all steps but this one, which it holds, are told of as ready. */
static bool meet_last(void *arg, char *at, uint64_t bytes)
{
	CHECK_EQ(stage_ready(arg) + bytes, BYTES);
	return at != NULL;
}

/* Pages of all of it come first: who has to leave meanwhile waits for nothing but those. */
static void check_pages_first(void)
{
	struct stage stage = {NULL};

	processors = 1;
	CHECK(stage_take(&stage, BYTES));
	stage_begin_ahead(&stage, BYTES, 0, meet_last, &stage);
	await_known(&stage, 0, BYTES);
	stage_give(&stage);
	processors = 0;
}

/* A thread for each step: some are being made ready when others come to them once more. */
static void check_one_for_each(void)
{
	struct stage stage = {NULL};

	processors = 2 * STEPS;
	for (int i = 0; i < 20; i++) {
		CHECK(stage_take(&stage, BYTES));
		base = stage.at;
		stage_begin_ahead(&stage, BYTES, 0, meet, (void *)42);
		await_known(&stage, 0, BYTES);
		check_met(0, STEPS);
		stage_part(&stage, part, NULL);
		stage_give(&stage);
	}
	processors = 0;
}

/* Nothing while others are busy, which is not the end. */
static void check_busy(void)
{
	uint32_t busy = 1;
	struct stage stage = {NULL};

	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	stage.busy = &busy;
	stage_keep(&stage, 0, STAGE_STEP_BYTES);
	stage_begin_ahead(&stage, BYTES, 0, meet, (void *)42);
	while (stage_is_at_work(&stage))
		usleep(1000);
	check_met(0, 0);
	CHECK_EQ(stage_ready(&stage), STAGE_STEP_BYTES);
	CHECK(!stage_has_finished(&stage));
	busy = 0;
	stage_begin_ahead(&stage, STAGE_STEP_BYTES, 0, meet, (void *)42);
	while (stage_is_at_work(&stage))
		usleep(1000);
	check_met(0, 1);
	CHECK(stage_has_finished(&stage));
	stage_end(&stage);
	CHECK(!stage_has_finished(&stage));
	stage_part(&stage, part, NULL);
	stage_give(&stage);
}

/* No more than there is room for beside others. */
static void check_least(void)
{
	struct stage stage = {NULL};

	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	stage_begin_ahead(&stage, BYTES, UINT64_MAX - 1, meet, (void *)42);
	while (stage.working)
		usleep(1000);
	CHECK_EQ(stage_ready(&stage), 0);
	/* What was found before needs none. */
	stage_keep(&stage, 0, STAGE_STEP_BYTES);
	stage_begin_ahead(&stage, BYTES, UINT64_MAX - 1, meet, (void *)42);
	await_known(&stage, 0, STAGE_STEP_BYTES);
	check_met(0, 1);
	stage_part(&stage, part, NULL);
	stage_give(&stage);
}

/* Whole steps of what is given back, and no others. */
static void check_empty_part(void)
{
	struct stage stage = {NULL};

	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	stage_begin(&stage, 0, BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES, true));
	stage_end(&stage);
	memset(base, 0x5a, BYTES);
	stage_empty_part(&stage, STAGE_STEP_BYTES + 1, 4 * STAGE_STEP_BYTES - 1, part, NULL);
	CHECK_EQ(stage_state(&stage, STAGE_STEP_BYTES), STAGE_KNOWN);
	CHECK_EQ(stage_state(&stage, 2 * STAGE_STEP_BYTES), STAGE_EMPTY);
	CHECK_EQ(stage_state(&stage, 3 * STAGE_STEP_BYTES), STAGE_KNOWN);
	CHECK_EQ(base[2 * STAGE_STEP_BYTES - 1], 0x5a);
	CHECK_EQ(base[2 * STAGE_STEP_BYTES], 0);
	CHECK_EQ(base[3 * STAGE_STEP_BYTES - 1], 0);
	CHECK_EQ(base[3 * STAGE_STEP_BYTES], 0x5a);
	/* The last one is shorter. */
	stage_empty_part(&stage, 5 * STAGE_STEP_BYTES, BYTES, part, NULL);
	CHECK_EQ(stage_ready(&stage), 4 * STAGE_STEP_BYTES);
	stage_empty_part(&stage, BYTES, BYTES, part, NULL);
	stage_empty_part(&stage, 0, 7 * STAGE_STEP_BYTES, part, NULL);
	CHECK_EQ(stage_ready(&stage), 0);
	check_met(0, 0);
	stage_give(&stage);
}

/* What is known of content is as old as that, and goes with it. */
static void check_marks(void)
{
	const uint64_t hash[2] = {0, 7}, other[2] = {7, 0}, none[2] = {0};
	struct stage stage = {NULL};

	CHECK(stage_take(&stage, BYTES));
	for (uint64_t at = 0; at + LOOK_BYTES <= BYTES; at += LOOK_BYTES) {
		CHECK(!stage_has(&stage, at, none));
		stage_mark(&stage, at, hash);
		CHECK(stage_has(&stage, at, hash) && !stage_has(&stage, at, other));
	}
	CHECK(!stage_has(&stage, stage.bytes, hash));
	stage_unmark(&stage, LOOK_BYTES);
	CHECK(!stage_has(&stage, LOOK_BYTES, hash) && stage_has(&stage, 2 * LOOK_BYTES, hash));
	stage_empty_part(&stage, STAGE_STEP_BYTES, 2 * STAGE_STEP_BYTES, part, NULL);
	CHECK(stage_has(&stage, STAGE_STEP_BYTES - LOOK_BYTES, hash));
	CHECK(!stage_has(&stage, STAGE_STEP_BYTES, hash));
	CHECK(!stage_has(&stage, 2 * STAGE_STEP_BYTES - LOOK_BYTES, hash));
	CHECK(stage_has(&stage, 2 * STAGE_STEP_BYTES, hash));
	stage_empty(&stage);
	CHECK(!stage_has(&stage, 2 * STAGE_STEP_BYTES, hash));
	stage_mark(&stage, 0, hash);
	stage_give(&stage);
	CHECK(stage_take(&stage, BYTES));
	CHECK(!stage_has(&stage, 0, hash));
	stage_give(&stage);
}

static uint32_t word_of(const struct stage *stage, uint64_t at)
{
	uint32_t word = 0;

	CHECK(stage_is_empty(stage, at, &word));
	return word;
}

static void count_synced(void *arg, uint64_t bytes)
{
	*(uint64_t *)arg += bytes;
}

static bool write_empty(struct stage *stage)
{
	uint64_t synced = 0;

	return stage_write_empty(stage, BYTES, UINT64_MAX, count_synced, &synced);
}

/* Somebody outside wrote the pages, then the content was copied back, and zeros have come in its place. */
static void check_empty_of_what_was_put_back(void)
{
	struct stage stage = {NULL};

	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	memset(base, 0x5a, STAGE_STEP_BYTES);
	stage_keep(&stage, 0, LOOK_BYTES);
	CHECK(stage_bring(&stage, LOOK_BYTES, LOOK_BYTES, false));
	stage_set_empty(&stage, LOOK_BYTES, 0);
	CHECK(write_empty(&stage));
	CHECK_EQ(base[LOOK_BYTES], 0);
	stage_give(&stage);
}

/* Marks behind the content are of an earlier one and not written, and the host's room is not exceeded. */
static void check_empty_in_bounds(void)
{
	struct stage stage = {NULL};
	uint64_t synced = 0;

	CHECK(stage_take(&stage, BYTES));
	for (uint64_t at = 0; at < STAGE_STEP_BYTES; at += LOOK_BYTES)
		stage_set_empty(&stage, at, 7);
	CHECK(!stage_write_empty(&stage, 2 * LOOK_BYTES, 2 * LOOK_BYTES - 1, count_synced, &synced));
	CHECK_EQ(synced, 0);
	CHECK(stage_write_empty(&stage, 2 * LOOK_BYTES, 2 * LOOK_BYTES, count_synced, &synced));
	CHECK_EQ(synced, 2 * LOOK_BYTES);
	CHECK_EQ(stage_spared(&stage, 0, BYTES), STAGE_STEP_BYTES - 2 * LOOK_BYTES);
	stage_give(&stage);
}

/* A granule of one word has no pages. It is written if somebody outside is to read it. */
static void check_empty(void)
{
	const uint64_t hash[2] = {3, 4};
	const uint64_t content = 2 * STAGE_STEP_BYTES + LOOK_BYTES;
	struct stage stage = {NULL};
	uint32_t word = 5;

	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	stage_set_empty(&stage, content, 9);
	stage_unmark(&stage, content);
	CHECK(!stage_is_empty(&stage, content, &word) && word == 5);
	CHECK(!stage_is_empty(&stage, stage.bytes, &word));
	for (uint64_t at = 0; at < 3 * STAGE_STEP_BYTES; at += LOOK_BYTES)
		if (at != content)
			stage_set_empty(&stage, at, at < STAGE_STEP_BYTES ? 0 : 0x7fc00001);
	CHECK(stage_bring(&stage, content, LOOK_BYTES, true));
	memset(base + content, 0x5a, LOOK_BYTES);
	stage_keep(&stage, 0, 3 * STAGE_STEP_BYTES);
	CHECK_EQ(stage_state(&stage, STAGE_STEP_BYTES), STAGE_EMPTY);
	CHECK_EQ(stage_state(&stage, content), STAGE_READY);
	CHECK_EQ(stage_ready(&stage), LOOK_BYTES);
	CHECK_EQ(stage_spared(&stage, 0, BYTES), 3 * STAGE_STEP_BYTES - LOOK_BYTES);
	/* Of the step with content, too: with what is ready that is all of them. */
	CHECK_EQ(stage_spared_steps(&stage), 3 * STAGE_STEP_BYTES - LOOK_BYTES);
	/* Nobody finds pages for it ahead. */
	stage_begin_ahead(&stage, 3 * STAGE_STEP_BYTES, 0, meet, (void *)42);
	while (stage_is_at_work(&stage))
		usleep(1000);
	stage_end(&stage);
	check_met(0, 0);
	CHECK_EQ(stage_ready(&stage), LOOK_BYTES);
	/* It has a word or a hash. */
	stage_mark(&stage, 0, hash);
	CHECK(!stage_has(&stage, 0, hash));
	stage_mark(&stage, content, hash);
	CHECK(stage_has(&stage, content, hash));
	CHECK_EQ(word_of(&stage, STAGE_STEP_BYTES), 0x7fc00001);

	CHECK(write_empty(&stage));
	CHECK_EQ(*(uint32_t *)(base + STAGE_STEP_BYTES), 0x7fc00001);
	CHECK_EQ(*(uint32_t *)(base + content - 4), 0x7fc00001);
	CHECK_EQ(*(uint32_t *)(base + content), 0x5a5a5a5a);
	/* A granule that reads as zero need not be written. */
	CHECK_EQ(stage_spared(&stage, 0, BYTES), STAGE_STEP_BYTES);
	CHECK_EQ(base[0], 0);
	/* But where other content was. */
	stage_set_empty(&stage, content, 0);
	CHECK(!stage_has(&stage, content, hash));
	CHECK(write_empty(&stage));
	CHECK_EQ(*(uint32_t *)(base + content), 0);
	stage_empty(&stage);
	CHECK(!stage_is_empty(&stage, 0, &word));
	CHECK_EQ(stage_spared(&stage, 0, BYTES), 0);
	stage_give(&stage);
	CHECK(write_empty(&stage));
}

/* A granule of one word is not in the file, until somebody is to read it there. */
static void check_empty_of_file(const char *dir)
{
	struct stage stage = {NULL};
	uint32_t word;

	CHECK(stage_take(&stage, BYTES));
	stage_set_empty(&stage, 2 * STAGE_STEP_BYTES, 1);
	CHECK_EQ(stage_take_file(&stage, STAGE_STEP_BYTES, dir), 0);
	CHECK(!stage_is_empty(&stage, 2 * STAGE_STEP_BYTES, &word));
	stage_set_empty(&stage, 2 * STAGE_STEP_BYTES, 7);
	stage_set_empty(&stage, 3 * STAGE_STEP_BYTES, 0);
	CHECK(write_empty(&stage));
	CHECK_EQ(*(uint32_t *)(stage.at + 2 * STAGE_STEP_BYTES + LOOK_BYTES - 4), 7);
	CHECK_EQ(*(uint32_t *)(stage.at + 3 * STAGE_STEP_BYTES), 0);
	stage_give_file(&stage);
	CHECK(!stage_is_empty(&stage, 2 * STAGE_STEP_BYTES, &word));
	stage_give(&stage);
}

/* That of a file goes with the file, and is not known. */
static void check_marks_of_file(const char *dir)
{
	const uint64_t hash[2] = {1, 2};
	struct stage stage = {NULL};

	CHECK(stage_take(&stage, BYTES));
	stage_mark(&stage, 2 * STAGE_STEP_BYTES, hash);
	CHECK_EQ(stage_take_file(&stage, STAGE_STEP_BYTES, dir), 0);
	CHECK(!stage_has(&stage, 2 * STAGE_STEP_BYTES, hash));
	stage_mark(&stage, 2 * STAGE_STEP_BYTES, hash);
	CHECK(!stage_has(&stage, 2 * STAGE_STEP_BYTES, hash));
	stage_give(&stage);
}

static bool is_there(char *at, uint64_t bytes)
{
	static unsigned char there[STAGE_STEP_BYTES / 4096];

	CHECK_EQ(mincore(at, bytes, there), 0);
	for (uint64_t i = 0; i < bytes / 4096; i++)
		if (!(there[i] & 1))
			return false;
	return true;
}

/* Who copies by parts brings them in, and says which steps they were; the driver may learn of them. */
static void check_parts(void)
{
	struct stage stage = {NULL};

	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	CHECK(stage_bring(&stage, STAGE_STEP_BYTES, 4096, true));
	base[STAGE_STEP_BYTES] = 0x5a;
	/* Also what is read first, where somebody put content and left out what is zero. */
	CHECK(stage_bring(&stage, STAGE_STEP_BYTES, STAGE_STEP_BYTES, false));
	CHECK(is_there(base + STAGE_STEP_BYTES, STAGE_STEP_BYTES));
	CHECK_EQ(stage_ready(&stage), 0);
	stage_keep(&stage, STAGE_STEP_BYTES, STAGE_STEP_BYTES + 4096);
	CHECK_EQ(stage_ready(&stage), STAGE_STEP_BYTES);
	CHECK_EQ(stage_state(&stage, STAGE_STEP_BYTES), STAGE_READY);
	CHECK_EQ(stage_state(&stage, 0), STAGE_EMPTY);
	/* Of what is there, and of nothing else. */
	stage_begin_ahead(&stage, BYTES, UINT64_MAX, meet, (void *)42);
	await_known(&stage, STAGE_STEP_BYTES, 2 * STAGE_STEP_BYTES);
	check_met(1, 2);
	CHECK_EQ(stage_ready(&stage), STAGE_STEP_BYTES);
	stage_part(&stage, part, NULL);
	/* It does not, at first; and who copies leaves what is ready as it is. */
	refuses = true;
	stage_begin(&stage, 0, BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES, true));
	stage_end(&stage);
	refuses = false;
	check_met(0, 0);
	CHECK_EQ(stage_ready(&stage), BYTES);
	stage_begin(&stage, 0, BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES, true));
	stage_end(&stage);
	check_met(0, 0);
	stage_begin_ahead(&stage, BYTES, 0, meet, (void *)42);
	await_known(&stage, 0, BYTES);
	check_met(0, STEPS);
	CHECK_EQ(base[STAGE_STEP_BYTES], 0x5a);
	/* What was known stays so. */
	stage_keep(&stage, 0, BYTES);
	CHECK_EQ(stage_state(&stage, 0), STAGE_KNOWN);
	stage_part(&stage, part, NULL);
	check_met(0, 0);
	stage_give(&stage);
}

/* Without threads whoever copies does all of it. */
static void check_alone(void)
{
	struct stage stage = {NULL};

	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	stage_begin(&stage, 0, 0, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES, true));
	stage_end(&stage);
	check_met(0, STEPS);
	stage_part(&stage, part, NULL);
	stage_give(&stage);
}

/* Memory that cannot be had is an error, and is tried again the next time. */
static void check_none(void)
{
	struct stage stage = {NULL};

	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	CHECK_EQ(munmap(base + STAGE_STEP_BYTES, 4096), 0);
	stage_begin(&stage, 0, BYTES, meet, (void *)42);
	CHECK(!stage_await(&stage, 0, BYTES, true));
	stage_end(&stage);
	CHECK_EQ(met[1], 0);
	CHECK(mmap(base + STAGE_STEP_BYTES, 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == base + STAGE_STEP_BYTES);
	stage_begin(&stage, 0, BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES, true));
	stage_end(&stage);
	check_met(0, STEPS);
	stage_part(&stage, part, NULL);
	stage_give(&stage);
}

#define HOST (2 * STAGE_STEP_BYTES)

static void fill(uint64_t salt)
{
	for (uint64_t i = 0; i < BYTES; i += sizeof(i))
		*(uint64_t *)(base + i) = i * UINT64_C(0x9e3779b97f4a7c15) + salt;
}

static void check_content(uint64_t salt)
{
	for (uint64_t i = 0; i < BYTES; i += sizeof(i))
		CHECK_EQ(*(uint64_t *)(base + i), i * UINT64_C(0x9e3779b97f4a7c15) + salt);
}

/* How many descriptors there are, and how many bytes the disk has less. */
static unsigned int files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 100; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/*
 * Its end is a file's: of that no driver is told, no thread makes it ready, and all reads as
 * before.
 */
static void check_file(const char *dir)
{
	struct stage stage = {NULL};
	unsigned int before = files();
	uint64_t synced = 0;

	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	CHECK_EQ(stage_filed(&stage, 0, BYTES), 0);
	CHECK(stage_suits(&stage, BYTES, HOST));
	CHECK_EQ(stage_take_file(&stage, HOST, dir), 0);
	CHECK_EQ(reserved, BYTES - HOST);
	CHECK_EQ(files(), before);
	CHECK_EQ(stage_filed(&stage, 0, BYTES), BYTES - HOST);
	CHECK_EQ(stage_filed(&stage, HOST - 4096, 8192), 4096);
	CHECK_EQ(stage_filed(&stage, 0, HOST), 0);
	stage_begin(&stage, 0, BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES, true));
	stage_end(&stage);
	check_met(0, HOST / STAGE_STEP_BYTES);
	CHECK_EQ(stage_ready(&stage), HOST);
	fill(1);
	CHECK(stage_sync(&stage, count_synced, &synced));
	CHECK_EQ(synced, BYTES - HOST);
	stage_begin(&stage, HOST + 1, BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES, false));
	stage_end(&stage);
	check_content(1);
	/* A disk that fails says so where its content was last seen whole elsewhere. */
	fails = EIO;
	CHECK(!stage_sync(&stage, count_synced, &synced));
	CHECK_EQ(stage.error, -EIO);
	fails = 0;
	CHECK(stage_sync(&stage, count_synced, &synced));
	CHECK_EQ(stage.error, 0);
	check_content(1);
	/* Host memory again, of which what was ready stays so, and then a larger file. */
	CHECK(stage_suits(&stage, BYTES, HOST));
	CHECK(!stage_suits(&stage, BYTES, STAGE_STEP_BYTES));
	CHECK(!stage_suits(&stage, BYTES - 4096, HOST));
	stage_give_file(&stage);
	CHECK_EQ(stage_filed(&stage, 0, BYTES), 0);
	CHECK_EQ(stage_ready(&stage), HOST);
	CHECK_EQ(base[HOST], 0);
	stage_part(&stage, part, NULL);
	CHECK(!stage_suits(&stage, BYTES, 0));
	stage_empty(&stage);
	CHECK(stage_suits(&stage, BYTES, 0));
	CHECK_EQ(stage_take_file(&stage, 0, dir), 0);
	stage_begin(&stage, 0, BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES, true));
	stage_end(&stage);
	CHECK_EQ(stage_ready(&stage), 0);
	fill(2);
	CHECK(stage_sync(&stage, count_synced, &synced));
	check_content(2);
	stage_give(&stage);
	check_met(0, 0);
}

/* The file ends before its mapping, as where a disk has lost something: no signal. */
static void check_lost(const char *dir)
{
	struct stage stage = {NULL};
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK(stage_take(&stage, BYTES));
	CHECK_EQ(stage_take_file(&stage, HOST, dir), 0);
	CHECK(mmap(stage.at + HOST, BYTES - HOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		   0) == stage.at + HOST);
	close(fd);
	for (int write = 0; write < 2; write++) {
		CHECK(!stage_await(&stage, HOST, BYTES, write));
		CHECK_EQ(stage.error, -EIO);
	}
	CHECK(stage_await(&stage, 0, HOST, true));
	CHECK_EQ(stage.error, 0);
	stage_give(&stage);
}

static void check_no_file(const char *dir)
{
	struct stage stage = {NULL};
	unsigned int before = files();

	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	CHECK_EQ(stage_take_file(&stage, HOST, "/dev/shm"), -EMEDIUMTYPE);
	CHECK_EQ(stage.error, -EMEDIUMTYPE);
	CHECK_EQ(stage_take_file(&stage, HOST, "/proc"), -EOPNOTSUPP);
	CHECK_EQ(stage_take_file(&stage, HOST, "/nowhere"), -ENOENT);
	CHECK_EQ(stage_take_file(&stage, HOST, "/proc/self"), -ENOTDIR);
	full = ENOSPC;
	CHECK_EQ(stage_take_file(&stage, HOST, dir), -ENOSPC);
	full = 0;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &(struct rlimit){HOST, RLIM_INFINITY}), 0);
	CHECK_EQ(stage_take_file(&stage, HOST, dir), -EFBIG);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}), 0);
	old_kernel = true;
	CHECK_EQ(stage_take_file(&stage, HOST, dir), -ENOSYS);
	old_kernel = false;
	CHECK_EQ(files(), before);
	/* It is host memory, as it was. */
	CHECK_EQ(stage_filed(&stage, 0, BYTES), 0);
	stage_begin(&stage, 0, BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES, true));
	stage_end(&stage);
	CHECK_EQ(stage_ready(&stage), BYTES);
	stage_part(&stage, part, NULL);
	stage_give(&stage);
}

/* A directory on a disk that has files without names, if there is one. */
static const char *find_disk(void)
{
	static const char *const dirs[] = {".", "/var/tmp", "/tmp"};
	static char path[PATH_MAX];
	int fd;

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		fd = realpath(dirs[i], path) ? unnamed_file_open(path, 4096) : -ENOENT;
		if (fd >= 0) {
			close(fd);
			return path;
		}
	}
	return NULL;
}

int main(void)
{
	const char *disk = find_disk();

	check_steps();
	check_ahead();
	check_pages_first();
	check_one_for_each();
	check_busy();
	check_least();
	check_empty_part();
	check_marks();
	check_empty();
	check_empty_of_what_was_put_back();
	check_empty_in_bounds();
	old_kernel = true;
	check_steps();
	old_kernel = false;
	check_parts();
	check_alone();
	check_none();
	if (disk) {
		check_file(disk);
		check_marks_of_file(disk);
		check_empty_of_file(disk);
		check_lost(disk);
		check_no_file(disk);
	}
	return 0;
}
