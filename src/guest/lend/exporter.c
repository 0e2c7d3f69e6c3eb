/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/lend/exporter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/now.h"
#include "base/pages.h"
#include "guest/lend/state.h"
#include "guest/process/thread.h"
#include "ledger/slot.h"

/* Importers that wait together; others wait to be accepted. */
#define PEERS 64
/* Of memory: a vendor's each. */
#define KINDS 2
/* How long a new connection has to send its request. */
#define ASK_NS (2 * NS_PER_S)

struct peer {
	int fd; /* -1: none */
	bool asked;
	uint64_t since_ns;
	struct share_request request;
};

struct exporter {
	struct guest *guest;
	uint64_t process;
	int listener, bell;
	_Atomic uint32_t failed; /* the request that it could not follow, last */
	struct lent {
		_Atomic(const struct exporter_kind *) kind; /* NULL: the place is free */
		_Atomic bool away;     /* all content is in host memory, and may be nowhere else */
		_Atomic uint32_t back; /* the request by which it has its memory, last */
	} lent[KINDS];
	struct peer peer[PEERS];
};

/* --- The thread ----------------------------------------------------------------------------- */

static void exporter_drop(struct peer *peer)
{
	close(peer->fd);
	peer->fd = -1;
}

static void exporter_reply(struct peer *peer, int error, int fd)
{
	struct share_reply reply = {.error = error};
	char room[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&reply, sizeof(reply)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (!error && fd >= 0) {
		msg.msg_control = room;
		msg.msg_controllen = sizeof(room);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	sendmsg(peer->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	exporter_drop(peer);
}

static struct lent *exporter_lent_of(struct exporter *exporter, uint64_t magic)
{
	for (int i = 0; i < KINDS; i++) {
		const struct exporter_kind *kind = atomic_load(&exporter->lent[i].kind);

		if (kind && kind->magic == magic)
			return &exporter->lent[i];
	}
	return NULL;
}

static bool exporter_has(struct exporter *exporter, const struct share_name *name)
{
	struct lent *lent = exporter_lent_of(exporter, name->magic);

	return lent && name->process == exporter->process &&
	       atomic_load(&lent->kind)->knows(exporter->guest, name);
}

/*
 * True if the memory can be lent. An importer that moves by a request waits until this process
 * followed it, too: before that, memory on the device may still be evicted.
 */
static bool exporter_is_there(const struct lent *lent, uint32_t request)
{
	return !atomic_load(&lent->away) && (!request || atomic_load(&lent->back) == request);
}

/* If the memory is evicted after all, the importer waits on. */
static void exporter_lend(struct exporter *exporter, const struct exporter_kind *kind,
			  struct peer *peer)
{
	const struct share_name *name = &peer->request.name;
	int fd = -EBADF, r = kind->descriptor(exporter->guest, name, &fd);

	if (r == -EAGAIN)
		return;
	if (r) {
		exporter_reply(peer, -ENOENT, -1);
		return;
	}
	/* Had it been freed meanwhile, what it was known by could be another's by now. */
	exporter_reply(peer, exporter_has(exporter, name) ? 0 : -ENOENT, fd);
	close(fd);
	FAULT_POINT(GUEST_SHARE_SERVED);
}

/* Waits on, where there is no answer yet. */
static void exporter_serve(struct exporter *exporter, struct peer *peer)
{
	const struct share_name *name = &peer->request.name;
	struct lent *lent = exporter_lent_of(exporter, name->magic);

	if (!lent || !exporter_has(exporter, name)) {
		exporter_reply(peer, -ENOENT, -1);
	} else if (peer->request.swap && atomic_load(&exporter->failed) == peer->request.swap) {
		exporter_reply(peer, -ECANCELED, -1);
	} else if (peer->request.want == SHARE_COPIED) {
		if (atomic_load(&lent->away))
			exporter_reply(peer, 0, -1);
	} else if (exporter_is_there(lent, peer->request.swap)) {
		exporter_lend(exporter, atomic_load(&lent->kind), peer);
	}
}

/* It says what it wants once, and then waits, or is gone. */
static void exporter_hear(struct peer *peer)
{
	ssize_t n = recv(peer->fd, &peer->request, sizeof(peer->request), MSG_DONTWAIT);

	if (peer->asked || n != (ssize_t)sizeof(peer->request))
		exporter_drop(peer);
	else
		peer->asked = true;
}

static void exporter_accept(struct exporter *exporter, struct peer *peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int fd = accept4(exporter->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) ||
	    (cred.uid != geteuid() && cred.uid != 0)) {
		close(fd);
		return;
	}
	*peer = (struct peer){.fd = fd, .since_ns = now_monotonic_ns()};
}

/* Drops a connection that sent nothing in time. */
static bool exporter_expire(struct exporter *exporter)
{
	uint64_t now = now_monotonic_ns();
	bool left = false;

	for (int i = 0; i < PEERS; i++) {
		struct peer *peer = &exporter->peer[i];

		if (peer->fd < 0 || peer->asked)
			continue;
		if (now - peer->since_ns > ASK_NS)
			exporter_drop(peer);
		else
			left = true;
	}
	return left;
}

static struct peer *exporter_room(struct exporter *exporter)
{
	for (int i = 0; i < PEERS; i++)
		if (exporter->peer[i].fd < 0)
			return &exporter->peer[i];
	return NULL;
}

static void exporter_look(struct exporter *exporter)
{
	struct pollfd poll_fd[PEERS + 2] = {
		{.fd = exporter->bell, .events = POLLIN},
		{.fd = exporter_room(exporter) ? exporter->listener : -1, .events = POLLIN},
	};
	bool hurry = exporter_expire(exporter);
	struct peer *room;
	uint64_t rung;

	for (int i = 0; i < PEERS; i++)
		poll_fd[i + 2] = (struct pollfd){.fd = exporter->peer[i].fd, .events = POLLIN};
	if (poll(poll_fd, PEERS + 2, hurry ? (int)(ASK_NS / NS_PER_MS) : -1) <= 0)
		return;
	if (poll_fd[0].revents && read(exporter->bell, &rung, sizeof(rung)) < 0)
		rung = 0;
	for (int i = 0; i < PEERS; i++)
		if (exporter->peer[i].fd >= 0 && poll_fd[i + 2].revents)
			exporter_hear(&exporter->peer[i]);
	for (int i = 0; i < PEERS; i++)
		if (exporter->peer[i].fd >= 0 && exporter->peer[i].asked)
			exporter_serve(exporter, &exporter->peer[i]);
	room = exporter_room(exporter);
	if (poll_fd[1].revents && room)
		exporter_accept(exporter, room);
}

static void *exporter_work(void *arg)
{
	prctl(PR_SET_NAME, "allot-share");
	for (;;)
		exporter_look(arg);
	return NULL;
}

/* --- Its beginning -------------------------------------------------------------------------- */

/* Never 0, 1 or 2: a program that runs with these closed must not read or write ours. */
static int exporter_lift(int fd)
{
	int high = fd < 0 || fd > 2 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (high != fd && fd >= 0)
		close(fd);
	return high;
}

static int exporter_listen(struct exporter *exporter)
{
	struct sockaddr_un address;
	socklen_t len = share_address(exporter->process, &address);

	exporter->listener = exporter_lift(
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	exporter->bell = exporter_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (exporter->listener < 0 || exporter->bell < 0)
		return -EMFILE;
	if (bind(exporter->listener, (struct sockaddr *)&address, len) ||
	    listen(exporter->listener, PEERS))
		return -errno;
	return thread_start(exporter_work, exporter);
}

static void exporter_begin(struct guest *guest)
{
	struct exporter *exporter = pages_map(sizeof(*exporter));
	int r = -ENOMEM;

	if (exporter) {
		exporter->guest = guest;
		exporter->listener = exporter->bell = -1;
		for (int i = 0; i < PEERS; i++)
			exporter->peer[i].fd = -1;
		r = -EIO;
		if (getrandom(&exporter->process, sizeof(exporter->process), 0) ==
		    (ssize_t)sizeof(exporter->process))
			r = exporter_listen(exporter);
		if (!r) {
			atomic_store(&guest->lend->exporter, exporter);
		} else {
			if (exporter->listener >= 0)
				close(exporter->listener);
			if (exporter->bell >= 0)
				close(exporter->bell);
			munmap(exporter, sizeof(*exporter));
		}
	}
	once_end(&guest->lend->exporter_once, r);
}

/* Returns the place of the kind, or a free one; there are at most as many kinds as places. */
static void exporter_add_kind(struct exporter *exporter, const struct exporter_kind *kind)
{
	for (int i = 0; i < KINDS; i++) {
		const struct exporter_kind *there = NULL;

		if (atomic_compare_exchange_strong(&exporter->lent[i].kind, &there, kind) ||
		    there == kind)
			return;
	}
}

bool exporter_offer(struct guest *guest, const struct exporter_kind *kind, struct share_name *ret)
{
	struct exporter *exporter;
	struct slot_info info;

	if (once_begin(&guest->lend->exporter_once))
		exporter_begin(guest);
	exporter = atomic_load(&guest->lend->exporter);
	if (!exporter || slot_info(guest->ledger, slot_index(guest->claimed), &info))
		return false;
	exporter_add_kind(exporter, kind);
	*ret = (struct share_name){.magic = kind->magic,
				   .tenant = exporter_tenant(guest),
				   .process = exporter->process,
				   .slot = (uint32_t)slot_index(guest->claimed),
				   .generation = (uint32_t)info.generation};
	return true;
}

/* --- Names ---------------------------------------------------------------------------------- */

uint64_t exporter_tenant(const struct guest *guest)
{
	struct stat st;

	if (stat(guest->dir, &st))
		return 0;
	return entry_key(&(uint64_t[2]){st.st_dev, st.st_ino}, 16).word[0];
}

bool exporter_is_tenants(const struct guest *guest, const struct share_name *name)
{
	return name->tenant == exporter_tenant(guest) ||
	       (guest->lend->tenant_before && name->tenant == guest->lend->tenant_before);
}

bool exporter_is_own(struct guest *guest, const struct share_name *name)
{
	const struct exporter *exporter = atomic_load(&guest->lend->exporter);

	return exporter && exporter->process == name->process;
}

bool exporter_knows(struct guest *guest, const struct share_name *name)
{
	struct exporter *exporter = atomic_load(&guest->lend->exporter);

	return exporter && exporter_has(exporter, name);
}

/* --- For who moves it ----------------------------------------------------------------------- */

static void exporter_ring(struct exporter *exporter)
{
	uint64_t one = 1;

	/* A bell that rings already need not ring more. */
	if (write(exporter->bell, &one, sizeof(one)) < 0)
		return;
}

void exporter_is_back(struct guest *guest, uint64_t magic, uint32_t request)
{
	struct exporter *exporter = atomic_load(&guest->lend->exporter);

	for (int i = 0; exporter && i < KINDS; i++) {
		struct lent *lent = &exporter->lent[i];

		if (magic != SHARE_ALL && lent != exporter_lent_of(exporter, magic))
			continue;
		atomic_store(&lent->back, request);
		atomic_store(&lent->away, false);
	}
	if (exporter)
		exporter_ring(exporter);
}

void exporter_has_copied(struct guest *guest, uint64_t magic)
{
	struct exporter *exporter = atomic_load(&guest->lend->exporter);
	struct lent *lent = exporter ? exporter_lent_of(exporter, magic) : NULL;

	if (!lent)
		return;
	atomic_store(&lent->away, true);
	exporter_ring(exporter);
}

void exporter_gives_up(struct guest *guest, uint32_t request)
{
	struct exporter *exporter = atomic_load(&guest->lend->exporter);

	if (!exporter)
		return;
	atomic_store(&exporter->failed, request);
	exporter_ring(exporter);
}
