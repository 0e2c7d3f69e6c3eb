/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that objects of OpenCL take: never less than what a driver says of the same object. */
#include "opencl/opencl_size.h"
#include "tests/check.h"

#define RGBA 0x10B5
#define FLOAT 0x10DE

static void test_whole(void)
{
	CHECK_EQ(opencl_size_whole(0), 0);
	CHECK_EQ(opencl_size_whole(1), OPENCL_GRANULE);
	CHECK_EQ(opencl_size_whole(OPENCL_GRANULE), OPENCL_GRANULE);
	CHECK_EQ(opencl_size_whole(OPENCL_GRANULE + 1), 2 * OPENCL_GRANULE);
	CHECK(opencl_size_whole(UINT64_MAX - 1) == UINT64_MAX);
}

static uint64_t image(cl_channel_order order, cl_channel_type type, cl_image_desc desc)
{
	cl_image_format format = {order, type};

	return opencl_size_image(&format, &desc);
}

static void test_formats(void)
{
	cl_image_desc one = {.image_type = CL_MEM_OBJECT_IMAGE1D, .image_width = 1};

	CHECK_EQ(image(CL_R, CL_UNORM_INT8, one), 1);
	CHECK_EQ(image(CL_RG, CL_HALF_FLOAT, one), 4);
	CHECK_EQ(image(RGBA, CL_UNORM_INT8, one), 4);
	CHECK_EQ(image(RGBA, FLOAT, one), 16);
	CHECK_EQ(image(CL_RGB, CL_UNORM_SHORT_565, one), 2);
	CHECK_EQ(image(CL_RGB, CL_UNORM_INT_101010, one), 4);
	CHECK_EQ(image(0xFFFF, 0xFFFF, one), 16); /* not known: the largest */
}

static void test_dimensions(void)
{
	cl_image_desc desc = {.image_width = 8, .image_height = 4, .image_depth = 2, .image_array_size = 3};
	static const struct {
		cl_mem_object_type type;
		uint64_t pixels;
	} cases[] = {{CL_MEM_OBJECT_IMAGE1D, 8},	{CL_MEM_OBJECT_IMAGE1D_ARRAY, 24},
		     {CL_MEM_OBJECT_IMAGE2D, 32},	{CL_MEM_OBJECT_IMAGE2D_ARRAY, 96},
		     {CL_MEM_OBJECT_IMAGE3D, 64}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		desc.image_type = cases[i].type;
		CHECK_EQ(image(RGBA, CL_UNORM_INT8, desc), 4 * cases[i].pixels);
	}
	desc.num_mip_levels = 3;
	CHECK_EQ(image(RGBA, CL_UNORM_INT8, desc), 2 * 4 * 64);
	desc.image_width = SIZE_MAX / 2;
	CHECK(image(RGBA, CL_UNORM_INT8, desc) == UINT64_MAX);
	desc.mem_object = (cl_mem)&desc; /* a view of other memory */
	CHECK_EQ(image(RGBA, CL_UNORM_INT8, desc), 0);
	CHECK_EQ(opencl_size_image(NULL, NULL), 0);
}

int main(void)
{
	test_whole();
	test_formats();
	test_dimensions();
	CHECK_EQ(opencl_size_pipe(16, 1000), 16000);
	CHECK(opencl_size_pipe(UINT32_MAX, UINT32_MAX) == (uint64_t)UINT32_MAX * UINT32_MAX);
	return 0;
}
