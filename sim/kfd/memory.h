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
	struct bank_piece piece; /* none: it has no content of the machine's */
};

/* NULL: there is none. */
struct emu_object *emu_object(const struct emu_machine *machine, uint64_t handle);

/* Of the render node, or of /dev/kfd, where it is mapped. */
uint64_t emu_object_offset(const struct emu_object *object);

/* Takes over the object's piece, and fills its handle; -ENOMEM. */
int emu_object_add(struct emu_machine *machine, struct emu_object *object);

#endif
