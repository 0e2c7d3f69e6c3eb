/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The reason why an image is refused: the fault, the file, the place, and the object. */
#ifndef ALLOT_IMAGE_DAMAGE_H
#define ALLOT_IMAGE_DAMAGE_H

#include <stdint.h>

#define DAMAGE_NOWHERE UINT64_MAX /* no offset in particular */
#define DAMAGE_NO_OBJECT UINT32_MAX

/*
 * One line, "objects, byte 4096, object 3: ...", without a line feed; the reason alone if the fault
 * is the image's folder, whose name the caller knows. The fields are for programs:
 * `offset` is where the record begins that is wrong, or where the file ends too early.
 */
struct damage {
	char text[320];
	uint64_t offset; /* bytes from the file's beginning, or DAMAGE_NOWHERE */
	uint32_t object; /* its number in the file, or DAMAGE_NO_OBJECT */
};

/* Fills `ret`, unless it is NULL; `file` NULL: the folder. Returns r, which is -errno. */
int damage_say(struct damage *ret, int r, const char *file, uint64_t offset, uint32_t object,
	       const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
