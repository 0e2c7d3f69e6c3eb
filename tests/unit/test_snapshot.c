/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/now.h"
#include "ledger/device_time.h"
#include "ledger/map.h"
#include "base/pidns.h"
#include "ledger/shared.h"
#include "ledger/reader/snapshot.h"
#include "ledger/turn.h"
#include "tests/unit/tenant_fixture.h"

static struct snapshot *read_snapshot(const char *dir)
{
	struct snapshot *snapshot;

	CHECK_EQ(snapshot_read(dir, &snapshot), 0);
	return snapshot;
}

static void check_figures(void)
{
	struct slot *a = fixture_join(fixture_tenant("figures"));
	struct ledger *l = slot_ledger(a);
	struct snapshot *snapshot;
	pid_t pid;

	CHECK_EQ(shared_add(a, (struct shared_key){ { 1, 1 } }, 0, 16 * MIB, CAT_IMPORTED, 0, GIB),
		 0);
	pid = fork();
	if (pid == 0) {
		struct slot *b = fixture_join(l->dir);

		quota_charge(b, 0, CAT_DATA, 500 * MIB);
		quota_host_add(b, 0, 50 * MIB);
		kill(getpid(), SIGKILL);
	}
	fixture_wait(pid, SIGKILL);
	quota_set(a, 0, CAT_CONTEXT, 520 * MIB); /* which does not raise the noted peak */
	quota_set(a, 0, CAT_DATA, 8 * MIB);
	quota_publish(a, 0, MIB);
	quota_set_driver(a, 0, 530 * MIB, 77);
	quota_host_add(a, 0, 3 * MIB);
	quota_count_refusal(a, 0);

	snapshot = read_snapshot(l->dir);
	CHECK(!strcmp(snapshot->policy.name, "test"));
	CHECK_EQ(snapshot->ndevices, 1);
	CHECK(!memcmp(snapshot->device[0].uuid, fixture_uuid, 16));
	CHECK_EQ(snapshot->device[0].index, 0);
	CHECK_EQ(snapshot->device[0].total_bytes, 24 * GIB);
	CHECK_EQ(snapshot->device[0].limit_bytes, GIB);
	CHECK_EQ(snapshot->device[0].used_bytes, 545 * MIB);
	CHECK_EQ(snapshot->device[0].peak_bytes, 544 * MIB);
	CHECK_EQ(snapshot->device[0].used[CAT_CONTEXT], 520 * MIB);
	CHECK_EQ(snapshot->device[0].used[CAT_DATA], 8 * MIB);
	CHECK_EQ(snapshot->device[0].used[CAT_IMPORTED], 16 * MIB);
	CHECK_EQ(snapshot->device[0].pending, MIB);
	CHECK_EQ(snapshot->device[0].driver_bytes, 530 * MIB);
	CHECK_EQ(snapshot->device[0].host_bytes, 3 * MIB);
	CHECK_EQ(snapshot->device[0].refusals, 1);
	CHECK_EQ(snapshot->device[0].energy_uj, 0);
	CHECK_EQ(snapshot->device[0].milliwatt, DEVICE_TIME_NO_POWER);
	CHECK(!snapshot->device[0].absurd);
	CHECK_EQ(snapshot->nprocesses, 2);
	CHECK(snapshot->process[0].live);
	CHECK_EQ(snapshot->process[0].info.pid, getpid());
	CHECK_EQ(snapshot->process[0].host_pid, getpid());
	CHECK_EQ(snapshot->process[0].device[0].used_bytes, 529 * MIB);
	CHECK_EQ(snapshot->process[0].device[0].shared_bytes, 16 * MIB);
	CHECK_EQ(snapshot->process[0].device[0].driver_ns, 77);
	/* The dead one is shown as such and counted nowhere. */
	CHECK(!snapshot->process[1].live);
	CHECK_EQ(snapshot->process[1].host_pid, 0);
	CHECK_EQ(snapshot->process[1].device[0].used_bytes, 500 * MIB);
	snapshot_free(snapshot);

	CHECK_EQ(quota_reclaim(l), 1);
	snapshot = read_snapshot(l->dir);
	CHECK_EQ(snapshot->nprocesses, 1);
	snapshot_free(snapshot);

	l->map->rows[0][0].used[CAT_POOL] = UINT64_MAX;
	snapshot = read_snapshot(l->dir);
	CHECK(snapshot->device[0].absurd);
	CHECK(snapshot->device[0].used_bytes == UINT64_MAX);
	snapshot_free(snapshot);
	ledger_close(l);
	snapshot_free(NULL);
}

