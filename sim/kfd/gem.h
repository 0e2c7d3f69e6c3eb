/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers by the handles of render nodes. All under the lock of the machine. */
#ifndef ALLOT_SIM_KFD_GEM_H
#define ALLOT_SIM_KFD_GEM_H

#include <stddef.h>
#include <stdint.h>

#include "sim/kfd/emu.h"

/* An ioctl of a render node, which `fd` is a descriptor of; the block goes in and out. */
typedef int emu_drm_fn(struct emu_machine *machine, const struct emu_gpu *gpu, int fd, void *block);

struct emu_drm_row {
	unsigned int nr;
	size_t args_bytes;
	emu_drm_fn *handle; /* NULL: the last row */
};

#define EMU_DRM_BLOCK_BYTES 64
extern const struct emu_drm_row emu_gem_rows[];

/* A render node has been opened. */
void emu_gem_opened(struct emu_machine *machine, int fd);

/* A descriptor of the memory at this offset of a render node, the caller's to close; or -EINVAL. */
int emu_gem_at(const struct emu_machine *machine, uint64_t mmap_offset, size_t len);

void emu_gem_forget(void); /* all of it, in a forked child */

#endif
