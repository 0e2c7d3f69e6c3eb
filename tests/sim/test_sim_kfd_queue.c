/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of the emulated KFD: what GPUs do with memory, and where they may not. */
#include <unistd.h>

#include "tests/sim/kfd_queue.h"

#define SIZE (32 * MIB)
#define AT   (UINT64_C(1) << 32)

#define WRITABLE KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE
#define SDMA	 KFD_IOC_QUEUE_TYPE_SDMA
#define AQL	 KFD_IOC_QUEUE_TYPE_COMPUTE_AQL

static uint64_t take(int gpu, uint64_t at, uint64_t size, uint32_t flags)
{
	uint64_t handle;

	CHECK_EQ(alloc_at(gpu, at, size, VRAM | flags, &handle, NULL), 0);
	return handle;
}

static int map_to(uint64_t handle, int gpu)
{
	uint32_t done = 0;

	return map(handle, &ids[gpu], 1, &done);
}

/* There and back, in more than one slice; and nothing beside it. */
static void test_copies(void)
{
	uint32_t *in = host_memory(SIZE), *out = host_memory(SIZE + 4096);
	uint64_t one = take(0, AT, SIZE, WRITABLE), two = take(1, AT + SIZE, SIZE, WRITABLE);
	struct queue q[2];

	for (uint32_t i = 0; i < SIZE / 4; i++)
		in[i] = i * 2654435761u;
	CHECK(map_to(one, 0) == 0 && map_to(one, 1) == 0 && map_to(two, 1) == 0);
	make_queue(0, SDMA, &q[0]);
	make_queue(1, SDMA, &q[1]);
	put_copy(&q[0], AT, (uintptr_t)in, SIZE);
	CHECK_EQ(execute(0, &q[0]), 0);
	put_copy(&q[1], AT + SIZE, AT, SIZE);
	put_copy(&q[1], (uintptr_t)out + 1, AT + SIZE + 1, SIZE - 2);
	CHECK_EQ(execute(1, &q[1]), 0);
	CHECK(!memcmp((char *)in + 1, (char *)out + 1, SIZE - 2));
	CHECK(!*(char *)out && !((char *)out)[SIZE - 1]);

	put_fill(&q[0], AT + 4096, 0x01020304, 9 * MIB);
	put_copy(&q[0], (uintptr_t)out, AT, SIZE);
	CHECK_EQ(execute(0, &q[0]), 0);
	for (uint32_t i = 0; i < SIZE / 4; i++)
		CHECK(out[i] == (i >= 1024 && i < 1024 + 9 * MIB / 4 ? 0x01020304 : in[i]));

	/* More packets than the ring is long. */
	for (uint32_t i = 0; i < 400; i++) {
		put_copy(&q[0], (uintptr_t)out + i % 64 * 4, (uintptr_t)in + i * 4, 4);
		if (i % 50 == 49)
			CHECK_EQ(execute(0, &q[0]), 0);
	}
	for (uint32_t i = 336; i < 400; i++)
		CHECK_EQ(out[i % 64], in[i]);
	CHECK_EQ(destroy_queue(&q[0]), 0);
	CHECK_EQ(destroy_queue(&q[0]), -EINVAL);
	CHECK_EQ(destroy_queue(&q[1]), 0);
	CHECK_EQ(unmap(one, ids, 2), 0);
	CHECK_EQ(unmap(two, ids + 1, 1), 0);
	CHECK_EQ(free_memory(one), 0);
	CHECK_EQ(free_memory(two), 0);
}

