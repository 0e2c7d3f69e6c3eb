/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/users/moves.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "node/library.h"

static int moves_spawn(const char *path, const char *const argv[], int out, pid_t *ret)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, defaults;
	int r;

	/* We wait for signals by a descriptor, and ignore that a reader is gone: not so the command. */
	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attributes);
	r = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&files, out, STDERR_FILENO);
	if (!r)
		r = posix_spawnattr_setflags(&attributes,
					     POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (!r)
		r = posix_spawnattr_setsigmask(&attributes, &none);
	if (!r)
		r = posix_spawnattr_setsigdefault(&attributes, &defaults);
	if (!r)
		r = posix_spawn(ret, path, &files, &attributes, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return -r;
}

int moves_start(const struct control_request *request, struct move *ret)
{
	bool away = request->verb == CONTROL_SUSPEND;
	char path[PATH_MAX], timeout[32], host[32], notice[32], name[POLICY_NAME_BYTES];
	const char *argv[11] = {"allot", away ? "suspend" : "resume", name};
	CLEANUP_CLOSE int reader = -EBADF;
	CLEANUP_CLOSE int writer = -EBADF;
	int n = 3, ends[2], r;

	if ((away && !request->timeout_us) || request->timeout_us > CONTROL_TIMEOUT_MAX_US ||
	    (away && request->notice_ms > CONTROL_NOTICE_MAX_US / 1000))
		return -EINVAL;
	r = library_command(path);
	if (r < 0)
		return r;
	memcpy(name, request->name, sizeof(name));
	snprintf(timeout, sizeof(timeout), "%" PRIu64 "us", request->timeout_us);
	snprintf(host, sizeof(host), "%" PRIu64, request->host_bytes);
	snprintf(notice, sizeof(notice), "%" PRIu32 "ms", request->notice_ms);
	if (request->timeout_us) {
		argv[n++] = "--timeout";
		argv[n++] = timeout;
	}
	if (away && request->host_bytes) {
		argv[n++] = "--host-memory";
		argv[n++] = host;
	}
	if (away && request->notice_ms) {
		argv[n++] = "--notice";
		argv[n++] = notice;
	}
	if (away && request->said & CONTROL_SAID_CONTEXTS)
		argv[n++] = "--contexts";
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_errno();
	reader = ends[0];
	writer = ends[1];
	r = moves_spawn(path, argv, writer, &ret->pid);
	if (r < 0)
		return r;
	ret->out = TAKE_FD(reader);
	return 0;
}

/*
 * A process closes its files one by one: after its last output it may still close a driver's, which
 * can take any time.
 */
static int moves_await_end(struct move *move)
{
	int end = (int)syscall(SYS_pidfd_open, move->pid, 0);

	if (end < 0)
		return err_errno();
	close(move->out);
	move->out = end;
	move->silent = true;
	return 1;
}

static int moves_error(int status)
{
	if (!WIFEXITED(status))
		return -ECANCELED;
	switch (WEXITSTATUS(status)) {
	case 0:
		return 0;
	case CONTROL_EXIT_NO_ROOM:
		return -ENOSPC;
	case CONTROL_EXIT_LATE:
		return -ETIMEDOUT;
	}
	return -ECANCELED;
}

int moves_read(struct move *move, struct control_answer *answer)
{
	size_t len = strlen(answer->words);
	char rest[256];
	bool full = len + 1 >= sizeof(answer->words);
	ssize_t n = 0;
	int status = 0;

	if (!move->silent)
		n = full ? read(move->out, rest, sizeof(rest))
			 : read(move->out, answer->words + len, sizeof(answer->words) - 1 - len);
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return 1;
	if (waitpid(move->pid, &status, WNOHANG) == 0) {
		if (move->silent || moves_await_end(move) == 1)
			return 1;
		waitpid(move->pid, &status, 0);
	}
	close(move->out);
	*move = (struct move){.out = -EBADF};
	answer->error = moves_error(status);
	return 0;
}
