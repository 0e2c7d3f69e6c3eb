/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the NVML hooks: the tenant they answer for, and the device. */
#ifndef ALLOT_GUEST_NVML_HOOK_H
#define ALLOT_GUEST_NVML_HOOK_H

#include "guest/account/view.h"
#include "guest/core/guest.h"
#include "guest/core/hooks.h"

/* The library's own function; what it calls inside is not the program's call. */
#define NVML_REAL(name, args)                \
	({                                   \
		nvmlReturn_t real_;          \
		guest_depth++;               \
		real_ = nvml_real.name args; \
		guest_depth--;               \
		real_;                       \
	})

struct nvml_call {
	struct guest *guest;
	uint8_t uuid[16];
	unsigned int index; /* NVML's number of the device */
};

enum nvml_way {
	NVML_WAY_PASS,	 /* nothing is limited: the library answers */
	NVML_WAY_VIEW,	 /* the tenant's view: *ret_call is filled */
	NVML_WAY_REFUSE, /* *ret_error is the answer */
};

/*
 * How to answer a call about a device. Handles are looked up anew each time: the library has the
 * UUID at hand, and says by itself when it is not initialised or the handle is none. Limits that
 * cannot be read refuse (NO_PERMISSION), as they refuse the GPU to CUDA.
 */
enum nvml_way nvml_call(nvmlDevice_t device, struct nvml_call *ret_call, nvmlReturn_t *ret_error);

/* For a hook's first lines: goes on only where the tenant's view is to be answered. */
#define NVML_VIEW_OR_RETURN(name, args, device, call)           \
	do {                                                    \
		nvmlReturn_t error_;                            \
		switch (nvml_call(device, call, &error_)) {     \
		case NVML_WAY_PASS:                             \
			return nvml_real.name args;             \
		case NVML_WAY_REFUSE:                           \
			return error_;                          \
		case NVML_WAY_VIEW:                             \
			break;                                  \
		}                                               \
	} while (0)

/* The tenant's live processes on the device; as many as a ledger has slots for. */
#define NVML_TENANT_MAX 1024
struct nvml_tenant {
	int n;
	struct view_process process[NVML_TENANT_MAX];
};
void nvml_tenant_get(const struct nvml_call *call, struct nvml_tenant *ret_tenant);
/* The process of a pid, NULL when it is not the tenant's. */
const struct view_process *nvml_tenant_find(const struct nvml_tenant *tenant, unsigned int pid);

/* Moves the tenant's own entries of a list that has pids to its front; answers how many. */
#define NVML_KEEP_OWN(tenant, entries, n)                                     \
	({                                                                    \
		unsigned int kept_ = 0;                                       \
		for (unsigned int i_ = 0; i_ < (n); i_++)                     \
			if (nvml_tenant_find(tenant, (entries)[i_].pid))      \
				(entries)[kept_++] = (entries)[i_];           \
		kept_;                                                        \
	})

#endif
