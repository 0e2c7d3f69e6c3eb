/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that one process exports and another imports. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "storm_work.h"

static bool letters_send(int to, const struct letter *letter, int fd)
{
	char room[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {(void *)(uintptr_t)letter, sizeof(*letter)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (fd >= 0) {
		msg.msg_control = room;
		msg.msg_controllen = sizeof(room);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return sendmsg(storm->mailbox[to][1], &msg, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

void storm_post(struct worker *w, struct block *b, struct letter *letter, int fd)
{
	unsigned int n = (unsigned int)storm->options.processes;
	int to = (int)(((unsigned int)w->process + 1 + pick(&w->seed, n - 1)) % n);

	b->ticket = letter->ticket = 1 + atomic_fetch_add(&storm->next_ticket, 1) % (TICKETS - 1);
	letter->device = b->device;
	letter->bytes = b->bytes;
	atomic_store(&storm->arrived[b->ticket], false);
	if (!storm_reads_letters(to) || !letters_send(to, letter, fd))
		storm_arrived(letter);
	if (fd >= 0)
		close(fd);
}

bool storm_fetch(const struct worker *w, struct letter *letter, int *ret_fd)
{
	char room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {letter, sizeof(*letter)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room,
			     .msg_controllen = sizeof(room)};
	struct cmsghdr *c;

	*ret_fd = -1;
	if (recvmsg(storm->mailbox[w->process][0], &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
		return false;
	c = CMSG_FIRSTHDR(&msg);
	if (c)
		memcpy(ret_fd, CMSG_DATA(c), sizeof(*ret_fd));
	return true;
}

void storm_arrived(const struct letter *letter)
{
	atomic_store(&storm->arrived[letter->ticket], true);
}

static bool letters_may_send(const struct worker *w)
{
	return w->sends;
}

/* Memory on its way is nobody's, so its sender keeps it until it has arrived. */
static bool letters_send_handle(struct worker *w, struct block *b)
{
	struct letter letter = {0};
	int fd;

	if (!storm_take_handle(w, b))
		return false;
	OK(cu.cuMemExportToShareableHandle(&fd, b->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   0));
	storm_post(w, b, &letter, fd);
	return true;
}

static bool letters_send_ipc(struct worker *w, struct block *b)
{
	struct letter letter = {.ipc = true};

	b->bytes = b->bytes < 2 * MIB ? 2 * MIB : b->bytes;
	if (REFUSED(w, cu.cuMemAlloc_v2(&b->ptr, b->bytes)))
		return false;
	OK(cu.cuIpcGetMemHandle(&letter.handle, b->ptr));
	storm_post(w, b, &letter, -1);
	return true;
}

static void letters_give_ipc(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuMemFree_v2(b->ptr));
}

static void letters_close_ipc(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuIpcCloseMemHandle(b->ptr));
}

static const struct family received_ipc = {"received-ipc", NULL, letters_close_ipc, NULL, NULL};

/* An import may be refused in any way: its sender may have ended. */
static bool letters_open(struct worker *w, struct block *b, const struct letter *letter, int fd)
{
	OK(cu.cuCtxSetCurrent(w->contexts[b->device]));
	if (letter->ipc) {
		b->family = &received_ipc;
		return !cu.cuIpcOpenMemHandle_v2(&b->ptr, letter->handle,
						 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	}
	if (cu.cuMemImportFromShareableHandle(&b->handle, (void *)(intptr_t)fd,
					      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return false;
	if (pick(&w->seed, 2)) {
		storm_map_handle(w, b);
		if (pick(&w->seed, 2)) {
			OK(cu.cuMemRelease(b->handle));
			b->handle = 0;
		}
	}
	return true;
}

static bool letters_receive(struct worker *w, struct block *b)
{
	struct letter letter;
	bool opened;
	int fd;

	if (!storm_fetch(w, &letter, &fd))
		return false;
	b->device = letter.device;
	b->bytes = letter.bytes;
	opened = letters_open(w, b, &letter, fd);
	if (fd >= 0)
		close(fd);
	storm_arrived(&letter);
	return opened;
}

const struct family storm_sent = {"sent", letters_send_handle, storm_give_handle, NULL,
				  letters_may_send};
const struct family storm_sent_ipc = {"sent-ipc", letters_send_ipc, letters_give_ipc, NULL,
				      letters_may_send};
const struct family storm_received = {"received", letters_receive, storm_give_handle, NULL, NULL};
