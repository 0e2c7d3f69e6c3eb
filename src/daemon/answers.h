/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of a page: what is made is kept for as long as anybody takes it, and once for all who take
 * it. A page that takes long to make, since there is much to say or somebody forges much, is made
 * seldom: those who ask meanwhile have the one before. For one thread.
 */
#ifndef ALLOT_DAEMON_ANSWERS_H
#define ALLOT_DAEMON_ANSWERS_H

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
 * With more than `most_bytes` in texts that somebody takes, no other one is made: the last one of them
 * is what all have. -ENOMEM.
 */
int answers_open(answers_writer *write, void *arg, size_t most_bytes, struct answers **ret);
/* When nobody takes any text. Takes NULL. */
void answers_close(struct answers *answers);

/* The text of now, for answer_release(). -ENOMEM, or what the page answered. */
int answers_get(struct answers *answers, uint64_t now_ns, struct answer **ret);
void answer_release(struct answer *answer);

/* Returns true if no other text would be made now, for what is not taken. */
bool answers_are_crowded(const struct answers *answers);

/* Gives a text back that nobody takes and that is old by then. When the next one will be; UINT64_MAX. */
uint64_t answers_tidy(struct answers *answers, uint64_t now_ns);

#endif
