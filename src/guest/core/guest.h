/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest: what liballot knows in one process. It comes into being with the first hooked call
 * that needs it, never in a constructor, and a forked child has none until it makes such a call.
 *
 * Everything hangs off one page that the kernel wipes in a forked child (MADV_WIPEONFORK), so the
 * child finds NULL there, whichever way it was forked, and starts afresh with a slot of its own;
 * what it inherited is never touched again. No fork handler, hence nothing that can block a fork.
 */
#ifndef ALLOT_GUEST_CORE_GUEST_H
#define ALLOT_GUEST_CORE_GUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "amd/identity.h"
#include "base/lock.h"
#include "base/word.h"
#include "dropin/config.h"
#include "guest/process/once.h"
#include "ledger/ledger.h"
#include "ledger/policy.h"
#include "ledger/slot.h"
#include "nvidia/cuda_api.h"

#define GUEST_DEVICES POLICY_DEVICES

struct account_device;
struct account_state;
struct amd;
struct launch_state;
struct lend_state;
struct memory_device;
struct memory_state;
struct movable_state;
struct opencl_state;
struct object_table;
struct residency_file;
struct trace;

enum guest_mode {
	GUEST_INERT,   /* nothing is limited: every hook passes its call on */
	GUEST_LIMITED, /* policy and ledger are open */
	GUEST_CLOSED,  /* limits were asked for and cannot be had: no GPU */
};

/* A device as this process sees it through CUDA. */
struct guest_device {
	CUdevice ordinal;
	int ledger; /* index in the tenant's ledger */
	uint8_t uuid[16];
	uint64_t total_bytes;
	uint64_t stack_threads; /* threads that the driver backs a stack for */
	_Atomic int sms; /* of all of it, in mode space; 0: not asked yet, see hook_device.c */

	_Atomic uint64_t limit; /* cached for limit_generation, see guest_limit */
	_Atomic uint64_t limit_generation;

	struct account_device *account; /* as guest->account, of this device */
	struct memory_device *memory;
};

#define CAPTURING 32

/* Streams that capture, see capturing.h. */
struct capturing {
	struct lock_capturing lock;
	int n;
	CUstream stream[CAPTURING];
	CUcontext context[CAPTURING];
};

/* The gate in front of device memory, see pass.h. */
struct pass_gate {
	_Atomic uint32_t shut;	 /* enum pass_shut; a futex */
	_Atomic uint32_t inside; /* calls under way that touch device memory */
};

/* A tenant in mode space, see space.h. */
struct guest_space {
	_Atomic uint32_t permille; /* the part of the SMs that was asked for at cuInit */
	_Atomic bool yields;	   /* and the priority: that of work which yields */
	_Atomic bool confirmed;	   /* the driver runs under MPS, and said so */
	_Atomic bool refused;	   /* that it does not was said */
};

/* The process's record of what it decides, see trace.h. */
struct guest_trace {
	_Atomic(struct trace *) to; /* NULL: nothing is recorded */
	struct trace *kept;	    /* its address, once there was one; with `busy`, as the next */
	bool on;		    /* that is a file */
	_Atomic bool busy;	    /* a thread follows the policy */
	_Atomic uint64_t generation; /* that was followed last */
};

struct guest {
	_Atomic(enum guest_mode) mode; /* see guest_mode and guest_close */
	_Atomic(CUresult) error;       /* what GUEST_CLOSED answers: see guest_refusal */
	struct config config;
	bool drop_in; /* the tenant is one that its processes make by configuration, without `allot run` */
	bool first;   /* and this one made it, or found nobody in it */
	_Atomic bool kept_out; /* that a limit of its own is not in force was said */
	struct policy_map *policy_map;
	struct policy policy; /* as it was when the process began */
	struct ledger *ledger;
	char dir[256]; /* the tenant's directory */

	struct once own_slot; /* claimed by whichever vendor's part comes first */
	struct slot *claimed;

