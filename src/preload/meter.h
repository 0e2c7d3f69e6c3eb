/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meter: how long a device really worked for this process. Events with timing, marks, are
 * recorded into the program's own streams, behind a few launches at a time; what lies between two
 * marks of a stream that did not run dry in between is work. A mark that begins work on an idle
 * stream, or the processor's clock, keeps the pause before it out. When marks complete, the time
 * between them is billed to the tenant, whatever overlaps once (ledger/compute.h), and paid for by
 * its controller.
 *
 * A pause shorter than METER_GAP_NS is the tenant's own: nobody else could have used it. One that
 * the gate made is not.
 *
 * Only threads of the program record, into streams that they just launched into, and never while a
 * stream captures. Any thread collects; one at a time, the others go on. No lock is held over a
 * call of the driver.
 */
#ifndef ALLOT_PRELOAD_METER_H
#define ALLOT_PRELOAD_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "ledger/compute.h"
#include "preload/cost.h"
#include "preload/guest.h"
#include "share/controller.h"

#define METER_LANES  32
#define METER_MARKS  16 /* of a lane, not collected yet; a power of two */
#define METER_CLOCKS 4	/* contexts of one device */
#define METER_EVENTS 128

#define METER_GAP_NS UINT64_C(100000)
/* Instants that differ by less are the same to the arbiter. */
#define METER_NEAR_NS UINT64_C(50000)
/* Who is held at the gate looks so often at what changes without waking it. */
#define METER_LOOK_NS UINT64_C(20000000)

enum mark_state { MARK_FREE, MARK_RECORDING, MARK_RECORDED, MARK_VOID };

struct mark {
	_Atomic uint32_t state; /* enum mark_state */
	bool start;		/* the stream was idle: the time before is nobody's */
	bool known;		/* what is expected was measured, of each launch */
	uint32_t launches;	/* between the mark before and this one ... */
	uint64_t key;		/* ... all of this; 0: of several ... */
	uint64_t expected_ns;	/* ... and expected to take so long */
	uint64_t recorded_ns;	/* not done before */
	uint64_t began_ns;	/* when work before it did, where no mark tells; else 0 */
	CUevent event;
};

/* A stream. */
struct lane {
	CUcontext context; /* NULL: free */
	uint64_t key;	   /* the stream, or the thread whose own it is */
	CUstream stream;
	int clock;
	bool gap;	     /* a pause began that no mark could end */
	uint64_t began_ns;   /* the next mark's */
	bool mute;	     /* the driver takes no marks here: billed by what is expected */
	bool deaf;	     /* ... and lets it wait for nothing */
	uint32_t parked;     /* the last pause for whose end it waits, see park.h */
	uint32_t parting;    /* calls that may end its context: nobody looks at its marks */
	uint32_t head, tail; /* of the ring; the collector moves head */
	struct mark mark[METER_MARKS];
	uint64_t done_ns;    /* of the last mark that was collected; 0 not known; the collector's */
	uint64_t end_ns;     /* when what was launched here is expected to be done */
	uint64_t marked_ns;  /* when the last mark was recorded */
	uint64_t pending_ns; /* expected, of all launches that no collected mark covers */
	uint64_t held;	     /* meter_device.held at the last launch */
	uint64_t used_ns;
	struct {
		uint32_t launches;
		bool known;
		uint64_t key, expected_ns;
	} loose; /* launches behind the last mark */
};

/* A word that streams of a context wait for: here, and for the device. */
struct park_word {
	uint32_t *word; /* NULL: there is none */
	CUdeviceptr at;
};

/* A pause that the device makes, see park.h. */
struct park {
	_Atomic uint32_t on;	    /* its number; 0: none is on */
	_Atomic uint64_t until_ns;  /* it is over about then */
	uint32_t last;		    /* numbers given */
	_Atomic uint64_t before_ns; /* when what was launched before is expected to be done */
};

/* The process's place among those whose long launches are let through, see place.h. */
struct place {
	bool taken, had; /* had: and others have not been let go first since */
	int index;
	uint64_t until_ns;
};

/* Launches that are counted without the lock, see burst.h. */
struct burst {
	uint64_t word;	   /* what is left of it */
	uint64_t given;	   /* what that was; 0: none is on */
	CUcontext context; /* the stream's */
	uint64_t lane_key;
	int lane;
	uint64_t key; /* of the launch that began it, and of all until another's came */
	uint64_t first_ns, last_ns;
};

