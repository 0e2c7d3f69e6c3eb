/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ledgers a process maps: the answer comes at once, but later for one with very many
 * mappings.
 */
#include "node/process/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "node/process/allowance.h"
#include "tests/held_child.h"

#define PAGE	 4096
#define MAPPINGS 32000 /* twice: those that may be read, and what is between them */
#define TENANTS	 2

static char dir[TENANTS][64];

/* Time is the test's own. */
static time_t seconds = 1000;

int __wrap_clock_gettime(clockid_t id, struct timespec *ret);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	(void)id;
	*ret = (struct timespec){.tv_sec = seconds};
	return 0;
}

static void make_tenants(void)
{
	char path[160];
	int fd;

	for (int i = 0; i < TENANTS; i++) {
		snprintf(dir[i], sizeof(dir[i]), "%s/allot-test-XXXXXX",
			 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
		CHECK(mkdtemp(dir[i]));
		snprintf(path, sizeof(path), "%s/ledger", dir[i]);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
		close(fd);
	}
}

static void remove_tenants(void)
{
	char path[160];

	for (int i = 0; i < TENANTS; i++) {
		snprintf(path, sizeof(path), "%s/ledger", dir[i]);
		unlink(path);
		rmdir(dir[i]);
	}
}

/* Mapped before the many, so that it comes last in /proc/PID/maps. */
static void map_ledger(int tenant)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/ledger", dir[tenant]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
	close(fd);
}

static void map_many(size_t n)
{
	char *area = mmap(NULL, 2 * n * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			  -1, 0);

	CHECK(area != MAP_FAILED);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(mprotect(area + 2 * i * PAGE, PAGE, PROT_READ), 0);
}

struct holding {
	int tenant; /* whose ledger it has mapped; less than 0: nobody's */
	size_t mappings;
};

static void hold(void *arg)
{
	const struct holding *holding = arg;

	if (holding->tenant >= 0)
		map_ledger(holding->tenant);
	if (holding->mappings)
		map_many(holding->mappings);
}

static pid_t begin(int tenant, size_t mappings)
{
	return held_child_begin(hold, &(struct holding){tenant, mappings});
}

/* What mapped_ledger answers of a tenant's ledger. */
static int maps(pid_t pid, int tenant)
{
	struct stat ledger;

	CHECK_EQ(mapped_find_ledger(dir[tenant], &ledger), 0);
	return mapped_ledger(pid, &ledger);
}

static int await(pid_t pid, int tenant)
{
	int r;

	for (int i = 0; mapped_is_unknown(r = maps(pid, tenant)) && i < 20; i++)
		seconds++;
	return r;
}

static void check_few(void)
{
	pid_t with = begin(0, 0), without = begin(-1, 0);
	struct stat st;

	CHECK_EQ(maps(with, 0), 0);
	CHECK_EQ(maps(with, 1), -ENOENT);
	CHECK_EQ(maps(without, 0), -ENOENT);
	CHECK_EQ(mapped_any_ledger(with, &st), 0);
	CHECK_EQ(mapped_any_ledger(without, &st), -ENOENT);
	CHECK_EQ(mapped_find_ledger(dir[0], &st), 0);
	CHECK(mapped_by_any(&st));
	CHECK_EQ(mapped_by(with, &st), 0);
	CHECK_EQ(mapped_by(without, &st), -ENOENT);
	held_child_end(with);
	held_child_end(without);
	CHECK_EQ(maps(with, 0), -ESRCH);
	CHECK(mapped_is_ending(with));
}

/*
 * Three processes with more mappings than the budget of a second: in the end all are known, in any
 * order.
 */
static void check_many(void)
{
	pid_t pid[3];
	uid_t last = (uid_t)-1;
	unsigned int unknown = 0;

	for (int i = 0; i < 3; i++)
		pid[i] = begin(i == 2, MAPPINGS);
	for (int i = 0; i < 3; i++)
		unknown += maps(pid[i], 1) == -EAGAIN;
	CHECK(unknown >= 1);
	CHECK(allowance_count(ALLOWANCE_MAPPINGS, &last) >= 1);
	CHECK_EQ(last, getuid());
	for (int i = 2; i >= 0; i--)
		CHECK_EQ(await(pid[i], 1), i == 2 ? 0 : -ENOENT);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(await(pid[i], 0), i == 2 ? -ENOENT : 0);
	for (int i = 0; i < 3; i++)
		held_child_end(pid[i]);
}

int main(void)
{
	make_tenants();
	atexit(remove_tenants);
	check_few();
	allowance_serve();
	check_many();
	return 0;
}
