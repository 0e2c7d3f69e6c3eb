/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared virtual memory (SVM): the program's own memory, in ranges that have attributes. A range is
 * mapped on the GPUs that are to access it, at the same address. It may be moved to one GPU.
 *
 * The content stays where it is, in the program's memory. Moving a range only takes as much of the
 * GPU's memory (a piece of the bank). The piece is given back when the range is moved elsewhere,
 * when the program unmaps the addresses, and when the process ends. Memory that libc unmaps by
 * itself, as free() may, is not seen here: its piece stays until the program maps something else at
 * those addresses.
 *
 * Page faults of GPUs (XNACK) are off: a GPU that accesses what it has no access to faults for
 * good.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "amd/abi/kfd.h"
#include "sim/kfd/array.h"
#include "sim/kfd/bank.h"
#include "sim/kfd/emu.h"
#include "sim/kfd/user.h"

#define PAGE	       UINT64_C(4096)
#define NOWHERE	       UINT32_MAX /* of a location: undefined; 0 is the host */
#define FLAGS	       3u	  /* to begin with: the host has access, and sees writes at once */
#define FLAGS_ALL      0xffu
#define GRANULARITY    9
#define FLAG_NO_WRITES 8u /* GPUs only read */

/* Addresses that have the same attributes. */
struct svm_range {
	uint64_t at, end;
	uint32_t preferred, prefetch; /* GPU's id, 0 or NOWHERE */
	uint32_t flags, granularity;
	uint64_t access, in_place; /* bit i: of the machine's i-th GPU */
	struct bank_piece piece;   /* what it takes of a GPU's memory, if it was moved there */
};

static const struct svm_range untouched = {
	.preferred = NOWHERE, .prefetch = NOWHERE, .flags = FLAGS, .granularity = GRANULARITY};

static struct svm_range *ranges; /* by address */
static uint32_t nranges, room;

void emu_svm_forget(void)
{
	free(ranges);
	ranges = NULL;
	nranges = room = 0;
}

const uint32_t *emu_svm_count(void)
{
	return &nranges;
}

/* The index of the first range that ends behind the address. */
static uint32_t svm_place_of(uint64_t at)
{
	uint32_t i = 0;

	while (i < nranges && ranges[i].end <= at)
		i++;
	return i;
}

bool emu_svm_has(uint64_t at, uint64_t size)
{
	uint32_t i = svm_place_of(at);

	return i < nranges && size && ranges[i].at < at + size;
}

