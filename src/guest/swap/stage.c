/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/stage.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/futex.h"
#include "base/host_memory.h"
#include "base/number.h"
#include "base/pages.h"
#include "base/populate.h"
#include "base/unnamed_file.h"
#include "base/word.h"
#include "guest/core/guest.h"
#include "guest/process/thread.h"

/*
 * Pages that the kernel clears come at 25 to 30 GB/s with 6 threads as with 15, and a driver that
 * pins it takes no longer when each of them asks (H200, 16 processors; one thread: 5.6 GB/s).
 */
#define MOST 10

/* Written to the disk at once: a second's work of a slow one. */
#define SYNC_BYTES (UINT64_C(64) << 20)

/* Steps of a file that are read from the disk while one is copied. */
#define AHEAD 3

static uint64_t stage_steps(const struct stage *stage)
{
	return (stage->bytes + STAGE_STEP_BYTES - 1) / STAGE_STEP_BYTES;
}

static uint64_t stage_step_bytes(const struct stage *stage, uint64_t i)
{
	uint64_t left = stage->bytes - i * STAGE_STEP_BYTES;

	return left < STAGE_STEP_BYTES ? left : STAGE_STEP_BYTES;
}

/* --- What is known of its content ------------------------------------------------------------ */

static uint64_t stage_marks(const struct stage *stage)
{
	return stage->bytes / LOOK_BYTES;
}

void stage_mark(struct stage *stage, uint64_t at, const uint64_t hash[2])
{
	if (at + LOOK_BYTES <= stage->host_bytes && !stage->mark[at / LOOK_BYTES].empty)
		memcpy(stage->mark[at / LOOK_BYTES].hash, hash, sizeof(stage->mark->hash));
}

void stage_unmark(struct stage *stage, uint64_t at)
{
	struct stage_mark *mark = &stage->mark[at / LOOK_BYTES];

	if (at / LOOK_BYTES >= stage_marks(stage))
		return;
	memset(mark->hash, 0, sizeof(mark->hash));
	mark->empty = false;
}

/* The pages of [from, to) are there, or have gone. */
static void stage_set_brought(struct stage *stage, uint64_t from, uint64_t to, bool brought)
{
	for (uint64_t i = from / LOOK_BYTES; i * LOOK_BYTES < to && i < stage_marks(stage); i++)
		atomic_store_explicit(&stage->mark[i].brought, brought, memory_order_relaxed);
}

/* The content of [from, to) is nobody's any more; its pages may have gone, too. */
static void stage_unmark_all(struct stage *stage, uint64_t from, uint64_t to, bool gone)
{
	for (uint64_t at = from / LOOK_BYTES * LOOK_BYTES; at < to; at += LOOK_BYTES)
		stage_unmark(stage, at);
	if (gone)
		stage_set_brought(stage, from, to, false);
}

void stage_set_empty(struct stage *stage, uint64_t at, uint32_t word)
{
	struct stage_mark *mark = &stage->mark[at / LOOK_BYTES];

	stage_unmark(stage, at);
	mark->word = word;
	mark->empty = true;
}

bool stage_is_empty(const struct stage *stage, uint64_t at, uint32_t *ret_word)
{
	const struct stage_mark *mark = &stage->mark[at / LOOK_BYTES];

	if (at / LOOK_BYTES >= stage_marks(stage) || !mark->empty)
		return false;
	*ret_word = mark->word;
	return true;
}

/* It is empty and has no pages. */
static bool stage_is_spared(const struct stage *stage, uint64_t i)
{
	return stage->mark[i].empty &&
	       !atomic_load_explicit(&stage->mark[i].brought, memory_order_relaxed);
}

/* How many granules of [from, to) are so. */
static uint64_t stage_count_spared(const struct stage *stage, uint64_t from, uint64_t to)
{
	uint64_t n = 0;

	for (uint64_t i = from / LOOK_BYTES; i < stage_marks(stage) && (i + 1) * LOOK_BYTES <= to; i++)
		n += stage_is_spared(stage, i);
	return n;
}

static uint64_t stage_spared_of(const struct stage *stage, uint64_t step)
{
	uint64_t at = step * STAGE_STEP_BYTES;

	return stage_count_spared(stage, at, at + stage_step_bytes(stage, step)) * LOOK_BYTES;
}

bool stage_knows(const struct stage *stage)
{
	for (uint64_t i = 0; stage->at && i < stage_marks(stage); i++)
		if (stage->mark[i].hash[0] | stage->mark[i].hash[1])
			return true;
	return false;
}

