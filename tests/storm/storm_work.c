/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that take memory by every family, keep it for a while, and give it back. */
#include "storm_work.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

static const struct family *const families[] = {
	&storm_large,	 &storm_small, &storm_pitch,	&storm_async, &storm_mixed,
	&storm_pool,	 &storm_array, &storm_handle,	&storm_graph, &storm_context,
	&storm_sent,	 &storm_sent_ipc, &storm_received, &storm_managed,
	&storm_external, &storm_sent_pool, &storm_graph_kept,
	&storm_array_deep, &storm_mipmap, &storm_sparse,	&storm_retain, &storm_limit,
	&storm_green,	 &storm_module, &storm_library,
	&storm_program,	 &storm_program_further, &storm_program_green, &storm_forked,
	&storm_multicast,
};

#define N (sizeof(families) / sizeof(families[0]))
_Static_assert(N <= FAMILIES, "each has a bit");

bool storm_family(const char *name, uint64_t *mask)
{
	for (unsigned int i = 0; i < N; i++)
		if (!strcmp(families[i]->name, name)) {
			*mask |= UINT64_C(1) << i;
			return true;
		}
	return false;
}

bool storm_takes(const struct family *family)
{
	for (unsigned int i = 0; i < N; i++)
		if (families[i] == family)
			return !storm->options.families || storm->options.families >> i & 1;
	return false;
}

static void work_choose_families(struct worker *w)
{
	uint64_t only = storm->options.families;

	for (unsigned int i = 0; i < N; i++)
		if ((!only || only >> i & 1) && (!families[i]->may || families[i]->may(w)))
			w->family[w->families++] = families[i];
}

static bool work_is_free_to_go(const struct block *b)
{
	return !b->ticket || atomic_load(&storm->arrived[b->ticket]);
}

static void work_drop(struct worker *w, struct block *b)
{
	OK(cu.cuCtxSetCurrent(w->contexts[b->device]));
	b->family->give(w, b);
	memset(b, 0, sizeof(*b));
}

static void work_take(struct worker *w, struct block *b)
{
	uint64_t most = (uint64_t)storm->options.most_mib * MIB;

	b->family = w->family[pick(&w->seed, w->families)];
	b->device = (int)pick(&w->seed, (unsigned int)storm->options.devices);
	b->bytes = 1 + (uint64_t)pick(&w->seed, 1 << 30) % (most >> pick(&w->seed, 6));
	OK(cu.cuCtxSetCurrent(w->contexts[b->device]));
	if (!b->family->take(w, b))
		memset(b, 0, sizeof(*b));
}

static void work_step(struct worker *w)
{
	struct block *b = &w->block[pick(&w->seed, BLOCKS)];

	if (!b->family) {
		work_take(w, b);
	} else if (b->family->use && pick(&w->seed, 3)) {
		OK(cu.cuCtxSetCurrent(w->contexts[b->device]));
		b->family->use(w, b);
	} else if (work_is_free_to_go(b)) {
		work_drop(w, b);
	}
}

static void work_create_stream(struct worker *w, CUstream *ret_stream)
{
	while (REFUSED(w, cu.cuStreamCreate(ret_stream, CU_STREAM_NON_BLOCKING)))
		;
}

static void *work_run(void *arg)
{
	struct worker *w = arg;
	int steps = storm_ends(w->process) ? storm->options.steps / 3 : storm->options.steps;

	for (int d = 0; d < storm->options.devices; d++) {
		OK(cu.cuCtxSetCurrent(w->contexts[d]));
		storm_begin_limits();
		work_create_stream(w, &w->stream[d]);
		work_create_stream(w, &w->other[d]);
	}
	for (int i = 0; w->families && i < steps; i++) {
		work_step(w);
		if (storm->options.pause_us)
			usleep(pick(&w->seed, (unsigned int)storm->options.pause_us));
	}
	return NULL;
}

static void *work_clear(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < BLOCKS; i++)
		if (w->block[i].family)
			work_drop(w, &w->block[i]);
	for (int d = 0; d < storm->options.devices; d++) {
		OK(cu.cuCtxSetCurrent(w->contexts[d]));
		OK(cu.cuStreamSynchronize(w->stream[d]));
		OK(cu.cuStreamSynchronize(w->other[d]));
		OK(cu.cuStreamDestroy_v2(w->stream[d]));
		OK(cu.cuStreamDestroy_v2(w->other[d]));
	}
	return NULL;
}

