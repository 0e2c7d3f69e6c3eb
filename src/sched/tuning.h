/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every duration and bound of the meter, of the launch side, and of residency, once: its meaning,
 * its reason, and where it was measured. "H200" is driver 580.159 under CUDA 13.0; files are in
 * bench/results.
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
 * A stream's end is measured when its last measured end is this long ago, which bounds the work
 * that a stream can leave unmeasured. A timing event takes 0.8 us to record and as much to read
 * (H200). If another tenant waits for the end, it is measured sooner.
 */
#define TUNING_END_NS	    NS_PER_MS
#define TUNING_END_RIVAL_NS (NS_PER_MS / 4)

/*
 * A program that waits within this time after a measured end gets no timing event for it: its wait
 * tells when the work was done, a few us late. A launch and a wait of 8 us took 3.1 us more with an
 * event each time (H200). If the program records an event of its own, nothing tells when that was
 * reached, so the time is shorter there.
 */
#define TUNING_WAIT_SKIP_NS (50 * NS_PER_US)
#define TUNING_MARK_SKIP_NS (20 * NS_PER_US)
/* An event directly before a copy to the host costs the copy 10 us (H200), so there it is longer. */
#define TUNING_COPY_SKIP_NS (200 * NS_PER_US)
/*
 * A program that knew of a measured end within this time knows of the next ones as soon, and is
 * believed for TUNING_END_NS, or a few waits: its delay is less than a pause that is billed anyway.
 * An event each time was 4 us of a request of 142 (H200), and 9 of 150 (H100, another host).
 */
#define TUNING_PROMPT_NS (50 * NS_PER_US)
/* A copy to or from the host that takes less than a gap is one: at 1.8 GB/s, the slowest (H200). */
#define TUNING_COPY_BYTES UINT64_C(131072)

/* --- Launching processes, and the arbiter -------------------------------------------------- */

/* How long a process that launched counts as active, and how often it renews that. */
#define TUNING_ACTIVE_NS       (30 * NS_PER_MS)
#define TUNING_ACTIVE_EVERY_NS (5 * NS_PER_MS)
/* How often the active processes of a tenant are counted. */
#define TUNING_COUNT_NS NS_PER_MS
/* How long a tenant that waits for its turn wants the device; less for one that just launched. */
#define TUNING_DEMAND_NS (10 * NS_PER_MS)
#define TUNING_LINGER_NS (NS_PER_MS / 5)
/*
 * Work of a process that has reported neither work nor its end for this long is over.
 */
#define TUNING_WORKS_NS (10 * NS_PER_MS)
/* Instants that differ by less are the same to the arbiter: it wakes up for nothing sooner. */
#define TUNING_NEAR_NS (50 * NS_PER_US)
/* How often a held thread checks limits, whose changes wake nobody, and its work in flight. */
#define TUNING_LOOK_NS	      (20 * NS_PER_MS)
#define TUNING_GLANCE_HELD_NS (NS_PER_MS / 5)
/*
 * An arbiter that is silent for this long is gone: to a tenant, and to a process that would replace
 * it.
 */
#define TUNING_SILENCE_NS (30 * NS_PER_MS)
#define TUNING_ELECT_NS	  (25 * NS_PER_MS)
/*
 * An arbiter that makes no step for this long, although it is rung for, is stopped, or as good as.
 */
#define TUNING_STOPPED_NS (100 * NS_PER_MS)
/*
 * An arbiter whose next step is this late may have been killed: another process tries to replace
 * it, at most this often.
 */
#define TUNING_OVERDUE_NS (2 * NS_PER_MS)
/* How long a process without work of its own keeps the arbiter's role for others. */
#define TUNING_ROLE_NS (1000 * NS_PER_MS)
/* How often, at most, the arbiter is told that a tenant has nothing left to do. */
#define TUNING_RING_NS (NS_PER_MS / 2)

/* --- Credit: launches that need not ask ---------------------------------------------------- */

/*
 * The driver's own work between two launches pushes ours out of the processor's caches: to ask
 * costs 120 to 160 ns there, after 46 ns in a loop that does nothing else (h200-launch-*). So a
 * launch that asked lets later ones through for this long, and longer if no other tenant waits.
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
/* Streams hardly overlap if each has the device to itself for this part of its time. */
#define TUNING_SPREAD_PERMILLE 750
/* A thread that would wake up before work in flight is paid for sleeps on, no longer than this. */
#define TUNING_MORE_NS (8 * NS_PER_MS)

/* --- The in-flight window ------------------------------------------------------------------ */

