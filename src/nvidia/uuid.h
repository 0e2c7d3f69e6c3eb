/* SPDX-License-Identifier: Apache-2.0 */
/* A device's UUID: 16 bytes here, "GPU-00112233-4455-6677-8899-aabbccddeeff" in NVIDIA's tools. */
#ifndef ALLOT_NVIDIA_UUID_H
#define ALLOT_NVIDIA_UUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UUID_TEXT_SIZE 41

/*
 * Read a whole UUID in NVIDIA's form: prefix "GPU-" or "MIG-", or none; hexadecimal digits of
 * either case. -EINVAL for anything else.
 */
int uuid_parse(const char *text, uint8_t ret_uuid[16]);

/* Write the "GPU-" form, lower case, terminated. */
void uuid_format(const uint8_t uuid[16], char ret_text[UUID_TEXT_SIZE]);

bool uuid_is_listed(const uint8_t (*list)[16], size_t n, const uint8_t uuid[16]);

#endif
