/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver really takes from the device for each allocation family, by its own per-process
 * figure: the facts that the accounting model rests on. Run on the bare driver, without liballot;
 * prints one line a fact. Not a test: nothing here can fail but the driver.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nvidia/cuda_api.h"

#define MIB (1ULL << 20)
#define cu cuda_real

struct process_info {
	unsigned int pid;
	unsigned long long bytes;
	unsigned int gi, ci;
};

static int (*nvml_processes)(void *dev, unsigned int *n, struct process_info *p);
static void *nvml_device;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void check(CUresult r, const char *what)
{
	if (r)
		printf("  ! %s -> %d\n", what, r);
}
#define DO(call) check(call, #call)

static double figure_pid(pid_t pid)
{
	struct process_info p[256];
	unsigned int n = 256;

	if (nvml_processes(nvml_device, &n, p))
		return -1;
	for (unsigned int i = 0; i < n; i++)
		if (p[i].pid == (unsigned int)pid)
			return p[i].bytes / (double)MIB;
	return 0;
}

static double last;

static void fact(const char *what)
{
	double f = figure_pid(getpid());

	printf("%-58s %+10.3f MiB  (%.1f)\n", what, f - last, f);
	fflush(stdout);
	last = f;
}

static void *load_nvml(void)
{
	void *h = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	double t = now_us();
	int (*init)(void) = (int (*)(void))dlsym(h, "nvmlInit_v2");
	int (*get)(unsigned int, void **) =
		(int (*)(unsigned int, void **))dlsym(h, "nvmlDeviceGetHandleByIndex_v2");

	init();
	printf("nvmlInit_v2: %.0f us\n", now_us() - t);
	t = now_us();
	get(0, &nvml_device);
	printf("nvmlDeviceGetHandleByIndex_v2: %.0f us\n", now_us() - t);
	nvml_processes = (int (*)(void *, unsigned int *, struct process_info *))dlsym(
		h, "nvmlDeviceGetComputeRunningProcesses_v3");
	return h;
}

static void small_allocations(void)
{
	CUdeviceptr p[4096], q;
	double t;

	DO(cu.cuMemAlloc_v2(&p[0], 1));
	fact("cuMemAlloc 1 B");
	for (int i = 1; i < 100; i++)
		DO(cu.cuMemAlloc_v2(&p[i], 1));
	printf("  spacing of 1 B: %lld, at %llx\n", (long long)(p[2] - p[1]), p[1]);
	fact("99 more of 1 B");
	for (int i = 100; i < 140; i++)
		DO(cu.cuMemAlloc_v2(&p[i], 100 << 10));
	fact("40 of 100 KiB");
	for (int i = 0; i < 140; i++)
		DO(cu.cuMemFree_v2(p[i]));
	fact("all freed");
	size_t sizes[] = {512 << 10, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 19, 2 << 20,
			  (2 << 20) + 1, 3 << 20, 5 << 20, 33 << 20, (33 << 20) + 5};
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		char s[64];
		CUdeviceptr a, b, c;

		DO(cu.cuMemAlloc_v2(&a, sizes[i]));
		DO(cu.cuMemAlloc_v2(&b, sizes[i]));
		DO(cu.cuMemAlloc_v2(&c, sizes[i]));
		snprintf(s, sizeof(s), "3 x cuMemAlloc %zu B (%llx %llx)", sizes[i], a & 0xfffffff,
			 b & 0xfffffff);
		fact(s);
		cu.cuMemFree_v2(a), cu.cuMemFree_v2(b), cu.cuMemFree_v2(c);
		fact("  freed");
	}
	t = now_us();
	figure_pid(getpid());
	printf("one figure: %.0f us\n", now_us() - t);
	size_t pitch;
	DO(cu.cuMemAllocPitch_v2(&q, &pitch, 100, 100000, 4));
	printf("  pitch of width 100: %zu\n", pitch);
	fact("cuMemAllocPitch 100 x 100000 (9.5 MiB unpadded)");
	cu.cuMemFree_v2(q);
	fact("  freed");
	DO(cu.cuMemAllocManaged(&q, 64 * MIB, CU_MEM_ATTACH_GLOBAL));
	fact("cuMemAllocManaged 64 MiB");
	DO(cu.cuMemsetD8_v2(q, 1, 32 * MIB));
	cu.cuCtxSynchronize();
	fact("  device set 32 MiB of it");
	cu.cuMemFree_v2(q);
	fact("  freed");
}

