/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which context runs on a device: arbitration between the contexts of all processes, through the
 * region. The device's time is a line that is computed, not waited for: a slice begins where the
 * one before it ended, however late the processor lets an executor look, so shares do not depend on
 * how busy the machine is. Called by executors only.
 */
#ifndef ALLOT_SIM_ENGINE_H
#define ALLOT_SIM_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine_shared.h"

/* A context's place at its device, in this process. */
struct engine_seat {
	struct sim_engine_shared *shared;
	struct sim_engine_seat *seat; /* NULL before engine_sit */
	unsigned int row;
	uint32_t index;
	uint32_t watts; /* that the device draws more while it works for this process */
};

struct engine_turn {
	bool mine;
	uint64_t from_ns; /* mine: the device is this context's from here ... */
	uint64_t to_ns;	  /* ... to here; UINT64_MAX while nobody else has work */
	uint64_t look_ns; /* not mine: look again at a ring, or then */
};

/* 0, or -EAGAIN while all seats are taken. */
int engine_sit(struct engine_seat *seat, unsigned int device);
void engine_leave(struct engine_seat *seat);

/* The context has had work since ready_ns: may it run? Asked anew at each look around. */
void engine_turn(struct engine_seat *seat, uint64_t ready_ns, struct engine_turn *ret_turn);
/*
 * The owner stops at at_ns: out of work, or, with `more`, because its slice is over; then it waits
 * for its next turn. A context that is not the owner and has no more work leaves the line.
 */
void engine_pass(struct engine_seat *seat, uint64_t at_ns, bool more);
/*
 * The context's works had the device from one instant to the other: a bit for each kind that ran
 * (1 << enum sim_time_kind).
 */
void engine_add_busy(struct engine_seat *seat, uint64_t from_ns, uint64_t to_ns, uint32_t kinds);

/*
 * Make the seat's executor look around (any thread), and sleep until a ring that came after
 * `heard` was read, or until until_ns (UINT64_MAX: no limit).
 */
void engine_ring(struct sim_engine_seat *seat);
uint32_t engine_listen(struct engine_seat *seat);
void engine_sleep(struct engine_seat *seat, uint32_t heard, uint64_t until_ns);

#endif
