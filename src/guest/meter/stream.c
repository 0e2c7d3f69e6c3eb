/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/meter/stream.h"

#include <errno.h>

int stream_find(const struct stream *streams, uint32_t n, CUcontext context, uint64_t key)
{
	for (uint32_t i = 0; i < n; i++)
		if (streams[i].key == key && streams[i].context == context)
			return (int)i;
	return -1;
}

int stream_place(struct stream *streams, uint32_t *n)
{
	int oldest = -1;

	for (uint32_t i = 0; i < *n; i++) {
		const struct stream *stream = &streams[i];

		if (!stream_is_closed(stream) || stream->leaving)
			continue;
		if (!stream->context || !stream->key)
			return (int)i;
		if (stream->blocked) /* nobody else knows that it waits */
			continue;
		if (oldest < 0 || stream->launched_ns < streams[oldest].launched_ns)
			oldest = (int)i;
	}
	if (*n < STREAMS && (*n < STREAMS_KEPT || oldest < 0))
		return (int)(*n)++;
	return oldest < 0 ? -ENOSPC : oldest;
}

void burst_add(struct burst *burst, const struct burst *more)
{
	burst->key = !burst->launches || burst->key == more->key ? more->key : 0;
	burst->known = (!burst->launches || burst->known) && more->known;
	if (!burst->launches || more->longest.expected_ns > burst->longest.expected_ns)
		burst->longest = more->longest;
	burst->waits = more->waits ? more->waits : burst->waits;
	burst->launches += more->launches;
	burst->expected_ns += more->expected_ns;
}
