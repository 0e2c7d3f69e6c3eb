/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every duration and bound of the meter and of the launch side, once: what it is, why it is so, and
 * where it was measured. "H200" is driver 580.159 under CUDA 13.0; files are in bench/results.
 */
#ifndef ALLOT_SCHED_TUNING_H
#define ALLOT_SCHED_TUNING_H

#include "base/now.h"

/* --- The meter ----------------------------------------------------------------------------- */

/*
 * A pause of a stream that is shorter is the program's own and is billed: nobody else could have
 * used it, since a device takes 140 us to turn to another context (H200).
 */
#define TUNING_GAP_NS (100 * NS_PER_US)
/*
 * The end of what was launched is measured at least so often, by the time since the last measured
 * end: it bounds what a stream can leave unmeasured. A timing event takes 0.8 us to record and as
 * much to read (H200). With a rival the end is to be known sooner, as the rival waits for it.
 */
#define TUNING_END_NS	    NS_PER_MS
#define TUNING_END_RIVAL_NS (NS_PER_MS / 4)

/*
 * Where the program waits so soon after an end that is known no other is recorded: the wait itself
 * tells when the work was done, a few us late. A launch and a wait of 8 us took 3.1 us more with an
 * event each time (H200). For an event of the program nobody tells, so there it is less.
 */
#define TUNING_WAIT_SKIP_NS (50 * NS_PER_US)
#define TUNING_MARK_SKIP_NS (20 * NS_PER_US)
/* An event right before a copy to the host costs that 10 us (H200), so there it is more. */
#define TUNING_COPY_SKIP_NS (200 * NS_PER_US)
/* A copy to or from the host that takes less than a gap is one: at 1.8 GB/s, the slowest (H200). */
#define TUNING_COPY_BYTES UINT64_C(131072)

/* --- Who launches -------------------------------------------------------------------------- */

/* So long a process counts as one of its tenant's that launch; it says so again each so often. */
#define TUNING_ACTIVE_NS       (30 * NS_PER_MS)
#define TUNING_ACTIVE_EVERY_NS (5 * NS_PER_MS)
/* How many do is counted so often. */
#define TUNING_COUNT_NS NS_PER_MS
/*
 * A tenant that waits for its turn wants the device for so long, one that just launched for less.
 */
#define TUNING_DEMAND_NS (10 * NS_PER_MS)
#define TUNING_LINGER_NS (NS_PER_MS / 5)
/* Instants that differ by less are the same to the arbiter: it wakes up for nothing sooner. */
#define TUNING_NEAR_NS (50 * NS_PER_US)
/* A held thread looks so often at limits, which wake nobody, and at its work in flight. */
#define TUNING_LOOK_NS	      (20 * NS_PER_MS)
#define TUNING_GLANCE_HELD_NS (NS_PER_MS / 5)
/* An arbiter that is silent for so long is gone: to a tenant, and to one that would replace it. */
#define TUNING_SILENCE_NS (30 * NS_PER_MS)
#define TUNING_ELECT_NS	  (25 * NS_PER_MS)
/* A process without work of its own keeps the arbiter's role for others for so long. */
#define TUNING_ROLE_NS (1000 * NS_PER_MS)
/* The arbiter is told at most so often that a tenant has nothing left to do. */
#define TUNING_RING_NS (NS_PER_MS / 2)

/* --- Credit: launches that need not ask ---------------------------------------------------- */

/*
 * The driver's own work between two launches pushes ours out of the processor's caches: to ask
 * costs 120 to 160 ns there, after 46 ns in a loop that does nothing else (h200-launch-*). So who
 * asked lets through what comes next, for so long; for longer where nobody else waits.
 */
#define TUNING_CREDIT_NS       (50 * NS_PER_US)
#define TUNING_CREDIT_ALONE_NS (100 * NS_PER_US)

/* --- Slices and pauses --------------------------------------------------------------------- */

/*
 * A pause costs two wake-ups, so none is shorter than this. After each, launches shorter than
 * TUNING_SHORT_NS have to get ahead of the device again, ranks of each other, and several streams
 * end one after the other: these pause less often, for what one more or less shows a second to be
 * off by 1.6 points, but for no longer than TUNING_PAUSE_MOST_NS.
 */
#define TUNING_PAUSE_NS	      (3 * NS_PER_MS)
#define TUNING_PAUSE_PEERS_NS (10 * NS_PER_MS) /* the driver's slices of several processes end early */
#define TUNING_PAUSE_EVEN_NS  (16 * NS_PER_MS)
#define TUNING_PAUSE_MOST_NS  (150 * NS_PER_MS)
#define TUNING_SHORT_NS	      (50 * NS_PER_US)
/* Streams of which so much of their time is each one's own hardly overlap. */
#define TUNING_SPREAD_PERMILLE 750
/* A thread that would wake up before work in flight is paid for sleeps on, no longer than this. */
#define TUNING_MORE_NS (8 * NS_PER_MS)

/* --- The in-flight window ------------------------------------------------------------------ */

/* By expected time: two kernels of 1 ms keep a device busy. */
#define TUNING_WINDOW_NS (2 * NS_PER_MS)
/*
 * More where nobody else waits for the device, as far as a pause pays for it: a program that
 * launches now faster, now slower than the device works keeps ahead of it.
 */
