/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a swappable tenant, and its processes' answers. One word in the policy is the whole
 * request: its phase, how much is to be moved, and a number that matches answers to it. The
 * requester writes it; each process answers in its slot.
 *
 *	command   PREPARE ─────────────► OUT ──────────────►        BACK ───────────► RUN
 *	process           ... READY ────►    ... SUSPENDED ─►            ... RETURNED ──► RUNNING
 *
 * The requester holds a lock that the kernel drops at its death. PREPARE and BACK are transitions,
 * and end with their requester: each process then returns to the state before, RUN or OUT. As
 * nobody changes the word after that death, all of them do the same. RUN and OUT need no requester.
 * RUN may be repeated to running processes: it says for how much of their memory host memory is to
 * be prepared; 0: they give back what they keep.
 *
 *	killed after   PREPARE   all run again, nothing was moved
 *	               OUT       all move out, and stay out until the tenant is resumed
 *	               BACK      those that are back move out again, to where they came from
 *	               RUN       all run
 *
 * A stopped process answers nothing. The requester gives up when nothing makes progress any more,
 * and makes another request, which the stopped process finds when it is continued.
 *
 * COME precedes BACK while others make room, and has no answer: each process moves in what fits, so
 * that BACK has less to do. It ends with its requester, as BACK does.
 *
 * OUT may ask for a part, and then for more. BACK carries the part that was out, so that it is the
 * same again if the requester dies, or asks for OUT because one process could not come back.
 *
 * If the policy names a directory, the requester of PREPARE says beside the request how memory is
 * split between the host and a file there, and each process reserves its part of both before it is
 * READY. Nobody knows the split before all have told their sizes, so PREPARE is asked for twice.
 *
 * STILL precedes a checkpoint of memory that CRIU reads in place: nothing is moved. It ends with
 * its requester, as PREPARE does.
 *
 * BARE and GIVEN are stages of OUT that need no requester. A process that was asked for GIVEN has
 * lost its content and refuses BACK and RUN; it is asked for BARE after the content was put back.
 * With a split of 0 it has no file either; with another split it reserves room for the content, or
 * says why it cannot.
 */
#ifndef ALLOT_LEDGER_SWAP_H
#define ALLOT_LEDGER_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/now.h"
#include "ledger/records.h"

struct ledger;
struct policy_map;
struct slot;
struct swap_desk;

static inline enum swap_phase swap_phase_of(uint32_t request)
{
	return (enum swap_phase)(request & 0xff);
}

/* Of SWAP_ALL; for PREPARE, OUT, COME and BACK, and for RUN of what is to be ready to leave. */
static inline uint32_t swap_part_of(uint32_t request)
{
	return request >> 8 & 0xff;
}

/* True if memory is out, or coming back, after the requester died. */
static inline bool swap_phase_is_out(enum swap_phase phase)
{
	return phase == SWAP_OUT || phase == SWAP_COME || phase == SWAP_BACK ||
	       phase == SWAP_BARE || phase == SWAP_GIVEN;
}

/* True if the phase only lets work end, and moves nothing. */
static inline bool swap_phase_prepares(enum swap_phase phase)
{
	return phase == SWAP_PREPARE || phase == SWAP_PREPARE_CONTEXTS || phase == SWAP_STILL;
}

/* The phase in which a transition ends when its requester died. */
static inline enum swap_phase swap_phase_rests(enum swap_phase phase)
{
	switch (phase) {
	case SWAP_PREPARE:
	case SWAP_PREPARE_CONTEXTS:
	case SWAP_STILL:
		return SWAP_RUN;
	case SWAP_COME:
	case SWAP_BACK:
		return SWAP_OUT;
	default:
		return phase;
	}
}

/* --- Who asks ------------------------------------------------------------------------------ */

enum swap_asker {
	SWAP_COMMAND,
	SWAP_ROLE,	/* of roles/residency_host.h */
	SWAP_SUCCESSOR, /* see swap_desk_clear */
};

