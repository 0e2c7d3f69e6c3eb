/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page tables of one GPU for this process, and what its engines do with memory. Where nothing
 * is mapped on that GPU, or nothing that it may write, it faults: -EFAULT, and the address. All
 * under the lock of the machine.
 */
#ifndef ALLOT_SIM_KFD_VM_H
#define ALLOT_SIM_KFD_VM_H

#include <stdbool.h>
#include <stdint.h>

/* Addresses of a GPU, and the memory that is there. */
struct vm_range {
	uint64_t at, size;
	char *memory;
	bool writable;
	bool users; /* memory of the program's own, which may be gone */
	bool svm;   /* by its own addresses */
};

struct vm {
	struct vm_range *ranges; /* by address */
	uint32_t n, room;
};

/* -EINVAL: not whole pages, or something is there; -ENOMEM. */
int vm_add(struct vm *vm, const struct vm_range *range);
void vm_remove(struct vm *vm, uint64_t at, uint64_t size);
void vm_forget(struct vm *vm);

/* True if just these addresses (0 bytes: no matter how many) are one mapping, and such a one. */
bool vm_is_object(const struct vm *vm, uint64_t at, uint64_t size);

/* True if anything but the program's memory by its own addresses is there. */
bool vm_has_objects(const struct vm *vm, uint64_t at, uint64_t size);

int vm_copy(const struct vm *vm, uint64_t to, uint64_t from, uint64_t len, uint64_t *ret_fault);
int vm_read(const struct vm *vm, void *to, uint64_t from, uint64_t len, uint64_t *ret_fault);
int vm_write(const struct vm *vm, uint64_t to, const void *from, uint64_t len, uint64_t *ret_fault);

/* A word to work on atomically; `bytes` is 4 or 8, and it is aligned to that. */
int vm_word(const struct vm *vm, uint64_t at, uint32_t bytes, void **ret_word, uint64_t *ret_fault);

#endif
