/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that contexts and their parts take from a device, by the driver's own figure for the
 * process: contexts of each kind, heaps, stacks, green contexts, and memory that an importer keeps
 * after its exporter has let go. Run on the bare driver. Each scenario is a process of its own, so
 * that none begins with what another one left. One line a step: the figure's change at once, and
 * what was added to it within 0.3 s. Not a test: nothing here can fail but the driver.
 *
 *	takes [SCENARIO...]
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nvidia/cuda_api.h"

#define MIB	 (UINT64_C(1) << 20)
#define cu	 cuda_real
#define SETTLE_S 0.3

/* Memory of device 0 that other processes may import by descriptor. */
static const CUmemPoolProps pool_props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAllocationProp memory_props = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

struct process_info {
	unsigned int pid;
	unsigned long long bytes;
	unsigned int gi, ci;
};

static int (*nvml_processes)(void *dev, unsigned int *n, struct process_info *p);
static int (*nvml_memory)(void *dev, unsigned long long *total_free_used);
static void *nvml_device;

static void nvml_open(void)
{
	void *h = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	int (*init)(void) = (int (*)(void))dlsym(h, "nvmlInit_v2");
	int (*get)(unsigned int, void **) =
		(int (*)(unsigned int, void **))dlsym(h, "nvmlDeviceGetHandleByIndex_v2");

	init();
	get(0, &nvml_device);
	nvml_processes = (int (*)(void *, unsigned int *, struct process_info *))dlsym(
		h, "nvmlDeviceGetComputeRunningProcesses_v3");
	nvml_memory = (int (*)(void *, unsigned long long *))dlsym(h, "nvmlDeviceGetMemoryInfo");
}

/* Opened by the process that asks: two of them do not share it. */
static double figure_of(pid_t pid)
{
	struct process_info p[256];
	unsigned int n = 256;

	if (!nvml_device)
		nvml_open();
	if (nvml_processes(nvml_device, &n, p))
		return -1;
	for (unsigned int i = 0; i < n; i++)
		if (p[i].pid == (unsigned int)pid)
			return (double)p[i].bytes / MIB;
	return 0;
}

static double device_free(void)
{
	size_t free = 0, total;

	cu.cuMemGetInfo_v2(&free, &total);
	return (double)free / MIB;
}

static void nap(double s)
{
	nanosleep(&(struct timespec){(time_t)s, (long)((s - (double)(time_t)s) * 1e9)}, NULL);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double last;

__attribute__((format(printf, 2, 3))) static void fact(CUresult r, const char *what, ...)
{
	double at_once = figure_of(getpid()), settled;
	char text[100];
	va_list ap;

	va_start(ap, what);
	vsnprintf(text, sizeof(text), what, ap);
	va_end(ap);
	nap(SETTLE_S);
	settled = figure_of(getpid());
	printf("  %-52s %+9.1f %+9.1f   = %.1f MiB", text, at_once - last, settled - at_once, settled);
	printf(r ? "   (error %d)\n" : "\n", r);
	last = settled;
}

/* `code`, and then what is done about it; the figure is told behind both. */
#define FACT(call) fact(call, "%s", #call)

static CUcontext primary(void)
{
	CUcontext c = NULL;

	cu.cuInit(0);
	fact(cu.cuDevicePrimaryCtxRetain(&c, 0), "primary context");
	cu.cuCtxSetCurrent(c);
	return c;
}

static CUcontext further(const char *name)
{
	CUcontext c = NULL;

	fact(cu.cuCtxCreate_v2(&c, 0, 0), "%s", name);
	return c;
}

static const char plain_ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
				".visible .entry plain() { ret; }\n";
static const char large_ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
				".visible .global .align 8 .b8 large[67108864];\n"
				".visible .entry plain() { ret; }\n";
static const char malloc_ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
	".visible .entry heap(.param .u64 out)\n{\n"
	" .reg .u64 %p, %o;\n"
	" { .param .b64 n; .param .b64 r; st.param.b64 [n], 64;\n"
	"   call.uni (r), malloc, (n); ld.param.b64 %p, [r]; }\n"
	" ld.param.u64 %o, [out]; cvta.to.global.u64 %o, %o; st.global.u64 [%o], %p;\n ret;\n}\n";
static const char printf_ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
	".global .align 1 .b8 text[2] = {32, 0};\n"
	".visible .entry say()\n{\n .reg .u64 %t, %g; .reg .u32 %r;\n"
	" mov.u64 %t, text; cvta.global.u64 %g, %t;\n"
	" { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %g; st.param.b64 [a], 0;\n"
	"   call.uni (r), vprintf, (f, a); ld.param.b32 %r, [r]; }\n ret;\n}\n";
static const char deep_ptx[] =
	".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .entry deep(.param .u64 out)\n{\n .local .align 16 .b8 x[16384];\n"
	" .reg .u64 %a, %o; .reg .u32 %t; .reg .u64 %k;\n"
	" mov.u32 %t, %tid.x; cvt.u64.u32 %k, %t; mov.u64 %a, x; add.u64 %a, %a, %k;\n"
	" st.local.u8 [%a], %t; ret;\n}\n";

static CUfunction load(const char *name, const char *ptx, const char *entry)
{
	CUmodule m = NULL;
	CUfunction f = NULL;

	fact(cu.cuModuleLoadData(&m, ptx), "%s: loaded", name);
	fact(cu.cuModuleGetFunction(&f, m, entry), "%s: function", name);
	return f;
}

static void launch(const char *name, CUfunction f, bool argument)
{
	static CUdeviceptr out;
	void *args[] = {&out};

	if (argument && !out)
		fact(cu.cuMemAlloc_v2(&out, 2 * MIB), "2 MiB for what the kernel writes");
	cu.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, argument ? args : NULL, NULL);
	fact(cu.cuCtxSynchronize(), "%s: launched", name);
}

