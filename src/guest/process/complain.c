/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/complain.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2))) static void complain_print(const char *fmt, ...)
{
	struct pollfd stderr_now = {.fd = STDERR_FILENO, .events = POLLOUT};
	char line[384];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	/* A pipe that nobody reads from would end the program by SIGPIPE, a full one hold it up. */
	if (poll(&stderr_now, 1, 0) != 1 || stderr_now.revents != POLLOUT)
		return;
	if (n > 0 &&
	    write(STDERR_FILENO, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1) < 0)
		return; /* nobody listens */
}

void complain_refusal(const char *complaint)
{
	complain_print("allot: the GPU is refused: %s\n", complaint);
}

void complain_line(const char *line)
{
	complain_print("allot: %s\n", line);
}
