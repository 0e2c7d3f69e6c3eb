/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/residency_host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/futex.h"
#include "base/host_memory.h"
#include "base/now.h"
#include "base/number.h"
#include "base/pages.h"
#include "base/trial.h"
#include "base/word.h"
#include "ledger/device_time.h"
#include "ledger/ledger.h"
#include "ledger/life.h"
#include "ledger/policy.h"
#include "ledger/quota.h"
#include "ledger/role/residency_file.h"
#include "ledger/role/role_file.h"
#include "ledger/shared.h"
#include "ledger/slot.h"
#include "ledger/swap_poll.h"
#include "ledger/tenant.h"
#include "ledger/trace/trace.h"
#include "ledger/turn.h"
#include "roles/role.h"
#include "roles/roster.h"
#include "sched/residency.h"
#include "sched/stranded.h"
#include "sched/tuning.h"

#define DEVICES RESIDENCY_DEVICES

/* What is decided is asked for as it is. */
_Static_assert(RESIDENCY_ALL == SWAP_ALL, "parts");
_Static_assert(RESIDENCY_TENANTS == ROSTER_TENANTS, "one of each");
_Static_assert(RESIDENCY_DEVICES <= TURN_DEVICES, "what is stranded of each");

/* How long a figure of what the machine has free is used: reading it takes 0.03 ms. */
#define HOST_FREE_NS (10 * NS_PER_MS)
/* The role is kept for so long when nobody waits any more. */
#define ROLE_NS NS_PER_S
/* The part that a tenant was told is valid for so long, in case that this process ends. */
#define ENTITLED_NS (2 * NS_PER_S)
/* A device that is found to have less than is known has less by this, too: a granule of its memory. */
#define LOST_BYTES (UINT64_C(2) << 20)
/*
 * A step that comes this late was held up: the role holder was stopped, or the machine was. Whatever
 * is less uses up nobody's patience; a role holder that is only slow keeps nobody waiting for it.
 */
#define LATE_NS (TUNING_RESIDENCY_ASLEEP_NS / 2)
/* A process that was stopped has gone on if it answers for longer than that: it would be called off before. */
#define HEARD_NS (TUNING_RESIDENCY_ASLEEP_NS + NS_PER_S / 10)

/* The part of a roster's entry; the same number of `state` is what is decided of the tenant. */
struct member {
	char dir[256 + POLICY_NAME_BYTES + 1];
	struct policy_map *map; /* the roster's */
	struct turn *turn;
	struct policy policy;
	uint64_t id, generation;
	struct ledger *ledger;
	struct trace *trace; /* NULL: what is decided of it is not recorded */
	bool overcommits;
	bool copied; /* `ledger` is a copy of the tenant's file, and not mapped */
	int ndevices;
	uint8_t bit[DEVICES];
	uint8_t row[DEVICES]; /* in its ledger; of a tenant that overcommits the same number */
	int looked, looked_of; /* rows of its ledger that were looked at, and devices known then */

	struct swap_desk *desk; /* it is asked for something, by us */
	uint32_t request;
	uint64_t asked_ns;
	uint32_t part; /* that is to leave ... */
	uint32_t step; /* ... by now */
	bool follows;  /* some of it is away already */
	bool called_off; /* ... and is to run again, without whoever is stuck */
	bool stuck;	 /* it is away but for one process, of which nothing moves */
	struct swap_progress progress;
	uint64_t silent_ns; /* since then a process of it has not answered; 0: all do */
	uint64_t heard_ns;  /* since then all do, after one did not; 0: not yet */
	bool stopped;	    /* silent for longer than an allocation waits for that */
	/*
	 * Of the host so much is for what leaves, of which it had some, and has not taken the rest.
	 */
	uint64_t leaves, had, takes;
	bool divided;  /* how it is split is said, or it has no file */
	uint64_t fixed_until_ns; /* it cannot leave */
	uint64_t stays_until_ns; /* it has work that does not end */
	uint64_t away_until_ns;	 /* it could not come back */
	uint64_t idle_wait_ns;	 /* from the last refusal to idle_until_ns */
	bool keeps;	 /* it has come back, and may have host memory still */
	uint32_t failed; /* so often the device had no room in spite of what is known of it */
};

struct residency_host {
	struct role role;
	struct roster roster;
	uint64_t busy_ns, ids;
	uint64_t due_ns; /* of the next step; 0: there was none */
	bool claimed; /* by a daemon: the role is handed over */
	bool moves;   /* some tenant does */
	int n; /* of the roster, as of this step */
	int nuuids;
	uint8_t uuid[DEVICES][16];
	uint64_t total[DEVICES], fixed[DEVICES]; /* what cannot leave, of whomever */
	uint64_t promised[DEVICES]; /* of that, what is not used */
	uint64_t there[DEVICES];    /* what can leave, of those that take turns */
	uint64_t lost[DEVICES], lost_until_ns[DEVICES];
	uint64_t host_free, host_free_ns; /* of the machine's memory, and when that was read */
	struct residency_device device[DEVICES];
	struct member member[RESIDENCY_TENANTS];
	struct residency_tenant state[RESIDENCY_TENANTS];
};

/* --- The role ------------------------------------------------------------------------------- */

static const struct roster_job residency_job;

/* `enter` is role_open, for a tenant's directory, or role_claim. */
static int residency_host_make(const char *dir,
			       int (*enter)(struct role *, const struct role_file *, const char *),
			       struct residency_host **ret)
{
	struct residency_host *host = pages_reserve(sizeof(*host));
	int r;

	if (!host)
		return -ENOMEM;
	r = enter(&host->role, &role_file_residency, dir);
	if (r < 0) {
		munmap(host, sizeof(*host));
		return r;
	}
	host->role.stopped_ns = TUNING_RESIDENCY_SILENT_NS;
	host->roster.job = &residency_job;
	host->roster.arg = host;
	*ret = host;
	return 0;
}

