/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that one process exports and another imports: by handle, by address, of a pool. */
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
	struct letter letter = {.kind = LETTER_IPC};

	b->bytes = b->bytes < 2 * MIB ? 2 * MIB : b->bytes;
	if (REFUSED(w, cu.cuMemAlloc_v2(&b->ptr, b->bytes)))
		return false;
	OK(cu.cuIpcGetMemHandle(&letter.ipc, b->ptr));
	storm_post(w, b, &letter, -1);
	return true;
}

static void letters_give_ipc(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuMemFree_v2(b->ptr));
}

/* Memory of a pool of its own: the descriptor names the pool, and the letter the address. */
static bool letters_send_pool(struct worker *w, struct block *b)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				.location = storm_location(b->device)};
	struct letter letter = {.kind = LETTER_POOL};
	CUmemoryPool pool;
	int fd;

	OK(cu.cuMemPoolCreate(&pool, &props));
	if (REFUSED(w, cu.cuMemAllocFromPoolAsync(&b->ptr, b->bytes, pool, w->stream[b->device]))) {
		OK(cu.cuMemPoolDestroy(pool));
		return false;
	}
	OK(cu.cuStreamSynchronize(w->stream[b->device]));
	OK(cu.cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					       0));
	OK(cu.cuMemPoolExportPointer(&letter.pool_ptr, b->ptr));
	b->object = pool;
	storm_post(w, b, &letter, fd);
	return true;
}

/* The memory and its pool, in either order; of an importer as of the exporter. */
static void letters_give_pool(struct worker *w, struct block *b)
{
	bool first = pick(&w->seed, 2);

	if (first)
		OK(cu.cuMemPoolDestroy(b->object));
	storm_free(w, b->device, b->ptr, true);
	if (!first)
		OK(cu.cuMemPoolDestroy(b->object));
}

static void letters_close_ipc(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuIpcCloseMemHandle(b->ptr));
}

static const struct family received_ipc = {"received-ipc", NULL, letters_close_ipc, NULL, NULL};
/* A device refuses to destroy an imported pool of which a pointer is not freed. */
static void letters_give_received_pool(struct worker *w, struct block *b)
{
	storm_free(w, b->device, b->ptr, true);
	OK(cu.cuMemPoolDestroy(b->object));
}

static const struct family received_pool = {"received-pool", NULL, letters_give_received_pool,
					    NULL, NULL};
static const struct family received_external = {"received-external", NULL, storm_give_external,
						NULL, NULL};

static bool letters_open_ipc(struct worker *w, struct block *b, const struct letter *letter)
{
	b->family = &received_ipc;
	return !REFUSED(w, cu.cuIpcOpenMemHandle_v2(&b->ptr, letter->ipc,
						    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

static bool letters_open_pool(struct worker *w, struct block *b, struct letter *letter, int fd)
{
	CUmemoryPool pool;

	b->family = &received_pool;
	if (REFUSED(w, cu.cuMemPoolImportFromShareableHandle(
			       &pool, (void *)(intptr_t)fd,
			       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)))
		return false;
	if (REFUSED(w, cu.cuMemPoolImportPointer(&b->ptr, pool, &letter->pool_ptr))) {
		OK(cu.cuMemPoolDestroy(pool));
		return false;
	}
	b->object = pool;
	return true;
}

static bool letters_open_handle(struct worker *w, struct block *b, int fd)
{
	if (storm_takes(&storm_external) && pick(&w->seed, 3) == 0) {
		b->family = &received_external;
		return storm_import_external(w, b, dup(fd));
	}
	if (REFUSED(w, cu.cuMemImportFromShareableHandle(&b->handle, (void *)(intptr_t)fd,
							 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)))
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

/* The sender has its block until the letter has arrived, so an import fails for want of memory. */
static bool letters_open(struct worker *w, struct block *b, struct letter *letter, int fd)
{
	OK(cu.cuCtxSetCurrent(w->contexts[b->device]));
	switch (letter->kind) {
	case LETTER_IPC: return letters_open_ipc(w, b, letter);
	case LETTER_POOL: return letters_open_pool(w, b, letter, fd);
	default: return letters_open_handle(w, b, fd);
	}
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
const struct family storm_sent_pool = {"sent-pool", letters_send_pool, letters_give_pool, NULL,
				       letters_may_send};
const struct family storm_received = {"received", letters_receive, storm_give_handle, NULL, NULL};
