/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "tests/check.h"

/* Whether it stops at the second passage, and goes on as if nothing had been. */
static bool stops(const char *armed)
{
	pid_t child = fork();
	int status, times = 0;

	if (child == 0) {
		CHECK_EQ(fault_arm(armed), 0);
		for (int i = 0; i < 3; i++)
			FAULT_POINT(COMMIT_ADDED);
		_exit(7);
	}
	for (;;) {
		CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
		if (!WIFSTOPPED(status))
			break;
		times++;
		kill(child, SIGCONT);
	}
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	return times == 1;
}

/* Passes COMMIT_ADDED three times and CANCELLED once; answers how often the first was survived. */
static int passages(const char *environment, const char *armed)
{
	int fds[2], n = 0, status;
	char c;

	CHECK_EQ(pipe(fds), 0);
	if (fork() == 0) {
		if (environment)
			setenv("ALLOT_FAULT", environment, 1);
		if (armed)
			CHECK_EQ(fault_arm(armed), 0);
		FAULT_POINT(CANCELLED);
		for (int i = 0; i < 3; i++) {
			FAULT_POINT(COMMIT_ADDED);
			CHECK_EQ(write(fds[1], "x", 1), 1);
		}
		_exit(0);
	}
	close(fds[1]);
	while (read(fds[0], &c, 1) == 1)
		n++;
	close(fds[0]);
	CHECK(wait(&status) > 0);
	CHECK(n == 3 ? status == 0 : WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	return n;
}

int main(void)
{
	unsetenv("ALLOT_FAULT");
#ifndef ALLOT_FAULT_POINTS
	CHECK_EQ(fault_arm("COMMIT_ADDED"), -ENOSYS);
	CHECK_EQ(passages("COMMIT_ADDED", NULL), 3);
	SKIP("fault points are not compiled in");
#endif
	CHECK_EQ(passages(NULL, NULL), 3);
	CHECK_EQ(passages("", NULL), 3);
	CHECK_EQ(passages("COMMIT_ADDED", NULL), 0);
	CHECK_EQ(passages("COMMIT_ADDED:1", NULL), 0);
	CHECK_EQ(passages("COMMIT_ADDED:3", NULL), 2);
	CHECK_EQ(passages("COMMIT_ADDED:4", NULL), 3);
	CHECK_EQ(passages("COMMIT", NULL), 3);
	CHECK_EQ(passages("NO_SUCH_POINT", NULL), 3);
	CHECK_EQ(passages("COMMIT_ADDED:0", NULL), 3);
	CHECK_EQ(passages("COMMIT_ADDED:x", NULL), 3);
	CHECK_EQ(passages("CANCELLED:2", NULL), 3);
	CHECK_EQ(passages("COMMIT_ADDED", "COMMIT_ADDED:2"), 1);
	CHECK(stops("COMMIT_ADDED:2/STOP"));
	CHECK(stops("COMMIT_ADDED/STOP"));
	CHECK(!stops("COMMIT_ADDED:4/STOP"));
	CHECK_EQ(fault_arm("/STOP"), -EINVAL);
	CHECK_EQ(fault_arm("NO_SUCH_POINT"), -EINVAL);
	CHECK_EQ(fault_arm("COMMIT_ADDED:-1"), -EINVAL);
	CHECK_EQ(fault_arm(NULL), 0);
	CHECK(!strcmp(fault_name(FAULT_COMMIT_ADDED), "COMMIT_ADDED"));
	CHECK(!strcmp(fault_name(FAULT_POINT_N), "?"));
	return 0;
}