/* Most in flight, by expected time: two kernels of 1 ms keep a device busy. */
#define TUNING_WINDOW_NS (2 * NS_PER_MS)
/*
 * More is in flight if no other tenant waits for the device, as far as a pause of these lengths
 * pays for it: so a program that launches at an uneven pace stays ahead of the device.
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
/* The expected time of a launch that was never measured. */
#define TUNING_UNKNOWN_NS NS_PER_MS
/*
 * A kernel that was not launched for this long may have another size now: it counts as never
 * measured. A hundred launches of 2 ms that took 20 us before were all let go at once (audit seed
 * 3426).
 */
#define TUNING_FORGET_NS (1000 * NS_PER_MS)
/*
 * Most in flight while a tenant of higher priority may come: the device works off all that is
 * queued before it turns to another context. Longer launches go one at a time; the monitor looks
 * for the end of each, awake for the last part (TUNING_LOOKOUT_NS). Beside a priority that works
 * for long at a time, a part of that time may be in flight: a program that the processor limits
 * depends on launches ahead of time (a training step on an H200: 80 % of its speed with 350 us in
 * flight, 86 % with 700 to 1500, 91 % with 5 ms).
 */
#define TUNING_URGED_NS	     (300 * NS_PER_US)
#define TUNING_URGED_MOST_NS (1400 * NS_PER_US)
#define TUNING_URGED_PART    5
#define TUNING_LOOKOUT_NS    (125 * NS_PER_US)
/*
 * A launch this long before the end of the last one begins directly after it: a kernel of 1 ms has
 * 1 % more of the device, and requests that go first take no longer at the 99th percentile (H200).
 */
#define TUNING_EARLY_NS (10 * NS_PER_US)
/*
 * Work may wait for the same program's next launch, so a launch stops waiting for room after this
 * time.
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
 * The earliest time at which a thread that waits for room sees that work took less than expected. A
 * tenant that slept for the whole expected time had 30 to 41 % under a cap of 50: twenty launches
 * of 50 us in flight were expected to take 16 ms, like the long one that followed them (audit's
 * tail). A tenant that looked after waiting for as long again had 85 % under a cap of 90: launches
 * of 50 ms were expected to take 83, as after a first limit (H100).
 */
#define TUNING_GLANCE_NS NS_PER_MS
/* A released thread wakes up within this time, unless the machine is out of processors. */
#define TUNING_WAKE_MOST_NS (10 * NS_PER_MS)
/*
 * If nothing gets done for this much longer, and half as long again, than the streams' next work
 * should take, that work may wait for another launch of its tenant: none of these is then held for
 * long.
 */
#define TUNING_AWAITED_NS (3 * NS_PER_MS)
/*
 * How long a process's word that its work is late counts, and how often a held launch looks for late
 * work. A look each millisecond takes 1.5 % of a processor (H100).
 */
#define TUNING_AWAITED_FOR_NS  (5 * NS_PER_MS)
#define TUNING_AWAITED_LOOK_NS (2 * NS_PER_MS)
/*
 * Late work that is done this soon after a launch was let go has waited for it. Another process may
 * have the device in between. For TUNING_HANDED_FOR_NS the tenant's work is then late sooner, after
 * AWAITED_SOON and an eighth of the next work. If the next late work does not end in that way it
 * was chance, and the shorter time ends.
 */
#define TUNING_HANDED_NS	  (NS_PER_MS / 5)
#define TUNING_HANDED_BESIDE_NS	  (4 * NS_PER_MS)
#define TUNING_HANDED_FOR_NS	  (3000 * NS_PER_MS)
#define TUNING_AWAITED_SOON_NS	  (NS_PER_MS / 2)
/*
 * ... or this part of the work in flight, if that is more: a launch behind it ends nothing, and by
 * chance alone all of a long queue would go in others' turns.
 */
#define TUNING_AWAITED_PART	  4
/* The device's overlap of work is learned over this much work. */
#define TUNING_OVERLAP_NS (10 * NS_PER_MS)

/*
 * The measured and the expected time differ by more than twice the smaller one plus this, or the
 * work was never measured. Then, for UNFORESEEN_FOR, the next tenant gets the device only when the
 * end of this one's work was seen, since both would be billed for the same time on the device. Such
 * a hand-over takes 100 us more (H200).
 */
#define TUNING_UNFORESEEN_NS	 NS_PER_MS
#define TUNING_UNFORESEEN_FOR_NS (1000 * NS_PER_MS)

/* --- Turns --------------------------------------------------------------------------------- */

/*
 * How long late work of a turn that is over is waited for, if that was in vain before: it may wait
 * for another tenant. For the same time a launch of its own tenant may end it.
 */
