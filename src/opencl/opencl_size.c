/* SPDX-License-Identifier: Apache-2.0 */
#include "opencl/opencl_size.h"

#include "base/number.h"

#define CHANNELS_MOST 4

static uint64_t opencl_size_mul(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

uint64_t opencl_size_whole(uint64_t bytes)
{
	uint64_t up = sat_add_u64(bytes, OPENCL_GRANULE - 1);

	return up == UINT64_MAX ? up : up & ~(OPENCL_GRANULE - 1);
}

static uint64_t opencl_size_channels(cl_channel_order order)
{
	switch (order) {
	case CL_R:
	case CL_A:
	case CL_INTENSITY:
	case CL_LUMINANCE:
	case CL_DEPTH:
		return 1;
	case CL_RG:
	case CL_RA:
	case CL_Rx:
		return 2;
	}
	return CHANNELS_MOST; /* that of three channels, too: drivers give it the room of four */
}

static uint64_t opencl_size_pixel(const cl_image_format *format)
{
	uint64_t channels = opencl_size_channels(format->image_channel_order);

	switch (format->image_channel_data_type) {
	case CL_SNORM_INT8:
	case CL_UNORM_INT8:
	case CL_SIGNED_INT8:
	case CL_UNSIGNED_INT8:
		return channels;
	case CL_SNORM_INT16:
	case CL_UNORM_INT16:
	case CL_SIGNED_INT16:
	case CL_UNSIGNED_INT16:
	case CL_HALF_FLOAT:
		return 2 * channels;
	case CL_UNORM_SHORT_565:
	case CL_UNORM_SHORT_555:
		return 2;
	case CL_UNORM_INT_101010:
		return 4;
	}
	return 4 * channels;
}

/* Dimensions that a type has not count as 1, whatever they are. */
static uint64_t opencl_size_pixels(const cl_image_desc *desc)
{
	uint64_t width = desc->image_width;

	switch (desc->image_type) {
	case CL_MEM_OBJECT_IMAGE1D:
		return width;
	case CL_MEM_OBJECT_IMAGE1D_ARRAY:
		return opencl_size_mul(width, desc->image_array_size);
	case CL_MEM_OBJECT_IMAGE2D:
		return opencl_size_mul(width, desc->image_height);
	case CL_MEM_OBJECT_IMAGE2D_ARRAY:
		return opencl_size_mul(opencl_size_mul(width, desc->image_height),
				       desc->image_array_size);
	case CL_MEM_OBJECT_IMAGE3D:
		return opencl_size_mul(opencl_size_mul(width, desc->image_height), desc->image_depth);
	}
	return width;
}

uint64_t opencl_size_image(const cl_image_format *format, const cl_image_desc *desc)
{
	uint64_t bytes;

	if (!format || !desc || desc->mem_object)
		return 0;
	bytes = opencl_size_mul(opencl_size_pixels(desc), opencl_size_pixel(format));
	if (desc->num_samples > 1)
		bytes = opencl_size_mul(bytes, desc->num_samples);
	/* All smaller levels together are at most as large as the first one. */
	return desc->num_mip_levels > 1 ? opencl_size_mul(bytes, 2) : bytes;
}

uint64_t opencl_size_pipe(uint32_t packet_bytes, uint32_t packets)
{
	return opencl_size_mul(packet_bytes, packets);
}
