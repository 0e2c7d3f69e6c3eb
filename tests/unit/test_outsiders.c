/* SPDX-License-Identifier: Apache-2.0 */
/* Who uses a device and is not limited: the drivers' figures against the ledgers'. */
#include "node/outsiders.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/process/mapped.h"
#include "tests/check.h"

#define MIB (UINT64_C(1) << 20)

static struct snapshot_device device[2] = {{.uuid = {1}}, {.uuid = {2}}};
static struct snapshot_process_device of_a[2] = {{.used_bytes = 1000 * MIB, .shared_bytes = 24 * MIB}};
static struct snapshot_process_device of_dead[2];
static struct snapshot_process process[2] = {
	{.live = true, .device = of_a}, /* this one */
	{.live = false, .host_pid = 11, .device = of_dead},
};
static struct snapshot snapshot = {
	.ndevices = 2, .device = device, .nprocesses = 2, .process = process};
static struct snapshot_process claimed = {.live = true, .device = of_dead};
static struct snapshot forged = {
	.ndevices = 2, .device = device, .nprocesses = 1, .process = &claimed};
static struct tenant_entry entry[3] = {
	{.name = "damaged", .error = -EIO},
	{.name = "forger", .snapshot = &forged},
	{.name = "jobA", .snapshot = &snapshot},
};
static const struct tenants tenants = {.n = 3, .list = entry};
static struct outsider found[8];
static pid_t own;