int residency_host_open(const char *tenant_dir, struct residency_host **ret)
{
	int r = residency_host_make(tenant_dir, role_open, ret);

	if (!r)
		role_file_come((*ret)->role.map);
	return r;
}

int residency_host_claim(const char *runtime, struct residency_host **ret)
{
	return residency_host_make(runtime, role_claim, ret);
}

void residency_host_close(struct residency_host *host)
{
	if (!host)
		return;
	roster_leave_all(&host->roster);
	role_close(&host->role);
	munmap(host, sizeof(*host));
}

static void residency_host_leave(void *arg, int i)
{
	struct residency_host *host = arg;
	struct member *member = &host->member[i];

	swap_desk_close(member->desk);
	turn_close(member->turn);
	ledger_close(member->ledger);
	trace_close(member->trace);
	memset(member, 0, sizeof(*member));
	memset(&host->state[i], 0, sizeof(host->state[i]));
}

void residency_host_drop(struct residency_host *host)
{
	roster_leave_all(&host->roster);
	host->n = host->nuuids = 0;
	memset(host->lost, 0, sizeof(host->lost));
	host->due_ns = 0;
	host->claimed = host->moves = false;
	role_drop(&host->role);
}

void residency_host_look_away(struct residency_host *host)
{
	role_look_away(&host->role);
}

bool residency_host_take(struct residency_host *host, uint64_t now_ns)
{
	if (role_held(&host->role))
		return true;
	residency_host_drop(host);
	if (!role_take(&host->role, now_ns))
		return false;
	host->busy_ns = now_ns;
	FAULT_POINT(RESIDENCY_TAKEN);
	return true;
}

/* Moves that were begun end first: they are done sooner than another process would find them. */
bool residency_host_gives_way(struct residency_host *host)
{
	host->claimed |= role_is_claimed(&host->role);
	return host->claimed && !host->moves;
}

struct residency_file *residency_host_file(struct residency_host *host)
{
	return host->role.map;
}

/* --- Who is there --------------------------------------------------------------------------- */

/* host->nuuids: it is not known. */
static int residency_host_find(const struct residency_host *host, const uint8_t uuid[16])
{
	int i = 0;

	while (i < host->nuuids && memcmp(host->uuid[i], uuid, 16))
		i++;
	return i;
}

static int residency_host_bit(struct residency_host *host, const uint8_t uuid[16], uint64_t total)
{
	int i = residency_host_find(host, uuid);

	if (i == DEVICES)
		return DEVICES - 1; /* more devices than a machine has */
	if (i == host->nuuids) {
		memcpy(host->uuid[i], uuid, 16);
		host->total[i] = 0;
		host->nuuids++;
	}
	if (total)
		host->total[i] = total;
	return i;
}

static void residency_host_add_device(struct member *member, int row, int bit)
{
	member->row[member->ndevices] = (uint8_t)row;
	member->bit[member->ndevices++] = (uint8_t)bit;
}

/* The devices that its processes have met. Their rows are to be read. */
static void residency_host_meet(struct residency_host *host, struct member *member)
{
	struct ledger_device_info info;

	while (member->ndevices < DEVICES &&
	       !ledger_device_info(member->ledger, member->ndevices, &info) &&
	       !ledger_allocate(member->ledger, member->ndevices))
		residency_host_add_device(member, member->ndevices,
					  residency_host_bit(host, info.uuid, info.total_bytes));
}

/*
 * Of a tenant that does not overcommit only devices matter that a tenant met which does. Its user may
 * write to the ledger: other names in there, and repeated ones, take no place here, and no memory.
 */
static void residency_host_meet_known(struct residency_host *host, struct member *member)
{
	struct ledger_device_info info;

	if (member->looked_of != host->nuuids)
		member->looked = member->ndevices = 0;
	member->looked_of = host->nuuids;
	for (; member->looked < POLICY_DEVICES &&
	       !ledger_device_info(member->ledger, member->looked, &info);
	     member->looked++) {
		int b = residency_host_find(host, info.uuid);

		if (b == host->nuuids || memchr(member->bit, b, (size_t)member->ndevices))
			continue;
		if (ledger_allocate(member->ledger, member->looked))
			return; /* there may be room later */
		residency_host_add_device(member, member->looked, b);
	}
}

/* What its policy says, and its devices. */
static void residency_host_describe(struct residency_host *host, int i)
{
	struct member *member = &host->member[i];

	if (policy_generation(member->map) != member->generation) {
		uint64_t generation = policy_generation(member->map);

		if (policy_read(member->map, &member->policy))
			return;
		member->generation = generation;
		member->overcommits = member->policy.flags & POLICY_OVERCOMMIT && !member->copied;
		trace_follow_roles(member->dir, member->overcommits && member->policy.trace, &member->trace);
		host->state[i].id = member->overcommits ? member->id : 0;
		host->state[i].priority = roster_level(&member->policy);
		host->state[i].idle_suspend_ns = member->policy.idle_s * NS_PER_S;
	}
	if (member->overcommits)
		residency_host_meet(host, member);
	/* A cap is a bound, and no claim against others. */
	host->state[i].weight = member->policy.compute == POLICY_COMPUTE_SHARE && member->ndevices
					? policy_weight(&member->policy, host->uuid[member->bit[0]])
					: POLICY_WEIGHT_PERMILLE;
}

/*
 * A container's processes can cut the ledger short, which ends a process that has mapped it. So a
 * tenant's process reads a copy, unless the tenant takes turns; a daemon survives that.
 */
static bool residency_host_reads_copy(const struct residency_host *host, struct policy_map *map,
				      const char *dir)
{
	struct policy policy;

	return !host->role.claim && tenant_is_open_to_all(dir) &&
	       !(policy_read(map, &policy) == 0 && policy.flags & POLICY_OVERCOMMIT);
}

