/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Everything below the command line answers 0 or -errno; this is the one helper for that. */
#ifndef ALLOT_BASE_ERR_H
#define ALLOT_BASE_ERR_H

#include <errno.h>

/* -errno of the call that just failed; never 0, even if that call forgot to set it. */
static inline int err_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

#endif