static void one_array(unsigned int w, unsigned int h, unsigned int d, unsigned int flags, int n,
		      CUarray_format f, unsigned int ch)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = w, .Height = h, .Depth = d, .Format = f,
					.NumChannels = ch, .Flags = flags};
	CUDA_ARRAY_MEMORY_REQUIREMENTS req = {0};
	CUarray a[64], x;
	char s[100];
	double t;

	desc.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
	t = now_us();
	CUresult r = cu.cuArray3DCreate_v2(&x, &desc);
	if (!r) {
		r = cu.cuArrayGetMemoryRequirements(&req, x, 0);
		cu.cuArrayDestroy(x);
	}
	t = now_us() - t;
	desc.Flags = flags;
	for (int i = 0; i < n; i++)
		DO(cu.cuArray3DCreate_v2(&a[i], &desc));
	snprintf(s, sizeof(s),
		 "%d arrays %ux%ux%u fmt %d ch %u flags %x (req %zu al %zu r %d, %.0f us)",
		 n, w, h, d, f, ch, flags, req.size, req.alignment, r, t);
	fact(s);
	for (int i = 0; i < n; i++)
		cu.cuArrayDestroy(a[i]);
	fact("  freed");
}

static void arrays(void)
{
	one_array(64, 64, 0, 0, 1, CU_AD_FORMAT_FLOAT, 1);
	one_array(64, 64, 0, 0, 50, CU_AD_FORMAT_FLOAT, 1);
	one_array(256, 256, 0, 0, 16, CU_AD_FORMAT_FLOAT, 1);
	one_array(1000, 1000, 0, 0, 4, CU_AD_FORMAT_FLOAT, 1);
	one_array(4096, 4096, 0, 0, 1, CU_AD_FORMAT_FLOAT, 4);
	one_array(1000, 0, 0, 0, 4, CU_AD_FORMAT_FLOAT, 1);
	one_array(100, 100, 100, 0, 2, CU_AD_FORMAT_FLOAT, 1);
	one_array(512, 512, 6, CUDA_ARRAY3D_LAYERED, 2, CU_AD_FORMAT_UNSIGNED_INT8, 4);
	one_array(4096, 4096, 0, CUDA_ARRAY3D_SPARSE, 1, CU_AD_FORMAT_FLOAT, 4);
	CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 1024, .Height = 1024,
					.Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
	CUmipmappedArray m;
	CUDA_ARRAY_MEMORY_REQUIREMENTS req = {0};
	desc.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
	CUresult r = cu.cuMipmappedArrayCreate(&m, &desc, 11);
	if (!r) {
		r = cu.cuMipmappedArrayGetMemoryRequirements(&req, m, 0);
		cu.cuMipmappedArrayDestroy(m);
	}
	printf("  mipmapped requirements %zu (%d)\n", req.size, r);
	desc.Flags = 0;
	DO(cu.cuMipmappedArrayCreate(&m, &desc, 11));
	fact("mipmapped 1024x1024 float4, 11 levels");
	cu.cuMipmappedArrayDestroy(m);
	fact("  freed");
}

static unsigned long long attr(CUmemoryPool pool, CUmemPool_attribute a)
{
	cuuint64_t v = 0;

	cu.cuMemPoolGetAttribute(pool, a, &v);
	return v;
}

static void pools(void)
{
	CUmemoryPool pool;
	CUdeviceptr p[16];
	size_t sizes[] = {1, 1 << 20, 2 << 20, 31 << 20, 33 << 20, 100 << 20, 1};

	cu.cuDeviceGetDefaultMemPool(&pool, 0);
	for (int i = 0; i < 7; i++) {
		char s[100];
		DO(cu.cuMemAllocAsync(&p[i], sizes[i], NULL));
		snprintf(s, sizeof(s), "cuMemAllocAsync %zu: reserved %.1f used %.3f MiB", sizes[i],
			 attr(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) / (double)MIB,
			 attr(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) / (double)MIB);
		fact(s);
	}
	for (int i = 0; i < 7; i++)
		DO(cu.cuMemFreeAsync(p[i], NULL));
	fact("freed async");
	printf("  reserved %.1f\n", attr(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) / (double)MIB);
	cu.cuStreamSynchronize(NULL);
	fact("  synchronized");
	printf("  reserved %.1f\n", attr(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) / (double)MIB);
	cu.cuMemPoolTrimTo(pool, 0);
	fact("  trimmed");
	printf("  reserved %.1f\n", attr(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) / (double)MIB);
	DO(cu.cuMemAllocAsync(&p[0], 40 << 20, NULL));
	DO(cu.cuMemFree_v2(p[0]));
	fact("async 40 MiB, freed by cuMemFree");
	printf("  reserved %.1f\n", attr(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) / (double)MIB);
	cu.cuCtxSynchronize();
	cu.cuMemPoolTrimTo(pool, 0);
	fact("  trimmed");
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	DO(cu.cuMemPoolCreate(&pool, &props));
	fact("cuMemPoolCreate exportable");
	DO(cu.cuMemAllocFromPoolAsync(&p[0], 1 << 20, pool, NULL));
	fact("1 MiB from it");
	printf("  reserved %.1f\n", attr(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) / (double)MIB);
	cu.cuMemFreeAsync(p[0], NULL);
	cu.cuMemPoolDestroy(pool);
	cu.cuCtxSynchronize();
	fact("  pool destroyed");
	memset(&props, 0, sizeof(props));
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	props.maxSize = 64 * MIB;
	DO(cu.cuMemPoolCreate(&pool, &props));
	for (int i = 0; i < 3; i++)
		printf("  maxSize 64 MiB pool, 30 MiB each: %d\n",
		       cu.cuMemAllocFromPoolAsync(&p[i], 30 << 20, pool, NULL));
	fact("  three of 30 MiB in it");
	for (int i = 0; i < 3; i++)
		cu.cuMemFreeAsync(p[i], NULL);
	cu.cuCtxSynchronize();
	cu.cuMemPoolDestroy(pool);
	fact("  destroyed");
}

