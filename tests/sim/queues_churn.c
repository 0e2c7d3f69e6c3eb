/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that make, use, change and destroy queues all the time, in a tenant whose share changes
 * all the time: what is put into a queue is done, and what the program asks is answered as ever.
 */
#include <pthread.h>

#include "base/now.h"
#include "ledger/policy.h"
#include "tests/sim/kfd_queue.h"

#define THREADS 4
#define RINGS	2
#define RUN_MS	1500 /* and until each thread had: */
#define TURNS	4
#define HANG_MS 20000

static volatile bool stop;

static uint64_t now_ms(void)
{
	return now_monotonic_ns() / 1000000;
}

struct churner {
	pthread_t thread;
	char *rings[RINGS];
	volatile uint32_t *done;
	volatile uint32_t turns;
};

/* Answers what is mapped of the doorbells. */
static void *make(char *memory, uint32_t type, struct queue *q)
{
	struct kfd_ioctl_create_queue_args a = {
		.ring_size = RING_BYTES,
		.gpu_id = ids[0],
		.queue_type = type,
		.queue_percentage = 100,
		.ring_base_address = (uintptr_t)memory,
		.read_pointer_address = (uintptr_t)memory + RING_BYTES,
		.write_pointer_address = (uintptr_t)memory + RING_BYTES + 8,
	};

	memset(memory, 0, RING_BYTES + 4096);
	CHECK_EQ(call(KFD_IOWR(CREATE_QUEUE, a), &a), 0);
	CHECK_EQ(a.queue_percentage, 100);
	*q = (struct queue){.id = a.queue_id,
			    .ring = memory,
			    .read = (uint64_t *)(memory + RING_BYTES),
			    .write = (uint64_t *)(memory + RING_BYTES + 8),
			    .doorbell = map_doorbell(a.doorbell_offset)};
	return (char *)q->doorbell - a.doorbell_offset % DOORBELLS_BYTES;
}

static void let_it_say(struct churner *c, struct queue *q, uint32_t value)
{
	uint32_t words[] = {5, LOW((uintptr_t)c->done), HIGH((uintptr_t)c->done), value};
	uint64_t since = now_ms();

	put(q, words, 4);
	ring(q);
	while (*c->done != value && now_ms() < since + HANG_MS)
		usleep(100);
	CHECK_EQ(*c->done, value);
}

static void *churn(void *arg)
{
	struct churner *c = arg;
	struct queue q;

	for (; !stop; c->turns++) {
		bool computes = c->turns % 3 == 2;
		uint32_t type = computes ? KFD_IOC_QUEUE_TYPE_COMPUTE_AQL : KFD_IOC_QUEUE_TYPE_SDMA;
		void *doorbells = make(c->rings[c->turns % RINGS], type, &q);

		if (!computes)
			let_it_say(c, &q, 2 * c->turns + 1);
		CHECK_EQ(update_queue(&q, c->turns % 100 + 1), 0);
		if (!computes)
			let_it_say(c, &q, 2 * c->turns + 2);
		CHECK_EQ(destroy_queue(&q), 0);
		CHECK_EQ(munmap(doorbells, DOORBELLS_BYTES), 0);
	}
	return NULL;
}

static int set_share(struct policy *policy, void *arg)
{
	uint32_t permille = *(const uint32_t *)arg;

	policy->compute = permille ? POLICY_COMPUTE_CAP : POLICY_COMPUTE_OFF;
	policy->device[0].share_permille = permille;
	return 0;
}

static bool had_turns(const struct churner churner[THREADS])
{
	for (int i = 0; i < THREADS; i++)
		if (churner[i].turns < TURNS)
			return false;
	return true;
}

int main(void)
{
	static const uint32_t shares[] = {300, 700, 0, 1, 500};
	struct churner churner[THREADS] = {{0}};
	uint64_t since = now_ms();
	uint32_t turns = 0;

	open_devices();
	acquire_devices();
	for (int i = 0; i < THREADS; i++) {
		for (int j = 0; j < RINGS; j++)
			churner[i].rings[j] = queue_memory();
		churner[i].done = host_memory(4096);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&churner[i].thread, NULL, churn, &churner[i]), 0);
	/* The last one is not a share with which a thread would wait for ever. */
	for (int i = 0; now_ms() < since + RUN_MS || !had_turns(churner) || i % 5; i++) {
		uint32_t share = shares[i % 5];

		CHECK_EQ(policy_update(getenv("ALLOT_TENANT_DIR"), set_share, &share), 0);
		usleep(7000);
	}
	stop = true;
	for (int i = 0; i < THREADS; i++) {
		CHECK_EQ(pthread_join(churner[i].thread, NULL), 0);
		turns += churner[i].turns;
	}
	fprintf(stderr, "%u queues made, changed and destroyed\n", turns);
	return 0;
}
