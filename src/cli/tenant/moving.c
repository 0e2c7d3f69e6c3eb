/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/moving.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "base/number.h"
#include "base/pidns.h"
#include "base/target.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/runtime.h"
#include "cli/tenant/swap_dir.h"
#include "control/message.h"
#include "ledger/ledger.h"
#include "ledger/policy.h"
#include "ledger/quota.h"
#include "ledger/shared.h"
#include "ledger/shared_file.h"
#include "ledger/slot.h"
#include "ledger/swap.h"
#include "ledger/tenant.h"
#include "node/tenants.h"
#include "text/units.h"

/* Most that an answer waits to be seen. */
#define NAP_MOST_US 2000

/*
 * A process that is not seen to be stopped may have no processor, or be out of sight: the wait for
 * it is this many times as long.
 */
#define UNSEEN	6
#define LOOK_NS NS_PER_S

/* How long to wait for another command that moves the tenant. */
#define BUSY_NS (30 * NS_PER_S)

/* A tenant that overcommits may be moving for others at this moment, which ends by itself. */
static int moving_open_desk(struct moving *m, bool waits)
{
	uint64_t until = now_monotonic_ns() + (m->overcommits || waits ? BUSY_NS : 0);
	unsigned int nap = 50;
	int r;

	while ((r = swap_desk_open(m->dir, SWAP_COMMAND, &m->desk)) == -EBUSY &&
	       now_monotonic_ns() < until)
		shared_file_nap(&nap, NAP_MOST_US);
	return r;
}

/* Holds back the stop signals. SIGSTOP cannot be held back. */
static void moving_put_off_stops(struct moving *m)
{
	sigset_t stops;

	sigemptyset(&stops);
	sigaddset(&stops, SIGTSTP);
	sigaddset(&stops, SIGTTOU);
	sigprocmask(SIG_BLOCK, &stops, &m->signals);
}

static int moving_take_desk(struct moving *m, bool waits)
{
	int r = moving_open_desk(m, waits);

	if (r == -EBUSY)
		return say_error("tenant \"%s\": another allot suspend or resume is at work; wait for it",
				 m->name);
	return r < 0 ? say_error("tenant \"%s\" (%s) cannot be opened: %s", m->name, m->dir,
				 tenants_error_words(r)) : 0;
}

static int moving_open_named(const char *name, bool waits, struct moving *ret)
{
	struct moving m = {.name = name, .patience_ns = MOVING_PATIENCE_NS};
	char runtime[PATH_MAX];
	struct policy policy;
	pid_t pid;
	int r;

	if (runtime_find(runtime) < 0)
		return say_error("there is no runtime directory");
	r = tenant_path(runtime, name, m.dir, sizeof(m.dir));
	if (r < 0 || access(m.dir, F_OK) < 0 || tenants_state(m.dir, &pid) == TENANT_ENDED)
		return say_error("there is no tenant \"%s\" in %s; \"allot ps\" lists them", name,
				 runtime);
	r = policy_load(m.dir, &policy);
	if (r < 0)
		return say_error("tenant \"%s\" (%s) cannot be read: %s", name, m.dir,
				 tenants_error_words(r));
	if (!(policy.flags & POLICY_SWAPPABLE))
		return say_error("tenant \"%s\" is not swappable: its memory cannot leave the device; "
				 "end its processes and start them with \"allot run --swappable\"",
				 name);
	m.overcommits = policy.flags & POLICY_OVERCOMMIT;
	m.host_bytes = policy.host_bytes;
	memcpy(m.swap_dir, policy.swap_dir, sizeof(m.swap_dir));
	moving_put_off_stops(&m);
	r = ledger_open(m.dir, LEDGER_READ, &m.ledger);
	r = r < 0 ? say_error("tenant \"%s\" (%s) cannot be opened: %s", name, m.dir,
			      tenants_error_words(r)) : moving_take_desk(&m, waits);
	if (r) {
		moving_close(&m);
		return r;
	}
	*ret = m;
	return 0;
}

int moving_open(const char *name, struct moving *ret)
{
	return moving_open_named(name, false, ret);
}

int moving_open_again(struct moving *moving)
{
	return moving_open_named(moving->name, true, moving);
}

void moving_leave_desk(struct moving *moving)
{
	swap_desk_close(moving->desk);
	moving->desk = NULL;
}

void moving_close(struct moving *moving)
{
	moving_leave_desk(moving);
	ledger_close(moving->ledger);
	moving->ledger = NULL;
	/* In one that waits this is where it stops. */
	sigprocmask(SIG_SETMASK, &moving->signals, NULL);
}

enum swap_phase moving_rests(const struct moving *moving)
{
	enum swap_phase phase = swap_phase_of(swap_desk_request(moving->desk));

