/* SPDX-License-Identifier: Apache-2.0 */
#include "node/process/reading.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/now.h"

/* In this time the mappings of 1000 processes of one user have been read, of 400 KiB each. */
#define LONG_NS (60 * NS_PER_S)
/* An answer that nobody asked for in this time is dropped if the room is needed. */
#define FORGET_NS (10 * NS_PER_S)
/* Most unfinished readings that keep their descriptor; the others start again. */
#define READINGS 32

static void reading_free_found(const struct reading_table *t, void **found)
{
	if (*found)
		t->kind->free(*found);
	free(*found);
	*found = NULL;
}

static void reading_end(struct reading_table *t, struct reading *k)
{
	if (k->fd >= 0) {
		close(k->fd);
		t->open--;
	}
	k->fd = -EBADF;
	reading_free_found(t, &k->begun);
}

static void reading_forget(struct reading_table *t, struct reading *k)
{
	reading_end(t, k);
	reading_free_found(t, &k->found);
	k->read_ns = 0;
	k->put_off = false;
}

static void reading_finish(struct reading_table *t, struct reading *k, int error)
{
	reading_free_found(t, &k->found);
	k->found = k->begun;
	k->begun = NULL;
	k->error = error;
	k->put_off = false;
	k->read_ns = now_monotonic_ns();
	reading_end(t, k);
}

/* Reads the next slice. Returns 1, 0 at the end, or -errno. */
static int reading_read_slice(struct reading_table *t, struct reading *k)
{
	bool was_open = k->fd >= 0;
	uint64_t cost = 0;
	int r;

	if (!k->begun)
		k->begun = calloc(1, t->kind->found_bytes);
	if (!k->begun)
		return -ENOMEM;
	r = t->kind->read(k->mark.pid, &k->fd, k->begun, &cost);
	t->open += !was_open && k->fd >= 0;
	allowance_spend(t->kind->allowance, k->uid, cost);
	return r;
}

/* Reads on until the end or the end of the user's budget. */
static void reading_go_on(struct reading_table *t, struct reading *k)
{
	int r;

	while (allowance_left(t->kind->allowance, k->uid, 0)) {
		r = reading_read_slice(t, k);
		if (r <= 0) {
			reading_finish(t, k, r);
			return;
		}
	}
	k->put_off = true;
	allowance_put_off(t->kind->allowance, k->uid);
	if (t->open > READINGS)
		reading_end(t, k);
}

/* --- When ------------------------------------------------------------------------------------- */

static bool reading_has_priority(const struct reading_table *t, const struct reading *k,
				 uint64_t now_ns)
{
	for (size_t i = 0; i < t->n; i++)
		if (!t->list[i].read_ns && t->list[i].uid == k->uid &&
		    now_ns < t->list[i].asked_ns + FORGET_NS)
			return false;
	return true;
}

static uint64_t reading_keep_ns(const struct reading_table *t, const struct reading *k)
{
	return k->found && t->kind->keep_ns ? t->kind->keep_ns(k->found) : 0;
}

static bool reading_is_due(const struct reading_table *t, const struct reading *k)
{
	uint64_t now_ns = now_monotonic_ns();

	if (!k->read_ns || k->fd >= 0)
		return true;
	return now_ns >= k->read_ns + reading_keep_ns(t, k) &&
	       (!t->kind->all_once || reading_has_priority(t, k, now_ns));
}

/* --- Places ----------------------------------------------------------------------------------- */

static void reading_remove(struct reading_table *t, size_t i)
{
	reading_forget(t, &t->list[i]);
	t->list[i] = t->list[--t->n];
}

/* Removes those that nobody asks for, or that have nothing to be kept. */
static void reading_remove_idle(struct reading_table *t)
{
	uint64_t now_ns = now_monotonic_ns();

	for (size_t i = t->n; i-- > 0;) {
		const struct reading *k = &t->list[i];
		bool is_empty = k->read_ns && k->fd < 0 && (!k->found || !t->kind->is_any(k->found));

		if (is_empty || now_ns >= k->asked_ns + FORGET_NS)
			reading_remove(t, i);
	}
}

/* Groups of users, by number, for counting their places. */
#define GROUPS 256

/* Removes, of the users with the most places, the process that was asked for the longest ago. */
static void reading_remove_of_most(struct reading_table *t)
{
	size_t count[GROUPS] = {0}, most = 0, oldest = t->n;

	for (size_t i = 0; i < t->n; i++)
		count[t->list[i].uid % GROUPS]++;
	for (size_t g = 1; g < GROUPS; g++)
		most = count[g] > count[most] ? g : most;
	for (size_t i = 0; i < t->n; i++)
		if (t->list[i].uid % GROUPS == most &&
		    (oldest == t->n || t->list[i].asked_ns < t->list[oldest].asked_ns))
			oldest = i;
	reading_remove(t, oldest);
}

static struct reading *reading_at(struct reading_table *t, pid_t pid)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->list[i].mark.pid == pid)
			return &t->list[i];
	return NULL;
}

/* A new place, or that of the number's former process. */
static struct reading *reading_begin(struct reading_table *t, const struct process_mark *mark, uid_t uid)
{
	struct reading *k = reading_at(t, mark->pid);

	if (k)
		reading_forget(t, k);
	if (!k && t->n == READING_PROCESSES)
		reading_remove_idle(t);
	if (!k && t->n == READING_PROCESSES)
		reading_remove_of_most(t);
	if (!k)
		k = &t->list[t->n++];
	*k = (struct reading){.fd = -EBADF, .mark = *mark, .uid = uid, .begun_ns = now_monotonic_ns()};
	return k;
}

static void reading_mark(pid_t pid, struct process_mark *ret)
{
	if (process_read_mark(pid, ret) < 0)
		*ret = (struct process_mark){.pid = pid}; /* one of its threads may still live */
}

struct reading *reading_find(struct reading_table *t, pid_t pid)
{
	struct reading *k = reading_at(t, pid);
	struct process_mark mark;

	reading_mark(pid, &mark);
	return k && process_is_same(&k->mark, &mark) ? k : NULL;
}

int reading_know(struct reading_table *t, pid_t pid, struct reading **ret)
{
	struct process_mark mark;
	struct reading *k = reading_at(t, pid);
	uid_t uid;

	*ret = NULL;
	reading_mark(pid, &mark);
	if (!k || !process_is_same(&k->mark, &mark)) {
		if (process_read_user(pid, &uid) == -ESRCH)
			return -ESRCH;
		k = reading_begin(t, &mark, uid);
	}
	k->asked_ns = now_monotonic_ns();
	if (reading_is_due(t, k))
		reading_go_on(t, k);
	*ret = k;
	if (k->read_ns)
		return k->error;
	return now_monotonic_ns() < k->begun_ns + LONG_NS ? -EAGAIN : -ETIME;
}
