/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of one tenant that allocate and free memory of one emulated AMD GPU at once: never more
 * than the quota, by the machine's own count, and nothing is left of those that end, or are killed.
 * By ioctls; or with an argument by ROCm's library (libhsakmt), as it is installed.
 */
#include <sched.h>

#include "base/now.h"
#include "tests/sim/hsakmt.h"
#include "tests/sim/kfd_tenant.h"

#define CROWD   8
#define ROUNDS  10000
#define MOST    (12 * MIB) /* in one piece */
#define HANG_NS (60 * NS_PER_S)

static bool by_library;

static void begin(void)
{
	struct system_properties properties = {0};

	if (!by_library) {
		open_devices();
		acquire_devices();
		return;
	}
	CHECK_EQ(hsakmt.open(), 0);
	CHECK_EQ(hsakmt.acquire(&properties), 0);
}

/* Whether there was room; else 0 is answered. */
static bool take(uint64_t size, uint64_t *ret_handle)
{
	void *memory = NULL;
	int r;

	if (by_library) {
		r = hsakmt.alloc(1, size, NON_PAGED | HOST_ACCESS, &memory);
		*ret_handle = r == 0 ? (uintptr_t)memory : 0;
		CHECK(r == 0 || r == HSAKMT_NO_MEMORY);
		return r == 0;
	}
	r = alloc_vram(0, size, ret_handle);
	CHECK(r == 0 || r == -ENOMEM);
	if (r)
		*ret_handle = 0;
	return r == 0;
}

static void give(uint64_t handle, uint64_t size)
{
	if (by_library)
		CHECK_EQ(hsakmt.free((void *)(uintptr_t)handle, size), 0);
	else
		CHECK_EQ(free_memory(handle), 0);
}

/* Two at a time, so that eight want twice the quota and now and then are refused. */
static void allocate(int socket)
{
	uint64_t state = (uint64_t)getpid() * UINT64_C(0x9e3779b97f4a7c15);
	uint64_t handle[2] = {0}, size[2] = {0};
	int had = 0;

	begin();
	for (int i = 0; i < ROUNDS; i++) {
		int j = i % 2;

		if (handle[j])
			give(handle[j], size[j]);
		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		size[j] = ((state >> 33) % (MOST / PAGE) + 1) * PAGE;
		had += take(size[j], &handle[j]);
		if (i % 64 == 0)
			sched_yield();
	}
	for (int j = 0; j < 2; j++)
		if (handle[j])
			give(handle[j], size[j]);
	CHECK(had > 0);
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
		CHECK(now_monotonic_ns() - since_ns < HANG_NS);
		usleep(1000);
	}
	/*
	 * The library frees memory before it unmaps it, and for these microseconds the machine
	 * counts it while another process may be given as much.
	 */
	CHECK(bank_peak(machine(), 0) <= QUOTA + (by_library ? CROWD * MOST : 0));
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
	check_nothing_left(now_monotonic_ns());
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
		usleep(20000 + (useconds_t)(now_monotonic_ns() % 50000));
		end(pids[i], SIGKILL);
		killed_ns = now_monotonic_ns();
	}
	for (int i = 1; i < CROWD; i += 2) {
		hear(sockets[i]);
		killed_ns = now_monotonic_ns();
	}
	check_nothing_left(killed_ns);
	for (int i = 0; i < CROWD; i++)
		if (i % 2)
			disperse(pids[i], sockets[i]);
		else
			close(sockets[i]);
}

int main(int argc, char **argv)
{
	by_library = argc > 1;
	if (by_library)
		hsakmt_load();
	open_devices();
	name_devices();
	test_all();
	test_killed();
	CHECK(device_view(0).refusals > 0);
	acquire_devices();
	check_all_free(0);
	return 0;
}
