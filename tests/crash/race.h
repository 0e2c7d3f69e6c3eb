/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two processes race for in test_race.c, which is linked with one of these: race_ledger.c, the
 * quota itself, or race_guest.c, memory by the hooks and the simulated driver.
 */
#ifndef ALLOT_TESTS_CRASH_RACE_H
#define ALLOT_TESTS_CRASH_RACE_H

#include <stdbool.h>
#include <stdint.h>

#define RACE_DEVICES 50 /* at most */
#define RACE_RACERS  2

struct race {
	int devices; /* each has a remainder of its own */
	int batches; /* how often all of them are fought for */
	/* Above the half of the remainder, so that two never fit, up to all of it. */
	uint64_t least_bytes, most_bytes;
};

/* In the parent: before the racers are forked, and when both are done. */
struct race race_begin(void);
void race_end(void);

/* In a racer. */
void race_join(void);
/* Wants `bytes` of a device; whether it got them. *slow: at the second try, where that is known. */
bool race_take(int device, uint64_t bytes, bool *slow);
void race_give(int device, uint64_t bytes);
/* While nobody takes or gives: checks that `bytes`, and what stands there always, are in use. */
void race_check(int device, uint64_t bytes);

#endif
