/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy queues of the emulated KFD, as test programs use them: packets are put into a ring, then the
 * doorbell is rung, and an event comes when all are done or when the GPU met an address that it
 * does not reach.
 */
#ifndef ALLOT_TESTS_SIM_KFD_QUEUE_H
#define ALLOT_TESTS_SIM_KFD_QUEUE_H

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/sim/kfd_program.h"

#define RING_BYTES	4096
#define DOORBELLS_BYTES 8192 /* of a GPU */
#ifndef WAIT_MS
#define WAIT_MS 20000
#endif

struct queue {
	uint32_t id;
	char *ring;
	volatile uint64_t *read, *write, *doorbell;
	uint64_t written;
	uint32_t done; /* event */
};

static uint32_t fault_event;
static uint64_t *fence; /* the last value that was written there */

static inline uint32_t make_event(uint32_t type, bool auto_reset)
{
	struct kfd_ioctl_create_event_args a = {.event_type = type, .auto_reset = auto_reset};

	CHECK_EQ(call(KFD_IOWR(CREATE_EVENT, a), &a), 0);
	return a.event_id;
}

/* Memory of the program's own, where every GPU finds it at the same address. */
static inline void *give_memory(void *here, uint64_t size)
{
	uint64_t handle, offset = (uintptr_t)here;
	uint32_t done = 0;

	CHECK(here != MAP_FAILED);
	CHECK_EQ(alloc_at(0, (uintptr_t)here, size,
			  KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE,
			  &handle, &offset),
		 0);
	CHECK_EQ(map(handle, ids, GPUS, &done), 0);
	return here;
}

static inline void *host_memory(uint64_t size)
{
	return give_memory(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				0),
			   size);
}

/* A ring, and behind it a page with its pointers: kernels want each to be an object of its own. */
static inline char *give_queue_memory(char *here)
{
	give_memory(here, RING_BYTES);
	give_memory(here + RING_BYTES, 4096);
	return here;
}

static inline char *queue_memory(void)
{
	return give_queue_memory(mmap(NULL, RING_BYTES + 4096, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static inline void *map_doorbell(uint64_t offset)
{
	uint64_t in_page = offset % DOORBELLS_BYTES;
	char *page = mmap(NULL, DOORBELLS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, kfd,
			  (off_t)(offset - in_page));

	CHECK(page != MAP_FAILED);
	return page + in_page;
}

static inline void make_queue(int gpu, uint32_t type, struct queue *ret)
{
	struct kfd_ioctl_create_queue_args a = {.ring_size = RING_BYTES,
						.gpu_id = ids[gpu],
						.queue_type = type,
						.queue_percentage = 100};
	char *memory = queue_memory();

	a.ring_base_address = (uintptr_t)memory;
	a.read_pointer_address = (uintptr_t)memory + RING_BYTES;
	a.write_pointer_address = (uintptr_t)memory + RING_BYTES + 8;
	CHECK_EQ(call(KFD_IOWR(CREATE_QUEUE, a), &a), 0);
	*ret = (struct queue){.id = a.queue_id,
			      .ring = memory,
			      .read = (uint64_t *)(memory + RING_BYTES),
			      .write = (uint64_t *)(memory + RING_BYTES + 8),
			      .doorbell = map_doorbell(a.doorbell_offset),
			      .done = make_event(KFD_IOC_EVENT_SIGNAL, true)};
	if (!fault_event)
		fault_event = make_event(KFD_IOC_EVENT_MEMORY, true);
	if (!fence)
		fence = host_memory(4096);
}

static inline int destroy_queue(const struct queue *q)
{
	struct kfd_ioctl_destroy_queue_args a = {.queue_id = q->id};

	return call(KFD_IOWR(DESTROY_QUEUE, a), &a);
}

static inline int update_queue(const struct queue *q, uint32_t percent)
{
	struct kfd_ioctl_update_queue_args a = {.ring_base_address = (uintptr_t)q->ring,
						.queue_id = q->id,
						.ring_size = RING_BYTES,
						.queue_percentage = percent};

	return call(_IOW('K', KFD_NR_UPDATE_QUEUE, a), &a);
}

static inline void put(struct queue *q, const uint32_t *words, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, q->written += 4)
		memcpy(q->ring + q->written % RING_BYTES, &words[i], 4);
}

/* Who has no doorbell at the moment, as a queue that is off the hardware, reads it in memory. */
static inline void ring(struct queue *q)
{
	*q->write = q->written;
	__atomic_store_n(q->doorbell, q->written, __ATOMIC_RELEASE);
}

#define LOW(address)  (uint32_t)(uint64_t)(address)
#define HIGH(address) (uint32_t)((uint64_t)(address) >> 32)

static inline void put_copy(struct queue *q, uint64_t to, uint64_t from, uint32_t bytes)
{
	uint32_t words[] = {1, bytes - 1, 0, LOW(from), HIGH(from), LOW(to), HIGH(to)};

	put(q, words, 7);
}

/* Bytes a multiple of 4. */
static inline void put_fill(struct queue *q, uint64_t to, uint32_t value, uint32_t bytes)
{
	uint32_t words[] = {11 | 2u << 30, LOW(to), HIGH(to), value, bytes - 4};

	put(q, words, 5);
}

static inline void put_fence(struct queue *q, uint32_t value)
{
	uint32_t words[] = {5, LOW((uintptr_t)fence), HIGH((uintptr_t)fence), value};

	put(q, words, 4);
}

static inline void put_trap(struct queue *q, uint32_t event)
{
	uint32_t words[] = {6, event};

	put(q, words, 2);
}

/* Whether the second of the events came, whose data come back; at most WAIT_MS. */
static inline bool wait_either(uint32_t one, uint32_t other, struct kfd_event_data *ret_other)
{
	struct kfd_event_data events[2] = {{.event_id = one}, {.event_id = other}};
	struct kfd_ioctl_wait_events_args a = {
		.events_ptr = (uintptr_t)events, .num_events = 2, .timeout = WAIT_MS};

	CHECK_EQ(call(KFD_IOWR(WAIT_EVENTS, a), &a), 0);
	CHECK_EQ(a.wait_result, KFD_IOC_WAIT_RESULT_COMPLETE);
	*ret_other = events[1];
	return events[1].memory_exception_data.gpu_id;
}

/* Executes what was put. 0, or the page that the GPU does not reach, where the queue ends. */
static inline uint64_t execute_once(int gpu, struct queue *q)
{
	static uint32_t fences;
	struct kfd_event_data fault;

	put_fence(q, ++fences);
	put_trap(q, q->done);
	ring(q);
	if (!wait_either(q->done, fault_event, &fault)) {
		CHECK_EQ(*(volatile uint32_t *)fence, fences);
		CHECK_EQ(*q->read, q->written);
		return 0;
	}
	CHECK_EQ(fault.memory_exception_data.gpu_id, ids[gpu]);
	CHECK(fault.memory_exception_data.failure.NotPresent);
	return fault.memory_exception_data.va;
}

/* The same; after a fault there is a new queue. */
static inline uint64_t execute(int gpu, struct queue *q)
{
	uint64_t fault = execute_once(gpu, q);

	if (fault) {
		CHECK_EQ(destroy_queue(q), 0);
		make_queue(gpu, KFD_IOC_QUEUE_TYPE_SDMA, q);
	}
	return fault;
}

#endif