/* Devices of the policy come first, in its order, used or not; then others that were used. */
static void check_devices(void)
{
	struct policy policy = { .ndevices = 2, .name = "devices" };
	struct snapshot *snapshot;
	struct slot *slot;
	char dir[PATH_MAX];

	memset(policy.device[0].uuid, 7, 16);
	policy.device[0].limit_permille = 500;
	policy.device[0].total_bytes = 80 * GIB;
	memcpy(policy.device[1].uuid, fixture_uuid, 16);
	policy.device[1].limit_permille = 250;
	CHECK_EQ(tenant_create(fixture_runtime_dir(), "devices", &policy, dir, sizeof(dir)), 0);
	snapshot = read_snapshot(dir);
	CHECK_EQ(snapshot->ndevices, 2);
	CHECK_EQ(snapshot->nprocesses, 0);
	CHECK_EQ(snapshot->device[0].index, -1);
	CHECK_EQ(snapshot->device[0].limit_bytes, 40 * GIB);
	CHECK_EQ(snapshot->device[1].limit_bytes, 0); /* of what, nobody has said yet */
	snapshot_free(snapshot);
	slot = fixture_join(dir);
	CHECK_EQ(ledger_device(slot_ledger(slot), (const uint8_t *)"another device!", GIB), 1);
	snapshot = read_snapshot(dir);
	CHECK_EQ(snapshot->ndevices, 3);
	CHECK_EQ(snapshot->device[1].index, 0);
	CHECK_EQ(snapshot->device[1].limit_bytes, 6 * GIB);
	CHECK_EQ(snapshot->device[2].index, 1);
	CHECK_EQ(snapshot->device[2].limit_bytes, 0); /* not the tenant's */
	snapshot_free(snapshot);
	ledger_close(slot_ledger(slot));
}

static struct snapshot_compute compute_of_snapshot(const char *dir)
{
	struct snapshot *snapshot = read_snapshot(dir);
	struct snapshot_compute compute = snapshot->device[0].compute;

	CHECK_EQ(snapshot->ndevices, 1);
	snapshot_free(snapshot);
	return compute;
}

static int set_policy(struct policy *policy, void *arg)
{
	const struct policy *wanted = arg;

	policy->compute = wanted->compute;
	policy->mode = wanted->mode;
	policy->controller = wanted->controller;
	policy->weight = wanted->weight;
	policy->device[0].share_permille = wanted->device[0].share_permille;
	return 0;
}

/* What the tenant may count on, by policy and by what the arbiter says. */
static void check_target(void)
{
	const char *dir = fixture_tenant("target");
	struct slot *slot = fixture_join(dir);
	const uint64_t old = 1, now = now_monotonic_ns(), ahead = UINT64_MAX / 2;
	const struct {
		enum policy_compute compute;
		uint32_t weight, share, entitled, flags;
		uint64_t beat_ns;
		uint32_t target;
	} cases[] = {
		{ POLICY_COMPUTE_OFF, 2, 250, 500, TURN_CONTENDED, now, 0 },
		{ POLICY_COMPUTE_CAP, 0, 250, 0, 0, 0, 250 },
		{ POLICY_COMPUTE_CAP, 0, 0, 0, 0, 0, 1000 },
		{ POLICY_COMPUTE_CAP, 0, 250, 100, TURN_CONTENDED, now, 100 },
		{ POLICY_COMPUTE_CAP, 0, 250, 500, TURN_CONTENDED, now, 250 },
		{ POLICY_COMPUTE_CAP, 0, 250, 100, 0, now, 250 },
		{ POLICY_COMPUTE_CAP, 0, 250, 100, TURN_CONTENDED, old, 250 },
		{ POLICY_COMPUTE_CAP, 0, 250, 100, TURN_CONTENDED, ahead, 250 },
		{ POLICY_COMPUTE_CAP, 0, 250, 0, TURN_CONTENDED, now, 250 },
		{ POLICY_COMPUTE_SHARE, 0, 250, 0, 0, 0, 250 },
		{ POLICY_COMPUTE_SHARE, 2, 0, 0, 0, 0, 1000 },
		{ POLICY_COMPUTE_SHARE, 2, 0, 400, 0, old, 400 },
		{ POLICY_COMPUTE_SHARE, 2, 0, 1001, 0, now, 1000 },
		{ POLICY_COMPUTE_SHARE, 0, 250, UINT32_MAX, 0, now, 250 },
	};
	struct turn *turn;

	CHECK_EQ(turn_open(dir, &turn), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy wanted = { .compute = cases[i].compute, .weight = cases[i].weight };
		struct snapshot_compute compute;

		wanted.device[0].share_permille = cases[i].share;
		CHECK_EQ(policy_update(dir, set_policy, &wanted), 0);
		turn->entitled_permille = cases[i].entitled;
		turn->flags = cases[i].flags;
		turn->beat_ns = cases[i].beat_ns;
		compute = compute_of_snapshot(dir);
		CHECK_EQ(compute.target_permille, cases[i].target);
		CHECK_EQ(compute.share_permille, cases[i].compute ? cases[i].share : 0);
	}
	/* Where others want its place on the device, too, as long as that is said to hold. */
	turn->entitled_permille = 1000;
	turn->memory_permille = 200;
	turn->memory_until_ns = ahead;
	CHECK_EQ(compute_of_snapshot(dir).target_permille, 200);
	turn->memory_until_ns = now - 1;
	CHECK_EQ(compute_of_snapshot(dir).target_permille, 1000);
	turn_close(turn);
	ledger_close(slot_ledger(slot));
}