	struct once claim;	     /* of what CUDA needs */
	_Atomic(struct slot *) slot; /* set once CUDA is initialised */
	int ndevices;
	struct guest_device device[GUEST_DEVICES]; /* by CUDA ordinal */
	struct once nvml[GUEST_DEVICES]; /* by index in the ledger, see own_nvml.h */
	struct object_table *objects;

	/* Before `slot`, as the policy says: */
	bool swappable;			       /* what is held can leave */
	const struct allocator *allocator;     /* see memory/allocator.h */
	const struct holder *const *holders;   /* see account/holder.h */
	struct swap_use *use; /* NULL where nothing comes back by itself */
	/* of the role that decides about residency; NULL: there is none */
	_Atomic(struct residency_file *) residency;

	const uint32_t *gate; /* the policy's, or our own; see admission.h */
	bool metered; /* whatever the gate says: configuration limits compute */
	struct once passes, swaps; /* its gate is made, its swap thread */
	struct pass_gate pass;	   /* of a swappable tenant, as the next */
	struct capturing capturing;
	_Atomic bool captures; /* a capture was begun, some time */
	struct guest_space space;
	struct guest_trace trace;

	/*
	 * Rooms above core keep what they know of the process in a structure of each (its state.h).
	 * The first four are behind this one from the beginning.
	 */
	struct account_state *account;
	struct lend_state *lend;
	struct memory_state *memory;
	struct movable_state *movable;
	struct opencl_state *opencl; /* behind it as well */
	_Atomic(struct launch_state *) launch; /* set by the first launch that is metered */
	_Atomic(struct amd *) amd;	       /* set by the first call for AMD's GPUs */
};

/*
 * Any thread may claim, and so find that the tenant cannot be used, while others are in hooks:
 *
 *	claiming thread		any hook
 *	error = why		guest_mode() == GUEST_CLOSED
 *	mode = GUEST_CLOSED	guest_refusal() == why
 */
static inline enum guest_mode guest_mode(const struct guest *guest)
{
	return atomic_load_explicit(&guest->mode, memory_order_acquire);
}

static inline CUresult guest_refusal(const struct guest *guest)
{
	return atomic_load_explicit(&guest->error, memory_order_relaxed);
}

static inline void guest_close(struct guest *guest, CUresult error)
{
	atomic_store_explicit(&guest->error, error, memory_order_relaxed);
	atomic_store_explicit(&guest->mode, GUEST_CLOSED, memory_order_release);
}

/* The wiped page. Before the first call it is one of zeroes in our own data. */
struct guest_page {
	_Atomic(struct guest *) guest;
};
extern _Atomic(struct guest_page *) guest_page;

/* Makes the guest, or finds that another thread just did. Never NULL. */
struct guest *guest_start(void);

/* NULL before it is made, and in a forked child. */
static inline struct guest *guest_made(void)
{
	struct guest_page *page = atomic_load_explicit(&guest_page, memory_order_acquire);

	return atomic_load_explicit(&page->guest, memory_order_acquire);
}

static inline struct guest *guest_get(void)
{
	struct guest *guest = guest_made();

	return __builtin_expect(guest != NULL, 1) ? guest : guest_start();
}

/* Explains an -errno of the tenant's ledger, in the words of such a line. */
void guest_explain(const struct guest *guest, int error, char *ret, size_t len);

/* The process's slot, once CUDA is initialised. */
static inline struct slot *guest_slot(struct guest *guest)
{
	return atomic_load_explicit(&guest->slot, memory_order_acquire);
}

/* Claims the process's slot, once for all that need it. 0, or an error of slot_claim. */
int guest_claim_slot(struct guest *guest, struct slot **ret);

/*
 * A device that this process has, with its number as above: in a tenant by configuration its limits
 * are put into the policy, see drop_in.h.
 */
void guest_name_device(struct guest *guest, const uint8_t uuid[16], unsigned int ordinal,
		       uint64_t total_bytes);