/* One at a time: -EBUSY while another does. Errors of shared_file_open. */
int swap_desk_open(const char *dir, enum swap_asker asker, struct swap_desk **ret);

/*
 * For the role holder: its predecessor is stopped in the middle of a request. Ends that request as
 * if the predecessor had been killed; it can make no further one. -EBUSY: the requester is a
 * command. To be called only while there is a request.
 */
int swap_desk_clear(const char *dir);

void swap_desk_close(struct swap_desk *desk);

/*
 * True if another process has cleared the desk. That one may have lost the role itself meanwhile,
 * and not have meant this desk: the present role holder opens it again.
 */
bool swap_desk_is_cleared(const struct swap_desk *desk);

/* The last request. */
uint32_t swap_desk_request(const struct swap_desk *desk);

/* Asks for a phase, wakes all processes, and answers the request that they are to answer. */
uint32_t swap_desk_ask(struct swap_desk *desk, enum swap_phase phase);

/* PREPARE, OUT or RUN, for a part of SWAP_ALL. */
uint32_t swap_desk_ask_part(struct swap_desk *desk, enum swap_phase phase, uint32_t part);

/*
 * How what leaves is split between the host and a file, for the requests from here on: by
 * swap_split_of, or 0 where all has room on the host.
 */
void swap_desk_set_split(struct swap_desk *desk, uint64_t split);
uint64_t swap_desk_split(const struct swap_desk *desk);

/* All has room there, but for what memory cgroups say. */
#define SWAP_SPLIT_HOST (UINT64_C(1) << 32 | 1)

/* The split for `bytes` bytes of all processes, of which `room` have room on the host. */
uint64_t swap_split_of(uint64_t bytes, uint64_t room);

/* The part of `bytes` bytes that has room on the host, in proportion. */
uint64_t swap_host_bytes(uint64_t bytes, uint64_t split);

/* --- Notice -------------------------------------------------------------------------------- */

/*
 * A requester that is not in a hurry gives notice before PREPARE, for programs that want to give
 * memory back or to save something. It waits until none listens any more, or for the time that it
 * said. A program that listens holds a lock that the kernel drops at its death, and lets go of it
 * when it is ready.
 *
 *	requester   notice, until T ──────────── nobody listens, or T ──► PREPARE
 *	program     listens      ... hears of it, frees, is ready
 *
 * A requester that is killed leaves a notice that ends at T, and nothing else. The words are the
 * policy's, so no process of the tenant can give notice; one that keeps the lock delays a requester
 * by the time that this one chose.
 */

/* The longest that can be given; one of later is damage. */
#define SWAP_NOTICE_MOST_NS (60 * NS_PER_S)

/*
 * Until then by CLOCK_MONOTONIC. Sets the notice's number, by which its requester withdraws it.
 * Returns false if another process has cleared the desk.
 */
bool swap_desk_give_notice(struct swap_desk *desk, uint64_t until_ns, uint32_t *ret_number);

/*
 * Ends the notice with that number, as what was announced has begun, or does not happen. Leaves the
 * notice of a later requester.
 */
void swap_desk_withdraw_notice(struct swap_desk *desk, uint32_t number);

/* True if a process of the tenant in `dir` listens. True when that cannot be found out. */
bool swap_is_listened_to(const char *dir);

/* The number of the last notice, as a word that FUTEX_WAIT (not private) accepts. */
const uint32_t *swap_notice(const struct policy_map *map);

/* How long it is until what was announced; 0: nothing is. Pure but for the map. */
uint64_t swap_notice_left_ns(const struct policy_map *map, uint64_t now_ns);

/*
 * Listens, for as long as this process lives, until it calls exec, or swap_listen_no_more; without
 * a descriptor, and with no part of it for children. -EAGAIN: another process has the lock alone;
 * -ENOLCK; errors of shared_file_open.
 */
int swap_listen(const char *dir, void **ret_ear);
void swap_listen_no_more(void *ear);

/* --- Who answers --------------------------------------------------------------------------- */

/* The request as a word that FUTEX_WAIT (not private) accepts. */
const uint32_t *swap_request(const struct policy_map *map);

