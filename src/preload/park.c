/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/park.h"

#include "base/now.h"
#include "ledger/quota.h"
#include "preload/keeper.h"
#include "preload/meter_priv.h"

/* A pause no longer than two wake-ups is not worth a third. */
#define LEAST_NS UINT64_C(200000)
/*
 * Launches that take as long as that are held as exactly by the processor, for which that is less
 * work: what it loses is a part of one launch in each pause.
 */
#define LONG_NS UINT64_C(200000)
/* Streams that were used so short a time ago work side by side. */
#define BESIDE_NS UINT64_C(100000000)
/* So often it is looked whether the limit has changed, and whether it is the tenant's turn. */
#define LOOK_NS METER_LOOK_NS
#define TURN_NS UINT64_C(1000000)

struct park_word park_word_new(void)
{
	struct park_word word = {0};
	void *p = NULL;

	if (!cuda_real_address(CUDA_FN_cuStreamWaitValue32_v2) ||
	    DRIVER(cuMemHostAlloc, (&p, sizeof(*word.word), CU_MEMHOSTALLOC_DEVICEMAP)))
		return word;
	if (DRIVER(cuMemHostGetDevicePointer_v2, (&word.at, p, 0)) || !p) {
		DRIVER(cuMemFreeHost, (p));
		return word;
	}
	word.word = p;
	atomic_poke(word.word, 0);
	return word;
}

void park_word_free(struct park_word word)
{
	if (word.word)
		DRIVER(cuMemFreeHost, (word.word));
}

/* Whether the tenant uses another device, or is about to: nobody computes without memory. */
static bool has_others(struct guest *guest, const struct meter_device *md)
{
	for (int i = 0; ledger_knows(guest->ledger, i); i++)
		if (i != md->device->ledger && quota_used(guest->ledger, i))
			return true;
	return atomic_load(&md->beside);
}

/*
 * Not for several processes or devices of a tenant, which pause together, nor beside others, to
 * whom what is queued would come as a surprise.
 */
static bool may_park(struct guest *guest, const struct unit *unit, uint64_t until_ns)
{
	struct gate *gate = gate_get(guest);
	const struct meter_device *md = unit->device;

	return until_ns > unit->now_ns + LEAST_NS &&
	       atomic_load(&gate->controller) == CONTROLLER_DEFICIT &&
	       atomic_load(&gate->keeper.started) == 1 && !atomic_load(&gate->keeper.stop) &&
	       gate_alone(guest, unit->now_ns) && !meter_has_peers(md) &&
	       !has_others(guest, md);
}

/* With the lock: the lane is the only one of late. Several drift apart if each launches ahead. */
static bool is_single(const struct meter_device *md, const struct lane *lane, uint64_t now_ns)
{
	for (int i = 0; i < METER_LANES && md->lane[i].context; i++)
		if (&md->lane[i] != lane && md->lane[i].used_ns + BESIDE_NS > now_ns)
			return false;
	return true;
}

/* With the lock: the pause that is on, or one that begins; 0: it would do no good. */
static uint32_t pause_now(struct meter_device *md, const struct lane *lane, const struct unit *unit,
			  uint64_t until_ns, bool *ret_begun)
{
	struct park *park = &md->park;
	uint32_t on = atomic_load(&park->on);

	*ret_begun = !on && md->costs.mean_ns < LONG_NS && is_single(md, lane, unit->now_ns);
	if (!*ret_begun)
		return on;
	park->last += park->last == UINT32_MAX ? 2 : 1; /* 0 is none */
	atomic_store(&park->before_ns, atomic_load(&md->end_ns));
	atomic_store(&park->until_ns, until_ns);
	atomic_store(&park->on, park->last);
	return park->last;
}

/* It counts as if the launch were held. */
static void count(struct meter_device *md, uint64_t for_ns)
{
	__atomic_fetch_add(&md->compute->throttled_ns, for_ns, __ATOMIC_RELAXED);
	__atomic_fetch_add(&md->compute->throttles, 1, __ATOMIC_RELAXED);
}

