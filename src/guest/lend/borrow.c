/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/lend/borrow.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/now.h"
#include "base/word.h"
#include "ledger/slot.h"
#include "ledger/swap.h"

/* How often a thread that waits for an exporter checks that the memory is still wanted. */
#define LOOK_MS 50

static bool borrow_is_wanted(const struct borrow_patience *patience, enum share_want want)
{
	const uint32_t *word = swap_request(patience->guest->policy_map);
	enum swap_phase phase = swap_phase_of(patience->request);

	if (patience->until_ns != UINT64_MAX)
		return now_monotonic_ns() < patience->until_ns;
	if (word_acquire(word) != patience->request)
		return false;
	if (phase == SWAP_BACK)
		return swap_is_asked(patience->guest->dir);
	/* In other phases an exporter's memory leaves, and does not come back. */
	return want == SHARE_COPIED || phase == SWAP_RUN;
}

bool borrow_lives(struct guest *guest, const struct share_name *name)
{
	struct slot_info info;

	return name->slot <= INT32_MAX && !slot_info(guest->ledger, (int)name->slot, &info) &&
	       (uint32_t)info.generation == name->generation &&
	       slot_alive(guest->ledger, (int)name->slot);
}

static int borrow_connect(const struct share_name *name)
{
	struct sockaddr_un address;
	socklen_t len = share_address(name->process, &address);
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct ucred cred;
	socklen_t cred_len = sizeof(cred);

	if (fd < 0 || connect(fd, (struct sockaddr *)&address, len) ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len))
		return -ESRCH;
	if (cred.uid != geteuid() && cred.uid != 0)
		return -ESRCH;
	return TAKE_FD(fd);
}

/* One message with at most one descriptor: with just one where `ret_fd` is not NULL. */
static int borrow_receive(int socket_fd, int *ret_fd)
{
	struct share_reply reply;
	char room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&reply, sizeof(reply)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room,
			     .msg_controllen = sizeof(room)};
	ssize_t n = recvmsg(socket_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);
	CLEANUP_CLOSE int fd = -EBADF;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (n != (ssize_t)sizeof(reply) || reply.error || (ret_fd && fd < 0))
		return -ESRCH;
	if (ret_fd)
		*ret_fd = TAKE_FD(fd);
	return 0;
}

int borrow(const struct borrow_patience *patience, const struct share_name *name,
	   enum share_want want, int *ret_fd)
{
	struct share_request request = {.name = *name, .swap = patience->request, .want = want};
	CLEANUP_CLOSE int fd = borrow_connect(name);
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	if (fd < 0)
		return -ESRCH;
	if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) != (ssize_t)sizeof(request))
		return -ESRCH;
	FAULT_POINT(GUEST_SHARE_ASKED);
	while (poll(&poll_fd, 1, LOOK_MS) <= 0) {
		if (!borrow_lives(patience->guest, name))
			return -ESRCH;
		if (!borrow_is_wanted(patience, want))
			return -ECANCELED;
	}
	return borrow_receive(fd, ret_fd);
}