#define TUNING_LEAVING_NS (50 * NS_PER_MS)
/*
 * A device that two contexts want serves them in slices, and stands still between two of them: each
 * has 45.7 % of its time (H200, h200-compute-2026-11-22.txt).
 */
#define TUNING_DEVICE_SLICE_NS	(2 * NS_PER_MS)
#define TUNING_DEVICE_SWITCH_NS (188 * NS_PER_US)
/*
 * How often, and for how long, a process below a higher priority lets launches go, if late work may
 * wait for them. It may wait for the second one: of two processes whose kernels met below a priority,
 * one launched a kernel and then the one that the other spun for, half a second later.
 */
#define TUNING_TRY_NS	  (500 * NS_PER_MS)
#define TUNING_TRY_FOR_NS (10 * NS_PER_MS)

/*
 * The length of a turn. A device idles for 140 us between two contexts (H200), which is about 1 %
 * of it. Turns are shorter if no tenant works for longer than BRIEF at a time: otherwise each brief
 * answer would wait for the long turns of the others.
 */
#define TUNING_SLICE_NS	      (12 * NS_PER_MS)
#define TUNING_BRIEF_NS	      NS_PER_MS
#define TUNING_BRIEF_SLICE_NS (4 * NS_PER_MS)
/*
 * A tenant waits no longer than this for the others' turns and its own work, where that costs at
 * most 2 % of the device's time: then turns have CHEAP_SLICE on the average. A hand-over costs
 * 140 us (H200).
 */
#define TUNING_LATENCY_NS     (20 * NS_PER_MS)
#define TUNING_CHEAP_SLICE_NS (7 * NS_PER_MS)
/* No turn is shorter: what is in flight by TUNING_WINDOW_NS belongs to it. */
#define TUNING_LEAST_SLICE_NS (2 * NS_PER_MS)
/*
 * A kernel that was not launched for this long, while its tenant worked, says no more what latency
 * can be kept beside it. Comes it back, one wait is longer by it: of a hundred waits a second that
 * is one in a thousand, and a latency is kept at the 99th percentile.
 */
#define TUNING_LONGEST_NS (10 * NS_PER_S)
/*
 * A tenant that works for this long, or up to a turn, and then waits for it, has nothing queued
 * when its turn begins: a hand-over between two token loops of 3.9 and 4.4 ms a step loses 0.3 ms
 * (H200, 2026-11-24, by time that was billed to nobody), which is 2 % of LONG_SLICE. With rounds of
 * 96 ms, as with `--slice 48ms`, two of them had 102 % together, and a step took 54 to 57 ms at the
 * 99th percentile (H100).
 */
#define TUNING_LONG_NS	     (2 * NS_PER_MS)
#define TUNING_LONG_SLICE_NS (15 * NS_PER_MS)
#define TUNING_HAND_OVER_NS  (300 * NS_PER_US)
/*
 * Of these, an owner keeps its turn during a pause that is no longer than the loss of a hand-over.
 */
#define TUNING_LONG_GRACE_NS (300 * NS_PER_US)

/*
 * The device time of one lift of a floor. At 5 % that is one in a second, which fewer than a
 * hundredth of steps of 5 ms meet: with two of half the length the 99th percentile of such steps
 * was one of them (29.7 ms beside matrix products, H100).
 */
#define TUNING_LIFT_NS (48 * NS_PER_MS)

/* A turn begins within this time of being given. A thread that waits for it is awake at the end. */
#define TUNING_EDGE_MOST_NS  NS_PER_MS
#define TUNING_EDGE_AWAKE_NS (NS_PER_MS / 5)
/* Work of the first priority is seen to begin within this time, or this part of its wait. */
#define TUNING_BEGIN_NS	  (NS_PER_MS / 10)
#define TUNING_BEGIN_PART 8
/* Work that has not begun for this long waits for something else than the device. */
#define TUNING_BEGIN_MOST_NS (100 * NS_PER_MS)

/* --- Stalls of a stream -------------------------------------------------------------------- */

/* A pause no longer than two wake-ups is not worth a third. */
#define TUNING_STALL_LEAST_NS (200 * NS_PER_US)
/* Launches that take this long are held by the processor: it is as exact, and less work. */
#define TUNING_STALL_LONG_NS (200 * NS_PER_US)
/* Streams that were used within this time work side by side, and are held. */
#define TUNING_STALL_BESIDE_NS (100 * NS_PER_MS)

/* --- Memory that tenants take turns on ------------------------------------------------------ */

/*
 * A turn is this many times as long as one exchange takes (moving one tenant out and another back),
 * so that moving takes a sixth of the time at most. It is never shorter than LEAST: waiting for
 * work, two wake-ups and a look at all processes may take that long, even with little memory.
 */