static void set_limit(const char *name, CUlimit limit, size_t value)
{
	size_t is = 0;
	CUresult e = cu.cuCtxSetLimit(limit, value);

	cu.cuCtxGetLimit(&is, limit);
	fact(e, "%s to %zu, is %zu", name, value, is);
}

static void s_primary(void)
{
	CUcontext c[4];

	primary();
	for (int i = 0; i < 4; i++)
		c[i] = further("a further context");
	for (int i = 0; i < 4; i++)
		fact(cu.cuCtxDestroy_v2(c[i]), "it ends");
	fact(cu.cuDevicePrimaryCtxRelease_v2(0), "primary released");
	primary();
}

static void s_explicit(void)
{
	CUcontext a, b;

	cu.cuInit(0);
	a = further("first context, explicit");
	b = further("second, explicit");
	primary();
	fact(cu.cuCtxDestroy_v2(a), "the first ends");
	fact(cu.cuCtxDestroy_v2(b), "the second ends");
	fact(cu.cuDevicePrimaryCtxRelease_v2(0), "primary released");
}

static void contexts_and_library(void)
{
	CUlibrary l = NULL;
	CUkernel k = NULL;
	CUfunction f = NULL;

	primary();
	fact(cu.cuLibraryLoadData(&l, large_ptx, NULL, NULL, 0, NULL, NULL, 0),
	     "library with a variable of 64 MiB");
	further("a context after it");
	cu.cuLibraryGetKernel(&k, l, "plain");
	fact(cu.cuKernelGetFunction(&f, k), "its function in that context");
	further("one more context");
	fact(cu.cuLibraryUnload(l), "library unloaded");
}

static void s_lazy(void)
{
	setenv("CUDA_MODULE_LOADING", "LAZY", 1);
	contexts_and_library();
}

static void s_eager(void)
{
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	contexts_and_library();
}

/* Once the driver has backed it, a limit can be set no more, not even to what it is. */
static void ask_limit(const char *name, CUlimit limit)
{
	double began = now_ms();
	size_t is = 0;
	CUresult e;

	cu.cuCtxGetLimit(&is, limit);
	e = cu.cuCtxSetLimit(limit, is);
	printf("  %s set to what it is: error %d, %.3f ms\n", name, e, now_ms() - began);
}

static void s_heap(void)
{
	CUfunction f;

	primary();
	set_limit("heap", CU_LIMIT_MALLOC_HEAP_SIZE, 508 * MIB);
	launch("plain", load("plain", plain_ptx, "plain"), false);
	ask_limit("heap", CU_LIMIT_MALLOC_HEAP_SIZE);
	f = load("malloc", malloc_ptx, "heap");
	ask_limit("heap", CU_LIMIT_MALLOC_HEAP_SIZE);
	launch("malloc", f, true);
	ask_limit("heap", CU_LIMIT_MALLOC_HEAP_SIZE);
	set_limit("heap", CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB);
	launch("malloc", f, true);
	set_limit("heap", CU_LIMIT_MALLOC_HEAP_SIZE, 700 * MIB);
	launch("malloc", f, true);
	further("a further context");
	set_limit("its heap", CU_LIMIT_MALLOC_HEAP_SIZE, 300 * MIB);
	launch("malloc there", load("malloc", malloc_ptx, "heap"), true);
}

static void s_heapback(void)
{
	CUfunction f;

	primary();
	set_limit("heap", CU_LIMIT_MALLOC_HEAP_SIZE, 508 * MIB);
	set_limit("heap", CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB);
	further("a further context");
	f = load("malloc", malloc_ptx, "heap");
	launch("malloc", f, true);
	set_limit("heap, with code that uses it", CU_LIMIT_MALLOC_HEAP_SIZE, 400 * MIB);
	launch("malloc", f, true);
}

