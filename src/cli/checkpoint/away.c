/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/away.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/now.h"
#include "base/number.h"
#include "base/parse.h"
#include "cli/checkpoint/stored.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/contexts.h"
#include "cli/tenant/swap_dir.h"
#include "control/message.h"
#include "ledger/policy.h"
#include "ledger/role/residency_file.h"
#include "ledger/shared_file.h"
#include "ledger/swap.h"
#include "ledger/tenant.h"
#include "node/tenants.h"
#include "text/units.h"

/* Processes that are back only have to see that they may continue. */
#define RUN_NS (10 * NS_PER_S)

#define NAP_MOST_US 5000

#define TIMEOUT_MAX_US (86400 * UINT64_C(1000000))

int away_parse_timeout(const char *text, uint64_t *ret_us)
{
	if (!parse_duration_us(text, TIMEOUT_MAX_US, ret_us))
		return 0;
	return say_error("--timeout \"%s\": not a time up to a day; write it like --timeout 10s", text);
}

int away_parse_notice(const char *text, uint64_t *ret_us)
{
	if (!parse_duration_us(text, CONTROL_NOTICE_MAX_US, ret_us))
		return 0;
	return say_error("--notice \"%s\": not a time up to a minute; write it like --notice 2s", text);
}

/*
 * How long to wait for the way back after a call-off. A process that makes no progress is not
 * waited for again: it finds the request when it continues.
 */
#define CALL_OFF_NS (2 * NS_PER_S)

/* Nothing was moved, or all of it is back. */
static int away_call_off(struct moving *moving, int status)
{
	moving_ask(moving, SWAP_RUN, min_u64(moving->patience_ns, CALL_OFF_NS), false);
	return status;
}

static int away_refuse_silent(struct moving *moving, const struct swap_sum *sum)
{
	say_error("tenant \"%s\" goes on as it was: %u process%s did not come to rest; try again, "
		  "with a longer --timeout",
		  moving->name, sum->silent, sum->silent == 1 ? "" : "es");
	return away_call_off(moving, CONTROL_EXIT_LATE);
}

/* How much of the tenant may be in host memory; `has` bytes of it are there already. */
static uint64_t away_room(const struct moving *moving, const struct away_options *o, uint64_t has)
{
	uint64_t said = o->host_bytes ? o->host_bytes : moving->host_bytes;

	return swap_dir_host_room(moving->swap_dir, said, has);
}

/*
 * Memory that the host has no room for goes to a file. Each process reserves room there, or nothing
 * moves.
 */
static int away_divide(struct moving *moving, const struct away_options *o, enum swap_phase prepare,
		       uint64_t bytes, uint64_t room)
{
	struct swap_sum sum;

	swap_desk_set_split(moving->desk, swap_split_of(bytes, room));
	sum = moving_ask(moving, prepare, moving->patience_ns, true);
	if (!sum.refused && !sum.silent)
		return 0;
	say_error("tenant \"%s\" goes on as it was: nothing was moved", moving->name);
	return away_call_off(moving, moving_status(&sum));
}

static int away_check_room(struct moving *moving, const struct away_options *o,
			   enum swap_phase prepare, const struct swap_sum *sum)
{
	uint64_t said = o->host_bytes ? o->host_bytes : moving->host_bytes;
	uint64_t room = away_room(moving, o, sum->kept);

	if (sum->bytes <= room)
		return 0;
	if (*moving->swap_dir)
		return away_divide(moving, o, prepare, sum->bytes, room);
	say_error("tenant \"%s\" goes on as it was: it holds %s, and %s %s; nothing was moved",
		  moving->name, units_bytes(sum->bytes).s,
		  said ? "--host-memory is" : "host memory has room for", units_bytes(room).s);
	return away_call_off(moving, CONTROL_EXIT_NO_ROOM);
}

static int away_stays(const struct moving *moving, bool all, int status)
{
	return say_fail(status, "tenant \"%s\" stays suspended: all of it is in host memory%s%s%s",
			moving->name, *moving->swap_dir ? ", or in a file in " : "",
			moving->swap_dir, all ? "" : ", or goes there");
}

