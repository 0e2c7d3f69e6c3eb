/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that a process keeps without using it, for its own next allocation. It is charged,
 * so it could have others of the tenant refused, or other threads of the process. Who would be asks
 * for it first:
 *
 *	who keeps				who would be refused
 *	spare_keep: says that it does		spare_begin_ask: says that it asks
 *	spare_asked: then it ends that		gives back what the process has itself
 *						spare_await: waits for those that say they keep
 *	spare_question, spare_answer:		tries once more
 *	what it kept until then has ended	spare_end_ask
 *
 * Each publishes and then checks: what is kept before a question has ended, with its charge, before
 * that is answered, and what would be kept during one ends before the call that frees it returns. A
 * process that was killed is not waited for, one that is stopped for a second each time, and one that
 * exits not at all: what it kept goes when it ends.
 */
#ifndef ALLOT_LEDGER_SPARE_H
#define ALLOT_LEDGER_SPARE_H

#include <stdbool.h>
#include <stdint.h>

struct slot;

/* This process may keep something from here on, and answers; and keeps nothing, and does not. */
void spare_keep(struct slot *slot);
void spare_end(struct slot *slot);

/* Whether some process of the tenant asks, this one included: then nothing is to be kept. */
bool spare_asked(struct slot *slot);

/* Around giving back and another try. Any thread; may be within another one's. */
void spare_begin_ask(struct slot *slot);
void spare_end_ask(struct slot *slot);
/*
 * Waits until all processes of the tenant that may keep something have answered, at most a second:
 * of this one, too, a thread may be about to end some. `bell`: a futex word on which the thread of
 * each of them sleeps that answers.
 */
void spare_await(struct slot *slot, const void *bell);

/* What this process has not answered. False: nothing. Its `number` is for spare_answer. */
bool spare_question(struct slot *slot, uint16_t *ret_number);
void spare_answer(struct slot *slot, uint16_t number);

#endif
