/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/host.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

char *host_take(uint64_t bytes)
{
	char *host = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (host == MAP_FAILED)
		return NULL;
	/* Pages are pinned: a child would get copies of all of them. */
	madvise(host, bytes, MADV_DONTFORK);
	madvise(host, bytes, MADV_HUGEPAGE);
	return host;
}

bool host_populate(char *at, uint64_t bytes)
{
	if (!madvise(at, bytes, MADV_POPULATE_WRITE))
		return true;
	if (errno != EINVAL)
		return false;
	/* Kernels before 5.14 do not know it. */
	for (uint64_t i = 0; i < bytes; i += 4096)
		((volatile char *)at)[i] = 0;
	return true;
}
