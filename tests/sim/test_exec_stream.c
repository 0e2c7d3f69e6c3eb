/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events: order, the default streams' rules, callbacks, waiting. */
#include <pthread.h>
#include <sys/wait.h>

#include "tests/sim/exec.h"

static atomic_int order_n;
static int order[64];

static void note(void *arg)
{
	order[atomic_fetch_add(&order_n, 1)] = (int)(intptr_t)arg;
}

static void note_callback(CUstream stream, CUresult status, void *arg)
{
	CHECK_EQ(status, CUDA_SUCCESS);
	note(arg);
}

/* A host function that holds its stream until it is let go. */
struct gate {
	atomic_int entered, open;
};

static void hold(void *arg)
{
	struct gate *gate = arg;

	atomic_store(&gate->entered, 1);
	while (!atomic_load(&gate->open))
		exec_sleep_ms(1);
}

static void test_order(void)
{
	CUstream stream;

	atomic_store(&order_n, 0);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 8; i++) {
		OK(exec_spin(stream, 200));
		if (i % 2)
			OK(cuLaunchHostFunc(stream, note, (void *)(intptr_t)i));
		else
			OK(cuStreamAddCallback(stream, note_callback, (void *)(intptr_t)i, 0));
	}
	CHECK_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	OK(cuStreamSynchronize(stream));
	OK(cuStreamQuery(stream));
	CHECK_EQ(order_n, 8);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(order[i], i);
	OK(cuStreamDestroy_v2(stream));
}

static void test_handles(CUcontext ctx)
{
	CUstream a, b;
	CUcontext of;
	unsigned long long id_a, id_b;
	unsigned int flags;
	int priority;

	OK(cuStreamCreateWithPriority(&a, CU_STREAM_NON_BLOCKING, -2));
	OK(cuStreamCreate(&b, CU_STREAM_DEFAULT));
	OK(cuStreamGetId(a, &id_a));
	OK(cuStreamGetId(b, &id_b));
	CHECK(id_a != id_b);
	OK(cuStreamGetFlags(a, &flags));
	CHECK_EQ(flags, CU_STREAM_NON_BLOCKING);
	OK(cuStreamGetPriority(a, &priority));
	CHECK_EQ(priority, -2);
	OK(cuStreamGetCtx(b, &of));
	CHECK(of == ctx);
	CHECK_EQ(cuStreamCreate(&a, 77), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
	/* What is pending in a destroyed stream still runs. */
	atomic_store(&order_n, 0);
	OK(exec_spin(b, 2000));
	OK(cuLaunchHostFunc(b, note, NULL));
	OK(cuStreamDestroy_v2(b));
	OK(cuCtxSynchronize());
	CHECK_EQ(order_n, 1);
	OK(cuStreamDestroy_v2(a));
}

/* `second` is work after a held `first`: does it wait for it? */
static bool waits(CUstream first, CUstream second, bool per_thread)
{
	struct gate gate = {0, 0};
	bool waited;

	atomic_store(&order_n, 0);
	OK(cuLaunchHostFunc(first, hold, &gate));
	while (!atomic_load(&gate.entered))
		exec_sleep_ms(1);
	if (per_thread)
		OK(cuLaunchHostFunc_ptsz(second, note, NULL));
	else
		OK(exec_spin(second, 1));
	exec_sleep_ms(per_thread ? 0 : 5);
	waited = (per_thread ? cuStreamQuery_ptsz(second) : cuStreamQuery(second)) ==
		 CUDA_ERROR_NOT_READY;
	atomic_store(&gate.open, 1);
	OK(cuCtxSynchronize());
	return waited;
}

static void test_default_streams(void)
{
	CUstream blocking, other, free_one;

	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&free_one, CU_STREAM_NON_BLOCKING));
	CHECK(waits(NULL, blocking, false));
	CHECK(waits(blocking, NULL, false));
	CHECK(waits(blocking, CU_STREAM_LEGACY, false));
	CHECK(!waits(blocking, other, false));
	CHECK(!waits(NULL, free_one, false));
	CHECK(!waits(free_one, NULL, false));
	/* The thread's own stream is a blocking one, and not the legacy one. */
	CHECK(waits(NULL, CU_STREAM_PER_THREAD, false));
	CHECK(waits(CU_STREAM_PER_THREAD, NULL, false));
	CHECK(!waits(CU_STREAM_PER_THREAD, blocking, false));
	OK(cuStreamDestroy_v2(blocking));
	OK(cuStreamDestroy_v2(other));
	OK(cuStreamDestroy_v2(free_one));
}

