/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/beside.h"

#include "base/host_memory.h"
#include "base/number.h"
#include "base/pidns.h"
#include "base/word.h"
#include "guest/swap/copy.h"
#include "ledger/slot.h"
#include "ledger/swap.h"

/* Bytes that a process on its way out has announced, less its host memory. */
static uint64_t beside_claim(const struct swap_answer *answer)
{
	uint64_t buffers = min_u64(answer->bytes, COPY_BUFFERS_BYTES);

	if (answer->why || (answer->state != SWAP_SUSPENDING && answer->state != SWAP_READY))
		return 0;
	return sat_sub_u64(answer->bytes, swap_gets_on(answer) + swap_answer_kept(answer)) +
	       buffers;
}

/* How many others have something, in the cgroup, and what they are about to take. */
static uint64_t beside_count(struct guest *guest, const char *group, uint64_t *ret_claims)
{
	uint64_t self = pidns_self(), n = 0, claims = 0;

	for (int i = 0; i < slot_count(guest->ledger); i++) {
		struct swap_answer answer;
		struct slot_info info;

		if (i == slot_index(guest->claimed) || slot_info(guest->ledger, i, &info) ||
		    info.pidns != self || swap_heard(guest->ledger, i, &answer) ||
		    !answer.bytes || !slot_alive(guest->ledger, i) ||
		    !host_memory_group_has(group, (pid_t)info.pid))
			continue;
		claims = sat_add_u64(claims, beside_claim(&answer));
		n++;
	}
	*ret_claims = claims;
	return n;
}

static uint64_t beside_less_claims(const char *group, uint64_t room, void *arg)
{
	uint64_t claims;

	beside_count(arg, group, &claims);
	return sat_sub_u64(room, claims);
}

static uint64_t beside_part(const char *group, uint64_t room, void *arg)
{
	uint64_t claims;

	return room / (1 + beside_count(arg, group, &claims));
}

uint64_t beside_claims(struct guest *guest)
{
	/* Pairs with the fence of others: of two processes one at least sees what the other said. */
	word_fence();
	return host_memory_share(beside_less_claims, guest);
}

uint64_t beside_others(struct guest *guest)
{
	return host_memory_share(beside_part, guest);
}
