/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room on a disk without a name: it is freed when the process that has it ends, however that ends.
 */
#ifndef ALLOT_BASE_UNNAMED_FILE_H
#define ALLOT_BASE_UNNAMED_FILE_H

#include <stdint.h>

/*
 * Makes a file of `bytes` bytes in a directory, which must be no link. The room on the disk is
 * reserved. The file reads as zeros, nobody else can open it, and it can never get a name. Returns
 * a descriptor, or -errno: -EMEDIUMTYPE for host memory itself (tmpfs), -EOPNOTSUPP if the file
 * system lacks unnamed files or reservation.
 */
int unnamed_file_open(const char *dir, uint64_t bytes);

#endif
