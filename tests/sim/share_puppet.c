/* SPDX-License-Identifier: Apache-2.0 */
/* The program of share_puppet.h: a conversation on descriptor PUPPET_FD. */
#include "share_puppet.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "message.h"
#include "nvidia/cuda_api.h"
#include "nvidia/nvml_api.h"

#define SLOTS 128

static struct cuda_driver cu;
static struct nvml_library ml;

static struct slot {
	enum puppet_kind kind;
	bool imported;
	uint64_t bytes;
	CUdeviceptr address;
	CUmemGenericAllocationHandle handle;
	CUexternalMemory external; /* NULL: destroyed */
	CUmipmappedArray array;
} slots[SLOTS];
static int nslots;
static CUmemoryPool pools[4], imported_pool; /* own ones by device */
static int imported_pointers;
static CUcontext current;
static atomic_int done;

static void bind_cuda(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	if (!driver)
		exit(3);
#define CUDA_HOOK(name, kind, params, args) *(void **)&cu.name = dlsym(driver, #name);
#define CUDA_CALL(name, kind, params, args) CUDA_HOOK(name, kind, params, args)
#include "nvidia/cuda_api.def"
}

static void bind_nvml(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);

	if (!library)
		exit(3);
	nvml_library_bind(&ml, library, dlsym);
}

static CUmemAllocationProp handle_prop(int device)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

static CUresult map(struct slot *s)
{
	CUresult e = cu.cuMemAddressReserve(&s->address, s->bytes, 0, 0, 0);

	return e ? e : cu.cuMemMap(s->address, s->bytes, 0, s->handle, 0);
}

static CUresult make(const struct puppet_ask *ask, struct slot *s)
{
	CUmemAllocationProp prop = handle_prop(ask->device);
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				.location = prop.location};
	CUmemoryPool *pool = &pools[ask->device & 3];
	CUresult e;

	*s = (struct slot){.kind = (enum puppet_kind)ask->kind, .bytes = ask->bytes};
	switch (s->kind) {
	case PLAIN:
		return cu.cuMemAlloc_v2(&s->address, s->bytes);
	case MANAGED:
		return cu.cuMemAllocManaged(&s->address, s->bytes, CU_MEM_ATTACH_GLOBAL);
	case POOLED:
		e = *pool ? CUDA_SUCCESS : cu.cuMemPoolCreate(pool, &props);
		if (!e)
			e = cu.cuMemAllocFromPoolAsync(&s->address, s->bytes, *pool, NULL);
		return e ? e : cu.cuStreamSynchronize(NULL);
	default:
		e = cu.cuMemCreate(&s->handle, s->bytes, &prop, 0);
		if (e)
			return e;
		e = map(s);
		if (e)
			cu.cuMemRelease(s->handle);
		return e;
	}
}

