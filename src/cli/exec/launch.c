/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/say/exit_status.h"
#include "cli/say/say.h"

int launch_prepend(const char *variable, const char *item, const char *separators)
{
	const char *old = getenv(variable);
	size_t size = strlen(item) + (old ? strlen(old) : 0) + 2;
	char *value = malloc(size), *end;
	int r;

	if (!value)
		return -ENOMEM;
	end = stpcpy(value, item);
	while (old && *old) {
		size_t len = strcspn(old, separators);

		if (len && (len != strlen(item) || strncmp(old, item, len)))
			end += sprintf(end, ":%.*s", (int)len, old);
		old += len;
		old += strspn(old, separators);
	}
	r = setenv(variable, value, 1) < 0 ? -errno : 0;
	free(value);
	return r;
}

int launch_cannot(const char *command, int err)
{
	const char *todo = "";

	err = err < 0 ? -err : err;
	if (err == ENOENT && strchr(command, '/') && !access(command, F_OK))
		todo = "; the file is there, but not the interpreter that it names";
	else if (err == ENOENT)
		todo = "; is it in PATH, and spelt as it is installed?";
	else if (err == EACCES)
		todo = "; it must be a file with execute permission";
	say_error("cannot run \"%s\": %s%s", command, say_errno(err), todo);
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXEC;
}

int launch_exec(char **argv)
{
	fflush(stdout);
	execvp(argv[0], argv);
	return launch_cannot(argv[0], errno);
}

/*
 * The signals that a parent hands on to the command. Not among them: those for its own faults, and
 * those about its children.
 */
static void launch_forwarded_signals(sigset_t *ret)
{
	static const int own[] = {SIGSEGV, SIGBUS,  SIGILL,  SIGFPE, SIGTRAP,
				  SIGSYS,  SIGTTIN, SIGTTOU, SIGABRT};

	sigfillset(ret);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(ret, own[i]);
}

/* Stops with the child, so that the shell sees a stopped job; the shell's SIGCONT wakes both. */
static void launch_stop_with_child(pid_t child)
{
	raise(SIGSTOP);
	kill(child, SIGCONT);
}

static int launch_supervise(pid_t child, const sigset_t *set)
{
	siginfo_t info;
	int status;

	for (;;) {
		while (waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
			if (!WIFSTOPPED(status))
				return status;
			launch_stop_with_child(child);
		}
		if (sigwaitinfo(set, &info) < 0)
			continue;
		if (info.si_signo == SIGCHLD)
			continue;
		/* SI_KERNEL: from the terminal, to the whole process group. */
		if (info.si_code != SI_KERNEL)
			kill(child, info.si_signo);
	}
}

int launch_supervised(char **argv, int (*enter)(void *arg), void *arg, int *ret_status)
{
	sigset_t set, old;
	pid_t child;
	int r;

	fflush(stdout);
	launch_forwarded_signals(&set);
	/* An inherited SIG_IGN would reap the child behind our back; the child gets it back. */
	void (*chld)(int) = signal(SIGCHLD, SIG_DFL);

	sigprocmask(SIG_BLOCK, &set, &old);
	child = fork();
	if (child < 0)
		return say_error("cannot start \"%s\": %s", argv[0], say_errno(errno));
	if (!child) {
		signal(SIGCHLD, chld);
		sigprocmask(SIG_SETMASK, &old, NULL);
		r = enter ? enter(arg) : 0;
		_exit(r ? r : launch_exec(argv));
	}
	*ret_status = launch_supervise(child, &set);
	return 0;
}

int launch_end_as(int wait_status)
{
	static const struct rlimit none = {0, 0};
	int sig = WTERMSIG(wait_status);
	sigset_t set;

	if (WIFEXITED(wait_status))
		return WEXITSTATUS(wait_status);
	/* The command dumped core if it was to; a second core file would say nothing. */
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);
	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(sig);
	return 128 + sig;
}
