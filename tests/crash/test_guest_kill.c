/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that use a (simulated) GPU under liballot die by SIGKILL, at every fault point of the
 * library and at random, beside a neighbour that goes on. After each batch the ledger must say of
 * the living what the simulator counts, and from time to time the whole quota must be had at once.
 *
 * The parent has the library and the driver in it but never calls them, so that each fork is a
 * program that begins. To be run with liballot preloaded and the simulated libraries in the path.
 */
#include <dlfcn.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/fault.h"
#include "base/word.h"
#include "sim/truth.h"
#include "tests/crash/guest_work.h"
#include "tests/unit/tenant_fixture.h"

#define KILLS	2000
#define BATCH	4
#define CONTEXT (8 * MIB)
#define LIMIT	(160 * MIB)
#define DEVICE	(1024 * MIB) /* so that it is the quota that refuses */
#define POOL_STEP (32 * MIB)
#define HANG_NS UINT64_C(20000000000) /* whoever waits, waits a second; the rest is load */

/*
 * All are here by name, without a default: who adds one is told by the compiler, and says which
 * test has somebody die at it.
 */
static bool guest_passes(int point)
{
	switch ((enum fault_point)point) {
	/* By allot: test_tenant. */
	case FAULT_TENANT_BUILT:
	case FAULT_TENANT_HIDDEN:
	/* By allot: tests/e2e/cli/ended.py. */
	case FAULT_TENANT_NAMED:
	case FAULT_TENANT_NOTED:
	/* Once in a device's life: test_ledger. */
	case FAULT_DEVICE_HALF_NAMED:
	case FAULT_DEVICE_NAMED:
	/* By importers: test_kill, test_shared; and by who was made again. */
	case FAULT_SHARED_PUBLISHED:
	case FAULT_SHARED_RENAMED:
	/* By exporters of pools: test_shared. */
	case FAULT_SHARED_RAISED:
	case FAULT_SHARED_SHED_ROW:
	/* By allot: test_policy. */
	case FAULT_POLICY_HALF_WRITTEN:
	case FAULT_POLICY_WRITTEN:
	case FAULT_POLICY_FLIPPED:
	/* Where a tenant is traced: test_trace. */
	case FAULT_TRACE_TAKEN:
	case FAULT_TRACE_PLACED:
	case FAULT_TRACE_HALF:
	case FAULT_TRACE_FILLED:
	/* By who comes back, and by those whose memory leaves: tests/e2e/swap. */
	case FAULT_SLOT_ADOPTED:
	case FAULT_SPARE_KEPT:
	case FAULT_SPARE_ASKED:
	case FAULT_SWAP_ASKED:
	case FAULT_GUEST_SHARE_ASKED:
	case FAULT_GUEST_SHARE_SERVED:
	case FAULT_GUEST_ROOM_WISHED:
	case FAULT_RESIDENCY_TAKEN:
	case FAULT_RESIDENCY_DECIDED:
	case FAULT_RESIDENCY_LEAVES:
	case FAULT_RESIDENCY_OUT:
	case FAULT_RESIDENCY_COMES:
	case FAULT_RESIDENCY_RUNS:
	case FAULT_GUEST_SWAP_SHUT:
	case FAULT_GUEST_SWAP_FILE:
	case FAULT_GUEST_SWAP_COPIED:
	case FAULT_GUEST_SWAP_HALF_OUT:
	case FAULT_GUEST_SWAP_OUT:
	case FAULT_GUEST_SWAP_BARE:
	case FAULT_GUEST_SWAP_HALF_IN:
	case FAULT_GUEST_SWAP_IN:
	case FAULT_CONTEXTS_LOCKED:
	case FAULT_CONTEXTS_TAKEN:
	case FAULT_CONTEXTS_RETURNED:
	case FAULT_CONTEXTS_UNLOCKED:
	/* Of a tenant that goes to a disk: tests/e2e/swap/disk.py. */
	case FAULT_CONTENT_SAVED:
	case FAULT_CONTENT_PUT_BACK:
	case FAULT_STORE_NOTED:
	case FAULT_STORE_GIVEN:
	case FAULT_STORE_DUMPED:
	case FAULT_STORE_LISTED:
	case FAULT_STORE_KILLED:
	case FAULT_BRING_MADE:
	case FAULT_BRING_AWAITED:
	case FAULT_BRING_RESTORED:
	/* On AMD's devices: test_allotment. */
	case FAULT_CU_LOCKED:
	case FAULT_CU_TORN:
	case FAULT_CU_WRITTEN:
	/* By who asks for one: test_sim_checkpoint. */
	case FAULT_CHECKPOINT_LOCKED:
	case FAULT_CHECKPOINT_JUDGED:
	case FAULT_CHECKPOINT_TAKEN:
	case FAULT_CHECKPOINT_RESTORED:
	case FAULT_CHECKPOINT_UNLOCKED:
	/* By allot: test_image. */
	case FAULT_IMAGE_OBJECTS_WRITTEN:
	case FAULT_IMAGE_MANIFEST_WRITTEN:
	case FAULT_IMAGE_HALF_NAMED:
	case FAULT_IMAGE_NAMED:
	case FAULT_POINT_N:
		return false;
	/* Ours. */
	case FAULT_SLOT_LOCKED:
	case FAULT_SLOT_BUMPED:
	case FAULT_SLOT_ROWS_CLEARED:
	case FAULT_SLOT_SCRUBBED:
	case FAULT_SLOT_DESCRIBED:
	case FAULT_SLOT_CLAIMED:
	case FAULT_RESERVE_PUBLISHED:
	case FAULT_RESERVE_ADMITTED:
	case FAULT_RESERVE_RETRACTED:
	case FAULT_SLOW_LOCKED:
	case FAULT_SLOW_RECLAIMED:
	case FAULT_SLOW_PUBLISHED:
	case FAULT_SLOW_SETTLED:
	case FAULT_COMMIT_ADDED:
	case FAULT_COMMIT_DONE:
	case FAULT_CANCELLED:
	case FAULT_RELEASED:
	case FAULT_SHARED_FILLED:
	case FAULT_SHARED_HELD:
	case FAULT_SHARED_ADDED:
	case FAULT_SHARED_UNCOVERED:
	case FAULT_SHARED_DROPPED:
	case FAULT_GUEST_RESERVED:
	case FAULT_GUEST_DRIVER_GAVE:
	case FAULT_GUEST_DRIVER_TOOK:
	case FAULT_GUEST_POOL_GREW:
	case FAULT_GUEST_HANDLE_MAPPED:
	case FAULT_GUEST_EXPORTED:
	case FAULT_GUEST_CONTEXT_MADE:
	case FAULT_GUEST_FIGURE_HALF:
		return true;
	}
	return false;
}

