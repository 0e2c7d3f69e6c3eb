/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues that no mask holds to their tenant's share are on the hardware for a part of the time if
 * the tenant has a slice, and always if it has none, by the emulator's clock: several tenants at once, on GPUs of their own, while a program does what it
 * can to be on it always.
 */
#include "tests/sim/queues.h"

#define MEASURE_MS 10000
#define POINTS	   3 /* of a hundred */
#define STEP_MS	   5

static struct roster_times times_of(const struct puppet *p, uint32_t id)
{
	struct roster_times times;
	struct roster_queue is;

	CHECK(roster_find(p, id, &is, &times));
	return times;
}

/* A queue that is watched. */
struct watched {
	const char *what;
	struct puppet *p;
	uint32_t id;
	uint32_t percent; /* that it is to be active */
	uint32_t points;
	struct roster_times before;
};

/* Since `before`, or in another half of a second, in which the processors may be elsewhere less. */
static void check_part(struct watched *w)
{
	bool right = false;

	for (int tries = 0; tries < 6 && !right; tries++) {
		struct roster_times after;
		uint64_t permille;

		if (tries)
			usleep(500000);
		after = times_of(w->p, w->id);
		permille = 1000 * (after.active_ns - w->before.active_ns) /
			   (after.life_ns - w->before.life_ns);
		fprintf(stderr, "%s: active for %llu.%llu %% of the time, to be %u %%\n", w->what,
			(unsigned long long)permille / 10, (unsigned long long)permille % 10,
			w->percent);
		right = permille + 10 * w->points >= 10 * w->percent &&
			permille <= 10 * (w->percent + w->points);
		w->before = after;
	}
	CHECK(right);
}

static uint32_t busy_copies(struct puppet *p, uint32_t gpu)
{
	uint32_t id = puppet_make(p, gpu, SDMA);

	puppet(p, (struct queue_ask){.op = QUEUE_BUSY, .id = id});
	return id;
}

/* How long queues that are gone were on the hardware, as the trace has it. */
static uint64_t active_ns_of(const char *trace)
{
	FILE *file = fopen(trace, "re");
	uint64_t sum = 0;
	char line[512];

	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		const char *found = strstr(line, " active_ns=");

		if (found)
			sum += strtoull(found + strlen(" active_ns="), NULL, 10);
	}
	fclose(file);
	return sum;
}

/* A queue for each copy: it is there for three steps of four. */
static void copy_anew(struct puppet *p, int step, uint32_t *id)
{
	if (step % 4 == 0) {
		*id = busy_copies(p, 1);
	} else if (step % 4 == 3) {
		puppet(p, (struct queue_ask){.op = QUEUE_IDLE, .id = *id});
		puppet(p, (struct queue_ask){.op = QUEUE_DESTROY, .id = *id});
	}
}

static int count_updates(const char *trace)
{
	FILE *file = fopen(trace, "re");
	char line[512];
	int n = 0;

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, " UPDATE_QUEUE ") != NULL;
	fclose(file);
	return n;
}

static int set_slice(struct policy *policy, void *arg)
{
	policy->slice_us = *(const uint32_t *)arg;
	return 0;
}

/*
 * To switch a queue preempts all processes' queues, so no queue is switched until that is asked
 * for; then it is, in the same process.
 */
static void test_masks_alone(const char *trace)
{
	static const uint32_t slice_us = 20000;
	struct puppet p;
	struct watched is = {"copies under masks alone", &p, 0, 100, 0, {0}};

	setenv("ALLOT_SIM_AMD_TRACE", trace, 1);
	p = puppet_start("masks", OPTIONS("--compute", "0.5"));
	unsetenv("ALLOT_SIM_AMD_TRACE");
	CHECK_EQ(bits(&p, puppet_make(&p, 0, AQL)), 1);
	is.id = busy_copies(&p, 0);
	is.before = times_of(&p, is.id);
	usleep(500000);
	check_part(&is);
	CHECK_EQ(count_updates(trace), 0);
	tenant_edit("masks", set_slice, (void *)&slice_us);
	usleep(500000);
	CHECK(count_updates(trace) > 0);
	puppet_end(&p);
}

int main(int argc, char **argv)
{
	struct puppet stubborn, one, two, idle, least, fickle;
	char trace[PATH_MAX], alone[PATH_MAX];
	struct watched watched[6];
	uint32_t percent, id = 0;
	uint64_t since;
	int n = 0;

	queues_begin(argv);
	snprintf(trace, sizeof(trace), "%.4000s/trace", fixture_runtime_dir());
	snprintf(alone, sizeof(alone), "%.4000s/alone", fixture_runtime_dir());
	test_masks_alone(alone);
	setenv("ALLOT_SIM_AMD_TRACE", trace, 1);
	fickle = puppet_start("fickle", OPTIONS("--compute", "30", "--slice", "20ms"));
	unsetenv("ALLOT_SIM_AMD_TRACE");
	stubborn = puppet_start("stubborn", OPTIONS("--compute", "30", "--slice", "20ms"));
	one = puppet_start("several", OPTIONS("--compute", "30", "--slice", "20ms"));
	two = puppet_start("several", NULL);
	idle = puppet_start("idle", OPTIONS("--compute", "30", "--slice", "20ms"));
	least = puppet_start("least", OPTIONS("--compute", "0.5", "--slice", "20ms"));
#define WATCH(...) watched[n++] = (struct watched){__VA_ARGS__}
	WATCH("copies", &stubborn, busy_copies(&stubborn, 0), 30, POINTS);
	/* What the two have together counts, so each has a little less. */
	WATCH("copies of one process", &one, busy_copies(&one, 1), 30, POINTS + 2);
	WATCH("copies of another", &two, busy_copies(&two, 1), 30, POINTS + 2);
	WATCH("nothing to copy", &idle, puppet_make(&idle, 2, SDMA), 100, 0);
	/* 0.5 % of 110 units is 0.55 of one. */
	WATCH("less than a unit", &least, puppet_make(&least, 2, AQL), 55, POINTS);
	WATCH("compute beside copies", &stubborn, puppet_make(&stubborn, 0, AQL), 100, 0);
	CHECK_EQ(bits(&least, watched[4].id), 1);
	CHECK_EQ(bits(&stubborn, watched[5].id), 33);
	for (int i = 0; i < n; i++)
		watched[i].before = times_of(watched[i].p, watched[i].id);
	since = now_monotonic_ns();
	for (int step = 0; now_monotonic_ns() < since + MEASURE_MS * MS || step % 4; step++) {
		struct queue_ask on = {.op = QUEUE_UPDATE, .id = watched[0].id, .percent = 100};

		CHECK_EQ(puppet_try(&stubborn, on).result, 0);
		copy_anew(&fickle, step, &id);
		usleep(STEP_MS * 1000);
	}
	percent = (uint32_t)(100 * active_ns_of(trace) / (now_monotonic_ns() - since));
	fprintf(stderr, "a queue for each copy: active for %u %% of the time\n", percent);
	CHECK(percent <= 30 + 2 * POINTS);
	for (int i = 0; i < n; i++)
		check_part(&watched[i]);

	/* Who has no limit any more is not left off the hardware. */
	tenant_set("stubborn", 0);
	usleep(100000);
	watched[0] = (struct watched){"copies without a limit", &stubborn, watched[0].id, 100, 0};
	watched[0].before = times_of(&stubborn, watched[0].id);
	usleep(200000);
	check_part(&watched[0]);
	puppet_end(&stubborn);
	puppet_kill(&one);
	puppet_end(&two);
	puppet_end(&idle);
	puppet_end(&least);
	puppet_end(&fickle);
	return 0;
}
