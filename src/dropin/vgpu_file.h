/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /etc/xpu/vgpu.config: lines Name:value, with remarks behind "#". Whoever mounts this file into a
 * container means it to limit, so one that limits nothing by mistake is an error: without a key
 * that is known here, or with keys that are not and no limit beside them.
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
 * Reads the file's text, after the variables. Whoever mounted the file is not overruled by them: of
 * two limits the smaller one binds, for each device by itself. 0, with `remark` set where keys are
 * not known; or -EINVAL with `complaint` set.
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
