/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/copy.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/futex.h"
#include "base/host_memory.h"
#include "base/number.h"
#include "base/stream.h"
#include "guest/process/thread.h"
#include "ledger/swap.h"

/* Bytes of one fill, which takes the slowest devices some milliseconds. */
#define FILL_BYTES (UINT64_C(64) << 20)
#define JOB_BYTES (UINT64_C(2) << 20)

#define THREADS 16

/*
 * Copies that are under way: `batches` of `bytes` each, of which the driver has `deep` queued.
 * Each batch costs the device 10 us, during which it copies nothing. But where the kernel has to
 * clear pages, processors are the limit: batches are to stay in their cache. Copies without a
 * buffer are queued for as long as the calling thread maps and releases memory between two pieces.
 */
struct copy_pace {
	uint64_t bytes, batches, deep;
};

static const struct copy_pace copy_fresh = {JOB_BYTES, COPY_BATCHES, 6};
static const struct copy_pace copy_there = {STAGE_STEP_BYTES, COPY_BUFFERS_BYTES / STAGE_STEP_BYTES, 2};
static const struct copy_pace copy_known = {STAGE_STEP_BYTES, COPY_BATCHES, COPY_BATCHES - 1};

enum copy_state {
	COPY_NONE,
	COPY_PUT,
	COPY_TAKEN,
};

static void copy_fail(struct copy *copy, enum swap_why why)
{
	uint32_t fine = SWAP_FINE;

	atomic_compare_exchange_strong(&copy->why, &fine, why);
}

static enum swap_why copy_why(const struct copy *copy)
{
	return atomic_load(&copy->why);
}

/* --- Threads -------------------------------------------------------------------------------- */

static void copy_do(struct copy *copy, const struct copy_job *job)
{
	struct copy_batch *batch = job->batch;
	char *host = copy->stage->at + job->host;
	char *buffer = batch->host + (job->host - batch->span->host);

	if (copy_why(copy))
		return;
	if (!stage_bring(copy->stage, job->host, job->bytes, copy->out))
		copy_fail(copy, stage_why(copy->stage));
	else
		stream_copy(copy->out ? host : buffer, copy->out ? buffer : host, job->bytes);
}

/* Each thread waits at the next place until a job is in it. */
static struct copy_job copy_take(struct copy *copy)
{
	struct copy_job *job = &copy->job[atomic_fetch_add(&copy->next, 1) % COPY_JOBS], taken;
	uint32_t state = COPY_PUT;

	while (!atomic_compare_exchange_strong(&job->state, &state, COPY_TAKEN)) {
		futex_wait(&job->state, state);
		state = COPY_PUT;
	}
	taken = (struct copy_job){.batch = job->batch, .host = job->host, .bytes = job->bytes};
	atomic_store(&job->state, COPY_NONE);
	futex_wake_all(&job->state);
	return taken;
}

static void *copy_work(void *arg)
{
	struct copy *copy = arg;
	struct copy_job job;

	prctl(PR_SET_NAME, "allot-copy");
	while ((job = copy_take(copy)).batch) {
		copy_do(copy, &job);
		if (atomic_fetch_sub(&job.batch->left, 1) == 1)
			futex_wake_all(&job.batch->left);
	}
	if (atomic_fetch_sub(&copy->working, 1) == 1)
		futex_wake_all(&copy->working);
	return NULL;
}

/* One more for each job, as long as they are of use and can be had. */
static void copy_start(struct copy *copy)
{
	if (copy->threads >= copy->most)
		return;
	atomic_fetch_add(&copy->working, 1);
	if (!thread_start(copy_work, copy)) {
		copy->threads++;
		return;
	}
	atomic_fetch_sub(&copy->working, 1);
	copy->most = copy->threads;
}

static void copy_give_job(struct copy *copy, struct copy_batch *batch, uint64_t host,
			  uint64_t bytes)
{
	struct copy_job *job = &copy->job[copy->put++ % COPY_JOBS];
	uint32_t state;

	while ((state = atomic_load(&job->state)) != COPY_NONE)
		futex_wait(&job->state, state);
	job->batch = batch;
	job->host = host;
	job->bytes = bytes;
	atomic_store(&job->state, COPY_PUT);
	futex_wake_all(&job->state);
}

