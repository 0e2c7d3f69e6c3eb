/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * CRC-32C (Castagnoli, polynomial 0x1edc6f41, reflected), as iSCSI, ext4 and the instructions of
 * processors have it. The CRC of "123456789" is 0xe3069283.
 */
#ifndef ALLOT_IMAGE_CRC32C_H
#define ALLOT_IMAGE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 to begin) with these `len` bytes. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/*
 * The same without the processor's instruction: for other processors, and for tests to compare
 * with.
 */
uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t len);

#endif
