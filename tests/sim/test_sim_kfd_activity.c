/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long queues of the emulated KFD were active, and what else is so of them, as another process
 * or a test sees it. Every bound is by the clock that the emulator goes by, around the ioctls that
 * begin and end a queue's time: there is nothing to be generous about.
 */
#include <limits.h>
#include <unistd.h>

#include "base/now.h"
#include "sim/kfd/roster.h"
#include "tests/sim/kfd_queue.h"

static struct roster *roster;

/* The machine's only queue. */
static struct roster_times look(struct roster_queue *ret)
{
	struct roster_times times;

	CHECK_EQ(roster_read(roster, 1, ret, &times), 1);
	return times;
}

/* What a stretch of time is at least and at most. */
struct bounds {
	uint64_t least, most;
	uint64_t from, at_most_from; /* after and before it began */
};

static void begin(struct bounds *b, uint64_t before)
{
	b->at_most_from = before;
	b->from = now_monotonic_ns();
}

static void finish(struct bounds *b, uint64_t before)
{
	b->least += before - b->from;
	b->most += now_monotonic_ns() - b->at_most_from;
}

/* On its hardware for 3 of 10 ms, as a share of its time would have it. */
static void test_duty_cycle(void)
{
	struct bounds active = {0}, life = {0};
	struct roster_queue is;
	struct roster_times times;
	struct queue q;
	uint64_t before;

	CHECK_EQ(roster_read(roster, 0, NULL, NULL), 0);
	before = now_monotonic_ns();
	make_queue(1, KFD_IOC_QUEUE_TYPE_SDMA, &q);
	begin(&active, before);
	begin(&life, before);
	for (int i = 0; i < 20; i++) {
		usleep(3000);
		before = now_monotonic_ns();
		CHECK_EQ(update_queue(&q, 0), 0);
		finish(&active, before);
		look(&is);
		CHECK(!is.active && !is.percent);
		usleep(7000);
		before = now_monotonic_ns();
		CHECK_EQ(update_queue(&q, 100), 0);
		begin(&active, before);
	}
	before = now_monotonic_ns();
	times = look(&is);
	finish(&active, before);
	finish(&life, before);
	CHECK(times.active_ns >= active.least && times.active_ns <= active.most);
	CHECK(times.life_ns >= life.least && times.life_ns <= life.most);
	CHECK_EQ(times.busy_ns, 0);
	CHECK(is.active && is.pid == getpid() && is.gpu_id == ids[1] && is.id == q.id);
	CHECK(is.type == KFD_IOC_QUEUE_TYPE_SDMA && is.percent == 100 && !is.mask_bits);
	CHECK_EQ(destroy_queue(&q), 0);
	CHECK_EQ(roster_read(roster, 0, NULL, NULL), 0);
}

/* Busy while there are packets and the queue is on its hardware. */
static void test_busy(void)
{
	uint32_t poll[] = {8 | 3u << 28 | 1u << 31, 0, 0, 1, UINT32_MAX, 0};
	volatile uint32_t *word = host_memory(4096);
	struct roster_queue is;
	struct roster_times times, later;
	struct queue q;

	make_queue(0, KFD_IOC_QUEUE_TYPE_SDMA, &q);
	poll[1] = LOW((uintptr_t)word);
	poll[2] = HIGH((uintptr_t)word);
	put(&q, poll, 6);
	ring(&q);
	do
		times = look(&is);
	while (times.busy_ns < 5000000);
	CHECK(is.busy && times.busy_ns <= times.active_ns && times.active_ns <= times.life_ns);
	CHECK_EQ(update_queue(&q, 0), 0);
	times = look(&is);
	usleep(2000);
	later = look(&is);
	CHECK(later.busy_ns == times.busy_ns && later.active_ns == times.active_ns);
	CHECK(later.life_ns > times.life_ns);
	CHECK_EQ(update_queue(&q, 100), 0);
	*word = 1;
	CHECK_EQ(execute(0, &q), 0);
	do
		look(&is);
	while (is.busy);
	CHECK_EQ(destroy_queue(&q), 0);
}

static bool is_file(const char *file, uint32_t queue, unsigned int expected)
{
	char path[96];
	unsigned int value;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d/queues/%u/%s", getpid(), queue,
		 file);
	f = fopen(path, "re");
	if (!f)
		return false;
	CHECK_EQ(fscanf(f, "%u", &value), 1);
	fclose(f);
	return value == expected;
}

/* The driver's files have what the kernel tells of a queue. */
static void test_files(void)
{
	struct queue q;

	make_queue(1, KFD_IOC_QUEUE_TYPE_SDMA, &q);
	CHECK(is_file("gpuid", q.id, ids[1]) && is_file("size", q.id, RING_BYTES));
	CHECK(is_file("type", q.id, KFD_IOC_QUEUE_TYPE_SDMA));
	CHECK_EQ(destroy_queue(&q), 0);
	CHECK(!is_file("gpuid", q.id, ids[1]));
}

static void have_queues(int socket)
{
	uint32_t mask[4] = {0x07ffffff, 0, 0, 0x5};
	struct kfd_ioctl_set_cu_mask_args a = {.num_cu_mask = 128, .cu_mask_ptr = (uintptr_t)mask};
	struct queue q[2];

	open_devices();
	acquire_devices();
	make_queue(2, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, &q[0]);
	make_queue(2, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, &q[1]);
	a.queue_id = q[1].id;
	CHECK_EQ(call(_IOW('K', KFD_NR_SET_CU_MASK, a), &a), 0);
	say(socket);
	hear(socket);
	mask[0] = 1;
	CHECK_EQ(call(_IOW('K', KFD_NR_SET_CU_MASK, a), &a), 0);
	say(socket);
	hear(socket);
}

/* Those of all processes, with the mask that is in force; none of one that was killed. */
static void test_processes(void)
{
	struct roster_times times[8];
	struct roster_queue is[8];
	int socket[2];
	pid_t child[2];

	for (int i = 0; i < 2; i++) {
		child[i] = start(have_queues, &socket[i]);
		hear(socket[i]);
	}
	CHECK_EQ(roster_read(roster, 8, is, times), 4);
	CHECK(is[0].pid == child[0] && is[2].pid == child[1] && !is[0].mask_bits);
	CHECK(is[1].mask_bits == 128 && is[1].mask[0] == 0x07ffffff && is[1].mask[3] == 5);
	say(socket[0]);
	hear(socket[0]);
	CHECK_EQ(roster_read(roster, 8, is, times), 4);
	CHECK(is[1].mask[0] == 1 && is[3].mask[0] == 0x07ffffff);
	end(child[0], SIGKILL);
	CHECK_EQ(roster_read(roster, 8, is, times), 2);
	CHECK(is[0].pid == child[1] && is[1].pid == child[1]);
	say(socket[1]);
	hear(socket[1]);
	say(socket[1]);
	end(child[1], 0);
	CHECK_EQ(roster_read(roster, 8, is, times), 0);
}

int main(void)
{
	char root[PATH_MAX];

	snprintf(root, sizeof(root), "%s/amd", getenv("ALLOT_SIM_DIR"));
	CHECK_EQ(roster_open(root, false, &roster), 0);
	open_devices();
	acquire_devices();
	test_duty_cycle();
	test_busy();
	test_files();
	test_processes();
	roster_close(roster);
	return 0;
}
