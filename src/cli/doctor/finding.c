/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/finding.h"

#include <stdio.h>
#include <unistd.h>

static bool failed;

void finding_say(enum finding finding, const char *what, const char *todo)
{
	static const char *const words[] = {"ok  ", "warn", "FAIL"};
	static const char *const colours[] = {"\033[32m", "\033[33m", "\033[1;31m"};
	bool colour = isatty(STDOUT_FILENO);

	failed |= finding == FINDING_FAIL;
	printf("%s%s%s  %s\n", colour ? colours[finding] : "", words[finding],
	       colour ? "\033[0m" : "", what);
	if (todo)
		printf("      %s\n", todo);
}

bool finding_failed(void)
{
	return failed;
}
