/* SPDX-License-Identifier: Apache-2.0 */
/* Room on a disk that has no name: it is gone with whoever has it, however that ends. */
#ifndef ALLOT_BASE_UNNAMED_FILE_H
#define ALLOT_BASE_UNNAMED_FILE_H

#include <stdint.h>

/*
 * A file in a directory, which is no link, of so many bytes, which the disk has from here on: zero,
 * nobody else's to read, and never to be given a name. A descriptor, or -errno: -EMEDIUMTYPE for what
 * is host memory itself (tmpfs), -EOPNOTSUPP where such files, or room in advance, are not to be had.
 */
int unnamed_file_open(const char *dir, uint64_t bytes);

#endif