/* A queue's ring may be there twice, one behind the other, wherever its memory is. */
static void test_twice(void)
{
	uint32_t twice = WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM;
	char *own = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *host = host_memory(4096);
	uint64_t vram = take(0, AT, 8192, twice), users, offset = (uintptr_t)own;
	struct queue q;

	CHECK(own != MAP_FAILED);
	CHECK_EQ(alloc_at(0, AT + MIB, 16384, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | twice, &users,
			  &offset),
		 0);
	CHECK(map_to(vram, 0) == 0 && map_to(users, 0) == 0);
	CHECK_EQ(vacant(0), 64 * MIB - 4096);
	make_queue(0, SDMA, &q);
	put_fill(&q, AT + 4096, 0x01010101, 16);
	put_copy(&q, (uintptr_t)host, AT, 16);
	put_fill(&q, AT + MIB + 8192 + 32, 0x02020202, 16);
	CHECK_EQ(execute(0, &q), 0);
	CHECK(host[15] == 1 && own[32] == 2 && own[47] == 2 && !own[48]);
	CHECK_EQ(unmap(vram, ids, 1), 0);
	CHECK_EQ(unmap(users, ids, 1), 0);
	put_fill(&q, AT + 4096, 1, 4);
	CHECK_EQ(execute(0, &q), AT + 4096);
	CHECK(free_memory(vram) == 0 && free_memory(users) == 0 && destroy_queue(&q) == 0);
}

/* A GPU reaches what is mapped on it, as long as it is, and writes what is writable. */
static void test_faults(void)
{
	uint64_t one = take(1, AT, MIB, WRITABLE), fixed = take(1, AT + MIB, MIB, 0), overlapping;
	uint32_t done = 0;
	char *host = host_memory(MIB);
	struct queue q[GPUS];

	for (int i = 0; i < GPUS; i++) {
		make_queue(i, SDMA, &q[i]);
		put_copy(&q[i], (uintptr_t)host, AT, 4096);
		CHECK_EQ(execute(i, &q[i]), AT);
	}
	CHECK_EQ(map(one, ids, 2, &done), 0);
	CHECK_EQ(map_to(fixed, 1), 0);
	for (int i = 0; i < GPUS; i++) {
		put_copy(&q[i], AT, (uintptr_t)host, 4096);
		CHECK_EQ(execute(i, &q[i]), i < 2 ? 0 : AT);
	}
	put_copy(&q[1], (uintptr_t)host, AT + MIB - 4096, 8192); /* from one into the next */
	CHECK_EQ(execute(1, &q[1]), 0);
	put_copy(&q[0], (uintptr_t)host, AT + MIB - 4096, 8192);
	CHECK_EQ(execute(0, &q[0]), AT + MIB);
	put_copy(&q[1], AT + MIB, (uintptr_t)host, 4);
	CHECK_EQ(execute(1, &q[1]), AT + MIB);

	CHECK_EQ(alloc_at(1, AT + MIB / 2, MIB, VRAM, &overlapping, NULL), 0);
	CHECK_EQ(map_to(overlapping, 1), -EINVAL);
	CHECK_EQ(map_to(overlapping, 0), -EINVAL);
	CHECK_EQ(unmap(one, ids, 1), 0);
	CHECK_EQ(map_to(overlapping, 0), 0);
	put_copy(&q[0], (uintptr_t)host, AT, 4);
	CHECK_EQ(execute(0, &q[0]), AT);
	put_copy(&q[1], (uintptr_t)host, AT, 4);
	CHECK_EQ(execute(1, &q[1]), 0);
	CHECK(unmap(one, ids + 1, 1) == 0 && unmap(overlapping, ids, 1) == 0);
	put_copy(&q[1], (uintptr_t)host, AT, 4);
	CHECK_EQ(execute(1, &q[1]), AT);

	/* Memory that the program itself cannot reach any more. */
	CHECK_EQ(mprotect(host, MIB, PROT_NONE), 0);
	put_fill(&q[1], (uintptr_t)host, 1, 4);
	CHECK_EQ(execute(1, &q[1]), (uintptr_t)host);
	CHECK(unmap(fixed, ids + 1, 1) == 0 && free_memory(fixed) == 0);
	CHECK(free_memory(one) == 0 && free_memory(overlapping) == 0);
	for (int i = 0; i < GPUS; i++)
		CHECK_EQ(destroy_queue(&q[i]), 0);
}

static void put_poll(struct queue *q, uint32_t how, const volatile uint32_t *at, uint32_t value)
{
	uint32_t words[] = {8 | how << 28 | 1u << 31,
			    LOW((uintptr_t)at),
			    HIGH((uintptr_t)at),
			    value,
			    UINT32_MAX,
			    0};

	put(q, words, 6);
}