	if (phase == SWAP_BARE || phase == SWAP_GIVEN)
		return phase;
	return swap_phase_is_out(phase) ? SWAP_OUT : SWAP_RUN;
}

bool moving_is_parted(const struct moving *moving)
{
	uint32_t request = swap_desk_request(moving->desk);

	return moving_rests(moving) == SWAP_OUT && swap_part_of(request) < SWAP_ALL;
}

bool moving_shares(struct moving *moving)
{
	ledger_refresh(moving->ledger);
	return shared_joins(moving->ledger);
}

struct swap_places moving_find(struct moving *moving)
{
	struct swap_places places = {0};

	ledger_refresh(moving->ledger);
	for (int d = 0; ledger_knows(moving->ledger, d); d++) {
		struct swap_places on = swap_find_live(moving->ledger, d);

		places.here += on.here;
		places.away += on.away;
	}
	return places;
}

/* Which file could not be had, or used. */
static void moving_say_file(const struct moving *moving, const char *who,
			    const struct swap_answer *answer)
{
	uint64_t bytes = answer->file.bytes;

	say_note("%s: its file%s%s in %s (--swap-dir), for what has no room in host memory: %s",
		 who, bytes ? " of " : "", bytes ? units_bytes(bytes).s : "", moving->swap_dir,
		 swap_dir_words(answer->file.error));
}

/* Says which memory a process could not move, and what to do about it. */
static void moving_say_why(const struct moving *moving, const struct slot_info *info,
			   const struct swap_answer *answer)
{
	static const char *const holds[SWAP_WHYS] = {
		[SWAP_MANAGED] = "of managed memory, which cannot leave by itself",
		[SWAP_HANDLES] = "of memory for sparse arrays (cuMemCreate), which cannot leave",
		[SWAP_EXPORTS] = "of memory that it maps itself and bound to a multicast object, or "
				 "exported by a fabric handle or a dma-buf, which cannot leave yet",
		[SWAP_POOLS] = "of memory in use from stream-ordered pools that can be exported or "
			       "are of managed memory, which cannot leave; have it use others",
		[SWAP_GRAPHS] = "of memory that graphs allocate, which cannot leave yet",
		[SWAP_FIXED] = "by a CUDA 3 interface, which cannot leave",
		[SWAP_OTHERS] = "of memory by Vulkan or OpenCL, which cannot leave",
		[SWAP_SVM] = "of its own memory on AMD GPUs (SVM), which cannot leave yet",
		[SWAP_DMABUFS] = "of memory that was exported as dma-bufs, which cannot leave yet",
		[SWAP_NODES] = "of memory by handles of render nodes, which could not be made again: the "
			       "node is closed, is not that of a GPU which /dev/kfd has, or the "
			       "kernel does not tell where it is mapped (before 6.18); it cannot leave",
		[SWAP_ADDRESS] = "of memory that has no address on its GPU, or that was not seen being "
				 "made; it cannot leave",
		[SWAP_VIEWS] = "of GPU memory mapped for the CPU, and its threads could not be made to "
			       "wait there: have the sysctl vm.unprivileged_userfaultfd be 1, and "
			       "the program keep its render nodes open",
	};
	char who[128];

	snprintf(who, sizeof(who), "process %" PRIu32 " (%.60s)", info->pid,
		 *info->command ? info->command : info->comm);
	switch (answer->why) {
	case SWAP_FINE:
		say_note("%s runs with a liballot.so of an earlier version, which cannot do this; it takes "
			 "a new start", who);
		break;
	case SWAP_ARRAYS:
		say_note("%s holds %" PRIu64
			 " array%s (cudaMallocArray, textures), which cannot leave",
			 who, answer->obstacle, answer->obstacle == 1 ? "" : "s");
		break;
	case SWAP_IMPORTS:
		say_note("%s has imported memory (%" PRIu64
			 " time%s) of another tenant, of another API, "
			 "or of a process that ended or freed it, which cannot leave",
			 who, answer->obstacle, answer->obstacle == 1 ? "" : "s");
		break;
	case SWAP_SHARED:
		say_note("%s shares memory of another process, which ended or could not bring it back",
			 who);
		break;
	case SWAP_HOST:
		say_note("%s: there is not enough host memory for its %s, or its memory cgroup "
			 "does not "
			 "allow it",
			 who, units_bytes(answer->lacks ? answer->lacks : answer->bytes).s);
		break;
	case SWAP_FILE:
		moving_say_file(moving, who, answer);
		break;
	case SWAP_QUOTA:
		say_note("%s: the quota of tenant \"%s\" has no room for its %s; raise it with \"allot "
			 "set %s --memory\"",
			 who, moving->name, units_bytes(answer->bytes).s, moving->name);
		break;
	case SWAP_DEVICE:
		say_note("%s: the device has no room for its %s; end or suspend another tenant first",
			 who, units_bytes(answer->bytes).s);
		break;
	case SWAP_RINGS:
		say_note("%s has given work to a render node (graphics, video), which cannot leave", who);
		break;
	case SWAP_OTHERS:
	case SWAP_SVM:
	case SWAP_DMABUFS:
	case SWAP_NODES:
	case SWAP_ADDRESS:
	case SWAP_VIEWS:
	case SWAP_MANAGED:
	case SWAP_HANDLES:
	case SWAP_EXPORTS:
	case SWAP_POOLS:
	case SWAP_GRAPHS:
	case SWAP_FIXED:
		say_note("%s holds %s %s", who, units_bytes(answer->obstacle).s,
			 holds[answer->why]);
		break;
	default:
		say_note("%s: its driver refuses, as it does when work on the device has failed", who);
	}
}

