/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Render nodes as files of processes, dumped (render_dump.c) and restored (render_restore.c). */
#ifndef ALLOT_CRIU_RENDER_H
#define ALLOT_CRIU_RENDER_H

#include "criu/dump.h"
#include "criu/restore.h"

/*
 * Through CRIU's descriptor, which CRIU keeps; `id` is its name for the file. Reports its errors.
 */
int render_dump(struct dump *dump, int fd, uint32_t id);

/* The first step: of that file, or, if CRIU does not call again, of all. Reports its errors. */
int render_begin(struct restore *restore, uint32_t file);

/*
 * Returns a complete descriptor of it for the caller; -EAGAIN: call again; or an error that it
 * reports.
 */
int render_restore(struct restore *restore, uint32_t file);

/*
 * Finds the new offset and file of a mapping at `offset` of that device; the caller owns the
 * descriptor. -ENOENT if the catalog does not have it.
 */
int render_map(struct restore *restore, uint32_t minor, uint64_t offset, uint64_t *ret_offset,
	       int *ret_fd);

#endif
