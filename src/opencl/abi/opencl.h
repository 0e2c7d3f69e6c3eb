/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of OpenCL's binary interface that allot uses, on machines of 64 bits: handles, values and
 * structures, under Khronos' names and with Khronos' values, so that a program's objects pass through
 * unchanged. Reference: OpenCL 3.0. tests/abi proves every size, offset and value here against
 * Khronos' headers where those are installed.
 *
 * Functions are not declared here: the list of those that are hooked is opencl_api.def.
 */
#ifndef ALLOT_ABI_OPENCL_H
#define ALLOT_ABI_OPENCL_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;
typedef cl_uint cl_bool;
typedef cl_ulong cl_bitfield;
typedef cl_ulong cl_properties;
typedef cl_bitfield cl_device_type;
typedef cl_bitfield cl_mem_flags;
typedef cl_bitfield cl_svm_mem_flags;
typedef cl_uint cl_platform_info;
typedef cl_uint cl_device_info;
typedef cl_uint cl_context_info;
typedef cl_uint cl_command_queue_info;
typedef cl_uint cl_mem_info;
typedef cl_uint cl_mem_object_type;
typedef cl_uint cl_channel_order;
typedef cl_uint cl_channel_type;
typedef cl_properties cl_mem_properties;
typedef intptr_t cl_context_properties;
typedef intptr_t cl_pipe_properties;

typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_event *cl_event;

#define CL_SUCCESS                       0
#define CL_DEVICE_NOT_FOUND              -1
#define CL_MEM_OBJECT_ALLOCATION_FAILURE -4
#define CL_OUT_OF_HOST_MEMORY            -6
#define CL_INVALID_VALUE                 -30
#define CL_INVALID_CONTEXT               -34
#define CL_PLATFORM_NOT_FOUND_KHR        -1001

#define CL_PLATFORM_VERSION    0x0901
#define CL_PLATFORM_NAME       0x0902
#define CL_PLATFORM_VENDOR     0x0903
#define CL_PLATFORM_EXTENSIONS 0x0904

#define CL_DEVICE_TYPE_DEFAULT (1ull << 0)
#define CL_DEVICE_TYPE_CPU     (1ull << 1)
#define CL_DEVICE_TYPE_GPU     (1ull << 2)
#define CL_DEVICE_TYPE_ALL     0xFFFFFFFFull

#define CL_DEVICE_TYPE               0x1000
#define CL_DEVICE_VENDOR_ID          0x1001
#define CL_DEVICE_MAX_MEM_ALLOC_SIZE 0x1010
#define CL_DEVICE_GLOBAL_MEM_SIZE    0x101F
#define CL_DEVICE_NAME               0x102B
#define CL_DEVICE_VENDOR             0x102C
#define CL_DEVICE_EXTENSIONS         0x1030
#define CL_DEVICE_UUID_KHR           0x106A

#define CL_CONTEXT_DEVICES     0x1081
#define CL_CONTEXT_NUM_DEVICES 0x1083
#define CL_CONTEXT_PLATFORM    0x1084
#define CL_QUEUE_CONTEXT       0x1090

#define CL_MEM_SIZE    0x1102
#define CL_MEM_CONTEXT 0x1106

#define CL_R                         0x10B0
#define CL_A                         0x10B1
#define CL_RG                        0x10B2
#define CL_RA                        0x10B3
#define CL_RGB                       0x10B4
#define CL_INTENSITY                 0x10B8
#define CL_LUMINANCE                 0x10B9
#define CL_Rx                        0x10BA
#define CL_RGx                       0x10BB
#define CL_DEPTH                     0x10BD
#define CL_SNORM_INT8                0x10D0
#define CL_SNORM_INT16               0x10D1
#define CL_UNORM_INT8                0x10D2
#define CL_UNORM_INT16               0x10D3
#define CL_UNORM_SHORT_565           0x10D4
#define CL_UNORM_SHORT_555           0x10D5
#define CL_UNORM_INT_101010          0x10D6
#define CL_SIGNED_INT8               0x10D7
#define CL_SIGNED_INT16              0x10D8
#define CL_UNSIGNED_INT8             0x10DA
#define CL_UNSIGNED_INT16            0x10DB
#define CL_HALF_FLOAT                0x10DD

#define CL_MEM_OBJECT_IMAGE2D       0x10F1
#define CL_MEM_OBJECT_IMAGE3D       0x10F2
#define CL_MEM_OBJECT_IMAGE2D_ARRAY 0x10F3
#define CL_MEM_OBJECT_IMAGE1D       0x10F4
#define CL_MEM_OBJECT_IMAGE1D_ARRAY 0x10F5

typedef struct _cl_image_format {
	cl_channel_order image_channel_order;
	cl_channel_type image_channel_data_type;
} cl_image_format;

typedef struct _cl_image_desc {
	cl_mem_object_type image_type;
	size_t image_width;
	size_t image_height;
	size_t image_depth;
	size_t image_array_size;
	size_t image_row_pitch;
	size_t image_slice_pitch;
	cl_uint num_mip_levels;
	cl_uint num_samples;
	cl_mem mem_object; /* the memory that it is a view of; NULL: it has its own */
} cl_image_desc;

#endif