enum errand {
	STOP,
	SETTLE, /* be refused: then everything that is known is accounted for */
	CLEAR,	/* give everything back, and settle */
};

struct world {
	uint32_t pause;	 /* odd: the neighbour stops; a futex word */
	uint32_t parked; /* the odd value that it stopped at */
	uint32_t errand; /* what it does before it stops */
	uint32_t stop;
	struct work neighbour, victim[BATCH];
	uint32_t survived[BATCH];
};

struct test {
	struct world *world;
	struct sim_truth *truth;
	struct ledger *ledger;
	int device;
	pid_t neighbour;
};

static void wait_word(uint32_t *word, uint32_t value)
{
	struct timespec hang = {.tv_sec = 20};

	syscall(SYS_futex, word, FUTEX_WAIT, value, &hang, NULL, 0);
}

static void set_word(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void live_on(struct world *w)
{
	CHECK(work_begin(&w->neighbour));
	while (!word_acquire(&w->stop)) {
		uint32_t pause = word_acquire(&w->pause);

		if (pause % 2 == 0) {
			work_step(&w->neighbour);
			continue;
		}
		if (w->parked != pause) {
			CUdeviceptr none;

			if (w->errand == CLEAR)
				work_clear(&w->neighbour);
			CHECK_EQ(cuStreamSynchronize(w->neighbour.stream), CUDA_SUCCESS);
			if (w->errand != STOP)
				CHECK_EQ(cuMemAlloc_v2(&none, LIMIT), CUDA_ERROR_OUT_OF_MEMORY);
			set_word(&w->parked, pause);
		}
		wait_word(&w->pause, pause);
	}
	CHECK_EQ(w->neighbour.wrong, 0);
}

static void park(struct world *w, enum errand errand)
{
	uint32_t odd = (w->pause + 1) | 1, seen;

	w->errand = errand;
	set_word(&w->pause, odd);
	while ((seen = word_acquire(&w->parked)) != odd)
		wait_word(&w->parked, seen);
}

static void unpark(struct world *w)
{
	set_word(&w->pause, w->pause + 1);
}

static void live_and_die(struct world *w, int i, const char *fault)
{
	if (fault)
		setenv("ALLOT_FAULT", fault, 1);
	if (work_begin(&w->victim[i]))
		for (int n = 0; n < 200; n++)
			work_step(&w->victim[i]);
	w->survived[i] = 1;
	kill(getpid(), SIGKILL);
}

static pid_t start_victim(struct world *w, int i, unsigned int seed, int point)
{
	char fault[64];
	pid_t pid;

	if (point >= 0)
		snprintf(fault, sizeof(fault), "%s:%u", fault_name((enum fault_point)point),
			 seed % 2 ? 1 : seed % 13 + 1);
	w->victim[i] = (struct work){.seed = seed};
	w->survived[i] = 0;
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		live_and_die(w, i, point >= 0 ? fault : NULL);
	return pid;
}

/* What a failed comparison was about. */
static void show(struct test *t)
{
	for (int i = 0; i < slot_count(t->ledger); i++) {
		struct quota_row row;
		struct slot_info info;

		if (quota_process(t->ledger, i, t->device, &row) ||
		    slot_info(t->ledger, i, &info) || !slot_alive(t->ledger, i))
			continue;
		fprintf(stderr, "slot %d, pid %u: %llu in the driver; pending %llu", i, info.pid,
			(unsigned long long)sim_truth_process(t->truth, (pid_t)info.pid, 0),
			(unsigned long long)row.pending);
		for (int c = 0; c < CAT_N; c++)
			fprintf(stderr, ", %s %llu", category_name((enum category)c),
				(unsigned long long)row.used[c]);
		fprintf(stderr, "\n");
	}
}

/* With all victims dead: what is left is what the neighbour has. Leaves it parked. */
static void check_books(struct test *t, bool clear)
{
	uint64_t truth, ledger;

	/*
	 * Before it looks, too much may be charged, and too little by no more than a granule: small
	 * arrays are charged by their sum, while the simulator gives each a granule.
	 */
	park(t->world, STOP);
	truth = sim_truth_used(t->truth, 0);
	ledger = quota_used_live(t->ledger, t->device);
	if (ledger + 2 * MIB < truth)
		show(t);
	CHECK(ledger + 2 * MIB >= truth);
	/*
	 * Streams free behind the neighbour's back, and a look that they disturb only ever raises
	 * the figure; the next one puts it right.
	 */
	for (int look = 0; look < 100; look++) {
		park(t->world, clear ? CLEAR : SETTLE);
		truth = sim_truth_used(t->truth, 0);
		ledger = quota_used_live(t->ledger, t->device);
		if (ledger == truth)
			break;
		usleep(10000);
	}
	CHECK_EQ(sim_truth_process(t->truth, t->neighbour, 0), truth);
	if (ledger != truth)
		show(t);
	CHECK_EQ(ledger, truth);
	if (truth > LIMIT)
		show(t);
	CHECK(truth <= LIMIT);
	/* A pool whose room is in pieces may grow unasked, until the library takes that back. */
	CHECK(sim_truth_peak(t->truth, 0) <= LIMIT + POOL_STEP);
}

/* A process that comes now gets all that the neighbour has not, at once and no byte more. */
static void check_full(struct test *t)
{
	uint64_t rest = LIMIT - sim_truth_used(t->truth, 0) - CONTEXT;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		struct work w = {.seed = 1};
		CUdeviceptr all, more;

		CHECK(work_begin(&w));
		CHECK_EQ(cuMemAlloc_v2(&all, rest), CUDA_SUCCESS);
		CHECK_EQ(cuMemAlloc_v2(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
		_exit(0);
	}
	fixture_wait(pid, 0);
	CHECK(quota_reclaim(t->ledger) >= 0);
	CHECK_EQ(quota_used(t->ledger, t->device), sim_truth_used(t->truth, 0));
}

static void set_up(struct test *t)
{
	struct policy policy = fixture_policy(LIMIT);
	char dir[PATH_MAX], sim[PATH_MAX + 8];
	uint8_t uuid[16];
	struct slot *slot;

	CHECK_EQ(tenant_create(fixture_runtime_dir(), "guest", &policy, dir, sizeof(dir)), 0);
	snprintf(sim, sizeof(sim), "%s/sim", fixture_runtime_dir());
	setenv("ALLOT_TENANT_DIR", dir, 1);
	setenv("ALLOT_SIM_DIR", sim, 1);
	setenv("ALLOT_SIM_MEMORY", "1GiB", 1);
	setenv("ALLOT_SIM_CONTEXT", "8MiB", 1);
	CHECK_EQ(sim_truth_create(NULL, &t->truth), 0);
	CHECK_EQ(sim_truth_total(t->truth, 0), DEVICE);
	sim_truth_uuid(t->truth, 0, uuid);
	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &t->ledger), 0);
	CHECK_EQ(slot_claim(t->ledger, &slot), 0);
	t->device = ledger_device(t->ledger, uuid, DEVICE);
	CHECK(t->device >= 0);
	/* Loaded once here, not by each victim. */
	CHECK(dlopen("libnvidia-ml.so.1", RTLD_NOW));
	t->world = mmap(NULL, sizeof(*t->world), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(t->world != MAP_FAILED);
}

static void start_neighbour(struct test *t)
{
	struct world *w = t->world;

	w->neighbour.seed = 99;
	t->neighbour = fork();
	CHECK(t->neighbour >= 0);
	if (t->neighbour == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		live_on(w);
		_exit(0);
	}
}

int main(void)
{
	unsigned int hits[FAULT_POINT_N] = {0}, random_kills = 0, kills = 0, steps = 0, seed = 42;
	unsigned int next = 0, missed = 0;
	struct test t = {0};
	struct world *w;

#ifndef ALLOT_FAULT_POINTS
	SKIP("fault points are not compiled in");
#endif
	set_up(&t);
	w = t.world;
	start_neighbour(&t);
	while (kills < KILLS) {
		int point[BATCH];
		pid_t pid[BATCH];

		for (int i = 0; i < BATCH; i++) {
			point[i] = -1;
			while (i % 2 && !guest_passes(point[i] = (int)(next++ % FAULT_POINT_N)))
				;
			pid[i] = start_victim(w, i, (unsigned int)rand_r(&seed), point[i]);
		}
		for (int i = 0; i < BATCH; i++) {
			if (point[i] >= 0)
				continue;
			usleep((unsigned int)rand_r(&seed) % 4000);
			kill(pid[i], SIGKILL);
		}
		for (int i = 0; i < BATCH; i++) {
			fixture_wait(pid[i], SIGKILL);
			kills++;
			if (point[i] >= 0 && !w->survived[i])
				hits[point[i]]++;
			else
				random_kills++;
			steps += (unsigned int)w->victim[i].steps;
			CHECK_EQ(w->victim[i].wrong, 0);
			CHECK(w->victim[i].longest_ns < HANG_NS);
		}
		check_books(&t, kills % (20 * BATCH) == 0);
		if (kills % (20 * BATCH) == 0)
			check_full(&t);
		unpark(w);
	}
	set_word(&w->stop, 1);
	fixture_wait(t.neighbour, 0);
	CHECK(w->neighbour.longest_ns < HANG_NS);
	CHECK(w->neighbour.refused > 0);
	printf("%u kills, %u of them at random, after %u steps; "
	       "the neighbour did %llu, %llu refused\n",
	       kills, random_kills, steps, (unsigned long long)w->neighbour.steps,
	       (unsigned long long)w->neighbour.refused);
	for (int p = 0; p < FAULT_POINT_N; p++) {
		if (!guest_passes(p))
			continue;
		printf("%6u  %s\n", hits[p], fault_name((enum fault_point)p));
		missed += !hits[p];
	}
	CHECK_EQ(missed, 0);
	ledger_close(t.ledger);
	sim_truth_close(t.truth);
	return 0;
}
