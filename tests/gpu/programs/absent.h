/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that use what a machine may not have: each place that was looked at, with what was
 * not there. When none is left the harness is told all of them, and leaves the program out.
 */
#ifndef ALLOT_TESTS_GPU_ABSENT_H
#define ALLOT_TESTS_GPU_ABSENT_H

#include "child.h"

static char absent_said[1024];

static inline void absent_note(const char *where, const char *what, int code)
{
	size_t n = strlen(absent_said);

	snprintf(absent_said + n, sizeof(absent_said) - n, code ? "%s%s: %s (%d)" : "%s%s: %s",
		 n ? "; " : "", where, what, code);
}

/* NULL, which is noted: it is not here, or something that it needs is not. */
static inline void *absent_open(const char *library)
{
	void *ret = dlopen(library, RTLD_NOW);
	const char *why = ret ? NULL : dlerror();

	if (!ret)
		absent_note(library, strncmp(why, library, strlen(library)) ? why : "not here", 0);
	return ret;
}

static inline _Noreturn void absent_all(void)
{
	for (char *c = absent_said; *c; c++)
		if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
			*c = '\'';
	printf("{\"stage\": \"absent\", \"why\": \"%s\"}\n", absent_said);
	exit(77);
}

/* A failure of what is there. */
static inline void absent_must(int r, const char *what)
{
	child_must((CUresult)r, what);
}

#endif
