/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/pass.h"

#include "base/futex.h"
#include "base/now.h"
#include "base/word.h"
#include "ledger/swap.h"

/* Calls of this thread that have a pass, one within the other. */
static _Thread_local unsigned int pass_depth __attribute__((tls_model("initial-exec")));

/* So often a thread that waits while work ends looks whether that is still asked for. */
#define LOOK_NS (20 * NS_PER_MS)

void pass_init(struct guest *guest)
{
	if (!guest->policy_map || !(guest->policy.flags & POLICY_SWAPPABLE))
		return;
	if (!once_begin(&guest->passes))
		return;
	if (swap_phase_of(word_check(swap_request(guest->policy_map))) != SWAP_RUN)
		atomic_store(&guest->pass.shut, PASS_SHUTTING);
	guest->swappable = true;
	once_end(&guest->passes, 0);
}

/* The thread that would open the gate may be waiting for work that does not end. */
static void pass_look(struct guest *guest, uint32_t seen)
{
	uint32_t shutting = PASS_SHUTTING;

	futex_wait_until(&guest->pass.shut, seen, now_monotonic_ns() + LOOK_NS);
	if (swap_phase_of(word_acquire(swap_request(guest->policy_map))) == SWAP_RUN &&
	    atomic_compare_exchange_strong(&guest->pass.shut, &shutting, PASS_OPEN))
		futex_wake_all(&guest->pass.shut);
}

struct guest *pass_try(struct guest *guest)
{
	struct pass_gate *pass = &guest->pass;

	if (pass_depth++)
		return guest;
	atomic_fetch_add(&pass->inside, 1);
	if (__builtin_expect(atomic_load(&pass->shut) == PASS_OPEN, 1))
		return guest;
	pass_end(guest);
	return NULL;
}

struct guest *pass_wait(struct guest *guest)
{
	while (!pass_try(guest)) {
		uint32_t seen = atomic_load(&guest->pass.shut);

		if (seen == PASS_SHUT)
			futex_wait(&guest->pass.shut, seen);
		else if (seen == PASS_SHUTTING)
			pass_look(guest, seen);
	}
	return guest;
}

void pass_end(struct guest *guest)
{
	if (--pass_depth == 0)
		atomic_fetch_sub(&guest->pass.inside, 1);
}

void pass_shut(struct guest *guest)
{
	uint32_t open = PASS_OPEN;

	atomic_compare_exchange_strong(&guest->pass.shut, &open, PASS_SHUTTING);
}

bool pass_is_empty(const struct guest *guest)
{
	return !atomic_load(&guest->pass.inside);
}

bool pass_confirm(struct guest *guest)
{
	uint32_t shutting = PASS_SHUTTING;

	return atomic_compare_exchange_strong(&guest->pass.shut, &shutting, PASS_SHUT) ||
	       shutting == PASS_SHUT;
}

void pass_open(struct guest *guest)
{
	atomic_store(&guest->pass.shut, PASS_OPEN);
	futex_wake_all(&guest->pass.shut);
}