/* The wait behind what was launched before; what comes next begins when it is over. */
static bool wait_in_stream(struct unit *unit, struct lane *lane, CUdeviceptr at, uint32_t pause)
{
	struct capture_mode mode;
	CUresult e;

	meter_pause(unit);
	mode = capture_relax();
	e = DRIVER(cuStreamWaitValue32_v2, (unit->stream, at, pause, CU_STREAM_WAIT_VALUE_GEQ));
	capture_restore(mode);
	meter_lock(unit->device);
	if (e)
		lane->deaf = true;
	else
		lane->parked = pause;
	meter_unlock(unit->device);
	unit->parks = !e;
	return !e;
}

bool park_launch(struct guest *guest, struct unit *unit, uint64_t until_ns)
{
	struct meter_device *md = unit->device;
	bool new, begun = false, waits = false;
	struct park_word word = {0};
	struct lane *lane = NULL;
	uint32_t pause = 0;
	int i;

	if (!park_is_on(md) && !may_park(guest, unit, until_ns))
		return false;
	meter_lock(md);
	i = lane_find(md, unit->context, unit->lane_key, &new);
	lane = i < 0 || new ? NULL : &md->lane[i];
	if (lane && !lane->mute && !lane->deaf && !md->clock[lane->clock].parting)
		word = md->clock[lane->clock].park;
	if (word.word) {
		pause = pause_now(md, lane, unit, until_ns, &begun);
		waits = lane->parked == pause;
	}
	meter_unlock(md);
	if (!pause)
		return false;
	if (begun)
		count(md, until_ns - unit->now_ns);
	if (!waits && !wait_in_stream(unit, lane, word.at, pause)) {
		if (begun)
			park_open(md);
		return false;
	}
	if (begun)
		keeper_expect(guest, until_ns);
	/* The keeper may have looked for the last time. */
	if (atomic_load(&gate_get(guest)->keeper.stop))
		park_open(md);
	until_ns = park_from(md, unit->now_ns);
	unit->ahead_ns = until_ns - unit->now_ns;
	unit->now_ns = until_ns;
	return true;
}

/* With the lock. */
static void open(struct meter_device *md)
{
	uint32_t on = atomic_load(&md->park.on);

	for (int i = 0; on && i < METER_CLOCKS; i++)
		if (md->clock[i].park.word && !md->clock[i].parting)
			atomic_release(md->clock[i].park.word, on);
	atomic_store(&md->park.on, 0);
}

void park_open(struct meter_device *md)
{
	meter_lock(md);
	open(md);
	meter_unlock(md);
}

/* What was done before the pause may not be billed yet, and a limit may have changed. */
static uint64_t look(struct guest *guest, struct meter_device *md, uint64_t now_ns)
{
	uint64_t until = atomic_load(&md->park.until_ns);
	bool turn = false;

	if (until > now_ns)
		return until < now_ns + LOOK_NS ? until : now_ns + LOOK_NS;
	meter_collect(guest, md);
	until = gate_owes(guest, md, now_monotonic_ns(), &turn);
	if (!until) {
		park_open(md);
		return UINT64_MAX;
	}
	if (turn)
		until = now_ns + TURN_NS;
	atomic_store(&md->park.until_ns, until);
	return until;
}

uint64_t park_look(struct guest *guest, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (int i = 0; i < guest->ndevices; i++) {
		struct meter_device *md = gate_device_made(guest, i);
		uint64_t at = md && park_is_on(md) ? look(guest, md, now_ns) : UINT64_MAX;

		next = at < next ? at : next;
	}
	return next;
}

void park_part(struct meter_device *md, CUcontext context, bool parts)
{
	meter_lock(md);
	if (parts)
		open(md);
	for (int i = 0; i < METER_CLOCKS; i++)
		if (md->clock[i].context == context)
			md->clock[i].parting += parts ? 1 : -1;
	meter_unlock(md);
}
