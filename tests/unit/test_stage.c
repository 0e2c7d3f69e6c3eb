/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory in steps, which several threads make ready at once. */
#include "guest/swap/stage.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/check.h"

#define STEPS 7
#define BYTES (STEPS * STAGE_STEP_BYTES - 4096) /* the last one is shorter */

static _Atomic unsigned int met[STEPS];
static _Atomic uint64_t met_bytes;
static char *base;

/* A kernel before 5.14 knows no advice of this number. */
static bool old_kernel;

int __real_madvise(void *at, size_t len, int advice);
int __wrap_madvise(void *at, size_t len, int advice);
int __wrap_madvise(void *at, size_t len, int advice)
{
	if (!old_kernel || advice != 23)
		return __real_madvise(at, len, advice);
	errno = EINVAL;
	return -1;
}

static void meet(void *arg, char *at, uint64_t bytes)
{
	CHECK_EQ((uintptr_t)arg, 42);
	met[(uint64_t)(at - base) / STAGE_STEP_BYTES]++;
	met_bytes += bytes;
}

static void part(void *arg, char *at, uint64_t bytes)
{
	(void)arg;
	met[(uint64_t)(at - base) / STAGE_STEP_BYTES]--;
	met_bytes -= bytes;
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
	CHECK(stage_await(&stage, 2 * STAGE_STEP_BYTES + 1, 4 * STAGE_STEP_BYTES));
	stage_end(&stage);
	check_met(2, 4);
	CHECK_EQ(stage_ready(&stage), 2 * STAGE_STEP_BYTES);
	memset(base + 2 * STAGE_STEP_BYTES, 0x5a, 2 * STAGE_STEP_BYTES);
	/* All of it: what is ready stays as it is. */
	CHECK(stage_take(&stage, BYTES));
	CHECK(stage.at == base);
	stage_begin(&stage, 0, BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES));
	stage_end(&stage);
	check_met(0, STEPS);
	CHECK_EQ(stage_ready(&stage), BYTES);
	CHECK_EQ(met_bytes, BYTES);
	CHECK_EQ(base[2 * STAGE_STEP_BYTES], 0x5a);
	CHECK_EQ(base[4 * STAGE_STEP_BYTES - 1], 0x5a);
	/* The driver forgets it, and then learns of it anew, with what is in it. */
	stage_part(&stage, part, NULL);
	check_met(0, 0);
	CHECK_EQ(stage_ready(&stage), 0);
	CHECK_EQ(base[2 * STAGE_STEP_BYTES], 0x5a);
	stage_begin(&stage, 0, BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES));
	stage_end(&stage);
	check_met(0, STEPS);
	CHECK_EQ(base[2 * STAGE_STEP_BYTES], 0x5a);
	stage_part(&stage, part, NULL);
	stage_empty(&stage);
	CHECK_EQ(base[2 * STAGE_STEP_BYTES], 0);
	stage_give(&stage);
	CHECK(!stage.at);
	stage_give(&stage);
}

/* Without threads whoever copies does all of it. */
static void check_alone(void)
{
	struct stage stage = {NULL};

	CHECK(stage_take(&stage, BYTES));
	base = stage.at;
	stage_begin(&stage, 0, 0, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES));
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
	CHECK(!stage_await(&stage, 0, BYTES));
	stage_end(&stage);
	CHECK_EQ(met[1], 0);
	CHECK(mmap(base + STAGE_STEP_BYTES, 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == base + STAGE_STEP_BYTES);
	stage_begin(&stage, 0, BYTES, meet, (void *)42);
	CHECK(stage_await(&stage, 0, BYTES));
	stage_end(&stage);
	check_met(0, STEPS);
	stage_part(&stage, part, NULL);
	stage_give(&stage);
}

int main(void)
{
	check_steps();
	old_kernel = true;
	check_steps();
	old_kernel = false;
	check_alone();
	check_none();
	return 0;
}
