/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/pass.h"

#include "base/futex.h"
#include "base/now.h"
#include "base/word.h"
#include "guest/core/trace.h"
#include "ledger/role/role_file.h"
#include "ledger/swap.h"

/* Calls of this thread that have a pass, one within the other. */
static _Thread_local unsigned int pass_depth __attribute__((tls_model("initial-exec")));

/* How often a thread that waits for work to end checks that the request still stands. */
#define LOOK_NS (20 * NS_PER_MS)

void pass_init(struct guest *guest)
{
	if (!(guest->policy.flags & POLICY_SWAPPABLE))
		return;
	if (!once_begin(&guest->passes))
		return;
	if (swap_phase_of(word_check(swap_request(guest->policy_map))) != SWAP_RUN)
		atomic_store(&guest->pass.shut, PASS_SHUTTING);
	if (guest->policy.flags & POLICY_OVERCOMMIT)
		guest->use = swap_use_of(guest->ledger, slot_index(guest->claimed));
	guest->swappable = true;
	once_end(&guest->passes, 0);
}

/* The clock of the kernel's last tick costs a few ns, and is exact enough. */
static void pass_touch(struct guest *guest)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC_COARSE);

	if (word_read(&guest->use->at_ns) != now)
		word_write(&guest->use->at_ns, now);
}

void pass_use(struct guest *guest)
{
	pass_touch(guest);
}

void pass_work(struct guest *guest, int more)
{
	word_add(&guest->use->inside, (uint32_t)more);
	pass_touch(guest);
}

void pass_want(struct guest *guest)
{
	struct residency_file *file = atomic_load(&guest->residency);

	/* Pairs with a role that is about to be dropped: one of the two sees the other. */
	word_publish_add(&guest->use->waiting, 1);
	if (file)
		role_file_ring(file);
}

void pass_want_no_more(struct guest *guest)
{
	word_sub(&guest->use->waiting, 1);
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
	if (__builtin_expect(atomic_load(&pass->shut) == PASS_OPEN, 1)) {
		if (guest->use)
			pass_touch(guest);
		return guest;
	}
	pass_end(guest);
	return NULL;
}

struct guest *pass_wait(struct guest *guest)
{
	bool wants = false;
	uint64_t from = 0;

	while (!pass_try(guest)) {
		uint32_t seen = atomic_load(&guest->pass.shut);

		from = from ? from : now_monotonic_ns();

		if (guest->use && !wants) {
			pass_want(guest);
			wants = true;
		}
		if (seen == PASS_SHUT)
			futex_wait(&guest->pass.shut, seen);
		else if (seen == PASS_SHUTTING)
			pass_look(guest, seen);
	}
	if (from)
		trace(guest, TRACE_GATE, -1, now_monotonic_ns() - from, 0, 0);
	if (wants)
		pass_want_no_more(guest);
	return guest;
}

bool pass_lend(struct guest *guest)
{
	if (pass_depth != 1)
		return false;
	pass_end(guest);
	return true;
}

void pass_end(struct guest *guest)
{
	if (--pass_depth)
		return;
	if (guest->use)
		pass_touch(guest);
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
