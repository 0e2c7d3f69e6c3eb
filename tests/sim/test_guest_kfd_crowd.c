/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of one tenant that allocate and free memory of one emulated AMD GPU at once: never more
 * than the quota, by the machine's own count, and nothing is left of those that end, or are killed.
 */
#include <sched.h>
#include <time.h>

#include "tests/sim/kfd_tenant.h"

#define CROWD  8
#define ROUNDS 10000

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Two at a time, so that eight want twice the quota and now and then are refused. */
static void allocate(int socket)
{
	uint64_t state = (uint64_t)getpid() * UINT64_C(0x9e3779b97f4a7c15), handle[2] = {0};
	int refused = 0;

	open_devices();
	acquire_devices();
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t *h = &handle[i % 2];
		int r;

		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		if (*h)
			CHECK_EQ(free_memory(*h), 0);
		*h = 0;
		r = alloc_vram(0, (state >> 33) % (12 * MIB) + 1, h);
		CHECK(r == 0 || r == -ENOMEM);
		if (r) {
			*h = 0;
			refused++;
		}
		if (i % 64 == 0)
			sched_yield();
	}
	for (int i = 0; i < 2; i++)
		if (handle[i])
			CHECK_EQ(free_memory(handle[i]), 0);
	CHECK(refused < ROUNDS);
	say(socket);
	hear(socket);
}

static void gather(pid_t pids[CROWD], int sockets[CROWD])
{
	bank_reset_peak(machine(), 0);
	for (int i = 0; i < CROWD; i++)
		pids[i] = start(allocate, &sockets[i]);
}

static void check_nothing_left(uint64_t since_ns)
{
	while (charged(0) || taken(0)) {
		CHECK(now_ns() - since_ns < 1000000000);
		usleep(1000);
	}
	CHECK(bank_peak(machine(), 0) <= QUOTA);
	CHECK(bank_peak(machine(), 0) > QUOTA / 2); /* they met */
}

static void disperse(pid_t pid, int socket)
{
	say(socket);
	end(pid, 0);
	close(socket);
}

static void test_all(void)
{
	pid_t pids[CROWD];
	int sockets[CROWD];

	gather(pids, sockets);
	for (int i = 0; i < CROWD; i++)
		hear(sockets[i]);
	check_nothing_left(now_ns());
	for (int i = 0; i < CROWD; i++)
		disperse(pids[i], sockets[i]);
}

static void test_killed(void)
{
	pid_t pids[CROWD];
	int sockets[CROWD];
	uint64_t killed_ns = 0;

	gather(pids, sockets);
	for (int i = 0; i < CROWD; i += 2) {
		usleep(20000 + (useconds_t)(now_ns() % 50000));
		end(pids[i], SIGKILL);
		killed_ns = now_ns();
	}
	for (int i = 1; i < CROWD; i += 2) {
		hear(sockets[i]);
		killed_ns = now_ns();
	}
	check_nothing_left(killed_ns);
	for (int i = 0; i < CROWD; i++)
		if (i % 2)
			disperse(pids[i], sockets[i]);
		else
			close(sockets[i]);
}

int main(void)
{
	open_devices();
	name_devices();
	test_all();
	test_killed();
	CHECK(device_view(0).refusals > 0);
	acquire_devices();
	check_all_free(0);
	return 0;
}
