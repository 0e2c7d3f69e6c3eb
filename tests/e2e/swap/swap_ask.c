/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swap_ask DIR: asks a tenant's processes for OUT and then for BARE, from RUN each time and without
 * PREPARE, as processes find it that begin while others are being asked. Each must answer once, when
 * all of it is done. Exits 1 if one answers with another state than the last.
 */
#include <stdio.h>

#include "base/now.h"
#include "ledger/ledger.h"
#include "ledger/swap_poll.h"

#define PATIENCE_NS (60 * NS_PER_S)

/* The answer of all to a request; SWAP_STATES: they did not agree, or not in time. */
static enum swap_state ask(struct swap_desk *desk, struct ledger *ledger, enum swap_phase phase)
{
	const struct swap_poll poll = {ledger, swap_desk_ask(desk, phase), now_monotonic_ns()};
	enum swap_state said = SWAP_NONE;
	struct swap_voice voice;

	do {
		ledger_refresh(ledger);
		for (int slot = 0; swap_poll_next(&poll, now_monotonic_ns(), &slot, &voice);) {
			if (!voice.silent && said && voice.answer.state != said)
				return SWAP_STATES;
			if (!voice.silent)
				said = voice.answer.state;
		}
	} while (swap_poll(&poll, now_monotonic_ns()).silent &&
		 now_monotonic_ns() < poll.asked_ns + PATIENCE_NS);
	return said;
}

static int check(enum swap_phase phase, enum swap_state said, enum swap_state expected)
{
	if (said == expected)
		return 0;
	fprintf(stderr, "phase %d: state %d was said, and not %d\n", phase, said, expected);
	return 1;
}

int main(int argc, char **argv)
{
	static const enum swap_phase phases[] = {SWAP_OUT, SWAP_BARE};
	struct ledger *ledger;
	struct swap_desk *desk;
	int wrong = 0;

	if (argc < 2 || ledger_open(argv[1], LEDGER_READ, &ledger) ||
	    swap_desk_open(argv[1], SWAP_COMMAND, &desk))
		return 2;
	for (int i = 0; i < 2; i++) {
		wrong |= check(phases[i], ask(desk, ledger, phases[i]), SWAP_SUSPENDED);
		wrong |= check(SWAP_BACK, ask(desk, ledger, SWAP_BACK), SWAP_RETURNED);
		wrong |= check(SWAP_RUN, ask(desk, ledger, SWAP_RUN), SWAP_RUNNING);
	}
	swap_desk_close(desk);
	ledger_close(ledger);
	return wrong;
}
