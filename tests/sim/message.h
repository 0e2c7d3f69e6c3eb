/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the processes of a test, each with a descriptor or without. */
#ifndef ALLOT_TESTS_MESSAGE_H
#define ALLOT_TESTS_MESSAGE_H

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* One message, with the descriptor `fd` unless that is -1. Answers the bytes, or -1. */
static inline ssize_t message_send(int socket, const void *data, size_t len, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return sendmsg(socket, &msg, MSG_NOSIGNAL);
}

/* The next one, and its descriptor (the caller's from then on) or -1. The bytes, 0 or -1. */
static inline ssize_t message_receive(int socket, void *data, size_t len, int *ret_fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {.iov_base = data, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			     .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

	*ret_fd = -1;
	if (c)
		memcpy(ret_fd, CMSG_DATA(c), sizeof(*ret_fd));
	return n;
}

#endif
