/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each hook of the lists with each of its pointers left out, with none of them, and with all: what
 * is answered, which outputs are written, and whether the device gave memory or has it back. One
 * line a case, of which a run under allot has the same as one without:
 *
 *	arguments [HOOK...]
 *
 * A case makes what it needs and frees it. The cases run in a child process: one that ends the
 * child, or takes longer than 10 s, is an answer like any other, and the next child goes on behind
 * it. Which arguments a hook has, and what each is given, says arguments_calls.py.
 */
#include <fcntl.h>
#include <sys/wait.h>

#include "child.h"
#include "nvidia/nvml_api.h"

#define SIZE		     (64 * MIB)
#define BYTES_COPIED	     4096
#define KERNEL		     "sim_spin" /* the simulator knows kernels by their names */
#define CASE_S		     10
#define BEGIN_S		     60
#define KEY(handle)	     ((uint64_t)(uintptr_t)(handle))
#define NVML_ENTRIES	     64
#define NVML_VERSION(type, n) ((unsigned int)sizeof(type) | (n) << 24)
/* 64 MiB in one array. */
#define ARRAY_SHAPE .Width = 8192, .Height = 8192, .Format = CU_AD_FORMAT_UNSIGNED_INT8, \
		    .NumChannels = 1

#define nvml nvml_real

struct row {
	const char *name;
	int (*call)(unsigned int left_out);
	int n_pointers;
	const char *pointers[10];
	bool ends_all, simulated_only;
};

/* What a case has made, to be freed in the opposite order. */
typedef void undo_fn(uint64_t made);
static struct {
	undo_fn *undo;
	uint64_t made;
} made[64];
static int n_made;
/* The first thing that a case needed and the driver did not make. */
static const char *not_made;

static void later(undo_fn *undo, uint64_t what)
{
	if (n_made < (int)(sizeof(made) / sizeof(*made)))
		made[n_made].made = what, made[n_made++].undo = undo;
}

static bool need(CUresult r, const char *what)
{
	if (r && !not_made)
		not_made = what;
	return !r;
}
#define NEED(call) need(cu.call, #call)

/* For what the list has no prototype of. */
static void *driver_function(const char *name)
{
	return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
}

#define UNDO(name, type, call) \
	static void undo_##name(uint64_t handle) { cu.call((type)handle); }
UNDO(memory, CUdeviceptr, cuMemFree_v2)
UNDO(imported_memory, CUdeviceptr, cuIpcCloseMemHandle)
UNDO(handle, CUmemGenericAllocationHandle, cuMemRelease)
UNDO(context, CUcontext, cuCtxDestroy_v2)
UNDO(attach, CUcontext, cuCtxDetach)
UNDO(green_context, CUgreenCtx, cuGreenCtxDestroy)
UNDO(stream, CUstream, cuStreamDestroy_v2)
UNDO(event, CUevent, cuEventDestroy_v2)
UNDO(module, CUmodule, cuModuleUnload)
UNDO(library, CUlibrary, cuLibraryUnload)
UNDO(array, CUarray, cuArrayDestroy)
UNDO(mipmapped, CUmipmappedArray, cuMipmappedArrayDestroy)
UNDO(pool, CUmemoryPool, cuMemPoolDestroy)
UNDO(external, CUexternalMemory, cuDestroyExternalMemory)
UNDO(graph, CUgraph, cuGraphDestroy)
UNDO(graph_exec, CUgraphExec, cuGraphExecDestroy)

static void undo_retain(uint64_t context)
{
	cu.cuDevicePrimaryCtxRelease_v2(0);
}

static void undo_mapping(uint64_t at)
{
	cu.cuMemUnmap(at, SIZE);
	cu.cuMemAddressFree(at, SIZE);
}

static void undo_texture(uint64_t texture)
{
	CUresult (*destroy)(uint64_t) =
		(CUresult (*)(uint64_t))driver_function("cuTexObjectDestroy");

	if (destroy)
		destroy(texture);
}

static void undo_descriptor(uint64_t fd)
{
	close((int)fd);
}

/*
 * Outputs.
 */

enum form {
	VALUE,	/* a number, which is the same under allot */
	HANDLE, /* is it 0? */
	BYTES,	/* was it written? */
};

