/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant in a directory of its own, on tmpfs as in real life, removed at exit. */
#ifndef ALLOT_TESTS_TENANT_FIXTURE_H
#define ALLOT_TESTS_TENANT_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "ledger/ledger.h"
#include "ledger/policy.h"
#include "ledger/quota.h"
#include "ledger/slot.h"
#include "ledger/tenant.h"
#include "tests/check.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static const uint8_t fixture_uuid[16] = "device-0 (uuid)";

/* Every temporary directory is made here, so that one pass at exit removes it. */
static char fixture_runtime[PATH_MAX];
static pid_t fixture_owner;

static inline int fixture_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static inline void fixture_cleanup(void)
{
	if (getpid() == fixture_owner)
		nftw(fixture_runtime, fixture_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

static inline const char *fixture_runtime_dir(void)
{
	if (!fixture_runtime[0]) {
		const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

		snprintf(fixture_runtime, sizeof(fixture_runtime), "%s/allot-test-XXXXXX", base);
		CHECK(mkdtemp(fixture_runtime));
		fixture_owner = getpid();
		atexit(fixture_cleanup);
	}
	return fixture_runtime;
}

static inline struct policy fixture_policy(uint64_t limit_bytes)
{
	struct policy policy = { .ndevices = 1, .flags = POLICY_ALL_DEVICES, .name = "test" };

	policy.device[0].limit_bytes = limit_bytes;
	return policy;
}

/* Answers the tenant's directory, which lives until the next call. */
static inline const char *fixture_tenant(const char *name)
{
	struct policy policy = fixture_policy(GIB);
	static char dir[PATH_MAX];

	CHECK_EQ(tenant_create(fixture_runtime_dir(), name, &policy, dir, sizeof(dir)), 0);
	return dir;
}

/* A word of the policy's file, behind the back of whoever has mapped it. */
static inline void fixture_damage(const char *dir, size_t at, uint64_t value)
{
	char path[PATH_MAX + 8];
	int fd;

	snprintf(path, sizeof(path), "%s/policy", dir);
	CHECK_EQ(chmod(path, 0600), 0);
	fd = open(path, O_RDWR);
	CHECK(fd >= 0);
	CHECK_EQ(pwrite(fd, &value, sizeof(value), (off_t)at), sizeof(value));
	close(fd);
}

/* A process of the tenant, as the guest library is one: ledger, slot, one device (index 0). */
static inline struct slot *fixture_join(const char *dir)
{
	struct ledger *ledger;
	struct slot *slot;

	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &ledger), 0);
	CHECK_EQ(slot_claim(ledger, &slot), 0);
	CHECK_EQ(ledger_device(ledger, fixture_uuid, 24 * GIB), 0);
	return slot;
}

/* A child that does not outlive the test, should that be stopped half-way. */
static inline pid_t fixture_fork(void)
{
	pid_t parent = getpid(), pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

/* Whether children can be killed at fault points: tests leave out those parts otherwise. */
static inline bool fixture_has_faults(void)
{
	return fault_arm("SLOT_LOCKED") == 0 && fault_arm(NULL) == 0;
}

static inline void fixture_wait(pid_t pid, int expected_status)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (status != expected_status)
		fprintf(stderr, "child: status %#x, expected %#x\n", status, expected_status);
	CHECK(status == expected_status);
}

static inline void fixture_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	fixture_wait(pid, SIGKILL);
}

#endif
