/* SPDX-License-Identifier: Apache-2.0 */
#include "amd/kfd_view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "amd/topology_parse.h"
#include "base/number.h"
#include "base/parse.h"

static uint64_t kfd_view_total(const struct kfd_view *view)
{
	return min_u64(view->limit_bytes, view->device_bytes);
}

static uint64_t kfd_view_visible(const struct kfd_view *view)
{
	return min_u64(kfd_view_total(view), view->visible_bytes);
}

struct text {
	char *at;
	size_t room, len;
};

static int kfd_view_put(struct text *out, const char *bytes, size_t len)
{
	if (len > out->room - out->len)
		return -ENOSPC;
	memcpy(out->at + out->len, bytes, len);
	out->len += len;
	return 0;
}

static int kfd_view_put_number(struct text *out, uint64_t number)
{
	char digits[24];

	return kfd_view_put(out, digits,
			    (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, number));
}

static int kfd_view_parse_number(const char *text, size_t len, uint64_t *ret)
{
	char digits[24];

	if (len >= sizeof(digits))
		return -ERANGE;
	if (memchr(text, '\0', len))
		return -EINVAL;
	memcpy(digits, text, len);
	digits[len] = '\0';
	return parse_u64(digits, 0, UINT64_MAX, ret);
}

/* A number as it is, or `most`. */
static int kfd_view_put_at_most(struct text *out, const char *text, size_t len, uint64_t most)
{
	uint64_t number;
	int r = kfd_view_parse_number(text, len, &number);

	if (r < 0)
		return r;
	return number > most ? kfd_view_put_number(out, most) : kfd_view_put(out, text, len);
}

/* One line, with its end; *seen counts those of the name. */
static int kfd_view_put_line(struct text *out, const char *line, size_t len, const char *name,
			     uint64_t most, int *seen)
{
	size_t n = strlen(name);
	int r;

	if (len <= n || memcmp(line, name, n) || line[n] != ' ')
		return kfd_view_put(out, line, len);
	if ((*seen)++)
		return -EINVAL;
	r = kfd_view_put(out, line, n + 1);
	if (r == 0)
		r = kfd_view_put_at_most(out, line + n + 1, len - n - 2, most);
	return r < 0 ? r : kfd_view_put(out, "\n", 1);
}

/* All lines, but the number of that name is at most `most`. */
static int kfd_view_put_lines(struct text *out, const char *text, size_t len, const char *name,
			      uint64_t most)
{
	int seen = 0;

	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) + 1 : 0;
		int r = n ? kfd_view_put_line(out, text, n, name, most, &seen) : -ENODATA;

		if (r < 0)
			return r;
		text += n;
		len -= n;
	}
	return seen ? 0 : -ENODATA;
}

static int kfd_view_finish(const struct text *out, int r, size_t *ret_len)
{
	if (r == 0)
		*ret_len = out->len;
	return r;
}

int kfd_view_bank(const struct kfd_view *view, const char *text, size_t len, uint64_t before_bytes,
		  char *ret, size_t room, size_t *ret_len)
{
	uint64_t left = view->limit_bytes - min_u64(before_bytes, view->limit_bytes);
	struct text out = {.at = ret, .room = room};
	struct topology_bank bank = {0};
	char what[TOPOLOGY_WHAT_BYTES];
	int r = topology_parse_bank(text, len, &bank, what);

	if (r < 0)
		return r;
	if (bank.heap != TOPOLOGY_HEAP_VRAM_VISIBLE && bank.heap != TOPOLOGY_HEAP_VRAM)
		left = UINT64_MAX;
	return kfd_view_finish(&out, kfd_view_put_lines(&out, text, len, "size_in_bytes", left),
			       ret_len);
}

int kfd_view_node(const struct kfd_view *view, const char *text, size_t len, char *ret, size_t room,
		  size_t *ret_len)
{
	struct text out = {.at = ret, .room = room};
	int r = kfd_view_put_lines(&out, text, len, "local_mem_size", view->limit_bytes);

	/* Not every kernel tells it here. */
	if (r == -ENODATA && len && text[len - 1] == '\n')
		r = 0;
	return kfd_view_finish(&out, r, ret_len);
}