static int residency_host_join(void *arg, int i, const char *dir)
{
	struct residency_host *host = arg;
	struct member *member = &host->member[i];

	member->copied = residency_host_reads_copy(host, host->roster.entry[i].policy, dir);
	if (turn_open(dir, &member->turn) ||
	    ledger_open(dir, member->copied ? LEDGER_READ : LEDGER_GUEST, &member->ledger))
		return -ENOENT;
	member->map = host->roster.entry[i].policy;
	member->generation = UINT64_MAX;
	snprintf(member->dir, sizeof(member->dir), "%s", dir);
	member->id = ++host->ids;
	return 0;
}

static bool residency_host_lives(const char *dir)
{
	return slot_any_alive(dir) || life_is_held(dir);
}

static const struct roster_job residency_job = {
	.lives = residency_host_lives,
	.join = residency_host_join,
	.leave = residency_host_leave,
};

/* --- What they hold ------------------------------------------------------------------------- */

/*
 * Who was refused finds that out when its memory is back: what it wished for must not keep it away.
 */
static uint64_t residency_host_wished(const struct swap_wish *wish)
{
	uint64_t more = wish ? word_acquire(&wish->more_bytes) : 0;

	return more && word_acquire(&wish->answer) == (more | SWAP_WISH_REFUSED) ? 0 : more;
}

/* One process of a tenant that overcommits, on one device. */
static void residency_host_add_row(struct residency_host *host, int i, int slot, int d)
{
	const struct member *member = &host->member[i];
	struct residency_tenant *state = &host->state[i];
	uint64_t more = residency_host_wished(swap_wish_of(member->ledger, slot, d)), here, out;
	struct quota_row row;
	int bit = member->bit[d];

	if (quota_process(member->ledger, slot, d, &row) < 0)
		return;
	here = swap_can_leave(row.used);
	/* Behind the row: see move_attach_charged. */
	out = swap_out(member->ledger, slot, d);
	for (int c = 0; c < CAT_N; c++)
		host->fixed[bit] += row.used[c];
	host->fixed[bit] -= here;
	host->there[bit] += here;
	state->more[bit] += more;
	if (state->place == RESIDENCY_COMING) {
		/* Reserved for it, on the device, or still on the host: once. */
		state->away[bit] += here + max_u64(row.pending, out);
		return;
	}
	/* What is reserved may be a guess, and is not there yet. */
	state->here[bit] += here;
	state->away[bit] += out;
}

/*
 * Reads the device's time that the meter counted. In mode space tenants work at the same time, so
 * their times say nothing of their parts.
 */
static void residency_host_add_busy(struct residency_host *host, int i)
{
	const struct member *member = &host->member[i];
	struct residency_tenant *state = &host->state[i];

	state->metered = policy_meters(&member->policy) && member->policy.mode == POLICY_MODE_TURNS;
	for (int d = 0; state->metered && d < member->ndevices; d++) {
		const struct device_time *time = device_time_of(member->ledger, member->row[d]);

		if (time)
			state->busy_ns[member->bit[d]] = word_read(&time->busy_ns);
	}
}

static void residency_host_add_process(struct residency_host *host, int i, int slot,
				       uint64_t now_ns)
{
	const struct member *member = &host->member[i];
	struct residency_tenant *state = &host->state[i];
	const struct swap_use *use = swap_use_of(member->ledger, slot);
	uint64_t at = word_read(&use->inside) ? now_ns : word_read(&use->at_ns);

	state->wants |= word_check(&use->waiting) > 0;
	state->used_ns = max_u64(state->used_ns, at);
	state->out_ns = max_u64(state->out_ns, word_read(&use->out_us) * NS_PER_US);
	state->back_ns = max_u64(state->back_ns, word_read(&use->back_us) * NS_PER_US);
	for (int d = 0; d < member->ndevices; d++)
		residency_host_add_row(host, i, slot, d);
}

/* With its place, which says how it is counted. */
static void residency_host_add_member(struct residency_host *host, int i, uint64_t now_ns)
{
	const struct member *member = &host->member[i];
	struct residency_tenant *state = &host->state[i];
	struct shared_slots alive;
	struct slot_info info;

	memset(state->here, 0, sizeof(state->here));
	memset(state->away, 0, sizeof(state->away));
	memset(state->more, 0, sizeof(state->more));
	state->wants = false;
	state->used_ns = state->out_ns = state->back_ns = 0;
	residency_host_add_busy(host, i);
	for (int slot = 0; slot < slot_count(member->ledger); slot++)
		if (!slot_info(member->ledger, slot, &info) && slot_alive(member->ledger, slot))
			residency_host_add_process(host, i, slot, now_ns);
	shared_find_alive(member->ledger, &alive);
	for (int d = 0; d < member->ndevices; d++)
		host->fixed[member->bit[d]] += shared_used(member->ledger, d, &alive);
}

/*
 * A tenant that does not overcommit keeps its quota, used or not, on each device that it may use;
 * what it uses where it has no quota, or all of a device.
 */
static void residency_host_add_other(struct residency_host *host, int i)
{
	const struct member *member = &host->member[i];

	for (int b = 0; b < host->nuuids; b++) {
		uint64_t limit = 0, used = 0;

		for (int d = 0; d < member->ndevices; d++)
			if (member->bit[d] == b)
				used = quota_used_live(member->ledger, member->row[d]);
		if (policy_limit(&member->policy, host->uuid[b], host->total[b], &limit) ||
		    limit >= host->total[b])
			limit = 0;
		host->fixed[b] = sat_add_u64(host->fixed[b], max_u64(limit, used));
		host->promised[b] += limit > used ? limit - used : 0;
	}
}

/* --- Where they are ------------------------------------------------------------------------- */

static struct swap_sum residency_host_hear(const struct member *member, uint64_t now_ns)
{
	const struct swap_poll poll = {member->ledger, member->request, member->asked_ns};

	return swap_poll(&poll, now_ns);
}

/* One has not begun. Work may take long, and so may a disk; all else is done at once. */
static bool residency_host_is_asleep(const struct member *member, const struct swap_sum *sum)
{
	return sum->idle || (sum->ready && !*member->policy.swap_dir);
}

