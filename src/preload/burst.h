/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bursts: launches into one stream right behind each other, which the gate lets through without
 * asking, need not take the meter's lock each either. One that had it says how much may follow, in
 * one word that the others take from; whoever takes the lock next ends the burst and counts them.
 */
#ifndef ALLOT_PRELOAD_BURST_H
#define ALLOT_PRELOAD_BURST_H

#include "preload/meter.h"

/*
 * With the lock: behind this launch, which was counted, may follow what is expected to take
 * `most_ns`. Only from the second launch into its stream on: streams that take turns need the lock
 * anyway.
 */
void burst_begin(struct meter_device *md, const struct unit *unit, uint64_t most_ns);

/*
 * Without: whether the launch, of which is known what it takes, belongs to the burst that is on,
 * and there is room for it. Then it is counted, and has its lane.
 */
bool burst_join(struct meter_device *md, struct unit *unit);

/* With the lock: counts what joined the burst that is on. */
void burst_end(struct meter_device *md);

#endif