int kfd_view_mem_info(const struct kfd_view *view, const char *file, const char *text, size_t len,
		      char *ret, size_t room, size_t *ret_len)
{
	const struct {
		const char *name;
		bool is_total;
		uint64_t bytes;
	} files[] = {
		{"mem_info_vram_total", true, kfd_view_total(view)},
		{"mem_info_vis_vram_total", true, kfd_view_visible(view)},
		{"mem_info_vram_used", false, min_u64(view->used_bytes, kfd_view_total(view))},
		{"mem_info_vis_vram_used", false,
		 min_u64(view->used_bytes, kfd_view_visible(view))},
		{"used_memory", false, min_u64(view->used_bytes, kfd_view_total(view))},
	};
	struct text out = {.at = ret, .room = room};
	uint64_t real;
	size_t i = 0;
	int r;

	while (i < sizeof(files) / sizeof(files[0]) && strcmp(files[i].name, file))
		i++;
	if (i == sizeof(files) / sizeof(files[0]))
		return -ENOENT;
	if (!len || text[len - 1] != '\n')
		return -ENODATA;
	r = kfd_view_parse_number(text, len - 1, &real);
	if (r == 0)
		r = files[i].is_total ? kfd_view_put_at_most(&out, text, len - 1, files[i].bytes)
				      : kfd_view_put_number(&out, files[i].bytes);
	if (r == 0)
		r = kfd_view_put(&out, "\n", 1);
	return kfd_view_finish(&out, r, ret_len);
}

void kfd_view_available(const struct kfd_view *view,
			struct kfd_ioctl_get_available_memory_args *args)
{
	uint64_t used = min_u64(view->used_bytes, kfd_view_total(view));

	args->available = min_u64(args->available, kfd_view_total(view) - used);
}

void kfd_view_version(struct kfd_ioctl_get_version_args *args)
{
	if (args->major_version == KFD_IOCTL_MAJOR_VERSION &&
	    args->minor_version > KFD_IOCTL_MINOR_VERSION)
		args->minor_version = KFD_IOCTL_MINOR_VERSION;
}

static void kfd_view_heap(const struct kfd_view *view, uint64_t most,
			  struct drm_amdgpu_heap_info *heap)
{
	heap->total_heap_size = min_u64(heap->total_heap_size, most);
	heap->usable_heap_size = min_u64(heap->usable_heap_size, heap->total_heap_size);
	heap->heap_usage = min_u64(view->used_bytes, heap->total_heap_size);
	/* The kernel's own rule. */
	heap->max_allocation = min_u64(heap->max_allocation, heap->usable_heap_size / 4 * 3);
}

/* An answer of which `bytes` are there, all zero beyond. */
union answer {
	uint64_t usage;
	struct drm_amdgpu_info_vram_gtt sizes;
	struct drm_amdgpu_memory_info memory;
	struct drm_amdgpu_info_device device;
	struct drm_amdgpu_info_hw_ip ip;
};

void kfd_view_info(const struct kfd_view *view, uint32_t query, void *answer, size_t bytes)
{
	union answer a = {0};

	bytes = min_u64(bytes, sizeof(a));
	if (!bytes)
		return;
	memcpy(&a, answer, bytes);
	switch (query) {
	case AMDGPU_INFO_VRAM_USAGE:
		a.usage = min_u64(view->used_bytes, kfd_view_total(view));
		break;
	case AMDGPU_INFO_VIS_VRAM_USAGE:
		a.usage = min_u64(view->used_bytes, kfd_view_visible(view));
		break;
	case AMDGPU_INFO_VRAM_GTT:
		a.sizes.vram_size = min_u64(a.sizes.vram_size, kfd_view_total(view));
		a.sizes.vram_cpu_accessible_size =
			min_u64(a.sizes.vram_cpu_accessible_size, kfd_view_visible(view));
		break;
	case AMDGPU_INFO_MEMORY:
		kfd_view_heap(view, kfd_view_total(view), &a.memory.vram);
		kfd_view_heap(view, kfd_view_visible(view), &a.memory.cpu_accessible_vram);
		break;
	case AMDGPU_INFO_DEV_INFO:
		a.device.userq_ip_mask = 0;
		break;
	case AMDGPU_INFO_HW_IP_INFO:
		a.ip.userq_num_slots = 0;
		break;
	default:
		return;
	}
	memcpy(answer, &a, bytes);
}