#define TUNING_WINDOW_ALONE_LEAST_NS (4 * NS_PER_MS)
#define TUNING_WINDOW_ALONE_MOST_NS  (12 * NS_PER_MS)
#define TUNING_WINDOW_ALONE_PAUSE_NS (36 * NS_PER_MS)
#define TUNING_WINDOW_LARGE_MOST_NS  (24 * NS_PER_MS)
#define TUNING_WINDOW_LARGE_PAUSE_NS (8 * NS_PER_MS)
/* What several processes have in flight together takes no longer than this to pay for. */
#define TUNING_WINDOW_PEERS_PAUSE_NS (16 * NS_PER_MS)
#define TUNING_WINDOW_PEERS_MOST_NS  (8 * NS_PER_MS)
/* Where one launch of each process takes longer than this to pay for, fewer go at once. */
#define TUNING_ROUND_PAUSE_NS (100 * NS_PER_MS)
/* Who found no room has some when this part of it is done; of ranks, or one would be ahead. */
#define TUNING_REFILL_PART	 2
#define TUNING_REFILL_RANKS_PART 8
/* Before a launch was measured. */
#define TUNING_UNKNOWN_NS NS_PER_MS
/*
 * While a higher priority may come, so much: the device works off all that is queued before it
 * turns to another context. What takes longer goes one launch at a time, and its end is looked out
 * for, awake for the last part of it. Beside one that works for long at a time, a part of that: a
 * program whose processor is its limit lives on what it has launched ahead (a training step on an
 * H200: 80 % of its speed with 350 us in flight, 86 % with 700 to 1500, 91 % with 5 ms).
 */
#define TUNING_URGED_NS	     (300 * NS_PER_US)
#define TUNING_URGED_MOST_NS (1400 * NS_PER_US)
#define TUNING_URGED_PART    5
#define TUNING_LOOKOUT_NS (125 * NS_PER_US)
/*
 * Launched so long before the end of the last one, it begins right behind: a kernel of 1 ms has
 * 1 % more of the device, and requests that go first take no longer at the 99th percentile (H200).
 */
#define TUNING_EARLY_NS (10 * NS_PER_US)
/*
 * Work may wait for what the same program launches next, so a launch gives up waiting for room
 * after so long.
 */
#define TUNING_PATIENCE_NS	(20 * NS_PER_MS)
#define TUNING_PATIENCE_MOST_NS (200 * NS_PER_MS)
/* Late work is looked at again after a part of the time that it took so far, within these. */
#define TUNING_LATE_PART     16
#define TUNING_LATE_LEAST_NS (50 * NS_PER_US)
#define TUNING_LATE_MOST_NS  NS_PER_MS
/* Work that takes less than was expected is seen to be done so soon. */
#define TUNING_GLANCE_NS NS_PER_MS
/* A thread that is let go wakes up so soon, unless the machine is out of processors. */
#define TUNING_WAKE_MOST_NS (10 * NS_PER_MS)
/* How much the device does at once is learned over so much work. */
#define TUNING_OVERLAP_NS (10 * NS_PER_MS)

/*
 * Whose work took so much longer than twice what was expected, or is launched for the first time,
 * is not handed over from before its end is seen, for so long: both would be billed for what they
 * then have at once. A hand-over takes 100 us more so (H200).
 */
#define TUNING_UNFORESEEN_NS	 NS_PER_MS
#define TUNING_UNFORESEEN_FOR_NS (1000 * NS_PER_MS)

/* --- Turns --------------------------------------------------------------------------------- */

/* A turn begins no longer after it is given; its beginning is awaited awake for so long. */
#define TUNING_EDGE_MOST_NS  NS_PER_MS
#define TUNING_EDGE_AWAKE_NS (NS_PER_MS / 5)
/* Work that goes before all others is seen to begin so soon, or after a part of its wait more. */
#define TUNING_BEGIN_NS	     (NS_PER_MS / 10)
#define TUNING_BEGIN_PART    8
/* What has not begun for so long waits for something else. */
#define TUNING_BEGIN_MOST_NS (100 * NS_PER_MS)

/* --- Stalls of a stream -------------------------------------------------------------------- */

/* A pause no longer than two wake-ups is not worth a third. */
#define TUNING_STALL_LEAST_NS (200 * NS_PER_US)
/* Launches that take as long are held as exactly by the processor, for which that is less work. */
#define TUNING_STALL_LONG_NS (200 * NS_PER_US)
/* Streams that were used so short a time ago work side by side, and are held. */
#define TUNING_STALL_BESIDE_NS (100 * NS_PER_MS)

/* --- The monitor thread -------------------------------------------------------------------- */

/* It looks so often while work is in flight: with a rival, alone, and where others look. */
#define TUNING_TICK_NS	     NS_PER_MS
#define TUNING_TICK_ALONE_NS (2 * NS_PER_MS)
#define TUNING_TICK_REST_NS  (10 * NS_PER_MS)
/* After work it goes on looking for so long: a program that pauses would ring for each burst. */
#define TUNING_TICK_LINGER_NS (50 * NS_PER_MS)
/* What another thread looked at so short a time ago it need not look at. */
#define TUNING_RECENT_NS (5 * NS_PER_MS)

#endif