/* A device by CUDA ordinal; NULL when there is no such device (the driver will say so). */
static inline struct guest_device *guest_device(struct guest *guest, CUdevice ordinal)
{
	return ordinal >= 0 && ordinal < guest->ndevices ? &guest->device[ordinal] : NULL;
}

/*
 * By which number the configuration means a device: CUDA's ordinal, which is known once CUDA runs,
 * else CONFIG_EVERY. AMD's devices are not told apart, and count as 0.
 */
static inline unsigned int guest_ordinal(const struct guest *guest, const uint8_t uuid[16])
{
	bool known = atomic_load_explicit(&guest->slot, memory_order_acquire);

	if (amd_identity_is(uuid))
		return 0;
	for (int i = 0; known && i < guest->ndevices; i++)
		if (!memcmp(guest->device[i].uuid, uuid, sizeof(guest->device[i].uuid)))
			return (unsigned int)i;
	return CONFIG_EVERY;
}

/* With --accounting driver the driver's figure decides, and the ledger keeps what that lacks. */
static inline bool guest_by_driver(const struct guest *guest)
{
	return guest->policy.flags & POLICY_ACCOUNTING_DRIVER;
}

/* The device of the calling thread's current context; NULL when there is none. */
struct guest_device *guest_current_device(struct guest *guest);

/* Differs after every change of the policy, and is never 0: that is a cache not filled yet. */
uint64_t guest_generation(const struct guest *guest);

/* As guest_explain, of the tenant's policy: errors of policy_read. */
void guest_explain_policy(const struct guest *guest, int error, char *ret, size_t len);

/* The tenant's limit on a device, now. 0 for a device that the tenant was not given. */
uint64_t guest_limit(struct guest *guest, struct guest_device *device);

/* The same by name, with the two words in which the answer is kept for a generation. */
uint64_t guest_limit_cached(struct guest *guest, const uint8_t uuid[16], uint64_t total_bytes,
			    _Atomic uint64_t *limit, _Atomic uint64_t *generation);

/* The highest that it ever was: what the tenant holds beyond its limit since that was lowered. */
uint64_t guest_limit_ever(struct guest *guest, const uint8_t uuid[16], uint64_t total_bytes);

/*
 * The same for NVML, which knows devices by UUID and may be used without CUDA. `total_bytes` is
 * what the driver says the device has, `index` its NVML index (configured limits go by number).
 */
uint64_t guest_limit_by_uuid(struct guest *guest, const uint8_t uuid[16], unsigned int index,
			     uint64_t total_bytes);

/*
 * Inside a call to the driver, the driver's own calls of hooked functions are not the program's:
 * hooks pass them on.
 */
extern _Thread_local unsigned int guest_depth __attribute__((tls_model("initial-exec")));

static inline bool guest_inside(void)
{
	return __builtin_expect(guest_depth != 0, 0);
}

/*
 * Inside a call to a driver of another API, whoever's it is: the driver's own way to other drivers is not
 * the program's. All else that it asks for counts, as what AMD's drivers ask of the kernel.
 */
extern _Thread_local unsigned int guest_door_depth __attribute__((tls_model("initial-exec")));

static inline bool guest_inside_door(void)
{
	return guest_inside() || guest_door_depth != 0;
}

/* Launches go as they are: nothing limits or measures them. */
static inline bool guest_gate_is_open(const struct guest *guest)
{
	return __builtin_expect(word_read(guest->gate) == POLICY_GATE_OPEN && !guest->metered, 1);
}

/* DRIVER(cuMemAlloc_v2, (&p, n)): the driver's own function, marked as ours to call. */
#define DRIVER(name, args)                                  \
	({                                                  \
		CUresult driver_result_;                    \
		lock_rank_none(#name);                      \
		guest_depth++;                              \
		driver_result_ = cuda_real.name args;       \
		guest_depth--;                              \
		driver_result_;                             \
	})

#endif
