/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls about a program's own memory on emulated AMD GPUs that another thread overtakes: the driver
 * has done a call (ALLOT_SIM_AMD_HOLD), and before its thread goes on another one is made and comes
 * back. The tenant is charged for no less than it has then, and for nothing when all is given back.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "tests/sim/kfd_tenant.h"

#define PREFERRED KFD_IOCTL_SVM_ATTR_PREFERRED_LOC
#define PREFETCH  KFD_IOCTL_SVM_ATTR_PREFETCH_LOC
#define SIZE	  (16 * MIB)
#define PART	  MIB /* of less than a half */
#define REST	  (SIZE - PART)

static char *here;

static void set(uint64_t first, uint64_t size, uint32_t type, uint32_t value)
{
	struct kfd_ioctl_svm_attribute a = {type, value};

	CHECK_EQ(svm_set(here + first, size, 1, &a), 0);
}

/* Once: the other thread's call is done. Twice: that thread goes on. */
static void meet_held(void)
{
	struct kfd_ioctl_get_version_args a = {0};

	CHECK_EQ(call(_IOR('K', KFD_NR_GET_VERSION, a), &a), 0);
}

static void *give(void *arg)
{
	set(0, SIZE, PREFETCH, 0);
	return arg;
}

static void *take(void *arg)
{
	set(0, SIZE, PREFETCH, ids[0]);
	return arg;
}

static void *sweep(void *arg)
{
	available(0);
	return arg;
}

static void take_again(void)
{
	set(0, SIZE, PREFETCH, ids[0]);
}

static void take_elsewhere(void)
{
	set(0, SIZE, PREFETCH, ids[1]);
}

static void move_part(void)
{
	set(PART, PART, PREFETCH, ids[1]);
}

static void prefer_elsewhere(void)
{
	set(0, SIZE, PREFERRED, ids[1]);
}

/*
 * The first is held when it is done; the others come then. Of two places that were said at the same
 * time nobody knows which the driver did last, and both are charged.
 */
static const struct overtaking {
	const char *name, *held;
	void (*before)(void);
	void *(*first)(void *arg);
	void (*then)(void);
	uint64_t taken[2], charged[2];
} overtakings[] = {
	{"give, take", "SVM:1", take_again, give, take_again, {SIZE, 0}, {SIZE, 0}},
	{"take, take", "SVM:0", NULL, take, take_elsewhere, {0, SIZE}, {SIZE, SIZE}},
	{"take, prefer", "SVM:0", NULL, take, prefer_elsewhere, {SIZE, 0}, {SIZE, SIZE}},
	{"sweep, take", "SVM:1", take_again, sweep, take_elsewhere, {0, SIZE}, {0, SIZE}},
	{"sweep, part", "SVM:1", take_again, sweep, move_part, {REST, PART}, {REST, PART}},
	{"sweep, prefer", "SVM:1", take_again, sweep, prefer_elsewhere, {SIZE, 0}, {SIZE, SIZE}},
};

#define OVERTAKINGS (int)(sizeof(overtakings) / sizeof(overtakings[0]))

static void overtake(const struct overtaking *o)
{
	struct kfd_ioctl_svm_attribute host[] = {{PREFERRED, 0}, {PREFETCH, 0}};
	pthread_t thread;

	open_devices();
	acquire_devices();
	name_devices();
	here = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(here != MAP_FAILED);
	if (o->before)
		o->before();
	CHECK_EQ(pthread_create(&thread, NULL, o->first, NULL), 0);
	meet_held();
	o->then();
	meet_held();
	CHECK_EQ(pthread_join(thread, NULL), 0);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 2; i++) {
			CHECK_EQ(taken(i), o->taken[i]);
			CHECK_EQ(charged(i), o->charged[i]);
		}
		available(0); /* a sweep finds it all there */
	}
	CHECK_EQ(svm_set(here, SIZE, 2, host), 0);
	check_all_free(0);
	check_all_free(1);
}

/* Each in a process of its own, for which the driver holds one call. */
static void run(const char *program, int which)
{
	pid_t child = fork();
	char number[16];

	CHECK(child >= 0);
	if (!child) {
		snprintf(number, sizeof(number), "%d", which);
		setenv("ALLOT_SIM_AMD_HOLD", overtakings[which].held, 1);
		execl(program, program, number, NULL);
		_exit(1);
	}
	end(child, 0);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		overtake(&overtakings[atoi(argv[1])]);
	for (int i = 0; argc == 1 && i < OVERTAKINGS; i++)
		run(argv[0], i);
	return 0;
}