/* One of those that have not answered is stopped, and the others wait for it or have answered. */
static bool residency_host_is_stuck(struct member *member, const struct swap_sum *sum,
				    uint64_t now_ns)
{
	return swap_progress_none_ns(&member->progress, sum, now_ns) > TUNING_RESIDENCY_STUCK_NS;
}

static void residency_host_note_silent(struct member *member, uint64_t since_ns)
{
	if (!member->silent_ns)
		member->silent_ns = since_ns;
	member->heard_ns = 0;
}

/*
 * All of its processes have answered what was asked for last: the one that was stopped goes on, and is
 * asked again at once. It may be stopped again and again: only when it has answered for a while it counts
 * as one that can leave.
 *
 *	silent_ns          asked, no answer
 *	+ ASLEEP_NS        called off
 *	heard_ns           goes on, answers, is asked again
 *	+ ASLEEP_NS        no answer: still silent since silent_ns; or it answered: not silent
 *	silent_ns + REFUSE_NS: no allocation waits for it any more
 */
static void residency_host_hear_silent(struct member *member, uint64_t now_ns)
{
	if (!member->silent_ns || residency_host_hear(member, now_ns).silent)
		return;
	if (!member->heard_ns) {
		member->heard_ns = now_ns;
		member->stays_until_ns = 0;
	}
	if (now_ns > member->heard_ns + HEARD_NS)
		member->silent_ns = member->heard_ns = 0;
}

/* Without a desk of ours: what was asked for last, by whomever, and what that came to. */
static enum residency_place residency_host_rests(struct member *member, bool asked, uint64_t now_ns)
{
	uint32_t request = word_acquire(swap_request(member->map));
	enum swap_phase phase = swap_phase_of(request);
	struct swap_sum sum;

	if (member->request != request)
		member->progress.since_ns = now_ns;
	member->request = request;
	member->stuck = false;
	residency_host_hear_silent(member, now_ns);
	switch (phase) {
	case SWAP_PREPARE:
	case SWAP_PREPARE_CONTEXTS:
		return asked ? RESIDENCY_LEAVING : RESIDENCY_HERE;
	case SWAP_OUT:
		sum = residency_host_hear(member, now_ns);
		member->stuck = residency_host_is_stuck(member, &sum, now_ns);
		if (!sum.silent || member->stuck)
			return RESIDENCY_AWAY;
		/* Whoever asked may have been killed before it woke them. */
		if (!asked)
			futex_wake_all(swap_request(member->map));
		return RESIDENCY_LEAVING;
	case SWAP_COME:
	case SWAP_BACK:
		return asked ? RESIDENCY_COMING : RESIDENCY_AWAY;
	case SWAP_BARE:
	case SWAP_GIVEN:
		return RESIDENCY_AWAY;
	default:
		return RESIDENCY_HERE;
	}
}

/* Contexts are away, too, or the content is somebody else's: who did that brings it back. */
static bool residency_host_is_anothers(const struct member *member)
{
	enum swap_phase phase = swap_phase_of(member->request);

	return phase == SWAP_BARE || phase == SWAP_GIVEN;
}

/*
 * By a command. Who had the role before does not ask any more, though it may not know that. Who has
 * not answered him by now is not waited for once more: it may be stopped, too.
 */
static bool residency_host_is_asked(struct member *member, uint64_t now_ns)
{
	bool answered;

	if (!swap_is_asked(member->dir))
		return false;
	member->request = word_acquire(swap_request(member->map));
	answered = swap_phase_of(member->request) != SWAP_PREPARE ||
		   !residency_host_hear(member, now_ns).silent;
	if (swap_desk_clear(member->dir))
		return true;
	if (!answered)
		member->stays_until_ns = now_ns + TUNING_RESIDENCY_DRAIN_NS;
	return false;
}

static enum residency_place residency_host_place(struct member *member, uint64_t now_ns)
{
	enum swap_phase phase = swap_phase_of(member->request);

	if (!member->desk)
		return residency_host_rests(member, residency_host_is_asked(member, now_ns),
					    now_ns);
	if (phase == SWAP_PREPARE || phase == SWAP_OUT)
		return RESIDENCY_LEAVING;
	return RESIDENCY_COMING;
}

/* --- Moving them ---------------------------------------------------------------------------- */

static void residency_host_ask(struct member *member, enum swap_phase phase, uint64_t now_ns)
{
	member->request = swap_desk_ask(member->desk, phase);
	member->asked_ns = member->progress.since_ns = now_ns;
	member->takes = 0;
}

static void residency_host_ask_part(struct member *member, enum swap_phase phase, uint32_t part,
				    uint64_t now_ns)
{
	member->request = swap_desk_ask_part(member->desk, phase, part);
	member->asked_ns = member->progress.since_ns = now_ns;
}

static void residency_host_done(struct member *member)
{
	swap_desk_close(member->desk);
	member->desk = NULL;
	member->takes = 0;
}

static bool residency_host_begin(const struct residency_host *host, struct member *member)
{
	if (swap_desk_open(member->dir, SWAP_ROLE, &member->desk))
		return false;
	/* From here on nobody else is at this desk without having cleared it. */
	if (!role_held(&host->role))
		residency_host_done(member);
	return member->desk;
}

/* The first of it leaves or stays as a whole. What follows that does so piece by piece. */
static void residency_host_ask_out(struct member *member, uint64_t now_ns)
{
	uint32_t first = trial_has("first-part") ? RESIDENCY_ALL / TUNING_RESIDENCY_FIRST_PART
						  : RESIDENCY_ALL;

	member->follows = member->step;
	member->step = member->step || member->part < 2 * first ? member->part : first;
	residency_host_ask_part(member, SWAP_OUT, member->step, now_ns);
}

static bool residency_host_has_dir(const struct member *member)
{
	return *member->policy.swap_dir;
}

