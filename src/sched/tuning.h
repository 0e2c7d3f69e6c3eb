/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every duration and bound of the meter, of the launch side, and of who has its memory on a device,
 * once: what it is, why it is so, and where it was measured. "H200" is driver 580.159 under CUDA
 * 13.0; files are in bench/results.
 */
#ifndef ALLOT_SCHED_TUNING_H
#define ALLOT_SCHED_TUNING_H

#include "base/now.h"

/* --- The meter ----------------------------------------------------------------------------- */

/*
 * A stream's pause that is shorter than this is billed to the program: no other program could have
 * used it, since a device takes 140 us to turn to another context (H200).
 */
#define TUNING_GAP_NS (100 * NS_PER_US)
/*
 * A stream's end is measured when its last measured end is so long ago, which bounds the work that
 * a stream can leave unmeasured. A timing event takes 0.8 us to record and as much to read (H200).
 * Where another tenant waits for the end, it is measured sooner.
 */
#define TUNING_END_NS	    NS_PER_MS
#define TUNING_END_RIVAL_NS (NS_PER_MS / 4)

/*
 * A program that waits so soon after a measured end gets no timing event for it: its wait tells
 * when the work was done, a few us late. A launch and a wait of 8 us took 3.1 us more with an event
 * each time (H200). Where the program records an event of its own, nothing tells when that was
 * reached, so there it is less.
 */
#define TUNING_WAIT_SKIP_NS (50 * NS_PER_US)
#define TUNING_MARK_SKIP_NS (20 * NS_PER_US)
/* An event right before a copy to the host costs that 10 us (H200), so there it is more. */
#define TUNING_COPY_SKIP_NS (200 * NS_PER_US)
/*
 * A program that knows so soon of an end that an event told knows of the next ones as soon, and is
 * believed for TUNING_END_NS, or a few waits: what it is late by is less than a pause that is
 * billed anyway. An event each time was 4 us of a request of 142 (H200), and 9 of 150 (H100,
 * another host).
 */
#define TUNING_PROMPT_NS (50 * NS_PER_US)
/* A copy to or from the host that takes less than a gap is one: at 1.8 GB/s, the slowest (H200). */
#define TUNING_COPY_BYTES UINT64_C(131072)

/* --- Who launches -------------------------------------------------------------------------- */

/* A process that launched counts as active for so long, and says again each so often that it is. */
#define TUNING_ACTIVE_NS       (30 * NS_PER_MS)
#define TUNING_ACTIVE_EVERY_NS (5 * NS_PER_MS)
/* How often the active processes of a tenant are counted. */
#define TUNING_COUNT_NS NS_PER_MS
/*
 * A tenant that waits for its turn wants the device for so long, one that just launched for less.
 */
#define TUNING_DEMAND_NS (10 * NS_PER_MS)
#define TUNING_LINGER_NS (NS_PER_MS / 5)
/*
 * Work of a process that says nothing any more, neither that it works nor that it is done, is over.
 */
#define TUNING_WORKS_NS (10 * NS_PER_MS)
/* Instants that differ by less are the same to the arbiter: it wakes up for nothing sooner. */
#define TUNING_NEAR_NS (50 * NS_PER_US)
/* A held thread looks so often at limits, which wake nobody, and at its work in flight. */
#define TUNING_LOOK_NS	      (20 * NS_PER_MS)
#define TUNING_GLANCE_HELD_NS (NS_PER_MS / 5)
/* An arbiter that is silent for so long is gone: to a tenant, and to one that would replace it. */
#define TUNING_SILENCE_NS (30 * NS_PER_MS)
#define TUNING_ELECT_NS	  (25 * NS_PER_MS)
/* One that makes no step for so long, though it is rung for, is stopped, or as good as. */
#define TUNING_STOPPED_NS (100 * NS_PER_MS)
/*
 * One whose next step is so late may have been killed: who would replace it tries, at most so
 * often.
 */
