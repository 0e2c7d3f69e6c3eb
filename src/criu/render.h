/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Render nodes as files of processes, dumped (render_dump.c) and restored (render_restore.c). */
#ifndef ALLOT_CRIU_RENDER_H
#define ALLOT_CRIU_RENDER_H

#include "criu/dump.h"
#include "criu/restore.h"

/* By CRIU's descriptor, which stays its own; `id` is its name for the file. Says what is wrong. */
int render_dump(struct dump *dump, int fd, uint32_t id);

/* The first step: of that file, or, where CRIU does not call again, of all. Says what is wrong. */
int render_begin(struct restore *restore, uint32_t file);

/* A descriptor of it, whole, for the caller; -EAGAIN: call again; or it says what is wrong. */
int render_restore(struct restore *restore, uint32_t file);

/*
 * Finds the new offset and file of a mapping at `offset` of that device; the caller owns the
 * descriptor. -ENOENT if the catalog does not have it.
 */
int render_map(struct restore *restore, uint32_t minor, uint64_t offset, uint64_t *ret_offset,
	       int *ret_fd);

#endif
