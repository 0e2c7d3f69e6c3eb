/* SPDX-License-Identifier: Apache-2.0 */
/* A program's view of its own tenant, by include/allot/tenant.h, without a GPU. */
#include "allot/tenant.h"

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/time.h>

#include "base/futex.h"
#include "base/now.h"
#include "ledger/device_time.h"
#include "ledger/map.h"
#include "ledger/shared_file.h"
#include "ledger/swap.h"
#include "tenant/find.h"
#include "tenant/forked.h"
#include "tests/unit/tenant_fixture.h"

/* As a program finds itself that `allot run` started. */
static const char *enter(const char *name)
{
	const char *dir = fixture_tenant(name);

	CHECK_EQ(setenv("ALLOT_TENANT_DIR", dir, 1), 0);
	return dir;
}

static struct allot_tenant *opened(void)
{
	struct allot_tenant *tenant;

	CHECK_EQ(allot_tenant_open(&tenant), 0);
	return tenant;
}

static struct allot_tenant_state state_of(struct allot_tenant *tenant)
{
	struct allot_tenant_state state = {.size = sizeof(state)};

	CHECK_EQ(allot_tenant_get(tenant, &state), 0);
	CHECK_EQ(state.size, sizeof(state));
	return state;
}

static struct allot_tenant_device device_of(struct allot_tenant *tenant, uint32_t number)
{
	struct allot_tenant_device device = {.size = sizeof(device)};

	CHECK_EQ(allot_tenant_get_device(tenant, number, &device), 0);
	return device;
}

static int halve(struct policy *policy, void *arg)
{
	policy->device[0].limit_bytes /= 2;
	return 0;
}

static void check_none(void)
{
	struct allot_tenant_device device = {.size = sizeof(device)};
	struct allot_tenant *tenant;
	uint32_t changes = 77;

	CHECK_EQ(unsetenv("ALLOT_TENANT_DIR"), 0);
	tenant = opened();
	CHECK_EQ(state_of(tenant).flags, 0);
	CHECK_EQ(allot_tenant_get(tenant, NULL), 0);
	CHECK_EQ(allot_tenant_get_device(tenant, 0, &device), -ENODEV);
	CHECK_EQ(allot_tenant_find_device(tenant, fixture_uuid, &device), -ENODEV);
	CHECK_EQ(allot_tenant_listen(tenant), 0);
	CHECK_EQ(allot_tenant_wait(tenant, 0, &changes), -ETIMEDOUT);
	CHECK_EQ(allot_tenant_wait(tenant, 10, &changes), -ETIMEDOUT);
	CHECK_EQ(changes, 77);
	allot_tenant_ready(tenant);
	allot_tenant_close(tenant);
	allot_tenant_close(NULL);
}

static void check_figures(void)
{
	const char *dir = enter("figures");
	struct slot *slot = fixture_join(dir);
	struct ledger *ledger = slot_ledger(slot);
	struct allot_tenant *tenant = opened();
	struct allot_tenant_device device;
	struct allot_tenant_state state;

	CHECK_EQ(quota_reserve(slot, 0, 300 * MIB, GIB), 0);
	quota_commit(slot, 0, 300 * MIB, CAT_DATA, 300 * MIB);
	quota_count_refusal(slot, 0);
	device_time_add_busy(device_time_of(ledger, 0), now_monotonic_ns(), 5 * NS_PER_MS);
	state = state_of(tenant);
	CHECK_EQ(state.flags, ALLOT_TENANT_LIMITED);
	CHECK_EQ(state.place, ALLOT_TENANT_RUNNING);
	CHECK_EQ(state.devices, 1);
	CHECK_EQ(state.processes, 1);
	CHECK(!strcmp(state.name, "test"));
	device = device_of(tenant, 0);
	CHECK(!memcmp(device.uuid, fixture_uuid, 16));
	CHECK(!strcmp(device.name, "GPU-64657669-6365-2d30-2028-757569642900"));
	CHECK_EQ(device.total_bytes, 24 * GIB);
	CHECK_EQ(device.limit_bytes, GIB);
	CHECK_EQ(device.used_bytes, 300 * MIB);
	CHECK_EQ(device.process_bytes, 300 * MIB);
	CHECK_EQ(device.peak_bytes, 300 * MIB);
	CHECK_EQ(device.refusals, 1);
	CHECK_EQ(device.share_permille, ALLOT_TENANT_NO_SHARE);
	CHECK_EQ(device.cap_permille, 1000);
	CHECK_EQ(device.entitled_permille, 1000);
	/* Nobody measures a tenant that is not limited in time. */
	CHECK_EQ(device.measured, 0);
	CHECK_EQ(device.busy_ns, 0);
	memset(&device, 0, sizeof(device));
	device.size = sizeof(device);
	CHECK_EQ(allot_tenant_find_device(tenant, fixture_uuid, &device), 0);
	CHECK_EQ(device.used_bytes, 300 * MIB);
	CHECK_EQ(allot_tenant_get_device(tenant, 1, &device), -ENODEV);
	allot_tenant_close(tenant);
	ledger_close(ledger);
}

