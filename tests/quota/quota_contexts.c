/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, what their limits take, and their code. */
#include "tests/quota/quota_guest.h"

#define HEAP_MIB 8    /* of a context that sets no limit */
#define STACK	 1024 /* bytes, likewise */

static void contexts_set_heap(int mib)
{
	MUST(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, (size_t)mib * MIB));
}

static CUresult contexts_launch(CUfunction function)
{
	return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

/* A heap that no code has used takes no memory. */
void contexts_heap_lowered(int mib)
{
	guest_begin();
	contexts_set_heap(HEAP_MIB + mib);
	contexts_set_heap(HEAP_MIB);
	guest_make_contexts(3);
	guest_quiet();
}

/* A stack takes its memory when the limit is set, and gives it back alike. */
void contexts_stack_lowered(int bytes)
{
	guest_begin();
	MUST(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, (size_t)bytes));
	MUST(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, STACK));
	guest_make_contexts(3);
	guest_quiet();
}

/* Contexts take what is free beside the heap, and code that uses the heap comes last. */
void contexts_heap_kept(int mib)
{
	CUfunction uses;

	guest_begin();
	contexts_set_heap(HEAP_MIB + mib);
	uses = guest_load(2 * MIB, "heap");
	guest_make_contexts(2);
	guest_say("launch: error %d", contexts_launch(uses));
	guest_quiet();
}

/* The quota is full when code first uses the heap. The launch may be refused. */
void contexts_heap_used_late(int mib)
{
	CUfunction uses;

	guest_begin();
	contexts_set_heap(HEAP_MIB + mib);
	uses = guest_load(2 * MIB, "heap");
	guest_fill(2, 1500);
	guest_say("launch: error %d", contexts_launch(uses));
	guest_quiet();
}

/* The FIFO of printf is backed when code that prints is loaded. The load may be refused. */
void contexts_fifo_used_late(int mib)
{
	CUfunction prints;

	guest_begin();
	MUST(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, (size_t)mib * MIB));
	guest_fill(16, 1500);
	guest_say("load: error %d", guest_try_load(0, "printf", &prints));
	/*
	 * Only after the first launch does the driver say that it is backed. Until a look after that
	 * it counts twice, so the account is not compared here.
	 */
	guest_say("launch: error %d", contexts_launch(prints));
}

/* The heap has its memory before the quota is filled. */
void contexts_heap_used_first(int mib)
{
	guest_begin();
	contexts_set_heap(HEAP_MIB + mib);
	MUST(contexts_launch(guest_load(2 * MIB, "heap")));
	guest_fill(2, 1500);
	guest_quiet();
	guest_make_contexts(0);
	guest_quiet();
}

/* A context that raised its limits gives back what they took when it ends. */
void contexts_limits_gone(int mib)
{
	CUcontext context;

	guest_begin();
	MUST(cuCtxCreate_v2(&context, 0, 0));
	contexts_set_heap(HEAP_MIB + mib);
	MUST(contexts_launch(guest_load(2 * MIB, "heap")));
	MUST(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2 * STACK));
	MUST(cuCtxDestroy_v2(context));
	guest_make_contexts(3);
	guest_quiet();
}

static void contexts_make_in_child(struct peer *parent, int n)
{
	peer_await(parent);
	guest_begin();
	guest_make_contexts(n);
	guest_quiet();
	peer_tell(parent);
}

/* The size of a context that a process learned is the tenant's. */
void contexts_limits_elsewhere(int mib)
{
	struct peer child = peer_fork(contexts_make_in_child, 2);

	guest_begin();
	contexts_set_heap(HEAP_MIB + mib);
	contexts_set_heap(HEAP_MIB);
	peer_tell(&child);
	peer_await(&child);
	peer_end(&child);
}

/* Code that is loaded at once, in contexts that are larger than most. */
void contexts_modules(int n)
{
	guest_begin();
	for (int i = 0; i < n; i++)
		guest_load(8 * MIB, "");
	guest_make_contexts(2);
	guest_quiet();
}

