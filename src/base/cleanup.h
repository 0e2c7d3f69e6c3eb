/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Scope-bound release of a function's resources. Initialise the variable (NULL, -EBADF) where it is
 * declared; hand it over with TAKE_PTR or TAKE_FD.
 */
#ifndef ALLOT_BASE_CLEANUP_H
#define ALLOT_BASE_CLEANUP_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Defines cleanup_<fn> for a destroyer `void fn(type *)` that takes NULL. */
#define DEFINE_CLEANUP(type, fn)                     \
	static inline void cleanup_##fn(type **ptr) \
	{                                            \
		fn(*ptr);                            \
	}

static inline void cleanup_free(void *ptr)
{
	free(*(void **)ptr);
}

static inline void cleanup_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

#define CLEANUP_FREE CLEANUP(cleanup_free)
#define CLEANUP_CLOSE CLEANUP(cleanup_close)

#define TAKE_PTR(ptr)                          \
	({                                     \
		__typeof__(ptr) taken_ = (ptr); \
		(ptr) = NULL;                  \
		taken_;                        \
	})

#define TAKE_FD(fd)             \
	({                      \
		int taken_ = (fd); \
		(fd) = -EBADF;  \
		taken_;         \
	})

#endif