static void put_add(struct queue *q, const void *at, int64_t value)
{
	uint32_t words[] = {10 | 47u << 25,
			    LOW((uintptr_t)at),
			    HIGH((uintptr_t)at),
			    LOW(value),
			    HIGH(value),
			    0,
			    0,
			    0};

	put(q, words, 8);
}

/* Packets that wait, for a program or for another queue; and the rest of what copies need. */
static void test_order(void)
{
	uint32_t flush[] = {8, 0, 0x80000000, 0, 0, 0}, skip[] = {3u << 16, 1, 2, 3},
		 stamp[] = {13 | 2 << 8, 0, 0};
	volatile uint32_t *word = host_memory(4096);
	struct queue a, b;

	stamp[1] = LOW((uintptr_t)&word[4]);
	stamp[2] = HIGH((uintptr_t)&word[4]);
	make_queue(0, SDMA, &a);
	make_queue(1, SDMA, &b);
	put_poll(&a, 3, &word[0], 7); /* == */
	put_fill(&a, (uintptr_t)&word[1], 5, 4);
	ring(&a);
	put_poll(&b, 5, &word[1], 4); /* >= */
	put_fill(&b, (uintptr_t)&word[2], 6, 4);
	ring(&b);
	usleep(5000);
	CHECK(!word[1] && !word[2]);
	word[0] = 7;
	CHECK_EQ(execute(0, &a), 0);
	CHECK_EQ(execute(1, &b), 0);
	CHECK(word[1] == 5 && word[2] == 6);

	put(&a, flush, 6);
	put(&a, skip, 4);
	put(&a, stamp, 3);
	put_add(&a, (const void *)&word[8], -2);
	put_add(&a, (const void *)&word[8], -3);
	CHECK_EQ(execute(0, &a), 0);
	CHECK(word[4] || word[5]);
	CHECK_EQ(*(volatile int64_t *)&word[8], -5);
	CHECK(destroy_queue(&a) == 0 && destroy_queue(&b) == 0);
}

/* What the program itself may not write it does not die of when a queue does. */
static void test_read_only(void)
{
	char *memory = host_memory(4096);
	struct queue q;

	make_queue(0, SDMA, &q);
	memory[8] = 7;
	CHECK_EQ(mprotect(memory, 4096, PROT_READ), 0);
	put_fill(&q, (uintptr_t)memory, 1, 4);
	CHECK_EQ(execute(0, &q), (uintptr_t)memory);
	put_add(&q, memory + 8, 1);
	CHECK_EQ(execute(0, &q), (uintptr_t)memory);
	CHECK(!memory[0] && memory[8] == 7);
	CHECK_EQ(mprotect(memory, 4096, PROT_READ | PROT_WRITE), 0);
	put_add(&q, memory + 8, 1);
	CHECK_EQ(execute(0, &q), 0);
	CHECK_EQ(memory[8], 8);
	CHECK_EQ(destroy_queue(&q), 0);
}

/* A percentage of 0 takes a queue off its hardware, until it gets another. */
static void test_percentage(void)
{
	volatile uint32_t *word = host_memory(4096);
	struct queue q;

	make_queue(0, SDMA, &q);
	CHECK_EQ(update_queue(&q, 101), -EINVAL);
	CHECK_EQ(update_queue(&q, 0), 0);
	put_fill(&q, (uintptr_t)word, 1, 4);
	ring(&q);
	usleep(5000);
	CHECK_EQ(*word, 0);
	CHECK_EQ(update_queue(&q, 100), 0);
	CHECK_EQ(execute(0, &q), 0);
	CHECK_EQ(*word, 1);
	CHECK_EQ(destroy_queue(&q), 0);
	CHECK_EQ(update_queue(&q, 100), -EFAULT);
}