/* What others were let have of the host, and have not taken yet: it is still free. */
static uint64_t residency_host_taken(const struct residency_host *host, const struct member *member)
{
	uint64_t bytes = 0;

	for (int i = 0; i < host->n; i++)
		bytes += &host->member[i] == member ? 0 : host->member[i].takes;
	return bytes;
}

/* What there is on the host for it, which has some of that already, beside what is `taken`. */
static uint64_t residency_host_room(const struct member *member, uint64_t has, uint64_t taken)
{
	uint64_t free = sat_sub_u64(host_memory_room(), taken) + has;
	uint64_t most = member->policy.host_bytes;

	/* With a file behind it what is free is no reason to refuse, and not to be exceeded. */
	if (residency_host_has_dir(member))
		return most ? min_u64(most, free) : free;
	return most ? most : free;
}

/* Whether the host has room for so much of it, less what is to go to a file. */
static bool residency_host_has_room(const struct member *member, uint64_t bytes, uint64_t has,
				    uint64_t taken)
{
	uint64_t split = swap_request_split(member->map);

	return swap_host_bytes(bytes, split) <=
	       residency_host_room(member, swap_host_bytes(has, split), taken);
}

/*
 * It was asked for all that it has, and how much has no room on the host is said with the next
 * request. What others keep there is given back for it, for the next time.
 */
static void residency_host_divide(struct residency_host *host, struct member *member,
				  const struct swap_sum *sum, uint64_t now_ns)
{
	uint64_t taken = residency_host_taken(host, member);
	uint64_t split = swap_split_of(sum->bytes, residency_host_room(member, sum->kept, taken));

	swap_desk_set_split(member->desk, split);
	member->divided = true;
	residency_host_ask_part(member, SWAP_PREPARE, member->part, now_ns);
	if (split)
		residency_file_miss(host->role.map);
}

static void residency_host_let_leave(struct member *member, const struct swap_sum *sum,
				     uint64_t now_ns)
{
	member->leaves = swap_host_bytes(sum->bytes, swap_request_split(member->map));
	member->had = sum->placed;
	residency_host_ask_out(member, now_ns);
	member->takes = sat_sub_u64(member->leaves, member->had);
	FAULT_POINT(RESIDENCY_OUT);
}

/* One does not leave: the host has no room for it. Others that keep some there give it back. */
static void residency_host_note_full(struct residency_host *host, uint64_t now_ns)
{
	residency_file_miss(host->role.map);
	residency_file_say_full(host->role.held, now_ns);
}

/* It cannot leave, or not all of it. For nobody it is asked less and less often. */
static void residency_host_stays(struct residency_host *host, struct member *member, uint64_t now_ns)
{
	struct residency_tenant *state = &host->state[member - host->member];

	member->idle_wait_ns = max_u64(2 * member->idle_wait_ns, TUNING_RESIDENCY_AGAIN_NS);
	member->idle_wait_ns = min_u64(member->idle_wait_ns, state->idle_suspend_ns);
	state->idle_until_ns = now_ns + member->idle_wait_ns;
}

static void residency_host_prepared(struct residency_host *host, struct member *member,
				    uint64_t now_ns)
{
	struct swap_sum sum = residency_host_hear(member, now_ns);
	uint64_t taken = residency_host_taken(host, member);
	bool regardless = sum.silent || residency_host_has_dir(member);
	bool room = regardless || residency_host_has_room(member, sum.bytes, sum.placed, 0);
	bool asleep = residency_host_is_asleep(member, &sum);
	uint64_t patience_ns = asleep ? TUNING_RESIDENCY_ASLEEP_NS : TUNING_RESIDENCY_DRAIN_NS;

	if (!sum.silent && !sum.refused && !member->divided) {
		residency_host_divide(host, member, &sum, now_ns);
		return;
	}
	if (!sum.silent && !sum.refused && room) {
		/* Others get on, or are given up. */
		if (regardless || !taken ||
		    residency_host_has_room(member, sum.bytes, sum.placed, taken))
			residency_host_let_leave(member, &sum, now_ns);
		return;
	}
	if (sum.silent && now_ns < member->asked_ns + patience_ns)
		return;
	trace_to(member->trace, TRACE_STAYS, -1, sum.refused > 0, sum.silent > 0,
		 !room || sum.host);
	if (!room || sum.host)
		residency_host_note_full(host, now_ns);
	if (asleep)
		residency_host_note_silent(member, member->asked_ns);
	residency_host_stays(host, member, now_ns);
	if (sum.silent || sum.busy)
		member->stays_until_ns = now_ns + TUNING_RESIDENCY_DRAIN_NS;
	else
		member->fixed_until_ns = now_ns + TUNING_RESIDENCY_AGAIN_NS;
	residency_host_ask(member, SWAP_RUN, now_ns);
}

static void residency_host_came(struct member *member, uint64_t now_ns)
{
	struct swap_sum sum = residency_host_hear(member, now_ns);
	bool stuck = residency_host_is_stuck(member, &sum, now_ns);

	if (sum.silent && !stuck)
		return;
	if (stuck)
		residency_host_note_silent(member, member->progress.since_ns);
	/* What the one that is stuck has to do it finds when it gets on. */
	if (!sum.refused &&
	    (!sum.silent || (member->called_off && !shared_joins(member->ledger)))) {
		member->failed = 0;
		member->keeps = true;
		residency_host_ask(member, SWAP_RUN, now_ns);
		FAULT_POINT(RESIDENCY_RUNS);
		return;
	}
	if (sum.device)
		member->failed++;
	else
		member->away_until_ns = now_ns + TUNING_RESIDENCY_AGAIN_NS;
	member->part = member->step = swap_part_of(member->request);
	member->follows = true;
	residency_host_ask_part(member, SWAP_OUT, member->part, now_ns);
}