#define TUNING_RESIDENCY_SWAPS	  5
#define TUNING_RESIDENCY_LEAST_NS (100 * NS_PER_MS)
/*
 * A tenant that does not touch its memory for this part of the time that moving it takes is idle: a
 * wrong guess costs little more than the time that was waited. At least IDLE_NS: programs may do
 * other work for that long between two launches.
 */
#define TUNING_RESIDENCY_IDLE_NS   (20 * NS_PER_MS)
#define TUNING_RESIDENCY_IDLE_PART 4
/* A tenant that has waited for this many turns goes before higher priorities. */
#define TUNING_RESIDENCY_PATIENCE 8
/*
 * A tenant is evicted by as much as another needs, and by at least this part of it, since an
 * allocation that finds the device full is often followed by others.
 */
#define TUNING_RESIDENCY_STEP_PART 16
/* The speed until it is measured: that of PCIe 4 and of a processor that allocates pages. */
#define TUNING_RESIDENCY_BYTES_PER_US 10000
/*
 * This part of a tenant is evicted first, and then the rest: the incoming tenant takes the place of
 * the first part while the rest is evicted, both ways at once.
 */
#define TUNING_RESIDENCY_FIRST_PART 24
/*
 * This part of a device stays free if several tenants are on it, for the driver and for contexts.
 */
#define TUNING_RESIDENCY_SPARE_PART 64
/* The same while tenants change places, which needs little itself. */
#define TUNING_RESIDENCY_COMES_PART 256
/* How often the role holder looks: while a tenant moves, and while one waits. */
#define TUNING_RESIDENCY_MOVES_NS NS_PER_MS
#define TUNING_RESIDENCY_WAITS_NS (5 * NS_PER_MS)
/* How often an allocation that found the device full tries again. */
#define TUNING_RESIDENCY_TRY_NS (2 * NS_PER_MS)
/*
 * How often the swap thread looks for work that begins without a call, as by an AMD queue's
 * doorbell: less than IDLE, so that a tenant with work is never taken for idle, and cheap beside
 * moving.
 */
#define TUNING_RESIDENCY_LOOK_NS (5 * NS_PER_MS)
/* How often a process that waits checks that there is a role holder. */
#define TUNING_RESIDENCY_ELECT_NS (50 * NS_PER_MS)
/*
 * A role holder that has made no step for this long is stopped, or as good as: another process
 * takes over.
 */
#define TUNING_RESIDENCY_SILENT_NS (2 * NS_PER_S)
/*
 * How long work of a tenant that is to be evicted is waited for; after that it is not tried again
 * for as long.
 */
#define TUNING_RESIDENCY_DRAIN_NS (10 * NS_PER_S)
/*
 * A process that has not begun to move by then is stopped: others are evicted in its place. SILENT
 * plus this is less than REFUSE, so that no allocation is refused because of it.
 */
#define TUNING_RESIDENCY_ASLEEP_NS NS_PER_S
/*
 * A process whose move makes no progress for this long is stopped, and the others continue without
 * it. Progress is reported at least for each GiB, which takes a slow bus a second.
 */
#define TUNING_RESIDENCY_STUCK_NS (5 * NS_PER_S)
/* When to ask a process again that could not be evicted, or not come back. */
#define TUNING_RESIDENCY_AGAIN_NS NS_PER_S
/*
 * A device that refuses memory this often, although there should be room, has less than is known,
 * since others use it, too. That is believed for LOST_NS.
 */
#define TUNING_RESIDENCY_FAILURES 3
#define TUNING_RESIDENCY_LOST_NS  (5 * NS_PER_S)
/*
 * An allocation is not refused before this time for a state that may change: tenants that find no
 * room on the host for a moment, a program outside of all tenants that is about to end.
 */
#define TUNING_RESIDENCY_REFUSE_NS (5 * NS_PER_S)
/* This part of the host's memory stays free of memory that is prepared ahead, or kept. */
#define TUNING_RESIDENCY_HOST_PART 8

/* --- The monitor thread -------------------------------------------------------------------- */

/* How often it looks while work is in flight: with a rival, alone, and where other threads look. */
#define TUNING_TICK_NS	     NS_PER_MS
#define TUNING_TICK_ALONE_NS (2 * NS_PER_MS)
#define TUNING_TICK_REST_NS  (10 * NS_PER_MS)
/*
 * How long the thread continues after work, or a program that pauses would wake it for each burst.
 */
#define TUNING_TICK_LINGER_NS (50 * NS_PER_MS)
/* It skips a device that another thread looked at within this time. */
#define TUNING_RECENT_NS (5 * NS_PER_MS)

#endif