static struct output {
	const char *name;
	enum form form;
	const void *before;
	void *at;
	size_t size;
	undo_fn *undo;
} outputs[8];
static int n_outputs;
static unsigned char arena[1 << 16] __attribute__((aligned(64)));
static size_t arena_used;

static void *arena_take(size_t size)
{
	void *at = arena + arena_used;

	arena_used += (size + 63) & ~(size_t)63;
	if (arena_used > sizeof(arena))
		abort();
	return at;
}

static struct output *output_new(const char *name, enum form form, size_t size, undo_fn *undo)
{
	struct output *o = &outputs[n_outputs++];

	*o = (struct output){name, form, arena_take(size), arena_take(size), size, undo};
	return o;
}

/* Something that the driver only writes. */
static void *out(const char *name, enum form form, size_t size, undo_fn *undo)
{
	struct output *o = output_new(name, form, size, undo);

	memset((void *)o->before, 0xa5, size);
	return memset(o->at, 0xa5, size);
}

/* Something that the driver reads and writes. */
static void *inout(const char *name, enum form form, const void *before, size_t size)
{
	struct output *o = output_new(name, form, size, NULL);

	memcpy((void *)o->before, before, size);
	return memcpy(o->at, before, size);
}

/* Appends what the outputs have become; what a call that succeeded has made is undone later. */
static void outputs_say(FILE *line, bool succeeded)
{
	for (int i = 0; i < n_outputs; i++) {
		const struct output *o = &outputs[i];
		uint64_t value = 0;

		if (!memcmp(o->at, o->before, o->size))
			continue;
		if (o->form == BYTES) {
			fprintf(line, ", %s written", o->name);
			continue;
		}
		memcpy(&value, o->at, o->size);
		if (o->form == VALUE)
			fprintf(line, ", %s %" PRIu64, o->name, value);
		else
			fprintf(line, ", %s %s", o->name, value ? "some" : "none");
		if (succeeded && value && o->undo)
			later(o->undo, value);
	}
}

/*
 * What hooks are given.
 */

static CUcontext primary;
static CUipcMemHandle exported; /* memory of another process */

/* Where it is none of the simulator's own, a text of PTX is to it a module without a size. */
static const char module_text[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
				  ".visible .entry " KERNEL "(.param .u64 n)\n{\n\tret;\n}\n";
static const CUmemAllocationProp memory_props = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemPoolProps pool_props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAccessDesc device_access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
					      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
static const CUmulticastObjectProp multicast_props = {.numDevices = 1, .size = SIZE};
static const CUDA_MEM_ALLOC_NODE_PARAMS alloc_params = {
	.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
	.bytesize = SIZE};
static const unsigned char host_bytes[BYTES_COPIED];
static cuuint64_t zeros[32];
static uint64_t kernel_argument;
static void *kernel_params[] = {&kernel_argument};
static void *kernel_extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &kernel_argument,
			       CU_LAUNCH_PARAM_BUFFER_SIZE, &(size_t){sizeof(kernel_argument)},
			       CU_LAUNCH_PARAM_END};

/* What belongs together within a case, so that it is made once. */
static struct {
	CUstream stream;
	CUgraph graph;
	CUgraphNode set_node, copy_node;
	CUmemoryPool pool;
	CUdeviceptr pool_memory;
} one;

/* The hook has freed it. */
static void forget(uint64_t what)
{
	for (int i = 0; i < n_made; i++)
		if (made[i].made == what)
			made[i].undo = NULL;
	if (KEY(one.stream) == what)
		one.stream = NULL;
}

/* The first bytes are 0, so that a wait for a value ends. */
static CUdeviceptr make_memory(void)
{
	CUdeviceptr at = 0;

	if (NEED(cuMemAlloc_v2(&at, SIZE))) {
		later(undo_memory, at);
		NEED(cuMemsetD8_v2(at, 0, BYTES_COPIED));
	}
	return at;
}

static CUstream make_stream(void)
{
	if (!one.stream && NEED(cuStreamCreate(&one.stream, CU_STREAM_DEFAULT)))
		later(undo_stream, KEY(one.stream));
	return one.stream;
}