static void residency_host_left(struct residency_host *host, struct member *member, uint64_t now_ns)
{
	struct swap_sum sum = residency_host_hear(member, now_ns);
	bool stuck = residency_host_is_stuck(member, &sum, now_ns);

	if (sum.silent && !stuck)
		return;
	if (!sum.refused && !stuck && member->step < member->part) {
		residency_host_ask_out(member, now_ns);
		member->takes = sat_sub_u64(member->takes ? member->leaves : 0,
					    max_u64(member->had, sum.bytes));
		return;
	}
	if (!sum.refused && !stuck) {
		member->idle_wait_ns = 0;
		residency_host_done(member);
		return;
	}
	residency_host_stays(host, member, now_ns);
	/* One found no host memory after all, or is stopped. What was away before stays so. */
	if (sum.refused)
		residency_host_note_full(host, now_ns);
	if (stuck) {
		residency_host_note_silent(member, member->progress.since_ns);
		member->stays_until_ns = now_ns + TUNING_RESIDENCY_DRAIN_NS;
	}
	member->fixed_until_ns = now_ns + TUNING_RESIDENCY_AGAIN_NS;
	member->called_off = stuck && !member->follows;
	if (member->follows)
		residency_host_done(member);
	else
		residency_host_ask(member, SWAP_BACK, now_ns);
}

/* Goes on with what was begun, if all have answered. */
static void residency_host_pump(struct residency_host *host, struct member *member, uint64_t now_ns)
{
	struct swap_sum sum;
	bool stuck;

	switch (swap_phase_of(member->request)) {
	case SWAP_PREPARE:
		residency_host_prepared(host, member, now_ns);
		break;
	case SWAP_OUT:
		residency_host_left(host, member, now_ns);
		break;
	case SWAP_BACK:
		residency_host_came(member, now_ns);
		break;
	case SWAP_COME:
		break; /* nobody answers */
	default:
		sum = residency_host_hear(member, now_ns);
		stuck = residency_host_is_stuck(member, &sum, now_ns);
		if (stuck)
			residency_host_note_silent(member, member->progress.since_ns);
		if (!sum.silent || stuck)
			residency_host_done(member);
	}
}

/*
 * Says to each process whether its wish is granted. Whether one has tried, and there was no room.
 */
static bool residency_host_answer(const struct member *member, enum swap_wish_answer answer)
{
	bool failed = false;

	for (int slot = 0; slot < slot_count(member->ledger); slot++)
		for (int d = 0; d < member->ndevices; d++) {
			struct swap_wish *wish = swap_wish_of(member->ledger, slot, d);
			uint64_t more = wish ? word_acquire(&wish->more_bytes) : 0, old;

			if (!more)
				continue;
			old = word_acquire(&wish->answer);
			failed |= old == (more | SWAP_WISH_FAILED);
			if (old != (more | answer))
				word_swap_if(&wish->answer, old, more | answer);
		}
	return failed;
}

static bool residency_host_wishes(const struct residency_host *host, int i)
{
	for (int b = 0; b < host->nuuids; b++)
		if (host->state[i].more[b])
			return true;
	return false;
}

/*
 * There was no room where there should be, and that more than once: it was not taken by somebody
 * who was seen a moment later. The device has less than is known: by so much that it would not fit.
 */
static void residency_host_lose(struct residency_host *host, int i, uint64_t now_ns)
{
	struct member *member = &host->member[i];
	const struct residency_tenant *t = &host->state[i];

	if (member->failed < TUNING_RESIDENCY_FAILURES || !t->come)
		return;
	member->failed = 0;
	for (int b = 0; b < host->nuuids; b++) {
		uint64_t there = 0, need = t->more[b] + t->away[b], room;

		for (int k = 0; k < host->n; k++)
			if (host->state[k].id)
				there += host->state[k].here[b] +
					 (host->state[k].place == RESIDENCY_COMING
						  ? host->state[k].away[b]
						  : 0);
		room = host->device[b].capacity_bytes;
		room = room > there ? room - there : 0;
		if (!need || room < need)
			continue;
		host->lost[b] += room - need + LOST_BYTES;
		host->lost_until_ns[b] = now_ns + TUNING_RESIDENCY_LOST_NS;
	}
}

static void residency_host_leave_on(struct residency_host *host, struct member *member,
				    const struct residency_tenant *state, uint64_t now_ns)
{
	uint64_t here = 0, away = 0;

	for (int b = 0; b < DEVICES; b++) {
		here += state->here[b];
		away += state->away[b];
	}
	member->part = state->part;
	member->step = state->place == RESIDENCY_AWAY ? swap_part_of(member->request) : 0;
	/*
	 * How large the pieces are that follow is not known: there is to be room for all of them.
	 * What may be found ahead of them is, so each process says itself whether the host has it.
	 */
	if (!member->step) {
		member->divided = !residency_host_has_dir(member);
		swap_desk_set_split(member->desk, 0);
		residency_host_ask_part(member, SWAP_PREPARE,
					member->divided ? member->part : SWAP_ALL, now_ns);
	} else if (residency_host_has_room(member, here + away, here + away, 0)) {
		residency_host_ask_out(member, now_ns);
	} else {
		residency_host_note_full(host, now_ns);
		residency_host_stays(host, member, now_ns);
		member->fixed_until_ns = now_ns + TUNING_RESIDENCY_AGAIN_NS;
		residency_host_done(member);
		trace_to(member->trace, TRACE_STAYS, -1, 0, 0, 1);
		return;
	}
	trace_to(member->trace, TRACE_LEAVES, -1, member->part, here, away);
	FAULT_POINT(RESIDENCY_LEAVES);
}