static void *thread_stream_id(void *arg)
{
	unsigned long long *id = arg, again;

	OK(cuCtxSetCurrent((CUcontext)(uintptr_t)*id));
	OK(cuStreamGetId_ptsz(NULL, id));
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &again));
	CHECK_EQ(*id, again);
	OK(exec_spin(CU_STREAM_PER_THREAD, 500));
	OK(cuStreamSynchronize_ptsz(NULL));
	OK(exec_spin(CU_STREAM_PER_THREAD, 500)); /* pending when the thread ends */
	return NULL;
}

static void test_per_thread(CUcontext ctx)
{
	unsigned long long own, legacy, other = (uintptr_t)ctx;
	pthread_t thread;

	OK(cuStreamGetId_ptsz(NULL, &own));
	OK(cuStreamGetId(NULL, &legacy));
	CHECK(own != legacy);
	CHECK(!pthread_create(&thread, NULL, thread_stream_id, &other));
	CHECK(!pthread_join(thread, NULL));
	CHECK(other != own && other != legacy);
	OK(cuCtxSynchronize());
}

static void test_events(void)
{
	CUstream a, b;
	CUevent start, end, bare;
	struct gate gate = {0, 0};
	float ms;

	OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
	OK(cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
	OK(cuEventCreate(&bare, CU_EVENT_DISABLE_TIMING));
	OK(cuEventQuery(start)); /* never recorded */
	CHECK_EQ(cuEventElapsedTime_v2(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);

	OK(cuEventRecord(start, a));
	for (int i = 0; i < 8; i++)
		OK(exec_spin(a, 500));
	OK(cuEventRecordWithFlags(end, a, 0));
	CHECK_EQ(cuEventQuery(end), CUDA_ERROR_NOT_READY);
	CHECK_EQ(cuEventElapsedTime_v2(&ms, start, end), CUDA_ERROR_NOT_READY);
	OK(cuEventSynchronize(end));
	OK(cuEventElapsedTime_v2(&ms, start, end));
	CHECK(ms >= 4.0f && ms < 4.5f); /* the device's own time: exact on any machine */
	CHECK_EQ(cuEventElapsedTime_v2(&ms, start, bare), CUDA_ERROR_INVALID_HANDLE);

	/* b goes on when a's gate opens, and not before; a later record changes nothing. */
	atomic_store(&order_n, 0);
	OK(cuLaunchHostFunc(a, hold, &gate));
	OK(cuEventRecord(bare, a));
	OK(cuStreamWaitEvent(b, bare, 0));
	OK(cuLaunchHostFunc(b, note, NULL));
	OK(cuEventRecord(bare, NULL));
	exec_sleep_ms(10);
	CHECK_EQ(order_n, 0);
	atomic_store(&gate.open, 1);
	OK(cuStreamSynchronize(b));
	CHECK_EQ(order_n, 1);

	OK(cuEventDestroy_v2(start));
	OK(cuEventDestroy_v2(end));
	OK(cuEventDestroy_v2(bare));
	OK(cuStreamDestroy_v2(a));
	OK(cuStreamDestroy_v2(b));
}

/* Works of different streams run side by side: the longest counts. */
static void test_side_by_side(void)
{
	CUstream stream[4];
	CUevent start, end;
	float ms;

	OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
	OK(cuEventCreate(&end, CU_EVENT_DEFAULT));
	for (int i = 0; i < 4; i++)
		OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	OK(cuEventRecord(start, stream[0]));
	for (int i = 0; i < 4; i++)
		OK(exec_spin(stream[i], 20000));
	for (int i = 1; i < 4; i++) {
		OK(cuEventRecord(end, stream[i]));
		OK(cuStreamWaitEvent(stream[0], end, 0));
	}
	OK(cuEventRecord(end, stream[0]));
	OK(cuEventSynchronize(end));
	OK(cuEventElapsedTime_v2(&ms, start, end));
	CHECK(ms >= 20.0f && ms < 60.0f);
	OK(cuEventDestroy_v2(start));
	OK(cuEventDestroy_v2(end));
	for (int i = 0; i < 4; i++)
		OK(cuStreamDestroy_v2(stream[i]));
}

static void test_context_events(CUcontext ctx)
{
	struct gate gate = {0, 0};
	CUstream a, b;
	CUevent event;

	OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuLaunchHostFunc(a, hold, &gate));
	OK(cuCtxRecordEvent(ctx, event));
	CHECK_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	OK(cuCtxWaitEvent(ctx, event));
	OK(exec_spin(b, 1));
	exec_sleep_ms(5);
	CHECK_EQ(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	atomic_store(&gate.open, 1);
	OK(cuStreamSynchronize(b));
	OK(cuEventQuery(event));
	OK(cuEventDestroy_v2(event));
	OK(cuStreamDestroy_v2(a));
	OK(cuStreamDestroy_v2(b));
}

static void test_values(void)
{
	CUstream stream;
	CUstreamBatchMemOpParams op[2] = {0};
	CUdeviceptr flag;

	OK(cuMemAlloc_v2(&flag, 16));
	OK(cuMemsetD32_v2(flag, 0, 4));
	OK(cuCtxSynchronize());
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamWaitValue32_v2(stream, flag, 5, 1));
	OK(cuStreamWriteValue64_v2(stream, flag + 8, 77, 0));
	exec_sleep_ms(5);
	CHECK_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	atomic_store((_Atomic uint32_t *)(uintptr_t)flag, 5);
	OK(cuStreamSynchronize(stream));
	CHECK_EQ(*(uint64_t *)(uintptr_t)(flag + 8), 77);
	CHECK_EQ(cuStreamWaitValue32_v2(stream, 8, 5, 1), CUDA_ERROR_INVALID_VALUE);
	op[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	op[0].waitValue.address = flag;
	op[0].waitValue.value = 6;
	op[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	op[1].writeValue.address = flag + 8;
	op[1].writeValue.value64 = 78;
	OK(cuStreamBatchMemOp_v2(stream, 2, op, 0));
	exec_sleep_ms(5);
	CHECK_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	atomic_store((_Atomic uint32_t *)(uintptr_t)flag, 6);
	OK(cuStreamSynchronize(stream));
	CHECK_EQ(*(uint64_t *)(uintptr_t)(flag + 8), 78);
	CHECK_EQ(cuStreamBatchMemOp_v2(stream, 0, op, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamDestroy_v2(stream));
	OK(cuMemFree_v2(flag));
}

/* More than a stream holds: launches wait for room. */
static void test_depth(void)
{
	CUfunction other = exec_function("does_nothing");
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 5000; i++)
		OK(exec_launch(other, stream, NULL));
	OK(cuStreamSynchronize(stream));
	OK(cuStreamDestroy_v2(stream));
}

static void *hammer(void *ctx)
{
	CUstream stream;
	CUevent event;

	OK(cuCtxSetCurrent(ctx));
	for (int i = 0; i < 50; i++) {
		OK(cuStreamCreate(&stream, i & 1));
		OK(cuEventCreate(&event, 0));
		OK(exec_spin(stream, 20));
		OK(cuEventRecord(event, stream));
		OK(cuStreamWaitEvent(NULL, event, 0));
		OK(exec_spin(NULL, 20));
		if (i % 10 == 0)
			OK(cuCtxSynchronize());
		OK(cuStreamSynchronize(stream));
		OK(cuEventQuery(event));
		OK(cuEventDestroy_v2(event));
		OK(cuStreamDestroy_v2(stream));
	}
	return NULL;
}

static void test_threads(CUcontext ctx)
{
	pthread_t thread[4];

	OK(exec_spin(NULL, 1)); /* the kernel's name is looked up once */
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&thread[i], NULL, hammer, ctx));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(thread[i], NULL));
	OK(cuCtxSynchronize());
}

