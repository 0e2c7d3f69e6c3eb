/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of device memory that objects of OpenCL take, known before the driver is asked: an upper bound
 * where the driver chooses the layout. All saturate at 2^64 - 1.
 */
#ifndef ALLOT_OPENCL_OPENCL_SIZE_H
#define ALLOT_OPENCL_OPENCL_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "opencl/abi/opencl.h"

/* Drivers give out memory in pieces of this size. */
#define OPENCL_GRANULE UINT64_C(65536)

uint64_t opencl_size_whole(uint64_t bytes);

/* A format that is not known counts as the largest one. */
uint64_t opencl_size_image(const cl_image_format *format, const cl_image_desc *desc);

uint64_t opencl_size_pipe(uint32_t packet_bytes, uint32_t packets);

#endif
