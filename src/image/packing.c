/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "image/packing.h"

#include <errno.h>

#ifdef ALLOT_HAVE_ZSTD

#include <zstd.h>

bool packing_offered(void)
{
	return true;
}

size_t packing_pack(void *to, const void *from, size_t len, int level)
{
	size_t n = len > 1 ? ZSTD_compress(to, len - 1, from, len, level) : 0;

	return len > 1 && !ZSTD_isError(n) ? n : 0;
}

int packing_unpack(void *to, size_t len, const void *from, size_t packed)
{
	/* One frame with its size in front, as packing_pack makes it: the library stops at `len`. */
	return ZSTD_decompress(to, len, from, packed) == len ? 0 : -EBADMSG;
}

#else

bool packing_offered(void)
{
	return false;
}

size_t packing_pack(void *to, const void *from, size_t len, int level)
{
	return 0;
}

int packing_unpack(void *to, size_t len, const void *from, size_t packed)
{
	return -ENOTSUP;
}

#endif
