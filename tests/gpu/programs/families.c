/* SPDX-License-Identifier: Apache-2.0 */
/*
 * families NAME [CAP [quiet]]: takes device memory by one allocation family until it is refused, in
 * ever smaller pieces, or until it has CAP bytes. Told "fill" it does so (again), told "free" it
 * gives everything back. A quiet one never asks how much there is.
 */
#include "child.h"

/* What a piece is given back by. */
struct piece {
	CUdeviceptr ptr;
	void *handle, *second;
	uint64_t bytes;
};

static CUdevice device;

static CUresult take_plain(uint64_t bytes, struct piece *p)
{
	return cu.cuMemAlloc_v2(&p->ptr, bytes);
}

static void give_plain(struct piece *p)
{
	MUST(cu.cuMemFree_v2(p->ptr));
}

/* Rows a little longer than a multiple of the pitch, so that padding is lost. */
static CUresult take_pitch(uint64_t bytes, struct piece *p)
{
	size_t pitch;

	return cu.cuMemAllocPitch_v2(&p->ptr, &pitch, 4096 - 512 + 4, bytes / 4096, 4);
}

static CUresult take_managed(uint64_t bytes, struct piece *p)
{
	return cu.cuMemAllocManaged(&p->ptr, bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult take_async(uint64_t bytes, struct piece *p)
{
	CUresult r = cu.cuMemAllocAsync(&p->ptr, bytes, NULL);

	return r ? r : cu.cuStreamSynchronize(NULL);
}

static void give_async(struct piece *p)
{
	MUST(cu.cuMemFreeAsync(p->ptr, NULL));
}

static void end_async(void)
{
	CUmemoryPool pool;

	MUST(cu.cuStreamSynchronize(NULL));
	MUST(cu.cuDeviceGetDefaultMemPool(&pool, device));
	MUST(cu.cuMemPoolTrimTo(pool, 0));
}

static CUmemoryPool custom;

static CUresult take_pool(uint64_t bytes, struct piece *p)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};
	cuuint64_t keep = UINT64_MAX;
	CUresult r;

	if (!custom) {
		MUST(cu.cuMemPoolCreate(&custom, &props));
		MUST(cu.cuMemPoolSetAttribute(custom, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	}
	r = cu.cuMemAllocFromPoolAsync(&p->ptr, bytes, custom, NULL);
	return r ? r : cu.cuStreamSynchronize(NULL);
}

static void end_pool(void)
{
	MUST(cu.cuStreamSynchronize(NULL));
	if (custom)
		MUST(cu.cuMemPoolDestroy(custom));
	custom = NULL;
}

/* Mapped at once and its handle released: the mapping is what keeps it. */
static CUresult take_vmm(uint64_t bytes, struct piece *p)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};
	CUmemAccessDesc access = {.location = prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUresult r = cu.cuMemCreate(&handle, bytes, &prop, 0);

	if (r)
		return r;
	MUST(cu.cuMemAddressReserve(&p->ptr, bytes, 0, 0, 0));
	MUST(cu.cuMemMap(p->ptr, bytes, 0, handle, 0));
	MUST(cu.cuMemSetAccess(p->ptr, bytes, &access, 1));
	MUST(cu.cuMemRelease(handle));
	return CUDA_SUCCESS;
}

static void give_vmm(struct piece *p)
{
	MUST(cu.cuMemUnmap(p->ptr, p->bytes));
	MUST(cu.cuMemAddressFree(p->ptr, p->bytes));
}

static CUresult take_array(CUDA_ARRAY3D_DESCRIPTOR desc, struct piece *p)
{
	desc.Format = CU_AD_FORMAT_FLOAT;
	desc.NumChannels = 4;
	return cu.cuArray3DCreate_v2((CUarray *)&p->handle, &desc);
}

static CUresult take_array2d(uint64_t bytes, struct piece *p)
{
	return take_array((CUDA_ARRAY3D_DESCRIPTOR){.Width = 1024, .Height = bytes / 16384}, p);
}

static CUresult take_array3d(uint64_t bytes, struct piece *p)
{
	return take_array((CUDA_ARRAY3D_DESCRIPTOR){.Width = 128, .Height = 128,
						    .Depth = bytes / 262144}, p);
}

static void give_array(struct piece *p)
{
	MUST(cu.cuArrayDestroy(p->handle));
}

/* Eight levels: a third more than `bytes`. */
static CUresult take_mipmap(uint64_t bytes, struct piece *p)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {
		.Width = 512, .Height = bytes / 8192,
		.Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4,
	};

	return cu.cuMipmappedArrayCreate((CUmipmappedArray *)&p->handle, &desc, 8);
}

