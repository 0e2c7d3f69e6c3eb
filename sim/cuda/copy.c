/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and sets as the executor runs them: in steps, so that a slice can end between two. */
#include <string.h>

#include "base/now.h"
#include "sim/cuda/engine.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/work.h"

#define STEP_BYTES (4ull << 20)
#define LEAST_NS 1000u /* what the smallest copy takes the device */

/* One side of a copy: where row y of slice z begins. */
struct side {
	unsigned char *base;
	size_t pitch;
	size_t slice_bytes;
	CUresult error;
};

static bool copy_area_valid(const struct side *side, const CUDA_MEMCPY3D *copy)
{
	size_t bytes = (copy->Depth - 1) * side->slice_bytes + (copy->Height - 1) * side->pitch +
		       copy->WidthInBytes;

	return sim_memory_valid((CUdeviceptr)(uintptr_t)side->base, bytes);
}

static struct side copy_side_of(CUmemorytype type, const void *host, CUdeviceptr device,
				CUarray array, size_t x, size_t y, size_t z, size_t pitch,
				size_t height, const CUDA_MEMCPY3D *copy, bool now)
{
	struct side side = {.pitch = pitch ? pitch : copy->WidthInBytes};
	struct sim_array_view view;

	side.slice_bytes = side.pitch * (height ? height : copy->Height);
	switch (type) {
	case CU_MEMORYTYPE_ARRAY:
		side.error = array ? sim_array_view(array, &view) : CUDA_ERROR_INVALID_VALUE;
		if (side.error)
			return side;
		if (x + copy->WidthInBytes > view.width_bytes || y + copy->Height > view.height ||
		    z + copy->Depth > view.depth)
			side.error = CUDA_ERROR_INVALID_VALUE;
		side.base = view.base;
		side.pitch = view.pitch;
		side.slice_bytes = view.slice_bytes;
		break;
	case CU_MEMORYTYPE_HOST:
		side.base = (unsigned char *)(uintptr_t)host;
		break;
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		side.base = (unsigned char *)(uintptr_t)device;
		break;
	default:
		side.error = CUDA_ERROR_INVALID_VALUE;
		return side;
	}
	side.base += z * side.slice_bytes + y * side.pitch + x;
	if (!side.error && copy->WidthInBytes > side.pitch && copy->Height > 1)
		side.error = CUDA_ERROR_INVALID_VALUE;
	/* A unified address that is not of device memory is taken for host memory. */
	if (now && !side.error &&
	    (type == CU_MEMORYTYPE_DEVICE ||
	     (type == CU_MEMORYTYPE_UNIFIED && sim_memory_is_device(device))) &&
	    !copy_area_valid(&side, copy))
		side.error = CUDA_ERROR_INVALID_VALUE;
	if (!side.error && !side.base)
		side.error = CUDA_ERROR_INVALID_VALUE;
	return side;
}

static struct side copy_source_of(const CUDA_MEMCPY3D *copy, bool now)
{
	return copy_side_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcArray,
			    copy->srcXInBytes, copy->srcY, copy->srcZ, copy->srcPitch,
			    copy->srcHeight, copy, now);
}

static struct side copy_target_of(const CUDA_MEMCPY3D *copy, bool now)
{
	return copy_side_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray,
			    copy->dstXInBytes, copy->dstY, copy->dstZ, copy->dstPitch,
			    copy->dstHeight, copy, now);
}

bool copy_side_is_host(CUmemorytype type, CUdeviceptr device)
{
	return type == CU_MEMORYTYPE_HOST ||
	       (type == CU_MEMORYTYPE_UNIFIED && !sim_memory_is_device(device));
}

bool copy_on_device(const CUDA_MEMCPY3D *copy)
{
	return !copy_side_is_host(copy->srcMemoryType, copy->srcDevice) &&
	       !copy_side_is_host(copy->dstMemoryType, copy->dstDevice);
}

static bool copy_is_empty(const CUDA_MEMCPY3D *copy)
{
	return !copy->WidthInBytes || !copy->Height || !copy->Depth;
}

