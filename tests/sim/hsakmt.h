/* SPDX-License-Identifier: Apache-2.0 */
/* ROCm's own user-space library (libhsakmt), as it is installed: what tests use of it. */
#ifndef ALLOT_TESTS_SIM_HSAKMT_H
#define ALLOT_TESTS_SIM_HSAKMT_H

#include <dlfcn.h>
#include <stdint.h>

#include "tests/check.h"

#define NON_PAGED   (1u << 0)
#define HOST_ACCESS (1u << 6)

#define HSAKMT_NO_MEMORY 6

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

struct hsakmt_queue {
	uint64_t id;
	volatile uint64_t *doorbell, *write, *read;
	int64_t *error;
};
#define HSAKMT_QUEUE_SDMA 2

/* A dma-buf, at the address where the library puts it. */
struct hsakmt_buffer {
	char *memory;
	uint64_t size;
	const void *metadata;
	uint32_t metadata_size, reserved;
};

struct system_properties {
	uint32_t nodes;
	uint32_t more[15];
};

static struct {
	int (*open)(void);
	int (*close)(void);
	int (*acquire)(struct system_properties *properties);
	int (*release)(void);
	int (*alloc)(uint32_t node, uint64_t size, uint32_t flags, void **ret);
	int (*map)(void *memory, uint64_t size, uint64_t *ret_address);
	int (*map_nodes)(void *memory, uint64_t size, uint64_t *ret_address, uint32_t flags,
			 uint64_t n, const uint32_t *nodes);
	int (*unmap)(void *memory);
	int (*free)(void *memory, uint64_t size);
	int (*query)(const void *memory, struct pointer_info *ret);
	int (*register_buffer)(uint64_t fd, struct hsakmt_buffer *ret, uint64_t n,
			       const uint32_t *nodes);
	int (*deregister)(void *memory);
	int (*create_queue)(uint32_t node, int type, uint32_t percent, int priority, void *ring,
			    uint64_t ring_bytes, void *event, struct hsakmt_queue *ret);
	int (*destroy_queue)(uint64_t id);
} hsakmt;

static inline void *hsakmt_symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	CHECK(found);
	return found;
}

/* Ends the program with status 77 where there is no such library. */
static inline void hsakmt_load(void)
{
	void *library = dlopen("libhsakmt.so.1", RTLD_NOW);

	if (!library)
		SKIP("libhsakmt.so.1 is not installed (Debian: libhsakmt1)");
	hsakmt.open = hsakmt_symbol(library, "hsaKmtOpenKFD");
	hsakmt.close = hsakmt_symbol(library, "hsaKmtCloseKFD");
	hsakmt.acquire = hsakmt_symbol(library, "hsaKmtAcquireSystemProperties");
	hsakmt.release = hsakmt_symbol(library, "hsaKmtReleaseSystemProperties");
	hsakmt.alloc = hsakmt_symbol(library, "hsaKmtAllocMemory");
	hsakmt.map = hsakmt_symbol(library, "hsaKmtMapMemoryToGPU");
	hsakmt.map_nodes = hsakmt_symbol(library, "hsaKmtMapMemoryToGPUNodes");
	hsakmt.unmap = hsakmt_symbol(library, "hsaKmtUnmapMemoryToGPU");
	hsakmt.free = hsakmt_symbol(library, "hsaKmtFreeMemory");
	hsakmt.query = hsakmt_symbol(library, "hsaKmtQueryPointerInfo");
	hsakmt.register_buffer = hsakmt_symbol(library, "hsaKmtRegisterGraphicsHandleToNodes");
	hsakmt.deregister = hsakmt_symbol(library, "hsaKmtDeregisterMemory");
	hsakmt.create_queue = hsakmt_symbol(library, "hsaKmtCreateQueue");
	hsakmt.destroy_queue = hsakmt_symbol(library, "hsaKmtDestroyQueue");
}

#endif