static CUresult export_slot(struct slot *s, uint64_t inside, unsigned char *blob, int *ret_fd)
{
	CUresult e;

	switch (s->kind) {
	case PLAIN:
		return cu.cuIpcGetMemHandle((CUipcMemHandle *)blob, s->address + inside);
	case POOLED:
		e = cu.cuMemPoolExportToShareableHandle(
			ret_fd, pools[0], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		return e ? e
			 : cu.cuMemPoolExportPointer((CUmemPoolPtrExportData *)blob, s->address);
	default:
		return cu.cuMemExportToShareableHandle(
			ret_fd, s->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	}
}

static CUresult import(const struct puppet_ask *ask, int *fd, struct slot *s)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC external = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = ask->bytes};
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = ask->bytes};
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC mipmap = {
		.arrayDesc = {.Width = 256, .Height = 256, .Format = CU_AD_FORMAT_FLOAT,
			      .NumChannels = 1},
		.numLevels = 1};
	CUmemPoolPtrExportData data;
	CUipcMemHandle ipc;
	CUresult e;

	*s = (struct slot){.kind = (enum puppet_kind)ask->kind, .imported = true,
			   .bytes = ask->bytes};
	switch (s->kind) {
	case PLAIN:
		memcpy(&ipc, ask->blob, sizeof(ipc));
		return cu.cuIpcOpenMemHandle_v2(&s->address, ipc,
						CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	case POOLED:
		e = imported_pool ? CUDA_SUCCESS :
				    cu.cuMemPoolImportFromShareableHandle(
					    &imported_pool, (void *)(intptr_t)*fd,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		memcpy(&data, ask->blob, sizeof(data));
		if (!e)
			e = cu.cuMemPoolImportPointer(&s->address, imported_pool, &data);
		imported_pointers += !e;
		return e;
	case EXTERNAL:
	case EXTERNAL_ARRAY:
		external.handle.fd = *fd;
		e = cu.cuImportExternalMemory(&s->external, &external);
		if (e)
			return e;
		*fd = -1; /* the driver's now */
		if (s->kind == EXTERNAL_ARRAY)
			return cu.cuExternalMemoryGetMappedMipmappedArray(&s->array, s->external,
									  &mipmap);
		return cu.cuExternalMemoryGetMappedBuffer(&s->address, s->external, &buffer);
	default:
		e = cu.cuMemImportFromShareableHandle(&s->handle, (void *)(intptr_t)*fd,
						      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
		if (e)
			return e;
		e = map(s);
		if (e)
			cu.cuMemRelease(s->handle);
		return e;
	}
}

/* The pool goes with the last of its pointers, and then gives back what it kept. */
static CUresult free_imported(struct slot *s)
{
	CUresult e = s->address ? cu.cuMemFree_v2(s->address) : CUDA_SUCCESS;

	if (e || --imported_pointers)
		return e;
	e = cu.cuMemPoolDestroy(imported_pool);
	imported_pool = NULL;
	return e;
}

static CUresult let_go(struct slot *s)
{
	CUresult e;

	if (s->kind == POOLED) {
		e = cu.cuMemFreeAsync(s->address, NULL);
		s->address = 0;
		return e ? e : cu.cuStreamSynchronize(NULL);
	}
	e = cu.cuDestroyExternalMemory(s->external);
	s->external = NULL;
	return e;
}

static CUresult free_slot(struct slot *s)
{
	CUresult e;

	switch (s->kind) {
	case PLAIN:
		return s->imported ? cu.cuIpcCloseMemHandle(s->address)
				   : cu.cuMemFree_v2(s->address);
	case POOLED:
		if (s->imported)
			return free_imported(s);
		e = cu.cuMemFreeAsync(s->address, NULL);
		return e ? e : cu.cuStreamSynchronize(NULL);
	case EXTERNAL:
	case EXTERNAL_ARRAY:
		e = s->array ? cu.cuMipmappedArrayDestroy(s->array) : cu.cuMemFree_v2(s->address);
		return e || !s->external ? e : cu.cuDestroyExternalMemory(s->external);
	case MANAGED:
		return cu.cuMemFree_v2(s->address);
	default:
		e = cu.cuMemUnmap(s->address, s->bytes);
		if (!e)
			e = cu.cuMemAddressFree(s->address, s->bytes);
		return e ? e : cu.cuMemRelease(s->handle);
	}
}

static void *launch(void *arg)
{
	CUfunction function;
	uint64_t us = 100;
	void *params[] = {&us};
	CUmodule module;

	if (!cu.cuCtxSetCurrent(current) && !cu.cuModuleLoadData(&module, "allot-sim-module\n") &&
	    !cu.cuModuleGetFunction(&function, module, "sim_spin") &&
	    !cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) &&
	    !cu.cuStreamSynchronize(NULL))
		done++;
	return arg;
}

static void uuid_text(const unsigned char *uuid, char *text)
{
	static const char hex[] = "0123456789abcdef";
	char *t = text;

	memcpy(t, "GPU-", 4);
	t += 4;
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*t++ = '-';
		*t++ = hex[uuid[i] >> 4];
		*t++ = hex[uuid[i] & 15];
	}
	*t = '\0';
}

