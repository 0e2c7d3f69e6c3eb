/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launch side's state in this process, made by the first launch that is metered, and the state
 * of each of its files for a device. A device's meter is its first member.
 */
#ifndef ALLOT_GUEST_LAUNCH_STATE_H
#define ALLOT_GUEST_LAUNCH_STATE_H

#include "base/number.h"
#include "guest/launch/limits.h"
#include "guest/meter/state.h"
#include "sched/cost.h"

struct arbiter_host;

/* Work in flight: window.h. */
struct window {
	_Atomic uint64_t due_ns; /* when all in flight is expected to be done */
	_Atomic uint64_t late_ns; /* for how long work is later than expected; 0: none is */
	_Atomic uint32_t overlap_permille; /* time in which any stream worked, of theirs added up */
	uint64_t streams_ns, together_ns;  /* see learn_overlap */
	_Atomic uint64_t stuck_since_ns; /* see window_stuck_since_ns */
	uint64_t said_late_ns; /* until when it was said that work is late; 0: it is not */
	_Atomic uint64_t handed_until_ns; /* see window_hands_over */
	_Atomic uint64_t tried_ns;	   /* see window_try */
	const struct stream *gave_stream;  /* that launch's of gave_ready_ns; with the meter's lock */
	const struct stream *idle_stream;  /* the last one that was idle and had a launch, ... */
	uint64_t idle_ns;		   /* ... which was then */
	struct costs costs;
	struct {
		bool taken, used; /* used: something was launched since it was taken */
		bool had;	  /* and others have not been let go first since */
		int index;
		uint64_t until_ns;
	} place;
};

/* The pause that the device makes: stall.h. */
struct stall {
	_Atomic uint32_t on;	   /* the number of the pause that is on; 0: none */
	_Atomic uint64_t until_ns; /* it is over about then */
	_Atomic uint64_t before_ns; /* when what was launched before is expected to be done */

	/* With the meter's lock: */
	uint32_t last;	   /* numbers given */
	CUcontext context; /* of the word; NULL: there is none */
	uint32_t *word;	   /* NULL: the driver gives none there */
	CUdeviceptr at;
	uint32_t leaving; /* calls under way that may end the context */
	CUstream stream;  /* the one that waits for the pause that is on */
};

/* The words of a context, one for each place of a stream: latch.h. With the meter's lock. */
#define LATCH_CONTEXTS 8
struct latch_words {
	CUcontext context; /* NULL: free */
	uint32_t *word;	   /* NULL: the driver gives none there */
	CUdeviceptr at;
	uint32_t leaving; /* calls under way that may end the context: words are not touched */
};

/* The terms on which launches pass without asking: credit.h. */
struct credit_terms {
	_Atomic uint64_t until_ns; /* until then, ... */
	_Atomic uint64_t room_ns;  /* ... while at most this is in flight, ... */
	_Atomic uint32_t bills;	   /* ... unless more was billed ... */
	_Atomic bool rival, yields; /* ... as the one that asked */
};

/* The monitor thread, and what wakes it: monitor.h, bell.h. */
struct monitor {
	_Atomic uint32_t started; /* 0 no, 1 yes, 2 could not */
	_Atomic uint32_t bell;	  /* a futex */
	_Atomic uint32_t asleep;  /* until rung */
	_Atomic uint64_t next_ns; /* when it looks by itself; 0 while it is awake */
	_Atomic uint32_t stop;	  /* the process exits ... */
	_Atomic uint32_t working; /* ... and the monitor may be inside a call */
	_Atomic(struct arbiter_host *) host;
};

struct launch_device {
	struct meter meter;
	struct window window;
	struct stall stall;
	struct latch_words latch[LATCH_CONTEXTS];
	struct credit_terms credit;
	_Atomic uint64_t said_until_ns; /* the work_until_ns that this process last wrote */
	_Atomic uint64_t said_due_ns;	/* ... and the due_ns */
	_Atomic uint64_t claimed_ns;	/* what was launched is work until then at least */
	_Atomic uint64_t burst_from_ns; /* since when it works without a wait; 0: it does not */
	_Atomic uint64_t active_ns;    /* until then it said that it launches */
	_Atomic uint64_t counted_ns;   /* when the processes that do were counted */
	_Atomic uint32_t processes;
	_Atomic bool beside; /* another device works for the tenant, see device_time_beside */
	_Atomic uint64_t rung_ns;
	uint64_t monitor_ns; /* collected_ns as the monitor left it */
};

struct launch_state {
	struct limits limits;
	_Atomic(struct launch_device *) device[GUEST_DEVICES]; /* by ordinal, made when used */
	_Atomic(CUcontext) context[GUEST_DEVICES];	       /* of the last launch there */
	_Atomic uint32_t bills;	  /* raised with each, which ends all credit */
	_Atomic uint32_t waiting; /* threads that are held, and collect when they wake up */
	_Atomic uint64_t gave_ready_ns; /* when the last launch was let go that could begin at once */
	_Atomic bool awake;	  /* one of them is, for the beginning of the turn */
	struct monitor monitor;
};

/* NULL before the first metered launch. */
static inline struct launch_state *state_get(const struct guest *guest)
{
	return atomic_load_explicit(&guest->launch, memory_order_acquire);
}

/* By CUDA's ordinal; NULL while none was needed. */
static inline struct launch_device *state_device(const struct guest *guest, int ordinal)
{
	struct launch_state *state = state_get(guest);

	return state ? atomic_load_explicit(&state->device[ordinal], memory_order_acquire) : NULL;
}

static inline struct launch_device *launch_device_of(struct meter *meter)
{
	return (struct launch_device *)meter;
}

static inline uint64_t window_due_ns(const struct window *window)
{
	return atomic_load_explicit(&window->due_ns, memory_order_relaxed);
}

static inline bool stall_is_on(const struct stall *stall)
{
	return atomic_load_explicit(&stall->on, memory_order_relaxed);
}

/* No work begins on the device before this instant at least: that one, or the end of the pause. */
static inline uint64_t stall_end_ns(const struct stall *stall, uint64_t at_ns)
{
	uint64_t until = stall_is_on(stall) ? atomic_load(&stall->until_ns) : 0;

	return max_u64(at_ns, until);
}

static inline bool monitor_runs(const struct monitor *monitor)
{
	return atomic_load(&monitor->started) == 1 && !atomic_load(&monitor->stop);
}

/* The device of a context where one was made; else NULL. */
struct launch_device *state_of_context(struct guest *guest, CUcontext context);

/* A context may end: another device's may get its handle. */
void state_forget_context(struct guest *guest, CUcontext context);

/* How many processes of the tenant launch, this one included; counted once a millisecond. */
unsigned int state_processes(struct launch_device *device, uint64_t now_ns);

static inline bool state_has_siblings(const struct launch_device *device)
{
	return atomic_load_explicit(&device->processes, memory_order_relaxed) > 1;
}

/* Says that this process launches or waits to, so that others of the tenant count it. */
void state_active(struct launch_device *device, uint64_t now_ns);

#endif