static void s_stack(void)
{
	CUfunction f;

	primary();
	set_limit("stack", CU_LIMIT_STACK_SIZE, 4096);
	f = load("plain", plain_ptx, "plain");
	launch("plain", f, false);
	set_limit("stack", CU_LIMIT_STACK_SIZE, 1024);
	launch("plain", f, false);
	f = load("16 KiB deep", deep_ptx, "deep");
	launch("16 KiB deep", f, true);
	further("a further context");
	set_limit("its stack", CU_LIMIT_STACK_SIZE, 2048);
	launch("plain there", load("plain", plain_ptx, "plain"), false);
}

static void s_fifo(void)
{
	CUfunction f;

	primary();
	set_limit("printf fifo", CU_LIMIT_PRINTF_FIFO_SIZE, 64 * MIB);
	ask_limit("printf fifo", CU_LIMIT_PRINTF_FIFO_SIZE);
	f = load("printf", printf_ptx, "say");
	ask_limit("printf fifo", CU_LIMIT_PRINTF_FIFO_SIZE);
	launch("printf", f, false);
	ask_limit("printf fifo", CU_LIMIT_PRINTF_FIFO_SIZE);
	set_limit("printf fifo", CU_LIMIT_PRINTF_FIFO_SIZE, MIB);
	launch("printf", f, false);
}

static void s_runtime(void)
{
	primary();
	set_limit("pending launches", CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 1 << 20);
	set_limit("synchronisation depth", CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 16);
	set_limit("persisting L2", CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 16 * MIB);
	launch("plain", load("plain", plain_ptx, "plain"), false);
}

static CUdevResourceDesc green_description(void)
{
	CUdevResource all, part[1];
	CUdevResourceDesc d = NULL;
	unsigned int n = 1;

	cu.cuInit(0);
	cu.cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM);
	cu.cuDevSmResourceSplitByCount(part, &n, &all, NULL, 0, 8);
	cu.cuDevResourceGenerateDesc(&d, part, 1);
	return d;
}

static void primary_is(void)
{
	unsigned int flags;
	int active = -1;

	cu.cuDevicePrimaryCtxGetState(0, &flags, &active);
	printf("  the primary context is %s\n", active == 1 ? "active" : "not active");
}

static void s_green(void)
{
	CUdevResourceDesc d = green_description();
	CUgreenCtx g[3] = {0};
	CUcontext c = NULL;
	CUdeviceptr p;

	fact(cu.cuGreenCtxCreate(&g[0], d, 0, 1), "green context, no primary");
	primary_is();
	fact(cu.cuCtxFromGreenCtx(&c, g[0]), "its context");
	cu.cuCtxSetCurrent(c);
	fact(cu.cuMemAlloc_v2(&p, 64 * MIB), "64 MiB in it");
	for (int i = 1; i < 3; i++)
		fact(cu.cuGreenCtxCreate(&g[i], d, 0, 1), "one more green context");
	cu.cuCtxSetCurrent(NULL);
	for (int i = 0; i < 3; i++)
		fact(cu.cuGreenCtxDestroy(g[i]), "it ends");
	primary_is();
	primary();
	fact(cu.cuMemFree_v2(p), "64 MiB freed");
	fact(cu.cuDevicePrimaryCtxRelease_v2(0), "primary released");
	primary_is();
}

static void s_greenlast(void)
{
	CUdevResourceDesc d = green_description();
	CUgreenCtx g = NULL;
	CUdeviceptr p;

	primary();
	fact(cu.cuGreenCtxCreate(&g, d, 0, 1), "green context");
	fact(cu.cuMemAlloc_v2(&p, 300 * MIB), "300 MiB in the primary one");
	fact(cu.cuDevicePrimaryCtxRelease_v2(0), "primary released");
	primary_is();
	fact(cu.cuGreenCtxDestroy(g), "green context ends");
	primary_is();
}

static void s_reset(void)
{
	CUdeviceptr p;

	primary();
	set_limit("stack", CU_LIMIT_STACK_SIZE, 2048);
	FACT(cu.cuMemAlloc_v2(&p, 100 * MIB));
	FACT(cu.cuDevicePrimaryCtxReset_v2(0));
	primary_is();
	primary();
}

static void settle_time(const char *what, double before)
{
	double began = now_ms();

	while (figure_of(getpid()) > before + 1 && now_ms() < began + 1000)
		nap(0.0002);
	printf("  %-52s in the figure after %.1f ms\n", what, now_ms() - began);
}

