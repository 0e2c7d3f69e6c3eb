/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text looked at without the C library. Whatever answers dlsym uses this: a sanitizer's runtime in
 * the program defines strcmp and the like, and asks dlsym for the real ones before its own work.
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

/* What is behind the last slash. */
static inline const char *text_file_name(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

#endif
