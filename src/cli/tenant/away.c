/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/away.h"

#include <stdio.h>

#include "base/now.h"
#include "cli/checkpoint/stored.h"
#include "cli/exit_status.h"
#include "cli/out/say.h"
#include "cli/tenant/contexts.h"
#include "base/host_memory.h"
#include "text/units.h"

/* Processes that are back have only to notice that they may go on. */
#define RUN_NS (10 * NS_PER_S)

static uint64_t away_until_ns(const struct away_options *o)
{
	return now_monotonic_ns() + o->timeout_us * 1000;
}

/* Nothing was moved, or all of it comes back. */
static int away_call_off(struct moving *moving, const struct away_options *o)
{
	moving_ask(moving, SWAP_RUN, away_until_ns(o), false);
	return EXIT_ALLOT;
}

static int away_refuse_silent(struct moving *moving, const struct away_options *o,
			      const struct moving_sum *sum)
{
	say_error("tenant \"%s\" goes on as it was: %u process%s did not come to rest; try again, "
		  "with a longer --timeout",
		  moving->name, sum->silent, sum->silent == 1 ? "" : "es");
	return away_call_off(moving, o);
}

static int away_check_room(struct moving *moving, const struct away_options *o,
			   const struct moving_sum *sum)
{
	uint64_t said = o->host_bytes ? o->host_bytes : moving->host_bytes;
	uint64_t room = said ? said : host_memory_room() + sum->kept;

	if (sum->bytes <= room)
		return 0;
	say_error("tenant \"%s\" goes on as it was: it holds %s, and %s %s; nothing was moved",
		  moving->name, units_bytes(sum->bytes).s,
		  said ? "--host-memory is" : "host memory has room for", units_bytes(room).s);
	return away_call_off(moving, o);
}

static int away_stays(const struct moving *moving)
{
	return say_error("tenant \"%s\" stays suspended: all of it is in host memory", moving->name);
}

/* All of it comes, or all stays away, and who could not come says why. */
static int away_bring_back(struct moving *moving, struct moving_sum *ret)
{
	struct moving_sum sum = moving_ask(moving, SWAP_BACK, UINT64_MAX, true);

	if (sum.refused || sum.silent) {
		moving_ask(moving, SWAP_OUT, UINT64_MAX, false);
		return away_stays(moving);
	}
	*ret = sum;
	return 0;
}

static void away_say_left(const struct moving *moving, const struct moving_sum *sum)
{
	printf("%s: %s of %u process%s left in %s\n", moving->name, units_bytes(sum->bytes).s,
	       sum->processes, sum->processes == 1 ? "" : "es", units_duration(sum->took_ns).s);
}

static int away_send_memory(struct moving *moving, const struct away_options *o)
{
	enum swap_phase prepare = o->contexts ? SWAP_PREPARE_CONTEXTS : SWAP_PREPARE;
	struct moving_sum sum = moving_ask(moving, prepare, away_until_ns(o), true);
	int r;

	if (sum.refused) {
		say_error("tenant \"%s\" goes on as it was: nothing was moved", moving->name);
		return away_call_off(moving, o);
	}
	if (sum.silent)
		return away_refuse_silent(moving, o, &sum);
	r = away_check_room(moving, o, &sum);
	if (r)
		return r;
	/* From here on it goes on without us. Each process ends in one way or the other. */
	sum = moving_ask(moving, SWAP_OUT, UINT64_MAX, true);
	if (sum.refused || sum.silent) {
		if (away_bring_back(moving, &sum))
			return EXIT_ALLOT;
		say_error("tenant \"%s\" goes on as it was: what had left is back", moving->name);
		return away_call_off(moving, o);
	}
	away_say_left(moving, &sum);
	return 0;
}

/* What BARE cannot do for want of memory is not done without. */
static int away_send_contexts(struct moving *moving)
{
	uint64_t begin = now_monotonic_ns();
	struct moving_sum sum = moving_ask(moving, SWAP_BARE, UINT64_MAX, true);
	int r = sum.refused || sum.silent ? EXIT_ALLOT : contexts_take(moving);

	if (!r)
		printf("%s: contexts left in %s\n", moving->name,
		       units_duration(now_monotonic_ns() - begin).s);
	return r;
}

/* Of one that takes turns a part is away. The rest follows, if that has room as well. */
static int away_send_rest(struct moving *moving, const struct away_options *o)
{
	struct moving_places places = moving_find(moving);
	uint64_t said = o->host_bytes ? o->host_bytes : moving->host_bytes;
	uint64_t room = said ? said : host_memory_room() + places.away;
	struct moving_sum sum;

	if (places.here + places.away > room)
		return say_error("tenant \"%s\" stays as it is, %s of it away: it holds %s more, and %s %s",
				 moving->name, units_bytes(places.away).s,
				 units_bytes(places.here).s,
				 said ? "--host-memory is" : "host memory has room for",
				 units_bytes(room).s);
	/* Twice where a way back was not ended: what was away leaves again, and then the rest. */
	do
		sum = moving_ask(moving, SWAP_OUT, UINT64_MAX, true);
	while (!sum.refused && !sum.silent && moving_is_parted(moving));
	if (sum.refused || sum.silent)
		return say_error("of tenant \"%s\" a part stays on its devices, and it does not run",
				 moving->name);
	away_say_left(moving, &sum);
	return 0;
}

/* Asks once more for what was asked last, which each process answers from where it is. */
static void away_note(struct moving *moving)
{
	say_note("tenant \"%s\" is suspended already", moving->name);
	moving_ask(moving, moving_rests(moving), UINT64_MAX, true);
}

int away_send(struct moving *moving, const struct away_options *o)
{
	bool suspended = moving_rests(moving) != SWAP_RUN;
	int r = o->contexts ? contexts_check(moving) : 0;

	if (r) {
		say_note("tenant \"%s\" %s as it was", moving->name, suspended ? "stays" : "goes on");
		return r;
	}
	if (suspended && stored_is(moving))
		return say_error("tenant \"%s\" is on its way to a disk or from there; \"allot resume "
				 "%s\" brings it back, or to its end",
				 moving->name, moving->name);
	if (moving_is_parted(moving))
		r = away_send_rest(moving, o);
	else if (suspended)
		away_note(moving);
	else
		r = away_send_memory(moving, o);
	if (r || !o->contexts)
		return r;
	r = away_send_contexts(moving);
	if (!r)
		return 0;
	if (suspended) {
		moving_ask(moving, SWAP_OUT, UINT64_MAX, false);
		say_note("tenant \"%s\" stays suspended, with its contexts on the device", moving->name);
	} else if (!away_return(moving)) {
		say_note("tenant \"%s\" goes on as it was: what had left is back", moving->name);
	}
	return r;
}

int away_return(struct moving *moving)
{
	struct moving_sum sum;

	if (stored_return(moving))
		return say_error("tenant \"%s\" stays suspended", moving->name);
	if (moving_rests(moving) == SWAP_BARE && contexts_return(moving))
		return away_stays(moving);
	if (away_bring_back(moving, &sum))
		return EXIT_ALLOT;
	moving_ask(moving, SWAP_RUN, now_monotonic_ns() + RUN_NS, false);
	printf("%s: %s of %u process%s came back in %s\n", moving->name, units_bytes(sum.bytes).s,
	       sum.processes, sum.processes == 1 ? "" : "es", units_duration(sum.took_ns).s);
	return 0;
}
