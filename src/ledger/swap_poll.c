/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/swap_poll.h"

#include "base/now.h"
#include "base/number.h"

/* A process that has a slot, and has not answered for this long, has no thread that would. */
#define MUTE_NS (2 * NS_PER_S)

static bool swap_poll_passes_mute(const struct swap_poll *poll, uint64_t now_ns)
{
	return !swap_phase_prepares(swap_phase_of(poll->request)) &&
	       now_ns > poll->asked_ns + MUTE_NS;
}

/* A library of an earlier version takes an unknown phase for RUN. */
static bool swap_poll_is_misheard(const struct swap_poll *poll, const struct swap_answer *answer)
{
	return swap_phase_of(poll->request) == SWAP_STILL && answer->state != SWAP_READY;
}

bool swap_poll_next(const struct swap_poll *poll, uint64_t now_ns, int *slot,
		    struct swap_voice *ret)
{
	for (int i; *slot < slot_count(poll->ledger);) {
		i = (*slot)++;
		if (slot_info(poll->ledger, i, &ret->info) ||
		    swap_heard(poll->ledger, i, &ret->answer) || !slot_alive(poll->ledger, i) ||
		    (ret->answer.state == SWAP_NONE && swap_poll_passes_mute(poll, now_ns)))
			continue;
		ret->silent =
			ret->answer.state == SWAP_NONE || ret->answer.request != poll->request;
		ret->refuses = !ret->silent &&
			       (ret->answer.why || swap_poll_is_misheard(poll, &ret->answer));
		return true;
	}
	return false;
}

static void swap_sum_add_silent(struct swap_sum *sum, const struct swap_answer *answer)
{
	sum->silent++;
	sum->ready += answer->state == SWAP_READY;
	sum->idle += answer->state != SWAP_READY && answer->state != SWAP_SUSPENDING;
	sum->moved += swap_gets_on(answer);
}

static void swap_sum_add(struct swap_sum *sum, const struct swap_answer *answer)
{
	sum->processes += answer->bytes > 0;
	sum->busy |= answer->why == SWAP_BUSY || answer->why == SWAP_CAPTURE;
	sum->device |= answer->why == SWAP_DEVICE;
	sum->host |= answer->why == SWAP_HOST;
	sum->quota |= answer->why == SWAP_QUOTA;
	sum->file |= answer->why == SWAP_FILE;
	sum->bytes += answer->bytes;
	sum->kept += swap_answer_kept(answer);
	sum->placed += min_u64(swap_answer_kept(answer), answer->bytes);
	sum->filed += swap_answer_filed(answer);
	sum->took_ns = max_u64(answer->took_ns, sum->took_ns);
}

struct swap_sum swap_poll(const struct swap_poll *poll, uint64_t now_ns)
{
	struct swap_sum sum = {0};
	struct swap_voice voice;

	for (int slot = 0; swap_poll_next(poll, now_ns, &slot, &voice);) {
		sum.refused += voice.refuses;
		if (voice.silent)
			swap_sum_add_silent(&sum, &voice.answer);
		else
			swap_sum_add(&sum, &voice.answer);
	}
	return sum;
}

uint64_t swap_progress_none_ns(struct swap_progress *progress, const struct swap_sum *sum,
			       uint64_t now_ns)
{
	if (!sum->silent || sum->moved != progress->moved)
		progress->since_ns = now_ns;
	progress->moved = sum->moved;
	return sat_sub_u64(now_ns, progress->since_ns);
}
