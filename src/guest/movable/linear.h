/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear memory of a swappable tenant: as memory.h has it, backed by pieces that can leave
 * (backing.h), with the charge of those that are spare.
 */
#ifndef ALLOT_GUEST_MOVABLE_LINEAR_H
#define ALLOT_GUEST_MOVABLE_LINEAR_H

#include "guest/account/holder.h"
#include "guest/memory/allocator.h"

/* As allocator.h has them. */
CUresult linear_alloc(struct guest *guest, struct guest_device *device, uint64_t bytes,
		      CUdeviceptr *ret);
void linear_end_spare(struct guest *guest, struct guest_device *device);
void linear_release(struct guest *guest, struct guest_device *device, const struct object *object);

/* As cuMemFree, of memory that was taken (memory_take). An error: it is kept. */
CUresult linear_free_taken(struct guest *guest, struct object *object);

extern const struct holder linear_holder;

/* What is asked of this process, and not answered yet (ledger/spare.h). Zeroed: nothing. */
struct answer {
	bool begun;
	uint16_t number;
	uint32_t drops;
};

/*
 * Ends all spare pieces once a process asks for them, and answers; by one thread, which is woken
 * for it, and again as long as other threads are about to end some of them.
 */
void linear_answer_spare(struct guest *guest, struct answer *answer);

#endif
