/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of every hook. */
#ifndef ALLOT_GUEST_CORE_HOOK_H
#define ALLOT_GUEST_CORE_HOOK_H

#include "base/cleanup.h"
#include "guest/core/guest.h"
#include "guest/core/hooks.h"
#include "guest/core/limited.h"
#include "guest/core/object.h"
#include "guest/core/pass.h"

/*
 * Declares `guest`, the limited guest of this call; or leaves the hook with the driver's own answer
 * when nothing is limited (or the driver itself is calling), or with the reason for which the GPU
 * is refused.
 */
#define GUEST_ALONE(name, args)                             \
	CUresult guest_error_ = CUDA_SUCCESS;               \
	struct guest *guest = limited_guest(&guest_error_); \
	if (!guest)                                         \
		return guest_error_ ? guest_error_ : cuda_real.name args

/*
 * For the rest of the hook: where the tenant is swappable, and the list says of the row's kind that
 * it touches device memory, that memory is there and stays (pass.h).
 */
#define HOLD_MEMORY(name) HOLD_MEMORY_IF(CUDA_TOUCHES_##name)
#define HOLD_MEMORY_IF(it_does)                                                        \
	CLEANUP(pass_leave) struct guest *held_ = (it_does) ? pass_enter(guest) : NULL; \
	(void)held_

/* To be the first statement of a hook. */
#define GUEST_OR_PASS(name, args) \
	GUEST_ALONE(name, args);  \
	HOLD_MEMORY(name)

/* Handles and addresses as keys of the object table. */
#define KEY(handle) ((uint64_t)(uintptr_t)(handle))

#endif
