/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of a page: made once for all who take it, seldom where that takes long, and within bounds. */
#include "daemon/web/answers.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/now.h"
#include "tests/check.h"

#define MOST 100

static unsigned int made;
static uint64_t work_ns;
static int fails;

static uint64_t processor_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static int write_page(FILE *out, void *arg)
{
	uint64_t end_ns = processor_ns() + work_ns;

	CHECK(arg == &made);
	while (processor_ns() < end_ns)
		;
	fprintf(out, "page %u %060d", ++made, 0);
	return fails;
}

static struct answers *begin(void)
{
	struct answers *answers;

	made = 0;
	CHECK_EQ(answers_open(write_page, &made, MOST, &answers), 0);
	return answers;
}

static struct answer *get(struct answers *answers, uint64_t now_ns, const char *begins)
{
	struct answer *answer;

	CHECK_EQ(answers_get(answers, now_ns, &answer), 0);
	CHECK(!strncmp(answer->text, begins, strlen(begins)));
	CHECK_EQ(answer->bytes, strlen(answer->text));
	return answer;
}

/* What is made at once is made for each who asks. */
static void check_fresh(void)
{
	struct answers *answers = begin();
	struct answer *a, *b;

	work_ns = 0;
	a = get(answers, 1000, "page 1 ");
	answer_release(a);
	a = get(answers, 1000, "page 2 ");
	CHECK_EQ(answers_tidy(answers, 1000), UINT64_MAX);
	b = get(answers, 1000, "page 3 ");
	answer_release(a);
	CHECK(!strncmp(b->text, "page 3 ", 7));
	answer_release(b);
	fails = -EIO;
	CHECK_EQ(answers_get(answers, 1000, &a), -EIO);
	fails = 0;
	answers_close(answers);
}

/* Nobody has it made more often than a fifth of the time, and it is given back then. */
static void check_costly(void)
{
	struct answers *answers = begin();
	struct answer *a, *b;
	uint64_t until_ns;

	work_ns = 40 * NS_PER_MS;
	a = get(answers, now_monotonic_ns(), "page 1 ");
	until_ns = answers_tidy(answers, now_monotonic_ns());
	CHECK(until_ns != UINT64_MAX);
	b = get(answers, until_ns - 1, "page 1 ");
	CHECK(a == b);
	answer_release(b);
	answer_release(a);
	answer_release(get(answers, until_ns - 1, "page 1 "));
	CHECK_EQ(answers_tidy(answers, until_ns), UINT64_MAX);
	answer_release(get(answers, until_ns, "page 2 "));
	answers_close(answers);
}

/* With more than there may be, all have the last one; where nobody has that any more, none is made. */
static void check_crowded(void)
{
	struct answers *answers = begin();
	struct answer *a, *b, *c;

	work_ns = 0;
	a = get(answers, 1, "page 1 ");
	CHECK(!answers_are_crowded(answers));
	b = get(answers, 1, "page 2 ");
	CHECK(answers_are_crowded(answers));
	c = get(answers, 1, "page 2 ");
	CHECK(b == c);
	answer_release(b);
	CHECK(answers_are_crowded(answers));
	answer_release(c);
	CHECK(!answers_are_crowded(answers));
	b = get(answers, 1, "page 3 ");
	answer_release(a);
	a = get(answers, 1, "page 4 ");
	c = get(answers, 1, "page 4 ");
	CHECK(a == c);
	answer_release(a);
	answer_release(c);
	answer_release(b);
	answers_close(answers);
	answers = begin();
	a = get(answers, 1, "page 1 ");
	b = get(answers, 1, "page 2 ");
	CHECK(answers_are_crowded(answers));
	answer_release(b);
	CHECK(!answers_are_crowded(answers));
	answer_release(a);
	answers_close(answers);
	CHECK_EQ(answers_open(write_page, &made, 1, &answers), 0);
	a = get(answers, 1, "page 3 ");
	b = get(answers, 1, "page 3 ");
	CHECK(a == b);
	answer_release(a);
	answer_release(b);
	answers_close(answers);
}

int main(void)
{
	check_fresh();
	check_costly();
	check_crowded();
	return 0;
}