/* Returns its pid in our namespace, if it can be seen from here. */
static uint32_t moving_find_stopped(const struct slot_info *info)
{
	struct pidns_query query = {.pidns = info->pidns, .pid = info->pid};

	pidns_translate(&query, 1);
	return query.host_pid && target_is_stopped((pid_t)query.host_pid) ? query.host_pid : 0;
}

static void moving_say_silent(const struct slot_info *info, const struct swap_answer *answer,
			      bool moves)
{
	uint32_t stopped = moving_find_stopped(info);

	if (stopped)
		say_note("process %" PRIu32 " (%s) is stopped, by a signal or by a debugger; have it go "
			 "on: kill -CONT %" PRIu32 ", or detach the debugger%s",
			 info->pid, info->comm, stopped,
			 moves ? "; then it follows the others by itself" : "");
	else if (answer->state == SWAP_NONE)
		say_note("process %" PRIu32 " (%s) cannot be asked: it got no thread for it",
			 info->pid, info->comm);
	else if (moves)
		say_note("process %" PRIu32 " (%s) does not get on with it: it waits for another one, "
			 "its cgroup is frozen, or its driver hangs; when it gets on it follows the "
			 "others by itself",
			 info->pid, info->comm);
	else
		say_note("process %" PRIu32 " (%s) still has work on the device, or captures a graph",
			 info->pid, info->comm);
}

static bool moving_moves(enum swap_phase phase)
{
	return phase != SWAP_RUN && !swap_phase_prepares(phase);
}

static bool moving_any_stopped(const struct swap_poll *poll, uint64_t now_ns)
{
	struct swap_voice voice;

	for (int slot = 0; swap_poll_next(poll, now_ns, &slot, &voice);)
		if (voice.silent && moving_find_stopped(&voice.info))
			return true;
	return false;
}

static void moving_say(struct moving *moving, const struct swap_poll *poll)
{
	bool moves = moving_moves(swap_phase_of(poll->request));
	struct swap_voice voice;

	for (int slot = 0; swap_poll_next(poll, now_monotonic_ns(), &slot, &voice);)
		if (voice.silent)
			moving_say_silent(&voice.info, &voice.answer, moves);
		else if (voice.refuses)
			moving_say_why(moving, &voice.info, &voice.answer);
}

static struct swap_sum moving_look(struct moving *moving, const struct swap_poll *poll)
{
	ledger_refresh(moving->ledger);
	return swap_poll(poll, now_monotonic_ns());
}

struct swap_sum moving_ask(struct moving *moving, enum swap_phase phase, uint64_t patience_ns,
			   bool say)
{
	struct swap_poll poll = {moving->ledger, swap_desk_ask(moving->desk, phase),
				 now_monotonic_ns()};
	struct swap_progress progress = {.since_ns = poll.asked_ns};
	uint64_t looked = poll.asked_ns;
	struct swap_sum sum;
	unsigned int nap = 50;

	while ((sum = moving_look(moving, &poll)).silent) {
		uint64_t now = now_monotonic_ns();
		uint64_t none_ns = swap_progress_none_ns(&progress, &sum, now);

		if (none_ns > patience_ns && (looked == poll.asked_ns || now - looked > LOOK_NS)) {
			looked = now;
			if (!moving_moves(phase) || none_ns / UNSEEN > patience_ns ||
			    moving_any_stopped(&poll, now))
				break;
		}
		shared_file_nap(&nap, NAP_MOST_US);
	}
	if (say && (sum.silent || sum.refused))
		moving_say(moving, &poll);
	return sum;
}

int moving_status(const struct swap_sum *sum)
{
	if (sum->silent)
		return CONTROL_EXIT_LATE;
	return sum->device || sum->host || sum->quota || sum->file ? CONTROL_EXIT_NO_ROOM : EXIT_ALLOT;
}
