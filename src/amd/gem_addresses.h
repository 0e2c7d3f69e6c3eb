/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * A process's own note of the GPU addresses of its buffers of render nodes, since kernels before
 * 6.18 do not tell them. The note is in the process's memory. A reader from outside, while the
 * process is stopped, checks what it reads (criu/noted.h):
 *
 *	a page of the library's data	amd_addresses_at: the magic, and the address of
 *	its own memory			struct amd_addresses: how many, and the address of
 *	the same			an array of struct amd_address
 */
#ifndef ALLOT_AMD_GEM_ADDRESSES_H
#define ALLOT_AMD_GEM_ADDRESSES_H

#include <stdint.h>

/*
 * An open file of a render node is known by the pid of the process that noted it, and a number that
 * the process gave it (guest/amd/files.h); both are the owner and the signal of the file.
 */
#define AMD_ADDRESSES_NUMBER_BITS 6
#define AMD_ADDRESSES_NUMBER_LAST 63 /* is of several files, of which nothing is noted */

static inline uint64_t amd_addresses_file(int64_t pid, int number)
{
	return (uint64_t)pid << AMD_ADDRESSES_NUMBER_BITS | (uint64_t)number;
}

/* The kernel's page, which it cuts addresses of GPUs to; and of an address what it looks at. */
#define AMD_ADDRESSES_PAGE UINT64_C(4096)
#define AMD_ADDRESSES_MASK UINT64_C(0x0000ffffffffffff)

struct amd_address {
	uint64_t file;
	uint32_t handle;
	uint32_t flags; /* as GEM_VA takes them, without AMDGPU_VM_DELAY_UPDATE */
	uint64_t at, bytes, offset;
};

/* More than a process can have of buffers that are of use. */
#define AMD_ADDRESSES_MOST (1u << 20)

struct amd_addresses {
	uint32_t n;
	uint32_t changing; /* odd: just now */
	uint32_t lost;	   /* there was no room for one */
	uint32_t zero;
	uint64_t list_at; /* struct amd_address[n], by file, handle and address */
};

/* At the beginning of a page. */
#define AMD_ADDRESSES_MAGIC_FIRST  UINT64_C(0x444441544f4c4c41) /* "ALLOTADD" */
#define AMD_ADDRESSES_MAGIC_SECOND UINT64_C(0x3153455353455252) /* "RRESSES1" */

struct amd_addresses_at {
	uint64_t magic[2];
	uint64_t addresses_at; /* 0: it has noted none */
};

_Static_assert(sizeof(struct amd_address) == 40 && sizeof(struct amd_addresses) == 24 &&
		       sizeof(struct amd_addresses_at) == 24,
	       "as it is read from outside");

#endif
