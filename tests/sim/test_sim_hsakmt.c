/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ROCm's own user-space library (libhsakmt), as it is installed, on the emulated KFD: memory of one
 * GPU, mapped to all. Run by `allot sim --amd 4 --memory 64MiB`; skipped where there is none.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "tests/check.h"

#define GPUS 4
#define SIZE (UINT64_C(64) << 20)

/* The library's interface, as far as it is used here. */
#define NON_PAGED   (1u << 0)
#define HOST_ACCESS (1u << 6)

struct pointer_info {
	int32_t type;
	uint32_t node;
	uint32_t flags;
	void *cpu_address;
	uint64_t gpu_address, size;
	uint32_t registered_count, mapped_count;
	const uint32_t *registered, *mapped;
	void *user_data;
} __attribute__((packed, aligned(4))); /* as the library's headers pack all of theirs */

struct system_properties {
	uint32_t nodes;
	uint32_t more[15];
};

static struct {
	int (*open)(void);
	int (*close)(void);
	int (*acquire)(struct system_properties *properties);
	int (*alloc)(uint32_t node, uint64_t size, uint32_t flags, void **ret);
	int (*map)(void *memory, uint64_t size, uint64_t *ret_address);
	int (*unmap)(void *memory);
	int (*free)(void *memory, uint64_t size);
	int (*query)(const void *memory, struct pointer_info *ret);
} hsakmt;

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	CHECK(found);
	return found;
}

static void load(void)
{
	void *library = dlopen("libhsakmt.so.1", RTLD_NOW);

	if (!library)
		SKIP("libhsakmt.so.1 is not installed (Debian: libhsakmt1)");
	hsakmt.open = symbol(library, "hsaKmtOpenKFD");
	hsakmt.close = symbol(library, "hsaKmtCloseKFD");
	hsakmt.acquire = symbol(library, "hsaKmtAcquireSystemProperties");
	hsakmt.alloc = symbol(library, "hsaKmtAllocMemory");
	hsakmt.map = symbol(library, "hsaKmtMapMemoryToGPU");
	hsakmt.unmap = symbol(library, "hsaKmtUnmapMemoryToGPU");
	hsakmt.free = symbol(library, "hsaKmtFreeMemory");
	hsakmt.query = symbol(library, "hsaKmtQueryPointerInfo");
}

/* Which nodes the library believes to have the memory mapped. */
static uint32_t mapped_nodes(const void *memory)
{
	struct pointer_info info = {0};
	uint32_t nodes = 0;

	CHECK_EQ(hsakmt.query(memory, &info), 0);
	CHECK_EQ(info.node, 2);
	CHECK_EQ(info.size, SIZE);
	for (uint32_t i = 0; i < info.mapped_count; i++)
		nodes |= 1u << info.mapped[i];
	return nodes;
}

int main(void)
{
	struct system_properties properties = {0};
	uint64_t address = 0;
	char *memory = NULL;
	void *too_much;

	load();
	CHECK_EQ(hsakmt.open(), 0);
	CHECK_EQ(hsakmt.acquire(&properties), 0);
	CHECK_EQ(properties.nodes, 1 + GPUS);
	CHECK(hsakmt.alloc(2, SIZE + 4096, NON_PAGED | HOST_ACCESS, &too_much) != 0);
	CHECK_EQ(hsakmt.alloc(2, SIZE, NON_PAGED | HOST_ACCESS, (void **)&memory), 0);
	CHECK(hsakmt.alloc(2, 4096, NON_PAGED | HOST_ACCESS, &too_much) != 0);
	strcpy(memory + SIZE - 8, "content");
	CHECK_EQ(mapped_nodes(memory), 0);
	CHECK_EQ(hsakmt.map(memory, SIZE, &address), 0);
	CHECK_EQ(mapped_nodes(memory), 0x1e);
	CHECK(!strcmp(memory + SIZE - 8, "content"));
	CHECK_EQ(hsakmt.unmap(memory), 0);
	CHECK_EQ(mapped_nodes(memory), 0);
	CHECK_EQ(hsakmt.free(memory, SIZE), 0);
	CHECK_EQ(hsakmt.alloc(2, SIZE, NON_PAGED | HOST_ACCESS, (void **)&memory), 0);
	CHECK_EQ(hsakmt.free(memory, SIZE), 0);
	CHECK_EQ(hsakmt.close(), 0);
	return 0;
}
