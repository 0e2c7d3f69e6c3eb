/* SPDX-License-Identifier: Apache-2.0 */
#include "text/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/text.h"

void log_line(enum log_level level, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	text_make_printable(line);
	if (getenv("JOURNAL_STREAM"))
		fprintf(stderr, "<%d>%s\n", (int)level, line);
	else
		fprintf(stderr, "allotd: %s\n", line);
}