/* What is no packet stops its queue and no other; programs hear of it. */
static void test_nonsense(void)
{
	static const uint32_t nonsense[][2] = {
		{0xff, 0}, {1 | 9 << 8, 0}, {10, 0}, {11 | 3u << 30, 0}};
	uint32_t exception = make_event(KFD_IOC_EVENT_HW_EXCEPTION, true);
	struct kfd_event_data data;
	struct queue q, other;

	make_queue(0, SDMA, &other);
	for (uint32_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		make_queue(0, SDMA, &q);
		put(&q, nonsense[i], 2);
		put(&q, (uint32_t[8]){0}, 8);
		ring(&q);
		wait_either(q.done, exception, &data);
		CHECK_EQ(data.hw_exception_data.gpu_id, ids[0]);
		CHECK_EQ(*q.read, 0);
		CHECK_EQ(destroy_queue(&q), 0);
	}
	make_queue(0, SDMA, &q);
	q.written = UINT64_C(1) << 40; /* a doorbell far beyond the ring */
	ring(&q);
	wait_either(q.done, exception, &data);
	CHECK_EQ(data.hw_exception_data.gpu_id, ids[0]);
	CHECK_EQ(destroy_queue(&q), 0);
	make_queue(0, AQL, &q);
	memset(q.ring, 0, 64);
	*(uint16_t *)q.ring = 2; /* a kernel dispatch */
	*q.doorbell = 0;
	wait_either(q.done, exception, &data);
	CHECK_EQ(data.hw_exception_data.gpu_id, ids[0]);
	CHECK_EQ(destroy_queue(&q), 0);
	CHECK_EQ(execute(0, &other), 0);
	CHECK_EQ(destroy_queue(&other), 0);
}

static int create(uint32_t gpu_id, uint32_t type, uint32_t size, uint32_t percent)
{
	static char *memory;
	struct kfd_ioctl_create_queue_args a = {.ring_size = size,
						.gpu_id = gpu_id,
						.queue_type = type,
						.queue_percentage = percent};
	struct queue q;
	int r;

	if (!memory)
		memory = queue_memory();
	a.ring_base_address = (uintptr_t)memory;
	a.read_pointer_address = a.write_pointer_address = (uintptr_t)memory + RING_BYTES;
	r = call(KFD_IOWR(CREATE_QUEUE, a), &a);
	q.id = a.queue_id;
	if (r == 0)
		CHECK_EQ(destroy_queue(&q), 0);
	return r;
}

static int set_mask(const struct queue *q, uint32_t bits, const uint32_t *mask)
{
	struct kfd_ioctl_set_cu_mask_args a = {q->id, bits, (uintptr_t)mask};

	return call(_IOW('K', KFD_NR_SET_CU_MASK, a), &a);
}

static void test_arguments(void)
{
	uint32_t mask[32] = {1};
	struct queue q;

	CHECK_EQ(create(ids[0], AQL, 4096, 100), 0);
	CHECK_EQ(create(ids[0], AQL, 0, 0), 0);
	CHECK_EQ(create(ids[0], AQL, 4095, 100), -EINVAL);
	CHECK_EQ(create(ids[0], AQL, 4096, 101), -EINVAL);
	CHECK_EQ(create(ids[0], 99, 4096, 100), -EINVAL);
	CHECK_EQ(create(1, AQL, 4096, 100), -EINVAL);
	CHECK(mmap(NULL, 16384, PROT_READ, MAP_SHARED, kfd, (off_t)(UINT64_C(3) << 62)) ==
	      MAP_FAILED);
	make_queue(0, AQL, &q);
	CHECK_EQ(set_mask(&q, 32, mask), 0);
	CHECK_EQ(set_mask(&q, 1024, mask), 0);
	CHECK_EQ(set_mask(&q, 1056, mask), 0); /* the rest is dropped */
	CHECK_EQ(set_mask(&q, 33, mask), -EINVAL);
	CHECK_EQ(set_mask(&q, 0, mask), -EINVAL);
	CHECK_EQ(set_mask(&q, 32, (uint32_t *)8), -EFAULT);
	CHECK_EQ(destroy_queue(&q), 0);
	CHECK_EQ(set_mask(&q, 32, mask), -EFAULT);
}

int main(void)
{
	open_devices();
	acquire_devices();
	test_copies();
	test_twice();
	test_faults();
	test_order();
	test_read_only();
	test_percentage();
	test_nonsense();
	test_arguments();
	return 0;
}
