/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels, known by name:
 *
 *   sim_spin(u64 us)                           takes so many microseconds
 *   sim_fill(ptr, u64 words, u32 seed)         writes `words` 32-bit words made from the seed
 *   sim_check(ptr, u64 words, u32 seed, bad)   adds to the 32-bit count at `bad` how many differ
 *   sim_meet(count, u64 ranks)                 a rank of a collective: adds one to the 64-bit
 *                                              count, in memory that the ranks' processes share,
 *                                              and ends when all of its round did; the word after
 *                                              the count says when the last one came
 *
 *   allot_look(granules, seen, key, u32 n)     what the guest sees of device memory (look.h)
 *
 * Any other takes 5 us and does nothing; its parameters are not looked at.
 */
#include "sim/cuda/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "base/word.h"
#include "sim/cuda/look.h"
#include "sim/cuda/stream.h"

#define OTHER_NS 5000u
#define MEET_NS 20000u /* so often a rank looks for the others */
#define STEP_GRANULES 4
#define STEP_WORDS (1u << 20) /* 4 MiB: a step stays well within a slice */

static const struct kernel_shape {
	const char *name;
	unsigned int n;
	unsigned char bytes[SIM_KERNEL_ARGS];
} shapes[] = {
	[SIM_KERNEL_OTHER] = {"", 0, {0}},
	[SIM_KERNEL_SPIN] = {"sim_spin", 1, {8}},
	[SIM_KERNEL_FILL] = {"sim_fill", 3, {8, 8, 4}},
	[SIM_KERNEL_CHECK] = {"sim_check", 4, {8, 8, 4, 8}},
	[SIM_KERNEL_MEET] = {"sim_meet", 2, {8, 8}},
	[SIM_KERNEL_LOOK] = {LOOK_NAME, 4, {8, 8, 8, 4}},
};

#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* The buffer has the parameters as a C struct would. */
static CUresult kernel_from_extra(struct sim_launch *launch, void **extra)
{
	const struct kernel_shape *shape = &shapes[launch->id];
	const unsigned char *buffer = NULL;
	size_t bytes = 0, at = 0;

	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = *(size_t *)extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (unsigned int i = 0; i < shape->n; i++) {
		at = (at + shape->bytes[i] - 1) / shape->bytes[i] * shape->bytes[i];
		if (!buffer || at + shape->bytes[i] > bytes)
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(&launch->arg[i], buffer + at, shape->bytes[i]);
		at += shape->bytes[i];
	}
	return CUDA_SUCCESS;
}

CUresult kernel_describe(struct sim_launch *ret_launch, const CUlaunchConfig *config,
			 CUfunction function, void **params, void **extra)
{
	struct sim_launch launch = {
		.function = function,
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
		.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
		.shared_bytes = config->sharedMemBytes,
	};
	const char *name;
	CUresult error;

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	for (int i = 0; i < 3; i++)
		if (!launch.grid[i] || !launch.block[i])
			return CUDA_ERROR_INVALID_VALUE;
	if ((uint64_t)launch.block[0] * launch.block[1] * launch.block[2] > 1024 ||
	    (params && extra))
		return CUDA_ERROR_INVALID_VALUE;
	error = sim_function_use(function, &name);
	if (error)
		return error;
	for (unsigned int i = 1; i < SHAPES; i++)
		if (!strcmp(name, shapes[i].name))
			launch.id = (enum sim_kernel)i;
	if (extra) {
		error = kernel_from_extra(&launch, extra);
		if (error)
			return error;
	} else {
		for (unsigned int i = 0; i < shapes[launch.id].n; i++) {
			if (!params || !params[i])
				return CUDA_ERROR_INVALID_VALUE;
			memcpy(&launch.arg[i], params[i], shapes[launch.id].bytes[i]);
		}
	}
	*ret_launch = launch;
	return CUDA_SUCCESS;
}

unsigned int kernel_params(struct sim_launch *launch, void *ret_params[SIM_KERNEL_ARGS])
{
	unsigned int n = shapes[launch->id].n;

	for (unsigned int i = 0; i < n; i++)
		ret_params[i] = &launch->arg[i];
	return n;
}

static uint32_t kernel_word_of(uint32_t seed, uint64_t i)
{
	return (seed ^ (uint32_t)i) * 2654435761u + (uint32_t)(i >> 32);
}

