/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that are counted without the meter's lock: none is lost, none counted twice. */
#include "preload/burst.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "preload/meter_priv.h"
#include "tests/check.h"

#define US	1000u
#define STREAM	7
#define THREADS 3
#define ROUNDS	20000

static struct meter_device md;
static char context_at, other_at;

static struct unit launch(uint64_t key, uint64_t ns, uint64_t now_ns)
{
	return (struct unit){
		.context = (CUcontext)&context_at,
		.lane_key = STREAM,
		.key = key,
		.expected_ns = ns,
		.now_ns = now_ns,
	};
}

static void start(void)
{
	memset(&md, 0, sizeof(md));
	md.overlap_permille = 1000;
}

/* As the meter does. */
static void take(const struct unit *unit, uint64_t most_ns)
{
	meter_lock(&md);
	burst_begin(&md, unit, most_ns);
	meter_unlock(&md);
}

static bool join(uint64_t key, uint64_t ns, uint64_t now_ns)
{
	struct unit unit = launch(key, ns, now_ns);
	bool joined;

	unit.lane = -1;
	joined = burst_join(&md, &unit);
	CHECK(!joined || unit.lane == 2);
	return joined;
}

static void end(void)
{
	meter_lock(&md);
	meter_unlock(&md);
}

static void begin(uint64_t most_ns)
{
	struct unit unit = launch(1, 10 * US, 1000 * US);

	start();
	unit.lane = 2;
	take(&unit, most_ns);
	CHECK(!join(1, 1, 1000 * US)); /* the first launch there, by all that is known */
	take(&unit, most_ns);
}

static void check_counts(void)
{
	const struct lane *lane = &md.lane[2];

	begin(100 * US);
	CHECK(join(1, 10 * US, 1001 * US));
	CHECK(join(1, 20 * US, 1002 * US));
	CHECK_EQ(lane->loose.launches, 0);
	end();
	CHECK_EQ(lane->loose.launches, 2);
	CHECK_EQ(lane->loose.key, 1);
	CHECK(lane->loose.known);
	CHECK_EQ(lane->loose.expected_ns, 30 * US);
	CHECK_EQ(lane->pending_ns, 30 * US);
	CHECK_EQ(lane->used_ns, 1002 * US);
	CHECK_EQ(md.pending_ns, 30 * US);
	CHECK_EQ(md.end_ns, 1030 * US);
	CHECK(!join(1, 1, 1003 * US));
	end();
	CHECK_EQ(lane->loose.launches, 2);

	/* Another function's launches; and they come further apart than they take. */
	begin(100 * US);
	CHECK(join(1, 4 * US, 1040 * US));
	CHECK(join(3, 4 * US, 1090 * US));
	end();
	CHECK_EQ(lane->loose.launches, 2);
	CHECK_EQ(lane->loose.key, 0);
	CHECK_EQ(md.end_ns, 1094 * US);
}

static void check_room(void)
{
	int n = 0;

	begin(50 * US);
	CHECK(!join(1, 50 * US + 1, 1001 * US));
	CHECK(join(1, 50 * US, 1001 * US));
	CHECK(!join(1, 1, 1001 * US));

	/* Of what takes no time by all we know there are not any number either. */
	begin(50 * US);
	while (n < 1000 && join(1, 0, 1001 * US))
		n++;
	CHECK_EQ(n, 255);
	end();
	CHECK_EQ(md.lane[2].loose.launches, 255);
	begin(0);
	CHECK(!join(1, 0, 1001 * US));
	begin(UINT64_MAX);
	CHECK(join(1, 200 * US, 1001 * US));
	CHECK(!join(1, 200 * US, 1001 * US));
	end();
	CHECK_EQ(md.pending_ns, 200 * US);
}

static void check_others(void)
{
	struct unit unit = launch(1, 10 * US, 1001 * US);

	begin(100 * US);
	unit.lane_key = STREAM + 1;
	CHECK(!burst_join(&md, &unit));
	unit.lane_key = STREAM;
	unit.context = (CUcontext)&other_at;
	CHECK(!burst_join(&md, &unit));
	CHECK(join(1, 10 * US, 1001 * US));
	/* A launch that takes the lock into another stream ends it, and begins none there. */
	unit.lane = 3;
	take(&unit, 100 * US);
	CHECK_EQ(md.lane[2].loose.launches, 1);
	CHECK(!join(1, 10 * US, 1001 * US));
	CHECK(!burst_join(&md, &unit));
	take(&unit, 100 * US);
	CHECK(burst_join(&md, &unit));
	end();
	CHECK_EQ(md.lane[2].loose.launches, 1);
	CHECK_EQ(md.lane[3].loose.launches, 1);
}

static _Atomic uint64_t joined[2];
static atomic_bool over;

static struct unit of_stream(int stream)
{
	struct unit unit = launch(1 + (uint64_t)stream, 3 + (uint64_t)stream, US);

	unit.lane_key = (uint64_t)stream;
	return unit;
}

static void *joins(void *arg)
{
	while (!atomic_load(&over))
		for (int stream = 0; stream < 2; stream++) {
			struct unit unit = of_stream(stream);

			if (burst_join(&md, &unit)) {
				CHECK_EQ(unit.lane, stream);
				atomic_fetch_add(&joined[stream], 1);
			}
		}
	return NULL;
}

/* One takes the lock again and again, now for one stream, now for another, and others join. */
static void check_threads(void)
{
	pthread_t thread[THREADS];

	start();
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, joins, NULL));
	for (int i = 0; i < ROUNDS || !joined[0] || !joined[1]; i++) {
		struct unit unit = of_stream(i / 2 % 2);

		unit.lane = i / 2 % 2;
		take(&unit, 200);
		if (i % 512 == 0)
			sched_yield();
	}
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	end();
	for (int stream = 0; stream < 2; stream++) {
		CHECK_EQ(md.lane[stream].loose.launches, joined[stream]);
		CHECK_EQ(md.lane[stream].pending_ns, joined[stream] * (3 + (uint64_t)stream));
		CHECK_EQ(md.lane[stream].loose.key, 1 + stream);
	}
}

int main(void)
{
	check_counts();
	check_room();
	check_others();
	check_threads();
	return 0;
}
