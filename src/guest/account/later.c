/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/later.h"

#include <sys/prctl.h>
#include <time.h>

#include "base/futex.h"
#include "base/now.h"
#include "guest/account/state.h"
#include "guest/core/own_nvml.h"
#include "guest/process/thread.h"

#define NAP_FIRST_NS UINT64_C(10000000)
#define NAP_MOST_NS  UINT64_C(4000000000)
/* A program makes most of what it has right behind its context: NVML would be opened beside that. */
#define NAP_GUESS_NS UINT64_C(1000000000)

/* The thread may wait until NVML is open, which own_nvml.c gives ten seconds. */
#define EXIT_WAIT_NS UINT64_C(11000000000)

/* guest->account->later */
enum { LATER_NOBODY, LATER_LOOKS, LATER_GUESS };

static _Atomic uint32_t ending; /* the process ends; a futex */

static _Atomic(later_look_fn *) later_look; /* there is one */

void later_released(struct guest_device *device)
{
	atomic_store_explicit(&device->account->released_ns, now_ns(CLOCK_MONOTONIC_COARSE),
			      memory_order_relaxed);
}

static bool later_is_due(struct guest_device *device)
{
	uint64_t released = atomic_load(&device->account->released_ns);

	return atomic_load(&device->account->contexts) > 0 &&
	       (atomic_load(&device->account->unsure) ||
		(released && atomic_load(&device->account->reconciled_ns) < released + LATER_NS));
}

static bool later_any_is_due(struct guest *guest)
{
	for (int i = 0; i < guest->ndevices; i++)
		if (later_is_due(&guest->device[i]))
			return true;
	return false;
}

static bool later_take(struct guest *guest, uint32_t as)
{
	uint32_t nobody = LATER_NOBODY;

	return !atomic_load(&ending) &&
	       atomic_compare_exchange_strong(&guest->account->later, &nobody, as);
}

static void later_look_each(struct guest *guest)
{
	later_look_fn *again = atomic_load(&later_look);
	uint64_t nap = NAP_FIRST_NS;

	while (later_any_is_due(guest)) {
		futex_wait_until(&ending, 0, now_monotonic_ns() + nap);
		for (int i = 0; i < guest->ndevices; i++)
			if (!atomic_load(&ending) && later_is_due(&guest->device[i]))
				again(guest, &guest->device[i]);
		if (atomic_load(&ending))
			return;
		nap = nap * 2 < NAP_MOST_NS ? nap * 2 : NAP_MOST_NS;
	}
}

bool later_is_guessed(struct guest *guest)
{
	for (int i = 0; i < guest->ndevices; i++)
		if (atomic_load(&guest->device[i].account->guessed))
			return true;
	return false;
}

/* Until it is told, or other looks are due, which are sooner. Where NVML tells nothing it never will. */
static void later_look_at_guess(struct guest *guest)
{
	for (uint64_t nap = NAP_GUESS_NS; nap < NAP_MOST_NS; nap *= 2) {
		uint64_t until = now_monotonic_ns() + nap;

		while (now_monotonic_ns() < until && !atomic_load(&ending) &&
		       atomic_load(&guest->account->later) == LATER_GUESS)
			futex_wait_until(&guest->account->later, LATER_GUESS, until);
		for (int i = 0; i < guest->ndevices; i++) {
			struct guest_device *device = &guest->device[i];

			if (atomic_load(&ending) || !atomic_load(&device->account->guessed))
				continue;
			/* A thread of the program may begin with it meanwhile: it is opened once. */
			own_nvml_begin(guest, device->ledger);
			atomic_load(&later_look)(guest, device);
		}
		if (atomic_load(&ending) || !later_is_guessed(guest))
			return;
		if (atomic_load(&guest->account->later) != LATER_GUESS) {
			atomic_store(&guest->account->guess_asked, true); /* behind the others */
			return;
		}
	}
}

static bool later_take_next(struct guest *guest)
{
	if (atomic_load(&guest->account->guess_asked))
		return later_take(guest, LATER_GUESS);
	return later_any_is_due(guest) && later_take(guest, LATER_LOOKS);
}

static void *later_run(void *arg)
{
	struct guest *guest = arg;

	prctl(PR_SET_NAME, "allot-look"); /* for a person who looks at a program's threads */
	do {
		if (atomic_load(&guest->account->later) == LATER_GUESS) {
			atomic_store(&guest->account->guess_asked, false);
			later_look_at_guess(guest);
		}
		later_look_each(guest);
		atomic_store(&guest->account->later, LATER_NOBODY);
		/* Since the last question another thread may have found this one still there. */
	} while (later_take_next(guest));
	return NULL;
}

/* Other looks are due: a thread that waits for a guess alone waits no more. */
static void later_hurry(struct guest *guest)
{
	uint32_t guess = LATER_GUESS;

	if (atomic_compare_exchange_strong(&guest->account->later, &guess, LATER_LOOKS))
		futex_wake_all(&guest->account->later);
}

/* The libraries may not be taken down under our thread. */
static void later_at_exit(void)
{
	uint64_t until = now_monotonic_ns() + EXIT_WAIT_NS;
	struct guest *guest = guest_made();

	atomic_store(&ending, 1);
	futex_wake_all(&ending);
	if (guest)
		later_hurry(guest);
	while (guest && atomic_load(&guest->account->later) && now_monotonic_ns() < until)
		nap_ns(100000);
}

static void later_start(struct guest *guest, later_look_fn *again)
{
	own_nvml_on_exit(later_at_exit);
	atomic_store(&later_look, again);
	if (thread_start(later_run, guest))
		atomic_store(&guest->account->later, LATER_NOBODY);
}

void later_begin(struct guest *guest, struct guest_device *device, later_look_fn *again)
{
	if (!later_is_due(device))
		return;
	if (later_take(guest, LATER_LOOKS))
		later_start(guest, again);
	else
		later_hurry(guest);
}

void later_begin_guess(struct guest *guest, later_look_fn *again)
{
	atomic_store(&guest->account->guess_asked, true);
	own_nvml_load(); /* for the thread, which would wait for a program that loads a library */
	if (later_take(guest, LATER_GUESS))
		later_start(guest, again);
}