static void s_late(void)
{
	CUmemoryPool pool = NULL;
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUcontext c, x = NULL;
	CUdeviceptr p;
	double before;

	c = primary();
	before = figure_of(getpid());
	cu.cuMemAlloc_v2(&p, 256 * MIB);
	cu.cuMemFree_v2(p);
	settle_time("cuMemFree of 256 MiB", before);
	cu.cuMemPoolCreate(&pool, &props);
	cu.cuMemAllocFromPoolAsync(&p, 256 * MIB, pool, NULL);
	cu.cuMemFreeAsync(p, NULL);
	cu.cuCtxSynchronize();
	cu.cuMemPoolDestroy(pool);
	settle_time("a pool of 256 MiB that ends", before);
	cu.cuCtxCreate_v2(&x, 0, 0);
	cu.cuCtxDestroy_v2(x);
	settle_time("a context that ends", before);
	cu.cuCtxSetCurrent(c);
	cu.cuMemAlloc_v2(&p, 64 * MIB);
	before = figure_of(getpid());
	for (int i = 0; i < 100; i++) {
		CUdeviceptr q;

		cu.cuMemAlloc_v2(&q, 16 * MIB);
		cu.cuMemFree_v2(q);
	}
	settle_time("100 pairs of 16 MiB", before);
	last = figure_of(getpid());
	fact(cu.cuMemAllocManaged(&p, 64 * MIB, CU_MEM_ATTACH_GLOBAL), "64 MiB managed");
	cu.cuMemsetD8_v2(p, 1, 64 * MIB);
	fact(cu.cuCtxSynchronize(), "written by the device");
}

/* --- Two processes ------------------------------------------------------------------------- */

struct message {
	CUmemPoolPtrExportData pointer;
	CUipcMemHandle handle;
};

static void tell(int s, int fd, const struct message *m)
{
	char room[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {(void *)m, sizeof(*m)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = room;
		msg.msg_controllen = sizeof(room);
		c = CMSG_FIRSTHDR(&msg);
		*c = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	if (sendmsg(s, &msg, 0) < 0)
		_exit(1);
}

static int hear(int s, struct message *m)
{
	char room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {m, sizeof(*m)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room,
			     .msg_controllen = sizeof(room)};
	struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(s, &msg, 0) <= 0)
		_exit(1);
	c = CMSG_FIRSTHDR(&msg);
	if (c)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

typedef void side_fn(int s);

static void two(side_fn *exporter, side_fn *importer)
{
	int sv[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv))
		_exit(1);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(sv[0]);
		exporter(sv[1]);
		fflush(stdout);
		_exit(0);
	}
	close(sv[1]);
	importer(sv[0]);
	waitpid(pid, NULL, 0);
}

#define POOLS 8

