/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device files of AMD's driver in this process, and ioctls of them. The kernel lets a process
 * define once which open render node is its address space on a GPU, and keeps that until the
 * process ends. So the files stay open as long, and are opened again in a forked child, which the
 * kernel does not know.
 */
#ifndef ALLOT_PEER_AMD_FILES_H
#define ALLOT_PEER_AMD_FILES_H

#include <stdint.h>

/* /dev/kfd and /dev/dri/renderD<minor>: descriptors that are nobody's to close; or -errno. */
int amd_file_kfd(void);
int amd_file_render(uint32_t minor);

/* Once; 0 or -errno. */
int amd_ioctl_once(int fd, unsigned long request, void *block);

/* Again where it was interrupted, and some times where the driver asks for it. For all that may be
 * repeated as a whole. */
int amd_ioctl(int fd, unsigned long request, void *block);

/* Lets some time pass before the next try. */
void amd_wait_us(uint32_t us);

#endif