/* Moves memory that had come back out again. */
static int away_leave_again(struct moving *moving, int status)
{
	struct swap_sum sum = moving_ask(moving, SWAP_OUT, CALL_OFF_NS, false);

	return away_stays(moving, !sum.silent, status);
}

/*
 * Some processes could not move their memory, or were silent, which was reported (`left`): the
 * others move theirs back.
 */
static int away_call_back(struct moving *moving, const struct swap_sum *left)
{
	struct swap_sum sum = moving_ask(moving, SWAP_BACK, CALL_OFF_NS, !left->silent);

	if (sum.refused || (sum.silent && moving_shares(moving)))
		return away_leave_again(moving, moving_status(left));
	say_error("tenant \"%s\" goes on as it was: what had left is back", moving->name);
	return away_call_off(moving, moving_status(left));
}

static void away_say_left(const struct moving *moving, const struct swap_sum *sum)
{
	if (!sum->processes) {
		printf("%s: suspended; none of its processes had device memory to move, and their next "
		       "use of a GPU waits for \"allot resume %s\"\n",
		       moving->name, moving->name);
		return;
	}
	printf("%s: %s of %u process%s left in %s", moving->name, units_bytes(sum->bytes).s,
	       sum->processes, sum->processes == 1 ? "" : "es", units_duration(sum->took_ns).s);
	if (sum->filed)
		printf(", %s of it to a file in %s", units_bytes(sum->filed).s, moving->swap_dir);
	putchar('\n');
}

static int away_send_memory(struct moving *moving, const struct away_options *o)
{
	enum swap_phase prepare = o->contexts ? SWAP_PREPARE_CONTEXTS : SWAP_PREPARE;
	struct swap_sum sum;
	int r;

	swap_desk_set_split(moving->desk, 0);
	sum = moving_ask(moving, prepare, moving->patience_ns, true);
	if (sum.refused) {
		say_error("tenant \"%s\" goes on as it was: nothing was moved", moving->name);
		return away_call_off(moving, moving_status(&sum));
	}
	if (sum.silent)
		return away_refuse_silent(moving, &sum);
	r = away_check_room(moving, o, prepare, &sum);
	if (r)
		return r;
	/* From here on the processes continue without us. Each ends in one way or the other. */
	sum = moving_ask(moving, SWAP_OUT, moving->patience_ns, true);
	if (sum.refused || sum.silent)
		return away_call_back(moving, &sum);
	away_say_left(moving, &sum);
	return 0;
}

/* If BARE fails for want of memory, contexts are not moved. */
static int away_send_contexts(struct moving *moving)
{
	uint64_t begin = now_monotonic_ns();
	struct swap_sum sum = moving_ask(moving, SWAP_BARE, moving->patience_ns, true);
	int r = sum.refused || sum.silent ? EXIT_ALLOT : contexts_take(moving);

	if (!r)
		printf("%s: contexts left in %s\n", moving->name,
		       units_duration(now_monotonic_ns() - begin).s);
	return r;
}

/*
 * Moves the rest of a tenant that takes turns and is partly evicted, if the host has room for that,
 * too.
 */
static int away_send_rest(struct moving *moving, const struct away_options *o)
{
	struct swap_places places = moving_find(moving);
	uint64_t said = o->host_bytes ? o->host_bytes : moving->host_bytes;
	uint64_t split = swap_desk_split(moving->desk);
	uint64_t room = away_room(moving, o, swap_host_bytes(places.away, split));
	struct swap_sum sum;

	if (swap_host_bytes(places.here + places.away, split) > room)
		return say_fail(CONTROL_EXIT_NO_ROOM, "tenant \"%s\" stays as it is, %s of it "
				"away: it holds %s more, and %s %s", moving->name,
				units_bytes(places.away).s, units_bytes(places.here).s,
				said ? "--host-memory is" : "host memory has room for",
				units_bytes(room).s);
	/*
	 * Twice if an earlier resume did not end: first the part that was evicted before, then the
	 * rest.
	 */
	do
		sum = moving_ask(moving, SWAP_OUT, moving->patience_ns, true);
	while (!sum.refused && !sum.silent && moving_is_parted(moving));
	if (sum.refused || sum.silent)
		return say_fail(moving_status(&sum), "of tenant \"%s\" a part stays on its "
				"devices, and it does not run", moving->name);
	away_say_left(moving, &sum);
	return 0;
}

