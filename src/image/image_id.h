/* SPDX-License-Identifier: Apache-2.0 */
/* An image's id as people and files have it. */
#ifndef ALLOT_IMAGE_IMAGE_ID_H
#define ALLOT_IMAGE_IMAGE_ID_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define IMAGE_ID_DIGITS 32 /* hexadecimal */

static inline void image_id_text(const uint8_t id[static 16], char ret[static IMAGE_ID_DIGITS + 1])
{
	for (size_t i = 0; i < 16; i++)
		snprintf(ret + 2 * i, 3, "%02x", id[i]);
}

#endif
