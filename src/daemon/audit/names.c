/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/audit/names.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/now.h"

#define NAMES	    64
#define PATIENCE_NS (NS_PER_S / 10)
#define FRESH_NS    (600 * NS_PER_S)

static struct {
	pthread_mutex_t lock;
	pthread_cond_t known;
	bool asking; /* a thread does */
	unsigned int next;
	struct name {
		uid_t uid;
		uint64_t until_ns; /* it is fresh; 0: there is none */
		char text[USER_BYTES];
	} list[NAMES];
} names = {.lock = PTHREAD_MUTEX_INITIALIZER, .known = PTHREAD_COND_INITIALIZER};

static struct name *names_kept(uid_t uid)
{
	for (int i = 0; i < NAMES; i++)
		if (names.list[i].until_ns && names.list[i].uid == uid)
			return &names.list[i];
	return NULL;
}

static bool names_is_fresh(uid_t uid)
{
	const struct name *name = names_kept(uid);

	return name && name->until_ns > now_monotonic_ns();
}

static void *names_ask(void *arg)
{
	uid_t uid = (uid_t)(uintptr_t)arg;
	char text[USER_BYTES];
	struct name *name;

	user_name(uid, text);
	pthread_mutex_lock(&names.lock);
	name = names_kept(uid);
	if (!name)
		name = &names.list[names.next++ % NAMES];
	name->uid = uid;
	name->until_ns = now_monotonic_ns() + FRESH_NS;
	strcpy(name->text, text);
	names.asking = false;
	pthread_cond_broadcast(&names.known);
	pthread_mutex_unlock(&names.lock);
	return NULL;
}

/* A caller that finds another lookup at work, which may hang, does not wait. */
static void names_begin(uid_t uid)
{
	uint64_t until_ns = now_monotonic_ns() + PATIENCE_NS;
	const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
				       .tv_nsec = (long)(until_ns % NS_PER_S)};
	pthread_attr_t detached;
	pthread_t thread;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	names.asking = !pthread_create(&thread, &detached, names_ask, (void *)(uintptr_t)uid);
	pthread_attr_destroy(&detached);
	while (names.asking && !names_is_fresh(uid) &&
	       !pthread_cond_clockwait(&names.known, &names.lock, CLOCK_MONOTONIC, &until))
		;
}

void names_find(uid_t uid, char ret[static USER_BYTES])
{
	const struct name *name;

	pthread_mutex_lock(&names.lock);
	if (!names_is_fresh(uid) && !names.asking)
		names_begin(uid);
	name = names_kept(uid);
	if (name)
		strcpy(ret, name->text);
	else
		snprintf(ret, USER_BYTES, "%u", (unsigned int)uid);
	pthread_mutex_unlock(&names.lock);
}