/* Repeats the last request, which each process answers at once with its state. */
static int away_note(struct moving *moving)
{
	struct swap_sum sum;

	say_note("tenant \"%s\" is suspended already", moving->name);
	sum = moving_ask(moving, moving_rests(moving), moving->patience_ns, true);
	return sum.silent ? CONTROL_EXIT_LATE : 0;
}

/* A notice that programs were given. */
struct away_notice {
	struct policy_map *map; /* of the tenant, which may end meanwhile; NULL: no notice */
	uint32_t number;
};

/* Refusals that can be known before anything is asked of the tenant. */
static int away_check(const struct moving *moving, const struct away_options *o)
{
	bool suspended = moving_rests(moving) != SWAP_RUN;
	int r = o->contexts ? contexts_check(moving) : 0;

	if (r) {
		say_note("tenant \"%s\" %s as it was", moving->name, suspended ? "stays" : "goes on");
		return r;
	}
	if (stored_is(moving))
		return say_error("tenant \"%s\" is on its way to a disk or from there; \"allot resume "
				 "%s\" brings it back, or to its end",
				 moving->name, moving->name);
	return 0;
}

/*
 * Waits until no program listens, or for the time that was given. Others may move the tenant
 * meanwhile, as it may be in the way of theirs, and it may end: what was read of it is read again.
 */
static int away_wait_for_listeners(struct moving *moving, const struct away_notice *notice,
				   uint64_t until_ns)
{
	unsigned int nap = 50;
	int r;

	moving_close(moving);
	while (swap_is_listened_to(moving->dir) && now_monotonic_ns() < until_ns)
		shared_file_nap(&nap, NAP_MOST_US);
	r = moving_open_again(moving);
	if (r || policy_is_of(notice->map, moving->dir))
		return r;
	return say_error("tenant \"%s\" ended during the notice; another one has its name now, "
			 "was not told, and goes on",
			 moving->name);
}

/* Tells programs that listen. 0, or an exit status after a message. */
static int away_give_notice(struct moving *moving, const struct away_options *o,
			    struct away_notice *notice)
{
	uint64_t until_ns = now_monotonic_ns() + o->notice_us * NS_PER_US;
	int r;

	if (!o->notice_us || moving_rests(moving) != SWAP_RUN || !swap_is_listened_to(moving->dir))
		return 0;
	r = policy_open(moving->dir, &notice->map);
	if (r < 0)
		return say_error("tenant \"%s\" (%s) cannot be opened: %s", moving->name, moving->dir,
				 tenants_error_words(r));
	if (!swap_desk_give_notice(moving->desk, until_ns, &notice->number)) {
		policy_close(TAKE_PTR(notice->map));
		return 0;
	}
	r = away_wait_for_listeners(moving, notice, until_ns);
	return r ? r : away_check(moving, o);
}

/*
 * The suspend has happened, or does not: programs that see the tenant run are not to wait for it. If
 * the desk is not to be had, the notice ends by itself.
 */
static void away_end_notice(const struct moving *moving, struct away_notice *notice)
{
	struct swap_desk *own = NULL, *desk = moving->desk;

	if (!notice->map)
		return;
	if (!desk && !swap_desk_open(moving->dir, SWAP_COMMAND, &own))
		desk = own;
	if (desk && policy_is_of(notice->map, moving->dir))
		swap_desk_withdraw_notice(desk, notice->number);
	swap_desk_close(own);
	policy_close(notice->map);
}