/* A child of fork can do nothing with what it inherited, and does not hang on it. */
static void test_fork(void)
{
	CUfunction other = exec_function("does_nothing");
	CUstream stream;
	CUevent event;
	int status;
	pid_t pid;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, 0));
	OK(exec_spin(stream, 20000));
	OK(cuEventRecord(event, stream));
	pid = fork();
	if (!pid) {
		alarm(10);
		CHECK_EQ(cuEventSynchronize(event), CUDA_ERROR_NOT_INITIALIZED);
		CHECK_EQ(cuEventQuery(event), CUDA_ERROR_NOT_INITIALIZED);
		CHECK_EQ(cuStreamSynchronize(stream), CUDA_ERROR_NOT_INITIALIZED);
		CHECK_EQ(cuStreamSynchronize(NULL), CUDA_ERROR_NOT_INITIALIZED);
		CHECK_EQ(exec_launch(other, stream, NULL), CUDA_ERROR_NOT_INITIALIZED);
		CHECK_EQ(cuStreamDestroy_v2(stream), CUDA_ERROR_NOT_INITIALIZED);
		CHECK_EQ(cuEventDestroy_v2(event), CUDA_ERROR_NOT_INITIALIZED);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
	OK(cuEventSynchronize(event));
	OK(cuEventDestroy_v2(event));
	OK(cuStreamDestroy_v2(stream));
}

int main(void)
{
	CUcontext ctx;

	exec_init();
	ctx = exec_context();
	test_order();
	test_handles(ctx);
	test_default_streams();
	test_per_thread(ctx);
	test_events();
	test_side_by_side();
	test_context_events(ctx);
	test_values();
	test_depth();
	test_fork();
	test_threads(ctx);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}
