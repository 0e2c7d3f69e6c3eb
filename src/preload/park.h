/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pauses that the device makes. A program that is held for its debts falls behind: when they are
 * paid, the device waits for it. So where nobody else is concerned a launch is let through and
 * parked: its stream waits on the device for a word, which the keeper writes when the tenant may go
 * on. The program launches ahead meanwhile, as far as there is room for it (room.h).
 *
 * Waiting streams cost neither the processor nor other contexts anything. A word is memory of its
 * context, and goes with it.
 */
#ifndef ALLOT_PRELOAD_PARK_H
#define ALLOT_PRELOAD_PARK_H

#include "preload/gate.h"

/*
 * The tenant owes until then: has the launch wait on the device, behind all that is in its stream.
 * The unit's now is the end of the pause then. False: it cannot be; the launch is to be held here.
 */
bool park_launch(struct guest *guest, struct unit *unit, uint64_t until_ns);

/* Ends the pause, if one is on. Any thread. */
void park_open(struct meter_device *md);

/* For the keeper: ends those that are over. Answers when to look again, UINT64_MAX: none is on. */
uint64_t park_look(struct guest *guest, uint64_t now_ns);

/*
 * For a context that a call of the program may end: its word is not touched until the same with
 * false. No pause is on that its streams wait for.
 */
void park_part(struct meter_device *md, CUcontext context, bool parts);

/* For a new context, current: its word. All zero where the driver does not give one. */
struct park_word park_word_new(void);
void park_word_free(struct park_word word);

/* Whether a pause is on; if so no work begins on the device before `at_ns` at least. */
static inline bool park_is_on(const struct meter_device *md)
{
	return atomic_load_explicit(&md->park.on, memory_order_relaxed);
}

static inline uint64_t park_from(const struct meter_device *md, uint64_t at_ns)
{
	uint64_t until = park_is_on(md) ? atomic_load(&md->park.until_ns) : 0;

	return at_ns > until ? at_ns : until;
}

#endif
