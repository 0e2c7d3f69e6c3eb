/* SPDX-License-Identifier: Apache-2.0 */
/* What every hook begins with. */
#ifndef ALLOT_GUEST_CORE_HOOK_H
#define ALLOT_GUEST_CORE_HOOK_H

#include "guest/core/guest.h"
#include "guest/core/hooks.h"
#include "guest/core/limited.h"
#include "guest/core/object.h"

/*
 * Declares `guest`, the limited guest of this call; or leaves the hook with the driver's own answer
 * when nothing is limited (or the driver itself is calling), or with the reason for which the GPU
 * is refused.
 */
#define GUEST_OR_PASS(name, args)                           \
	CUresult guest_error_ = CUDA_SUCCESS;               \
	struct guest *guest = limited_guest(&guest_error_); \
	if (!guest)                                         \
		return guest_error_ ? guest_error_ : cuda_real.name args

/* Handles and addresses as keys of the object table. */
#define KEY(handle) ((uint64_t)(uintptr_t)(handle))

#endif