static CUstream make_capturing_stream(void)
{
	CUstream stream = make_stream();

	NEED(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	return stream;
}

static CUevent make_event(void)
{
	CUevent event = NULL;

	if (NEED(cuEventCreate(&event, CU_EVENT_DEFAULT)))
		later(undo_event, KEY(event));
	return event;
}

static CUcontext make_context(void)
{
	CUcontext context = NULL, popped;

	if (NEED(cuCtxCreate_v2(&context, 0, 0))) {
		later(undo_context, KEY(context));
		NEED(cuCtxPopCurrent_v2(&popped));
	}
	return context;
}

static CUdevResourceDesc make_green_description(void)
{
	CUdevResource all = {0}, part = {0};
	CUdevResourceDesc description = NULL;
	unsigned int n = 1;

	if (NEED(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM)) &&
	    NEED(cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, 8)))
		NEED(cuDevResourceGenerateDesc(&description, &part, 1));
	return description;
}

static CUgreenCtx make_green_context(void)
{
	CUgreenCtx green = NULL;

	if (NEED(cuGreenCtxCreate(&green, make_green_description(), 0, 1)))
		later(undo_green_context, KEY(green));
	return green;
}

static CUmodule make_module(void)
{
	CUmodule module = NULL;

	if (NEED(cuModuleLoadData(&module, module_text)))
		later(undo_module, KEY(module));
	return module;
}

static CUfunction make_function(void)
{
	CUfunction function = NULL;

	NEED(cuModuleGetFunction(&function, make_module(), KERNEL));
	return function;
}

/* For the launches that take no size of a block. */
static CUfunction make_shaped_function(void)
{
	CUresult (*shape)(CUfunction, int, int, int) =
		(CUresult (*)(CUfunction, int, int, int))driver_function("cuFuncSetBlockShape");
	CUfunction function = make_function();

	if (shape)
		need(shape(function, 1, 1, 1), "a shape");
	return function;
}

static CUlibrary make_library(void)
{
	CUlibrary library = NULL;

	if (NEED(cuLibraryLoadData(&library, module_text, NULL, NULL, 0, NULL, NULL, 0)))
		later(undo_library, KEY(library));
	return library;
}

static CUkernel make_kernel(void)
{
	CUkernel kernel = NULL;

	NEED(cuLibraryGetKernel(&kernel, make_library(), KERNEL));
	return kernel;
}

static void undo_module_file(uint64_t path)
{
	unlink((const char *)(uintptr_t)path);
}

static const char *make_module_file(void)
{
	static char path[] = "/tmp/allot-arguments-XXXXXX";
	int fd;

	memset(path + sizeof(path) - 7, 'X', 6);
	fd = mkstemp(path);
	if (fd < 0 || write(fd, module_text, sizeof(module_text)) != sizeof(module_text))
		abort();
	close(fd);
	later(undo_module_file, KEY(path));
	return path;
}

