/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/answers.h"

#include <errno.h>
#include <stdio_ext.h>
#include <stdlib.h>

#include "base/now.h"

/* A page that took more of a processor is as good for a time of this many times that. */
#define COST_NS	  (20 * NS_PER_MS)
#define COST_REST 4

struct kept {
	struct answer answer; /* the first: it is what others have of it */
	struct answers *answers;
	char *text;
	unsigned int users; /* one of them is `answers`, until then: */
	uint64_t until_ns;  /* new requests get it, too; 0: none does */
};

struct answers {
	answers_writer *write;
	void *arg;
	size_t most_bytes, held_bytes;
	struct kept *last; /* NULL: none is there by now */
	bool keeps;	   /* it is counted as a user */
};

int answers_open(answers_writer *write, void *arg, size_t most_bytes, struct answers **ret)
{
	struct answers *answers = calloc(1, sizeof(*answers));

	if (!answers)
		return -ENOMEM;
	*answers = (struct answers){.write = write, .arg = arg, .most_bytes = most_bytes};
	*ret = answers;
	return 0;
}

void answers_close(struct answers *answers)
{
	if (answers && answers->keeps)
		answer_release(&answers->last->answer);
	free(answers);
}

void answer_release(struct answer *answer)
{
	struct kept *kept = (struct kept *)answer;
	struct answers *answers = kept->answers;

	if (--kept->users)
		return;
	answers->held_bytes -= answer->bytes;
	if (answers->last == kept)
		answers->last = NULL;
	free(kept->text);
	free(kept);
}

static int answers_write(struct answers *answers, char **ret_text, size_t *ret_bytes)
{
	FILE *out = open_memstream(ret_text, ret_bytes);
	int r;

	if (!out)
		return -ENOMEM;
	__fsetlocking(out, FSETLOCKING_BYCALLER); /* no other thread has it */
	r = answers->write(out, answers->arg);
	if (fclose(out) || !*ret_text)
		r = -ENOMEM;
	if (r < 0)
		free(*ret_text);
	return r;
}

static int answers_make(struct answers *answers, struct kept **ret)
{
	struct kept *kept = calloc(1, sizeof(*kept));
	uint64_t began_ns = now_thread_ns(), cost_ns;
	int r;

	if (!kept)
		return -ENOMEM;
	r = answers_write(answers, &kept->text, &kept->answer.bytes);
	if (r < 0) {
		free(kept);
		return r;
	}
	cost_ns = now_thread_ns() - began_ns;
	kept->answer.text = kept->text;
	kept->answers = answers;
	if (cost_ns >= COST_NS)
		kept->until_ns = now_monotonic_ns() + COST_REST * cost_ns;
	answers->held_bytes += kept->answer.bytes;
	*ret = kept;
	return 0;
}

static void answers_let_go(struct answers *answers)
{
	struct kept *last = answers->last;

	if (!answers->keeps)
		return;
	answers->keeps = false;
	answer_release(&last->answer);
}

int answers_get(struct answers *answers, uint64_t now_ns, struct answer **ret)
{
	struct kept *kept;
	int r;

	answers_tidy(answers, now_ns);
	kept = answers->last;
	/* Where it is crowded there is a last one: those before it were not when it was made. */
	if (!kept || (now_ns >= kept->until_ns && !answers_are_crowded(answers))) {
		r = answers_make(answers, &kept);
		if (r < 0)
			return r;
		answers_let_go(answers);
		answers->last = kept;
		answers->keeps = kept->until_ns;
		kept->users = answers->keeps;
	}
	kept->users++;
	*ret = &kept->answer;
	return 0;
}

bool answers_are_crowded(const struct answers *answers)
{
	return answers->held_bytes > answers->most_bytes;
}

uint64_t answers_tidy(struct answers *answers, uint64_t now_ns)
{
	if (answers->keeps && now_ns >= answers->last->until_ns)
		answers_let_go(answers);
	return answers->keeps ? answers->last->until_ns : UINT64_MAX;
}