static int take_share(struct policy *policy, void *arg)
{
	policy->compute = POLICY_COMPUTE_CAP;
	policy->device[0].share_permille = 250;
	return 0;
}

static void check_time(void)
{
	const char *dir = enter("time");
	struct slot *slot = fixture_join(dir);
	struct ledger *ledger = slot_ledger(slot);
	struct allot_tenant *tenant = opened();
	struct allot_tenant_device device;
	uint32_t changes;

	CHECK_EQ(policy_update(dir, take_share, NULL), 0);
	device_time_add_busy(device_time_of(ledger, 0), now_monotonic_ns(), 5 * NS_PER_MS);
	CHECK_EQ(allot_tenant_wait(tenant, -1, &changes), 0);
	CHECK_EQ(changes, ALLOT_TENANT_LIMITS);
	state_of(tenant);
	device = device_of(tenant, 0);
	CHECK_EQ(device.share_permille, 250);
	CHECK_EQ(device.cap_permille, 250);
	CHECK_EQ(device.entitled_permille, 250);
	CHECK_EQ(device.measured, 1);
	CHECK_EQ(device.busy_ns, 5 * NS_PER_MS);
	/* Of the program's own limits and the tenant's the smaller ones bind. */
	allot_tenant_close(tenant);
	CHECK_EQ(setenv("CUDA_DEVICE_MEMORY_LIMIT", "100m", 1), 0);
	CHECK_EQ(setenv("CUDA_DEVICE_SM_LIMIT", "10", 1), 0);
	tenant = opened();
	state_of(tenant);
	device = device_of(tenant, 0);
	CHECK_EQ(device.limit_bytes, 100 * MIB);
	CHECK_EQ(device.cap_permille, 100);
	CHECK_EQ(device.entitled_permille, 100);
	CHECK_EQ(state_of(tenant).limit_bytes, 100 * MIB);
	allot_tenant_close(tenant);
	/* A limit of one device, by CUDA's ordinal, may be another one's. */
	CHECK_EQ(setenv("CUDA_DEVICE_MEMORY_LIMIT_0", "200m", 1), 0);
	tenant = opened();
	CHECK_EQ(state_of(tenant).limit_bytes, GIB);
	CHECK_EQ(device_of(tenant, 0).limit_bytes, GIB);
	CHECK_EQ(unsetenv("CUDA_DEVICE_MEMORY_LIMIT_0"), 0);
	CHECK_EQ(unsetenv("CUDA_DEVICE_MEMORY_LIMIT"), 0);
	CHECK_EQ(unsetenv("CUDA_DEVICE_SM_LIMIT"), 0);
	allot_tenant_close(tenant);
	ledger_close(ledger);
}

static int take_sms(struct policy *policy, void *arg)
{
	policy->compute = POLICY_COMPUTE_CAP;
	policy->mode = POLICY_MODE_SPACE;
	policy->device[0].share_permille = 250;
	policy->device[0].limit_bytes = 0;
	policy->device[0].limit_permille = 500;
	return 0;
}

/* A part of the SMs is the most that the tenant gets, too. */
static void check_space(void)
{
	const char *dir = enter("space");
	struct ledger *ledger = slot_ledger(fixture_join(dir));
	struct allot_tenant *tenant = opened();

	CHECK_EQ(policy_update(dir, take_sms, NULL), 0);
	CHECK_EQ(state_of(tenant).limit_bytes, 0);
	CHECK_EQ(state_of(tenant).limit_permille, 500);
	CHECK_EQ(device_of(tenant, 0).share_permille, 250);
	CHECK_EQ(device_of(tenant, 0).cap_permille, 250);
	allot_tenant_close(tenant);
	ledger_close(ledger);
}

