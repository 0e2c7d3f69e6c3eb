/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/mps_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/now.h"
#include "cli/tenant/program.h"
#include "ledger/shared_file.h"
#include "nvidia/mps.h"
#include "text/text.h"

#define CONTROL "nvidia-cuda-mps-control"
#define SERVER	"nvidia-cuda-mps-server"

/* An answer takes milliseconds; a machine that is busy may take its time. */
#define ANSWER_S 10
#define START_S	 20
#define OTHER_S	 2
/* A daemon that is just starting a server refuses questions; this long it is asked again. */
#define BUSY_S	 3

static int mps_daemon_join_path(char ret[static PATH_MAX], const char *dir, const char *name)
{
	int n = snprintf(ret, PATH_MAX, "%s/%s", dir, name);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

int mps_daemon_at(const char *runtime, struct mps_daemon *ret)
{
	if (mps_daemon_join_path(ret->root, runtime, ".mps") < 0 ||
	    mps_daemon_join_path(ret->pipe, ret->root, "pipe") < 0 ||
	    mps_daemon_join_path(ret->log, ret->root, "log") < 0 ||
	    strlen(ret->pipe) > MPS_PIPE_MAX)
		return -ENAMETOOLONG;
	return 0;
}

static int mps_daemon_find_control(char ret[static PATH_MAX])
{
	static const char *const places[] = {CONTROL, "/usr/bin/" CONTROL,
					     "/usr/local/bin/" CONTROL};
	const char *chosen = getenv("ALLOT_MPS_CONTROL");
	int r = -ENOENT;

	if (chosen && *chosen)
		return program_find(chosen, ret);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && r < 0; i++)
		r = program_find(places[i], ret);
	return r;
}

int mps_daemon_find(struct mps_daemon *daemon)
{
	char path[PATH_MAX], server[PATH_MAX];
	int r = mps_daemon_find_control(path);

	if (r < 0)
		return r;
	/* By its full name, but through links: the server is beside the name that is known. */
	if (path[0] == '/')
		memcpy(daemon->control, path, sizeof(path));
	else if (!realpath(path, daemon->control))
		return err_errno();
	memcpy(path, daemon->control, sizeof(path));
	*strrchr(path, '/') = 0;
	r = mps_daemon_join_path(server, path, SERVER);
	if (r < 0)
		return r;
	return access(server, X_OK) && program_find(SERVER, server) < 0 ? -ENOPKG : 0;
}

/* A nameless file for a child's input or output: unlike a pipe it never makes anybody wait. */
static int mps_daemon_make_scratch(const char *content)
{
	CLEANUP_CLOSE int low = memfd_create("allot", MFD_CLOEXEC);
	CLEANUP_CLOSE int fd = -EBADF;
	int r;

	if (low < 0)
		return err_errno();
	fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fd < 0)
		return err_errno();
	r = fd_pwrite_all(fd, content, strlen(content), 0);
	return r < 0 ? r : TAKE_FD(fd);
}

static void mps_daemon_close_others(void)
{
	/* Older kernels: our own descriptors close themselves, inherited ones have low numbers. */
	if (close_range(STDERR_FILENO + 1, ~0u, 0) < 0)
		for (int fd = STDERR_FILENO + 1; fd < 4096; fd++)
			close(fd);
}

/*
 * The daemon serves all tenants: of our caller's environment it gets the paths of programs and
 * libraries, and nothing that chooses devices, preloads or limits.
 */
static _Noreturn void mps_daemon_become_control(const struct mps_daemon *daemon, char *option,
						int in, int out)
{
	static char name[] = CONTROL;
	char *path = NULL, *libraries = NULL, *pipe = NULL, *log = NULL;
	const char *old = getenv("PATH"), *library_path = getenv("LD_LIBRARY_PATH");

	if (asprintf(&path, "PATH=%.*s:%s", (int)(strrchr(daemon->control, '/') - daemon->control),
		     daemon->control, old && *old ? old : "/usr/bin:/bin") < 0 ||
	    asprintf(&libraries, "LD_LIBRARY_PATH=%s", library_path ? library_path : "") < 0 ||
	    asprintf(&pipe, MPS_PIPE "=%s", daemon->pipe) < 0 ||
	    asprintf(&log, MPS_LOG "=%s", daemon->log) < 0)
		_exit(127);
	char *argv[] = {name, option, NULL};
	char *envp[] = {path, pipe, log, library_path ? libraries : NULL, NULL};

	setsid();
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(out, STDERR_FILENO) < 0 || chdir("/") < 0)
		_exit(127);
	mps_daemon_close_others();
	/* In a tenant the library would put that tenant back into its environment. */
	syscall(SYS_execve, daemon->control, argv, envp);
	_exit(127);
}

static double mps_daemon_now_s(void)
{
	return (double)now_monotonic_ns() / (double)NS_PER_S;
}

/* 0, -ETIMEDOUT (it is killed) or -EPROTO for an end that is not 0. */
static int mps_daemon_wait_limited(pid_t child, double limit_s)
{
	double end = mps_daemon_now_s() + limit_s;
	unsigned int us = 200;
	int status;

	while (!waitpid(child, &status, WNOHANG)) {
		if (mps_daemon_now_s() > end) {
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
			return -ETIMEDOUT;
		}
		shared_file_nap(&us, 20000);
	}
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EPROTO;
}

static void mps_daemon_note_said(struct mps_daemon *daemon, int out)
{
	ssize_t n = pread(out, daemon->said, sizeof(daemon->said) - 1, 0);

	daemon->said[n > 0 ? n : 0] = 0;
	n = (ssize_t)strlen(daemon->said);
	while (n && strchr(" \t\n", daemon->said[n - 1]))
		daemon->said[--n] = 0;
	for (char *p = daemon->said; (p = strchr(p, '\n')); p++)
		*p = ' ';
	text_make_printable(daemon->said);
}

