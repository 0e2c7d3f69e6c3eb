/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Everything below the command line answers 0 or -errno; these are the helpers for that. */
#ifndef ALLOT_BASE_ERR_H
#define ALLOT_BASE_ERR_H

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* -errno of the call that just failed; never 0, even if that call forgot to set it. */
static inline int err_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

/* Writes what a person is told, cut at `size` - 1 bytes, and returns `error`. */
__attribute__((format(printf, 4, 5))) static inline int err_say(char *why, size_t size, int error,
								const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return error;
}

#endif
