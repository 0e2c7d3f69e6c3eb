/* SPDX-License-Identifier: Apache-2.0 */
/* A process that is prepared by a function, and then stays as it is until the test ends it. */
#ifndef ALLOT_TESTS_HELD_CHILD_H
#define ALLOT_TESTS_HELD_CHILD_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"

/* Returns when `prepare` has returned in the child. The kernel ends the child with the test. */
static inline pid_t held_child_begin(void (*prepare)(void *arg), void *arg)
{
	int ready[2];
	pid_t pid;
	char c;

	CHECK_EQ(pipe(ready), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prepare(arg);
		CHECK_EQ(write(ready[1], "", 1), 1);
		pause();
		_exit(0);
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static inline void held_child_end(pid_t pid)
{
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

#endif
