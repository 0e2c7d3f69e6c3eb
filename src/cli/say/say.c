/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/say/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/say/exit_status.h"

static const char *name = "allot";

void say_as(const char *new_name)
{
	name = new_name;
}

/* One write, so that lines of processes that share a terminal do not mix. */
__attribute__((format(printf, 1, 0))) static void say_line(const char *fmt, va_list ap)
{
	char line[1024];
	int n = snprintf(line, sizeof(line), "%s: ", name);

	if (n < 0 || (size_t)n >= sizeof(line) - 1)
		n = 0;
	vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	strcat(line, "\n");
	fflush(stdout);
	fputs(line, stderr);
}

int say_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_line(fmt, ap);
	va_end(ap);
	return EXIT_ALLOT;
}

int say_fail(int answer, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_line(fmt, ap);
	va_end(ap);
	return answer;
}

void say_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_line(fmt, ap);
	va_end(ap);
}

const char *say_errno(int err)
{
	return strerror(err < 0 ? -err : err);
}
