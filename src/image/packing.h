/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Compression of content, where this build has the library for it. */
#ifndef ALLOT_IMAGE_PACKING_H
#define ALLOT_IMAGE_PACKING_H

#include <stdbool.h>
#include <stddef.h>

/* Can content be packed and unpacked? */
bool packing_offered(void);

/*
 * Packs `len` bytes into less than that. How many there are then, or 0: they do not get less, or
 * it is not offered. `to` has room for `len`. `level`: zstd's, 1 is the fastest.
 */
size_t packing_pack(void *to, const void *from, size_t len, int level);

/* Unpacks into exactly `len` bytes: 0; -EBADMSG if it was not packed from `len` bytes; -ENOTSUP. */
int packing_unpack(void *to, size_t len, const void *from, size_t packed);

#endif
