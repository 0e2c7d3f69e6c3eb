/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaves a device and comes back through buffers, by threads, and past them. The driver that
 * the test plays does nothing before somebody waits for it, so who reads too early finds nothing.
 */
#include "guest/swap/copy.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/word.h"
#include "guest/process/thread.h"
#include "ledger/map.h"
#include "tests/unit/guest_fixture.h"

#define STEPS	11
#define BYTES	(STEPS * STAGE_STEP_BYTES - MIB)
#define QUEUED	256
#define NONE	UINT64_MAX
#define CONTEXT UINT64_C(0x1000)

static struct guest guest;
static char *device_memory;

/* --- The driver ------------------------------------------------------------------------------ */

struct queued {
	void *to;
	const void *from; /* NULL: a word, repeated */
	size_t bytes;
	uint32_t word;
};

static struct queued queue[QUEUED];
static uint64_t queued, executed, fails_at = NONE;
static uint64_t event_at[COPY_BATCHES];
static int events, streams;
static _Atomic int registered, refused;
static _Atomic bool no_events, no_register, no_threads, no_stream, no_buffers, no_room;

static CUresult driver_queue(void *to, const void *from, size_t bytes)
{
	if (queued == fails_at)
		return CUDA_ERROR_LAUNCH_FAILED;
	CHECK(queued - executed < QUEUED);
	queue[queued++ % QUEUED] = (struct queued){to, from, bytes};
	return CUDA_SUCCESS;
}

static CUresult driver_execute(uint64_t until)
{
	for (; executed < until; executed++) {
		const struct queued *next = &queue[executed % QUEUED];

		if (next->from)
			memcpy(next->to, next->from, next->bytes);
		for (size_t i = 0; !next->from && i < next->bytes / 4; i++)
			((uint32_t *)next->to)[i] = next->word;
	}
	return CUDA_SUCCESS;
}

static CUresult driver_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return driver_queue(to, (void *)(uintptr_t)from, bytes);
}

static CUresult driver_back(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return driver_queue((void *)(uintptr_t)to, from, bytes);
}

static CUresult driver_fill(CUdeviceptr to, unsigned int with, size_t n, CUstream stream)
{
	CUresult e = driver_queue((void *)(uintptr_t)to, NULL, 4 * n);

	if (!e)
		queue[(queued - 1) % QUEUED].word = with;
	return e;
}

static CUresult driver_stream(CUstream *ret, unsigned int flags)
{
	if (no_stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	streams++;
	*ret = (CUstream)(uintptr_t)1;
	return CUDA_SUCCESS;
}

static CUresult driver_stream_wait(CUstream stream)
{
	return driver_execute(queued);
}

static CUresult driver_stream_end(CUstream stream)
{
	streams--;
	return CUDA_SUCCESS;
}

static CUresult driver_event(CUevent *ret, unsigned int flags)
{
	if (no_events)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUevent)&event_at[events++];
	return CUDA_SUCCESS;
}

static uint64_t *event_of(CUevent event)
{
	uint64_t *at = (uint64_t *)event;

	CHECK(at >= event_at && at < event_at + COPY_BATCHES);
	return at;
}

static CUresult driver_event_record(CUevent event, CUstream stream)
{
	*event_of(event) = queued;
	return CUDA_SUCCESS;
}

static CUresult driver_event_wait(CUevent event)
{
	return driver_execute(*event_of(event));
}

static CUresult driver_event_end(CUevent event)
{
	event_of(event);
	events--;
	return CUDA_SUCCESS;
}

