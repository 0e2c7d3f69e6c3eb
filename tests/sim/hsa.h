/* SPDX-License-Identifier: Apache-2.0 */
/* ROCm's runtime (libhsa-runtime64), as test programs use it. */
#ifndef ALLOT_TESTS_SIM_HSA_H
#define ALLOT_TESTS_SIM_HSA_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tests/check.h"

#define SIZE (UINT64_C(16) << 20)

/* The runtime's interface, as far as it is used here. */
struct handle {
	uint64_t handle;
};

struct queue {
	uint32_t type, features;
	struct barrier *packets;
	struct handle doorbell;
	uint32_t size, reserved;
	uint64_t id;
};

struct barrier {
	uint16_t header, reserved[3];
	struct handle depends_on[5];
	uint64_t reserved2;
	struct handle completion;
};

#define DEVICE		 17 /* of an agent */
#define DEVICE_GPU	 1
#define SEGMENT		 0 /* of a pool */
#define SEGMENT_GLOBAL	 0
#define ALLOCATION	 5
#define CONDITION_LESS	 2
#define WAIT_BLOCKED	 0
#define QUEUE_MULTIPLE	 0
#define PACKET_INVALID	 1
#define PACKET_AND	 3
#define PACKET_OR	 5
#define PACKET_BARRIER	 (1 << 8)
#define FENCES_OF_SYSTEM (2 << 9 | 2 << 11)

typedef int agent_fn(struct handle agent, void *data);
typedef int pool_fn(struct handle pool, void *data);

static struct {
	int (*init)(void);
	int (*shut_down)(void);
	int (*iterate_agents)(agent_fn *fn, void *data);
	int (*agent_get_info)(struct handle agent, int what, void *ret);
	int (*amd_agent_iterate_memory_pools)(struct handle agent, pool_fn *fn, void *data);
	int (*amd_memory_pool_get_info)(struct handle pool, int what, void *ret);
	int (*amd_memory_pool_allocate)(struct handle pool, size_t size, uint32_t flags,
					void **ret);
	int (*amd_memory_pool_free)(void *memory);
	int (*amd_memory_lock)(void *memory, size_t size, const struct handle *agents, int n,
			       void **ret);
	int (*amd_memory_unlock)(void *memory);
	int (*amd_agents_allow_access)(uint32_t n, const struct handle *agents,
				       const uint32_t *flags, const void *memory);
	int (*amd_memory_async_copy)(void *to, struct handle to_agent, const void *from,
				     struct handle from_agent, size_t size, uint32_t n,
				     const struct handle *depends_on, struct handle completion);
	int (*signal_create)(int64_t value, uint32_t n, const struct handle *consumers,
			     struct handle *ret);
	int (*signal_destroy)(struct handle signal);
	int64_t (*signal_load_relaxed)(struct handle signal);
	void (*signal_store_screlease)(struct handle signal, int64_t value);
	int64_t (*signal_wait_scacquire)(struct handle signal, int condition, int64_t value,
					 uint64_t timeout, int state);
	int (*queue_create)(struct handle agent, uint32_t size, int type, void *callback,
			    void *data, uint32_t private_bytes, uint32_t group_bytes,
			    struct queue **ret);
	int (*queue_destroy)(struct queue *queue);
	uint64_t (*queue_add_write_index_relaxed)(struct queue *queue, uint64_t n);
} hsa;

static inline void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	CHECK(found);
	return found;
}

static inline void load(void)
{
	void *library = dlopen("libhsa-runtime64.so.1", RTLD_NOW);

	if (!library)
		SKIP("libhsa-runtime64.so.1 is not installed (Debian: libhsa-runtime64-1)");
#define LOAD(name) hsa.name = symbol(library, "hsa_" #name)
	LOAD(init);
	LOAD(shut_down);
	LOAD(iterate_agents);
	LOAD(agent_get_info);
	LOAD(amd_agent_iterate_memory_pools);
	LOAD(amd_memory_pool_get_info);
	LOAD(amd_memory_pool_allocate);
	LOAD(amd_memory_pool_free);
	LOAD(amd_memory_lock);
	LOAD(amd_memory_unlock);
	LOAD(amd_agents_allow_access);
	LOAD(amd_memory_async_copy);
	LOAD(signal_create);
	LOAD(signal_destroy);
	LOAD(signal_load_relaxed);
	LOAD(signal_store_screlease);
	LOAD(signal_wait_scacquire);
	LOAD(queue_create);
	LOAD(queue_destroy);
	LOAD(queue_add_write_index_relaxed);
#undef LOAD
}

/* The host, then the GPUs; and of each a pool of memory. */
#define GPUS_MOST 8
static struct handle agents[1 + GPUS_MOST], pools[1 + GPUS_MOST];
static int ngpus;

static inline int add_agent(struct handle agent, void *unused)
{
	uint32_t device;

	CHECK_EQ(hsa.agent_get_info(agent, DEVICE, &device), 0);
	if (device == DEVICE_GPU) {
		if (ngpus < GPUS_MOST)
			agents[++ngpus] = agent;
	} else {
		agents[0] = agent;
	}
	return 0;
}

static inline int take_pool(struct handle pool, void *ret)
{
	struct handle *found = ret;
	uint32_t segment;
	bool allocation = false;

	CHECK_EQ(hsa.amd_memory_pool_get_info(pool, SEGMENT, &segment), 0);
	CHECK_EQ(hsa.amd_memory_pool_get_info(pool, ALLOCATION, &allocation), 0);
	if (!found->handle && segment == SEGMENT_GLOBAL && allocation)
		*found = pool;
	return 0;
}

static inline void find_machine(void)
{
	CHECK_EQ(hsa.iterate_agents(add_agent, NULL), 0);
	CHECK(ngpus > 0);
	for (int i = 0; i <= ngpus; i++) {
		CHECK_EQ(hsa.amd_agent_iterate_memory_pools(agents[i], take_pool, &pools[i]), 0);
		CHECK(pools[i].handle);
	}
}

static inline void *allocate(int agent)
{
	void *memory;

	CHECK_EQ(hsa.amd_memory_pool_allocate(pools[agent], SIZE, 0, &memory), 0);
	CHECK_EQ(hsa.amd_agents_allow_access((uint32_t)ngpus, agents + 1, NULL, memory), 0);
	return memory;
}

static uint64_t copied_bytes; /* by this program's wish */

static inline void copy(void *to, int to_agent, const void *from, int from_agent)
{
	struct handle done;

	CHECK_EQ(hsa.signal_create(1, 0, NULL, &done), 0);
	CHECK_EQ(hsa.amd_memory_async_copy(to, agents[to_agent], from, agents[from_agent], SIZE, 0,
					   NULL, done),
		 0);
	CHECK_EQ(hsa.signal_wait_scacquire(done, CONDITION_LESS, 1, UINT64_MAX, WAIT_BLOCKED), 0);
	CHECK_EQ(hsa.signal_destroy(done), 0);
	copied_bytes += SIZE;
}

#endif
