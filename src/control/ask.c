/* SPDX-License-Identifier: Apache-2.0 */
#include "control/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/userns.h"
#include "ledger/tenant.h"

/* How long to wait for a daemon that works on others' requests, and for memory that is moved. */
#define PATIENCE_S 20
#define MOVE_S	   1200

/* A longer configuration is not looked into: it limits somebody. */
#define CONFIG_BYTES 16384

/* Returns true if the caller is root of a user namespace: of the first one alone all users are known. */
static bool control_is_root_within(void)
{
	return geteuid() == 0 && userns_is_nested();
}

/*
 * Within a user namespace root outside is nobody, as is every user that the namespace does not know: a
 * file of nobody's is root's only where no other user can make one.
 */
static bool control_is_roots(uid_t uid)
{
	return uid == (control_is_root_within() ? USERNS_OVERFLOW_UID : 0);
}

static bool control_is_safe_place(const char *runtime)
{
	char above[PATH_MAX];
	struct stat st;

	return !control_is_root_within() ||
	       (!tenant_runtime_of(runtime, above, sizeof(above)) && !stat(above, &st) &&
		control_is_roots(st.st_uid) && !(st.st_mode & (S_IWGRP | S_IWOTH)));
}

int control_socket_path(const char *runtime, char ret[static PATH_MAX])
{
	int r = tenant_users_dir(runtime, ret, PATH_MAX - sizeof(CONTROL_SOCKET));

	if (r == 0)
		strcat(ret, "/" CONTROL_SOCKET);
	return r;
}

/*
 * Returns true if a text limits nobody, as the example that is installed: comments alone. An empty
 * one, or one with a zero byte, is what a crash left of a file.
 */
static bool control_limits_nobody(const char *text, size_t n)
{
	bool begins = true;

	for (size_t i = 0; i < n; i++) {
		if (!text[i] || (begins && !strchr("# \t\r\n", text[i])))
			return false;
		if (begins && text[i] == '#')
			begins = false;
		else if (text[i] == '\n')
			begins = true;
	}
	return n > 0;
}

/*
 * Returns true unless nothing has the name, or it limits nobody: a link that leads nowhere, a folder
 * that is closed and a file that cannot be read are there.
 */
static bool control_has_config(void)
{
	CLEANUP_CLOSE int fd = open(CONTROL_CONFIG, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char text[CONFIG_BYTES];
	struct stat st;

	if (fd < 0)
		return errno != ENOENT && errno != ENOTDIR;
	return fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !control_is_roots(st.st_uid) ||
	       st.st_size > CONFIG_BYTES || fd_pread_all(fd, text, (size_t)st.st_size, 0) < 0 ||
	       !control_limits_nobody(text, (size_t)st.st_size);
}

int control_find(char ret_runtime[static PATH_MAX])
{
	const char *chosen = getenv("ALLOT_RUNTIME_DIR");
	char path[PATH_MAX];
	struct stat st;
	int r = tenant_runtime_dir_of(0, ret_runtime, PATH_MAX);

	if (r == 0)
		r = control_socket_path(ret_runtime, path);
	if (r < 0)
		return r;
	if (lstat(path, &st) == 0)
		return S_ISSOCK(st.st_mode) && control_is_roots(st.st_uid) &&
				       control_is_safe_place(ret_runtime)
			       ? 1
			       : -EPERM;
	if (errno != ENOENT && errno != ENOTDIR)
		return err_errno();
	return (!chosen || !*chosen) && control_has_config() ? -ENOTCONN : 0;
}

static int control_connect(const char *runtime, time_t patience_s, pid_t *ret_pid)
{
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const struct timeval patience = {.tv_sec = patience_s};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(struct ucred);
	char path[PATH_MAX];
	struct ucred peer;
	int r = control_socket_path(runtime, path);

	*ret_pid = 0;
	if (r < 0)
		return r;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return err_errno();
	*ret_pid = peer.pid;
	return control_is_roots(peer.uid) ? TAKE_FD(fd) : -EPERM;
}

int control_ask(const char *runtime, struct control_request *request, struct control_answer *ret)
{
	bool moves = request->verb == CONTROL_SUSPEND || request->verb == CONTROL_RESUME;
	pid_t pid;

	return control_ask_within(runtime, moves ? MOVE_S : PATIENCE_S, request, ret, &pid);
}

int control_ask_within(const char *runtime, unsigned int patience_s, struct control_request *request,
		       struct control_answer *ret, pid_t *ret_pid)
{
	CLEANUP_CLOSE int fd = control_connect(runtime, (time_t)patience_s, ret_pid);
	ssize_t n;

	if (fd < 0)
		return fd == -EAGAIN || fd == -EINPROGRESS ? -ETIMEDOUT : fd;
	request->magic = CONTROL_MAGIC;
	request->version = CONTROL_VERSION;
	/* A refused client finds an answer, although nobody takes its request. */
	if (send(fd, request, sizeof(*request), MSG_NOSIGNAL) < 0 && errno != EPIPE)
		return errno == EAGAIN ? -ETIMEDOUT : err_errno();
	n = recv(fd, ret, sizeof(*ret), MSG_TRUNC);
	/* The same: that our request was not read is told before the answer. */
	if (n < 0 && errno == ECONNRESET)
		n = recv(fd, ret, sizeof(*ret), MSG_TRUNC);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : err_errno();
	if (n == 0)
		return -ECONNRESET;
	if (n != sizeof(*ret) || ret->magic != CONTROL_MAGIC || ret->version != CONTROL_VERSION)
		return -EPROTO;
	ret->words[sizeof(ret->words) - 1] = '\0';
	return 0;
}