static nvmlReturn_t nvml_ask(const struct puppet_ask *ask, struct puppet_answer *answer)
{
	nvmlMemory_v2_t v2 = {.version = nvmlMemory_v2};
	nvmlProcessInfo_t list[PUPPET_PIDS];
	unsigned int n = PUPPET_PIDS;
	nvmlDevice_t device;
	nvmlMemory_t memory;
	nvmlReturn_t r;
	char text[64];

	uuid_text(ask->blob, text);
	r = ml.nvmlDeviceGetHandleByUUID(text, &device);
	if (r)
		return r;
	if (ask->op == DO_MEMORY) {
		r = ml.nvmlDeviceGetMemoryInfo(device, &memory);
		if (!r)
			r = ml.nvmlDeviceGetMemoryInfo_v2(device, &v2);
		answer->a = memory.total;
		answer->b = memory.free;
		answer->c = memory.used;
		memcpy(answer->blob, &(uint64_t[4]){v2.total, v2.free, v2.used, v2.reserved}, 32);
		return r;
	}
	r = ml.nvmlDeviceGetComputeRunningProcesses_v3(device, &n, list);
	for (unsigned int i = 0; !r && i < n; i++) {
		answer->pid[i] = (int32_t)list[i].pid;
		if ((pid_t)list[i].pid == getpid())
			answer->b = list[i].usedGpuMemory;
	}
	answer->a = n;
	return r;
}

static int act(const struct puppet_ask *ask, int *in, struct puppet_answer *answer, int *out)
{
	struct slot *s = &slots[ask->slot < SLOTS ? ask->slot : 0];
	unsigned int v1[2] = {0, 0}, n = 0;
	size_t v2[2] = {0, 0};
	pthread_t thread;
	CUuuid uuid;
	int e;

	switch ((enum puppet_op)ask->op) {
	case DO_INIT:
		bind_cuda();
		e = (int)cu.cuInit(0);
		if (!e)
			e = (int)cu.cuDeviceGetCount((int *)&n);
		answer->a = n;
		return e;
	case DO_CONTEXT:
		e = (int)cu.cuDevicePrimaryCtxRetain(&current, ask->device);
		return e ? e : (int)cu.cuCtxSetCurrent(current);
	case DO_RELEASE_CONTEXT:
		return (int)cu.cuDevicePrimaryCtxRelease_v2(ask->device);
	case DO_MAKE:
	case DO_IMPORT:
		if (nslots == SLOTS)
			exit(4);
		answer->a = (uint64_t)nslots;
		s = &slots[nslots];
		e = (int)(ask->op == DO_MAKE ? make(ask, s) : import(ask, in, s));
		nslots += !e;
		return e;
	case DO_EXPORT:
		return (int)export_slot(s, ask->bytes, answer->blob, out);
	case DO_FREE:
		return (int)free_slot(s);
	case DO_LET_GO:
		return (int)let_go(s);
	case DO_INFO:
		e = (int)cu.cuMemGetInfo_v2(&v2[0], &v2[1]);
		if (!e)
			e = (int)cu.cuMemGetInfo(&v1[0], &v1[1]);
		*answer = (struct puppet_answer){.a = v2[0], .b = v2[1], .c = v1[0], .d = v1[1]};
		return e;
	case DO_TOTAL:
		e = (int)cu.cuDeviceTotalMem_v2(&v2[0], ask->device);
		if (!e)
			e = (int)cu.cuDeviceTotalMem(&v1[0], ask->device);
		answer->a = v2[0];
		answer->b = v1[0];
		return e;
	case DO_UUID:
		e = (int)cu.cuDeviceGetUuid_v2(&uuid, ask->device);
		memcpy(answer->blob, &uuid, sizeof(uuid));
		return e;
	case DO_NVML:
		bind_nvml();
		e = (int)ml.nvmlInit_v2();
		if (!e)
			e = (int)ml.nvmlDeviceGetCount_v2(&n);
		answer->a = n;
		return e;
	case DO_MEMORY:
	case DO_PIDS:
		return (int)nvml_ask(ask, answer);
	case DO_START:
		return pthread_create(&thread, NULL, launch, NULL);
	case DO_DONE:
		answer->a = (uint64_t)done;
		return 0;
	case DO_END:
		exit(0);
	}
	return -1;
}

int main(void)
{
	struct puppet_ask ask;
	int in;

	while (message_receive(PUPPET_FD, &ask, sizeof(ask), &in) == sizeof(ask)) {
		struct puppet_answer answer = {0};
		int out = -1;

		answer.result = act(&ask, &in, &answer, &out);
		message_send(PUPPET_FD, &answer, sizeof(answer), out);
		if (in >= 0)
			close(in);
		if (out >= 0)
			close(out);
	}
	return 0;
}