/* --- Batches -------------------------------------------------------------------------------- */

static struct copy_batch *copy_batch(struct copy *copy, uint64_t number)
{
	return &copy->batch[number % copy->pace->batches];
}

static uint64_t copy_end_of(const struct copy_batch *batch)
{
	return batch->n ? batch->span[batch->n - 1].host + batch->span[batch->n - 1].bytes : 0;
}

bool copy_meet(void *context, char *at, uint64_t bytes)
{
	CUcontext entered = context;
	bool known;

	if (DRIVER(cuCtxPushCurrent_v2, (entered)))
		return false;
	known = !DRIVER(cuMemHostRegister_v2, (at, bytes, CU_MEMHOSTREGISTER_PORTABLE));
	DRIVER(cuCtxPopCurrent_v2, (&entered));
	return known;
}

void copy_part(void *arg, char *at, uint64_t bytes)
{
	DRIVER(cuMemHostUnregister, (at));
}

/*
 * The first time all buffers that are of use are allocated. A buffer that cannot be registered is
 * of use, too, and slower. False: there is none.
 */
static bool copy_take_buffer(struct copy *copy, struct copy_batch *batch)
{
	uint64_t bytes = copy->pace->bytes, at = (uint64_t)(batch - copy->batch) * bytes;

	if (copy->poor)
		return false;
	if (!copy->buffered) {
		if (!stage_take(copy->buffers, COPY_BUFFERS_BYTES))
			return false;
		stage_begin(copy->buffers, 0, min_u64(copy->bytes, COPY_BUFFERS_BYTES), copy_meet,
			    copy->context);
		copy->buffered = true;
	}
	batch->host = copy->buffers->at + at + batch->span->host % bytes;
	return stage_await(copy->buffers, at, at + bytes, true);
}

/*
 * Without a buffer the driver copies to host memory that it does not know: slower, but a way back
 * that frees host memory must not need more of it.
 */
static bool copy_place(struct copy *copy, struct copy_batch *batch)
{
	uint64_t host = batch->span->host, bytes = copy_end_of(batch) - host;
	bool known = stage_state(copy->stage, host) == STAGE_KNOWN;

	batch->direct = known || !copy_take_buffer(copy, batch);
	if (!batch->direct)
		return true;
	batch->host = copy->stage->at + host;
	return known || stage_bring(copy->stage, host, bytes, copy->out);
}

/* The threads get it. Where there can be none, it is done at once. */
static void copy_spread(struct copy *copy, struct copy_batch *batch)
{
	uint64_t end = copy_end_of(batch), n;

	if (batch->direct)
		return;
	for (uint64_t host = batch->span->host; host < end; host += n) {
		n = min_u64(end - host, JOB_BYTES - host % JOB_BYTES);
		copy_start(copy);
		if (copy->threads) {
			atomic_fetch_add(&batch->left, 1);
			copy_give_job(copy, batch, host, n);
		} else {
			copy_do(copy, &(struct copy_job){.batch = batch, .host = host, .bytes = n});
		}
	}
}

static void copy_await_spread(struct copy_batch *batch)
{
	uint32_t left;

	while ((left = atomic_load(&batch->left)))
		futex_wait(&batch->left, left);
}

/* The driver has been told of all of a batch. */
static void copy_note(struct copy *copy, struct copy_batch *batch, CUresult e)
{
	if (!e && batch->event)
		e = DRIVER(cuEventRecord, (batch->event, copy->stream));
	if (e)
		copy_fail(copy, SWAP_DRIVER);
}

static void copy_write_word(struct copy *copy, struct copy_batch *batch)
{
	copy_note(copy, batch, DRIVER(cuMemsetD32Async, (batch->span->at, batch->word,
							 batch->span->bytes / sizeof(batch->word),
							 copy->stream)));
}

