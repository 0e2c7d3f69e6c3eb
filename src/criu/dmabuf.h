/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Descriptors of dma-bufs, as files of processes. */
#ifndef ALLOT_CRIU_DMABUF_H
#define ALLOT_CRIU_DMABUF_H

#include <stdbool.h>

#include "criu/dump.h"
#include "criu/restore.h"

bool dmabuf_is(int fd);

/* As render_dump and render_restore (render.h). */
int dmabuf_dump(struct dump *dump, int fd, uint32_t id);
int dmabuf_restore(struct restore *restore, uint32_t dmabuf);

#endif
