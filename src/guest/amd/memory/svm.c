/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/svm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/number.h"
#include "base/word.h"
#include "guest/amd/ask.h"
#include "guest/amd/files.h"
#include "guest/amd/memory/charge.h"

/*
 * How often one sweep looks at ranges in halves: some milliseconds. What it does not come to stays
 * charged. And how finely it looks for holes in what is there: each grain costs two looks, every
 * time.
 */
#define LOOKS  8192
#define GRAINS 256

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
	struct amd_ranges newer = {.count = 0}, lost = {.count = 0};

	for (uint32_t i = 0; i < ranges->count; i++)
		amd_ranges_set(&amd->ranges, &ranges->at[i], &newer);
	for (uint32_t i = 0; i < newer.count; i++)
		amd_ranges_set(&amd->ranges, &newer.at[i], &lost);
	amd_svm_release_all(amd, &lost);
	amd_ranges_free(&newer);
	amd_ranges_free(ranges);
}

uint64_t amd_svm_begin(struct amd *amd)
{
	return atomic_fetch_add(&amd->svm_begun, 1);
}

bool amd_svm_is_alone(const struct amd *amd, uint64_t begun)
{
	return atomic_load(&amd->svm_ended) == begun && atomic_load(&amd->svm_begun) == begun + 1;
}

void amd_svm_end(struct amd *amd)
{
	atomic_fetch_add(&amd->svm_ended, 1);
}

/* Takes out of `ranges` what lies between two addresses. */
static void amd_svm_cut(struct amd_ranges *ranges, uint64_t first, uint64_t end,
			struct amd_ranges *gone)
{
	const struct amd_range nothing = {first, end, 0, false};

	amd_ranges_set(ranges, &nothing, gone);
}

void amd_svm_mix(struct amd *amd, uint64_t first, uint64_t end)
{
	struct amd_ranges had = {.count = 0};

	amd_svm_cut(&amd->ranges, first, end, &had);
	for (uint32_t i = 0; i < had.count; i++)
		had.at[i].mixed = true;
	amd_svm_put_back(amd, &had);
}

void amd_svm_split(struct amd *amd, uint64_t first, uint64_t end)
{
	struct amd_ranges had = {.count = 0};

	amd_svm_cut(&amd->ranges, first, end, &had);
	amd_svm_put_back(amd, &had);
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

/*
 * Takes out of `ranges` where an array of ours lies. The kernel may have put it where the program
 * has unmapped memory, so close to what is still there that a grain holds both.
 */
static void amd_svm_cut_own(struct amd_ranges *ranges, struct amd_ranges *array,
			    struct amd_ranges *gone)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), first, end;

	lock_take(&array->lock);
	first = (uintptr_t)array->at;
	end = first + array->room * sizeof(*array->at);
	lock_drop(&array->lock);
	amd_svm_cut(ranges, first, (end + page_bytes - 1) & -page_bytes, gone);
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

enum place { AT_GPU, NOT_AT_GPU, NOT_MAPPED };

/*
 * Where the kernel says that the range is, or is to go: what of it has a place at all. A range of
 * which parts are at different places is at none.
 */
static enum place amd_svm_place_of(int kfd, uint64_t first, uint64_t end)
{
	static const struct kfd_ioctl_svm_attribute asked[] = {
		{KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0}, {KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0}};
	_Alignas(8) char block[sizeof(struct kfd_ioctl_svm_args) + sizeof(asked)];
	struct kfd_ioctl_svm_args *args = (void *)block;
	int r;

	*args = (struct kfd_ioctl_svm_args){.start_addr = first,
					    .size = end - first,
					    .op = KFD_IOCTL_SVM_OP_GET_ATTR,
					    .nattr = 2};
	memcpy(args->attrs, asked, sizeof(asked));
	r = amd_ask(kfd, _IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_SVM, sizeof(block)), block);
	if (r < 0)
		return r == -EINVAL || r == -EFAULT ? NOT_MAPPED : AT_GPU;
	for (int i = 0; i < 2; i++)
		if (args->attrs[i].value && args->attrs[i].value != AMD_SVM_NOWHERE)
			return AT_GPU;
	return NOT_AT_GPU;
}

/* What a sweep found: ranges that are still there, that are unmapped, that left their GPU. */
struct findings {
	int kfd, looks;
	uint64_t page_bytes, grain_bytes;
	struct amd_ranges there, gone, moved;
};

/* A part of one of the charged ranges, in their order: parts that meet become one again. */
static void amd_svm_is_there(struct findings *found, const struct amd_range *part, uint64_t first)
{
	struct amd_ranges *there = &found->there;
	struct amd_range *last = there->count ? &there->at[there->count - 1] : NULL;

	if (last && last->first >= first && last->end == part->first)
		last->end = part->end;
	else
		amd_ranges_set(there, part, NULL);
}

/*
 * Sorts a part of the range from `first` on into what is still at a GPU and what has left. One that
 * is not mixed and has no place has left as a whole. One that is there may have holes, where other
 * memory is mapped by now, which have no word in the answer: so it is looked at in halves, down to
 * the grain.
 */
static void amd_svm_look_at(struct findings *found, struct amd_range part, uint64_t first)
{
	uint64_t bytes = part.end - part.first;
	struct amd_range half = part;
	enum place place =
		--found->looks < 0 ? AT_GPU : amd_svm_place_of(found->kfd, part.first, part.end);

	if (place == AT_GPU && (bytes <= found->grain_bytes || found->looks < 0)) {
		amd_svm_is_there(found, &part, first);
	} else if (place != AT_GPU &&
		   (bytes <= found->page_bytes || (place == NOT_AT_GPU && !part.mixed))) {
		amd_ranges_set(&found->moved, &part, NULL);
	} else {
		half.end -= bytes / 2 / found->page_bytes * found->page_bytes;
		amd_svm_look_at(found, half, first);
		part.first = half.end;
		amd_svm_look_at(found, part, first);
	}
}

static uint64_t amd_svm_grain_of(const struct amd_ranges *charged, uint64_t page_bytes)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < charged->count; i++)
		bytes += charged->at[i].end - charged->at[i].first;
	return max_u64(bytes / GRAINS, page_bytes);
}

void amd_svm_sweep(struct amd *amd, int fd)
{
	struct amd_ranges charged = {.count = 0};
	struct findings found = {.looks = LOOKS, .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE)};
	int saved = errno;

	if (!word_read(&amd->ranges.count))
		return;
	found.kfd = amd_file(fd) == AMD_FILE_KFD ? fd : amd_files_kfd();
	if (found.kfd >= 0) {
		amd_svm_cut(&amd->ranges, 0, UINT64_MAX, &charged);
		amd_svm_cut_unmapped(&charged, &found.gone);
		amd_svm_cut_own(&charged, &amd->ranges, &found.gone);
		amd_svm_cut_own(&charged, &charged, &found.gone);
		amd_svm_cut_own(&charged, &found.gone, &found.gone);
		found.grain_bytes = amd_svm_grain_of(&charged, found.page_bytes);
		for (uint32_t i = 0; i < charged.count; i++)
			amd_svm_look_at(&found, charged.at[i], charged.at[i].first);
		amd_svm_put_back(amd, &found.there);
		amd_svm_release_all(amd, &found.gone);
		amd_svm_release_all(amd, &found.moved);
		amd_ranges_free(&charged);
	}
	errno = saved;
}