static CUresult driver_register(void *at, size_t bytes, unsigned int flags)
{
	if (no_register) {
		refused++;
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	registered++;
	return CUDA_SUCCESS;
}

static CUresult driver_unregister(void *at)
{
	registered--;
	return CUDA_SUCCESS;
}

static CUresult driver_push(CUcontext context)
{
	CHECK_EQ((uintptr_t)context, CONTEXT);
	return CUDA_SUCCESS;
}

static CUresult driver_pop(CUcontext *ret)
{
	return CUDA_SUCCESS;
}

static struct fixture_symbol exported[] = {
	{"cuMemcpyDtoHAsync_v2", (void *)driver_out},
	{"cuMemcpyHtoDAsync_v2", (void *)driver_back},
	{"cuMemsetD32Async", (void *)driver_fill},
	{"cuStreamCreate", (void *)driver_stream},
	{"cuStreamSynchronize", (void *)driver_stream_wait},
	{"cuStreamDestroy_v2", (void *)driver_stream_end},
	{"cuEventCreate", (void *)driver_event},
	{"cuEventRecord", (void *)driver_event_record},
	{"cuEventSynchronize", (void *)driver_event_wait},
	{"cuEventDestroy_v2", (void *)driver_event_end},
	{"cuMemHostRegister_v2", (void *)driver_register},
	{"cuMemHostUnregister", (void *)driver_unregister},
	{"cuCtxPushCurrent_v2", (void *)driver_push},
	{"cuCtxPopCurrent_v2", (void *)driver_pop},
	{NULL, NULL},
};

int __real_thread_start(void *(*run)(void *), void *arg);
int __wrap_thread_start(void *(*run)(void *), void *arg);
int __wrap_thread_start(void *(*run)(void *), void *arg)
{
	return no_threads ? -EAGAIN : __real_thread_start(run, arg);
}

bool __real_stage_take(struct stage *stage, uint64_t bytes);
bool __wrap_stage_take(struct stage *stage, uint64_t bytes);
bool __wrap_stage_take(struct stage *stage, uint64_t bytes)
{
	return !(no_buffers && bytes == COPY_BUFFERS_BYTES) && __real_stage_take(stage, bytes);
}

uint64_t __wrap_host_memory_cgroup_room(void);
uint64_t __wrap_host_memory_cgroup_room(void)
{
	return no_room ? COPY_BUFFERS_BYTES - 1 : UINT64_MAX;
}

/* --- Content --------------------------------------------------------------------------------- */

static uint64_t word(uint64_t i, uint64_t salt)
{
	return (i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ salt;
}

static void fill(void *at, uint64_t salt)
{
	for (uint64_t i = 0; i < BYTES / 8; i++)
		((uint64_t *)at)[i] = word(i, salt);
}

static void check_content(const void *at, uint64_t salt)
{
	for (uint64_t i = 0; i < BYTES / 8; i++)
		CHECK_EQ(((const uint64_t *)at)[i], word(i, salt));
}

/* By pieces of all sizes, the smallest of which are more than a batch has spans for. */
static enum swap_why put_all(struct copy *copy)
{
	static const uint64_t sizes[] = {MIB / 2, 2 * MIB, 5 * MIB, 48 * MIB, MIB / 4};
	enum swap_why why = SWAP_FINE;
	uint64_t n;

	for (uint64_t at = 0, i = 0; !why && at < BYTES; at += n, i++) {
		n = sizes[i / 12 % 5];
		n = BYTES - at < n ? BYTES - at : n;
		why = copy_put(copy, (uintptr_t)device_memory + at, at, n);
	}
	return why;
}

static enum swap_why move(struct stage *stage, struct stage *buffers, bool out)
{
	struct copy copy;
	enum swap_why why =
		copy_begin(&copy, &guest, stage, buffers, (CUcontext)CONTEXT, BYTES, out);
	enum swap_why ended;

	if (why)
		return why;
	why = put_all(&copy);
	ended = copy_end(&copy);
	CHECK(!why || ended == why);
	CHECK_EQ(events, 0);
	CHECK_EQ(streams, 0);
	CHECK_EQ(atomic_load(&copy.working), 0);
	return ended;
}

static uint64_t got_on(void)
{
	int i = slot_index(atomic_load(&guest.slot));

	return word_read(&guest.ledger->map->slots[i].swap.amount);
}

/* Out and back, and each byte of it is counted as done. */
static void check_ways(struct stage *stage, struct stage *buffers, uint64_t salt)
{
	uint64_t before = got_on();

	fill(device_memory, salt);
	CHECK_EQ(move(stage, buffers, true), SWAP_FINE);
	check_content(stage->at, salt);
	CHECK_EQ(got_on() - before, BYTES);
	CHECK_EQ(stage_ready(stage), BYTES);
	memset(device_memory, 0, BYTES);
	CHECK_EQ(move(stage, buffers, false), SWAP_FINE);
	check_content(device_memory, salt);
	CHECK_EQ(got_on() - before, 2 * BYTES);
}

static void give(struct stage *stage, struct stage *buffers)
{
	stage_part(stage, copy_part, NULL);
	stage_part(buffers, copy_part, NULL);
	stage_give(stage);
	stage_give(buffers);
	CHECK_EQ(registered, 0);
}

/* For pages that are not there, that are there, and that the driver knows, in part and all. */
static void check_pages(void)
{
	struct stage stage = {NULL}, buffers = {NULL};

	CHECK(stage_take(&stage, BYTES));
	check_ways(&stage, &buffers, 1);
	check_ways(&stage, &buffers, 2);
	CHECK_EQ(registered, 8); /* buffers, and nothing else */
	stage_begin_ahead(&stage, 3 * STAGE_STEP_BYTES, 0, copy_meet, (void *)CONTEXT);
	while (registered < 8 + 3)
		sched_yield();
	stage_end(&stage);
	check_ways(&stage, &buffers, 3);
	give(&stage, &buffers);
	/* Known, and behind that not there. */
	CHECK(stage_take(&stage, BYTES));
	stage_begin(&stage, 0, 3 * STAGE_STEP_BYTES, copy_meet, (void *)CONTEXT);
	CHECK(stage_await(&stage, 0, 3 * STAGE_STEP_BYTES, true));
	stage_end(&stage);
	check_ways(&stage, &buffers, 4);
	give(&stage, &buffers);
}

static void check_poor(_Atomic bool *lacks)
{
	struct stage stage = {NULL}, buffers = {NULL};

	atomic_store(lacks, true);
	CHECK(stage_take(&stage, BYTES));
	check_ways(&stage, &buffers, 5);
	check_ways(&stage, &buffers, 6);
	atomic_store(lacks, false);
	give(&stage, &buffers);
}

/* Every fifth MiB, and a range of some batches, are there already. */
static bool is_passed(uint64_t mib)
{
	return mib % 5 == 0 || (mib > 60 && mib < 100);
}

static enum swap_why put_what_changed(struct copy *copy)
{
	enum swap_why why = SWAP_FINE;
	uint64_t from = 0, to;

	for (; !why && from < BYTES / MIB; from = to) {
		for (to = from; to < BYTES / MIB && is_passed(to) == is_passed(from);)
			to++;
		why = is_passed(from) ? copy_pass(copy, from * MIB, (to - from) * MIB)
				      : copy_put(copy, (uintptr_t)device_memory + from * MIB,
						 from * MIB, (to - from) * MIB);
	}
	return why;
}

/* What passes is not read, and counts as done in its place in the order. */
static void check_passes(void)
{
	struct stage stage = {NULL}, buffers = {NULL};
	struct copy copy;
	uint64_t before;

	CHECK(stage_take(&stage, BYTES));
	for (int known = 0; known < 2; known++) {
		check_ways(&stage, &buffers, 9);
		fill(device_memory, 10);
		before = got_on();
		CHECK_EQ(copy_begin(&copy, &guest, &stage, &buffers, (CUcontext)CONTEXT, BYTES, true),
			 SWAP_FINE);
		CHECK_EQ(put_what_changed(&copy), SWAP_FINE);
		CHECK_EQ(copy_end(&copy), SWAP_FINE);
		CHECK_EQ(copy.to, BYTES);
		CHECK_EQ(got_on() - before, BYTES);
		for (uint64_t i = 0; i < BYTES / 8; i++)
			CHECK_EQ(((uint64_t *)stage.at)[i], word(i, is_passed(i * 8 / MIB) ? 9 : 10));
		stage_begin_ahead(&stage, BYTES, 0, copy_meet, (void *)CONTEXT);
		while (registered < STEPS)
			sched_yield();
		stage_end(&stage);
	}
	give(&stage, &buffers);
}

static enum swap_why put_back_with_words(struct copy *copy)
{
	enum swap_why why = SWAP_FINE;
	uint64_t from = 0, to;

	for (; !why && from < BYTES / MIB; from = to) {
		CUdeviceptr at = (uintptr_t)device_memory + from * MIB;

		for (to = from; to < BYTES / MIB && is_passed(to) == is_passed(from);)
			to++;
		why = is_passed(from)
			      ? copy_fill(copy, at, from * MIB, (to - from) * MIB, (uint32_t)from)
			      : copy_put(copy, at, from * MIB, (to - from) * MIB);
	}
	return why;
}

/* One word, repeated, is written by the device: what is in host memory there is not read. */
static void check_fills(void)
{
	struct stage stage = {NULL}, buffers = {NULL};
	struct copy copy;
	uint64_t before;
	uint32_t first = 0;

	CHECK(stage_take(&stage, BYTES));
	check_ways(&stage, &buffers, 11);
	memset(device_memory, 0xee, BYTES);
	before = got_on();
	CHECK_EQ(copy_begin(&copy, &guest, &stage, &buffers, (CUcontext)CONTEXT, BYTES, false), SWAP_FINE);
	CHECK_EQ(put_back_with_words(&copy), SWAP_FINE);
	CHECK_EQ(copy_end(&copy), SWAP_FINE);
	CHECK_EQ(got_on() - before, BYTES);
	for (uint64_t i = 0; i < BYTES / 8; i++) {
		uint32_t mib = (uint32_t)(i * 8 / MIB);

		first = mib && is_passed(mib - 1) ? first : mib;
		CHECK_EQ(((uint64_t *)device_memory)[i],
			 is_passed(mib) ? (uint64_t)first << 32 | first : word(i, 11));
	}
	for (uint64_t i = 0, at = queued; i < 40; i += 3) {
		fails_at = at + i;
		CHECK_EQ(copy_begin(&copy, &guest, &stage, &buffers, (CUcontext)CONTEXT, BYTES, false),
			 SWAP_FINE);
		put_back_with_words(&copy);
		CHECK_EQ(copy_end(&copy), SWAP_DRIVER);
		at = queued;
	}
	fails_at = NONE;
	give(&stage, &buffers);
}

/* The driver fails at each of its copies in turn, or has no stream. */
static void check_failures(void)
{
	struct stage stage = {NULL}, buffers = {NULL};

	CHECK(stage_take(&stage, BYTES));
	CHECK_EQ(move(&stage, &buffers, true), SWAP_FINE);
	for (int out = 1; out >= 0; out--) {
		uint64_t before = queued, all;

		CHECK_EQ(move(&stage, &buffers, out), SWAP_FINE);
		all = queued - before;
		for (uint64_t i = 0; i < all; i += 1 + all / 23) {
			fails_at = queued + i;
			CHECK_EQ(move(&stage, &buffers, out), SWAP_DRIVER);
		}
		fails_at = NONE;
	}
	no_stream = true;
	CHECK_EQ(move(&stage, &buffers, true), SWAP_DRIVER);
	no_stream = false;
	check_ways(&stage, &buffers, 7);
	give(&stage, &buffers);
}

/* Pages that cannot be had are an error, and nothing from there on is taken to be there. */
static void check_none(void)
{
	struct stage stage = {NULL}, buffers = {NULL};
	char *hole;

	CHECK(stage_take(&stage, BYTES));
	hole = stage.at + 6 * STAGE_STEP_BYTES + 4 * MIB;
	CHECK_EQ(mprotect(hole, 4096, PROT_NONE), 0);
	CHECK_EQ(move(&stage, &buffers, true), SWAP_HOST);
	CHECK(stage_ready(&stage) <= 7 * STAGE_STEP_BYTES);
	CHECK_EQ(mprotect(hole, 4096, PROT_READ | PROT_WRITE), 0);
	check_ways(&stage, &buffers, 8);
	give(&stage, &buffers);
}

int main(void)
{
	cuda_driver_bind(exported, fixture_symbol);
	fixture_guest(&guest, "copy", GIB);
	device_memory =
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(device_memory != MAP_FAILED);
	check_pages();
	check_poor(&no_threads);
	check_poor(&no_events);
	check_poor(&no_register);
	CHECK_EQ(refused, 8); /* each buffer once */
	check_poor(&no_buffers);
	refused = 0;
	no_register = true;
	check_poor(&no_room);
	no_register = false;
	CHECK_EQ(refused, 0); /* there are none */
	check_passes();
	check_fills();
	check_failures();
	check_none();
	return 0;
}