static CUlibrary contexts_load_library(int mib)
{
	CUlibrary library;
	char image[64];

	snprintf(image, sizeof(image), "allot-sim-module bytes=%llu\n",
		 (unsigned long long)mib * MIB);
	MUST(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	return library;
}

/* A library is loaded into contexts that begin later, too. */
void contexts_libraries(int n)
{
	guest_begin();
	for (int i = 0; i < n; i++)
		contexts_load_library(8);
	guest_make_contexts(2);
	guest_quiet();
}

/* And into those of other devices than the current one. */
void contexts_library_elsewhere(int mib)
{
	CUcontext first, second;
	CUlibrary library;

	second = guest_begin_on(1);
	first = guest_begin();
	library = contexts_load_library(mib);
	guest_quiet();
	MUST(cuCtxSetCurrent(second));
	guest_make_contexts(1);
	guest_quiet();
	MUST(cuCtxSetCurrent(first));
	MUST(cuLibraryUnload(library));
	guest_quiet();
	MUST(cuCtxSetCurrent(second));
	guest_fill(2, 900);
	guest_quiet();
}

/* A kernel of it brings it to the device that it is launched on: that is not the context's size. */
void contexts_library_used(int mib)
{
	CUlibrary library;
	CUkernel kernel;

	guest_begin();
	library = contexts_load_library(mib);
	MUST(cuLibraryGetKernel(&kernel, library, "any"));
	guest_begin_on(1);
	MUST(contexts_launch((CUfunction)kernel));
	guest_fill(2, 1700);
	guest_quiet();
	MUST(cuLibraryUnload(library));
	guest_make_contexts(0);
	guest_quiet();
}

static void contexts_fill_second(struct peer *parent, int mib)
{
	CUdeviceptr at;

	guest_begin_on(1);
	MUST(cuMemAlloc_v2(&at, mib * MIB));
	peer_tell(parent);
	peer_await(parent);
}

/* A device's first context has the library that was loaded before it. */
void contexts_library_first(int mib)
{
	int free_mib = guest_scenario->context_mib + mib / 2;
	struct peer child = peer_fork(contexts_fill_second, guest_scenario->quota_mib - free_mib -
								    guest_scenario->context_mib);
	CUcontext context;

	peer_await(&child);
	guest_begin();
	contexts_load_library(mib);
	if (!cuDevicePrimaryCtxRetain(&context, 1))
		guest_complain("a context with %d MiB of code was made in %d MiB",
			       guest_scenario->context_mib + mib, free_mib);
	guest_quiet();
	peer_tell(&child);
	peer_end(&child);
}

static void contexts_make_first(struct peer *parent, int n)
{
	CUcontext context;
	CUresult e;
	char had;

	peer_await(parent);
	MUST(cuInit(0));
	e = cuDevicePrimaryCtxRetain(&context, 0);
	had = !e;
	guest_say("first context: error %d", e);
	peer_send(parent, &had, 1, -1);
	peer_await(parent);
}

/* All at once, before the size of a context is known. As many as fit get one. */
void contexts_first(int processes)
{
	int fit = guest_scenario->quota_mib / guest_scenario->context_mib, n = 0;
	struct peer child[8];

	for (int i = 0; i < processes; i++)
		child[i] = peer_fork(contexts_make_first, 0);
	for (int i = 0; i < processes; i++)
		peer_tell(&child[i]);
	for (int i = 0; i < processes; i++) {
		char had;

		peer_receive(&child[i], &had, 1);
		n += had;
	}
	guest_say("%d of %d processes have a context", n, processes);
	if (n < (fit < processes ? fit : processes))
		guest_complain("%d of %d processes have a context, %d fit", n, processes, fit);
	guest_quiet();
	for (int i = 0; i < processes; i++) {
		peer_tell(&child[i]);
		peer_end(&child[i]);
	}
}

static int contexts_retain_once(void *arg)
{
	CUcontext context;

	return !!cuDevicePrimaryCtxRetain(&context, 0);
}

/* All threads retain one context. */
void contexts_retain(int threads)
{
	int refused;

	MUST(cuInit(0));
	refused = guest_threads(threads, contexts_retain_once, NULL);
	if (refused)
		guest_complain("%d of %d retains refused", refused, threads);
	guest_quiet();
}

static int contexts_make_all(void *arg)
{
	CUcontext context;
	int n = 0;

	while (!cuCtxCreate_v2(&context, 0, 0)) {
		MUST(cuCtxPopCurrent_v2(&context));
		n++;
	}
	return n;
}

static void contexts_measure(struct peer *parent, int mib)
{
	CUdeviceptr at;

	peer_await(parent);
	guest_begin();
	MUST(cuMemAlloc_v2(&at, (size_t)mib * MIB));
	MUST(cuMemAlloc_v2(&at, 2 * MIB));
	peer_tell(parent);
	peer_await(parent);
}

/*
 * The first context is made far from the limit, where nobody looks what it takes, and is larger than
 * most. Another process takes so much that the limit is near, and measures a context. Then threads
 * of the first make others, each while the others' are on their way.
 */
void contexts_guessed(int threads)
{
	struct peer other = peer_fork(contexts_measure, 5500);
	int n;

	guest_begin();
	peer_tell(&other);
	peer_await(&other);
	n = guest_threads(threads, contexts_make_all, NULL);
	if (!n)
		guest_complain("no context was had, 1 fits");
	guest_quiet();
	peer_tell(&other);
	peer_end(&other);
}

static void contexts_only(struct peer *parent, int n)
{
	(void)n;
	guest_begin();
	peer_tell(parent);
	peer_await(parent);
}

/* Far from the limit a process makes a context that is smaller than most, and nothing more. */
void contexts_guessed_elsewhere(int least_mib)
{
	struct peer other = peer_fork(contexts_only, 0);

	peer_await(&other);
	guest_begin();
	guest_fill(100, (unsigned int)least_mib);
	guest_quiet();
	peer_tell(&other);
	peer_end(&other);
}

static int contexts_retain_often(void *arg)
{
	CUcontext context;
	int refused = 0;

	for (int i = 0; i < 500; i++) {
		if (cuDevicePrimaryCtxRetain(&context, 0))
			refused++;
		else
			MUST(cuDevicePrimaryCtxRelease_v2(0));
	}
	return refused;
}

void contexts_churn(int threads)
{
	int refused;

	MUST(cuInit(0));
	refused = guest_threads(threads, contexts_retain_often, NULL);
	if (refused)
		guest_complain("%d retains refused", refused);
	guest_quiet();
}

/*
 * The driver's figure has the freed memory still when the context is measured. The context is then
 * taken for larger, until a later look at the figure. At the end there are 116 MiB more than a
 * context takes.
 */
void contexts_late_figure(int mib)
{
	int rest_mib = guest_scenario->quota_mib - 3 * guest_scenario->context_mib - 116;
	CUcontext context;
	CUdeviceptr at;

	guest_begin();
	MUST(cuMemAlloc_v2(&at, (size_t)mib * MIB));
	MUST(cuMemFree_v2(at));
	MUST(cuCtxCreate_v2(&context, 0, 0));
	guest_sleep_ms(1000);
	MUST(cuMemAlloc_v2(&at, (size_t)rest_mib * MIB));
	MUST(cuCtxCreate_v2(&context, 0, 0));
	guest_quiet();
}
