/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/meter/state.h"

void stream_opened(struct meter *meter, struct stream *stream, uint32_t number, uint64_t now_ns)
{
	struct timing_event *event;
	struct burst burst = {0};

	while ((event = stream_next_split(stream)) && event->latch <= number) {
		burst.launches += event->held;
		burst.expected_ns += event->held_ns;
		event->splits = event->blocked = false;
		if (!stream->parked)
			atomic_fetch_add(&meter->begins, 1);
		if (event == &stream->event[stream->split - 1])
			stream->split = 0;
	}
	stream->held_ns -= burst.expected_ns;
	stream->flying_ns += burst.expected_ns;
	if (!stream->parked)
		meter->flying_ns += burst.expected_ns;
	if (burst.launches)
		meter->client->launched(meter, stream, &burst, now_ns, now_ns);
}