/* In one dimension: arrays of more are not copied by their bytes. */
static CUarray make_array(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = {.Width = BYTES_COPIED,
				       .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	CUarray array = NULL;

	if (NEED(cuArrayCreate_v2(&array, &shape)))
		later(undo_array, KEY(array));
	return array;
}

static CUmipmappedArray make_mipmapped(void)
{
	CUmipmappedArray array = NULL;

	if (NEED(cuMipmappedArrayCreate(&array, &(CUDA_ARRAY3D_DESCRIPTOR){ARRAY_SHAPE}, 1)))
		later(undo_mipmapped, KEY(array));
	return array;
}

/* A sparse array that is mapped to a handle's memory, tile by tile; here one tile. */
static CUarrayMapInfo *make_map_info(void)
{
	static CUarrayMapInfo info;
	CUDA_ARRAY3D_DESCRIPTOR shape = {ARRAY_SHAPE, .Flags = CUDA_ARRAY3D_SPARSE};
	CUmemAllocationProp props = memory_props;
	CUDA_ARRAY_SPARSE_PROPERTIES sparse = {0};
	CUarray array = NULL;
	CUmemGenericAllocationHandle handle = 0;

	props.allocFlags.usage = 1; /* a pool of tiles */
	if (NEED(cuArray3DCreate_v2(&array, &shape))) {
		later(undo_array, KEY(array));
		NEED(cuArrayGetSparseProperties(&sparse, array));
	}
	if (NEED(cuMemCreate(&handle, SIZE, &props, 0)))
		later(undo_handle, handle);
	info = (CUarrayMapInfo){.resourceType = CU_RESOURCE_TYPE_ARRAY,
				.resource.array = array,
				.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
				.subresource.sparseLevel = {.extentWidth = sparse.tileExtent.width,
							    .extentHeight = sparse.tileExtent.height,
							    .extentDepth = 1},
				.memOperationType = CU_MEM_OPERATION_TYPE_MAP,
				.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
				.memHandle.memHandle = handle,
				.deviceBitMask = 1};
	return &info;
}

static CUmemGenericAllocationHandle make_handle(void)
{
	CUmemGenericAllocationHandle handle = 0;

	if (NEED(cuMemCreate(&handle, SIZE, &memory_props, 0)))
		later(undo_handle, handle);
	return handle;
}

static CUdeviceptr make_reserved(void)
{
	CUdeviceptr at = 0;

	if (NEED(cuMemAddressReserve(&at, SIZE, 0, 0, 0)))
		later(undo_mapping, at);
	return at;
}

static CUdeviceptr make_mapped(void)
{
	CUdeviceptr at = make_reserved();

	if (NEED(cuMemMap(at, SIZE, 0, make_handle(), 0)))
		NEED(cuMemSetAccess(at, SIZE, &device_access, 1));
	return at;
}

static CUmemGenericAllocationHandle make_multicast(void)
{
	CUmemGenericAllocationHandle handle = 0;

	if (NEED(cuMulticastCreate(&handle, &multicast_props))) {
		later(undo_handle, handle);
		NEED(cuMulticastAddDevice(handle, 0));
	}
	return handle;
}

/* An argument that is a descriptor and has the type of a pointer. */
static void *as_pointer(int fd)
{
	return (void *)(intptr_t)fd;
}

static int make_memory_descriptor(void)
{
	int fd = -1;

	if (NEED(cuMemExportToShareableHandle(&fd, make_handle(),
						 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)))
		later(undo_descriptor, (uint64_t)fd);
	return fd;
}

/* With memory of it in use. */
static CUmemoryPool make_pool(void)
{
	if (one.pool || !NEED(cuMemPoolCreate(&one.pool, &pool_props)))
		return one.pool;
	later(undo_pool, KEY(one.pool));
	if (NEED(cuMemAllocFromPoolAsync(&one.pool_memory, SIZE, one.pool, NULL))) {
		later(undo_memory, one.pool_memory);
		NEED(cuStreamSynchronize(NULL));
	}
	return one.pool;
}

static CUdeviceptr make_pool_memory(void)
{
	make_pool();
	return one.pool_memory;
}

static int make_pool_descriptor(void)
{
	int fd = -1;

	if (NEED(cuMemPoolExportToShareableHandle(
		    &fd, make_pool(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)))
		later(undo_descriptor, (uint64_t)fd);
	return fd;
}

static CUmemoryPool make_imported_pool(void)
{
	CUmemoryPool pool = NULL;

	if (NEED(cuMemPoolImportFromShareableHandle(
		    &pool, as_pointer(make_pool_descriptor()),
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)))
		later(undo_pool, KEY(pool));
	return pool;
}

static CUmemPoolPtrExportData *make_pool_export(void)
{
	static CUmemPoolPtrExportData data;

	NEED(cuMemPoolExportPointer(&data, make_pool_memory()));
	return &data;
}

static CUdeviceptr make_async_memory(void)
{
	CUdeviceptr at = 0;

	if (NEED(cuMemAllocAsync(&at, SIZE, NULL))) {
		later(undo_memory, at);
		NEED(cuStreamSynchronize(NULL));
	}
	return at;
}

static CUdeviceptr make_imported_memory(void)
{
	CUdeviceptr at = 0;

	if (NEED(cuIpcOpenMemHandle_v2(&at, exported, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)))
		later(undo_imported_memory, at);
	return at;
}

/* The driver takes the descriptor if it can import it; those that it cannot are left open. */
static CUDA_EXTERNAL_MEMORY_HANDLE_DESC *make_external_description(void)
{
	static CUDA_EXTERNAL_MEMORY_HANDLE_DESC description;
	int fd = make_memory_descriptor();

	forget((uint64_t)fd);
	description = (CUDA_EXTERNAL_MEMORY_HANDLE_DESC){
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .size = SIZE};
	return &description;
}

static CUexternalMemory make_external(void)
{
	CUexternalMemory external = NULL;

	if (NEED(cuImportExternalMemory(&external, make_external_description())))
		later(undo_external, KEY(external));
	return external;
}

static CUDA_MEMCPY2D *make_copy_2d(void)
{
	static CUDA_MEMCPY2D copy;

	copy = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = make_memory(),
			       .srcPitch = 64, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			       .dstDevice = make_memory(), .dstPitch = 64, .WidthInBytes = 16,
			       .Height = 4};
	return &copy;
}

static CUDA_MEMCPY3D *make_copy_3d(void)
{
	static CUDA_MEMCPY3D copy;

	copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = make_memory(),
			       .srcPitch = 64, .srcHeight = 4,
			       .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = make_memory(),
			       .dstPitch = 64, .dstHeight = 4, .WidthInBytes = 16, .Height = 4,
			       .Depth = 1};
	return &copy;
}