static void residency_host_act(struct residency_host *host, int i, uint64_t now_ns)
{
	struct member *member = &host->member[i];
	const struct residency_tenant *state = &host->state[i];

	if (state->refuse)
		residency_host_answer(member, SWAP_WISH_REFUSED);
	else if (state->come && state->place == RESIDENCY_HERE && residency_host_wishes(host, i))
		member->failed += residency_host_answer(member, SWAP_WISH_GRANTED);
	residency_host_lose(host, i, now_ns);
	if (member->desk && swap_phase_of(member->request) == SWAP_COME && !state->early)
		residency_host_ask(member, SWAP_BACK, now_ns);
	if (member->desk)
		return;
	if (state->leave && residency_host_begin(host, member)) {
		residency_host_leave_on(host, member, state, now_ns);
	} else if (state->come && state->place == RESIDENCY_AWAY &&
		   now_ns >= member->away_until_ns && residency_host_begin(host, member)) {
		member->called_off = false;
		residency_host_ask(member, state->early ? SWAP_COME : SWAP_BACK, now_ns);
		trace_to(member->trace, TRACE_COMES, -1, state->early, 0, 0);
		FAULT_POINT(RESIDENCY_COMES);
	}
}

/* --- Ahead ---------------------------------------------------------------------------------- */

/* What leaves next of a tenant, and may be on the host. With a file nothing is found ahead. */
static uint32_t residency_host_part_ahead(const struct residency_host *host, int i)
{
	const struct policy *policy = &host->member[i].policy;
	uint64_t bytes = 0, most = policy->host_bytes;
	uint32_t part = host->state[i].ahead, allowed = SWAP_ALL;
	int devices = 0;

	for (int b = 0; b < DEVICES; b++) {
		bytes += host->state[i].here[b] + host->state[i].away[b];
		devices += host->state[i].here[b] > 0;
	}
	if (*policy->swap_dir || !trial_has("ahead"))
		return 0;
	/* What leaves of several devices does not lie together: it would come beside what is found. */
	if (most && most < bytes)
		allowed = devices > 1 ? 0 : (uint32_t)((double)most / (double)bytes * SWAP_ALL);
	return part < allowed ? part : allowed;
}

/*
 * Nobody waits and nothing moves. Who leaves next is to find host memory now: later that would take
 * longer than the copy, and be waited for. It is others' that have come back and will stay. Nobody
 * hears what comes of it.
 */
static void residency_host_be_ahead(struct residency_host *host, int i, uint64_t now_ns)
{
	struct member *member = &host->member[i];
	uint32_t part = residency_host_part_ahead(host, i);

	if (host->state[i].place != RESIDENCY_HERE ||
	    (swap_part_of(member->request) == part && (part || !member->keeps)) ||
	    !residency_host_begin(host, member))
		return;
	member->keeps = false;
	if (swap_desk_request(member->desk) == member->request)
		residency_host_ask_part(member, SWAP_RUN, part, now_ns);
	residency_host_done(member);
}

/* --- The step ------------------------------------------------------------------------------- */

static void residency_host_look(struct residency_host *host, int i, uint64_t now_ns)
{
	struct member *member = &host->member[i];
	struct residency_tenant *state = &host->state[i];

	if (!member->overcommits) {
		/* Where the file is too short for that, what it said before counts. */
		if (member->copied)
			ledger_refresh(member->ledger);
		residency_host_add_other(host, i);
		return;
	}
	if (member->desk && swap_desk_is_cleared(member->desk))
		residency_host_done(member);
	if (member->desk)
		residency_host_pump(host, member, now_ns);
	state->place = residency_host_place(member, now_ns);
	state->leaves = swap_phase_of(member->request) == SWAP_OUT;
	/* A tenant that is away is not asked to find host memory. */
	state->ready = state->place == RESIDENCY_AWAY ||
		       (swap_phase_of(member->request) == SWAP_RUN && swap_part_of(member->request));
	state->asked = state->leaves && !member->desk ? swap_part_of(member->request) : member->part;
	residency_host_add_member(host, i, now_ns);
	state->wants |= state->place == RESIDENCY_AWAY && swap_is_wanted(member->dir);
	member->stopped = member->silent_ns &&
			  now_ns >= member->silent_ns + TUNING_RESIDENCY_REFUSE_NS;
	state->doubtful = member->stopped;
	state->fixed = now_ns < member->fixed_until_ns || member->stuck ||
		       (member->stopped && !member->heard_ns);
	state->stays_until_ns = member->stays_until_ns;
	/* No room is kept for it until it tries again. */
	if (now_ns < member->away_until_ns || member->stuck || residency_host_is_anothers(member))
		state->wants = false;
}

/* What a tenant holds of a device and of all, and what of that may be on the host. */
static struct stranded_holder residency_host_holder(const struct residency_host *host, int i, int b)
{
	const struct member *member = &host->member[i];
	const struct residency_tenant *state = &host->state[i];
	struct stranded_holder holder = {.most_bytes = member->policy.host_bytes,
					 .has_file = residency_host_has_dir(member),
					 .stopped = member->stopped};

	/* Of one that was asked to leave and is to run again all counts as on its way back. */
	bool all_here = member->stopped && state->place == RESIDENCY_COMING;

	if (!state->id)
		return holder;
	holder.here = state->here[b] + (all_here ? state->away[b] : 0);
	for (int d = 0; d < host->nuuids; d++) {
		holder.here_all += state->here[d] + (all_here ? state->away[d] : 0);
		holder.away += all_here ? 0 : state->away[d];
	}
	return holder;
}

/* Free memory of the host, without the bytes granted to tenants that have not allocated them yet. */
static uint64_t residency_host_free(struct residency_host *host, uint64_t now_ns)
{
	if (!host->host_free_ns || now_ns >= host->host_free_ns + HOST_FREE_NS) {
		host->host_free = host_memory_room();
		host->host_free_ns = now_ns;
	}
	return sat_sub_u64(host->host_free, residency_host_taken(host, NULL));
}

