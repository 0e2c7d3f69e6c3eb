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

/*
 * The kernel did the call or, if not `whole`, began it. If the memory `stays`, it may also be at
 * its old place. The part that was charged to the same devices is in `range` now.
 */
static void amd_svm_charge(struct amd *amd, struct svm_call *svm, const struct amd_range *range,
			   bool stays, bool whole)
{
	struct amd_ranges now = {.count = 0};

	for (uint32_t i = 0; i < svm->had.count; i++)
		svm->had.at[i].devices &= ~range->devices;
	if (!stays)
		amd_svm_release_all(amd, &svm->had);
	amd_ranges_put(&now, range, NULL);
	for (uint32_t i = 0; i < svm->had.count; i++)
		amd_ranges_put(&now, &svm->had.at[i], NULL);
	amd_svm_put(amd, svm, &now, whole);
	amd_ranges_free(&now);
}

static int amd_svm_take(struct amd_call *call, const struct demand *demand, struct svm_call *svm)
{
	struct amd_range range = {.first = demand->object, .end = demand->object + demand->length};
	struct svm_part parts[DEMAND_PARTS];
	int r = amd_svm_reserve(call, demand, &svm->had, parts);

	if (r) {
		amd_svm_put(call->amd, svm, &svm->had, true);
		return r;
	}
	r = amd_call_kernel(call);
	if (r < 0 && amd_svm_did_nothing(r)) {
		for (uint32_t i = 0; i < demand->count; i++)
			amd_charge_cancel(&parts[i].charge);
		amd_svm_put(call->amd, svm, &svm->had, true);
		return r;
	}
	for (uint32_t i = 0; i < demand->count; i++) {
		amd_charge_commit(&parts[i].charge, CAT_DATA, demand->length - parts[i].had);
		range.devices |= UINT64_C(1) << parts[i].device;
	}
	amd_svm_charge(call->amd, svm, &range, demand->stays || r < 0, r >= 0);
	return r;
}

/* A call that takes no memory, and may give some back. */
static int amd_svm_place(struct amd_call *call, const struct demand *demand, struct svm_call *svm)
{
	int r = amd_call_kernel(call);

	if (r >= 0 && demand->act == DEMAND_GIVE)
		amd_svm_release_all(call->amd, &svm->had);
	else
		amd_svm_put(call->amd, svm, &svm->had, r >= 0 || amd_svm_did_nothing(r));
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

/* The kernel refuses all else, and would refuse a sweep that asks about a part cut there. */
static bool amd_svm_is_of_pages(const struct kfd_ioctl_svm_args *args)
{
	return !((args->start_addr | args->size) & ((uint64_t)sysconf(_SC_PAGESIZE) - 1));
}

int amd_memory_svm(struct amd_call *call, const struct demand *demand)
{
	const struct kfd_ioctl_svm_args *args = call->block;
	struct svm_call svm;
	int r;

	if (!amd_svm_names_ours(call))
		return -EINVAL;
	if (!amd_svm_says_a_place(call))
		return amd_call_kernel(call);
	if (!amd_svm_is_of_pages(args))
		return -EINVAL;
	r = amd_svm_begin(call->amd, args->start_addr, args->start_addr + args->size, &svm);
	if (r)
		return r;
	if (demand->act == DEMAND_TAKE && demand->length)
		r = amd_svm_take(call, demand, &svm);
	else
		r = amd_svm_place(call, demand, &svm);
	amd_svm_end(call->amd, &svm);
	return r;
}
