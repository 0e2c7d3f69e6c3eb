/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the test programs share that a harness outside of them steers: one line of JSON on stdout
 * for each thing that happened, one word on stdin for each thing to do next. None of them knows of
 * allot. All end when their input does, and a watchdog ends them when nobody is there any more.
 * With CHILD_OUTLIVES set they live on without their parent, which is another one for those that
 * come back from a disk.
 */
#ifndef ALLOT_TESTS_GPU_STEERED_H
#define ALLOT_TESTS_GPU_STEERED_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static inline void child_watched(unsigned int watchdog_seconds)
{
	if (!getenv("CHILD_OUTLIVES"))
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(watchdog_seconds);
	setvbuf(stdout, NULL, _IOLBF, 0);
}

/* The next word from the harness, or NULL at the end of input. */
static inline const char *child_told(char buf[static 32])
{
	if (!fgets(buf, 32, stdin))
		return NULL;
	buf[strcspn(buf, "\n")] = 0;
	return buf;
}

#endif