/* Only who has the ledger mapped is of a tenant. */
static void map_ledger(void)
{
	char path[PATH_MAX + 8];
	int fd;

	own = getpid();
	process[0].host_pid = claimed.host_pid = (uint32_t)own;
	for (int i = 1; i < 3; i++) {
		snprintf(entry[i].dir, sizeof(entry[i].dir), "%s/allot-test-XXXXXX",
			 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
		CHECK(mkdtemp(entry[i].dir));
		snprintf(path, sizeof(path), "%s/ledger", entry[i].dir);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
		CHECK_EQ(mapped_find_ledger(entry[i].dir, &entry[i].ledger), 0);
		if (i == 2)
			CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
		close(fd);
	}
}

static void remove_ledgers(void)
{
	char path[PATH_MAX + 8];

	for (int i = 1; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/ledger", entry[i].dir);
		unlink(path);
		rmdir(entry[i].dir);
	}
}

static size_t find_all(const struct usage_list *list)
{
	size_t n = 0;

	memset(found, 0, sizeof(found));
	CHECK_EQ(outsiders_find(list, &tenants, found, &n), 0);
	return n;
}

static size_t find(pid_t pid, uint8_t uuid, uint64_t bytes)
{
	struct usage usage = {.uuid = {uuid}, .pid = pid, .bytes = bytes};
	struct usage_list list = {.n = 1, .list = &usage};

	return find_all(&list);
}

static unsigned int lookups;

int __real_mapped_ledger(pid_t pid, const struct stat *ledger);
int __wrap_mapped_ledger(pid_t pid, const struct stat *ledger);

int __wrap_mapped_ledger(pid_t pid, const struct stat *ledger)
{
	lookups++;
	return __real_mapped_ledger(pid, ledger);
}

void __wrap_container_of_process(pid_t pid, char ret[static CONTAINER_BYTES]);

void __wrap_container_of_process(pid_t pid, char ret[static CONTAINER_BYTES])
{
	snprintf(ret, CONTAINER_BYTES, "%s", pid == own ? "c0ffee" : "");
}

/* Nor is a tenant in a container that its process is not in. */
static void check_containers(void)
{
	struct tenants some = tenants;

	tenants_find_containers(&some);
	CHECK(!strcmp(entry[2].container, "c0ffee"));
	CHECK(!*entry[1].container);
}

/* A tenant that claims it in all of its slots has it looked up no more often than one. */
static void check_claimed_often(void)
{
	static struct snapshot_process slots[1024];
	struct usage usage = {.uuid = {1}, .pid = own, .bytes = 1024 * MIB};
	struct usage_list list = {.n = 1, .list = &usage};

	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
		slots[i] = claimed;
	forged.process = slots;
	forged.nprocesses = sizeof(slots) / sizeof(slots[0]);
	lookups = 0;
	CHECK_EQ(find_all(&list), 0);
	CHECK_EQ(lookups, 2);
	forged.process = &claimed;
	forged.nprocesses = 1;
}

static void check_in_no_tenant(void)
{
	CHECK_EQ(find(99, 1, 5 * MIB), 1);
	CHECK(found[0].pid == 99 && found[0].uuid[0] == 1 && found[0].bytes == 5 * MIB);
	CHECK(!*found[0].tenant);
	CHECK_EQ(find(99, 1, UINT64_MAX), 1); /* how much is not told, and it is there */
	CHECK_EQ(find(11, 1, 1), 1);	      /* a number that a dead member had */
	CHECK_EQ(find(0, 1, 1), 1);	      /* a namespace that is not ours: nobody's */
}

static void check_beyond(void)
{
	uint64_t known = 1024 * MIB;

	CHECK_EQ(find(own, 1, known), 0);
	CHECK_EQ(find(own, 1, known + OUTSIDERS_SLACK_BYTES), 0);
	CHECK_EQ(find(own, 1, known + OUTSIDERS_SLACK_BYTES + 1), 1);
	CHECK(!strcmp(found[0].tenant, "jobA") && found[0].ledger_bytes == known);
	CHECK_EQ(find(own, 1, UINT64_MAX), 0); /* in a tenant, and no figure to hold against it */
	CHECK_EQ(find(own, 2, 300 * MIB), 1);  /* another device, of which its ledger has nothing */
	CHECK_EQ(found[0].ledger_bytes, 0);
	CHECK_EQ(find(own, 3, 300 * MIB), 1); /* or has never heard */
}

/* The driver's figures of a tenant's processes are held against its quota. */
static void check_by_driver(void)
{
	static const uint8_t amd[16] = {'A', 'M', 'D', ' ', 'u', 'i', 'd', ' '};
	struct usage usage[3] = {{.uuid = {1}}, {.uuid = {1}}, {.uuid = {1}}};
	struct usage_list three = {.n = 3, .list = usage};
	struct policy *policy = &snapshot.policy;

	snapshot.policy = (struct policy){.ndevices = 1, .flags = POLICY_ACCOUNTING_DRIVER};
	policy->device[0] = (struct policy_device){.uuid = {1}, .limit_bytes = 2048 * MIB};
	CHECK_EQ(find(own, 1, (2048 + 256) * MIB), 0);
	CHECK_EQ(find(own, 1, (2048 + 256) * MIB + 1), 1);
	CHECK(!strcmp(found[0].tenant, "jobA") && found[0].ledger_bytes == 2048 * MIB);
	CHECK(found[0].by_quota && found[0].standing == OUTSIDER_UNLIMITED);
	CHECK_EQ(find(own, 1, UINT64_MAX), 0);
	CHECK_EQ(find(own, 3, 300 * MIB), 1); /* a device that it was not given */
	CHECK_EQ(found[0].ledger_bytes, 0);
	/* It was given that much before. */
	policy->device[0].before_bytes = 4096 * MIB;
	CHECK_EQ(find(own, 1, 4096 * MIB), 0);
	policy->device[0].before_bytes = 0;
	/* A percentage is of what the driver says that the device has. */
	policy->device[0] = (struct policy_device){
		.uuid = {1}, .limit_permille = 500, .total_bytes = 100000 * MIB};
	usage[0].total_bytes = 4096 * MIB;
	usage[0].pid = own;
	usage[0].bytes = 4000 * MIB;
	three.n = 1;
	CHECK_EQ(find_all(&three), 1);
	CHECK_EQ(found[0].ledger_bytes, 2048 * MIB);
	policy->device[0].total_bytes = usage[0].total_bytes = 0;
	CHECK_EQ(find_all(&three), 0); /* nothing is proven where nobody knows how much it may have */
	/* All of its processes together; those with the most are named, as far as need be. */
	policy->device[0] = (struct policy_device){.uuid = {1}, .limit_bytes = 2048 * MIB};
	process[1] = process[0];
	three.n = 3;
	usage[0] = (struct usage){.uuid = {1}, .pid = own, .bytes = 100 * MIB};
	usage[1] = (struct usage){.uuid = {1}, .pid = own, .bytes = 3000 * MIB};
	usage[2] = (struct usage){.uuid = {1}, .pid = own, .bytes = 2000 * MIB};
	CHECK_EQ(find_all(&three), 1);
	CHECK(found[0].bytes == 3000 * MIB && found[0].ledger_bytes == 0);
	usage[0].bytes = 1100 * MIB;
	CHECK_EQ(find_all(&three), 2);
	CHECK(found[1].bytes == 2000 * MIB && found[1].ledger_bytes == (2048 - 1100) * MIB);
	usage[1].bytes = 200 * MIB;
	usage[2].bytes = 1300 * MIB;
	CHECK_EQ(find_all(&three), 0);
	/* Of AMD's devices the ledger decides in either mode. */
	memcpy(device[1].uuid, amd, sizeof(amd));
	usage[0] = (struct usage){.pid = own, .bytes = 300 * MIB};
	memcpy(usage[0].uuid, amd, sizeof(amd));
	three.n = 1;
	CHECK_EQ(find_all(&three), 1);
	CHECK(!found[0].by_quota);
	memset(device[1].uuid, 0, sizeof(device[1].uuid));
	device[1].uuid[0] = 2;
	snapshot.policy = (struct policy){.ndevices = 0};
	process[1] = (struct snapshot_process){.live = false, .host_pid = 11, .device = of_dead};
}

static void check_several(void)
{
	struct usage usage[] = {{.uuid = {1}, .pid = own, .bytes = MIB},
				{.uuid = {1}, .pid = 98, .bytes = MIB},
				{.uuid = {2}, .pid = 98, .bytes = MIB}};
	struct usage_list list = {.n = 3, .list = usage};

	CHECK_EQ(find_all(&list), 2);
	CHECK(found[0].pid == 98 && found[0].uuid[0] == 1);
	CHECK(found[1].pid == 98 && found[1].uuid[0] == 2);
	list.n = 0;
	CHECK_EQ(find_all(&list), 0);
}

static void check_described(void)
{
	struct outsider_process self;

	CHECK_EQ(outsiders_describe(getpid(), user_name, &self), 0);
	CHECK(strstr(self.command, "test_outsiders"));
	CHECK(*self.user);
	CHECK_EQ(outsiders_describe(1 << 30, user_name, &self), -ESRCH);
}

static size_t list(uint64_t bytes)
{
	struct usage usage = {.uuid = {1}, .pid = own, .bytes = bytes};
	struct usage_list list = {.n = 1, .list = &usage};
	const struct tenants none = {.n = 0};
	struct outsider_found *all;
	size_t n;

	CHECK_EQ(outsiders_list(&list, &none, user_name, &all, &n), 0);
	free(all);
	return n;
}

/* Anybody can call himself so: then with no more than it has. */
static void check_called_mps(void)
{
	CHECK_EQ(list(MIB), 1);
	CHECK_EQ(prctl(PR_SET_NAME, "nvidia-cuda-mps-server"), 0);
	CHECK_EQ(list(64 * MIB), 0);
	CHECK_EQ(list(UINT64_MAX), 0); /* how much is not told */
	CHECK_EQ(list(OUTSIDERS_SLACK_BYTES), 1);
}

static void *sleep_on(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static pid_t start_without_first_thread(void)
{
	pid_t pid = fork();
	pthread_t thread;

	CHECK(pid >= 0);
	if (pid)
		return pid;
	CHECK_EQ(pthread_create(&thread, NULL, sleep_on, NULL), 0);
	pthread_exit(NULL);
}

/* Not waited for. */
static pid_t start_ended(void)
{
	pid_t pid = fork();
	siginfo_t info;

	CHECK(pid >= 0);
	if (!pid)
		_exit(0);
	CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	return pid;
}

static size_t list_of(pid_t pid, enum outsider_standing *ret)
{
	struct usage usage = {.uuid = {1}, .pid = pid, .bytes = 1024 * MIB};
	struct usage_list one = {.n = 1, .list = &usage};
	const struct tenants none = {.n = 0};
	struct outsider_found *all;
	size_t n;

	CHECK_EQ(outsiders_list(&one, &none, user_name, &all, &n), 0);
	if (n)
		*ret = all->outsider.standing;
	free(all);
	return n;
}

/* What ends is nobody's to end; what goes on without its first thread has a ledger as before. */
static void check_threads(void)
{
	enum outsider_standing standing = OUTSIDER_UNLIMITED;
	pid_t ended = start_ended(), pid = start_without_first_thread();
	char path[64], state = 'R';

	CHECK_EQ(list_of(ended, &standing), 0);
	waitpid(ended, NULL, 0);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (state != 'Z') {
		FILE *stat = fopen(path, "re");

		CHECK(stat && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1);
		fclose(stat);
	}
	CHECK(!mapped_is_ending(pid));
	CHECK_EQ(mapped_ledger(pid, &entry[2].ledger), 0);
	CHECK_EQ(list_of(pid, &standing), 1);
	CHECK_EQ(standing, OUTSIDER_UNREAD);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	map_ledger();
	atexit(remove_ledgers);
	check_in_no_tenant();
	check_beyond();
	check_by_driver();
	check_several();
	check_claimed_often();
	check_containers();
	check_described();
	check_threads();
	check_called_mps();
	return 0;
}