static int take_another(struct policy *policy, void *arg)
{
	memcpy(policy->device[1].uuid, fixture_uuid, 16);
	policy->device[1].limit_bytes = *(uint64_t *)arg;
	policy->ndevices = 2;
	return 0;
}

/* The quota is told before the first use of a GPU. */
static void check_limit(void)
{
	const char *dir = enter("limit");
	struct allot_tenant *tenant = opened();
	uint64_t same = GIB, other = 2 * GIB;

	CHECK_EQ(state_of(tenant).devices, 0);
	CHECK_EQ(state_of(tenant).limit_bytes, GIB);
	CHECK_EQ(state_of(tenant).limit_permille, 0);
	/* It is none where devices differ. */
	CHECK_EQ(policy_update(dir, take_another, &same), 0);
	CHECK_EQ(state_of(tenant).limit_bytes, GIB);
	CHECK_EQ(policy_update(dir, take_another, &other), 0);
	CHECK_EQ(state_of(tenant).limit_bytes, 0);
	allot_tenant_close(tenant);
}

/* A program that was built with a later header, and one with none. */
static void check_sizes(void)
{
	struct {
		struct allot_tenant_state state;
		uint64_t later[2];
	} state = {.state.size = sizeof(state), .later = {1, 2}};
	struct allot_tenant_device device = {.size = 24};
	struct allot_tenant *tenant;

	enter("sizes");
	tenant = opened();
	CHECK_EQ(allot_tenant_get(tenant, &state.state), 0);
	CHECK_EQ(state.state.size, sizeof(state.state));
	CHECK_EQ(state.later[0] | state.later[1], 0);
	CHECK_EQ(allot_tenant_get_device(tenant, 0, &device), -EINVAL);
	CHECK_EQ(allot_tenant_find_device(tenant, fixture_uuid, &device), -EINVAL);
	/* One of the first version. */
	state.state.size = offsetof(struct allot_tenant_state, limit_bytes);
	CHECK_EQ(allot_tenant_get(tenant, &state.state), 0);
	CHECK_EQ(state.state.size, offsetof(struct allot_tenant_state, limit_bytes));
	state.state.size = offsetof(struct allot_tenant_state, name);
	CHECK_EQ(allot_tenant_get(tenant, &state.state), -EINVAL);
	allot_tenant_close(tenant);
}

struct waiter {
	struct allot_tenant *tenant;
	uint32_t changes;
	int r;
};

static void *wait_for_change(void *arg)
{
	struct waiter *waiter = arg;

	waiter->r = allot_tenant_wait(waiter->tenant, -1, &waiter->changes);
	return NULL;
}