#define TUNING_OVERDUE_NS (2 * NS_PER_MS)
/* A process without work of its own keeps the arbiter's role for others for so long. */
#define TUNING_ROLE_NS (1000 * NS_PER_MS)
/* The arbiter is told at most so often that a tenant has nothing left to do. */
#define TUNING_RING_NS (NS_PER_MS / 2)

/* --- Credit: launches that need not ask ---------------------------------------------------- */

/*
 * The driver's own work between two launches pushes ours out of the processor's caches: to ask
 * costs 120 to 160 ns there, after 46 ns in a loop that does nothing else (h200-launch-*). So a
 * launch that asked lets those behind it through for so long, and for longer where no other tenant
 * waits.
 */
#define TUNING_CREDIT_NS       (50 * NS_PER_US)
#define TUNING_CREDIT_ALONE_NS (100 * NS_PER_US)

/* --- Slices and pauses --------------------------------------------------------------------- */

/*
 * A pause costs two wake-ups, so none is shorter than this. After a pause, launches shorter than
 * TUNING_SHORT_NS have to get ahead of the device again, ranks wait for each other, and several
 * streams end one after the other. Such programs pause less often and longer, but no longer than
 * TUNING_PAUSE_MOST_NS. TUNING_PAUSE_EVEN_NS is where one pause more or less makes a second look
 * off by 1.6 points.
 */
#define TUNING_PAUSE_NS		 (3 * NS_PER_MS)
#define TUNING_PAUSE_SIBLINGS_NS (10 * NS_PER_MS) /* the driver ends slices of several early */
#define TUNING_PAUSE_EVEN_NS	 (16 * NS_PER_MS)
#define TUNING_PAUSE_MOST_NS	 (150 * NS_PER_MS)
#define TUNING_SHORT_NS		 (50 * NS_PER_US)
/* Streams hardly overlap if each has the device to itself for so much of its time. */
#define TUNING_SPREAD_PERMILLE 750
/* A thread that would wake up before work in flight is paid for sleeps on, no longer than this. */
#define TUNING_MORE_NS (8 * NS_PER_MS)

/* --- The in-flight window ------------------------------------------------------------------ */

/* Most in flight, by expected time: two kernels of 1 ms keep a device busy. */
#define TUNING_WINDOW_NS (2 * NS_PER_MS)
/*
 * More is in flight where no other tenant waits for the device, as far as a pause of these lengths
 * pays for it: so a program keeps ahead that launches now faster, now slower than the device works.
 */
#define TUNING_WINDOW_ALONE_LEAST_NS (4 * NS_PER_MS)
#define TUNING_WINDOW_ALONE_MOST_NS  (12 * NS_PER_MS)
#define TUNING_WINDOW_ALONE_PAUSE_NS (36 * NS_PER_MS)
#define TUNING_WINDOW_LARGE_MOST_NS  (24 * NS_PER_MS)
#define TUNING_WINDOW_LARGE_PAUSE_NS (8 * NS_PER_MS)
/* Several processes have no more in flight together than a pause of this length pays for. */
#define TUNING_WINDOW_SIBLINGS_PAUSE_NS (16 * NS_PER_MS)
#define TUNING_WINDOW_SIBLINGS_MOST_NS	(8 * NS_PER_MS)
/* Where one launch of each process takes longer than this to pay for, fewer go at once. */
#define TUNING_ROUND_PAUSE_NS (100 * NS_PER_MS)
/*
 * A launch that found no room waits until this part of the window is done. Ranks of a collective
 * wait for less of it, or one would get ahead of the others.
 */
#define TUNING_REFILL_PART	 2
#define TUNING_REFILL_RANKS_PART 8
/* What a launch is expected to take that was never measured. */
#define TUNING_UNKNOWN_NS NS_PER_MS
/*
 * What was not launched for so long may be of another size now: as if it was never measured. A
 * hundred launches of 2 ms that took 20 us before were all let go at once (audit seed 3426).
 */
