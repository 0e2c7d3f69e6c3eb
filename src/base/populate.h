/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has the kernel bring pages in: it returns an error where a touch would raise a signal. Linux
 * 5.14.
 */
#ifndef ALLOT_BASE_POPULATE_H
#define ALLOT_BASE_POPULATE_H

#include <stdbool.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Of nothing, and so whether the kernel knows it. */
static inline bool populate_is_known(void)
{
	return madvise(NULL, 0, MADV_POPULATE_READ) == 0;
}

#endif
