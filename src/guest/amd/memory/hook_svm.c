/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own memory on GPUs (SVM), by its addresses. It is charged where it was fetched to,
 * or where it is to be, in which case the kernel moves it when it likes. munmap gives it back, and
 * who looks at munmap looks at all that a program unmaps: so the kernel is asked instead, before a
 * refusal.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "guest/amd/ask.h"
#include "guest/amd/files.h"
#include "guest/amd/memory/memory.h"

#define NOWHERE UINT32_MAX

/* How often ranges are looked at in halves, for one sweep: some milliseconds. What is not found out
 * stays charged. */
#define LOOKS 8192

static bool names_ours(struct amd_call *call)
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

		if ((access || (place && value && value != NOWHERE)) &&
		    !amd_is_ours(call->amd, value))
			return false;
	}
	return true;
}

static void release(struct amd *amd, int device, uint64_t bytes)
{
	amd_charge_release(amd, &amd->device[device], DEMAND_VRAM, CAT_DATA, bytes);
}

static void release_all(struct amd *amd, struct amd_ranges *gone)
{
	for (uint32_t d = 0; d < amd->ndevices && gone->count; d++)
		release(amd, (int)d, amd_ranges_bytes(gone, (int)d));
	amd_ranges_free(gone);
}

/* Back to where they were. What another thread has put there meanwhile goes: it is there once. */
static void put_back(struct amd *amd, struct amd_ranges *ranges)
{
	struct amd_ranges lost = {.count = 0};

	for (uint32_t i = 0; i < ranges->count; i++)
		amd_ranges_set(&amd->ranges, &ranges->at[i], &lost);
	release_all(amd, &lost);
	amd_ranges_free(ranges);
}

/* A part of what a call asks, and what of it is charged to that GPU already. */
struct share {
	struct amd_charge charge;
	int device;
	uint64_t had;
};

static int reserve(struct amd_call *call, const struct demand *demand, const struct amd_ranges *had,
		   struct share shares[DEMAND_PARTS])
{
	for (uint32_t i = 0; i < demand->count; i++) {
		struct amd_device *device = amd_device(call->amd, demand->parts[i].gpu_id);
		struct share *share = &shares[i];
		int r;

		share->device = (int)(device - call->amd->device);
		share->had = amd_ranges_bytes(had, share->device);
		r = amd_charge_reserve(call->guest, call->amd, device, call->fd, DEMAND_VRAM,
				       demand->length - share->had, &share->charge);
		if (!r)
			continue;
		while (i--)
			amd_charge_cancel(&shares[i].charge);
		return r;
	}
	return 0;
}

/* With these the kernel has looked at the call and done nothing; with others it may have begun. */
static bool did_nothing(int error)
{
	return error == -EINVAL || error == -EFAULT || error == -EPERM || error == -EBADF ||
	       error == -ENOTTY || error == -ENODEV || error == -ESRCH;
}

/* From now on the addresses are charged to `taken`, and as before where the memory may be still. */
static void charge(struct amd_call *call, const struct demand *demand, struct amd_ranges *had,
		   uint64_t taken, bool stays)
{
	struct amd_range range = {demand->object, demand->object + demand->length, taken};
	struct amd_ranges lost = {.count = 0};

	amd_ranges_set(&call->amd->ranges, &range, &lost);
	release_all(call->amd, &lost);
	if (stays) {
		struct amd_ranges replaced = {.count = 0};

		for (uint32_t i = 0; i < had->count; i++) {
			struct amd_range both = had->at[i];

			both.devices |= taken;
			amd_ranges_set(&call->amd->ranges, &both, &replaced);
		}
		amd_ranges_free(&replaced);
	} else {
		for (uint32_t d = 0; d < call->amd->ndevices; d++)
			if (!(taken >> d & 1))
				release(call->amd, (int)d, amd_ranges_bytes(had, (int)d));
	}
	amd_ranges_free(had);
}

/*
 * What is charged for these addresses is taken out first, and stays charged: two threads that are
 * at the same addresses cannot both give it back.
 */
static int take(struct amd_call *call, const struct demand *demand)
{
	struct amd_range range = {demand->object, demand->object + demand->length, 0};
	struct share shares[DEMAND_PARTS];
	struct amd_ranges had = {.count = 0};
	uint64_t taken = 0;
	int r;

	if (amd_ranges_set(&call->amd->ranges, &range, &had))
		return -ENOMEM;
	r = reserve(call, demand, &had, shares);
	if (r) {
		put_back(call->amd, &had);
		return r;
	}
	r = amd_call_kernel(call);
	if (r < 0 && did_nothing(r)) {
		for (uint32_t i = 0; i < demand->count; i++)
			amd_charge_cancel(&shares[i].charge);
		put_back(call->amd, &had);
		return r;
	}
	for (uint32_t i = 0; i < demand->count; i++) {
		amd_charge_commit(&shares[i].charge, CAT_DATA, demand->length - shares[i].had);
		taken |= UINT64_C(1) << shares[i].device;
	}
	charge(call, demand, &had, taken, demand->stays || r < 0);
	return r;
}