static void give_mipmap(struct piece *p)
{
	MUST(cu.cuMipmappedArrayDestroy(p->handle));
}

/* A graph that allocates and does not free: launching it is what takes the memory. */
static CUresult take_graph(uint64_t bytes, struct piece *p)
{
	CUDA_MEM_ALLOC_NODE_PARAMS node = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
		.bytesize = bytes,
	};
	CUgraphExec exec;
	CUgraphNode added;
	CUgraph graph;
	CUresult r;

	MUST(cu.cuGraphCreate(&graph, 0));
	MUST(cu.cuGraphAddMemAllocNode(&added, graph, NULL, 0, &node));
	r = cu.cuGraphInstantiateWithFlags(&exec, graph, 0);
	if (!r) {
		r = cu.cuGraphLaunch(exec, NULL);
		r = r ? r : cu.cuStreamSynchronize(NULL);
		if (r)
			cu.cuGraphExecDestroy(exec);
	}
	if (r) {
		cu.cuGraphDestroy(graph);
		return r;
	}
	*p = (struct piece){.ptr = node.dptr, .handle = exec, .second = graph};
	return r;
}

static void give_graph(struct piece *p)
{
	MUST(cu.cuMemFree_v2(p->ptr));
	MUST(cu.cuGraphExecDestroy(p->handle));
	MUST(cu.cuGraphDestroy(p->second));
}

static void end_graph(void)
{
	MUST(cu.cuStreamSynchronize(NULL));
	MUST(cu.cuDeviceGraphMemTrim(device));
}

/* The first line is for the simulator, which takes a module's size from it: a comment to PTX. */
static CUresult take_module(uint64_t bytes, struct piece *p)
{
	static const char sim[] = "allot-sim-module bytes=%" PRIu64 "\n";
	static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
				  ".global .align 4 .b8 buffer[%" PRIu64 "];\n"
				  ".visible .entry k()\n{\n\tret;\n}\n";
	CUfunction function;
	char text[512];
	CUresult r;

	/* A little less, so that the constant part of a module fits in the same granule. */
	snprintf(text, sizeof(text), getenv("ALLOT_SIM_DIR") ? sim : ptx, bytes - 65536);
	r = cu.cuModuleLoadData((CUmodule *)&p->handle, text);
	/* Loading may be lazy: it is done when a function is asked for. */
	return r ? r : cu.cuModuleGetFunction(&function, p->handle, "k");
}

static void give_module(struct piece *p)
{
	MUST(cu.cuModuleUnload(p->handle));
}

static CUresult take_context(uint64_t bytes, struct piece *p)
{
	CUcontext context, top;
	CUresult r = cu.cuCtxCreate_v2(&context, 0, device);

	if (r)
		return r;
	p->handle = context;
	return cu.cuCtxPopCurrent_v2(&top);
}

static void give_context(struct piece *p)
{
	MUST(cu.cuCtxDestroy_v2(p->handle));
}

/* Pieces are bytes of stack for one thread; the device backs it for all that it can hold. */
static CUresult take_stack(uint64_t bytes, struct piece *p)
{
	size_t now;

	MUST(cu.cuCtxGetLimit(&now, CU_LIMIT_STACK_SIZE));
	return cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, now + bytes);
}

static void give_stack(struct piece *p)
{
	size_t now;

	MUST(cu.cuCtxGetLimit(&now, CU_LIMIT_STACK_SIZE));
	MUST(cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, now - p->bytes));
}

static void end_nothing(void)
{
	MUST(cu.cuCtxSynchronize());
}

#define PIECES(...) ((const uint64_t[]){__VA_ARGS__, 0})
#define LARGE	    PIECES(64 * MIB, 16 * MIB, 4 * MIB, 2 * MIB)

