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

/* Counts bytes off a GPU, by its index in struct amd; all that `gone` has, which is then empty. */
void amd_svm_release(struct amd *amd, int device, uint64_t bytes);
void amd_svm_release_all(struct amd *amd, struct amd_ranges *gone);

/* Back to where they were, but for where another thread has put newer ones meanwhile. */
void amd_svm_put_back(struct amd *amd, struct amd_ranges *ranges);

/*
 * Around a call that says where addresses are to be. In between, when its ranges are in the table:
 * whether no other such call was under way at any time since it began.
 */
uint64_t amd_svm_begin(struct amd *amd);
bool amd_svm_is_alone(const struct amd *amd, uint64_t begun);
void amd_svm_end(struct amd *amd);

/* Notes that what is charged for these addresses may be at different places by now. */
void amd_svm_mix(struct amd *amd, uint64_t first, uint64_t end);

/* Cuts what is charged at both addresses: its parts may have different places from now on. */
void amd_svm_split(struct amd *amd, uint64_t first, uint64_t end);

/*
 * Counts off what of the charged addresses was unmapped or left its GPU: the kernel is asked by a
 * descriptor of /dev/kfd, which `fd` may be. Slow.
 */
void amd_svm_sweep(struct amd *amd, int fd);

#endif
