/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/meter/recorded.h"

#include "guest/meter/meter.h"

/* The event's own place, or the one that it takes from another. */
static struct recorded *recorded_place(struct meter *meter, CUevent event)
{
	uint64_t hash = (uint64_t)(uintptr_t)event * UINT64_C(0x9e3779b97f4a7c15);
	struct recorded *set =
		&meter->recorded[(hash >> 32) % (RECORDED / RECORDED_WAYS) * RECORDED_WAYS];
	struct recorded *oldest = set;

	for (struct recorded *at = set; at < set + RECORDED_WAYS; at++) {
		if (at->event == event)
			return at;
		if (at->number < oldest->number)
			oldest = at;
	}
	return oldest;
}

/* With the lock. A stream that was never launched into has no wait that is known of. */
static struct recorded recorded_as_of_now(struct meter *meter, const struct stream *stream)
{
	if (!stream)
		return (struct recorded){0};
	return (struct recorded){
		.stream = stream,
		.serial = atomic_load(&stream->serial),
		.tail = stream->tail,
		.blocked = stream->blocked,
	};
}

void recorded_note(struct meter *meter, CUevent event, CUcontext context, CUstream stream)
{
	struct recorded *at;

	meter_lock(meter);
	at = recorded_place(meter, event);
	*at = recorded_as_of_now(meter, meter_stream_of(meter, context, launch_stream_key(stream)));
	at->event = event;
	at->number = ++meter->recordings;
	meter_unlock(meter);
}

/* With the lock: whether a wait for the program stands in the stream before where the event is. */
static bool recorded_is_blocked(const struct recorded *at)
{
	const struct stream *stream = at->stream;

	if (!stream || atomic_load(&stream->serial) != at->serial)
		return at->blocked;
	for (uint32_t i = stream->head; (int32_t)(at->tail - i) > 0; i++)
		if (stream->event[i % STREAM_EVENTS].blocked)
			return true;
	return at->blocked;
}

enum recorded_state recorded_ask(struct meter *meter, CUevent event)
{
	enum recorded_state state = RECORDED_NOT;
	const struct recorded *at;

	meter_lock(meter);
	at = recorded_place(meter, event);
	if (at->event == event)
		state = recorded_is_blocked(at) ? RECORDED_BLOCKED : RECORDED_FREE;
	meter_unlock(meter);
	return state;
}
