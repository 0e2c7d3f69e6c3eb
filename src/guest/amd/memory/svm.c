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
 * How often one sweep splits ranges in halves: some milliseconds. Ranges that it does not reach
 * stay charged. GRAINS is how finely it looks for holes: each grain costs two looks, every time.
 */
#define LOOKS  8192
#define GRAINS 256

void amd_svm_release_all(struct amd *amd, struct amd_ranges *gone)
{
	for (uint32_t d = 0; d < amd->ndevices && gone->count; d++)
		amd_charge_release(amd, &amd->device[d], DEMAND_VRAM, CAT_DATA,
				   amd_ranges_bytes(gone, (int)d));
	amd_ranges_free(gone);
}

int amd_svm_begin(struct amd *amd, uint64_t first, uint64_t end, struct svm_call *ret)
{
	*ret = (struct svm_call){.number = atomic_fetch_add(&amd->svm_begun, 1) + 1};
	ret->alone = atomic_load(&amd->svm_ended) == ret->number - 1;
	if (!amd_ranges_take(&amd->ranges, first, end, &ret->had))
		return 0;
	amd_svm_end(amd, ret);
	return -ENOMEM;
}

void amd_svm_end(struct amd *amd, struct svm_call *svm)
{
	amd_ranges_free(&svm->had);
	atomic_fetch_add(&amd->svm_ended, 1);
}

/*
 * They are mixed until it is known that no other call has begun: one that begins after the question
 * finds them in the table, and what it puts there has its own number. Bytes for which the table has
 * no room stay charged.
 */
void amd_svm_put(struct amd *amd, const struct svm_call *svm, const struct amd_ranges *ranges,
		 bool whole)
{
	struct amd_ranges twice = {.count = 0};
	struct amd_range range;

	for (uint32_t i = 0; i < ranges->count; i++) {
		range = ranges->at[i];
		range.said = svm->number;
		range.mixed = true;
		amd_ranges_put(&amd->ranges, &range, &twice);
	}
	amd_svm_release_all(amd, &twice);
	if (!whole || !svm->alone || atomic_load(&amd->svm_begun) != svm->number)
		return;
	for (uint32_t i = 0; i < ranges->count; i++) {
		range = ranges->at[i];
		range.said = svm->number;
		if (!range.mixed)
			amd_ranges_unmix(&amd->ranges, &range);
	}
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
		amd_ranges_take(ranges, line->last_end, line->first, gone);
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
	amd_ranges_take(ranges, first, (end + page_bytes - 1) & -page_bytes, gone);
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
		amd_ranges_take(ranges, line.last_end, UINT64_MAX, gone);
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

/*
 * A sweep leaves the ranges in the table and looks at a copy. A range that is gone is taken out of
 * the table only if it still has the number of the copy: no call changed it meanwhile.
 */
struct search {
	struct amd *amd;
	int kfd, looks;
	uint64_t page_bytes, grain_bytes;
	struct amd_ranges gone; /* out of the table, to be counted off */
};

/*
 * Checks that a part of a range is still on a GPU. A part that is not mixed and has no place is
 * gone as a whole. A part with a place may have holes, where other memory is mapped now, and the
 * answer does not tell: so it is split in halves, down to the grain.
 */
static void amd_svm_look_at(struct search *search, struct amd_range part)
{
	uint64_t bytes = part.end - part.first;
	struct amd_range half = part;
	enum place place = AT_GPU;

	if (--search->looks >= 0)
		place = amd_svm_place_of(search->kfd, part.first, part.end);
	if (place == AT_GPU && (bytes <= search->grain_bytes || search->looks < 0))
		return;
	if (place != AT_GPU &&
	    (bytes <= search->page_bytes || (place == NOT_AT_GPU && !part.mixed))) {
		amd_ranges_take_same(&search->amd->ranges, &part, &search->gone);
		return;
	}
	half.end -= bytes / 2 / search->page_bytes * search->page_bytes;
	amd_svm_look_at(search, half);
	part.first = half.end;
	amd_svm_look_at(search, part);
}

static uint64_t amd_svm_grain_of(const struct amd_ranges *charged, uint64_t page_bytes)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < charged->count; i++)
		bytes += charged->at[i].end - charged->at[i].first;
	return max_u64(bytes / GRAINS, page_bytes);
}

static void amd_svm_search(struct search *search)
{
	struct amd_ranges charged = {.count = 0}, unmapped = {.count = 0};

	amd_ranges_copy(&search->amd->ranges, &charged);
	amd_svm_cut_unmapped(&charged, &unmapped);
	amd_svm_cut_own(&charged, &search->amd->ranges, &unmapped);
	amd_svm_cut_own(&charged, &charged, &unmapped);
	amd_svm_cut_own(&charged, &unmapped, &unmapped);
	for (uint32_t i = 0; i < unmapped.count; i++)
		amd_ranges_take_same(&search->amd->ranges, &unmapped.at[i], &search->gone);
	search->grain_bytes = amd_svm_grain_of(&charged, search->page_bytes);
	for (uint32_t i = 0; i < charged.count; i++)
		amd_svm_look_at(search, charged.at[i]);
	amd_ranges_free(&charged);
	amd_ranges_free(&unmapped);
}

void amd_svm_sweep(struct amd *amd, int fd)
{
	struct search search = {
		.amd = amd, .looks = LOOKS, .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE)};
	int saved = errno;

	if (!word_read(&amd->ranges.count))
		return;
	search.kfd = amd_file(fd) == AMD_FILE_KFD ? fd : amd_files_kfd();
	if (search.kfd >= 0) {
		amd_svm_search(&search);
		amd_svm_release_all(amd, &search.gone);
	}
	errno = saved;
}