static int away_send_checked(struct moving *moving, const struct away_options *o)
{
	bool suspended = moving_rests(moving) != SWAP_RUN;
	int r;

	moving->patience_ns = o->timeout_us * NS_PER_US;
	if (moving_is_parted(moving))
		r = away_send_rest(moving, o);
	else if (suspended)
		r = away_note(moving);
	else
		r = away_send_memory(moving, o);
	if (r || !o->contexts)
		return r;
	r = away_send_contexts(moving);
	if (!r)
		return 0;
	if (suspended) {
		moving_ask(moving, SWAP_OUT, CALL_OFF_NS, false);
		say_note("tenant \"%s\" stays suspended, with its contexts on the device", moving->name);
	} else if (!away_return(moving)) {
		say_note("tenant \"%s\" goes on as it was: what had left is back", moving->name);
	}
	return r;
}

int away_send(struct moving *moving, const struct away_options *o)
{
	struct away_notice notice = {0};
	int r = away_check(moving, o);

	if (!r)
		r = away_give_notice(moving, o, &notice);
	if (!r)
		r = away_send_checked(moving, o);
	away_end_notice(moving, &notice);
	return r;
}

/*
 * A tenant that takes turns, and has no room, comes back as for a launch of its own: the role
 * holder makes room for it. Others may have their turn first.
 */
static int away_take_turn(struct moving *moving)
{
	const struct swap_places places = moving_find(moving);
	uint64_t began = now_monotonic_ns();
	CLEANUP_CLOSE int wants = swap_want(moving->dir);
	char runtime[PATH_MAX];
	unsigned int nap = 50;
	int r = wants < 0 ? wants : tenant_runtime_of(moving->dir, runtime, sizeof(runtime));

	if (r < 0)
		return say_error("tenant \"%s\" (%s) cannot be opened: %s", moving->name, moving->dir,
				 tenants_error_words(r));
	moving_leave_desk(moving);
	residency_file_tell(runtime);
	while (swap_any_away(moving->dir)) {
		if (now_monotonic_ns() > began + moving->patience_ns)
			return say_fail(CONTROL_EXIT_NO_ROOM, "tenant \"%s\" stays suspended: "
					"others that cannot leave, or whose turn it is, have its "
					"place on the device for longer than %s; \"allot ps\" "
					"shows who", moving->name,
					units_duration(moving->patience_ns).s);
		shared_file_nap(&nap, NAP_MOST_US);
	}
	printf("%s: %s came back in %s\n", moving->name, units_bytes(places.away).s,
	       units_duration(now_monotonic_ns() - began).s);
	return 0;
}

int away_return(struct moving *moving)
{
	struct swap_sum sum;
	int r = stored_return(moving);

	if (r)
		return say_fail(r, "tenant \"%s\" stays suspended", moving->name);
	/* It was on its way to a disk, or from there, and nothing has moved. */
	if (moving_rests(moving) == SWAP_RUN)
		return 0;
	if (moving_rests(moving) == SWAP_BARE && contexts_return(moving))
		return away_stays(moving, true, EXIT_ALLOT);
	/* All of the memory comes back or none. A process that cannot move its own says why. */
	sum = moving_ask(moving, SWAP_BACK, moving->patience_ns, !moving->overcommits);
	if (moving->overcommits && sum.refused && !sum.silent) {
		moving_ask(moving, SWAP_OUT, CALL_OFF_NS, false);
		return away_take_turn(moving);
	}
	if (sum.refused || sum.silent)
		return away_leave_again(moving, moving_status(&sum));
	moving_ask(moving, SWAP_RUN, RUN_NS, false);
	if (!sum.processes) {
		printf("%s: resumed; none of its processes had device memory to bring back\n", moving->name);
		return 0;
	}
	printf("%s: %s of %u process%s came back in %s\n", moving->name, units_bytes(sum.bytes).s,
	       sum.processes, sum.processes == 1 ? "" : "es", units_duration(sum.took_ns).s);
	return 0;
}