/* The device's clock as seen through one context's events, in CLOCK_MONOTONIC. */
struct clock {
	CUcontext context;
	struct park_word park;
	int parting; /* calls that may end the context */
	CUevent base;
	uint64_t base_ns;
	bool used;	 /* by a first mark */
	uint32_t events; /* spare ones */
	CUevent event[METER_EVENTS];
};

struct span {
	uint64_t from_ns, to_ns;
	bool waited; /* for launches that were held, which is left out */
};

struct meter_device {
	struct guest_device *device;
	struct compute *compute;

	struct lock lock; /* of what follows */
	struct lane lane[METER_LANES];
	struct clock clock[METER_CLOCKS];
	struct costs costs;
	struct burst burst;
	struct park park;
	struct place place;
	uint64_t pending_ns;	   /* over all lanes */
	uint32_t overlap_permille;   /* time in which any lane worked, of theirs added up */
	uint64_t lane_ns, own_ns;    /* see learn_overlap */
	uint64_t counted_ns;	     /* what worked until then is in own_ns */
	_Atomic bool running;	     /* said so, see compute_set_running */
	_Atomic bool beside;	     /* another device works for the tenant, see compute_beside */
	struct span seen; /* work that was not done at the last look; the collector's */

	_Atomic uint64_t end_ns;     /* when all that was launched is expected to be done */
	_Atomic uint64_t doubt_ns;   /* see meter_knows: until a mark recorded after this is done */
	_Atomic uint64_t held;	     /* raised when the gate held a launch for its share */
	_Atomic uint64_t full_ns;    /* when the gate last found no room, and no rival */
	_Atomic uint32_t marks;	     /* to be collected */
	_Atomic uint32_t starts;     /* of these, such that begin work; recorded last ... */
	_Atomic uint64_t started_ns; /* ... then */
	_Atomic uint32_t collecting; /* one thread does */
	_Atomic uint64_t collected_ns;
	uint64_t kept_ns;	     /* the same, as the keeper left it */
	uint64_t active_until_ns;    /* what this process last said, see compute_set_active */
	uint64_t processes_ns;	     /* when they were counted */
	uint32_t processes;	     /* of the tenant that work on the device or want to */
	uint64_t published_ns; /* the work_until_ns that this process last wrote */
	/* Launches go without asking, see let_pass in gate.c: */
	struct {
		uint64_t until_ns; /* until then, ... */
		uint64_t room_ns;  /* ... beside so much in flight, ... */
		uint32_t bills;	   /* ... unless more was billed ... */
		bool rare;	   /* as the one that asked */
	} pass;
};

/* A launch on its way. */
struct unit {
	CUstream stream;
	bool per_thread; /* no stream means the thread's own */
	bool graph;
	uint64_t key; /* the function or the executable graph, not 0; then its cost's */
	uint64_t blocks;

	struct meter_device *device; /* NULL: not metered */
	CUcontext context;
	uint64_t lane_key;
	int lane; /* -1: none was free */
	int mark; /* to be recorded behind it; -1: none */
	uint64_t asked_ns, now_ns, expected_ns; /* asked: when it came to the gate */
	uint64_t ahead_ns; /* now is the end of a pause that is so long still, see park.h */
	bool parks;  /* the pause of its stream begins with it */
	bool known;  /* expected_ns was measured */
	bool alone;  /* to be measured by itself */
	bool marked; /* its end is to be known in any case */
	bool rare;   /* nobody else waits for the device, so few ends need be known */
	bool asked;  /* no other let it through, see let_pass in gate.c */
	bool quiet;  /* nothing is left to do when it was launched */
	bool first;  /* of its context: when its mark is seen done decides what time it is there */
};

/*
 * For which device a launch is, and in which stream. The device is NULL where there is no context:
 * then the launch is not metered, and nothing else here is to be called for it.
 * CUDA_ERROR_OUT_OF_MEMORY when there is no room to meter it.
 */
CUresult meter_unit(struct guest *guest, struct unit *unit);

/* Whether its stream captures: then it is not metered either. */
bool meter_captured(const struct unit *unit);

/* Counts what was let through: what is said of work in flight below is of all of it by now. */
void meter_catch_up(struct meter_device *md);

/* Before the launch, once it is allowed: finds its lane, marks the end of a pause. */
void meter_begin(struct guest *guest, struct unit *unit);
/* The launch is held, so this is where the work before it ends: marked, if it was not. */
void meter_pause(struct unit *unit);
/* After it, `ok` or not: counts it, and marks its end when it is time. */
void meter_end(struct guest *guest, struct unit *unit, bool ok);