/* As swap_desk_split. */
uint64_t swap_request_split(const struct policy_map *map);

/* True if there is a requester at this moment. True when that cannot be found out. */
bool swap_is_asked(const char *dir);
/* True if a command asks. */
bool swap_is_by_command(const char *dir);

/*
 * A command wants a tenant back that takes turns on memory: the role holder lets it come back as
 * for a launch of its own, while the returned descriptor is open. -errno.
 */
int swap_want(const char *dir);
bool swap_is_wanted(const char *dir);

/* True if any of its memory is out, or coming back, by the last request. */
bool swap_any_away(const char *dir);

/* Which figure an answer has beside `bytes`; it follows from its state and why. */
enum swap_figure {
	SWAP_FIGURE_MOVED,    /* SUSPENDING, RESUMING: grows as memory moves */
	SWAP_FIGURE_FILE,     /* SWAP_FILE: the file that could not be had, or used */
	SWAP_FIGURE_LACKS,    /* SWAP_HOST: bytes without room on the host; 0: all of them */
	SWAP_FIGURE_FILED,    /* SUSPENDED: bytes that are in a file */
	SWAP_FIGURE_OBSTACLE, /* any other why: bytes, or the number, of what it names */
	SWAP_FIGURE_KEPT,     /* READY: bytes of host memory that are prepared */
	SWAP_FIGURE_NONE,
};

struct swap_answer {
	uint32_t request; /* that it is an answer to */
	enum swap_state state;
	enum swap_why why;
	uint64_t bytes, took_ns, list_at; /* as in struct swap_report */
	union {
		uint64_t moved, lacks, filed, obstacle, kept;
		struct {
			uint64_t bytes; /* that it was to have */
			int error;	/* an errno */
		} file;
	};
};

enum swap_figure swap_figure_of(const struct swap_answer *answer);

void swap_say(struct slot *slot, const struct swap_answer *answer);

/* Reports progress of `bytes` bytes, for a requester that gives up if there is none. */
void swap_get_on(struct slot *slot, uint64_t bytes);

/* How far one is that has not answered yet. It stands still where nothing moves. */
static inline uint64_t swap_gets_on(const struct swap_answer *answer)
{
	return swap_figure_of(answer) == SWAP_FIGURE_MOVED ? answer->moved : 0;
}

/* The figure of that name; 0 if the answer has another one. */
static inline uint64_t swap_answer_kept(const struct swap_answer *answer)
{
	return swap_figure_of(answer) == SWAP_FIGURE_KEPT ? answer->kept : 0;
}

static inline uint64_t swap_answer_filed(const struct swap_answer *answer)
{
	return swap_figure_of(answer) == SWAP_FIGURE_FILED ? answer->filed : 0;
}

/* Movable bytes of the charges, by category, if nothing is in the way: also pools' memory. */
static inline uint64_t swap_can_leave(const uint64_t used[static CAT_N])
{
	return used[CAT_DATA] + used[CAT_POOL];
}

/* Sets the bytes that were moved off a device, for readers. */
void swap_set_out(struct slot *slot, int device, uint64_t bytes);

/* The last answer of a slot's process; SWAP_NONE if there is none. -ENOENT as slot_info. */
int swap_heard(struct ledger *ledger, int index, struct swap_answer *ret);
uint64_t swap_out(struct ledger *ledger, int index, int device);

/* Bytes of a device that the tenant's live processes hold and that can leave: there, and away. */
struct swap_places {
	uint64_t here, away;
};
struct swap_places swap_find_live(struct ledger *ledger, int device);

/* --- What it does with its memory ----------------------------------------------------------- */

/*
 * Words of a ledger opened with LEDGER_GUEST. The process of the slot writes them; the role holder
 * writes the answer to a wish, too, by compare-and-swap.
 */
struct swap_use *swap_use_of(struct ledger *ledger, int index);
/* NULL: not a device of the ledger. */
struct swap_wish *swap_wish_of(struct ledger *ledger, int index, int device);

#endif
