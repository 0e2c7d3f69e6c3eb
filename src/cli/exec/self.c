/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/self.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "text/text.h"

extern char **environ;

/* Output that does not fit is read and dropped, so that the writer does not wait. */
static void self_read(int fd, char *ret, size_t size)
{
	size_t n = 0;
	char more[256];
	ssize_t got;

	while ((got = read(fd, more, sizeof(more))) > 0 || (got < 0 && errno == EINTR))
		for (ssize_t i = 0; i < got && n + 1 < size; i++)
			ret[n++] = more[i];
	while (n && ret[n - 1] == '\n')
		n--;
	ret[n] = 0;
	for (char *p = ret; *p; p++)
		if (*p == '\n')
			*p = ';';
	text_make_printable(ret);
}

/* The screen blocks the signals that end it; the command has none blocked. */
static int self_spawn(const char *const argv[], int out, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int r;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
	/* The file that runs, also where an upgrade has put another one in its place. */
	r = posix_spawn(ret_pid, "/proc/self/exe", &actions, &attributes, (char *const *)argv,
			environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int self_run(const char *const argv[], char *ret_said, size_t size)
{
	int pipe_fd[2], status, r;
	pid_t pid;

	if (pipe2(pipe_fd, O_CLOEXEC) < 0)
		return -errno;
	r = self_spawn(argv, pipe_fd[1], &pid);
	close(pipe_fd[1]);
	if (!r)
		self_read(pipe_fd[0], ret_said, size);
	close(pipe_fd[0]);
	if (r < 0)
		return r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}
