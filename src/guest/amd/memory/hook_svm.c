/* SPDX-License-Identifier: Apache-2.0 */
/* The call by which a program says where its own memory is to be (SVM); see svm.h. */
#include <errno.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "guest/amd/memory/memory.h"
#include "guest/amd/memory/reserve.h"
#include "guest/amd/memory/svm.h"

static bool amd_svm_names_ours(struct amd_call *call)
{
	const struct kfd_ioctl_svm_args *args = call->block;

	for (uint32_t i = 0; i < args->nattr; i++) {
		uint32_t type = args->attrs[i].type, value = args->attrs[i].value;
		bool place = args->op == KFD_IOCTL_SVM_OP_SET_ATTR && /* else it is answered */
			     (type == KFD_IOCTL_SVM_ATTR_PREFERRED_LOC ||
			      type == KFD_IOCTL_SVM_ATTR_PREFETCH_LOC);
		bool access = type == KFD_IOCTL_SVM_ATTR_ACCESS ||
			      type == KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE ||
			      type == KFD_IOCTL_SVM_ATTR_NO_ACCESS;

		if ((access || (place && value && value != AMD_SVM_NOWHERE)) &&
		    !amd_is_ours(call->amd, value))
			return false;
	}
	return true;
}

/* The part of a call that is for one GPU, and how many of its bytes are charged there already. */
struct svm_part {
	struct amd_charge charge;
	int device;
	uint64_t had;
};

static int amd_svm_reserve(struct amd_call *call, const struct demand *demand,
			   const struct amd_ranges *had, struct svm_part parts[DEMAND_PARTS])
{
	for (uint32_t i = 0; i < demand->count; i++) {
		struct amd_device *device = amd_device(call->amd, demand->parts[i].gpu_id);
		struct svm_part *part = &parts[i];
		int r;

		part->device = (int)(device - call->amd->device);
		part->had = amd_ranges_bytes(had, part->device);
		r = amd_reserve(call->guest, call->amd, device, call->fd, DEMAND_VRAM,
				demand->length - part->had, &part->charge);
		if (!r)
			continue;
		while (i--)
			amd_charge_cancel(&parts[i].charge);
		return r;
	}
	return 0;
}

/* Errors with which the kernel has done nothing; with others it may have begun. */
static bool amd_svm_did_nothing(int error)
{
	return error == -EINVAL || error == -EFAULT || error == -EPERM || error == -EBADF ||
	       error == -ENOTTY || error == -ENODEV || error == -ESRCH;
}

/* Charges the addresses to its devices; if it `stays`, the memory may be where it was, too. */
static void amd_svm_charge(struct amd_call *call, const struct demand *demand,
			   struct amd_ranges *had, struct amd_range range, bool stays)
{
	struct amd_ranges lost = {.count = 0};

	amd_ranges_set(&call->amd->ranges, &range, &lost);
	amd_svm_release_all(call->amd, &lost);
	if (stays) {
		struct amd_ranges replaced = {.count = 0};

		for (uint32_t i = 0; i < had->count; i++) {
			struct amd_range both = had->at[i];

			both.devices |= range.devices;
			both.mixed = false;
			amd_ranges_set(&call->amd->ranges, &both, &replaced);
		}
		amd_ranges_free(&replaced);
	} else {
		for (uint32_t d = 0; d < call->amd->ndevices; d++)
			if (!(range.devices >> d & 1))
				amd_svm_release(call->amd, (int)d, amd_ranges_bytes(had, (int)d));
	}
	amd_ranges_free(had);
}

/*
 * The ranges of these addresses are taken out of the table first, and stay charged: of two threads
 * at the same addresses only one can give them back.
 */
static int amd_svm_take(struct amd_call *call, const struct demand *demand)
{
	struct amd_range range = {demand->object, demand->object + demand->length, 0, false};
	struct svm_part parts[DEMAND_PARTS];
	struct amd_ranges had = {.count = 0};
	int r;

	if (amd_ranges_set(&call->amd->ranges, &range, &had))
		return -ENOMEM;
	r = amd_svm_reserve(call, demand, &had, parts);
	if (r) {
		amd_svm_put_back(call->amd, &had);
		return r;
	}
	r = amd_call_kernel(call);
	if (r < 0 && amd_svm_did_nothing(r)) {
		for (uint32_t i = 0; i < demand->count; i++)
			amd_charge_cancel(&parts[i].charge);
		amd_svm_put_back(call->amd, &had);
		return r;
	}
	for (uint32_t i = 0; i < demand->count; i++) {
		amd_charge_commit(&parts[i].charge, CAT_DATA, demand->length - parts[i].had);
		range.devices |= UINT64_C(1) << parts[i].device;
	}
	amd_svm_charge(call, demand, &had, range, demand->stays || r < 0);
	return r;
}

static int amd_svm_give(struct amd_call *call, const struct demand *demand)
{
	struct amd_range range = {demand->object, demand->object + demand->length, 0, false};
	struct amd_ranges gone = {.count = 0};
	int r = amd_call_kernel(call);

	if (r >= 0 && !amd_ranges_set(&call->amd->ranges, &range, &gone))
		amd_svm_release_all(call->amd, &gone);
	return r;
}

static bool amd_svm_says_a_place(const struct amd_call *call)
{
	const struct kfd_ioctl_svm_args *args = call->block;

	for (uint32_t i = 0; args->op == KFD_IOCTL_SVM_OP_SET_ATTR && i < args->nattr; i++)
		if (args->attrs[i].type == KFD_IOCTL_SVM_ATTR_PREFERRED_LOC ||
		    args->attrs[i].type == KFD_IOCTL_SVM_ATTR_PREFETCH_LOC)
			return true;
	return false;
}

/*
 * What lies in these addresses has one word for all of it now, and parts that lie beyond may have
 * another. Unless the kernel did it in part, or another call was under way, and nobody knows which
 * came last.
 */
static void amd_svm_settle(struct amd_call *call, int r, uint64_t begun)
{
	const struct kfd_ioctl_svm_args *args = call->block;
	uint64_t first = args->start_addr, end = first + args->size;

	if (end < first || (r < 0 && amd_svm_did_nothing(r)))
		return;
	if (r < 0 || !amd_svm_is_alone(call->amd, begun))
		amd_svm_mix(call->amd, first, end);
	else
		amd_svm_split(call->amd, first, end);
}

/* The kernel refuses all else, and would refuse a sweep that asks about a part cut there. */
static bool amd_svm_is_of_pages(const struct kfd_ioctl_svm_args *args)
{
	return !((args->start_addr | args->size) & ((uint64_t)sysconf(_SC_PAGESIZE) - 1));
}

int amd_memory_svm(struct amd_call *call, const struct demand *demand)
{
	uint64_t begun;
	int r;

	if (!amd_svm_names_ours(call))
		return -EINVAL;
	if (!amd_svm_says_a_place(call))
		return amd_call_kernel(call);
	if (!amd_svm_is_of_pages(call->block))
		return -EINVAL;
	begun = amd_svm_begin(call->amd);
	if (demand->act == DEMAND_TAKE && demand->length)
		r = amd_svm_take(call, demand);
	else if (demand->act == DEMAND_GIVE)
		r = amd_svm_give(call, demand);
	else
		r = amd_call_kernel(call);
	amd_svm_settle(call, r, begun);
	amd_svm_end(call->amd);
	return r;
}
