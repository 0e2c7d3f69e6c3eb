/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of whole pages that no allocator of the program's knows: malloc() may be the program's
 * own, and its lock may be held by whoever calls. munmap(2) gives it back.
 */
#ifndef ALLOT_BASE_PAGES_H
#define ALLOT_BASE_PAGES_H

#include <stddef.h>
#include <sys/mman.h>

static inline void *pages_map_with(size_t bytes, int flags)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1,
			0);

	return at == MAP_FAILED ? NULL : at;
}

/* Returns `bytes` of zeros, or NULL; errno is mmap(2)'s. */
static inline void *pages_map(size_t bytes)
{
	return pages_map_with(bytes, 0);
}

/* As pages_map, for what will hardly be used whole: the kernel promises no memory for it. */
static inline void *pages_reserve(size_t bytes)
{
	return pages_map_with(bytes, MAP_NORESERVE);
}

#endif
