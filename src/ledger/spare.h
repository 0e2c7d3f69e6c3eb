/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that a process keeps without using it, for its own next allocation. It is charged,
 * so because of it others of the tenant, or other threads of the process, could be refused. A
 * thread that would be refused asks for it first:
 *
 *	keeping process				asking thread
 *	spare_keep: notes that it does		spare_begin_ask: notes that it asks
 *	spare_asked: then it stops that		gives back the process's own
 *						spare_await: waits for those that keep some
 *	spare_question, spare_answer:		tries once more
 *	memory kept until then is released	spare_end_ask
 *
 * Each publishes and then checks. Memory that is kept before a question is released, with its
 * charge, before the answer; memory that would be kept during one is released before the call that
 * frees it returns. The asking thread does not wait for a process that was killed or that exits,
 * and for a stopped one it waits a second each time: their memory goes when they end.
 */
#ifndef ALLOT_LEDGER_SPARE_H
#define ALLOT_LEDGER_SPARE_H

#include <stdbool.h>
#include <stdint.h>

struct slot;

/* This process may keep something from here on, and answers; and keeps nothing, and does not. */
void spare_keep(struct slot *slot);
void spare_end(struct slot *slot);

/* True if a process of the tenant asks, this one included: then nothing is to be kept. */
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

/*
 * Returns a question that this process has not answered, by its `number`, for spare_answer. False:
 * there is none.
 */
bool spare_question(struct slot *slot, uint16_t *ret_number);
void spare_answer(struct slot *slot, uint16_t number);

#endif