/* Looks which marks are done, and bills. Answers at once when another thread is at it. */
void meter_collect(struct guest *guest, struct meter_device *md);

/*
 * For the keeper, when all is expected to be done: bills what no mark follows, by what is expected
 * of it. The next launch may be long in coming.
 */
void meter_settle(struct guest *guest, struct meter_device *md, uint64_t now_ns);

/* The process ends, and the keeper looks no more: what is not done is billed as far as it came. */
void meter_end_all(struct guest *guest, struct meter_device *md);

/* The device worked from one instant to the other: what is new goes on the tenant's account. */
void meter_bill(struct guest *guest, struct meter_device *md, uint64_t from_ns, uint64_t to_ns);

/*
 * When there is room for a launch beside work in flight of `bound_ns`, by expected time: 0, or the
 * instant to look again. With `spread` a stream that has nothing in flight may go beside others, as
 * long as that was seen to make the device do more.
 */
uint64_t meter_room(struct guest *guest, struct unit *unit, uint64_t bound_ns, bool spread);

/*
 * Tells the arbiter until when this process's work lasts, as soon as that changed by more than it
 * cares for: what comes next is queued by it.
 */
void meter_publish(struct meter_device *md, uint64_t now_ns);

/*
 * Whether a launch would be done, as far as is expected, by when others in flight are: then the
 * device works no longer for it.
 */
bool meter_fits(struct unit *unit);

/* When all that was launched is expected to be done. */
static inline uint64_t meter_end_ns(const struct meter_device *md)
{
	return atomic_load_explicit(&md->end_ns, memory_order_relaxed);
}

/* Whether that is later by now than was published, by more than the arbiter cares for. */
static inline bool meter_grew(const struct meter_device *md)
{
	return meter_end_ns(md) >= atomic_peek(&md->published_ns) + METER_NEAR_NS;
}

/* Device time that work in flight is expected to take, all of it. */
static inline uint64_t meter_pending_ns(const struct meter_device *md)
{
	return atomic_peek(&md->pending_ns) * atomic_peek(&md->overlap_permille) / 1000;
}

/*
 * Whether the device has come to all that was launched into streams that were idle. What has not
 * begun for so long waits for something else.
 */
#define METER_BEGIN_NS UINT64_C(100000000)

static inline bool meter_begun(const struct meter_device *md, uint64_t now_ns)
{
	return !atomic_load(&md->starts) ||
	       now_ns > atomic_load(&md->started_ns) + METER_BEGIN_NS;
}

/* Whether each pause costs much: launches take less than `short_ns`, or several streams work. */
bool meter_pauses_badly(struct meter_device *md, uint64_t short_ns);

/* What a launch is expected to take; 0: nobody knows. */
uint64_t meter_expect(struct unit *unit);

/* Work is in flight. What no mark follows, because it is brief, is done by when it is expected. */
static inline bool meter_works(const struct meter_device *md, uint64_t now_ns)
{
	return atomic_load(&md->marks) || atomic_load(&md->end_ns) > now_ns;
}

/*
 * Whether what is expected was right of late. After a pause of the program's own the next launch
 * may be anything, the same function with a thousand times the work, so it is measured first.
 */
static inline bool meter_knows(struct meter_device *md)
{
	return !atomic_load_explicit(&md->doubt_ns, memory_order_relaxed);
}
static inline void meter_trust(struct meter_device *md)
{
	atomic_store_explicit(&md->doubt_ns, 0, memory_order_relaxed);
}

/*
 * Says that this process launches or waits to, so that others of the tenant count it for 30 ms:
 * who waits says so again before that, each METER_LOOK_NS.
 */
void meter_active(struct guest *guest, const struct unit *unit);

/* How many processes of the tenant do, this one included; counted once a millisecond. */
unsigned int meter_processes(struct guest *guest, struct meter_device *md, uint64_t now_ns);

/* Whether there was another when they were last counted. */
static inline bool meter_has_peers(const struct meter_device *md)
{
	return atomic_peek(&md->processes) > 1;
}

/*
 * Around a call that may end a context (NULL: none): nobody looks at its marks meanwhile. If it is
 * gone they are forgotten, and what was not done before is billed until now.
 */
void meter_part(struct guest *guest, CUcontext context);
void meter_parted(struct guest *guest, CUcontext context, bool gone);

#endif
