/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which addresses of a render node's file are taken, where the kernel does not list them: one that is
 * free can be reserved, which is not written to any page table before it is taken back.
 */
#ifndef ALLOT_CRIU_OCCUPIED_H
#define ALLOT_CRIU_OCCUPIED_H

#include <stdint.h>

struct occupied {
	uint64_t at, bytes; /* whole pages; the 48 bits of an address that the kernel looks at */
};

/*
 * Checks that exactly these addresses are taken; sorts them. -EEXIST: there is more, within the
 * addresses *ret. -ENOENT: *ret is not taken, by its first or last page, which are probed. -EINVAL:
 * two overlap. Or the kernel's -errno.
 */
int occupied_check(int fd, struct occupied *list, uint32_t n, struct occupied *ret);

#endif
