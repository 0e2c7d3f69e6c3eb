/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/svm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/word.h"
#include "guest/amd/ask.h"
#include "guest/amd/files.h"
#include "guest/amd/memory/charge.h"

/*
 * How often one sweep looks at ranges in halves: some milliseconds. What it does not come to stays
 * charged.
 */
#define LOOKS 8192

void amd_svm_release(struct amd *amd, int device, uint64_t bytes)
{
	amd_charge_release(amd, &amd->device[device], DEMAND_VRAM, CAT_DATA, bytes);
}

void amd_svm_release_all(struct amd *amd, struct amd_ranges *gone)
{
	for (uint32_t d = 0; d < amd->ndevices && gone->count; d++)
		amd_svm_release(amd, (int)d, amd_ranges_bytes(gone, (int)d));
	amd_ranges_free(gone);
}

void amd_svm_put_back(struct amd *amd, struct amd_ranges *ranges)
{
	struct amd_ranges lost = {.count = 0};

	for (uint32_t i = 0; i < ranges->count; i++)
		amd_ranges_set(&amd->ranges, &ranges->at[i], &lost);
	amd_svm_release_all(amd, &lost);
	amd_ranges_free(ranges);
}

/* Takes out of `ranges` what lies between two mappings. */
static void amd_svm_cut(struct amd_ranges *ranges, uint64_t first, uint64_t end,
			struct amd_ranges *gone)
{
	const struct amd_range nothing = {first, end, 0};

	amd_ranges_set(ranges, &nothing, gone);
}

/* Of the kernel's list of mappings, a line each: "first-end" in hexadecimal digits, and more. */
struct line {
	uint64_t first, end, last_end;
	enum { FIRST, END, REST } at;
};

static void amd_svm_next_char(struct line *line, char c, struct amd_ranges *ranges,
			      struct amd_ranges *gone)
{
	uint64_t *number = line->at == FIRST ? &line->first : &line->end;

	if (c == '\n') {
		*line = (struct line){.last_end = line->end};
	} else if (line->at == FIRST && c == '-') {
		line->at = END;
		amd_svm_cut(ranges, line->last_end, line->first, gone);
	} else if (line->at == END && c == ' ') {
		line->at = REST;
	} else if (line->at != REST) {
		*number = *number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
}

/* Takes out of `ranges` what is not mapped any more; nothing where /proc does not tell. */
static void amd_svm_cut_unmapped(struct amd_ranges *ranges, struct amd_ranges *gone)
{
	struct line line = {.at = FIRST};
	char buffer[4096];
	ssize_t n = -1;
	int maps;

	guest_depth++;
	maps = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
	while (maps >= 0 && (n = read(maps, buffer, sizeof(buffer))) > 0)
		for (ssize_t i = 0; i < n; i++)
			amd_svm_next_char(&line, buffer[i], ranges, gone);
	if (maps >= 0)
		close(maps);
	guest_depth--;
	if (n == 0 && line.last_end) /* an empty list is none: we are in it */
		amd_svm_cut(ranges, line.last_end, UINT64_MAX, gone);
}

/* Whether the kernel says that all of the range is at a GPU, or is to go there. */
static bool amd_svm_is_on_gpu(int kfd, uint64_t first, uint64_t end)
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
		there |= args->attrs[i].value && args->attrs[i].value != AMD_SVM_NOWHERE;
	return there;
}

/* What a sweep found: ranges that are still there, that are unmapped, that left their GPU. */
struct findings {
	int kfd, looks;
	uint64_t page_bytes;
	struct amd_ranges there, gone, moved;
};

/* Sorts a range into what is still at a GPU and what has left, by looking at it in halves. */
static void amd_svm_look_at(struct findings *found, struct amd_range range)
{
	struct amd_range half = range;

	if (--found->looks < 0 || amd_svm_is_on_gpu(found->kfd, range.first, range.end)) {
		amd_ranges_set(&found->there, &range, NULL);
	} else if (range.end - range.first <= found->page_bytes) {
		amd_ranges_set(&found->moved, &range, NULL);
	} else {
		half.end -= (range.end - range.first) / 2 / found->page_bytes * found->page_bytes;
		amd_svm_look_at(found, half);
		range.first = half.end;
		amd_svm_look_at(found, range);
	}
}

void amd_svm_sweep(struct amd *amd, int fd)
{
	const struct amd_range all = {0, UINT64_MAX, 0};
	struct amd_ranges charged = {.count = 0};
	struct findings found = {.looks = LOOKS, .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE)};
	int saved = errno;

	if (!word_read(&amd->ranges.count))
		return;
	found.kfd = amd_file(fd) == AMD_FILE_KFD ? fd : amd_files_kfd();
	if (found.kfd >= 0 && !amd_ranges_set(&amd->ranges, &all, &charged)) {
		amd_svm_cut_unmapped(&charged, &found.gone);
		for (uint32_t i = 0; i < charged.count; i++)
			amd_svm_look_at(&found, charged.at[i]);
		amd_svm_put_back(amd, &found.there);
		amd_svm_release_all(amd, &found.gone);
		amd_svm_release_all(amd, &found.moved);
		amd_ranges_free(&charged);
	}
	errno = saved;
}