/* Neither a cap nor an account is shown: not as one of 0. */
static void check_no_account(const char *dir)
{
	struct snapshot_compute seen = compute_of_snapshot(dir);

	CHECK_EQ(seen.cap_permille, 0);
	CHECK(!seen.owes);
	CHECK_EQ(seen.tokens, SNAPSHOT_NO_TOKENS);
}

/* What may be used at once, in what each controller reckons in. Ends with deficit in force. */
static void check_tokens(const char *dir, struct device_time *time, struct policy *wanted)
{
	static const struct share_params params = { .share_permille = 250, .slice_ns = 8000000 };
	struct snapshot_compute seen;

	wanted->controller = CONTROLLER_BUCKET;
	CHECK_EQ(policy_update(dir, set_policy, wanted), 0);
	seen = compute_of_snapshot(dir);
	CHECK(!seen.owes);
	CHECK_EQ(seen.cap_permille, 250);
	CHECK_EQ(seen.tokens, 0); /* what stands there is deficit's */
	time->cold_owner = CONTROLLER_BUCKET + 1;
	time->hot = controller_bucket.refill(0, time->cold, &params, 0);
	seen = compute_of_snapshot(dir);
	CHECK(seen.tokens > 2048 && seen.tokens <= 2048 * 12); /* a tick of blocks of 10 ms */
	controller_bucket.admit(time->hot, &params, 0, seen.tokens - 5, &time->hot);
	CHECK_EQ(compute_of_snapshot(dir).tokens, 5);
	controller_bucket.admit(time->hot, &params, 0, 7, &time->hot);
	CHECK_EQ(compute_of_snapshot(dir).tokens, 0);

	wanted->controller = CONTROLLER_PID;
	CHECK_EQ(policy_update(dir, set_policy, wanted), 0);
	seen = compute_of_snapshot(dir);
	CHECK(!seen.owes);
	CHECK_EQ(seen.tokens, SNAPSHOT_NO_TOKENS);

	wanted->controller = CONTROLLER_DEFICIT;
	CHECK_EQ(policy_update(dir, set_policy, wanted), 0);
	time->hot = 0;
	seen = compute_of_snapshot(dir);
	CHECK(seen.owes && seen.debt_ns < 0);
	CHECK_EQ(seen.tokens, (uint64_t)-seen.debt_ns);
}

/* The counters; and bytes that no process of ours ever wrote there. */
static void check_compute(void)
{
	static const struct share_params params = { .share_permille = 250, .slice_ns = 4000000 };
	const char *dir = fixture_tenant("compute");
	struct slot *slot = fixture_join(dir);
	struct device_time *time = device_time_of(slot_ledger(slot), 0);
	struct policy wanted = { .compute = POLICY_COMPUTE_CAP };
	struct snapshot_compute seen;
	uint64_t now = now_monotonic_ns();

	wanted.device[0].share_permille = 250;
	CHECK_EQ(policy_update(dir, set_policy, &wanted), 0);
	/* A quarter of each of the last 60 seconds, and some of the present one. */
	for (uint64_t s = 60; s > 0; s--)
		device_time_add_busy(time, now - s * 1000000000, 250000000);
	device_time_add_busy(time, now, 1000000);
	time->launches = 7;
	time->graph_launches = 2;
	time->throttles = 3;
	time->throttled_ns = 5000;
	time->longest_ns = 900000000;
	/* Ten seconds of work, and half a minute for this test. */
	time->hot = controller_deficit.bill(0, &params, now, now + 1000000000);
	for (int i = 1; i < 10; i++)
		time->hot = controller_deficit.bill(time->hot, &params, now, now + 1000000000);
	seen = compute_of_snapshot(dir);
	CHECK_EQ(seen.busy_ns, 15001000000);
	CHECK_EQ(seen.launches, 7);
	CHECK_EQ(seen.graph_launches, 2);
	CHECK_EQ(seen.throttles, 3);
	CHECK_EQ(seen.throttled_ns, 5000);
	CHECK_EQ(seen.longest_ns, 900000000);
	CHECK(seen.achieved_60s_bp > 1250 && seen.achieved_60s_bp <= 2500);
	CHECK_EQ(seen.history_bp[5], 2500);
	CHECK(seen.owes);
	CHECK(seen.debt_ns > 2500000000 && seen.debt_ns <= 10000000000);
	CHECK_EQ(seen.tokens, 0);
	CHECK_EQ(seen.cap_permille, 250);
	wanted.compute = POLICY_COMPUTE_SHARE;
	CHECK_EQ(policy_update(dir, set_policy, &wanted), 0);
	check_no_account(dir);

	wanted.compute = POLICY_COMPUTE_CAP;
	wanted.mode = POLICY_MODE_SPACE;
	CHECK_EQ(policy_update(dir, set_policy, &wanted), 0);
	check_no_account(dir);
	wanted.mode = POLICY_MODE_TURNS;
	check_tokens(dir, time, &wanted);
	memset(time, 0xff, sizeof(*time));
	seen = compute_of_snapshot(dir);
	CHECK(seen.achieved_1s_bp <= 10000 && seen.achieved_60s_bp <= 10000);
	for (int i = 0; i < SNAPSHOT_SECONDS; i++)
		CHECK(seen.history_bp[i] <= 10000);
	ledger_close(slot_ledger(slot));
}