static const struct family {
	const char *name;
	const uint64_t *pieces;
	CUresult (*take)(uint64_t bytes, struct piece *ret);
	void (*give)(struct piece *);
	void (*end)(void);
} families[] = {
	{"alloc-4k", PIECES(4096), take_plain, give_plain, end_nothing},
	{"alloc-64k", PIECES(65536), take_plain, give_plain, end_nothing},
	{"alloc-1m", PIECES(MIB), take_plain, give_plain, end_nothing},
	{"alloc-large", LARGE, take_plain, give_plain, end_nothing},
	{"pitch", LARGE, take_pitch, give_plain, end_nothing},
	{"managed", PIECES(16 * MIB, 2 * MIB), take_managed, give_plain, end_nothing},
	{"async", LARGE, take_async, give_async, end_async},
	{"pool", LARGE, take_pool, give_async, end_pool},
	{"vmm", LARGE, take_vmm, give_vmm, end_nothing},
	{"array2d", LARGE, take_array2d, give_array, end_nothing},
	{"array3d", LARGE, take_array3d, give_array, end_nothing},
	{"mipmap", PIECES(48 * MIB, 12 * MIB, 3 * MIB, MIB), take_mipmap, give_mipmap, end_nothing},
	{"graph", PIECES(64 * MIB, 32 * MIB), take_graph, give_graph, end_graph},
	{"module", PIECES(64 * MIB, 16 * MIB, 4 * MIB, 2 * MIB), take_module, give_module,
	 end_nothing},
	{"context", PIECES(1), take_context, give_context, end_nothing},
	{"stack", PIECES(2048, 512, 128, 16), take_stack, give_stack, end_nothing},
};

static struct piece *held;
static size_t n_held, room;
static uint64_t held_bytes;
static bool quiet;

static CUresult fill(const struct family *f, uint64_t cap)
{
	CUresult r = CUDA_SUCCESS;

	for (const uint64_t *bytes = f->pieces; *bytes; bytes++) {
		for (r = CUDA_SUCCESS; !r && held_bytes + *bytes <= cap;) {
			struct piece p = {0};

			if (n_held == room) {
				room = room ? 2 * room : 1024;
				held = realloc(held, room * sizeof(*held));
				if (!held)
					child_must(CUDA_ERROR_UNKNOWN, "realloc");
			}
			r = f->take(*bytes, &p);
			if (r)
				break;
			p.bytes = *bytes;
			held[n_held++] = p;
			held_bytes += p.bytes;
		}
		if (r && r != CUDA_ERROR_OUT_OF_MEMORY)
			break;
	}
	return r;
}

static void say(const char *stage, CUresult refusal)
{
	size_t free_bytes = 0, total = 0;

	if (!quiet)
		MUST(cu.cuMemGetInfo_v2(&free_bytes, &total));
	printf("{\"stage\": \"%s\", \"total\": %zu, \"free\": %zu, \"pieces\": %zu, "
	       "\"bytes\": %" PRIu64 ", \"refused\": \"%s\"}\n",
	       stage, total, free_bytes, n_held, held_bytes, child_error(refusal));
}

int main(int argc, char **argv)
{
	uint64_t cap = argc > 2 ? strtoull(argv[2], NULL, 10) : UINT64_MAX;
	const struct family *f = NULL;
	const char *word;
	char buf[32];

	for (size_t i = 0; argc > 1 && i < sizeof(families) / sizeof(families[0]); i++)
		if (!strcmp(families[i].name, argv[1]))
			f = &families[i];
	if (!f) {
		for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
			puts(families[i].name);
		return argc > 1;
	}
	quiet = argc > 3;
	child_begin(180);
	MUST(cu.cuInit(0));
	MUST(cu.cuDeviceGet(&device, 0));
	child_context(device);
	say("ready", CUDA_SUCCESS);
	while ((word = child_told(buf))) {
		if (!strcmp(word, "fill")) {
			say("full", fill(f, cap));
		} else if (!strcmp(word, "free")) {
			while (n_held)
				f->give(&held[--n_held]);
			held_bytes = 0;
			f->end();
			say("free", CUDA_SUCCESS);
		} else {
			break;
		}
	}
	return 0;
}