static int send_fd(int sock, int fd, const void *data, size_t n)
{
	char c[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec v = {(void *)data, n};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

	if (fd >= 0) {
		m.msg_control = c;
		m.msg_controllen = sizeof(c);
		struct cmsghdr *h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	}
	return sendmsg(sock, &m, 0) < 0 ? -1 : 0;
}

static int recv_fd(int sock, void *data, size_t n)
{
	char c[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec v = {data, n};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c,
			   .msg_controllen = sizeof(c)};
	int fd = -1;

	if (recvmsg(sock, &m, 0) < 0)
		return -1;
	if (CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* The second process: started before the first touches CUDA. */
static void importer(int sock)
{
	CUcontext ctx;
	CUdeviceptr p;
	CUipcMemHandle ipc;
	CUmemGenericAllocationHandle h;
	char c;
	int fd;

	recv_fd(sock, &c, 1);
	cu.cuInit(0);
	cu.cuDevicePrimaryCtxRetain(&ctx, 0);
	cu.cuCtxSetCurrent(ctx);
	last = figure_pid(getpid());
	printf("importer idle: %.1f\n", last);
	recv_fd(sock, &ipc, sizeof(ipc));
	DO(cu.cuIpcOpenMemHandle_v2(&p, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	fact("importer: cuIpcOpenMemHandle 100 MiB");
	send_fd(sock, -1, "a", 1);
	recv_fd(sock, &c, 1); /* exporter freed it */
	fact("importer: after the exporter freed");
	DO(cu.cuIpcCloseMemHandle(p));
	fact("importer: closed");
	send_fd(sock, -1, "b", 1);
	fd = recv_fd(sock, &c, 1);
	struct stat st;
	fstat(fd, &st);
	printf("  importer: fd inode %lu dev %lx rdev %lx owner %d sig %d lseek %lld\n", st.st_ino,
	       st.st_dev, st.st_rdev, fcntl(fd, F_GETOWN), fcntl(fd, F_GETSIG),
	       (long long)lseek(fd, 0, SEEK_CUR));
	DO(cu.cuMemImportFromShareableHandle(&h, (void *)(long)fd,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	fact("importer: VMM handle 100 MiB imported");
	DO(cu.cuMemAddressReserve(&p, 100 * MIB, 0, 0, 0));
	DO(cu.cuMemMap(p, 100 * MIB, 0, h, 0));
	fact("importer: mapped");
	send_fd(sock, -1, "c", 1);
	recv_fd(sock, &c, 1);
	fact("importer: after the exporter released");
	cu.cuMemUnmap(p, 100 * MIB);
	cu.cuMemRelease(h);
	fact("importer: released, fd still open");
	send_fd(sock, -1, "d", 1);
	recv_fd(sock, &c, 1);
	_exit(0);
}

static size_t device_free(void)
{
	size_t f = 0, t = 0;

	cu.cuMemGetInfo_v2(&f, &t);
	return f;
}

static void sharing(int sock)
{
	CUdeviceptr p;
	CUipcMemHandle a, b;
	CUmemGenericAllocationHandle h;
	char c;
	int fd = -1;

	send_fd(sock, -1, "x", 1);
	DO(cu.cuMemAlloc_v2(&p, 100 * MIB));
	fact("exporter: cuMemAlloc 100 MiB");
	DO(cu.cuIpcGetMemHandle(&a, p));
	DO(cu.cuIpcGetMemHandle(&b, p));
	printf("  same IPC handle twice: %d\n", !memcmp(&a, &b, sizeof(a)));
	for (int i = 0; i < 64; i++)
		printf("%02x", (unsigned char)a.reserved[i]);
	puts("");
	send_fd(sock, -1, (char *)&a, sizeof(a));
	recv_fd(sock, &c, 1);
	size_t f = device_free();
	cu.cuMemFree_v2(p);
	fact("exporter: freed while imported");
	printf("  device free changed %+lld MiB\n",
	       ((long long)device_free() - (long long)f) >> 20);
	send_fd(sock, -1, "x", 1);
	recv_fd(sock, &c, 1);
	printf("  device free after importer closed %+lld MiB\n",
	       ((long long)device_free() - (long long)f) >> 20);
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	DO(cu.cuMemCreate(&h, 100 * MIB, &prop, 0));
	fact("exporter: cuMemCreate 100 MiB");
	DO(cu.cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	struct stat st;
	fstat(fd, &st);
	printf("  fd %d inode %lu dev %lx rdev %lx; setown %d setsig %d\n", fd, st.st_ino,
	       st.st_dev, st.st_rdev, fcntl(fd, F_SETOWN, getpid()), fcntl(fd, F_SETSIG, 17));
	fact("exporter: exported");
	send_fd(sock, fd, "x", 1);
	recv_fd(sock, &c, 1);
	close(fd);
	f = device_free();
	cu.cuMemRelease(h);
	fact("exporter: released while imported");
	printf("  device free changed %+lld MiB\n",
	       ((long long)device_free() - (long long)f) >> 20);
	send_fd(sock, -1, "x", 1);
	recv_fd(sock, &c, 1);
	printf("  device free after importer released, fd open %+lld MiB\n",
	       ((long long)device_free() - (long long)f) >> 20);
	send_fd(sock, -1, "x", 1);
	/* Mapping alone holds memory; handle released first. */
	DO(cu.cuMemCreate(&h, 10 * MIB, &prop, 0));
	DO(cu.cuMemAddressReserve(&p, 10 * MIB, 0, 0, 0));
	DO(cu.cuMemMap(p, 10 * MIB, 0, h, 0));
	fact("VMM 10 MiB mapped");
	DO(cu.cuMemRelease(h));
	fact("  handle released, mapped");
	CUmemGenericAllocationHandle h2;
	DO(cu.cuMemRetainAllocationHandle(&h2, (void *)p));
	printf("  retained handle equals: %d\n", h2 == h);
	DO(cu.cuMemUnmap(p, 10 * MIB));
	fact("  unmapped, retained");
	DO(cu.cuMemRelease(h2));
	fact("  released");
}

static void graphs(void)
{
	CUgraph g;
	CUgraphNode n, fr;
	CUgraphExec e;
	CUstream s;
	CUDA_MEM_ALLOC_NODE_PARAMS a = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
						      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
					.bytesize = 50 * MIB};
	cuuint64_t v;

	cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
	cu.cuGraphCreate(&g, 0);
	DO(cu.cuGraphAddMemAllocNode(&n, g, NULL, 0, &a));
	fact("graph: mem alloc node 50 MiB");
	DO(cu.cuGraphAddMemFreeNode(&fr, g, &n, 1, a.dptr));
	DO(cu.cuGraphInstantiateWithFlags(&e, g, 0));
	fact("  instantiated");
	DO(cu.cuGraphUpload(e, s));
	cu.cuStreamSynchronize(s);
	fact("  uploaded");
	DO(cu.cuGraphLaunch(e, s));
	cu.cuStreamSynchronize(s);
	cu.cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &v);
	printf("  graph reserved %.1f\n", v / (double)MIB);
	fact("  launched");
	CUgraphExec e2;
	DO(cu.cuGraphInstantiateWithFlags(&e2, g, 0));
	CUgraph g3;
	CUDA_MEM_ALLOC_NODE_PARAMS a3 = a;
	a3.bytesize = 30 * MIB;
	a3.dptr = 0;
	cu.cuGraphCreate(&g3, 0);
	DO(cu.cuGraphAddMemAllocNode(&n, g3, NULL, 0, &a3));
	DO(cu.cuGraphAddMemFreeNode(&fr, g3, &n, 1, a3.dptr));
	CUgraphExec e3;
	DO(cu.cuGraphInstantiateWithFlags(&e3, g3, 0));
	DO(cu.cuGraphLaunch(e3, s));
	cu.cuStreamSynchronize(s);
	fact("  second graph of 30 MiB launched");
	cu.cuGraphExecDestroy(e);
	cu.cuGraphExecDestroy(e3);
	cu.cuGraphDestroy(g);
	fact("  destroyed");
	cu.cuDeviceGraphMemTrim(0);
	fact("  trimmed");
	cu.cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &v);
	printf("  graph reserved %.1f\n", v / (double)MIB);
	cu.cuStreamDestroy_v2(s);
}

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
	".global .align 4 .b8 buf[67108864];\n"
	".visible .entry k()\n{\n ret;\n}\n"
	".visible .entry deep()\n{\n .local .align 16 .b8 x[16384];\n"
	" .reg .u64 %a; .reg .u32 %t; .reg .u64 %o;\n"
	" mov.u32 %t, %tid.x; cvt.u64.u32 %o, %t; mov.u64 %a, x; add.u64 %a,%a,%o;"
	" st.local.u8 [%a], %t;\n ret;\n}\n";

static void modules(void)
{
	CUmodule m;
	CUlibrary l;
	CUkernel k;
	CUfunction f, f2;

	DO(cu.cuModuleLoadData(&m, ptx));
	fact("module with a 64 MiB variable: loaded");
	DO(cu.cuModuleGetFunction(&f, m, "k"));
	fact("  function");
	DO(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	cu.cuCtxSynchronize();
	fact("  launched");
	DO(cu.cuModuleGetFunction(&f2, m, "deep"));
	fact("  function with 16 KiB of local memory");
	DO(cu.cuLaunchKernel(f2, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	cu.cuCtxSynchronize();
	fact("  launched");
	cu.cuModuleUnload(m);
	fact("  unloaded");
	DO(cu.cuLibraryLoadData(&l, ptx, NULL, NULL, 0, NULL, NULL, 0));
	fact("library loaded");
	DO(cu.cuLibraryGetKernel(&k, l, "k"));
	DO(cu.cuKernelGetFunction(&f, k));
	fact("  function of it");
	DO(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	cu.cuCtxSynchronize();
	fact("  launched");
	cu.cuLibraryUnload(l);
	fact("  unloaded");
}

static void contexts(void)
{
	CUcontext c, cur;

	cu.cuCtxGetCurrent(&cur);
	size_t v = 0;
	cu.cuCtxGetLimit(&v, CU_LIMIT_MALLOC_HEAP_SIZE);
	printf("heap limit %zu\n", v);
	DO(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 256 * MIB));
	fact("malloc heap 256 MiB");
	DO(cu.cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 64 * MIB));
	fact("printf fifo 64 MiB");
	cu.cuCtxGetLimit(&v, CU_LIMIT_STACK_SIZE);
	printf("stack %zu\n", v);
	DO(cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192));
	fact("stack 8 KiB");
	DO(cu.cuCtxCreate_v2(&c, 0, 0));
	fact("second context");
	cu.cuCtxDestroy_v2(c);
	fact("  destroyed");
	cu.cuCtxSetCurrent(cur);
}

int main(void)
{
	CUcontext ctx;
	int sv[2];
	double t;

	setvbuf(stdout, NULL, _IOLBF, 0);
	socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
	t = now_us();
	void *h = dlopen("libcuda.so.1", RTLD_NOW);
	printf("dlopen libcuda: %.0f us\n", now_us() - t);
	t = now_us();
	cuda_driver_bind(h, dlsym);
	printf("bind of %d names: %.0f us\n", CUDA_FN_N, now_us() - t);
	pid_t pid = fork();
	load_nvml();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		importer(sv[1]);
	}
	t = now_us();
	DO(cu.cuInit(0));
	printf("cuInit: %.0f us\n", now_us() - t);
	fact("cuInit");
	size_t f0 = 0;
	t = now_us();
	DO(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	printf("primary retain: %.0f us\n", now_us() - t);
	cu.cuCtxSetCurrent(ctx);
	fact("primary context");
	f0 = device_free();
	size_t tot;
	cu.cuDeviceTotalMem_v2(&tot, 0);
	printf("device total %zu free %zu MiB\n", tot >> 20, f0 >> 20);
	if (!getenv("PROBE_SHORT")) {
		small_allocations();
		arrays();
		pools();
		graphs();
	}
	sharing(sv[0]);
	contexts();
	modules();
	waitpid(pid, NULL, 0);
	return 0;
}