static void check_changes(void)
{
	const char *dir = enter("changes");
	struct waiter waiter = {.tenant = opened()};
	pthread_t thread;
	uint32_t changes;

	CHECK_EQ(allot_tenant_wait(waiter.tenant, 0, &changes), -ETIMEDOUT);
	CHECK_EQ(pthread_create(&thread, NULL, wait_for_change, &waiter), 0);
	CHECK_EQ(policy_update(dir, halve, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(waiter.r, 0);
	CHECK_EQ(waiter.changes, ALLOT_TENANT_LIMITS);
	CHECK_EQ(allot_tenant_wait(waiter.tenant, 0, &changes), -ETIMEDOUT);
	/* A change before the wait is told at once. */
	CHECK_EQ(policy_update(dir, halve, NULL), 0);
	CHECK_EQ(allot_tenant_wait(waiter.tenant, -1, &changes), 0);
	CHECK_EQ(changes, ALLOT_TENANT_LIMITS);
	allot_tenant_close(waiter.tenant);
}

/* A refusal of any kind is no sleep that ended: the caller sleeps on one word. */
static void check_refused_sleep(void)
{
	static const uint32_t word[2];
	const struct futex_seen aside = {(const char *)word + 1, 0};

	CHECK_EQ(futex_wait_any_until(&aside, 1, UINT64_MAX), -ENOSYS);
}

static void on_alarm(int signal)
{
}

/* A handler, as a program has for Ctrl-C, ends the wait. */
static void check_signal(void)
{
	const struct itimerval often = {{.tv_usec = 10000}, {.tv_usec = 10000}}, never = {{0}, {0}};
	const struct sigaction handler = {.sa_handler = on_alarm};
	struct allot_tenant *tenant;
	uint32_t changes;

	for (int in_tenant = 0; in_tenant < 2; in_tenant++) {
		if (in_tenant)
			enter("signal");
		else
			CHECK_EQ(unsetenv("ALLOT_TENANT_DIR"), 0);
		tenant = opened();
		CHECK_EQ(sigaction(SIGALRM, &handler, NULL), 0);
		CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
		CHECK_EQ(allot_tenant_wait(tenant, -1, &changes), -EINTR);
		CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
		allot_tenant_close(tenant);
	}
}

/* A thread that is cancelled in its wait leaves a handle that another one can use. */
static void check_cancel(void)
{
	const char *dir = enter("cancel");
	struct waiter waiter = {.tenant = opened()};
	pthread_t thread;
	void *how;

	CHECK_EQ(allot_tenant_listen(waiter.tenant), 0);
	CHECK_EQ(pthread_create(&thread, NULL, wait_for_change, &waiter), 0);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, &how), 0);
	CHECK(how == PTHREAD_CANCELED);
	CHECK_EQ(state_of(waiter.tenant).flags, ALLOT_TENANT_LIMITED);
	CHECK(swap_is_listened_to(dir));
	allot_tenant_close(waiter.tenant);
	CHECK(!swap_is_listened_to(dir));
}

static void check_places(void)
{
	const char *dir = enter("places");
	struct allot_tenant *tenant = opened();
	struct swap_desk *desk;
	uint32_t changes;

	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &desk), 0);
	swap_desk_ask(desk, SWAP_PREPARE);
	CHECK_EQ(allot_tenant_wait(tenant, -1, &changes), 0);
	CHECK_EQ(changes, ALLOT_TENANT_MOVED);
	CHECK_EQ(state_of(tenant).place, ALLOT_TENANT_SUSPENDING);
	swap_desk_ask(desk, SWAP_PREPARE); /* to the same place */
	CHECK_EQ(allot_tenant_wait(tenant, 0, &changes), -ETIMEDOUT);
	swap_desk_ask(desk, SWAP_OUT);
	CHECK_EQ(allot_tenant_wait(tenant, -1, &changes), 0);
	CHECK_EQ(state_of(tenant).place, ALLOT_TENANT_SUSPENDED);
	swap_desk_ask(desk, SWAP_BACK);
	CHECK_EQ(state_of(tenant).place, ALLOT_TENANT_RESUMING);
	swap_desk_ask(desk, SWAP_RUN);
	CHECK_EQ(state_of(tenant).place, ALLOT_TENANT_RUNNING);
	/* A requester that dies leaves its word, and no request. */
	swap_desk_ask(desk, SWAP_PREPARE);
	swap_desk_close(desk);
	CHECK_EQ(state_of(tenant).place, ALLOT_TENANT_RUNNING);
	allot_tenant_close(tenant);
}

static void check_notice(void)
{
	const char *dir = enter("notice");
	struct allot_tenant *tenant = opened();
	struct swap_desk *desk;
	uint32_t changes, number;

	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &desk), 0);
	CHECK_EQ(allot_tenant_listen(tenant), 0);
	CHECK_EQ(allot_tenant_listen(tenant), 0);
	CHECK(swap_is_listened_to(dir));
	CHECK(swap_desk_give_notice(desk, now_monotonic_ns() + 40 * NS_PER_S, &number));
	CHECK_EQ(allot_tenant_wait(tenant, -1, &changes), 0);
	CHECK_EQ(changes, ALLOT_TENANT_NOTICE);
	CHECK(state_of(tenant).notice_ns > 0);
	CHECK(state_of(tenant).notice_ns <= 40 * NS_PER_S);
	CHECK(swap_is_listened_to(dir));
	allot_tenant_ready(tenant);
	CHECK(!swap_is_listened_to(dir));
	/* Not again for the same. */
	CHECK_EQ(allot_tenant_wait(tenant, 0, &changes), -ETIMEDOUT);
	CHECK(!swap_is_listened_to(dir));
	swap_desk_withdraw_notice(desk, number);
	CHECK_EQ(allot_tenant_wait(tenant, -1, &changes), 0);
	CHECK_EQ(changes, ALLOT_TENANT_NOTICE);
	CHECK_EQ(state_of(tenant).notice_ns, 0);
	CHECK(swap_is_listened_to(dir));
	allot_tenant_close(tenant);
	CHECK(!swap_is_listened_to(dir));
	swap_desk_close(desk);
}

