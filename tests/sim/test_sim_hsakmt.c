/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ROCm's own user-space library (libhsakmt), as it is installed, on the emulated KFD: memory of one
 * GPU, mapped to all. Run by `allot sim --amd 4 --memory 64MiB`; skipped where there is none.
 */
#include <string.h>

#include "tests/sim/hsakmt.h"

#define GPUS 4
#define SIZE (UINT64_C(64) << 20)

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

	hsakmt_load();
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
