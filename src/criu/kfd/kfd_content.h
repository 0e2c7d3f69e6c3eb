/* SPDX-License-Identifier: Apache-2.0 */
/* Content of buffers, in files of src/image's objects beside the image: one for each owner. */
#ifndef ALLOT_CRIU_KFD_KFD_CONTENT_H
#define ALLOT_CRIU_KFD_KFD_CONTENT_H

#include "criu/kfd/kfd_calls.h"
#include "criu/kfd/kfd_image.h"

/* A dma-buf of the buffer, which stays whose it is; -errno. */
typedef int kfd_dmabuf_fn(void *arg, uint32_t buffer);

/*
 * Writes the files of all owners. Each vouches for `image_file`, the image as it is packed, by its
 * size and CRC.
 */
int kfd_content_save(const struct kfd_calls *calls, const struct kfd_image *image,
		     kfd_dmabuf_fn *dmabuf, void *arg, int dir, int level, const void *image_file,
		     size_t image_len, char why[KFD_WHY_BYTES]);

/* Reads the file of one process's buffers, all of which are filled when this answers 0. */
int kfd_content_load(const struct kfd_calls *calls, const struct kfd_image *image, uint32_t process,
		     kfd_dmabuf_fn *dmabuf, void *arg, int dir, char why[KFD_WHY_BYTES]);

/* A file, and back, malloc'ed. One that was written in part is refused by its own sums. */
int kfd_content_put_file(int dir, const char *name, const void *data, size_t len,
			 char why[KFD_WHY_BYTES]);
int kfd_content_get_file(int dir, const char *name, size_t most, void **ret, size_t *ret_len,
			 char why[KFD_WHY_BYTES]);

#endif
