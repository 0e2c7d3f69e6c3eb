/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/end.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "node/members.h"
#include "node/process/mapped.h"

static int end_add(struct end *end, int pidfd)
{
	int *more = reallocarray(end->pidfd, end->n + 1, sizeof(*more));

	if (!more) {
		close(pidfd);
		return -ENOMEM;
	}
	end->pidfd = more;
	more[end->n++] = pidfd;
	return 0;
}

/* Of a user, or, where that is a container's, of any that the container has. */
static bool end_is_users(const struct tenant_entry *tenant, uid_t uid)
{
	return uid == tenant->ledger.st_uid || (tenant->ledger.st_mode & S_IWOTH);
}

/* True if the process that has the pid now is one of the tenant. */
static bool end_is_of(const struct tenant_entry *tenant, pid_t pid)
{
	struct stat process;
	char path[64];

	if (!tenant->apart && members_is(tenant->dir, pid))
		return true;
	snprintf(path, sizeof(path), "/proc/%ld", (long)pid);
	return !stat(path, &process) && end_is_users(tenant, process.st_uid) &&
	       !mapped_by(pid, &tenant->ledger);
}

/*
 * The descriptor comes first: a process that is there still when its pid was looked into is the one
 * that was looked into.
 */
static int end_add_of(const struct tenant_entry *tenant, pid_t pid, struct end *end)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (pidfd < 0)
		return 0;
	if (!end_is_of(tenant, pid) ||
	    (syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0 && errno == ESRCH)) {
		close(pidfd);
		return 0;
	}
	return end_add(end, pidfd);
}

/* Of a tenant apart only its slots are known: the directory is a path of a process's. */
static bool end_is_member(const struct tenant_entry *tenant, struct members *members, pid_t pid)
{
	return !tenant->apart && members_has(members, tenant->dir, pid);
}

int end_find_tenant(const struct tenant_entry *tenant, struct end *ret)
{
	const struct snapshot *s = tenant->snapshot;
	struct members members = {0};
	struct stat dir;
	int r = 0;

	*ret = (struct end){.n = 0};
	if (!tenant->ledger.st_ino || (!tenant->apart && stat(tenant->dir, &dir) < 0))
		return 0;
	if (!tenant->apart)
		members_find(&members, tenant->dir);
	for (size_t i = 0; !r && i < members.n; i++)
		if (members.list[i].dev == dir.st_dev && members.list[i].ino == dir.st_ino)
			r = end_add_of(tenant, members.list[i].pid, ret);
	for (int p = 0; !r && s && p < s->nprocesses; p++) {
		pid_t pid = (pid_t)s->process[p].host_pid;

		if (s->process[p].live && pid > 0 && !end_is_member(tenant, &members, pid))
			r = end_add_of(tenant, pid, ret);
	}
	members_free(&members);
	if (r < 0)
		end_free(ret);
	return r;
}

int end_find_process(pid_t pid, struct end *ret)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	*ret = (struct end){.n = 0};
	return pidfd < 0 ? -ESRCH : end_add(ret, pidfd);
}

size_t end_send(const struct end *end, int sig, int *ret_error)
{
	size_t failed = 0;

	for (size_t i = 0; i < end->n; i++)
		if (syscall(SYS_pidfd_send_signal, end->pidfd[i], sig, NULL, 0) < 0 &&
		    errno != ESRCH) {
			*ret_error = -errno;
			failed++;
		}
	return failed;
}

void end_free(struct end *end)
{
	for (size_t i = 0; i < end->n; i++)
		close(end->pidfd[i]);
	free(end->pidfd);
	*end = (struct end){.n = 0};
}
