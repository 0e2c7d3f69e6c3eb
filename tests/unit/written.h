/* SPDX-License-Identifier: Apache-2.0 */
/* What a module writes for people or programs to read, as a text to look into. */
#ifndef ALLOT_TESTS_UNIT_WRITTEN_H
#define ALLOT_TESTS_UNIT_WRITTEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

static char *text;

/* `write` into `text`, in place of what was there. */
static void written_again(void (*write)(FILE *out))
{
	size_t bytes = 0;
	FILE *out;

	free(text);
	text = NULL;
	out = open_memstream(&text, &bytes);
	CHECK(out);
	write(out);
	CHECK(!fclose(out) && strlen(text) == bytes);
}

static inline void has_line(const char *line)
{
	const char *at = strstr(text, line);

	if (!at || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n') {
		fprintf(stderr, "no line \"%s\" in\n%s", line, text);
		exit(1);
	}
}

#endif