/* A handle of a program that starts meanwhile is told, too: else it would hold the notice up. */
static void check_notice_before(void)
{
	const char *dir = enter("before");
	struct allot_tenant *tenant;
	struct swap_desk *desk;
	uint32_t changes, number;

	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &desk), 0);
	CHECK(swap_desk_give_notice(desk, now_monotonic_ns() + 40 * NS_PER_S, &number));
	tenant = opened();
	CHECK_EQ(allot_tenant_wait(tenant, 0, &changes), -ETIMEDOUT);
	CHECK_EQ(allot_tenant_listen(tenant), 0);
	CHECK_EQ(allot_tenant_wait(tenant, 0, &changes), 0);
	CHECK_EQ(changes, ALLOT_TENANT_NOTICE);
	/* Another one, which the program does not know of, is not answered with it. */
	CHECK(swap_desk_give_notice(desk, now_monotonic_ns() + 50 * NS_PER_S, &number));
	allot_tenant_ready(tenant);
	CHECK(swap_is_listened_to(dir));
	CHECK_EQ(allot_tenant_wait(tenant, 0, &changes), 0);
	CHECK_EQ(changes, ALLOT_TENANT_NOTICE);
	allot_tenant_ready(tenant);
	CHECK(!swap_is_listened_to(dir));
	allot_tenant_close(tenant);
	swap_desk_close(desk);
}

/* A sibling's lock of its own keeps nobody from waiting. */
static void check_no_lock(void)
{
	const char *dir = enter("lock");
	struct allot_tenant *tenant = opened();
	int fd = map_open(dir, O_RDWR);
	uint32_t changes;

	CHECK(fd >= 0);
	CHECK_EQ(shared_file_lock(fd, LEDGER_LOCK_LISTEN, 1), 0);
	CHECK_EQ(allot_tenant_listen(tenant), 0);
	CHECK_EQ(allot_tenant_wait(tenant, 0, &changes), -ETIMEDOUT);
	CHECK_EQ(close(fd), 0);
	CHECK(!swap_is_listened_to(dir));
	CHECK_EQ(allot_tenant_wait(tenant, 0, &changes), -ETIMEDOUT);
	CHECK(swap_is_listened_to(dir));
	allot_tenant_close(tenant);
}

/* The environment is read once a handle: other threads may write it. */
static void check_found_once(void)
{
	struct allot_tenant *tenant;

	CHECK_EQ(unsetenv("ALLOT_TENANT_DIR"), 0);
	tenant = opened();
	enter("once");
	CHECK_EQ(state_of(tenant).flags, 0);
	allot_tenant_close(tenant);
	tenant = opened();
	CHECK_EQ(unsetenv("ALLOT_TENANT_DIR"), 0);
	CHECK_EQ(tenant_remove(fixture_runtime_dir(), "once"), 0);
	CHECK_EQ(allot_tenant_get(tenant, NULL), -ENOENT);
	enter("once");
	CHECK_EQ(unsetenv("ALLOT_TENANT_DIR"), 0);
	CHECK_EQ(state_of(tenant).flags, ALLOT_TENANT_LIMITED);
	allot_tenant_close(tenant);
}