static CUDA_MEMCPY3D_PEER *make_copy_3d_peer(void)
{
	static CUDA_MEMCPY3D_PEER copy;

	copy = (CUDA_MEMCPY3D_PEER){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = make_memory(),
		.srcContext = primary, .srcPitch = 64, .srcHeight = 4,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = make_memory(),
		.dstContext = primary, .dstPitch = 64, .dstHeight = 4, .WidthInBytes = 16,
		.Height = 4, .Depth = 1};
	return &copy;
}

static CUDA_MEMCPY3D_BATCH_OP *make_batch_copy(void)
{
	static CUDA_MEMCPY3D_BATCH_OP copy;

	copy = (CUDA_MEMCPY3D_BATCH_OP){
		.src = {CU_MEMCPY_OPERAND_TYPE_POINTER,
			{{.ptr = make_memory(), .locHint = device_access.location}}},
		.dst = {CU_MEMCPY_OPERAND_TYPE_POINTER,
			{{.ptr = make_memory(), .locHint = device_access.location}}},
		.extent = {64, 1, 1}, .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	return &copy;
}

static CUDA_MEMSET_NODE_PARAMS *make_set_params(void)
{
	static CUDA_MEMSET_NODE_PARAMS params;

	params = (CUDA_MEMSET_NODE_PARAMS){.dst = make_memory(), .elementSize = 1,
					   .width = BYTES_COPIED, .height = 1};
	return &params;
}

static CUgraphNodeParams *make_node_params(void)
{
	static CUgraphNodeParams params;

	params = (CUgraphNodeParams){
		.type = CU_GRAPH_NODE_TYPE_MEMSET,
		.memset = {.dst = make_memory(), .elementSize = 1, .width = BYTES_COPIED,
			   .height = 1, .ctx = primary}};
	return &params;
}

static CUgraph make_graph(void)
{
	if (one.graph || !NEED(cuGraphCreate(&one.graph, 0)))
		return one.graph;
	later(undo_graph, KEY(one.graph));
	NEED(cuGraphAddMemsetNode(&one.set_node, one.graph, NULL, 0, make_set_params(), primary));
	NEED(cuGraphAddMemcpyNode(&one.copy_node, one.graph, NULL, 0, make_copy_3d(), primary));
	return one.graph;
}

static CUgraphNode make_set_node(void)
{
	make_graph();
	return one.set_node;
}

static CUgraphNode make_copy_node(void)
{
	make_graph();
	return one.copy_node;
}

static CUgraphExec make_graph_exec(void)
{
	CUgraphExec exec = NULL;

	if (NEED(cuGraphInstantiateWithFlags(&exec, make_graph(), 0)))
		later(undo_graph_exec, KEY(exec));
	return exec;
}

static CUDA_LAUNCH_PARAMS *make_launch_params(void)
{
	static CUDA_LAUNCH_PARAMS params;

	params = (CUDA_LAUNCH_PARAMS){make_function(), 1, 1, 1, 1, 1, 1, 0, make_stream(),
				      kernel_params};
	return &params;
}

static CUlaunchConfig *make_launch_config(void)
{
	static CUlaunchConfig config;

	config = (CUlaunchConfig){1, 1, 1, 1, 1, 1, 0, make_stream(), NULL, 0};
	return &config;
}

static CUstreamBatchMemOpParams *make_memory_operation(void)
{
	static CUstreamBatchMemOpParams params;

	params = (CUstreamBatchMemOpParams){
		.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, make_memory(), {1}, 0, 0}};
	return &params;
}

