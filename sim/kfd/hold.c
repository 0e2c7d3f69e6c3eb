/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call that comes back late: ALLOT_SIM_AMD_HOLD=NAME:AFTER, like SVM:2. After so many calls of
 * that name the driver does the next one, and keeps its thread until the program says GET_VERSION
 * twice: the first time waits until the call is done, the second lets its thread go. So a test has
 * other threads overtake one between the driver and what its caller makes of the answer.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "sim/kfd/emu.h"

/* Under the lock of the machine. */
static struct {
	int nr; /* 0: none is held; -1: nobody understands what is asked for */
	uint64_t after;
	enum state { TO_COME, HELD, MET, GONE } state;
} hold;

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void hold_read_once(void)
{
	const char *asked = getenv("ALLOT_SIM_AMD_HOLD");
	char text[128], *rest = text, *name;

	if (!asked || !*asked)
		return;
	snprintf(text, sizeof(text), "%s", asked);
	name = strsep(&rest, ":");
	hold.nr = emu_find_ioctl(name);
	if (hold.nr >= 0 && rest && parse_u64(rest, 0, UINT32_MAX, &hold.after) == 0)
		return;
	fprintf(stderr, "allot sim: ALLOT_SIM_AMD_HOLD=%s is malformed; a right one is SVM:2\n",
		asked);
	hold.nr = -1;
}

static bool hold_is_asked_for(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, hold_read_once);
	return hold.nr > 0 && hold.state != GONE;
}

static void hold_change(enum state state)
{
	hold.state = state;
	pthread_cond_broadcast(&changed);
}

void emu_hold(unsigned int which, uint64_t before)
{
	if (!hold_is_asked_for() || (unsigned int)hold.nr != which || before != hold.after)
		return;
	hold_change(HELD);
	while (hold.state != GONE)
		emu_wait(&changed, NULL);
}

int emu_meet_held(void)
{
	if (!hold_is_asked_for())
		return hold.nr < 0 ? -EINVAL : 0; /* a test is not to go on without it */
	while (hold.state == TO_COME)
		emu_wait(&changed, NULL);
	hold_change(hold.state == HELD ? MET : GONE);
	return 0;
}
