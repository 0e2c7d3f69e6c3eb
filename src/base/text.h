/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text functions without the C library, for code that answers dlsym: a sanitizer's runtime in the
 * program defines strcmp and the like, and asks dlsym for the real ones before it works.
 */
#ifndef ALLOT_BASE_TEXT_H
#define ALLOT_BASE_TEXT_H

#include <stdbool.h>

static inline bool text_same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

/* Returns the part after the last slash. */
static inline const char *text_file_name(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

#endif