/* The driver gets it. */
static void copy_transfer(struct copy *copy, struct copy_batch *batch)
{
	CUresult e = CUDA_SUCCESS;

	for (int i = 0; !e && i < batch->n; i++) {
		const struct copy_span *span = &batch->span[i];
		char *host = batch->host + (span->host - batch->span->host);

		e = copy->out ? DRIVER(cuMemcpyDtoHAsync_v2,
				       (host, span->at, span->bytes, copy->stream))
			      : DRIVER(cuMemcpyHtoDAsync_v2,
				       (span->at, host, span->bytes, copy->stream));
	}
	copy_note(copy, batch, e);
}

static void copy_await_transfer(struct copy *copy, struct copy_batch *batch)
{
	if (batch->event ? DRIVER(cuEventSynchronize, (batch->event))
			 : DRIVER(cuStreamSynchronize, (copy->stream)))
		copy_fail(copy, SWAP_DRIVER);
}

/* --- Three steps, of each batch ------------------------------------------------------------- */

static void copy_first(struct copy *copy)
{
	struct copy_batch *batch = copy_batch(copy, copy->first++);

	if (batch->fills)
		copy_write_word(copy, batch);
	if (batch->passes)
		return;
	if (!copy_place(copy, batch))
		copy_fail(copy, stage_why(copy->stage));
	else if (copy->out)
		copy_transfer(copy, batch);
	else
		copy_spread(copy, batch);
}

static void copy_second(struct copy *copy)
{
	struct copy_batch *batch = copy_batch(copy, copy->second++);

	if (batch->passes)
		return;
	if (copy->out) {
		copy_await_transfer(copy, batch);
		if (!copy_why(copy))
			copy_spread(copy, batch);
	} else {
		copy_await_spread(batch);
		if (!copy_why(copy))
			copy_transfer(copy, batch);
	}
}

static void copy_third(struct copy *copy)
{
	struct copy_batch *batch = copy_batch(copy, copy->third++);

	if (copy->out)
		copy_await_spread(batch);
	else
		copy_await_transfer(copy, batch);
	if (copy_why(copy))
		return;
	swap_get_on(atomic_load(&copy->guest->slot), copy_end_of(batch) - batch->span->host);
	copy->from = min_u64(copy->from, batch->span->host);
	copy->to = copy_end_of(batch);
	batch->n = 0;
	batch->passes = batch->fills = false;
}

/* Starts the filled batch, and continues those before it, until one is free to be filled. */
static void copy_go_on(struct copy *copy)
{
	const struct copy_pace *pace = copy->pace;
	uint64_t between = copy->out ? pace->deep : pace->batches - 1 - pace->deep;

	copy_first(copy);
	while (!copy_why(copy) && copy->second + between < copy->first)
		copy_second(copy);
	while (!copy_why(copy) && copy->third + pace->batches - 1 < copy->first)
		copy_third(copy);
}

/* All that was put is there. */
static void copy_finish(struct copy *copy)
{
	if (!copy_why(copy) && copy_batch(copy, copy->first)->n)
		copy_go_on(copy);
	while (!copy_why(copy) && copy->second < copy->first)
		copy_second(copy);
	while (!copy_why(copy) && copy->third < copy->first)
		copy_third(copy);
}

static void copy_set_pace(struct copy *copy, uint64_t host)
{
	enum stage_state state = stage_state(copy->stage, host);
	const struct copy_pace *pace = state == STAGE_KNOWN ? &copy_known : &copy_there;

	if (copy->out && state < STAGE_READY)
		pace = &copy_fresh;
	if (pace == copy->pace)
		return;
	copy_finish(copy);
	copy->pace = pace;
}

/*
 * Where what begins there is put. NULL: something has failed, and what comes next was not waited
 * for.
 */
static struct copy_batch *copy_open(struct copy *copy, uint64_t begin)
{
	struct copy_batch *batch;

	copy_set_pace(copy, begin);
	batch = copy_batch(copy, copy->first);
	if (!copy_why(copy) && batch->n &&
	    (batch->n == COPY_SPANS || copy_end_of(batch) != begin ||
	     begin % copy->pace->bytes == 0)) {
		copy_go_on(copy);
		batch = copy_batch(copy, copy->first);
	}
	return copy_why(copy) ? NULL : batch;
}