static void **make_attribute_data(void)
{
	static void *data[2];

	data[0] = out("data[0]", VALUE, sizeof(unsigned int), NULL);
	data[1] = out("data[1]", VALUE, sizeof(size_t), NULL);
	return data;
}

/* A texture of an array; the vendor's types for it are none of the interface that allot uses. */
static const void *make_texture_resource(void)
{
	static struct {
		CUresourcetype type;
		CUarray array;
		uint64_t rest[30];
	} resource;

	resource.type = CU_RESOURCE_TYPE_ARRAY;
	resource.array = make_array();
	return &resource;
}

static const void *make_texture_view(void)
{
	static struct {
		int format; /* one channel of unsigned bytes */
		size_t width;
		uint64_t rest[30];
	} view = {.format = 1, .width = BYTES_COPIED};

	return &view;
}

static void on_host(void *written)
{
	if (written)
		*(unsigned int *)written = 1;
}

static void on_callback(CUstream stream, CUresult status, void *written)
{
	on_host(written);
}

static nvmlDevice_t make_nvml_device(void)
{
	static void *library;
	nvmlDevice_t device = NULL;

	if (!library) {
		library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
		if (library) {
			nvml_real_bind(library, dlsym);
			nvml.nvmlInit_v2();
		}
	}
	if (!library || nvml.nvmlDeviceGetHandleByIndex_v2(0, &device))
		need(CUDA_ERROR_UNKNOWN, "NVML's device");
	return device;
}

/* Memory that is free once the arguments are made and before the hook is called. */
static size_t free_before;

static size_t device_free(void)
{
	size_t free_bytes = 0, total;

	cu.cuMemGetInfo_v2(&free_bytes, &total);
	return free_bytes;
}

static void ready(void)
{
	free_before = device_free();
}

#include "arguments_calls.h"

#define N_ROWS ((int)(sizeof(rows) / sizeof(*rows)))

/* A row's cases: all arguments given, each pointer left out, and all of several pointers. */
static int row_cases(const struct row *row)
{
	return 1 + row->n_pointers + (row->n_pointers > 1);
}

struct one_case {
	const struct row *row;
	int number;
};

static void case_say(FILE *line, struct one_case c)
{
	fputs(c.row->name, line);
	if (c.number > c.row->n_pointers)
		fputs(" without any pointer", line);
	else if (c.number)
		fprintf(line, " without %s", c.row->pointers[c.number - 1]);
}

static unsigned int case_left_out(struct one_case c)
{
	if (c.number > c.row->n_pointers)
		return (1u << c.row->n_pointers) - 1;
	return c.number ? 1u << (c.number - 1) : 0;
}

/* A stream that is left capturing would refuse what follows. */
static bool captures_end(void)
{
	const CUstream streams[] = {one.stream, CU_STREAM_PER_THREAD};
	bool any = false;

	for (int i = 0; i < 2; i++) {
		CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
		CUgraph graph = NULL;

		if (!streams[i] || cu.cuStreamIsCapturing(streams[i], &status) || !status)
			continue;
		any = true;
		if (!cu.cuStreamEndCapture(streams[i], &graph) && graph && graph != one.graph)
			later(undo_graph, KEY(graph));
	}
	return any;
}

/* What can be seen of a call beside its outputs. Returns false if the context is lost by it. */
static bool effects_say(FILE *line)
{
	CUcontext current = NULL;
	size_t free_after;
	CUresult r;

	if (captures_end())
		fputs(", capturing", line);
	cu.cuCtxGetCurrent(&current);
	if (current != primary)
		fputs(", another context", line);
	cu.cuCtxSetCurrent(primary);
	r = cu.cuCtxSynchronize();
	if (r)
		fprintf(line, ", context lost by %s", child_error(r));
	free_after = device_free();
	if (free_after + SIZE / 2 < free_before)
		fputs(", took memory", line);
	if (free_before + SIZE / 2 < free_after)
		fputs(", gave memory back", line);
	return !r;
}