/* Says to each tenant what the others cannot take away from a device. */
static void residency_host_measure_stranded(struct residency_host *host, uint64_t now_ns)
{
	uint64_t free = residency_host_free(host, now_ns);

	for (int b = 0; b < host->nuuids; b++) {
		struct stranded_holder holder;
		struct stranded sum;

		stranded_begin(&sum, free);
		for (int i = 0; i < host->n; i++) {
			holder = residency_host_holder(host, i, b);
			stranded_add(&sum, &holder);
		}
		for (int i = 0; i < host->n; i++) {
			holder = residency_host_holder(host, i, b);
			if (host->member[i].turn)
				turn_say_stranded(host->member[i].turn, b, stranded_for(&sum, &holder));
		}
	}
}

static void residency_host_measure_room(struct residency_host *host, uint64_t now_ns)
{
	for (int b = 0; b < host->nuuids; b++) {
		uint64_t taken = host->fixed[b];
		struct residency_room room;

		if (now_ns > host->lost_until_ns[b])
			host->lost[b] = 0;
		taken = sat_add_u64(taken, host->lost[b]);
		host->device[b].capacity_bytes =
			host->total[b] > taken ? host->total[b] - taken : 0;
		host->device[b].spare_bytes = host->total[b] / TUNING_RESIDENCY_SPARE_PART;
		host->device[b].lost_bytes = host->lost[b];
		/* Lost memory is missing from what the driver says is free, so it is not taken off here. */
		room = (struct residency_room){host->promised[b],
					       sat_sub_u64(host->total[b], host->fixed[b]),
					       host->there[b], b};
		residency_file_say_room(host->role.map, b, host->uuid[b], &room);
	}
	residency_host_measure_stranded(host, now_ns);
	residency_file_measured(host->role.map);
}

/* Publishes the part that a tenant may count on while others want its place: `allot ps` shows it. */
static void residency_host_entitle(struct residency_host *host, int i, uint64_t now_ns)
{
	uint32_t permille = host->state[i].entitled_permille;
	struct turn *turn = host->member[i].turn;

	word_write(&turn->memory_permille, permille);
	word_write(&turn->memory_until_ns, permille ? now_ns + ENTITLED_NS : 0);
}

static bool residency_host_knows_stopped(const struct residency_host *host)
{
	for (int i = 0; i < host->n; i++)
		if (host->member[i].silent_ns)
			return true;
	return false;
}

/*
 * A tenant is silent for the time in which somebody listens. The role holder may have been stopped
 * together with a tenant that it had asked, which then answers no sooner than this step is made.
 *
 *	asked ── step ── due ── stopped ────────── step: asked and moved are later by what it is late
 */
static void residency_host_forgive(struct residency_host *host, uint64_t now_ns)
{
	uint64_t late_ns = host->due_ns ? sat_sub_u64(now_ns, host->due_ns) : 0;

	for (int i = 0; i < host->n && late_ns > LATE_NS; i++) {
		host->member[i].asked_ns += late_ns;
		host->member[i].progress.since_ns += late_ns;
	}
}

/* When the next tenant leaves for nobody. A tenant that could not is asked again, one that works looked at. */
static uint64_t residency_host_idle_ns(const struct residency_host *host, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	for (int i = 0; i < host->n; i++) {
		const struct residency_tenant *state = &host->state[i];
		uint64_t leaves_ns = residency_leaves_idle_ns(state);

		if (state->fixed && residency_may_leave_idle(state))
			leaves_ns = state->idle_until_ns;
		if (leaves_ns != UINT64_MAX)
			leaves_ns = max_u64(leaves_ns, now_ns + TUNING_RESIDENCY_AGAIN_NS);
		next_ns = min_u64(next_ns, leaves_ns);
	}
	return next_ns;
}

static uint64_t residency_host_next_ns(const struct residency_host *host, bool waits,
				       uint64_t now_ns)
{
	uint64_t idle_ns = residency_host_idle_ns(host, now_ns);

	if (host->moves)
		return now_ns + TUNING_RESIDENCY_MOVES_NS;
	if (waits)
		return now_ns + TUNING_RESIDENCY_WAITS_NS;
	return now_ns < host->busy_ns + ROLE_NS ? min_u64(host->busy_ns + ROLE_NS, idle_ns) : idle_ns;
}

uint64_t residency_host_step(struct residency_host *host, uint64_t now_ns)
{
	bool waits, moves = false;

	residency_host_forgive(host, now_ns);
	role_beat(&host->role, 0);
	roster_scan(&host->roster, &host->role, now_ns);
	host->n = host->roster.n;
	memset(host->fixed, 0, sizeof(host->fixed));
	memset(host->promised, 0, sizeof(host->promised));
	memset(host->there, 0, sizeof(host->there));
	/* Devices first: a quota counts on all that an overcommitting tenant has met. */
	for (int i = 0; i < host->n; i++)
		if (roster_has(&host->roster, i))
			residency_host_describe(host, i);
	for (int i = 0; i < host->n; i++)
		if (roster_has(&host->roster, i) && !host->member[i].overcommits)
			residency_host_meet_known(host, &host->member[i]);
	for (int i = 0; i < host->n; i++)
		if (roster_has(&host->roster, i))
			residency_host_look(host, i, now_ns);
	residency_host_measure_room(host, now_ns);
	waits = residency_step(&residency_defaults, host->state, host->n, host->device, now_ns);
	if (waits)
		FAULT_POINT(RESIDENCY_DECIDED);
	for (int i = 0; i < host->n; i++) {
		if (!host->state[i].id)
			continue;
		if (!role_held(&host->role))
			return now_ns;
		residency_host_act(host, i, now_ns);
		residency_host_entitle(host, i, now_ns);
		moves |= host->member[i].desk != NULL;
	}
	host->moves = moves;
	residency_file_say_moves(host->role.held, moves);
	for (int i = 0; i < host->n && !waits && !moves; i++)
		if (host->state[i].id)
			residency_host_be_ahead(host, i, now_ns);
	/* The next role holder would not know which tenants are stopped, and so what is free. */
	if (waits || moves || residency_host_knows_stopped(host))
		host->busy_ns = now_ns;
	host->due_ns = residency_host_next_ns(host, waits, now_ns);
	return host->due_ns;
}