static int svm_insert(uint32_t i, const struct svm_range *range)
{
	struct svm_range *grown = array_grow(ranges, &room, nranges, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	ranges = grown;
	memmove(&ranges[i + 1], &ranges[i], (nranges - i) * sizeof(*range));
	ranges[i] = *range;
	nranges++;
	return 0;
}

static void svm_unmap_range(struct emu_machine *m, const struct svm_range *r)
{
	for (uint32_t i = 0; i < m->ngpus; i++)
		if ((r->access | r->in_place) >> i & 1)
			vm_remove(&m->gpu[i].vm, r->at, r->end - r->at);
}

/* Maps a range on its GPUs. A GPU that has something else at those addresses keeps that instead. */
static int svm_map_range(struct emu_machine *m, struct svm_range *r)
{
	struct vm_range range = {.at = r->at,
				 .size = r->end - r->at,
				 .memory = (char *)(uintptr_t)r->at,
				 .writable = !(r->flags & FLAG_NO_WRITES),
				 .users = true,
				 .svm = true};
	int err = 0;

	for (uint32_t i = 0; i < m->ngpus; i++) {
		uint64_t bit = UINT64_C(1) << i;

		if ((r->access | r->in_place) & bit && vm_add(&m->gpu[i].vm, &range) < 0) {
			r->access &= ~bit;
			r->in_place &= ~bit;
			err = -EADDRINUSE;
		}
	}
	return err;
}

/* Makes a range, with the attributes that a range begins with, of addresses that have none. */
static int svm_fill_gap(uint32_t i, uint64_t at, uint64_t end)
{
	struct svm_range fresh = untouched;

	fresh.at = at;
	fresh.end = end;
	return svm_insert(i, &fresh);
}

/* Takes a piece of the GPU's memory, as large as the range. -ENOMEM: the GPU has no room. */
static int svm_take_memory(struct emu_machine *m, const struct emu_gpu *gpu,
			   const struct svm_range *r, struct bank_piece *ret)
{
	struct bank_piece piece = {.size = r->end - r->at,
				   .gpu = (uint32_t)(gpu - m->gpu),
				   .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | BANK_SVM};
	/* Kernels that take a prefetch for a wish ask, too, whether KFD may have so much. */
	bool asks = emu_answers(KERNEL_PREFETCH_IS_A_WISH);
	int err = bank_take(m->bank, gpu->vram_bytes, asks ? gpu->reserved_bytes : 0, &piece);

	if (err == 0)
		*ret = piece;
	return err;
}

/*
 * Cuts the range that lies across the address in two. A piece cannot be cut, so its bytes are given
 * back, and each half takes a piece of its own. Another process may take the bytes in between; a
 * half that gets no piece is in host memory then.
 */
static int svm_split(struct emu_machine *m, uint64_t at)
{
	uint32_t i = svm_place_of(at), n = 1;
	const struct emu_gpu *gpu;
	struct svm_range upper;
	int r;

	if (i == nranges || ranges[i].at >= at)
		return 0;
	svm_unmap_range(m, &ranges[i]);
	gpu = ranges[i].piece.key ? &m->gpu[ranges[i].piece.gpu] : NULL;
	bank_drop(m->bank, &ranges[i].piece);
	upper = ranges[i];
	upper.at = at;
	r = svm_insert(i + 1, &upper);
	if (r == 0) {
		ranges[i].end = at;
		n = 2;
	}
	for (uint32_t j = i; j < i + n; j++) {
		if (gpu)
			svm_take_memory(m, gpu, &ranges[j], &ranges[j].piece);
		svm_map_range(m, &ranges[j]);
	}
	return r;
}

void emu_svm_unmapped(uint64_t at, uint64_t size)
{
	struct emu_machine *m;
	uint32_t first, end;

	if (!__atomic_load_n(&nranges, __ATOMIC_RELAXED) || at % PAGE || !(m = emu_lock()))
		return;
	size = (size + PAGE - 1) & ~(PAGE - 1);
	if (at + size > at && svm_split(m, at) == 0 && svm_split(m, at + size) == 0) {
		first = end = svm_place_of(at);
		while (end < nranges && ranges[end].at < at + size) {
			svm_unmap_range(m, &ranges[end]);
			bank_drop(m->bank, &ranges[end++].piece);
		}
		memmove(&ranges[first], &ranges[end], (nranges - end) * sizeof(*ranges));
		nranges -= end - first;
	}
	emu_unlock();
}

/* Cuts and fills until ranges cover `at` to `end` exactly. *ret_first: the index of the first. */
static int svm_cover(struct emu_machine *m, uint64_t at, uint64_t end, uint32_t *ret_first)
{
	int r;

	if ((r = svm_split(m, at)) < 0 || (r = svm_split(m, end)) < 0)
		return r;
	*ret_first = svm_place_of(at);
	for (uint32_t i = *ret_first; r == 0 && at < end; i++) {
		uint64_t next = i < nranges && ranges[i].at < end ? ranges[i].at : end;

		if (at < next)
			r = svm_fill_gap(i, at, next);
		if (r == 0)
			at = ranges[i].end;
	}
	return r;
}

/*
 * Moves a range to where its `prefetch` says. It takes the new GPU's piece before it drops the old
 * one, so a move that fails changes nothing.
 */
static int svm_move_range(struct emu_machine *m, struct svm_range *r)
{
	const struct emu_gpu *gpu = r->prefetch == NOWHERE ? NULL : emu_gpu(m, r->prefetch);
	struct bank_piece piece = {.key = 0};
	int err = 0;

	if (r->prefetch == NOWHERE || (gpu && r->piece.key && &m->gpu[r->piece.gpu] == gpu))
		return 0;
	if (gpu)
		err = svm_take_memory(m, gpu, r, &piece);
	if (err < 0)
		return emu_answers(KERNEL_PREFETCH_IS_A_WISH) ? 0 : err;
	bank_drop(m->bank, &r->piece);
	r->piece = piece;
	return 0;
}

static int svm_set_attribute(struct emu_machine *m, struct svm_range *r,
			     const struct kfd_ioctl_svm_attribute *a)
{
	const struct emu_gpu *gpu = emu_gpu(m, a->value);
	uint64_t bit = gpu ? UINT64_C(1) << (gpu - m->gpu) : 0;

	switch ((enum kfd_ioctl_svm_attr_type)a->type) {
	case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
		r->preferred = a->value;
		return 0;
	case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
		r->prefetch = a->value;
		return svm_move_range(m, r);
	case KFD_IOCTL_SVM_ATTR_ACCESS:
		r->access |= bit;
		r->in_place &= ~bit;
		return 0;
	case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
		r->access &= ~bit;
		r->in_place |= bit;
		return 0;
	case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
		r->access &= ~bit;
		r->in_place &= ~bit;
		return 0;
	case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
		r->flags |= a->value;
		return 0;
	case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
		r->flags &= ~a->value;
		return 0;
	case KFD_IOCTL_SVM_ATTR_GRANULARITY:
		r->granularity = a->value < 0x3f ? a->value : 0x3f;
		return 0;
	}
	return -EINVAL;
}

static bool svm_is_sensible(struct emu_machine *m, const struct kfd_ioctl_svm_attribute *a)
{
	switch ((enum kfd_ioctl_svm_attr_type)a->type) {
	case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
	case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
		return !a->value || a->value == NOWHERE || emu_gpu(m, a->value);
	case KFD_IOCTL_SVM_ATTR_ACCESS:
	case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
	case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
		return emu_gpu(m, a->value);
	case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
	case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
		return !(a->value & ~FLAGS_ALL);
	case KFD_IOCTL_SVM_ATTR_GRANULARITY:
		return true;
	}
	return false;
}

/* True if memory of /dev/kfd or of a render node is mapped on any GPU there. */
static bool svm_is_taken(const struct emu_machine *m, uint64_t at, uint64_t end)
{
	for (uint32_t i = 0; i < m->ngpus; i++)
		if (vm_has_objects(&m->gpu[i].vm, at, end - at))
			return true;
	return false;
}

static int svm_check_range(const struct emu_machine *m, uint64_t at, uint64_t end)
{
	if (!user_is_mapped(at, end - at))
		return -EFAULT;
	return svm_is_taken(m, at, end) ? -EADDRINUSE : 0;
}

static int svm_set_attributes(struct emu_machine *m, const struct kfd_ioctl_svm_args *a)
{
	uint64_t end = a->start_addr + a->size;
	uint32_t first;
	int r;

	for (uint32_t j = 0; j < a->nattr; j++)
		if (!svm_is_sensible(m, &a->attrs[j]))
			return -EINVAL;
	r = svm_check_range(m, a->start_addr, end);
	if (r < 0)
		return r;
	r = svm_cover(m, a->start_addr, end, &first);
	for (uint32_t i = first; r == 0 && i < nranges && ranges[i].at < end; i++) {
		svm_unmap_range(m, &ranges[i]);
		for (uint32_t j = 0; r == 0 && j < a->nattr; j++)
			r = svm_set_attribute(m, &ranges[i], &a->attrs[j]);
		if (svm_map_range(m, &ranges[i]) < 0 && r == 0)
			r = -EADDRINUSE;
	}
	return r;
}

/* Attributes that the ranges of a question have in common. */
struct common {
	struct svm_range all;
	uint32_t flags_of_any;
};

static void svm_merge(struct common *c, const struct svm_range *r)
{
	if (c->all.preferred != r->preferred)
		c->all.preferred = NOWHERE;
	if (c->all.prefetch != r->prefetch)
		c->all.prefetch = NOWHERE;
	if (c->all.granularity > r->granularity)
		c->all.granularity = r->granularity;
	c->all.access &= r->access;
	c->all.in_place &= r->in_place;
	c->all.flags &= r->flags;
	c->flags_of_any |= r->flags;
}

/* The answer about access is the attribute's type, not its value. */
static void svm_get_attribute(struct emu_machine *m, const struct common *c,
			      struct kfd_ioctl_svm_attribute *a)
{
	const struct emu_gpu *gpu = emu_gpu(m, a->value);
	uint64_t bit = gpu ? UINT64_C(1) << (gpu - m->gpu) : 0;

	switch ((enum kfd_ioctl_svm_attr_type)a->type) {
	case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
		a->value = c->all.preferred;
		break;
	case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
		a->value = c->all.prefetch;
		break;
	case KFD_IOCTL_SVM_ATTR_ACCESS:
	case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
	case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
		a->type = c->all.access & bit	  ? KFD_IOCTL_SVM_ATTR_ACCESS
			  : c->all.in_place & bit ? KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE
						  : KFD_IOCTL_SVM_ATTR_NO_ACCESS;
		break;
	case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
		a->value = c->all.flags;
		break;
	case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
		a->value = ~c->flags_of_any;
		break;
	case KFD_IOCTL_SVM_ATTR_GRANULARITY:
		a->value = c->all.granularity;
		break;
	}
}

/* Addresses without a range are answered with the attributes that a range begins with. */
static int svm_get_attributes(struct emu_machine *m, struct kfd_ioctl_svm_args *a)
{
	uint64_t end = a->start_addr + a->size;
	uint32_t first = svm_place_of(a->start_addr);
	struct common c = {.all = untouched, .flags_of_any = untouched.flags};
	int r = svm_check_range(m, a->start_addr, end);

	if (r < 0)
		return r;

	if (first < nranges && ranges[first].at < end)
		c = (struct common){.all = ranges[first], .flags_of_any = ranges[first].flags};
	for (uint32_t i = first; i < nranges && ranges[i].at < end; i++)
		svm_merge(&c, &ranges[i]);
	for (uint32_t j = 0; j < a->nattr; j++)
		if (!svm_is_sensible(m, &a->attrs[j]))
			return -EINVAL;
	for (uint32_t j = 0; j < a->nattr; j++)
		svm_get_attribute(m, &c, &a->attrs[j]);
	return 0;
}

int emu_svm(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_svm_args *a = block;

	if (!a->start_addr || !a->size || (a->start_addr | a->size) % PAGE ||
	    a->nattr > EMU_SVM_ATTRIBUTES)
		return -EINVAL;
	if (a->start_addr >> 47 || a->size >> 47)
		return -EFAULT;
	switch ((enum kfd_ioctl_svm_op)a->op) {
	case KFD_IOCTL_SVM_OP_SET_ATTR:
		return svm_set_attributes(m, a);
	case KFD_IOCTL_SVM_OP_GET_ATTR:
		return svm_get_attributes(m, a);
	}
	return -EINVAL;
}