bool stage_has(const struct stage *stage, uint64_t at, const uint64_t hash[2])
{
	const uint64_t *mark;

	if (at / LOOK_BYTES >= stage_marks(stage))
		return false;
	mark = stage->mark[at / LOOK_BYTES].hash;
	return (mark[0] || mark[1]) && !memcmp(mark, hash, sizeof(stage->mark->hash));
}

/* Marks, and behind them steps. */
static uint64_t stage_table_bytes(uint64_t bytes)
{
	struct stage stage = {.bytes = bytes};

	return stage_marks(&stage) * sizeof(*stage.mark) + stage_steps(&stage) * sizeof(*stage.step);
}

/* --- Addresses ------------------------------------------------------------------------------- */

bool stage_take(struct stage *stage, uint64_t bytes)
{
	void *tables;
	char *at;

	stage->error = 0;
	if (stage->at && stage->bytes >= bytes)
		return true;
	stage_give(stage);
	at = pages_reserve(bytes);
	if (!at)
		return false;
	tables = pages_map(stage_table_bytes(bytes));
	if (!tables) {
		munmap(at, bytes);
		return false;
	}
	/* Pages are pinned: a child would get copies of all of them. */
	madvise(at, bytes, MADV_DONTFORK);
	madvise(at, bytes, MADV_HUGEPAGE);
	stage->at = at;
	stage->bytes = stage->host_bytes = bytes;
	stage->mark = tables;
	stage->step = (void *)(stage->mark + stage_marks(stage));
	return true;
}

/* --- A file --------------------------------------------------------------------------------- */

bool stage_suits(const struct stage *stage, uint64_t bytes, uint64_t from)
{
	bool suits = stage->at && stage->bytes == bytes;

	for (uint64_t i = from / STAGE_STEP_BYTES; suits && i < stage_steps(stage); i++)
		suits = atomic_load(&stage->step[i]) < STAGE_READY;
	return suits;
}

/*
 * Over what is there. The mapping keeps the file, and no descriptor of it is there to be inherited.
 */
static int stage_map_file(struct stage *stage, uint64_t from, int fd)
{
	char *at = stage->at + from;
	uint64_t bytes = stage->bytes - from;

	if (!populate_is_known())
		return -ENOSYS;
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		return err_errno();
	madvise(at, bytes, MADV_DONTFORK);
	stage->host_bytes = from;
	return 0;
}

int stage_take_file(struct stage *stage, uint64_t from, const char *dir)
{
	CLEANUP_CLOSE int fd = -EBADF;
	int r;

	stage_give_file(stage);
	stage_unmark_all(stage, from, stage->bytes, true);
	guest_depth++;
	fd = unnamed_file_open(dir, stage->bytes - from);
	guest_depth--;
	FAULT_POINT(GUEST_SWAP_FILE);
	r = fd < 0 ? fd : stage_map_file(stage, from, fd);
	stage->error = r;
	return r;
}

