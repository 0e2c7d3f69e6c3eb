/* SPDX-License-Identifier: Apache-2.0 */
/* A child's `stat`, whatever the child calls itself, and wherever it is in its life. */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"
#include "base/proc_stat.h"
#include "tests/check.h"

#define NOBODY 0x7ffffffe /* above every pid_max */

static pid_t begin(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, ") Z 1 (\n2");
		raise(SIGSTOP);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, NULL, WUNTRACED), pid);
	return pid;
}

int main(void)
{
	uint64_t before = now_boot_ns();
	struct proc_stat stat;
	pid_t pid = begin();
	siginfo_t info;

	CHECK_EQ(proc_stat_read(pid, &stat), 0);
	CHECK_EQ(stat.state, 'T');
	CHECK(proc_stat_is_stopped(&stat) && !proc_stat_is_dead(&stat) && !proc_stat_is_exiting(&stat));
	CHECK_EQ(stat.word[PROC_STAT_PARENT], getpid());
	CHECK(proc_stat_start_ns(&stat) + 20000000 > before && proc_stat_start_ns(&stat) <= now_boot_ns());
	CHECK(stat.word[PROC_STAT_STACK] && stat.word[PROC_STAT_DATA]);
	CHECK_EQ(kill(pid, SIGCONT), 0);
	CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	CHECK_EQ(proc_stat_read(pid, &stat), 0);
	CHECK(proc_stat_is_dead(&stat) && !proc_stat_is_stopped(&stat));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK_EQ(proc_stat_read(pid, &stat), -ENOENT);
	CHECK_EQ(proc_stat_read(NOBODY, &stat), -ENOENT);
	return 0;
}