/* Runs the control program, `input` on its standard input; errors of wait_limited, or -errno. */
static int mps_daemon_run_control(struct mps_daemon *daemon, char *option, const char *input)
{
	CLEANUP_CLOSE int in = mps_daemon_make_scratch(input);
	CLEANUP_CLOSE int out = mps_daemon_make_scratch("");
	void (*chld)(int);
	pid_t child;
	int r;

	if (in < 0 || out < 0)
		return in < 0 ? in : out;
	/* An inherited SIG_IGN would reap the child behind our back. */
	chld = signal(SIGCHLD, SIG_DFL);
	child = fork();
	if (!child)
		mps_daemon_become_control(daemon, option, in, out);
	r = child < 0 ? err_errno() : mps_daemon_wait_limited(child, ANSWER_S);
	signal(SIGCHLD, chld);
	mps_daemon_note_said(daemon, out);
	return r;
}

static int mps_daemon_tell(struct mps_daemon *daemon, const char *words)
{
	double end = mps_daemon_now_s() + BUSY_S;
	unsigned int us = 10000;
	int r;

	while ((r = mps_daemon_run_control(daemon, NULL, words)) == -EPROTO &&
	       mps_daemon_now_s() < end)
		shared_file_nap(&us, 200000);
	return r;
}

int mps_daemon_ask(struct mps_daemon *daemon)
{
	if (mps_probe(daemon->pipe))
		return -ENOENT;
	return mps_daemon_tell(daemon, "get_server_list\n") ? -ETIMEDOUT : 0;
}

static bool mps_daemon_server_failed(struct mps_daemon *daemon, long server)
{
	char word[64];

	snprintf(word, sizeof(word), "get_server_status %ld\n", server);
	return !mps_daemon_tell(daemon, word) && !strcmp(daemon->said, "FAULT");
}

/* A daemon has one server for each user that has clients, which are few. */
static long mps_daemon_look_for_failed(struct mps_daemon *daemon)
{
	char list[sizeof(daemon->said)], *p = list, *end;

	if (mps_daemon_tell(daemon, "get_server_list\n"))
		return 0;
	memcpy(list, daemon->said, sizeof(list));
	for (long server; (server = strtol(p, &end, 10)) > 0; p = end)
		if (mps_daemon_server_failed(daemon, server))
			return server;
	return 0;
}

long mps_daemon_failed_server(struct mps_daemon *daemon, double limit_s)
{
	double until = mps_daemon_now_s() + limit_s;
	unsigned int us = 50000;
	long server;

	while ((server = mps_daemon_look_for_failed(daemon)) && mps_daemon_now_s() < until)
		shared_file_nap(&us, 400000);
	return server;
}

/* The lock under which a command starts or ends the daemon. A descriptor or -errno. */
static int mps_daemon_lock(const struct mps_daemon *daemon, int how)
{
	CLEANUP_CLOSE int dir = shared_file_open_dir(daemon->root);
	CLEANUP_CLOSE int fd = -EBADF;

	if (dir < 0)
		return dir;
	fd = fd_openat(dir, "lock", O_RDWR | O_CREAT, 0600);
	if (fd < 0)
		return fd;
	return flock(fd, how) < 0 ? err_errno() : TAKE_FD(fd);
}

static int mps_daemon_make_dir(const char *path)
{
	CLEANUP_CLOSE int fd = -EBADF;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_errno();
	fd = shared_file_open_dir(path);
	return fd < 0 ? fd : 0;
}

/*
 * The daemon reports its start before its socket is open. A daemon that does not start may be
 * blocked by another one whose starter was killed meanwhile: that one will do.
 */
static int mps_daemon_launch(struct mps_daemon *daemon)
{
	static char option[] = "-d";
	int r = mps_daemon_run_control(daemon, option, "");
	double end = mps_daemon_now_s() + (r ? OTHER_S : START_S);
	unsigned int us = 1000;

	while (mps_probe(daemon->pipe)) {
		if (mps_daemon_now_s() > end)
			return r ? r : -EPROTO;
		shared_file_nap(&us, 50000);
	}
	return mps_daemon_ask(daemon);
}

int mps_daemon_start(struct mps_daemon *daemon)
{
	CLEANUP_CLOSE int held = -EBADF;
	int r = mps_daemon_make_dir(daemon->root);

	if (!r)
		r = mps_daemon_make_dir(daemon->pipe);
	if (!r)
		r = mps_daemon_make_dir(daemon->log);
	if (r < 0)
		return r;
	held = mps_daemon_lock(daemon, LOCK_EX);
	if (held < 0)
		return held;
	r = mps_daemon_ask(daemon);
	return r == -ENOENT ? mps_daemon_launch(daemon) : r;
}

int mps_daemon_end(struct mps_daemon *daemon, bool (*needed)(const void *arg), const void *arg)
{
	CLEANUP_CLOSE int held = -EBADF;
	int r;

	if (mps_probe(daemon->pipe))
		return 0;
	held = mps_daemon_lock(daemon, LOCK_EX | LOCK_NB);
	if (held < 0)
		return held == -EWOULDBLOCK ? 0 : held;
	if (needed(arg))
		return 0;
	r = mps_daemon_find(daemon);
	if (!r)
		r = mps_daemon_run_control(daemon, NULL, "quit\n");
	/* It may answer only when its last client is gone, but takes no new ones from now on. */
	return r && r != -ETIMEDOUT ? r : 1;
}
