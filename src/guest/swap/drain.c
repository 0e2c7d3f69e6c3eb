/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/drain.h"

#include <errno.h>

#include "base/now.h"
#include "base/word.h"
#include "guest/account/state.h"
#include "guest/core/capturing.h"
#include "guest/core/object.h"
#include "guest/core/pass.h"
#include "guest/swap/mover.h"
#include "ledger/swap.h"

/* Between two looks whether calls are over: most take microseconds, some as long as a kernel. */
#define NAP_FIRST_NS 20000
#define NAP_MOST_NS  1000000

static void drain_nap(long *ns)
{
	nap_ns(*ns);
	*ns = *ns * 2 < NAP_MOST_NS ? *ns * 2 : NAP_MOST_NS;
}

int drain_contexts(struct guest *guest, struct drain_context ret[static DRAIN_CONTEXTS])
{
	struct object object[OBJECT_BATCH];
	uint64_t above = 0;
	int n = 0, found;

	for (int i = 0; i < guest->ndevices && n < DRAIN_CONTEXTS; i++) {
		CUcontext primary = atomic_load(&guest->account->primary[i]);

		if (primary)
			ret[n++] = (struct drain_context){primary, &guest->device[i]};
	}
	do {
		found = object_list(guest->objects, OBJECT_CONTEXT, above, object, OBJECT_BATCH);
		for (int i = 0; i < found; i++) {
			if (n == DRAIN_CONTEXTS)
				return -ENOSPC;
			above = object[i].key;
			ret[n++] = (struct drain_context){(CUcontext)(uintptr_t)above,
							  guest_device(guest, object[i].device)};
		}
	} while (found == OBJECT_BATCH);
	return n;
}

enum swap_why drain_work(struct guest *guest)
{
	struct drain_context context[DRAIN_CONTEXTS];
	CUcontext popped;
	int n = drain_contexts(guest, context);
	CUresult e;

	for (int i = 0; i < n; i++) {
		e = DRIVER(cuCtxPushCurrent_v2, (context[i].context));
		if (e)
			return SWAP_DRIVER;
		e = DRIVER(cuCtxSynchronize, ());
		DRIVER(cuCtxPopCurrent_v2, (&popped));
		if (e)
			return SWAP_DRIVER;
	}
	return n < 0 ? SWAP_DRIVER : SWAP_FINE;
}

static bool drain_is_asked(struct guest *guest, uint32_t request)
{
	return word_acquire(swap_request(guest->policy_map)) == request;
}

static void drain_yield(const struct movers *movers)
{
	if (movers)
		movers_yield(movers);
}

/* A capture ends only while its thread may go on, so it is waited for with the gate open. */
static bool drain_shut(struct guest *guest, uint32_t request, const struct movers *movers)
{
	long nap = NAP_FIRST_NS;

	while (drain_is_asked(guest, request)) {
		if (!capturing_any(guest)) {
			pass_shut(guest);
			while (!pass_is_empty(guest) && drain_is_asked(guest, request)) {
				drain_yield(movers);
				drain_nap(&nap);
			}
			if (pass_is_empty(guest) && !capturing_any(guest))
				return true;
			pass_open(guest);
		}
		drain_yield(movers);
		drain_nap(&nap);
	}
	return false;
}

enum swap_why drain_process(struct guest *guest, uint32_t request, const struct movers *movers)
{
	enum swap_why why = SWAP_BUSY;

	if (drain_shut(guest, request, movers)) {
		why = SWAP_FINE;
		for (int i = 0; !why && movers && i < MOVERS; i++)
			why = movers->mover[i].kind->rest(movers->mover[i].self);
	}
	/* Work that takes long may have had the request withdrawn, and threads let on by it. */
	if (!why && !(pass_confirm(guest) && drain_is_asked(guest, request)))
		why = SWAP_BUSY;
	return why;
}