CUresult copy_check(const CUDA_MEMCPY3D *copy, bool now)
{
	struct side source, target;

	if (copy_is_empty(copy))
		return CUDA_SUCCESS;
	source = copy_source_of(copy, now);
	target = copy_target_of(copy, now);
	return source.error ? source.error : target.error;
}

/* The cursor counts bytes of the copied box, in order. */
CUresult copy_step(struct sim_op *op, uint64_t *ret_ns, bool *ret_last)
{
	const CUDA_MEMCPY3D *copy = &op->work.copy;
	uint64_t from = now_thread_ns(), moved = 0;
	uint64_t total = (uint64_t)copy->WidthInBytes * copy->Height * copy->Depth;
	struct side source, target;

	*ret_last = true;
	*ret_ns = LEAST_NS;
	if (copy_is_empty(copy))
		return CUDA_SUCCESS;
	source = copy_source_of(copy, true);
	target = copy_target_of(copy, true);
	if (source.error || target.error)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	while (op->cursor < total && moved < STEP_BYTES) {
		size_t x = op->cursor % copy->WidthInBytes;
		size_t row = op->cursor / copy->WidthInBytes;
		size_t y = row % copy->Height, z = row / copy->Height;
		size_t bytes = copy->WidthInBytes - x;

		if (bytes > STEP_BYTES - moved)
			bytes = STEP_BYTES - moved;
		memmove(target.base + z * target.slice_bytes + y * target.pitch + x,
			source.base + z * source.slice_bytes + y * source.pitch + x, bytes);
		op->cursor += bytes;
		moved += bytes;
	}
	*ret_last = op->cursor == total;
	*ret_ns = now_thread_ns() - from + LEAST_NS;
	return CUDA_SUCCESS;
}

CUresult set_check(const CUDA_MEMSET_NODE_PARAMS *set, bool now)
{
	size_t row = set->width * set->elementSize;

	if (set->elementSize != 1 && set->elementSize != 2 && set->elementSize != 4)
		return CUDA_ERROR_INVALID_VALUE;
	if (!set->width || !set->height)
		return CUDA_SUCCESS;
	if (set->dst % set->elementSize || set->pitch % set->elementSize ||
	    set->width > SIZE_MAX / 4 || (set->height > 1 && set->pitch < row) ||
	    (now && !sim_memory_valid(set->dst, (set->height - 1) * set->pitch + row)))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static void copy_set_elements(unsigned char *at, unsigned int value, unsigned int bytes, size_t n)
{
	if (bytes == 1) {
		memset(at, (int)value, n);
	} else if (bytes == 2) {
		for (size_t i = 0; i < n; i++)
			((uint16_t *)(void *)at)[i] = (uint16_t)value;
	} else {
		for (size_t i = 0; i < n; i++)
			((uint32_t *)(void *)at)[i] = value;
	}
}

/* The cursor counts elements. */
CUresult set_step(struct sim_op *op, uint64_t *ret_ns, bool *ret_last)
{
	const CUDA_MEMSET_NODE_PARAMS *set = &op->work.set;
	uint64_t from = now_thread_ns(), total = (uint64_t)set->width * set->height;
	uint64_t budget = STEP_BYTES / set->elementSize;

	*ret_last = true;
	*ret_ns = LEAST_NS;
	if (!total)
		return CUDA_SUCCESS;
	if (set_check(set, true))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	while (op->cursor < total && budget) {
		size_t x = op->cursor % set->width, y = op->cursor / set->width;
		size_t n = set->width - x < budget ? set->width - x : budget;

		copy_set_elements((unsigned char *)(uintptr_t)set->dst + y * set->pitch +
					  x * set->elementSize,
				  set->value, set->elementSize, n);
		op->cursor += n;
		budget -= n;
	}
	*ret_last = op->cursor == total;
	*ret_ns = now_thread_ns() - from + LEAST_NS;
	return CUDA_SUCCESS;
}
