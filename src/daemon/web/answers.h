/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of a page: a text is kept while a client takes it, and once for all clients. A page
 * that takes long to make, since it is large or a ledger is forged, is made seldom: requests in
 * between get the previous text. For one thread.
 */
#ifndef ALLOT_DAEMON_WEB_ANSWERS_H
#define ALLOT_DAEMON_WEB_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* 0, or -errno: the page cannot be made now. */
typedef int answers_writer(FILE *out, void *arg);

struct answer {
	const char *text;
	size_t bytes;
};

struct answers;

/*
 * While clients take more than `most_bytes` of texts, no other one is made: all requests get the
 * last one. -ENOMEM.
 */
int answers_open(answers_writer *write, void *arg, size_t most_bytes, struct answers **ret);
/* When nobody takes any text. Takes NULL. */
void answers_close(struct answers *answers);

/* The current text, for answer_release(). -ENOMEM, or the page's error. */
int answers_get(struct answers *answers, uint64_t now_ns, struct answer **ret);
void answer_release(struct answer *answer);

/* Returns true if no new text would be made now, because of texts that are still taken. */
bool answers_are_crowded(const struct answers *answers);

/* Gives a text back that nobody takes and that is old by then. When the next one will be; UINT64_MAX. */
uint64_t answers_tidy(struct answers *answers, uint64_t now_ns);

#endif
