/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Content of buffers, in files of src/image's objects beside the image: one for each owner. */
#ifndef ALLOT_CRIU_KFD_KFD_CONTENT_H
#define ALLOT_CRIU_KFD_KFD_CONTENT_H

#include "criu/kfd/kfd_calls.h"
#include "criu/kfd/kfd_image.h"
#include "image/contents.h"

/*
 * Returns a dma-buf of the buffer, which its owner keeps, and the render node of its GPU; -errno.
 */
typedef int kfd_dmabuf_fn(void *arg, uint32_t buffer, uint32_t *ret_minor);

/* Writes the files of all owners, which vouch for the image as it is packed. */
int kfd_content_save(const struct kfd_calls *calls, const struct kfd_image *image,
		     kfd_dmabuf_fn *dmabuf, void *arg, int dir, int level,
		     const struct contents_seal *seal, char why[KFD_WHY_BYTES]);

/* Reads the file of one process's buffers, all of which are filled when this answers 0. */
int kfd_content_load(const struct kfd_calls *calls, const struct kfd_image *image, uint32_t process,
		     kfd_dmabuf_fn *dmabuf, void *arg, int dir, const struct contents_seal *seal,
		     char why[KFD_WHY_BYTES]);

#endif
