/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/latch.h"

#include "base/word.h"
#include "guest/core/pass.h"
#include "guest/launch/demand.h"
#include "guest/meter/capture.h"
#include "guest/meter/meter.h"
#include "ledger/device_time.h"

/* A word that says so is not waited for: what is asked for is less, as the driver compares signed. */
#define OPEN INT32_MAX

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
	has = words && words->word;
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
	for (int i = 0; made.word && i < STREAMS; i++)
		word_write(&made.word[i], 0);
	meter_lock(&device->meter);
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

void latch_queue(struct meter *meter, struct stream *stream, uint32_t number)
{
	struct launch_device *device = launch_device_of(meter);
	struct capture_mode mode;
	struct latch_words words = {NULL}, *found;

	meter_lock(meter);
	found = latch_find(device, stream->context);
	if (found)
		words = *found;
	meter_unlock(meter);
	if (!words.word)
		return;
	mode = capture_relax();
	DRIVER(cuStreamWaitValue32_v2,
	       (stream->handle, words.at + sizeof(*words.word) * (CUdeviceptr)(stream - meter->stream),
		number, CU_STREAM_WAIT_VALUE_GEQ));
	capture_restore(mode);
}

/* With the lock. A context that leaves has its words open for good. */
static void latch_write(struct launch_device *device, struct stream *stream)
{
	struct latch_words *words = latch_find(device, stream->context);
	uint32_t *word = words && words->word ? &words->word[stream - device->meter.stream] : NULL;

	if (word && word_read(word) < stream->wants)
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

void latch_open_all(struct launch_device *device, CUcontext context)
{
	meter_lock(&device->meter);
	for (int i = 0; i < LATCH_CONTEXTS; i++) {
		const struct latch_words *words = &device->latch[i];

		for (int k = 0; words->word && k < STREAMS; k++)
			if (!context || words->context == context)
				word_release(&words->word[k], OPEN);
	}
	meter_unlock(&device->meter);
}

void latch_forget(struct launch_device *device, CUcontext context)
{
	struct latch_words *words;

	meter_lock(&device->meter);
	words = context ? latch_find(device, context) : NULL;
	if (words)
		*words = (struct latch_words){NULL};
	meter_unlock(&device->meter);
}
