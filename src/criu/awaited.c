/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/awaited.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dir.h"
#include "criu/dmabuf.h"
#include "criu/gpu/drm.h"
#include "criu/kfd_file.h"
#include "criu/whose.h"

/* A render node of another driver counts: CRIU hands it over, too, and the plugin passes it over. */
static bool awaited_is(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (drm_is_render(&st) || kfd_file_is(&st) || dmabuf_is(fd));
}

static bool awaited_add(struct awaited *awaited, long pid, int fd)
{
	struct awaited_descriptor *longer =
		reallocarray(awaited->list, awaited->n + 1, sizeof(*longer));

	if (!longer)
		return false;
	awaited->list = longer;
	longer[awaited->n++] = (struct awaited_descriptor){pid, fd};
	return true;
}

/* The plugin looks at a copy, as it does at what CRIU hands over. */
static bool awaited_add_descriptor(struct awaited *awaited, long pid, int pidfd, int fd)
{
	CLEANUP_CLOSE int own = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	return own >= 0 && (!awaited_is(own) || awaited_add(awaited, pid, fd));
}

/* False as well before Linux 5.6, which gives no copies. */
static bool awaited_add_process(struct awaited *awaited, long pid)
{
	CLEANUP_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	CLEANUP_DIR DIR *list = dir_of_process((pid_t)pid, "fd");
	bool whole = list && pidfd >= 0;
	int fd;

	while (whole && (fd = dir_next_number(list)) >= 0)
		whole = awaited_add_descriptor(awaited, pid, pidfd, fd);
	return whole;
}

void awaited_open(struct awaited *ret)
{
	long *pids;
	int n = whose_held(&pids);

	*ret = (struct awaited){.known = n > 0};
	for (int i = 0; ret->known && i < n; i++)
		ret->known = awaited_add_process(ret, pids[i]);
	free(pids);
}

void awaited_close(struct awaited *awaited)
{
	free(awaited->list);
	*awaited = (struct awaited){0};
}

void awaited_seen(struct awaited *awaited, int fd)
{
	for (uint32_t i = 0; i < awaited->n;)
		if (whose_is_same(awaited->list[i].pid, awaited->list[i].fd, fd))
			awaited->list[i] = awaited->list[--awaited->n];
		else
			i++;
}

bool awaited_none(const struct awaited *awaited)
{
#ifdef ALLOT_CRIU_AT_EXIT /* for the test of what happens then */
	return false;
#endif
	return awaited->known && !awaited->n;
}