/* Returns false if the process cannot go on behind it. */
static bool case_run(FILE *line, struct one_case c)
{
	bool lives;
	int r;

	n_made = n_outputs = 0;
	arena_used = 0;
	not_made = NULL;
	memset(&one, 0, sizeof(one));
	cu.cuCtxSetCurrent(primary);
	case_say(line, c);
	r = c.row->call(case_left_out(c));
	if (strncmp(c.row->name, "nvml", 4))
		fprintf(line, ": %s", child_error((CUresult)r));
	else
		fprintf(line, ": %s", nvml.nvmlErrorString((nvmlReturn_t)r));
	lives = !c.row->ends_all && effects_say(line);
	outputs_say(line, !r);
	if (not_made)
		fprintf(line, ", for want of %.*s", (int)strcspn(not_made, "("), not_made);
	fputs("\n", line);
	fflush(line);
	if (!lives)
		return false;
	while (n_made--)
		if (made[n_made].undo)
			made[n_made].undo(made[n_made].made);
	cu.cuCtxSynchronize();
	return true;
}

/*
 * Processes. The worker says a line for each case when it has its answer, and an empty one when it
 * has freed what was made.
 */

static struct one_case *cases;
static int n_cases;

static void context_begin(void)
{
	child_begin(BEGIN_S);
	MUST(cu.cuInit(0));
	primary = child_context(0);
}

static void worker(int first, int fd)
{
	FILE *line = fdopen(fd, "w");
	bool lives = true;

	context_begin();
	for (int i = first; i < n_cases && lives; i++) {
		alarm(CASE_S);
		lives = case_run(line, cases[i]);
		fputs("\n", line);
		fflush(line);
	}
	_exit(0);
}

/* Lends memory to the others from when it writes its handle. */
static void exporter(int unused, int fd)
{
	CUipcMemHandle handle;
	CUdeviceptr at;

	context_begin();
	alarm(0);
	MUST(cu.cuMemAlloc_v2(&at, SIZE));
	MUST(cu.cuIpcGetMemHandle(&handle, at));
	if (write(fd, &handle, sizeof(handle)) == sizeof(handle))
		pause();
	_exit(1);
}

/* Forks; `begin` runs in the child. Returns what the child writes. */
static int child_new(void (*begin)(int argument, int fd), int argument, pid_t *ret_pid)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		abort();
	fflush(stdout);
	*ret_pid = fork();
	if (!*ret_pid)
		begin(argument, ends[1]);
	close(ends[1]);
	return ends[0];
}

/* Has a worker go through the cases from `first` on; returns where the next one is to go on. */
static int watch(int first)
{
	bool answered = false;
	int i = first, status;
	char line[512];
	pid_t pid;
	FILE *from = fdopen(child_new(worker, first, &pid), "r");

	while (fgets(line, sizeof(line), from)) {
		answered = *line != '\n';
		if (answered)
			fputs(line, stdout);
		else
			i++;
	}
	fclose(from);
	waitpid(pid, &status, 0);
	if (!WIFSIGNALED(status) && !WEXITSTATUS(status))
		return i;
	if (!WIFSIGNALED(status)) {
		fprintf(stderr, "arguments: a process cannot begin\n");
		exit(1);
	}
	case_say(stdout, cases[i]);
	if (WTERMSIG(status) == SIGALRM)
		printf("%s: no end in %d s\n", answered ? ", afterwards" : "", CASE_S);
	else
		printf("%s: %s\n", answered ? ", afterwards" : "", strsignal(WTERMSIG(status)));
	return i + 1;
}

static bool is_wanted(const struct row *row, char **words)
{
	if (row->simulated_only && !getenv("ALLOT_SIM_DIR"))
		return false;
	if (!*words)
		return true;
	for (; *words; words++)
		if (!strcmp(*words, row->name))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	pid_t lender;
	int fd;

	(void)argc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < N_ROWS; i++)
		for (int n = 0; is_wanted(&rows[i], argv + 1) && n < row_cases(&rows[i]); n++) {
			cases = realloc(cases, (size_t)(n_cases + 1) * sizeof(*cases));
			cases[n_cases++] = (struct one_case){&rows[i], n};
		}
	fd = child_new(exporter, 0, &lender);
	if (read(fd, &exported, sizeof(exported)) != sizeof(exported))
		fprintf(stderr, "arguments: no memory of another process\n");
	for (int i = 0; i < n_cases;)
		i = watch(i);
	kill(lender, SIGKILL);
	return 0;
}
