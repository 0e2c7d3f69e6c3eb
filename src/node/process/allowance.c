/* SPDX-License-Identifier: Apache-2.0 */
#include "node/process/allowance.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/now.h"
#include "base/number.h"

#define WINDOW_NS NS_PER_S
/*
 * The budget of a window. The kernel takes 10 ms for 1 MiB of mappings (Linux 6.18), so a daemon
 * spends at most a sixth of its time on them. One user has half of the budget, or less with
 * more users.
 */
#define ALL_BYTES	 (UINT64_C(16) << 20)
#define ALL_BYTES_ALONE	 (UINT64_C(256) << 20)
#define PARTS		 2
/*
 * Users that are counted apart in a window. The others, as a user namespace has by the thousand,
 * share one part.
 */
#define USERS 256

static struct {
	pthread_mutex_t lock;
	bool serves;
	struct spending {
		uint64_t began_ns, bytes;
		size_t n, before; /* the number of users in this window, and in the last one */
		struct {
			uid_t uid;
			uint64_t bytes;
		} user[USERS + 1];
		uint64_t times;
		uid_t last;
	} kind[ALLOWANCE_KINDS];
} allowance = {.lock = PTHREAD_MUTEX_INITIALIZER};

const char *allowance_word(enum allowance_kind kind)
{
	static const char *const words[ALLOWANCE_KINDS] = {
		[ALLOWANCE_MAPPINGS] = "mappings",
		[ALLOWANCE_ENVIRONMENTS] = "environments",
		[ALLOWANCE_DESCRIPTORS] = "descriptors",
		[ALLOWANCE_FIGURES] = "figures",
	};

	return words[kind];
}

/* The bytes that this user has spent in this window, which begins anew where it is over. */
static uint64_t *allowance_of(struct spending *s, uid_t uid)
{
	uint64_t now_ns = now_monotonic_ns();
	size_t i = 0;

	if (!s->began_ns || now_ns >= s->began_ns + WINDOW_NS) {
		s->before = now_ns < s->began_ns + 2 * WINDOW_NS ? s->n : 0;
		s->began_ns = now_ns;
		s->bytes = s->n = 0;
	}
	while (i < s->n && i < USERS && s->user[i].uid != uid)
		i++;
	if (i == s->n) {
		s->user[i].uid = uid;
		s->user[i].bytes = 0;
		s->n++;
	}
	return &s->user[i].bytes;
}

uint64_t allowance_left(enum allowance_kind kind, uid_t uid, uint64_t whole)
{
	struct spending *s = &allowance.kind[kind];
	uint64_t all, left, part, spent;

	pthread_mutex_lock(&allowance.lock);
	spent = *allowance_of(s, uid);
	all = allowance.serves ? ALL_BYTES : ALL_BYTES_ALONE;
	part = all / max_u64(PARTS, max_u64(s->n, s->before));
	left = sat_sub_u64(all, s->bytes);
	pthread_mutex_unlock(&allowance.lock);
	if (!spent && left)
		return max_u64(whole, min_u64(part, left));
	return min_u64(sat_sub_u64(part, spent), left);
}

void allowance_spend(enum allowance_kind kind, uid_t uid, uint64_t bytes)
{
	struct spending *s = &allowance.kind[kind];

	pthread_mutex_lock(&allowance.lock);
	*allowance_of(s, uid) += bytes;
	s->bytes += bytes;
	pthread_mutex_unlock(&allowance.lock);
}

void allowance_put_off(enum allowance_kind kind, uid_t uid)
{
	struct spending *s = &allowance.kind[kind];

	pthread_mutex_lock(&allowance.lock);
	s->times++;
	s->last = uid;
	pthread_mutex_unlock(&allowance.lock);
}

uint64_t allowance_count(enum allowance_kind kind, uid_t *ret_last)
{
	const struct spending *s = &allowance.kind[kind];
	uint64_t times;

	pthread_mutex_lock(&allowance.lock);
	times = s->times;
	*ret_last = s->last;
	pthread_mutex_unlock(&allowance.lock);
	return times;
}

void allowance_serve(void)
{
	pthread_mutex_lock(&allowance.lock);
	allowance.serves = true;
	pthread_mutex_unlock(&allowance.lock);
}
