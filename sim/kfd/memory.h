/* SPDX-License-Identifier: Apache-2.0 */
/* Memory objects of this process, as /dev/kfd names them. All under the lock of the machine. */
#ifndef ALLOT_SIM_KFD_MEMORY_H
#define ALLOT_SIM_KFD_MEMORY_H

#include <stdint.h>

#include "sim/kfd/bank.h"
#include "sim/kfd/emu.h"

struct emu_object {
	uint64_t handle; /* 0: free */
	uint64_t va, size;
	uint64_t users; /* USERPTR: where the program has the memory */
	uint32_t gpu_id, flags;
	uint64_t mapped;	 /* bit i: on the machine's i-th GPU */
	uint32_t queues;	 /* that hold it mapped: queue.c */
	struct bank_piece piece; /* none: it has no content of the machine's */
};

/* NULL: there is none. */
struct emu_object *emu_object(struct emu_machine *machine, uint64_t handle);

/* The one that the GPU has mapped at an address; NULL: there is none. */
struct emu_object *emu_object_mapped(struct emu_machine *machine, const struct emu_gpu *gpu, uint64_t at);

/* Of the render node, or of /dev/kfd, where it is mapped. */
uint64_t emu_object_offset(const struct emu_gpu *gpu, const struct emu_object *object);

/*
 * Checks what is asked for, all but the handle and the piece, and takes memory for it if it is a
 * kind that has some: -EINVAL, -ENOMEM.
 */
int emu_object_make(struct emu_machine *machine, struct emu_object *object);

/* Onto a GPU, where it may be already, or off one that has it: -EBUSY while a queue uses it. */
int emu_object_map(struct emu_machine *machine, struct emu_object *object, uint32_t gpu_id,
		   bool map);

/*
 * Takes over the object's piece, and fills its handle: the lowest that its GPU has free, or the one
 * of that index. -ENOMEM, also where that is taken.
 */
int emu_object_add(struct emu_machine *machine, struct emu_object *object);
int emu_object_add_at(struct emu_machine *machine, struct emu_object *object, uint32_t index);

#endif
