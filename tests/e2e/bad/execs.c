/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a program by one of the C library's functions, or past it, with nothing else in its environment:
 * execs WAY [NAME=VALUE...] PROGRAM [ARG].
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"

static pid_t pid;

static int spawned(int error)
{
	int status;

	if (error)
		return error;
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	exit(WEXITSTATUS(status));
}

static int start(const char *way, const char *path, char *argv[], char *envp[])
{
	int fd = open(path, O_RDONLY);

	if (!strcmp(way, "execve"))
		return execve(path, argv, envp);
	if (!strcmp(way, "execvpe"))
		return execvpe(path, argv, envp);
	if (!strcmp(way, "fexecve"))
		return fexecve(fd, argv, envp);
	if (!strcmp(way, "execle"))
		return execle(path, argv[0], argv[1], NULL, envp);
	if (!strcmp(way, "posix_spawn"))
		return spawned(posix_spawn(&pid, path, NULL, NULL, argv, envp));
	if (!strcmp(way, "posix_spawnp"))
		return spawned(posix_spawnp(&pid, path, NULL, NULL, argv, envp));
	if (!strcmp(way, "syscall")) /* past every library */
		return (int)syscall(SYS_execve, path, argv, envp);
	environ = envp;
	if (!strcmp(way, "execv"))
		return execv(path, argv);
	if (!strcmp(way, "execvp"))
		return execvp(path, argv);
	if (!strcmp(way, "execl"))
		return execl(path, argv[0], argv[1], NULL);
	if (!strcmp(way, "execlp"))
		return execlp(path, argv[0], argv[1], NULL);
	if (!strcmp(way, "vfork")) {
		pid = vfork();
		if (!pid)
			_exit(execve(path, argv, envp));
		return spawned(0);
	}
	CHECK(!"known way");
	return -1;
}

int main(int argc, char **argv)
{
	static char *envp[10000];
	int n = 2, r;

	CHECK(argc > 2 && argc < 10000);
	for (; n < argc && strchr(argv[n], '='); n++)
		envp[n - 2] = argv[n];
	CHECK(n < argc);
	r = start(argv[1], argv[n], argv + n, envp);
	errno = r > 0 ? r : errno;
	perror(argv[1]);
	return 99;
}
