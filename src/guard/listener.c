/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/listener.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"

/* Not in older headers. */
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS	   SECCOMP_IOW(4, __u64)
#endif

void listener_tune(int listener)
{
	/* Without it answers take longer, and nothing else. */
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
}

int listener_receive(int listener, struct seccomp_notif *ret)
{
	memset(ret, 0, sizeof(*ret)); /* the kernel insists */
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, ret) < 0 ? err_errno() : 0;
}

bool listener_waits(int listener, const struct seccomp_notif *asked)
{
	__u64 id = asked->id;

	return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

int listener_answer(int listener, const struct seccomp_notif *asked, int error)
{
	struct seccomp_notif_resp answer = {
		.id = asked->id,
		.error = error,
		.flags = error ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE,
	};

	return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) < 0 ? err_errno() : 0;
}

union control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

int listener_hand_over(int socket, int listener)
{
	struct iovec byte = {(char[]){0}, 1};
	union control control = {.bytes = {0}};
	struct msghdr message = {.msg_iov = &byte,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	char heard;

	*head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
				 .cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(head), &listener, sizeof(listener));
	if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1)
		return err_errno();
	return read(socket, &heard, 1) == 1 ? 0 : -ECONNRESET;
}

int listener_take_over(int socket)
{
	char heard;
	struct iovec byte = {&heard, 1};
	union control control = {.bytes = {0}};
	struct msghdr message = {.msg_iov = &byte,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *head;
	int listener;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
		return -ECONNRESET;
	head = CMSG_FIRSTHDR(&message);
	if (!head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int)))
		return -EMFILE; /* there was no room for it */
	memcpy(&listener, CMSG_DATA(head), sizeof(listener));
	if (send(socket, "", 1, MSG_NOSIGNAL) == 1)
		return listener;
	close(listener);
	return -ECONNRESET;
}
