/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own memory on GPUs (SVM), by its addresses. It is charged to the GPU that it was
 * fetched to, or to the one where it is to be, which the kernel moves it to when it likes. munmap
 * gives it back. A hook of munmap would see all that a program unmaps, so the kernel is asked
 * instead, before a refusal.
 */
#ifndef ALLOT_GUEST_AMD_MEMORY_SVM_H
#define ALLOT_GUEST_AMD_MEMORY_SVM_H

#include "guest/amd/amd.h"

/* The kernel's word for memory that has no place of its own (KFD_IOCTL_SVM_LOCATION_UNDEFINED). */
#define AMD_SVM_NOWHERE UINT32_MAX

/* Counts off all that `gone` has, which is then empty. */
void amd_svm_release_all(struct amd *amd, struct amd_ranges *gone);

/*
 * A call that says where addresses are to be. While it is under way their ranges are not in the
 * table: they are its own, and stay charged. So of two calls at the same addresses one alone counts
 * them off, and no sweep looks at them. Where calls overlap in time nobody knows which of them the
 * kernel did last, and what each says stays charged.
 */
struct svm_call {
	uint64_t number; /* from 1 on, of this process's */
	bool alone;	 /* no other was under way when it began */
	struct amd_ranges had;
};

/* 0 or -ENOMEM. To be ended, after `had` was put back, or put otherwise, or counted off. */
int amd_svm_begin(struct amd *amd, uint64_t first, uint64_t end, struct svm_call *ret);
void amd_svm_end(struct amd *amd, struct svm_call *svm);

/*
 * These are charged from now on, all of them already. `whole`: the kernel did all that the call
 * says, or nothing. Else, or when another call was under way, parts of one may be at different
 * places.
 */
void amd_svm_put(struct amd *amd, const struct svm_call *svm, const struct amd_ranges *ranges,
		 bool whole);

/*
 * Counts off what of the charged addresses was unmapped or left its GPU: the kernel is asked by a
 * descriptor of /dev/kfd, which `fd` may be. Slow.
 */
void amd_svm_sweep(struct amd *amd, int fd);

#endif
