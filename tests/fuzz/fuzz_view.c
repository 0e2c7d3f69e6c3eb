/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes written over: the first byte says of what, eight more are the limit, the rest is a file or
 * an answer. Whatever is shown keeps to the limit, differs in one number, and stays as it is when
 * it is shown again.
 */
#include <errno.h>
#include <string.h>

#include "amd/kfd_view.h"
#include "amd/topology_parse.h"
#include "tests/fuzz/fuzz.h"

/* Exactly so much, so that a sanitizer sees what is beyond. */
struct shown {
	char *text;
	size_t len;
};

static int show(const struct kfd_view *view, int what, const char *text, size_t len, char *ret,
		size_t room, size_t *ret_len)
{
	static const char *const files[] = {"mem_info_vram_total", "mem_info_vis_vram_total",
					    "mem_info_vram_used", "mem_info_vis_vram_used"};

	if (what == 0)
		return kfd_view_bank(view, text, len, 0, ret, room, ret_len);
	if (what == 1)
		return kfd_view_node(view, text, len, ret, room, ret_len);
	return kfd_view_mem_info(view, files[what % 4], text, len, ret, room, ret_len);
}

static int show_new(const struct kfd_view *view, int what, const char *text, size_t len,
		    struct shown *ret)
{
	ret->text = malloc(KFD_VIEW_ROOM(len));
	MUST(ret->text);
	return show(view, what, text, len, ret->text, KFD_VIEW_ROOM(len), &ret->len);
}

/* All lines are the same but for one. */
static void check_lines(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int differ = 0;

	while (a_len && b_len) {
		const char *a_end = memchr(a, '\n', a_len), *b_end = memchr(b, '\n', b_len);
		size_t an, bn;

		MUST(a_end && b_end);
		an = (size_t)(a_end - a) + 1;
		bn = (size_t)(b_end - b) + 1;
		differ += an != bn || memcmp(a, b, an);
		a += an;
		a_len -= an;
		b += bn;
		b_len -= bn;
	}
	MUST(!a_len && !b_len && differ <= 1);
}

static void a_text(const struct kfd_view *view, int what, const char *text, size_t len)
{
	char error[TOPOLOGY_WHAT_BYTES];
	struct topology_bank bank = {0};
	struct shown once = {NULL, 7}, twice = {NULL, 7};
	int r = show_new(view, what, text, len, &once);
	size_t short_len = 7;

	if (r < 0) {
		MUST(r == -EINVAL || r == -ERANGE || r == -ENODATA);
		MUST(once.len == 7);
		free(once.text);
		return;
	}
	check_lines(text, len, once.text, once.len);
	MUST(show_new(view, what, once.text, once.len, &twice) == 0);
	MUST(once.len == twice.len && !memcmp(once.text, twice.text, once.len));
	MUST(!once.len || show(view, what, text, len, twice.text, once.len - 1, &short_len) < 0);
	MUST(short_len == 7);
	if (what == 0) {
		MUST(topology_parse_bank(once.text, once.len, &bank, error) == 0);
		MUST(bank.size_bytes <= view->limit_bytes || bank.heap == 0 || bank.heap > 2);
	}
	free(once.text);
	free(twice.text);
}

static void an_answer(const struct kfd_view *view, uint32_t query, const uint8_t *data, size_t len)
{
	struct drm_amdgpu_memory_info memory = {0};
	uint8_t *answer = malloc(len ? len : 1);

	MUST(answer);
	memcpy(answer, data, len);
	kfd_view_info(view, query, answer, len);
	if (query == AMDGPU_INFO_MEMORY && len >= sizeof(memory)) {
		memcpy(&memory, answer, sizeof(memory));
		MUST(memory.vram.total_heap_size <= view->limit_bytes);
		MUST(memory.vram.heap_usage <= memory.vram.total_heap_size);
		MUST(memory.vram.usable_heap_size <= memory.vram.total_heap_size);
		MUST(memory.cpu_accessible_vram.total_heap_size <= view->limit_bytes);
	}
	if (query == AMDGPU_INFO_VRAM_USAGE && len >= 8) {
		memcpy(&memory, answer, 8);
		MUST(memory.vram.total_heap_size <= view->limit_bytes);
	}
	free(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t queries[] = {AMDGPU_INFO_VRAM_USAGE, AMDGPU_INFO_VRAM_GTT,
					   AMDGPU_INFO_VIS_VRAM_USAGE, AMDGPU_INFO_MEMORY,
					   AMDGPU_INFO_DEV_INFO};
	struct kfd_view view = {.device_bytes = UINT64_MAX, .visible_bytes = UINT64_MAX};
	struct kfd_ioctl_get_available_memory_args available = {.available = UINT64_MAX};
	uint8_t what;

	if (size < 9)
		return 0;
	what = data[0];
	memcpy(&view.limit_bytes, data + 1, 8);
	view.used_bytes = view.limit_bytes / 3 + (what & 0x80 ? UINT64_MAX / 2 : 0);
	kfd_view_available(&view, &available);
	MUST(available.available <= view.limit_bytes);
	what &= 0x7f;
	if (what < 6)
		a_text(&view, what, (const char *)data + 9, size - 9);
	else
		an_answer(&view, queries[what % 5], data + 9, size - 9);
	return 0;
}
