/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/kfd/vm.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/kfd/array.h"
#include "sim/kfd/user.h"

#define PAGE	     UINT64_C(4096)
#define BOUNCE_BYTES 65536

/* The place of the first range that ends behind the address. */
static uint32_t vm_place_of(const struct vm *vm, uint64_t at)
{
	uint32_t low = 0, high = vm->n;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (vm->ranges[middle].at + vm->ranges[middle].size <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int vm_add(struct vm *vm, const struct vm_range *range)
{
	uint32_t i = vm_place_of(vm, range->at);
	struct vm_range *grown;

	if (!range->at || !range->size || (range->at | range->size) % PAGE ||
	    range->at + range->size < range->at ||
	    (i < vm->n && vm->ranges[i].at < range->at + range->size))
		return -EINVAL;
	grown = array_grow(vm->ranges, &vm->room, vm->n, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	vm->ranges = grown;
	memmove(&vm->ranges[i + 1], &vm->ranges[i], (vm->n - i) * sizeof(*range));
	vm->ranges[i] = *range;
	vm->n++;
	return 0;
}

void vm_remove(struct vm *vm, uint64_t at, uint64_t size)
{
	uint32_t i = vm_place_of(vm, at), end = i;

	while (end < vm->n && vm->ranges[end].at < at + size)
		end++;
	memmove(&vm->ranges[i], &vm->ranges[end], (vm->n - end) * sizeof(*vm->ranges));
	vm->n -= end - i;
}

bool vm_is_object(const struct vm *vm, uint64_t at, uint64_t size)
{
	uint32_t i = vm_place_of(vm, at);

	return i < vm->n && vm->ranges[i].at == at && (!size || vm->ranges[i].size == size) &&
	       !vm->ranges[i].svm;
}

bool vm_has_objects(const struct vm *vm, uint64_t at, uint64_t size)
{
	for (uint32_t i = vm_place_of(vm, at); i < vm->n && vm->ranges[i].at < at + size; i++)
		if (!vm->ranges[i].svm)
			return true;
	return false;
}

void vm_forget(struct vm *vm)
{
	free(vm->ranges);
	*vm = (struct vm){.n = 0};
}

/* The memory at an address, and how much of at most `len` bytes is in one piece. */
struct span {
	char *memory;
	uint64_t len;
	bool users;
};

static int vm_reach(const struct vm *vm, uint64_t at, uint64_t len, bool write, struct span *ret,
		    uint64_t *ret_fault)
{
	uint32_t i = vm_place_of(vm, at);
	const struct vm_range *r = i < vm->n ? &vm->ranges[i] : NULL;
	uint64_t rest;

	if (!r || at < r->at || (write && !r->writable)) {
		*ret_fault = at;
		return -EFAULT;
	}
	rest = r->at + r->size - at;
	*ret = (struct span){r->memory + (at - r->at), len < rest ? len : rest, r->users};
	return 0;
}

/* Where the program has taken its own memory away the GPU finds none. */
static int vm_move(const struct span *to, const struct span *from, uint64_t len)
{
	char bounce[BOUNCE_BYTES];
	uint64_t done = 0;

	if (!to->users && !from->users) {
		memmove(to->memory, from->memory, len);
		return 0;
	}
	if (!to->users)
		return user_copy_in(to->memory, (uintptr_t)from->memory, len);
	if (!from->users)
		return user_copy_out((uintptr_t)to->memory, from->memory, len);
	while (done < len) {
		uint64_t n = len - done < sizeof(bounce) ? len - done : sizeof(bounce);

		if (user_copy_in(bounce, (uintptr_t)from->memory + done, n) < 0 ||
		    user_copy_out((uintptr_t)to->memory + done, bounce, n) < 0)
			return -EFAULT;
		done += n;
	}
	return 0;
}

int vm_copy(const struct vm *vm, uint64_t to, uint64_t from, uint64_t len, uint64_t *ret_fault)
{
	while (len) {
		struct span source, target;

		if (vm_reach(vm, from, len, false, &source, ret_fault) < 0 ||
		    vm_reach(vm, to, source.len, true, &target, ret_fault) < 0)
			return -EFAULT;
		if (vm_move(&target, &source, target.len) < 0) {
			*ret_fault = source.users ? from : to;
			return -EFAULT;
		}
		to += target.len;
		from += target.len;
		len -= target.len;
	}
	return 0;
}

/* Between memory of the emulator's own and addresses of the GPU. */
static int vm_transfer(const struct vm *vm, char *ours, uint64_t at, uint64_t len, bool write,
		       uint64_t *ret_fault)
{
	while (len) {
		struct span here = {.memory = ours}, there;

		if (vm_reach(vm, at, len, write, &there, ret_fault) < 0)
			return -EFAULT;
		if (vm_move(write ? &there : &here, write ? &here : &there, there.len) < 0) {
			*ret_fault = at;
			return -EFAULT;
		}
		ours += there.len;
		at += there.len;
		len -= there.len;
	}
	return 0;
}

int vm_read(const struct vm *vm, void *to, uint64_t from, uint64_t len, uint64_t *ret_fault)
{
	return vm_transfer(vm, to, from, len, false, ret_fault);
}

int vm_write(const struct vm *vm, uint64_t to, const void *from, uint64_t len, uint64_t *ret_fault)
{
	return vm_transfer(vm, (char *)(uintptr_t)from, to, len, true, ret_fault);
}

/*
 * Whether the program may write there: a futex's operation that changes nothing finds out without
 * dying of it, and loses no write of another thread's.
 */
static bool vm_is_writable(char *word)
{
	uint32_t nobody = 0;

	return syscall(SYS_futex, &nobody, FUTEX_WAKE_OP_PRIVATE, 0, (void *)0, word,
		       FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_NE, 0)) >= 0;
}

int vm_word(const struct vm *vm, uint64_t at, uint32_t bytes, void **ret_word, uint64_t *ret_fault)
{
	struct span span;

	*ret_fault = at;
	if (at % bytes || vm_reach(vm, at, bytes, true, &span, ret_fault) < 0 || span.len < bytes)
		return -EFAULT;
	/*
	 * The memory may go after this look, but a program does not free memory that a GPU works
	 * on.
	 */
	if (span.users && !vm_is_writable(span.memory))
		return -EFAULT;
	*ret_word = span.memory;
	return 0;
}
