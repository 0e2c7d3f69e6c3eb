/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /etc/xpu/vgpu.config: lines Name:value, with remarks after "#". A file that is mounted into a
 * container is meant to limit, so a file that limits nothing by mistake is an error: one without a
 * known key, or with unknown keys and no limit beside them.
 */
#ifndef ALLOT_DROPIN_VGPU_FILE_H
#define ALLOT_DROPIN_VGPU_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "dropin/config.h"

#define VGPU_DIR	"/etc/xpu"
#define VGPU_FILE	VGPU_DIR "/vgpu.config"
#define VGPU_FILE_BYTES 65536 /* and no more, with a zero behind it */

/*
 * Reads the file's text, after the variables, which cannot overrule it: of two limits the smaller
 * one applies, for each device by itself. 0, with `remark` set if keys are unknown; or -EINVAL with
 * `complaint` set.
 */
int vgpu_file_parse(struct config *config, const char *text, size_t len);

/* The same with the file itself, where it is there. 0, or -errno with `complaint` set. */
int vgpu_file_read(struct config *config);

/*
 * Returns true if a directory is mounted at VGPU_DIR in which there is no such file: a container's runtime makes
 * an empty one in the place of one that was lost.
 */
bool vgpu_file_is_lost(void);

#endif