/* A child has none of its parent's mappings, and none of its locks. */
static void check_fork(void)
{
	const char *dir = enter("fork");
	struct allot_tenant *tenant = opened();
	uint32_t changes, number = forked_number();
	pid_t child;

	CHECK_EQ(allot_tenant_listen(tenant), 0);
	CHECK_EQ(forked_number(), number);
	child = fixture_fork();
	if (!child) {
		CHECK(forked_number() != number);
		CHECK_EQ(state_of(tenant).flags, ALLOT_TENANT_LIMITED);
		CHECK_EQ(policy_update(dir, halve, NULL), 0);
		CHECK_EQ(allot_tenant_wait(tenant, -1, &changes), 0);
		CHECK_EQ(changes, ALLOT_TENANT_LIMITS);
		allot_tenant_close(tenant);
		_exit(0);
	}
	fixture_wait(child, 0);
	CHECK_EQ(allot_tenant_wait(tenant, -1, &changes), 0);
	CHECK(swap_is_listened_to(dir));
	allot_tenant_close(tenant);
}

/* One whose variables limit it has a tenant from its first use of a GPU on. */
static void check_drop_in(void)
{
	struct policy policy = fixture_policy(200 * MIB);
	char dir[FIND_DIR_BYTES], made[PATH_MAX];
	struct allot_tenant *tenant;
	struct config config;
	uint32_t changes;

	CHECK_EQ(unsetenv("ALLOT_TENANT_DIR"), 0);
	CHECK_EQ(setenv("ALLOT_RUNTIME_DIR", fixture_runtime_dir(), 1), 0);
	CHECK_EQ(setenv("CUDA_DEVICE_MEMORY_LIMIT", "200m", 1), 0);
	tenant = opened();
	CHECK_EQ(state_of(tenant).flags, 0);
	CHECK_EQ(find_tenant(dir, &config), FIND_DROP_IN);
	CHECK_EQ(tenant_create(fixture_runtime_dir(), strrchr(dir, '/') + 1, &policy, made,
			       sizeof(made)), 0);
	CHECK(!strcmp(dir, made));
	CHECK_EQ(allot_tenant_wait(tenant, -1, &changes), 0);
	CHECK_EQ(changes, ALLOT_TENANT_CAME);
	CHECK_EQ(state_of(tenant).flags, ALLOT_TENANT_LIMITED);
	/* Another one of the name is another one. */
	CHECK_EQ(tenant_remove(fixture_runtime_dir(), strrchr(dir, '/') + 1), 0);
	CHECK_EQ(tenant_create(fixture_runtime_dir(), strrchr(dir, '/') + 1, &policy, made,
			       sizeof(made)), 0);
	CHECK_EQ(allot_tenant_wait(tenant, -1, &changes), 0);
	CHECK_EQ(changes, ALLOT_TENANT_CAME);
	allot_tenant_close(tenant);
	/* No program runs with such a limit. */
	CHECK_EQ(setenv("CUDA_DEVICE_MEMORY_LIMIT", "much", 1), 0);
	tenant = opened();
	CHECK_EQ(allot_tenant_get(tenant, NULL), -EINVAL);
	CHECK_EQ(allot_tenant_wait(tenant, 0, &changes), -EINVAL);
	allot_tenant_close(tenant);
	CHECK_EQ(unsetenv("CUDA_DEVICE_MEMORY_LIMIT"), 0);
}

static void check_refusals(void)
{
	struct allot_tenant *tenant;
	const char *dir;

	CHECK_EQ(setenv("ALLOT_TENANT_DIR", "/nowhere/at/all", 1), 0);
	tenant = opened();
	CHECK_EQ(allot_tenant_get(tenant, NULL), -ENOENT);
	allot_tenant_close(tenant);
	CHECK_EQ(setenv("ALLOT_TENANT_DIR", "relative", 1), 0);
	tenant = opened();
	CHECK_EQ(allot_tenant_get(tenant, NULL), -EINVAL);
	CHECK_EQ(allot_tenant_listen(tenant), -EINVAL);
	allot_tenant_close(tenant);
	dir = enter("damaged");
	tenant = opened();
	fixture_damage(dir, 0, 7);
	CHECK_EQ(allot_tenant_get(tenant, NULL), -EPROTO);
	allot_tenant_close(tenant);
}

int main(void)
{
	check_none();
	check_figures();
	check_time();
	check_space();
	check_limit();
	check_sizes();
	check_changes();
	check_refused_sleep();
	check_signal();
	check_cancel();
	check_places();
	check_notice();
	check_notice_before();
	check_no_lock();
	check_found_once();
	check_fork();
	check_drop_in();
	check_refusals();
	return 0;
}