#define TUNING_FORGET_NS (1000 * NS_PER_MS)
/*
 * Most in flight while a tenant of higher priority may come: the device works off all that is
 * queued before it turns to another context. Longer launches go one at a time; the monitor looks
 * for the end of each, awake for the last part (TUNING_LOOKOUT_NS). Beside a priority that works
 * for long at a time, a part of that time may be in flight: a program whose processor is its limit
 * lives on what it has launched ahead (a training step on an H200: 80 % of its speed with 350 us in
 * flight,
 * 86 % with 700 to 1500, 91 % with 5 ms).
 */
#define TUNING_URGED_NS	     (300 * NS_PER_US)
#define TUNING_URGED_MOST_NS (1400 * NS_PER_US)
#define TUNING_URGED_PART    5
#define TUNING_LOOKOUT_NS    (125 * NS_PER_US)
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
/* Behind late work in its own stream it waits for less at first. */
#define TUNING_BEHIND_NS (5 * NS_PER_MS)
/* Late work is looked at again after a part of the time that it took so far, within these. */
#define TUNING_LATE_PART     16
#define TUNING_LATE_LEAST_NS (50 * NS_PER_US)
#define TUNING_LATE_MOST_NS  NS_PER_MS
/*
 * Work that takes less than was expected is seen to be done after this by who waits for room, at
 * the soonest. A tenant that slept for as long as was expected had 30 to 41 % under a cap of 50:
 * twenty launches of 50 us in flight were expected to take 16 ms, like the long one that followed
 * them (audit's tail). One that looked when it had waited for as long again had 85 % under a cap of
 * 90: launches of 50 ms were expected to take 83, as after a first limit (H100).
 */
#define TUNING_GLANCE_NS NS_PER_MS
/* A thread that is let go wakes up so soon, unless the machine is out of processors. */
#define TUNING_WAKE_MOST_NS (10 * NS_PER_MS)
/*
 * Where nothing gets done for so much longer, and half as long again, as what the streams have next
 * should take, that may wait for another launch of its tenant: nobody of that is held for long then.
 */
#define TUNING_AWAITED_NS (3 * NS_PER_MS)
/*
 * How long a process's word that its work is late counts, and how often a held launch looks for late
 * work. A look each millisecond takes 1.5 % of a processor (H100).
 */
#define TUNING_AWAITED_FOR_NS  (5 * NS_PER_MS)
#define TUNING_AWAITED_LOOK_NS (2 * NS_PER_MS)
/*
 * Late work that is done so soon after a launch was let go has waited for that. Another process may
 * have the device in between. For so long the tenant's work is late sooner then, after this and an
 * eighth of what is next. If the next late work goes on all the same it was chance, and that is over.
 */
#define TUNING_HANDED_NS	  (NS_PER_MS / 5)
#define TUNING_HANDED_BESIDE_NS	  (4 * NS_PER_MS)
#define TUNING_HANDED_FOR_NS	  (3000 * NS_PER_MS)
#define TUNING_AWAITED_SOON_NS	  (NS_PER_MS / 2)
/*
 * ... or for this part of what is in flight, where that is more: what goes behind it ends nothing, and by
 * chance alone all of a long queue would go in others' turns.
 */
#define TUNING_AWAITED_PART	  4
/* How much the device does at once is learned over so much work. */
#define TUNING_OVERLAP_NS (10 * NS_PER_MS)

/*
 * What work took and what was expected are apart by more than twice the one, and so much, or it was
 * never measured: then for so long the next tenant gets the device only when the end of this one's
 * work was seen, since both would be billed for what they have on the device at once. A hand-over
 * takes 100 us more so (H200).
 */
#define TUNING_UNFORESEEN_NS	 NS_PER_MS
#define TUNING_UNFORESEEN_FOR_NS (1000 * NS_PER_MS)

/* --- Turns --------------------------------------------------------------------------------- */

