/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/dmabuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "criu/say.h"

/* The kernel calls them /dmabuf:NAME. */
bool dmabuf_is(int fd)
{
	static const char prefix[] = "/dmabuf:";
	char path[32], link[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, link, sizeof(link) - 1) > 0 &&
	       !strncmp(link, prefix, sizeof(prefix) - 1);
}

/* A later file may turn out to be the owner of the buffer. */
int dmabuf_dump(struct dump *dump, int fd, uint32_t id)
{
	struct catalog_dmabuf dmabuf = {.id = id, .buffer = CATALOG_NONE};
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	int r = own < 0 ? err_errno() : dump_add_dmabuf(dump, &dmabuf, own);

	if (r < 0) {
		SAY_ERROR("a dma-buf cannot be noted: %s", strerror(-r));
		if (own >= 0)
			close(own);
	}
	return r < 0 ? r : 0;
}

int dmabuf_restore(struct restore *restore, uint32_t dmabuf)
{
	struct waiter *waiter = &restore->shared->dmabufs[dmabuf];
	int fd;

	waiter_register(waiter);
	fd = published_get(restore_buffer(restore, restore->catalog.dmabufs[dmabuf].buffer));
	if (fd != -EAGAIN)
		waiter_done(waiter);
	return fd;
}
