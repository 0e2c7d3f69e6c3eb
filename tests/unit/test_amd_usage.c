/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process has by its open render nodes, where it has so many descriptors that they are read over
 * several seconds. The kernel's word about each is the test's: there need be no GPU.
 */
#include "node/amd_usage.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "guard/kernel_usage.h"
#include "node/process/allowance.h"
#include "tests/held_child.h"

#define MIB (UINT64_C(1) << 20)

int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_process_read_user(pid_t pid, uid_t *ret);
ssize_t __wrap_fd_read_text(int dirfd, const char *path, char *buf, size_t len);
ssize_t __real_fd_read_text(int dirfd, const char *path, char *buf, size_t len);
bool __wrap_kernel_usage_is_shown(pid_t process);

/* Time is the test's own. */
static time_t seconds = 1000;

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	(void)id;
	*ret = (struct timespec){.tv_sec = seconds};
	return 0;
}

static pid_t theirs; /* another user's process; the others are one's own */

int __wrap_process_read_user(pid_t pid, uid_t *ret)
{
	*ret = pid == theirs;
	return 0;
}

/* Descriptors from `first` on, `n` of them, are of one file each. */
static struct {
	int first, n;
	uint64_t bytes;
} render = {.first = 40000};

static int reads;

ssize_t __wrap_fd_read_text(int dirfd, const char *path, char *buf, size_t len)
{
	int fd;

	if (*path == '/')
		return __real_fd_read_text(dirfd, path, buf, len);
	reads++;
	fd = atoi(path);
	if (fd < render.first || fd >= render.first + render.n)
		return snprintf(buf, len, "pos:\t0\n");
	return snprintf(buf, len,
			"drm-driver:\tamdgpu\ndrm-client-id:\t%d\ndrm-pdev:\t0000:c1:00.0\n"
			"drm-total-vram:\t%llu MiB\n",
			fd, (unsigned long long)(render.bytes / MIB));
}

bool __wrap_kernel_usage_is_shown(pid_t process)
{
	(void)process;
	return false;
}

static struct topology_node nodes[] = {[1] = {.gpu_id = 7, .location = 0xc100}};
static const struct topology topology = {.nodes = nodes, .node_count = 2};

static void open_more(void *arg)
{
	for (int n = *(int *)arg; n > 0; n--)
		CHECK(dup(STDOUT_FILENO) >= 0);
}

/* A process with so many descriptors more than this one. */
static pid_t begin(int n)
{
	return held_child_begin(open_more, &n);
}

static uint64_t bytes_of(const struct amd_usage *usage)
{
	CHECK(usage->n <= 1);
	CHECK(!usage->n || usage->gpu[0].node == 1);
	return usage->n ? usage->gpu[0].bytes : 0;
}

/* A short process is told at once, although another user's long one takes all of that user's budget. */
static void check_slices(pid_t longer, pid_t shorter, int last)
{
	struct amd_usage usage;
	int looks = 0, r;
	uid_t uid;

	render.first = last;
	render.n = 1;
	render.bytes = 5 * MIB;
	CHECK_EQ(amd_usage_search(&topology, longer, &usage), -EAGAIN);
	CHECK_EQ(bytes_of(&usage), 0);
	CHECK(allowance_count(ALLOWANCE_DESCRIPTORS, &uid) >= 1);
	CHECK_EQ(uid, 1);
	render.first = 3;
	CHECK_EQ(amd_usage_search(&topology, shorter, &usage), 0);
	CHECK_EQ(bytes_of(&usage), 5 * MIB);

	render.first = last;
	do {
		seconds++;
		r = amd_usage_search(&topology, longer, &usage);
	} while (r == -EAGAIN && ++looks < 10);
	CHECK_EQ(r, 0);
	CHECK_EQ(bytes_of(&usage), 5 * MIB);
}

/* A known file is read again without the many others, also where a new search is not through. */
static void check_again(pid_t longer, int last)
{
	struct amd_usage usage;

	render.bytes = 2 * MIB;
	seconds++;
	reads = 0;
	CHECK_EQ(amd_usage_read(&topology, longer, &usage), 0);
	CHECK_EQ(bytes_of(&usage), 2 * MIB);
	CHECK_EQ(reads, 1);
	CHECK_EQ(amd_usage_search(&topology, longer, &usage), -EAGAIN);
	CHECK_EQ(bytes_of(&usage), 2 * MIB);

	/* It is closed; another one is found by a search only. */
	render.first = last - 1;
	seconds++;
	CHECK_EQ(amd_usage_read(&topology, longer, &usage), 0);
	CHECK_EQ(bytes_of(&usage), 0);
	for (int i = 0; i < 10 && amd_usage_search(&topology, longer, &usage) == -EAGAIN; i++)
		seconds++;
	CHECK_EQ(bytes_of(&usage), 2 * MIB);
}

/* Files beyond those that are told apart count as well. */
static void check_many_files(pid_t pid, int n)
{
	struct amd_usage usage;

	seconds += 2;
	render.first = 3;
	render.n = n;
	render.bytes = MIB;
	CHECK_EQ(amd_usage_search(&topology, pid, &usage), 0);
	CHECK_EQ(bytes_of(&usage), (uint64_t)n * MIB);
	CHECK_EQ(amd_usage_read(&topology, pid, &usage), 0);
	CHECK_EQ(bytes_of(&usage), (uint64_t)n * MIB);
}

/* The budget of a second is for 16384 descriptors, so there are more than that. */
int main(void)
{
	struct rlimit most;
	pid_t shorter = begin(600);
	int n;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &most), 0);
	most.rlim_cur = most.rlim_max < 40000 ? most.rlim_max : 40000;
	if (most.rlim_cur < 18000 || setrlimit(RLIMIT_NOFILE, &most) < 0) {
		held_child_end(shorter);
		return 77;
	}
	n = (int)most.rlim_cur - 100;
	theirs = begin(n);
	allowance_serve();
	check_slices(theirs, shorter, n);
	check_again(theirs, n);
	check_many_files(shorter, 500);
	held_child_end(theirs);
	held_child_end(shorter);
	return 0;
}