static void work_in_threads(struct worker *w, void *(*fn)(void *arg))
{
	pthread_t thread[64];
	int n = storm->options.threads < 64 ? storm->options.threads : 64;

	for (int i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, fn, &w[i]))
			_exit(1);
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
}

void storm_drain(int index)
{
	struct worker w = {.process = index};
	struct letter letter;
	int fd;

	while (storm_fetch(&w, &letter, &fd)) {
		if (fd >= 0)
			close(fd);
		storm_arrived(&letter);
	}
}

/* Gives back what the driver keeps; the library looks again at what that is after some ms. */
static void work_settle(CUcontext contexts[DEVICES])
{
	usleep(20000);
	for (int d = 0; d < storm->options.devices; d++) {
		CUmemoryPool pool;
		size_t free, total;

		OK(cu.cuCtxSetCurrent(contexts[d]));
		OK(cu.cuCtxSynchronize());
		OK(cu.cuDeviceGetDefaultMemPool(&pool, d));
		OK(cu.cuMemPoolTrimTo(pool, 0));
		OK(cu.cuDeviceGraphMemTrim(d));
		OK(cu.cuMemGetInfo_v2(&free, &total));
	}
}

static struct worker *work_new(int index, int life, CUcontext contexts[DEVICES])
{
	struct worker *w = calloc((size_t)storm->options.threads, sizeof(*w));

	if (!w)
		_exit(1);
	for (int i = 0; i < storm->options.threads; i++) {
		w[i].process = index;
		w[i].seed = storm->options.seed * 7919u + (unsigned int)(index * 64 + i) +
			    (unsigned int)life * 104729u;
		w[i].contexts = contexts;
		/* Letters of a killed process would hold memory that is nobody's. */
		w[i].sends = storm->options.share && storm->options.processes > 1 &&
			     !(storm->options.kills && index == storm->options.processes - 1);
		work_choose_families(&w[i]);
	}
	return w;
}

static void work_await_letters(const struct worker *w)
{
	for (int i = 0; i < storm->options.threads; i++)
		for (int j = 0; j < BLOCKS; j++)
			while (!work_is_free_to_go(&w[i].block[j]))
				usleep(1000);
}

/*
 * Ends in the middle of the others' work, with what it has exported in their hands: gives all back,
 * leaves it, or is killed. Only letters keep it, as what is on its way is nobody's.
 */
static int work_end(int index, struct worker *w)
{
	unsigned int how = storm->options.seed % 3;

	atomic_store(&storm->ended, 1);
	atomic_fetch_add(&storm->taken_down, 1);
	storm_drain(index);
	work_await_letters(w);
	if (!how)
		work_in_threads(w, work_clear);
	atomic_fetch_add(&storm->settled, 1);
	if (how == 1)
		kill(getpid(), SIGKILL);
	return 0;
}

static void work_answer(CUcontext contexts[DEVICES])
{
	CUdeviceptr ptr;

	OK(cu.cuCtxSetCurrent(contexts[storm->ask_device]));
	storm->answer = cu.cuMemAlloc_v2(&ptr, storm->ask_bytes);
	if (!storm->answer)
		OK(cu.cuMemFree_v2(ptr));
	atomic_fetch_add(&storm->answered, 1);
}

static void work_rest(int index, CUcontext contexts[DEVICES])
{
	while (!atomic_load(&storm->go)) {
		if (!index && atomic_load(&storm->asked) != atomic_load(&storm->answered))
			work_answer(contexts);
		usleep(1000);
	}
}

int storm_process(int index, int life)
{
	CUcontext contexts[DEVICES];
	bool begun = storm_begin_contexts(contexts, life);
	struct worker *w = work_new(index, life, contexts);

	if (begun)
		work_in_threads(w, work_run);
	if (storm_ends(index))
		return work_end(index, w);
	storm_await(&storm->calm);
	storm_arrive(&storm->taken_down);
	storm_drain(index);
	if (begun) {
		work_in_threads(w, work_clear);
		work_settle(contexts);
	}
	free(w);
	storm_arrive(&storm->settled);
	work_rest(index, contexts);
	return 0;
}