/* A few granules from the cursor on. */
static CUresult kernel_look(struct sim_op *op, bool *ret_last)
{
	const struct sim_launch *launch = &op->work.launch;
	const uint64_t *granule = (const uint64_t *)(uintptr_t)launch->arg[0];
	struct look_seen *seen = (struct look_seen *)(uintptr_t)launch->arg[1];
	const struct look_key *key = (const struct look_key *)(uintptr_t)launch->arg[2];
	uint64_t n = launch->arg[3], end = n - op->cursor > STEP_GRANULES ? op->cursor + STEP_GRANULES : n;

	if (n && (!sim_memory_valid(launch->arg[0], n * sizeof(*granule)) ||
		  !sim_memory_valid(launch->arg[1], n * sizeof(*seen)) ||
		  !sim_memory_valid(launch->arg[2], sizeof(*key))))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	for (; op->cursor < end; op->cursor++) {
		if (!sim_memory_valid(granule[op->cursor], LOOK_BYTES))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		seen[op->cursor] = sim_look((const void *)(uintptr_t)granule[op->cursor], key);
	}
	*ret_last = end == n;
	return CUDA_SUCCESS;
}

/* Up to STEP_WORDS from the cursor on. */
static CUresult kernel_fill_or_check(struct sim_op *op, bool *ret_last)
{
	const struct sim_launch *launch = &op->work.launch;
	uint64_t words = launch->arg[1], i = op->cursor;
	uint64_t end = words - i > STEP_WORDS ? i + STEP_WORDS : words;
	uint32_t *at = (uint32_t *)(uintptr_t)launch->arg[0], seed = (uint32_t)launch->arg[2];
	uint32_t *bad = (uint32_t *)(uintptr_t)launch->arg[3];

	/* Asked at each step: the memory may have been freed under a running kernel. */
	if (words > UINT64_MAX / 4 || (words && !sim_memory_valid(launch->arg[0], words * 4)) ||
	    (launch->id == SIM_KERNEL_CHECK && !sim_memory_valid(launch->arg[3], 4)))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (launch->id == SIM_KERNEL_FILL) {
		for (; i < end; i++)
			at[i] = kernel_word_of(seed, i);
	} else {
		for (; i < end; i++)
			op->bad += at[i] != kernel_word_of(seed, i);
		if (end == words)
			*bad += (uint32_t)op->bad;
	}
	op->cursor = end;
	*ret_last = end == words;
	return CUDA_SUCCESS;
}

/*
 * The cursor is the value of the count at which this round is complete.
 *
 * An executor that had no processor for a while makes up for it at instants that are past. By then
 * a rank may have come that was not there at such an instant, so the kernel ends no earlier than
 * the last rank came (came_ns).
 */
static void kernel_meet(struct sim_op *op, uint64_t at_ns, uint64_t *ret_ns, bool *ret_last)
{
	uint64_t *count = (uint64_t *)(uintptr_t)op->work.launch.arg[0], *came_ns = count + 1;
	uint64_t ranks = op->work.launch.arg[1], last_ns;

	if (!op->cursor) {
		word_raise_u64(came_ns, at_ns);
		op->cursor = word_publish_add(count, 1) / ranks * ranks + ranks;
	}
	*ret_ns = MEET_NS;
	*ret_last = word_check(count) >= op->cursor;
	if (!*ret_last)
		return;
	last_ns = word_read(came_ns);
	*ret_ns = OTHER_NS + (last_ns > at_ns ? last_ns - at_ns : 0);
}

CUresult kernel_step(struct sim_op *op, uint64_t at_ns, uint64_t *ret_ns, bool *ret_last)
{
	uint64_t from;
	CUresult error;

	*ret_last = true;
	switch (op->work.launch.id) {
	case SIM_KERNEL_SPIN:
		*ret_ns = op->work.launch.arg[0] > UINT64_MAX / 2000 ?
				  UINT64_MAX / 2 : op->work.launch.arg[0] * 1000;
		return CUDA_SUCCESS;
	case SIM_KERNEL_FILL:
	case SIM_KERNEL_CHECK:
	case SIM_KERNEL_LOOK:
		/*
		 * These do work, so the device is taken for as long as that took of a processor. A
		 * process that is stopped meanwhile, or waits for a processor, stops no device.
		 */
		from = now_thread_ns();
		error = op->work.launch.id == SIM_KERNEL_LOOK ? kernel_look(op, ret_last)
							      : kernel_fill_or_check(op, ret_last);
		*ret_ns = now_thread_ns() - from + OTHER_NS;
		return error;
	case SIM_KERNEL_MEET:
		if (!op->work.launch.arg[0] || !op->work.launch.arg[1])
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		kernel_meet(op, at_ns, ret_ns, ret_last);
		return CUDA_SUCCESS;
	default:
		*ret_ns = OTHER_NS;
		return CUDA_SUCCESS;
	}
}
