/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant's directory whose files a fuzzer forges. */
#ifndef ALLOT_TESTS_FUZZ_TENANT_H
#define ALLOT_TESTS_FUZZ_TENANT_H

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ledger/ledger.h"
#include "ledger/policy.h"
#include "tests/fuzz/fuzz.h"

static char tenant_dir[64];

static inline void tenant_file(char path[static PATH_MAX], const char *name)
{
	snprintf(path, PATH_MAX, "%s/%s", tenant_dir, name);
}

static inline void tenant_forget(const char *name)
{
	char path[PATH_MAX];

	tenant_file(path, name);
	unlink(path);
}

static inline void tenant_end(void)
{
	tenant_forget("policy");
	tenant_forget("ledger");
	rmdir(tenant_dir);
}

/* Once a process; in memory where there is such a place. */
static inline void tenant_begin(void)
{
	if (tenant_dir[0])
		return;
	snprintf(tenant_dir, sizeof(tenant_dir), "%s/allot-fuzz-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	MUST(mkdtemp(tenant_dir));
	atexit(tenant_end);
}

/* The policy is one that its owner may read only, until it is meant to be written. */
static inline void tenant_unguard(const char *name)
{
	char path[PATH_MAX];

	tenant_file(path, name);
	MUST(chmod(path, 0600) == 0);
}

static inline int tenant_open(const char *name, int flags)
{
	char path[PATH_MAX];
	int fd;

	tenant_file(path, name);
	fd = open(path, flags | O_CLOEXEC, 0600);
	MUST(fd >= 0);
	return fd;
}

static inline struct policy tenant_policy(void)
{
	struct policy policy = {.ndevices = 2, .name = "fuzz"};

	memset(policy.device[0].uuid, 0x11, 16);
	policy.device[0].limit_bytes = UINT64_C(1) << 30;
	memset(policy.device[1].uuid, 0x22, 16);
	policy.device[1].limit_permille = 250;
	return policy;
}

#endif