/* A process in a PID namespace of its own says pid 1; the reader finds which of ours that is. */
static void check_namespace(void)
{
	const char *dir = fixture_tenant("namespace");
	struct snapshot *snapshot;
	int said[2];
	pid_t pid;
	char c;

	CHECK_EQ(pipe(said), 0);
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (pid < 0) {
		CHECK(errno == EPERM || errno == ENOSYS || errno == EINVAL);
		return;
	}
	if (pid == 0) {
		/* libc may remember the old pid; the kernel does not. */
		CHECK_EQ(syscall(SYS_getpid), 1);
		fixture_join(dir);
		CHECK_EQ(write(said[1], "x", 1), 1);
		pause();
	}
	CHECK_EQ(read(said[0], &c, 1), 1);
	snapshot = read_snapshot(dir);
	CHECK_EQ(snapshot->nprocesses, 1);
	CHECK(snapshot->process[0].live); /* liveness asks no namespace */
	CHECK_EQ(snapshot->process[0].info.pid, 1);
	CHECK(snapshot->process[0].info.pidns != 0 &&
	      snapshot->process[0].info.pidns != pidns_self());
	CHECK_EQ(snapshot->process[0].host_pid, pid);
	snapshot_free(snapshot);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	fixture_wait(pid, SIGKILL);
	snapshot = read_snapshot(dir);
	CHECK(!snapshot->process[0].live);
	snapshot_free(snapshot);
	close(said[0]);
	close(said[1]);
}

static void check_errors(void)
{
	const char *dir = fixture_tenant("errors");
	struct snapshot *snapshot = NULL;
	char path[PATH_MAX + 8];

	snprintf(path, sizeof(path), "%s/ledger", dir);
	CHECK_EQ(truncate(path, 100), 0);
	CHECK_EQ(snapshot_read(dir, &snapshot), -EPROTO);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(snapshot_read(dir, &snapshot), -ENOENT);
	CHECK(!snapshot);
}

/* Energy only grows; power is said of now, and no power is not the same as none known. */
static void check_energy(void)
{
	struct slot *slot = fixture_join(fixture_tenant("energy"));
	struct ledger *l = slot_ledger(slot);
	uint64_t now = now_monotonic_ns();
	struct snapshot *snapshot;

	device_time_add_energy(l, 0, 5, 7, now);
	device_time_add_energy(l, 0, UINT64_C(1) << 40, 0, now);
	CHECK_EQ(device_time_energy(l, 0, now).uj, (UINT64_C(1) << 40) + 5);
	CHECK_EQ(device_time_energy(l, 0, now + NS_PER_S).milliwatt, 0);
	CHECK_EQ(device_time_energy(l, 0, now + 60 * NS_PER_S).milliwatt, DEVICE_TIME_NO_POWER);
	device_time_add_energy(l, 0, 0, 456789, now);
	snapshot = read_snapshot(l->dir);
	CHECK_EQ(snapshot->device[0].milliwatt, 456789);
	CHECK_EQ(snapshot->device[0].energy_uj, (UINT64_C(1) << 40) + 5);
	snapshot_free(snapshot);
	ledger_close(l);
}

int main(void)
{
	check_figures();
	check_devices();
	check_target();
	check_compute();
	check_energy();
	check_namespace();
	check_errors();
	return 0;
}
