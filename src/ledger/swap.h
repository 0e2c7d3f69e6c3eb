/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a swappable tenant is asked for, and what its processes answer. One word in the policy says
 * all of a request: its phase, how much is to leave, and a number by which answers are told apart.
 * The command writes it; each process answers in its slot.
 *
 *	command   PREPARE ─────────────► OUT ──────────────►        BACK ───────────► RUN
 *	process           ... READY ────►    ... SUSPENDED ─►            ... RETURNED ──► RUNNING
 *
 * Who writes a request holds a lock that the kernel drops at its death. PREPARE and BACK are on the
 * way to something, and end with whoever asked for them: then each process goes back to what there
 * was before, RUN or OUT. As nobody changes the word after that death, all of them do the same. RUN
 * and OUT need nobody. RUN once more, of processes that run, says for how much of what they have
 * host memory is to be there for the next way out; 0: they give back what they keep.
 *
 *	killed after   PREPARE   all run again, nothing was moved
 *	               OUT       all leave, and stay away until somebody resumes the tenant
 *	               BACK      those that are back leave again, with what they came with
 *	               RUN       all run
 *
 * A process that is stopped answers nothing. Who asks gives up when nothing moves any more, and
 * asks for something else, which the stopped one finds when it goes on.
 *
 * COME stands before BACK while others make room for it, and nobody answers it: each process takes
 * what room there is, so that BACK has less to do. It ends as BACK does with whoever asked.
 *
 * OUT may ask for a part, and then for more. BACK says the part that was away, so that it is as
 * much again if who asked dies, or asks for OUT because one could not come.
 *
 * Where the policy names a directory, who asks for PREPARE says beside the request how what leaves
 * is split between the host and a file there, and each process takes its part of both before it is
 * READY. As nobody knows that before all have said how much there is, PREPARE is asked for once
 * more.
 *
 * STILL is on the way to a disk, for memory that CRIU takes from where it is: nothing leaves. It ends
 * as PREPARE does with whoever asked.
 *
 * BARE and GIVEN are OUT to those who ask what comes next, and need nobody. A process that was
 * asked for GIVEN has its content no more, refuses BACK and RUN, and is asked for BARE when
 * somebody has put the content where it was. With a split of 0 it has no file either; with another
 * one it has its place for what is about to be put there, or says why not.
 */
#ifndef ALLOT_LEDGER_SWAP_H
#define ALLOT_LEDGER_SWAP_H

#include <stdbool.h>
#include <stdint.h>

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

/* Whether memory is away, or on its way from there, whoever asked having died. */
static inline bool swap_phase_is_out(enum swap_phase phase)
{
	return phase == SWAP_OUT || phase == SWAP_COME || phase == SWAP_BACK ||
	       phase == SWAP_BARE || phase == SWAP_GIVEN;
}

/* Where one ends that is on the way to something, when who asked is dead. */
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
	SWAP_ROLE,	/* of guest/swap/residency_host.h */
	SWAP_SUCCESSOR, /* see swap_desk_clear */
};

/* One at a time: -EBUSY while another does. Errors of shared_file_open. */
int swap_desk_open(const char *dir, enum swap_asker asker, struct swap_desk **ret);

/*
 * For who has the role: who had it before is stopped, and asks. That is over as if he had been
 * killed, and he can ask for nothing any more. -EBUSY: it is a command that asks. Only where
 * somebody does.
 */
int swap_desk_clear(const char *dir);

void swap_desk_close(struct swap_desk *desk);

/*
 * Whether somebody else has done that. Who did may have lost the role itself meanwhile, and so not
 * have meant this desk: who is at it and has the role opens it again.
 */
bool swap_desk_is_cleared(const struct swap_desk *desk);

/* What was asked for last. */
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

/* For so many bytes of all processes, of which so many have room on the host. */
uint64_t swap_split_of(uint64_t bytes, uint64_t room);

/* What of so many bytes has room there, in proportion. */
uint64_t swap_host_bytes(uint64_t bytes, uint64_t split);

/* For somebody who looks once; errors of policy_load. */
int swap_load(const char *dir, uint32_t *ret_request);

/* --- Who answers --------------------------------------------------------------------------- */

/* The request as a word that FUTEX_WAIT (not private) accepts. */
const uint32_t *swap_request(const struct policy_map *map);

/* As swap_desk_split. */
uint64_t swap_request_split(const struct policy_map *map);

/* Whether somebody asks at this moment. True when that cannot be found out. */
bool swap_is_asked(const char *dir);
/* True if a command asks. */
bool swap_is_by_command(const char *dir);

/*
 * A tenant that takes turns on memory is wanted back by a command: whoever decides has it come as for
 * a launch of its own, as long as the descriptor that this answers is open. -errno.
 */
int swap_want(const char *dir);
bool swap_is_wanted(const char *dir);

/* Whether any of it is away, or on its way, by what was asked for last. */
bool swap_any_away(const char *dir);

struct swap_answer {
	uint32_t request; /* that it is an answer to */
	enum swap_state state;
	enum swap_why why;
	uint64_t bytes, amount, took_ns, list_at; /* as in struct swap_report */
};

void swap_say(struct slot *slot, const struct swap_answer *answer);

/* On the way: so much more is done. For who waits, and gives up where nobody gets on. */
void swap_get_on(struct slot *slot, uint64_t bytes);

/* How far one is that has not answered yet. It stands still where nothing moves. */
static inline uint64_t swap_gets_on(const struct swap_answer *answer)
{
	return answer->state == SWAP_SUSPENDING || answer->state == SWAP_RESUMING ? answer->amount
										    : 0;
}

/*
 * Of one that is READY, the host memory that it has for what leaves; of one that is away, what is
 * in a file.
 */
uint64_t swap_answer_kept(const struct swap_answer *answer);
uint64_t swap_answer_filed(const struct swap_answer *answer);

/* Of what is charged, by category, what leaves if nothing is in the way: also pools' memory. */
static inline uint64_t swap_can_leave(const uint64_t used[static CAT_N])
{
	return used[CAT_DATA] + used[CAT_POOL];
}

/* What left a device, as readers see it. */
void swap_set_out(struct slot *slot, int device, uint64_t bytes);

/* What the process of a slot said last; SWAP_NONE if nothing. -ENOENT as slot_info. */
int swap_heard(struct ledger *ledger, int index, struct swap_answer *ret);
uint64_t swap_out(struct ledger *ledger, int index, int device);

/* Bytes of a device that the tenant's live processes hold and that can leave: there, and away. */
struct swap_places {
	uint64_t here, away;
};
struct swap_places swap_find_live(struct ledger *ledger, int device);

/* --- What it does with its memory ----------------------------------------------------------- */

/*
 * Words of a ledger opened with LEDGER_GUEST. The process of the slot writes them; who decides
 * writes the answer to a wish, too, by compare-and-swap.
 */
struct swap_use *swap_use_of(struct ledger *ledger, int index);
/* NULL: not a device of the ledger. */
struct swap_wish *swap_wish_of(struct ledger *ledger, int index, int device);

#endif