void stage_give_file(struct stage *stage)
{
	uint64_t bytes = stage->bytes - stage->host_bytes;
	char *at;

	if (!bytes)
		return;
	at = stage->at + stage->host_bytes;
	stage_unmark_all(stage, stage->host_bytes, stage->bytes, true);
	/* A child that was forked while it was opened must not keep the room. */
	madvise(at, bytes, MADV_REMOVE);
	if (mmap(at, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return; /* an empty file, until stage_give */
	madvise(at, bytes, MADV_DONTFORK);
	madvise(at, bytes, MADV_HUGEPAGE);
	stage->host_bytes = stage->bytes;
}

uint64_t stage_filed(const struct stage *stage, uint64_t at, uint64_t bytes)
{
	return sat_sub_u64(at + bytes, max_u64(at, stage->host_bytes));
}

/* The disk is asked for what comes next, too, while this is copied. */
static bool stage_bring_file(struct stage *stage, uint64_t at, uint64_t bytes, bool write)
{
	uint64_t ahead = min_u64(stage->bytes - at, AHEAD * STAGE_STEP_BYTES);

	if (!write)
		madvise(stage->at + at, ahead, MADV_WILLNEED);
	if (!madvise(stage->at + at, bytes, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return true;
	/* Where a touch would have been a signal. */
	stage->error = errno == EFAULT ? -EIO : err_errno();
	return false;
}

bool stage_sync(struct stage *stage, stage_synced *synced, void *arg)
{
	uint64_t n;

	stage->error = 0;
	for (uint64_t at = stage->host_bytes; !stage->error && at < stage->bytes; at += n) {
		n = min_u64(stage->bytes - at, SYNC_BYTES);
		if (msync(stage->at + at, n, MS_SYNC) < 0)
			stage->error = err_errno();
		else
			synced(arg, n);
	}
	return !stage->error;
}

/* --- Steps ---------------------------------------------------------------------------------- */

/* A page that cannot be had is an error here, and no signal later. */
static bool stage_populate(volatile char *at, uint64_t bytes)
{
	if (!madvise((char *)at, bytes, MADV_POPULATE_WRITE))
		return true;
	if (errno != EINVAL || populate_is_known())
		return false;
	/* Kernels before 5.14 do not know it. There may be content already, which stays. */
	for (uint64_t i = 0; i < bytes; i += 4096) {
		char c = at[i];

		at[i] = c;
	}
	return true;
}

bool stage_bring(struct stage *stage, uint64_t at, uint64_t bytes, bool write)
{
	bool ready = at < stage->host_bytes && !write && stage_state(stage, at) >= STAGE_READY;

	if (ready) {
		/* Pages of a step that is ready may have come from outside: what is copied back has content. */
		stage_set_brought(stage, at, at + bytes, true);
		return true;
	}
	if (at >= stage->host_bytes ? !stage_bring_file(stage, at, bytes, write)
				    : !stage_populate(stage->at + at, bytes))
		return false;
	stage_set_brought(stage, at, at + bytes, true);
	return true;
}

/* A granule that reads as zero need not be written to be that. */
static bool stage_is_written(const struct stage *stage, uint64_t i)
{
	return stage->mark[i].empty && (stage->mark[i].word || !stage_is_spared(stage, i));
}

bool stage_write_empty(struct stage *stage, uint64_t to, uint64_t room, stage_synced *synced, void *arg)
{
	uint64_t n = min_u64(to / LOOK_BYTES, stage_marks(stage)), takes = 0;

	stage->error = 0;
	for (uint64_t i = 0; i < n && i < stage->host_bytes / LOOK_BYTES; i++)
		takes += stage_is_written(stage, i) && stage_is_spared(stage, i) ? LOOK_BYTES : 0;
	if (takes > room)
		return false;
	for (uint64_t i = 0; i < n; i++) {
		const struct stage_mark *mark = &stage->mark[i];
		char *at = stage->at + i * LOOK_BYTES;

		if (!stage_is_written(stage, i))
			continue;
		if (!stage_bring(stage, i * LOOK_BYTES, LOOK_BYTES, true))
			return false;
		for (uint64_t at_word = 0; at_word < LOOK_BYTES; at_word += sizeof(mark->word))
			memcpy(at + at_word, &mark->word, sizeof(mark->word));
		synced(arg, LOOK_BYTES);
	}
	return true;
}

/* The thread that finds a step in state `found` makes it ready, or known. */
static void stage_make(struct stage *stage, uint64_t i, enum stage_state found, stage_meet *meet)
{
	uint32_t was = found, state = STAGE_FAILED;
	char *at = stage->at + i * STAGE_STEP_BYTES;
	uint64_t bytes = stage_step_bytes(stage, i);

	if (!atomic_compare_exchange_strong(&stage->step[i], &was, STAGE_TAKEN))
		return;
	if (stage_populate(at, bytes)) {
		stage_set_brought(stage, i * STAGE_STEP_BYTES, i * STAGE_STEP_BYTES + bytes, true);
		state = meet && meet(stage->arg, at, bytes) ? STAGE_KNOWN : STAGE_READY;
	}
	atomic_store(&stage->step[i], state);
	futex_wake_all(&stage->step[i]);
}

static bool stage_may_find(struct stage *stage, const struct stage_pass *pass)
{
	if (stage->busy && word_read(stage->busy)) {
		atomic_store(&stage->called_off, true);
		return false;
	}
	return !pass->least || host_memory_own_room() >= pass->least;
}

/* A step that was being made ready when the next pass came to it was left out there. */
static void stage_make_up(struct stage *stage, int p, uint64_t i)
{
	if (p < stage->passes && atomic_load(&stage->next[p]) > i && i < atomic_load(&stage->end))
		stage_make(stage, i, stage->pass[p].found, stage->pass[p].meet);
}

/* It had no pages for what was empty when it last left: it will hardly need them. */
static bool stage_is_left_out(const struct stage *stage, uint64_t i)
{
	uint64_t spared = stage_spared_of(stage, i);

	return spared && (spared == stage_step_bytes(stage, i) ||
			  atomic_load(&stage->step[i]) == STAGE_READY);
}

static void stage_work_pass(struct stage *stage, int p)
{
	const struct stage_pass *pass = &stage->pass[p];
	uint64_t i;

	if (pass->most && atomic_fetch_add(&stage->came[p], 1) >= pass->most)
		return;
	while ((i = atomic_fetch_add(&stage->next[p], 1)) < atomic_load(&stage->end)) {
		if (atomic_load(&stage->step[i]) != pass->found || stage_is_left_out(stage, i))
			continue;
		if (!stage_may_find(stage, pass))
			return;
		stage_make(stage, i, pass->found, pass->meet);
		stage_make_up(stage, p + 1, i);
	}
}

static void *stage_work(void *arg)
{
	struct stage *stage = arg;

	prctl(PR_SET_NAME, "allot-touch");
	for (int p = 0; p < stage->passes; p++)
		stage_work_pass(stage, p);
	if (atomic_fetch_sub(&stage->working, 1) == 1)
		futex_wake_all(&stage->working);
	return NULL;
}

uint64_t stage_processors(void)
{
	cpu_set_t cpus;

	return sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (uint64_t)CPU_COUNT(&cpus);
}

static void stage_start(struct stage *stage, uint64_t from, uint64_t to, uint64_t n, void *arg,
			const struct stage_pass pass[], int passes)
{
	uint64_t first = from / STAGE_STEP_BYTES;
	uint64_t end = (min_u64(to, stage->host_bytes) + STAGE_STEP_BYTES - 1) / STAGE_STEP_BYTES;

	stage->arg = arg;
	stage->passes = passes;
	atomic_store(&stage->called_off, false);
	for (int p = 0; p < passes; p++) {
		stage->pass[p] = pass[p];
		atomic_store(&stage->next[p], first);
		atomic_store(&stage->came[p], 0);
	}
	atomic_store(&stage->end, end);
	/* Steps that failed are tried again; ready ones stay so. */
	for (uint64_t i = first; i < end; i++)
		if (atomic_load(&stage->step[i]) == STAGE_FAILED)
			atomic_store(&stage->step[i], STAGE_EMPTY);
	n = first < end ? min_u64(min_u64(n, MOST), end - first) : 0;
	for (; n; n--) {
		atomic_fetch_add(&stage->working, 1);
		if (thread_start(stage_work, stage)) {
			atomic_fetch_sub(&stage->working, 1);
			break;
		}
	}
}

void stage_begin(struct stage *stage, uint64_t from, uint64_t to, stage_meet *meet, void *arg)
{
	const struct stage_pass pass = {.found = STAGE_EMPTY, .meet = meet};

	/* The copying thread needs a processor, too. */
	stage_start(stage, from, to, stage_processors() - 1, arg, &pass, 1);
}

void stage_begin_ahead(struct stage *stage, uint64_t to, uint64_t least, stage_meet *meet,
		       void *arg)
{
	uint64_t processors = stage_processors();
	const struct stage_pass known = {
		.found = STAGE_READY, .meet = meet, .most = (processors + 3) / 4};
	const struct stage_pass pass[] = {known, {.found = STAGE_EMPTY, .least = least}, known};

	stage_start(stage, 0, to, (processors + 1) / 2, arg, pass, STAGE_PASSES);
}

bool stage_is_at_work(const struct stage *stage)
{
	return atomic_load(&stage->working);
}

bool stage_has_finished(const struct stage *stage)
{
	return atomic_load(&stage->end) && !stage_is_at_work(stage) &&
	       !atomic_load(&stage->called_off);
}

bool stage_await(struct stage *stage, uint64_t from, uint64_t to, bool write)
{
	uint64_t end = (to + STAGE_STEP_BYTES - 1) / STAGE_STEP_BYTES;

	stage->error = 0;
	for (uint64_t i = from / STAGE_STEP_BYTES; i < end; i++) {
		if (i * STAGE_STEP_BYTES >= stage->host_bytes) {
			if (!stage_bring(stage, i * STAGE_STEP_BYTES, stage_step_bytes(stage, i),
					 write))
				return false;
			continue;
		}
		stage_make(stage, i, STAGE_EMPTY, stage->pass[0].meet);
		while (atomic_load(&stage->step[i]) == STAGE_TAKEN)
			futex_wait(&stage->step[i], STAGE_TAKEN);
		if (atomic_load(&stage->step[i]) < STAGE_READY)
			return false;
	}
	return true;
}

void stage_keep(struct stage *stage, uint64_t from, uint64_t to)
{
	uint64_t end = (min_u64(to, stage->host_bytes) + STAGE_STEP_BYTES - 1) / STAGE_STEP_BYTES;

	for (uint64_t i = from / STAGE_STEP_BYTES; i < end; i++) {
		uint64_t begin = max_u64(from, i * STAGE_STEP_BYTES);
		uint64_t behind = min_u64(to, i * STAGE_STEP_BYTES + stage_step_bytes(stage, i));
		uint64_t spared = stage_count_spared(stage, begin, behind);

		if (spared * LOOK_BYTES < behind - begin &&
		    atomic_load(&stage->step[i]) < STAGE_READY)
			atomic_store(&stage->step[i], STAGE_READY);
	}
}

enum stage_state stage_state(const struct stage *stage, uint64_t at)
{
	return atomic_load(&stage->step[at / STAGE_STEP_BYTES]);
}

enum swap_why stage_why(const struct stage *stage)
{
	return stage->error ? SWAP_FILE : SWAP_HOST;
}

void stage_end(struct stage *stage)
{
	uint32_t working;

	atomic_store(&stage->end, 0);
	while ((working = atomic_load(&stage->working)))
		futex_wait(&stage->working, working);
}

static void stage_part_step_of(struct stage *stage, uint64_t i, stage_part_step *part, void *arg)
{
	if (atomic_load(&stage->step[i]) != STAGE_KNOWN)
		return;
	part(arg, stage->at + i * STAGE_STEP_BYTES, stage_step_bytes(stage, i));
	atomic_store(&stage->step[i], STAGE_READY);
}

void stage_part(struct stage *stage, stage_part_step *part, void *arg)
{
	for (uint64_t i = 0; stage->at && i < stage_steps(stage); i++)
		stage_part_step_of(stage, i, part, arg);
}

uint64_t stage_ready(const struct stage *stage)
{
	uint64_t bytes = 0;

	for (uint64_t i = 0; stage->at && i < stage_steps(stage); i++)
		if (atomic_load(&stage->step[i]) >= STAGE_READY)
			bytes += stage_step_bytes(stage, i) - stage_spared_of(stage, i);
	return bytes;
}

uint64_t stage_spared(const struct stage *stage, uint64_t from, uint64_t to)
{
	return stage->at ? stage_count_spared(stage, from, to) * LOOK_BYTES : 0;
}

uint64_t stage_spared_steps(const struct stage *stage)
{
	uint64_t bytes = 0;

	for (uint64_t i = 0; stage->at && i < stage_steps(stage); i++) {
		uint64_t spared = stage_spared_of(stage, i);

		if (spared == stage_step_bytes(stage, i) || atomic_load(&stage->step[i]) >= STAGE_READY)
			bytes += spared;
	}
	return bytes;
}

/* Returns pages to the host. A program that locks its memory keeps them: they have content still. */
static void stage_drop(struct stage *stage, uint64_t at, uint64_t bytes)
{
	bool gone = !madvise(stage->at + at, bytes, MADV_DONTNEED);

	stage_unmark_all(stage, at, at + bytes, gone);
}

void stage_empty(struct stage *stage)
{
	stage_give_file(stage);
	if (!stage->at)
		return;
	stage_drop(stage, 0, stage->bytes);
	for (uint64_t i = 0; i < stage_steps(stage); i++)
		atomic_store(&stage->step[i], STAGE_EMPTY);
}

void stage_empty_part(struct stage *stage, uint64_t from, uint64_t to, stage_part_step *part,
		      void *arg)
{
	uint64_t i = (from + STAGE_STEP_BYTES - 1) / STAGE_STEP_BYTES;

	to = min_u64(to, stage->host_bytes);
	for (; i * STAGE_STEP_BYTES < to; i++) {
		if (i * STAGE_STEP_BYTES + stage_step_bytes(stage, i) > to)
			break;
		stage_part_step_of(stage, i, part, arg);
		stage_drop(stage, i * STAGE_STEP_BYTES, stage_step_bytes(stage, i));
		atomic_store(&stage->step[i], STAGE_EMPTY);
	}
}

void stage_give(struct stage *stage)
{
	if (!stage->at)
		return;
	stage_give_file(stage);
	munmap(stage->mark, stage_table_bytes(stage->bytes));
	munmap(stage->at, stage->bytes);
	stage->at = NULL;
	stage->mark = NULL;
	stage->step = NULL;
	stage->bytes = stage->host_bytes = 0;
}