/*
 * Work of a turn that is over, and is late, is waited for so long where that was in vain before: what
 * it waits for may be another tenant. And so long a launch of its own tenant may end it.
 */
#define TUNING_LEAVING_NS (50 * NS_PER_MS)
/* Below a higher priority a process lets one launch go so often, if late work may wait for it. */
#define TUNING_TRY_NS (500 * NS_PER_MS)

/*
 * How long a turn is. A device stands still for 140 us between two contexts (H200), which is about
 * 1 % of it. Turns are shorter where nobody works for longer at a time than is said here: each
 * brief answer would else wait for the long turns of the others.
 */
#define TUNING_SLICE_NS	      (12 * NS_PER_MS)
#define TUNING_BRIEF_NS	      NS_PER_MS
#define TUNING_BRIEF_SLICE_NS (4 * NS_PER_MS)
/*
 * Who works for so long, or up to a turn, and then waits for it, has nothing queued for when its
 * turn begins: a hand-over between two token loops of 3.9 and 4.4 ms a step loses 0.3 ms, which is
 * 2 % of a turn of three steps (H200, 2026-11-24, by what was billed to nobody). Where all are
 * such, one round of turns takes this, so that of two each has 48 ms and the hand-over is 0.6 % of
 * that. A step that waits for the others takes that much longer: for two 48 ms, for n a part
 * (n - 1) / n of the round.
 */
#define TUNING_LONG_NS	     (2 * NS_PER_MS)
#define TUNING_LONG_ROUND_NS (96 * NS_PER_MS)
/* Of these an owner is waited for that pauses for no longer than what a hand-over loses. */
#define TUNING_LONG_GRACE_NS (300 * NS_PER_US)

/*
 * What a floor has at a time. At 5 % that is one in a second, which fewer than a hundredth of steps
 * of 5 ms meet: with two of half the length the 99th percentile of such steps was one of them (29.7
 * ms beside matrix products, H100).
 */
#define TUNING_LIFT_NS (48 * NS_PER_MS)

/* A turn begins within this time of being given. A thread that waits for it is awake at the end. */
#define TUNING_EDGE_MOST_NS  NS_PER_MS
#define TUNING_EDGE_AWAKE_NS (NS_PER_MS / 5)
/* Work of the first priority is seen to begin within this time, or this part of its wait. */
#define TUNING_BEGIN_NS	  (NS_PER_MS / 10)
#define TUNING_BEGIN_PART 8
/* Work that has not begun for so long waits for something else than the device. */
#define TUNING_BEGIN_MOST_NS (100 * NS_PER_MS)

/* --- Stalls of a stream -------------------------------------------------------------------- */

/* A pause no longer than two wake-ups is not worth a third. */
#define TUNING_STALL_LEAST_NS (200 * NS_PER_US)
/* Launches that take so long are held by the processor: it is as exact, and less work. */
#define TUNING_STALL_LONG_NS (200 * NS_PER_US)
/* Streams that were used so short a time ago work side by side, and are held. */
#define TUNING_STALL_BESIDE_NS (100 * NS_PER_MS)

/* --- Memory that tenants take turns on ------------------------------------------------------ */

/*
 * A turn is so many times as long as it takes to move out and back those who change places, so that
 * moving takes a sixth of the time at most; and no less than this, which is what waiting for work,
 * two wake-ups and a look at all processes may come to beside little memory.
 */
#define TUNING_RESIDENCY_SWAPS	  5
#define TUNING_RESIDENCY_LEAST_NS (100 * NS_PER_MS)
/*
 * Who does not touch its memory for a part of the time that it takes to move it is idle: to be
 * wrong about that costs little more than what was waited. And no less than this, as long as
 * programs are busy with something else between two launches.
 */
#define TUNING_RESIDENCY_IDLE_NS   (20 * NS_PER_MS)
#define TUNING_RESIDENCY_IDLE_PART 4
/* Who has waited for so many turns goes before higher priorities. */
#define TUNING_RESIDENCY_PATIENCE 8
/*
 * As much of a tenant leaves as another needs, and no less than this part of it, since an
 * allocation that finds the device full is often followed by others.
 */
