/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/latch.h"

#include "base/word.h"
#include "guest/core/pass.h"
#include "guest/launch/demand.h"
#include "guest/meter/capture.h"
#include "guest/meter/meter.h"
#include "ledger/device_time.h"

/* Numbers that an open word is ahead of all that were given: they wrap. */
#define OPEN_AHEAD (INT32_MAX / 2)

/* As the driver compares. */
static bool latch_is_open(const uint32_t *word, uint32_t number)
{
	return (int32_t)(word_read(word) - number) >= 0;
}

/* With the lock: nothing waits for words of a context any more. */
static void latch_open_words(const struct launch_device *device, const struct latch_words *words)
{
	for (int i = 0; words->word && i < STREAMS; i++)
		word_release(&words->word[i], device->meter.latches + OPEN_AHEAD);
}

/* With the lock: the words of a context, or a place for them (NULL); NULL: there is none. */
static struct latch_words *latch_find(struct launch_device *device, CUcontext context)
{
	for (int i = 0; i < LATCH_CONTEXTS; i++)
		if (device->latch[i].context == context)
			return &device->latch[i];
	return NULL;
}

static bool latch_has_words(struct launch_device *device, CUcontext context)
{
	const struct latch_words *words;
	bool has;

	meter_lock(&device->meter);
	words = latch_find(device, context);
	has = words && words->word && !words->leaving;
	meter_unlock(&device->meter);
	return has;
}

/* The context is the current one. A driver that refuses is not asked again. */
static void latch_make_words(struct launch_device *device, CUcontext context)
{
	struct latch_words made = {.context = context}, *place;
	struct capture_mode mode = capture_relax();
	void *p = NULL;
	bool kept;

	if (cuda_real_address(CUDA_FN_cuStreamWaitValue32_v2) &&
	    !DRIVER(cuMemHostAlloc, (&p, STREAMS * sizeof(*made.word), CU_MEMHOSTALLOC_DEVICEMAP)) &&
	    !DRIVER(cuMemHostGetDevicePointer_v2, (&made.at, p, 0)))
		made.word = p;
	meter_lock(&device->meter);
	for (int i = 0; made.word && i < STREAMS; i++)
		word_write(&made.word[i], device->meter.latches);
	place = latch_find(device, context) ? NULL : latch_find(device, NULL);
	kept = place;
	if (place)
		*place = made;
	meter_unlock(&device->meter);
	if (p && (!kept || !made.word))
		DRIVER(cuMemFreeHost, (p));
	capture_restore(mode);
}

void latch_prepare(struct launch_device *device, CUcontext context)
{
	bool has;

	meter_lock(&device->meter);
	has = latch_find(device, context);
	meter_unlock(&device->meter);
	if (!has && !meter_any_blocks(&device->meter))
		latch_make_words(device, context);
}

/* The tenant of the highest priority is always open, so it has no latches. */
bool latch_may(const struct launch_state *state, struct launch_device *device,
	       const struct launch *launch)
{
	uint32_t flags = limits_turn_flags(&state->limits, launch->now_ns);

	return flags & TURN_CONTENDED && !(flags & TURN_FIRST) && monitor_runs(&state->monitor) &&
	       latch_has_words(device, launch->context);
}

/* Not in this kind of stream: then nowhere in the context. */
static void latch_give_up(struct launch_device *device, CUcontext context)
{
	struct latch_words *words;

	meter_lock(&device->meter);
	words = latch_find(device, context);
	if (words && !words->leaving) {
		latch_open_words(device, words);
		words->word = NULL;
	}
	meter_unlock(&device->meter);
}

void latch_queue(struct meter *meter, struct stream *stream, uint32_t number)
{
	struct launch_device *device = launch_device_of(meter);
	struct capture_mode mode;
	struct latch_words words = {NULL}, *found;
	CUcontext context;
	CUresult e;

	meter_lock(meter);
	context = stream->context;
	found = latch_find(device, context);
	if (found)
		words = *found;
	meter_unlock(meter);
	if (!words.word || words.leaving)
		return;
	mode = capture_relax();
	e = DRIVER(cuStreamWaitValue32_v2,
		   (stream->handle,
		    words.at + sizeof(*words.word) * (CUdeviceptr)(stream - meter->stream), number,
		    CU_STREAM_WAIT_VALUE_GEQ));
	capture_restore(mode);
	if (e)
		latch_give_up(device, context);
}

void latch_undo(struct meter *meter, struct stream *stream)
{
	CUcontext context;

	meter_lock(meter);
	context = stream->context;
	meter_unlock(meter);
	latch_give_up(launch_device_of(meter), context);
}

/* With the lock. A context that leaves has its words open, and they may be gone with it. */
static void latch_write(struct launch_device *device, struct stream *stream)
{
	struct latch_words *words = latch_find(device, stream->context);
	bool has = words && words->word && !words->leaving;
	uint32_t *word = has ? &words->word[stream - device->meter.stream] : NULL;

	if (word && !latch_is_open(word, stream->wants))
		word_release(word, stream->wants);
	stream->wants = 0;
}

/* The tenant may work, and says that it does before it does; or work of it waits for this. */
static bool latch_opens(struct launch_device *device, uint64_t now_ns)
{
	struct guest *guest = device->meter.guest;
	bool turn;

	if (device_time_late_ns(guest->ledger, now_ns) ||
	    (guest->swappable && atomic_load(&guest->pass.shut) != PASS_OPEN))
		return true;
	return !demand_owes(device, now_ns, &turn) && demand_claim(device, now_ns);
}

void latch_look(struct launch_device *device, uint64_t now_ns)
{
	struct meter *meter = &device->meter;

	if (!atomic_load(&meter->wanting) || !latch_opens(device, now_ns))
		return;
	meter_lock(meter);
	for (uint32_t i = 0; i < meter->nstreams; i++)
		if (meter->stream[i].wants)
			latch_write(device, &meter->stream[i]);
	atomic_store(&meter->wanting, 0);
	meter_unlock(meter);
}

void latch_open_all(struct launch_device *device)
{
	meter_lock(&device->meter);
	for (int i = 0; i < LATCH_CONTEXTS; i++)
		if (!device->latch[i].leaving)
			latch_open_words(device, &device->latch[i]);
	meter_unlock(&device->meter);
}

void latch_context_leaves(struct launch_device *device, CUcontext context)
{
	struct latch_words *words;

	meter_lock(&device->meter);
	words = latch_find(device, context);
	if (words && !words->leaving++)
		latch_open_words(device, words);
	meter_unlock(&device->meter);
}

void latch_context_left(struct launch_device *device, CUcontext context, bool gone)
{
	struct latch_words *words;

	meter_lock(&device->meter);
	words = latch_find(device, context);
	if (words && gone)
		*words = (struct latch_words){NULL};
	else if (words && words->leaving)
		words->leaving--;
	meter_unlock(&device->meter);
}
