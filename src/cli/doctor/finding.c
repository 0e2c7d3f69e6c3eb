/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static bool failed;

void finding_say(enum finding finding, const char *todo, const char *fmt, ...)
{
	static const char *const words[] = {"ok  ", "warn", "FAIL"};
	static const char *const colours[] = {"\033[32m", "\033[33m", "\033[1;31m"};
	bool colour = isatty(STDOUT_FILENO);
	va_list ap;

	failed |= finding == FINDING_FAIL;
	printf("%s%s%s  ", colour ? colours[finding] : "", words[finding], colour ? "\033[0m" : "");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	if (todo)
		printf("\n      %s", todo);
	putchar('\n');
}

bool finding_failed(void)
{
	return failed;
}