#define TUNING_RESIDENCY_STEP_PART 16
/* Until it was measured: what PCIe 4 and a processor that finds pages do together. */
#define TUNING_RESIDENCY_BYTES_PER_US 10000
/*
 * This part of a tenant leaves first, and what is left behind it: who comes takes the place of what has
 * left while the rest leaves, both ways at once.
 */
#define TUNING_RESIDENCY_FIRST_PART 24
/*
 * Of a device, what stays free where several tenants are there: for the driver's own, and contexts.
 */
#define TUNING_RESIDENCY_SPARE_PART 64
/* The same while some come as others leave, which needs little itself. */
#define TUNING_RESIDENCY_COMES_PART 256
/* How often who decides looks: while something moves, and while somebody waits. */
#define TUNING_RESIDENCY_MOVES_NS NS_PER_MS
#define TUNING_RESIDENCY_WAITS_NS (5 * NS_PER_MS)
/* An allocation that found the device full tries again so often. */
#define TUNING_RESIDENCY_TRY_NS (2 * NS_PER_MS)
/*
 * Work that begins without a call, as by an AMD queue's doorbell, is looked for so often: less than
 * IDLE, so that who has some is never taken for idle, and little beside what moving takes.
 */
#define TUNING_RESIDENCY_LOOK_NS (5 * NS_PER_MS)
/* A process that waits looks so often whether there still is somebody who decides. */
#define TUNING_RESIDENCY_ELECT_NS (50 * NS_PER_MS)
/* Who decides and has made no step for so long is stopped, or as good as: another one decides. */
#define TUNING_RESIDENCY_SILENT_NS (2 * NS_PER_S)
/* Work of a tenant that is to leave is waited for so long, and not again for as long. */
#define TUNING_RESIDENCY_DRAIN_NS (10 * NS_PER_S)
/*
 * A process that has not begun to leave by then is stopped: others leave in its place. It is less
 * than REFUSE, behind SILENT, so that no allocation is refused for it.
 */
#define TUNING_RESIDENCY_ASLEEP_NS NS_PER_S
/*
 * A process of which nothing has moved for so long, while it leaves or comes, is stopped, and the
 * others go on without it. What moves is told at least by the GiB, which takes a slow bus a second.
 */
#define TUNING_RESIDENCY_STUCK_NS (5 * NS_PER_S)
/* Who cannot leave, or not come back, is asked again after so long. */
#define TUNING_RESIDENCY_AGAIN_NS NS_PER_S
/*
 * A device that so often refuses memory although there should be room has less than is known, since
 * others use it, too. That is believed for so long.
 */
#define TUNING_RESIDENCY_FAILURES 3
#define TUNING_RESIDENCY_LOST_NS  (5 * NS_PER_S)
/*
 * An allocation is not refused sooner for what may change: others that find no room on the host for
 * a moment, a program of no tenant that is about to end.
 */
#define TUNING_RESIDENCY_REFUSE_NS (5 * NS_PER_S)
/* Of the host's memory, what stays free beside what is found ahead, or is given back. */
#define TUNING_RESIDENCY_HOST_PART 8

/* --- The monitor thread -------------------------------------------------------------------- */

/* How often it looks while work is in flight: with a rival, alone, and where other threads look. */
#define TUNING_TICK_NS	     NS_PER_MS
#define TUNING_TICK_ALONE_NS (2 * NS_PER_MS)
#define TUNING_TICK_REST_NS  (10 * NS_PER_MS)
/* It goes on for so long after work, or a program that pauses would wake it for each burst. */
#define TUNING_TICK_LINGER_NS (50 * NS_PER_MS)
/* It passes over a device that another thread looked at so short a time ago. */
#define TUNING_RECENT_NS (5 * NS_PER_MS)

#endif
