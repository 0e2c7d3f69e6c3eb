/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns as the arbiter last wrote them: each word stands for itself. A tenant obeys while beat_ns
 * is young; when it grows old nobody arbitrates, and the tenant keeps to entitled_permille of each
 * device as if that were its cap. Instants are CLOCK_MONOTONIC.
 */
#ifndef ALLOT_LEDGER_TURN_H
#define ALLOT_LEDGER_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/now.h"
#include "ledger/records.h"

struct policy_map;

/*
 * True if nobody arbitrated in the last `for_ns`. An instant that lies ahead is damage, or of
 * before the machine was started anew. Pure.
 */
bool turn_silent(const struct turn *turn, uint64_t now_ns, uint64_t for_ns);

/* The turn as the tenant's processes see it: to be read only, word by word. */
const struct turn *turn_of(const struct policy_map *map);

/*
 * For the arbiter alone: the same, to be written. Keeps no descriptor; not inherited by fork.
 * Errors of policy_open, and -EACCES.
 */
int turn_open(const char *dir, struct turn **ret);
void turn_close(struct turn *turn);

/*
 * Of a device, by its number in residency_file.h: bytes that others hold and cannot take away from there
 * for lack of host memory (sched/stranded.h). The residency's role holder writes them; 0: it has an
 * older allot.
 */
void turn_say_stranded(struct turn *turn, int device, uint64_t bytes);
uint64_t turn_stranded(const struct policy_map *map, int device);

/*
 * For the arbiter alone: writes all but `number` and `begun`. If it is killed meanwhile there is no
 * record until the next one.
 */
void turn_say_waits(struct turn *turn, const struct turn_waits *waits);

/* The record is said anew each second; after this time its arbiter is gone. */
#define TURN_WAITS_OLD_NS (3 * NS_PER_S)
/* True if a copy of the record is whole, and young. Pure. */
bool turn_waits_hold(const struct turn_waits *waits, uint64_t now_ns);

#endif