enum swap_why copy_put(struct copy *copy, CUdeviceptr at, uint64_t host, uint64_t bytes)
{
	struct copy_batch *batch;

	for (uint64_t done = 0, n; done < bytes && (batch = copy_open(copy, host + done)); done += n) {
		n = min_u64(bytes - done, copy->pace->bytes - (host + done) % copy->pace->bytes);
		batch->span[batch->n++] =
			(struct copy_span){.at = at + done, .host = host + done, .bytes = n};
	}
	return copy_why(copy);
}

/* A batch of its own, in order with all others, of which no thread copies anything. */
static enum swap_why copy_put_alone(struct copy *copy, const struct copy_span *span, bool fills,
				    uint32_t word)
{
	struct copy_batch *batch = copy_batch(copy, copy->first);

	if (!copy_why(copy) && batch->n)
		copy_go_on(copy);
	if (copy_why(copy))
		return copy_why(copy);
	batch = copy_batch(copy, copy->first);
	batch->passes = true;
	batch->fills = fills;
	batch->word = word;
	batch->span[batch->n++] = *span;
	copy_go_on(copy);
	return copy_why(copy);
}

enum swap_why copy_pass(struct copy *copy, uint64_t host, uint64_t bytes)
{
	return copy_put_alone(copy, &(struct copy_span){.host = host, .bytes = bytes}, false, 0);
}

enum swap_why copy_fill(struct copy *copy, CUdeviceptr at, uint64_t host, uint64_t bytes,
			uint32_t word)
{
	/* Each of them is progress, without which a requester takes this process for stopped. */
	for (uint64_t done = 0, n; done < bytes && !copy_why(copy); done += n) {
		n = min_u64(bytes - done, FILL_BYTES);
		copy_put_alone(copy, &(struct copy_span){.at = at + done, .host = host + done, .bytes = n},
			       true, word);
	}
	return copy_why(copy);
}

enum swap_why copy_begin(struct copy *copy, struct guest *guest, struct stage *stage,
			 struct stage *buffers, CUcontext context, uint64_t bytes, bool out)
{
	memset(copy, 0, sizeof(*copy));
	copy->guest = guest;
	copy->stage = stage;
	copy->buffers = buffers;
	copy->context = context;
	copy->bytes = bytes;
	copy->out = out;
	copy->poor = !stage_ready(buffers) &&
		     host_memory_cgroup_room() < min_u64(bytes, COPY_BUFFERS_BYTES);
	copy->from = UINT64_MAX;
	copy->most = (uint32_t)min_u64(stage_processors(), THREADS);
	copy->pace = &copy_there;
	stage->error = 0;
	if (DRIVER(cuStreamCreate, (&copy->stream, CU_STREAM_NON_BLOCKING)))
		return SWAP_DRIVER;
	for (int i = 0; i < COPY_BATCHES; i++)
		if (DRIVER(cuEventCreate, (&copy->batch[i].event, CU_EVENT_DISABLE_TIMING)))
			copy->batch[i].event = NULL;
	return SWAP_FINE;
}

static void copy_end_threads(struct copy *copy)
{
	uint32_t working;

	for (uint32_t n = copy->threads; n; n--)
		copy_give_job(copy, NULL, 0, 0);
	while ((working = atomic_load(&copy->working)))
		futex_wait(&copy->working, working);
}

enum swap_why copy_end(struct copy *copy)
{
	copy_finish(copy);
	copy_end_threads(copy);
	stage_end(copy->buffers);
	stage_keep(copy->stage, copy->from, copy->to);
	if (DRIVER(cuStreamSynchronize, (copy->stream)))
		copy_fail(copy, SWAP_DRIVER);
	for (int i = 0; i < COPY_BATCHES; i++)
		if (copy->batch[i].event)
			DRIVER(cuEventDestroy_v2, (copy->batch[i].event));
	DRIVER(cuStreamDestroy_v2, (copy->stream));
	return copy_why(copy);
}