static int give(struct amd_call *call, const struct demand *demand)
{
	struct amd_range range = {demand->object, demand->object + demand->length, 0};
	struct amd_ranges gone = {.count = 0};
	int r = amd_call_kernel(call);

	if (r >= 0 && !amd_ranges_set(&call->amd->ranges, &range, &gone))
		release_all(call->amd, &gone);
	return r;
}

int amd_memory_svm(struct amd_call *call, const struct demand *demand)
{
	if (!names_ours(call))
		return -EINVAL;
	if (demand->act == DEMAND_TAKE && demand->length)
		return take(call, demand);
	if (demand->act == DEMAND_GIVE)
		return give(call, demand);
	return amd_call_kernel(call);
}

/* Takes out of `ranges` what lies between two mappings. */
static void cut(struct amd_ranges *ranges, uint64_t first, uint64_t end, struct amd_ranges *gone)
{
	const struct amd_range nothing = {first, end, 0};

	amd_ranges_set(ranges, &nothing, gone);
}

/* Of the kernel's list of mappings, a line each: "first-end" in hexadecimal digits, and more. */
struct line {
	uint64_t first, end, last_end;
	enum { FIRST, END, REST } at;
};

static void next_char(struct line *line, char c, struct amd_ranges *ranges, struct amd_ranges *gone)
{
	uint64_t *number = line->at == FIRST ? &line->first : &line->end;

	if (c == '\n') {
		*line = (struct line){.last_end = line->end};
	} else if (line->at == FIRST && c == '-') {
		line->at = END;
		cut(ranges, line->last_end, line->first, gone);
	} else if (line->at == END && c == ' ') {
		line->at = REST;
	} else if (line->at != REST) {
		*number = *number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
}

/* Takes out of `ranges` what is not mapped any more; where that cannot be told nothing. */
static void cut_unmapped(struct amd_ranges *ranges, struct amd_ranges *gone)
{
	struct line line = {.at = FIRST};
	char buffer[4096];
	ssize_t n = -1;
	int maps;

	guest_depth++;
	maps = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
	while (maps >= 0 && (n = read(maps, buffer, sizeof(buffer))) > 0)
		for (ssize_t i = 0; i < n; i++)
			next_char(&line, buffer[i], ranges, gone);
	if (maps >= 0)
		close(maps);
	guest_depth--;
	if (n == 0 && line.last_end) /* an empty list is none: we are in it */
		cut(ranges, line.last_end, UINT64_MAX, gone);
}

/* Whether the kernel says of all of it that it is at a GPU or to go there. */
static bool is_on_gpu(int kfd, uint64_t first, uint64_t end)
{
	static const struct kfd_ioctl_svm_attribute asked[] = {
		{KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0}, {KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0}};
	_Alignas(8) char block[sizeof(struct kfd_ioctl_svm_args) + sizeof(asked)];
	struct kfd_ioctl_svm_args *args = (void *)block;
	bool there = false;
	int r;

	*args = (struct kfd_ioctl_svm_args){.start_addr = first,
					    .size = end - first,
					    .op = KFD_IOCTL_SVM_OP_GET_ATTR,
					    .nattr = 2};
	memcpy(args->attrs, asked, sizeof(asked));
	r = amd_ask(kfd, _IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_SVM, sizeof(block)), block);
	if (r < 0)
		return r != -EINVAL && r != -EFAULT;
	for (int i = 0; i < 2; i++)
		there |= args->attrs[i].value && args->attrs[i].value != NOWHERE;
	return there;
}

/* What a look comes to. */
struct findings {
	int kfd, looks;
	uint64_t page_bytes;
	struct amd_ranges there, gone, moved;
};

/* Finds what is gone of a range, in halves. */
static void look(struct findings *found, struct amd_range range)
{
	struct amd_range half = range;

	if (--found->looks < 0 || is_on_gpu(found->kfd, range.first, range.end)) {
		amd_ranges_set(&found->there, &range, NULL);
	} else if (range.end - range.first <= found->page_bytes) {
		amd_ranges_set(&found->moved, &range, NULL);
	} else {
		half.end -= (range.end - range.first) / 2 / found->page_bytes * found->page_bytes;
		look(found, half);
		range.first = half.end;
		look(found, range);
	}
}

void amd_memory_sweep_svm(struct amd *amd, int fd)
{
	const struct amd_range all = {0, UINT64_MAX, 0};
	struct amd_ranges charged = {.count = 0};
	struct findings found = {.looks = LOOKS, .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE)};
	int saved = errno;

	if (!__atomic_load_n(&amd->ranges.count, __ATOMIC_RELAXED))
		return;
	found.kfd = amd_file(fd) == AMD_FILE_KFD ? fd : amd_files_kfd();
	if (found.kfd >= 0 && !amd_ranges_set(&amd->ranges, &all, &charged)) {
		cut_unmapped(&charged, &found.gone);
		for (uint32_t i = 0; i < charged.count; i++)
			look(&found, charged.at[i]);
		put_back(amd, &found.there);
		release_all(amd, &found.gone);
		release_all(amd, &found.moved);
		amd_ranges_free(&charged);
	}
	errno = saved;
}