static void pool_exporter(int s)
{
	CUmemoryPool pool[POOLS];
	CUdeviceptr p[POOLS];
	struct message m;

	primary();
	for (int i = 0; i < POOLS; i++) {
		int fd = -1;

		cu.cuMemPoolCreate(&pool[i], &pool_props);
		cu.cuMemAllocFromPoolAsync(&p[i], 2 * MIB, pool[i], NULL);
		cu.cuCtxSynchronize();
		cu.cuMemPoolExportToShareableHandle(&fd, pool[i],
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		cu.cuMemPoolExportPointer(&m.pointer, p[i]);
		tell(s, fd, &m);
		close(fd);
		hear(s, &m);
	}
	fact(0, "exporter: %d pools of 2 MiB each", POOLS);
	printf("  device has %.1f MiB free\n", device_free());
	for (int i = 0; i < POOLS; i++)
		cu.cuMemFreeAsync(p[i], NULL);
	fact(cu.cuCtxSynchronize(), "exporter: pointers freed");
	for (int i = 0; i < POOLS; i++)
		cu.cuMemPoolDestroy(pool[i]);
	fact(0, "exporter: pools destroyed");
	printf("  device has %.1f MiB free\n", device_free());
	tell(s, -1, &m);
	hear(s, &m);
	printf("  device has %.1f MiB free after the importer freed the pointers\n", device_free());
	tell(s, -1, &m);
	hear(s, &m);
	printf("  device has %.1f MiB free after the importer destroyed the pools\n", device_free());
	tell(s, -1, &m);
}

static void pool_importer(int s)
{
	CUmemoryPool pool[POOLS];
	CUdeviceptr p[POOLS];
	struct message m;

	primary();
	for (int i = 0; i < POOLS; i++) {
		int fd = hear(s, &m);
		CUresult e = cu.cuMemPoolImportFromShareableHandle(
			&pool[i], (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		size_t size = 0;
		CUdeviceptr base = 0;

		close(fd);
		e = e ? e : cu.cuMemPoolImportPointer(&p[i], pool[i], &m.pointer);
		cu.cuMemGetAddressRange_v2(&base, &size, p[i]);
		if (!i)
			fact(e, "importer: a pointer, of %.1f MiB as it says", (double)size / MIB);
		tell(s, -1, &m);
	}
	fact(0, "importer: all pointers");
	hear(s, &m);
	fact(0, "importer: after the exporter let go");
	for (int i = 0; i < POOLS; i++)
		cu.cuMemFreeAsync(p[i], NULL);
	fact(cu.cuCtxSynchronize(), "importer: pointers freed");
	tell(s, -1, &m);
	hear(s, &m);
	for (int i = 0; i < POOLS; i++)
		cu.cuMemPoolDestroy(pool[i]);
	fact(0, "importer: pools destroyed");
	tell(s, -1, &m);
	hear(s, &m);
}

static void s_pools(void)
{
	two(pool_exporter, pool_importer);
}

/* One pool: 40 MiB, freed; then 2 MiB; another segment by 40 MiB; then 20 MiB, and 3 of 2 MiB. */
#define PIECES 6
static const uint64_t piece_mib[PIECES] = {2, 40, 20, 2, 2, 2};

static void segment_exporter(int s)
{
	cuuint64_t keep = UINT64_MAX, reserved = 0;
	CUdeviceptr p[PIECES], first;
	struct message m;
	CUmemoryPool pool;
	int fd = -1;

	primary();
	cu.cuMemPoolCreate(&pool, &pool_props);
	cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
	cu.cuMemAllocFromPoolAsync(&first, 40 * MIB, pool, NULL);
	cu.cuCtxSynchronize();
	fact(0, "exporter: 40 MiB of a pool, at %llx", first);
	cu.cuMemFreeAsync(first, NULL);
	cu.cuCtxSynchronize();
	cu.cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	tell(s, fd, &m);
	close(fd);
	hear(s, &m);
	for (int i = 0; i < PIECES; i++) {
		cu.cuMemAllocFromPoolAsync(&p[i], piece_mib[i] * MIB, pool, NULL);
		cu.cuCtxSynchronize();
		cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
		fact(cu.cuMemPoolExportPointer(&m.pointer, p[i]), "exporter: %d MiB at %llx, reserve %llu",
		     (int)piece_mib[i], p[i], (unsigned long long)(reserved / MIB));
		tell(s, -1, &m);
		hear(s, &m);
	}
	for (int i = 0; i < PIECES; i++)
		cu.cuMemFreeAsync(p[i], NULL);
	cu.cuCtxSynchronize();
	cu.cuMemPoolDestroy(pool);
	fact(0, "exporter: all freed, pool destroyed");
	printf("  device has %.1f MiB free\n", device_free());
	for (int i = 0; i <= PIECES; i++) {
		tell(s, -1, &m);
		hear(s, &m);
		printf("  device has %.1f MiB free\n", device_free());
	}
}

static void segment_importer(int s)
{
	CUdeviceptr p[PIECES];
	struct message m;
	CUmemoryPool pool;
	int fd;

	primary();
	fd = hear(s, &m);
	fact(cu.cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
						   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	     "importer: the pool");
	close(fd);
	tell(s, -1, &m);
	for (int i = 0; i < PIECES; i++) {
		size_t size = 0;
		CUdeviceptr base = 0;
		CUresult e;

		hear(s, &m);
		e = cu.cuMemPoolImportPointer(&p[i], pool, &m.pointer);
		cu.cuMemGetAddressRange_v2(&base, &size, p[i]);
		printf("  importer: at %llx, base %llx, %.1f MiB, error %d\n", p[i], base,
		       (double)size / MIB, e);
		tell(s, -1, &m);
	}
	for (int i = 0; i < PIECES; i++) {
		hear(s, &m);
		cu.cuMemFreeAsync(p[i], NULL);
		fact(cu.cuCtxSynchronize(), "importer: freed %d MiB", (int)piece_mib[i]);
		tell(s, -1, &m);
	}
	hear(s, &m);
	fact(cu.cuMemPoolDestroy(pool), "importer: pool destroyed");
	tell(s, -1, &m);
}

static void s_segments(void)
{
	two(segment_exporter, segment_importer);
}

/* A pool of 256 MiB that an importer has without any pointer of it. */
static void bare_exporter(int s)
{
	struct message m;
	CUmemoryPool pool;
	CUdeviceptr p;
	int fd = -1;

	primary();
	cu.cuMemPoolCreate(&pool, &pool_props);
	cu.cuMemAllocFromPoolAsync(&p, 256 * MIB, pool, NULL);
	cu.cuCtxSynchronize();
	cu.cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	tell(s, fd, &m);
	close(fd);
	hear(s, &m);
	printf("  device has %.1f MiB free\n", device_free());
	cu.cuMemFreeAsync(p, NULL);
	cu.cuCtxSynchronize();
	cu.cuMemPoolDestroy(pool);
	printf("  device has %.1f MiB free after the pool was destroyed\n", device_free());
	tell(s, -1, &m);
}

static void bare_importer(int s)
{
	struct message m;
	CUmemoryPool pool;
	int fd;

	primary();
	fd = hear(s, &m);
	fact(cu.cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
						   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	     "importer: the pool, no pointer");
	close(fd);
	tell(s, -1, &m);
	hear(s, &m);
	nap(0.5);
	fact(0, "importer: after the exporter ended");
	printf("  device has %.1f MiB free\n", device_free());
	cu.cuMemPoolDestroy(pool);
	printf("  device has %.1f MiB free after the imported pool was destroyed\n", device_free());
}

static void s_bare(void)
{
	two(bare_exporter, bare_importer);
}

/*
 * Steps between freeing an imported pool's pointer in a stream and destroying the pool, to see which
 * of them make the driver give the memory back. The exporter has destroyed its own pool before.
 */
static const char *const end_ways[] = {"nothing",
				       "0.3 s",
				       "an event asked until done",
				       "an event asked until done, then waited for",
				       "the stream waited for",
				       "an event waited for",
				       "the context waited for",
				       "cuMemPoolTrimTo",
				       "an allocation of the device's pool",
				       "cuMemFree in place of it"};
#define END_WAYS ((int)(sizeof(end_ways) / sizeof(*end_ways)))

static void end_exporter(int s)
{
	struct message m;

	primary();
	for (int i = 0; i < END_WAYS; i++) {
		CUmemoryPool pool;
		CUdeviceptr p;
		int fd = -1;

		cu.cuMemPoolCreate(&pool, &pool_props);
		cu.cuMemAllocFromPoolAsync(&p, 256 * MIB, pool, NULL);
		cu.cuCtxSynchronize();
		cu.cuMemPoolExportToShareableHandle(&fd, pool,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		cu.cuMemPoolExportPointer(&m.pointer, p);
		tell(s, fd, &m);
		close(fd);
		hear(s, &m);
		cu.cuMemFreeAsync(p, NULL);
		cu.cuCtxSynchronize();
		cu.cuMemPoolDestroy(pool);
		tell(s, -1, &m);
		hear(s, &m);
	}
}

static void end_pool(int way, CUmemoryPool pool, CUdeviceptr p)
{
	CUstream stream;
	CUevent event;
	CUdeviceptr q = 0;
	double before = device_free();
	CUresult e;

	cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	e = way == 9 ? cu.cuMemFree_v2(p) : cu.cuMemFreeAsync(p, stream);
	cu.cuEventRecord(event, stream);
	if (way == 1)
		nap(0.3);
	while ((way == 2 || way == 3) && cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		;
	if (way == 4)
		cu.cuStreamSynchronize(stream);
	if (way == 3 || way == 5)
		cu.cuEventSynchronize(event);
	if (way == 6)
		cu.cuCtxSynchronize();
	if (way == 7)
		cu.cuMemPoolTrimTo(pool, 0);
	if (way == 8)
		cu.cuMemAllocAsync(&q, 2 * MIB, stream);
	e = e ? e : cu.cuMemPoolDestroy(pool);
	nap(0.1);
	cu.cuCtxSynchronize();
	if (q)
		cu.cuMemFree_v2(q);
	printf("  %-44s error %d %+8.1f MiB free\n", end_ways[way], e, device_free() - before);
	cu.cuStreamDestroy_v2(stream);
	cu.cuEventDestroy_v2(event);
}

static void end_importer(int s)
{
	struct message m;

	primary();
	for (int i = 0; i < END_WAYS; i++) {
		int fd = hear(s, &m);
		CUmemoryPool pool;
		CUdeviceptr p;

		cu.cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
						      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		close(fd);
		cu.cuMemPoolImportPointer(&p, pool, &m.pointer);
		tell(s, -1, &m);
		hear(s, &m);
		end_pool(i, pool, p);
		tell(s, -1, &m);
	}
}

static void s_ends(void)
{
	two(end_exporter, end_importer);
}

/*
 * External memory, and memory by handle, of another process: in whose figure it stands when the
 * exporter has let go of it, and when the importer lets go of one of the two.
 */
static void foreign_exporter(int s)
{
	struct message m = {0};

	primary();
	for (int i = 0; i < 2; i++) {
		CUmemGenericAllocationHandle h;
		int fd = -1;

		cu.cuMemCreate(&h, 400 * MIB, &memory_props, 0);
		cu.cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		tell(s, fd, &m);
		close(fd);
		hear(s, &m);
		fact(cu.cuMemRelease(h), "exporter: let go of 400 MiB");
		printf("  device has %.1f MiB free\n", device_free());
		tell(s, -1, &m);
	}
	hear(s, &m);
}

/* `by_handle`: it is imported by handle first. */
static void foreign_import(int s, bool by_handle)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 400 * MIB};
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = 400 * MIB};
	CUmemGenericAllocationHandle h = 0;
	CUexternalMemory x = NULL;
	CUdeviceptr p = 0;
	struct message m;

	desc.handle.fd = hear(s, &m);
	if (by_handle)
		FACT(cu.cuMemImportFromShareableHandle(&h, (void *)(intptr_t)desc.handle.fd,
						       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	FACT(cu.cuImportExternalMemory(&x, &desc));
	FACT(cu.cuExternalMemoryGetMappedBuffer(&p, x, &buffer));
	tell(s, -1, &m);
	hear(s, &m);
	fact(0, "importer: after the exporter let go");
	if (by_handle)
		FACT(cu.cuMemRelease(h));
	FACT(cu.cuDestroyExternalMemory(x));
	printf("  device has %.1f MiB free\n", device_free());
	FACT(cu.cuMemFree_v2(p));
	printf("  device has %.1f MiB free\n", device_free());
}

static void foreign_importer(int s)
{
	struct message m = {0};

	primary();
	foreign_import(s, false);
	foreign_import(s, true);
	tell(s, -1, &m);
}

static void s_foreign(void)
{
	two(foreign_exporter, foreign_importer);
}

/*
 * Measures how long the driver lists an ended process, and how long the device holds its memory.
 * `how`: the process exits, kills itself, or destroys its context first.
 */
static void dead_process(const char *how)
{
	unsigned long long begin[3], now[3];
	double began, listed = 0, held = 0;
	struct message m = {0};
	int sv[2];
	pid_t pid;

	figure_of(0);
	nvml_memory(nvml_device, begin);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv))
		_exit(1);
	pid = fork();
	if (!pid) {
		CUcontext context = NULL;
		CUdeviceptr p;

		cu.cuInit(0);
		cu.cuCtxCreate_v2(&context, 0, 0);
		for (int i = 0; i < 16; i++)
			cu.cuMemAlloc_v2(&p, 256 * MIB);
		tell(sv[1], -1, &m);
		hear(sv[1], &m);
		if (*how == 'd')
			cu.cuCtxDestroy_v2(context);
		if (*how == 'k')
			raise(SIGKILL);
		_exit(0);
	}
	hear(sv[0], &m);
	began = now_ms();
	tell(sv[0], -1, &m);
	while (now_ms() < began + 2000) {
		double t = now_ms() - began;

		if (figure_of(pid) > 0)
			listed = t;
		nvml_memory(nvml_device, now);
		if (now[2] > begin[2] + 16 * MIB)
			held = t;
	}
	waitpid(pid, NULL, 0);
	printf("  a process of 4 GiB that %-34s listed for %.1f ms, held for %.1f ms\n", how, listed, held);
	close(sv[0]);
	close(sv[1]);
}

/* Device memory of a live process that has destroyed its context. */
static void dead_context(bool is_primary)
{
	unsigned long long begin[3], now[3];
	double began, listed, held = 0;
	CUcontext context = NULL;
	CUdeviceptr p;

	figure_of(0);
	nvml_memory(nvml_device, begin);
	cu.cuInit(0);
	if (is_primary)
		cu.cuDevicePrimaryCtxRetain(&context, 0);
	else
		cu.cuCtxCreate_v2(&context, 0, 0);
	cu.cuCtxSetCurrent(context);
	for (int i = 0; i < 16; i++)
		cu.cuMemAlloc_v2(&p, 256 * MIB);
	began = now_ms();
	if (is_primary)
		cu.cuDevicePrimaryCtxRelease_v2(0);
	else
		cu.cuCtxDestroy_v2(context);
	listed = now_ms() - began;
	nvml_memory(nvml_device, now);
	printf("  %s context ends in %.1f ms; the device has %.1f MiB of it, %.1f listed\n",
	       is_primary ? "primary" : "a", listed, ((double)now[2] - (double)begin[2]) / MIB,
	       figure_of(getpid()));
	while (now_ms() < began + 500) {
		nvml_memory(nvml_device, now);
		if (now[2] > begin[2] + 16 * MIB)
			held = now_ms() - began;
	}
	printf("  held for %.1f ms, then %.1f MiB\n", held,
	       ((double)now[2] - (double)begin[2]) / MIB);
}

static void s_dead(void)
{
	dead_process("ends");
	dead_process("kills itself");
	dead_process("destroys its context");
	dead_context(true);
	dead_context(false);
}

/* Memory by handle that the process has made itself. */
static void s_self(void)
{
	CUmemGenericAllocationHandle made, imported;
	int fd = -1;

	primary();
	FACT(cu.cuMemCreate(&made, 400 * MIB, &memory_props, 0));
	cu.cuMemExportToShareableHandle(&fd, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	FACT(cu.cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
					       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	printf("  %s handle\n", made == imported ? "the same" : "another");
	FACT(cu.cuMemRelease(made));
	printf("  device has %.1f MiB free\n", device_free());
	FACT(cu.cuMemRelease(imported));
	printf("  device has %.1f MiB free\n", device_free());
	close(fd);
	printf("  device has %.1f MiB free, the descriptor closed\n", device_free());
}

static void s_handles(void)
{
	CUmemGenericAllocationHandle h;
	CUipcMemHandle a, b;
	CUdeviceptr p;
	int fd = -1, r;

	primary();
	cu.cuMemAlloc_v2(&p, 300 * MIB);
	cu.cuIpcGetMemHandle(&a, p);
	cu.cuIpcGetMemHandle(&b, p + 2 * MIB);
	printf("  IPC handles of an allocation and of 2 MiB inside: %s\n",
	       memcmp(&a, &b, sizeof(a)) ? "differ" : "the same bytes");
	for (size_t i = 0; i < sizeof(a); i++)
		if (a.reserved[i] != b.reserved[i])
			printf("  byte %zu: %02x, %02x\n", i, (unsigned char)a.reserved[i],
			       (unsigned char)b.reserved[i]);
	cu.cuMemFree_v2(p);
	cu.cuMemAlloc_v2(&p, 300 * MIB);
	cu.cuIpcGetMemHandle(&b, p);
	printf("  IPC handle of the next allocation at that address: %s\n",
	       memcmp(&a, &b, sizeof(a)) ? "differs" : "the same bytes");
	cu.cuMemCreate(&h, 2 * MIB, &memory_props, 0);
	cu.cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	r = fcntl(fd, F_OFD_SETLK, &(struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET,
						   .l_start = INT64_C(3) << 60 | 12345, .l_len = 1});
	printf("  a lock on an exported descriptor: %s\n", r ? strerror(errno) : "held");
}

static void ipc_exporter(int s)
{
	CUdeviceptr p, base;
	struct message m;
	size_t size;

	primary();
	fact(cu.cuMemAlloc_v2(&p, 300 * MIB), "exporter: 300 MiB");
	fact(cu.cuIpcGetMemHandle(&m.handle, p + 2 * MIB), "exporter: a handle of 2 MiB inside");
	cu.cuMemGetAddressRange_v2(&base, &size, p);
	tell(s, -1, &m);
	hear(s, &m);
}

static void ipc_importer(int s)
{
	CUdeviceptr p = 0, base = 0;
	struct message m;
	size_t size = 0;
	CUresult e;

	primary();
	hear(s, &m);
	e = cu.cuIpcOpenMemHandle_v2(&p, m.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	cu.cuMemGetAddressRange_v2(&base, &size, p);
	fact(e, "importer: open, %.1f MiB, %.1f inside", (double)size / MIB, (double)(p - base) / MIB);
	printf("  device has %.1f MiB free\n", device_free());
	tell(s, -1, &m);
	nap(1);
	fact(0, "importer: after the exporter ended");
	printf("  device has %.1f MiB free\n", device_free());
	fact(cu.cuIpcCloseMemHandle(p), "importer: closed");
	printf("  device has %.1f MiB free\n", device_free());
}

static void s_ipc(void)
{
	two(ipc_exporter, ipc_importer);
}

static void s_external(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 400 * MIB};
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = 400 * MIB};
	CUmemGenericAllocationHandle h;
	CUexternalMemory x = NULL;
	CUdeviceptr p = 0;
	int fd = -1;

	primary();
	FACT(cu.cuMemCreate(&h, 400 * MIB, &memory_props, 0));
	cu.cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	desc.handle.fd = fd;
	FACT(cu.cuImportExternalMemory(&x, &desc));
	FACT(cu.cuExternalMemoryGetMappedBuffer(&p, x, &buffer));
	FACT(cu.cuMemRelease(h));
	printf("  device has %.1f MiB free\n", device_free());
	FACT(cu.cuDestroyExternalMemory(x));
	printf("  device has %.1f MiB free\n", device_free());
	FACT(cu.cuMemFree_v2(p));
	printf("  device has %.1f MiB free\n", device_free());
}

static const struct {
	const char *name;
	void (*fn)(void);
} scenarios[] = {
	{"primary", s_primary},	  {"explicit", s_explicit},   {"lazy", s_lazy},
	{"eager", s_eager},	  {"heap", s_heap},	      {"heapback", s_heapback},
	{"stack", s_stack},	  {"fifo", s_fifo},	      {"runtime", s_runtime},
	{"green", s_green},	  {"greenlast", s_greenlast}, {"reset", s_reset},
	{"late", s_late},	  {"pools", s_pools},	      {"ipc", s_ipc},
	{"external", s_external}, {"segments", s_segments},   {"bare", s_bare},
	{"ends", s_ends},	  {"foreign", s_foreign},     {"dead", s_dead},
	{"self", s_self},	  {"handles", s_handles},
};

static bool is_wanted(const char *name, char **words)
{
	bool any = false;

	for (; *words; words++) {
		any = true;
		if (!strcmp(*words, name))
			return true;
	}
	return !any;
}

int main(int argc, char **argv)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	(void)argc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!driver) {
		fprintf(stderr, "takes: no libcuda.so.1: %s\n", dlerror());
		return 77;
	}
	cuda_driver_bind(driver, dlsym);
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		pid_t pid;

		if (!is_wanted(scenarios[i].name, argv + 1))
			continue;
		printf("%s\n", scenarios[i].name);
		pid = fork();
		if (!pid) {
			scenarios[i].fn();
			fflush(stdout);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}
