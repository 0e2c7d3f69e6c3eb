/* SPDX-License-Identifier: Apache-2.0 */
/* allot suspend: a tenant's memory leaves its devices, and its processes wait. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/host_memory.h"
#include "base/now.h"
#include "base/parse.h"
#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/out/say.h"
#include "cli/tenant/moving.h"
#include "text/units.h"

#define TIMEOUT_US     (30 * UINT64_C(1000000))
#define TIMEOUT_MAX_US (86400 * UINT64_C(1000000))

enum { KEY_HOST_MEMORY = 256, KEY_TIMEOUT };

static const struct argp_option options[] = {
	{"host-memory", KEY_HOST_MEMORY, "SIZE", 0,
	 "most that may go to host memory (default: what is free, less 10%)", 0},
	{"timeout", KEY_TIMEOUT, "TIME", 0,
	 "how long work on the device is waited for, like 10s (default 30s)", 0},
	{0},
};

struct args {
	const char *name;
	uint64_t host_bytes; /* 0: not said */
	uint64_t timeout_us;
};

static error_t suspend_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case KEY_HOST_MEMORY:
		if (!parse_size(arg, host_memory_total(), &a->host_bytes))
			return 0;
		say_error("--host-memory \"%s\": not a size; write it like --host-memory 64GiB or "
			  "--host-memory 50%%",
			  arg);
		return EINVAL;
	case KEY_TIMEOUT:
		if (!parse_duration_us(arg, TIMEOUT_MAX_US, &a->timeout_us))
			return 0;
		say_error("--timeout \"%s\": not a time up to a day; write it like --timeout 10s",
			  arg);
		return EINVAL;
	case ARGP_KEY_ARG:
		if (a->name)
			argp_error(state, "one tenant at a time: \"%s\" and \"%s\"", a->name, arg);
		a->name = arg;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = suspend_parse_option,
	.args_doc = "NAME",
	.doc = "Move all that a swappable tenant holds on its devices into host memory.\v"
	       "Its processes wait at their next launch, copy or allocation until \"allot resume\". "
	       "Addresses and content stay what they are. Refused, with nothing moved, where a "
	       "process holds what cannot leave.\n"
	       "\n"
	       "  allot run --swappable --memory 40GiB --name serve -- python serve.py\n"
	       "  allot suspend serve\n"
	       "  allot resume serve\n",
};

static uint64_t suspend_until_ns(const struct args *a)
{
	return now_monotonic_ns() + a->timeout_us * 1000;
}

/* Nothing was moved, or all of it comes back. */
static int suspend_call_off(struct moving *moving, const struct args *a)
{
	moving_ask(moving, SWAP_RUN, suspend_until_ns(a), false);
	return EXIT_ALLOT;
}

static int suspend_refuse_silent(struct moving *moving, const struct args *a,
				 const struct moving_sum *sum)
{
	say_error("tenant \"%s\" goes on as it was: %u process%s did not come to rest; try again, "
		  "with a longer --timeout",
		  moving->name, sum->silent, sum->silent == 1 ? "" : "es");
	return suspend_call_off(moving, a);
}

static int suspend_check_room(struct moving *moving, const struct args *a, uint64_t bytes)
{
	uint64_t room = a->host_bytes ? a->host_bytes : host_memory_room();

	if (bytes <= room)
		return 0;
	say_error("tenant \"%s\" goes on as it was: it holds %s, and %s %s; nothing was moved",
		  moving->name, units_bytes(bytes).s,
		  a->host_bytes ? "--host-memory is" : "host memory has room for", units_bytes(room).s);
	return suspend_call_off(moving, a);
}

static int suspend_all(struct moving *moving, const struct args *a)
{
	struct moving_sum sum =
		moving_ask(moving, SWAP_PREPARE, suspend_until_ns(a), true);
	int r;

	if (sum.refused) {
		say_error("tenant \"%s\" goes on as it was: nothing was moved", moving->name);
		return suspend_call_off(moving, a);
	}
	if (sum.silent)
		return suspend_refuse_silent(moving, a, &sum);
	r = suspend_check_room(moving, a, sum.bytes);
	if (r)
		return r;
	/* From here on it goes on without us. Each process ends in one way or the other. */
	sum = moving_ask(moving, SWAP_OUT, UINT64_MAX, true);
	if (sum.refused || sum.silent) {
		moving_ask(moving, SWAP_BACK, UINT64_MAX, true);
		say_error("tenant \"%s\" goes on as it was: what had left is back", moving->name);
		return suspend_call_off(moving, a);
	}
	printf("%s: %s of %u process%s left in %s\n", moving->name, units_bytes(sum.bytes).s,
	       sum.processes, sum.processes == 1 ? "" : "es", units_duration(sum.took_ns).s);
	return 0;
}

int cmd_suspend(int argc, char **argv)
{
	struct args a = {.timeout_us = TIMEOUT_US};
	struct moving moving;
	int r;

	if (argp_parse(&argp, argc, argv, 0, NULL, &a))
		return EXIT_ALLOT;
	if (!a.name)
		return say_error("which tenant? write: allot suspend serve (\"allot ps\" lists them)");
	r = moving_open(a.name, &moving);
	if (r)
		return r;
	if (moving_rests(&moving) != SWAP_RUN) {
		say_note("tenant \"%s\" is suspended already", a.name);
		moving_ask(&moving, SWAP_OUT, UINT64_MAX, true);
	} else {
		r = suspend_all(&moving, &a);
	}
	moving_close(&moving);
	return r;
}
