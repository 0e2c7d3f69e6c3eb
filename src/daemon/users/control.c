/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/users/control.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/now.h"
#include "control/ask.h"
#include "ledger/tenant.h"

/*
 * Open connections, in total and per user. A client sends its request immediately after connecting.
 * With all in use, the user with most of them makes room for another one.
 */
#define CONNECTIONS   256
#define OF_ONE_USER   8
#define PATIENCE_NS   (2 * NS_PER_S)
#define MOVES	      8 /* in all, */
#define MOVES_OF_ONE  2 /* of which the second only while that many of all are under way: */
#define MOVES_FEW     4
#define BACKLOG	      128

struct connection {
	int fd; /* -EBADF: free */
	bool asks; /* its request can be read, as of the last look */
	struct requests_peer peer;
	uint64_t until_ns;
	struct move move; /* the move that is waited for in place of a request */
	struct control_answer *answer; /* to that, one of `moving` below */
};

struct control {
	struct loop_source source; /* an epoll of its own, as connections come and go */
	int listener;
	struct requests requests;
	char path[PATH_MAX];
	struct connection connection[CONNECTIONS];
	struct control_answer moving[MOVES];
};

/*
 * Reads the peer's own group and its supplementary ones. A peer with too many groups is not served:
 * a limit might be missed.
 */
static int control_read_groups(int fd, gid_t gid, struct requests_peer *peer)
{
	socklen_t len = sizeof(peer->groups) - sizeof(*peer->groups);

	peer->groups[0] = gid;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, peer->groups + 1, &len) < 0)
		return err_errno();
	peer->ngroups = 1 + len / sizeof(*peer->groups);
	return 0;
}

static int control_who(int fd, const struct site *site, struct requests_peer *ret)
{
	struct site_member member = {.groups = ret->groups};
	struct ucred peer;
	socklen_t len = sizeof(peer);
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return err_errno();
	*ret = (struct requests_peer){.uid = peer.uid, .pid = peer.pid};
	r = control_read_groups(fd, peer.gid, ret);
	if (r < 0)
		return r;
	member.uid = ret->uid;
	member.ngroups = ret->ngroups;
	ret->manages = site_is_managed_by(site, &member);
	return 0;
}

static void control_drop(struct connection *c)
{
	if (c->fd >= 0)
		close(c->fd); /* and with it its place in the epoll */
	c->fd = -EBADF;
	c->answer = NULL;
}

static void control_drop_late(struct control *control)
{
	uint64_t now_ns = now_monotonic_ns();

	for (int i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &control->connection[i];

		/* A request that waits for its turn is not late. */
		if (c->fd >= 0 && !c->asks && c->until_ns <= now_ns)
			control_drop(c);
	}
}

static void control_send(int fd, const struct control_answer *answer)
{
	/* Best effort: if the client's socket buffer is full, the answer is dropped. */
	if (send(fd, answer, sizeof(*answer), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return;
}

static void control_turn_away(int fd)
{
	struct control_answer answer = {.magic = CONTROL_MAGIC,
					.version = CONTROL_VERSION,
					.error = -EUSERS};

	snprintf(answer.words, sizeof(answer.words),
		 "too many requests of this user, or of all, are open; try again");
	control_send(fd, &answer);
}

static unsigned int control_count(const struct control *control, uid_t uid)
{
	unsigned int n = 0;

	for (int i = 0; i < CONNECTIONS; i++)
		n += control->connection[i].fd >= 0 && control->connection[i].peer.uid == uid;
	return n;
}

/* The newest connection of the user with most of them; NULL if nobody has more than `least`. */
static struct connection *control_find_spare(struct control *control, unsigned int least)
{
	struct connection *spare = NULL;
	unsigned int most = least;

	for (int i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &control->connection[i];
		unsigned int n = c->move.pid ? 0 : control_count(control, c->peer.uid);

		if (n > most || (spare && n == most && c->until_ns > spare->until_ns)) {
			most = n;
			spare = c;
		}
	}
	return spare;
}

static struct connection *control_place(struct control *control, uid_t uid)
{
	unsigned int own = control_count(control, uid);
	struct connection *spare;

	if (own >= OF_ONE_USER)
		return NULL;
	for (int i = 0; i < CONNECTIONS; i++)
		if (control->connection[i].fd < 0)
			return &control->connection[i];
	spare = control_find_spare(control, own + 1);
	if (spare) {
		control_turn_away(spare->fd);
		control_drop(spare);
	}
	return spare;
}

static bool control_may_move(const struct control *control, uid_t uid)
{
	int n = 0, own = 0;

	for (int i = 0; i < CONNECTIONS; i++) {
		const struct connection *c = &control->connection[i];

		n += c->fd >= 0 && c->move.pid;
		own += c->fd >= 0 && c->move.pid && c->peer.uid == uid;
	}
	return own ? n < MOVES_FEW && own < MOVES_OF_ONE : n < MOVES;
}

/* Returns false if nobody else has connected. */
static bool control_accept(struct control *control)
{
	CLEANUP_CLOSE int fd = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct epoll_event event = {.events = EPOLLIN};
	struct requests_peer peer;
	struct connection *c;

	if (fd < 0 || control_who(fd, control->requests.site, &peer) < 0)
		return fd >= 0;
	c = control_place(control, peer.uid);
	event.data.ptr = c;
	if (!c || epoll_ctl(control->source.fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		control_turn_away(fd);
		return true;
	}
	*c = (struct connection){.fd = TAKE_FD(fd),
				 .peer = peer,
				 .move = {.out = -EBADF},
				 .until_ns = now_monotonic_ns() + PATIENCE_NS};
	return true;
}

/* A place for the answer of another move, which control_may_move allows only if there is one. */
static struct control_answer *control_find_answer(struct control *control)
{
	bool used[MOVES] = {false};
	int place = 0;

	for (int i = 0; i < CONNECTIONS; i++) {
		const struct connection *c = &control->connection[i];

		if (c->fd >= 0 && c->answer)
			used[c->answer - control->moving] = true;
	}
	while (place < MOVES - 1 && used[place])
		place++;
	return &control->moving[place];
}

/* From now on it is the command's words that are waited for, however long that takes. */
static void control_await(struct control *control, struct connection *c)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

	epoll_ctl(control->source.fd, EPOLL_CTL_DEL, c->fd, NULL);
	c->until_ns = UINT64_MAX;
	epoll_ctl(control->source.fd, EPOLL_CTL_ADD, c->move.out, &event);
}

static void control_serve(struct control *control, struct connection *c)
{
	struct control_request request;
	struct control_answer answer;
	ssize_t n = recv(c->fd, &request, sizeof(request), MSG_DONTWAIT | MSG_TRUNC);
	bool moves = n == sizeof(request) &&
		     (request.verb == CONTROL_SUSPEND || request.verb == CONTROL_RESUME);

	/* A message of another size is not our protocol, and gets no answer. */
	if (moves && !control_may_move(control, c->peer.uid)) {
		control_turn_away(c->fd);
	} else if (n == sizeof(request)) {
		if (requests_do(&control->requests, &c->peer, &request, &answer, &c->move)) {
			c->answer = control_find_answer(control);
			*c->answer = answer;
			control_await(control, c);
			return;
		}
		control_send(c->fd, &answer);
	}
	control_drop(c);
}

static void control_go_on(struct control *control, struct connection *c)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
	int out = c->move.out;

	if (moves_read(&c->move, c->answer)) {
		if (c->move.out != out)
			epoll_ctl(control->source.fd, EPOLL_CTL_ADD, c->move.out, &event);
		return;
	}
	control_send(c->fd, c->answer);
	control_drop(c);
}

/* Returns true if no connection before it has a request of the same user. */
static bool control_is_first(const struct control *control, const struct connection *c)
{
	for (const struct connection *other = control->connection; other < c; other++)
		if (other->fd >= 0 && other->asks && other->peer.uid == c->peer.uid)
			return false;
	return true;
}

/*
 * Serves one request of each user, so that a user waits for at most one of every other user's,
 * however many those send. The epoll reports the remaining ones again.
 */
static void control_serve_users(struct control *control)
{
	bool first[CONNECTIONS];

	for (int i = 0; i < CONNECTIONS; i++) {
		const struct connection *c = &control->connection[i];

		first[i] = c->fd >= 0 && c->asks && control_is_first(control, c);
	}
	for (int i = 0; i < CONNECTIONS; i++)
		if (first[i])
			control_serve(control, &control->connection[i]);
}

static void control_ready(struct loop_source *source)
{
	struct control *control = (struct control *)source;
	struct epoll_event event[CONNECTIONS];
	bool accepts = false;
	int n = epoll_wait(source->fd, event, CONNECTIONS, 0);

	for (int i = 0; i < CONNECTIONS; i++)
		control->connection[i].asks = false;
	for (int i = 0; i < n; i++) {
		struct connection *c = event[i].data.ptr;

		if (!c)
			accepts = true;
		else if (c->fd >= 0 && c->move.pid)
			control_go_on(control, c);
		else
			c->asks = c->fd >= 0;
	}
	control_serve_users(control);
	control_drop_late(control);
	for (int i = 0; accepts && i < BACKLOG; i++)
		accepts = control_accept(control);
}

static int control_timeout_ms(struct loop_source *source)
{
	const struct control *control = (const struct control *)source;
	uint64_t now_ns = now_monotonic_ns(), until_ns = UINT64_MAX;

	for (int i = 0; i < CONNECTIONS; i++)
		if (control->connection[i].fd >= 0 && control->connection[i].until_ns < until_ns)
			until_ns = control->connection[i].until_ns;
	if (until_ns == UINT64_MAX)
		return -1;
	return until_ns <= now_ns ? 0 : (int)((until_ns - now_ns) / NS_PER_MS) + 1;
}

/*
 * Replaces a socket that a daemon left, in one step: users who find no socket would make tenants of
 * their own, without the site's limits.
 */
static int control_listen(struct control *control)
{
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *fresh = address.sun_path;

	if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s.new", control->path) >=
	    sizeof(address.sun_path))
		return -ENAMETOOLONG;
	unlink(fresh); /* of one that was killed here */
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    chmod(fresh, 0666) < 0 || listen(fd, BACKLOG) < 0 || rename(fresh, control->path) < 0)
		return err_errno();
	control->listener = TAKE_FD(fd);
	return 0;
}

static int control_begin(struct control *control, struct loop *loop)
{
	const char *runtime = control->requests.runtime;
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	int r = tenant_make_users(runtime);

	if (r == 0)
		r = control_socket_path(runtime, control->path);
	if (r == 0)
		r = control_listen(control);
	if (r < 0)
		return r;
	control->source.fd = epoll_create1(EPOLL_CLOEXEC);
	if (control->source.fd < 0 ||
	    epoll_ctl(control->source.fd, EPOLL_CTL_ADD, control->listener, &event) < 0)
		return err_errno();
	return loop_add(loop, &control->source);
}

int control_open(struct loop *loop, const struct requests *requests, struct control **ret)
{
	struct control *control = calloc(1, sizeof(*control));
	int r;

	if (!control)
		return -ENOMEM;
	control->requests = *requests;
	control->source = (struct loop_source){
		.fd = -EBADF, .ready = control_ready, .timeout_ms = control_timeout_ms};
	control->listener = -EBADF;
	for (int i = 0; i < CONNECTIONS; i++)
		control->connection[i].fd = -EBADF;
	r = control_begin(control, loop);
	if (r < 0)
		control_close(control);
	else
		*ret = control;
	return r;
}

void control_close(struct control *control)
{
	if (!control)
		return;
	for (int i = 0; i < CONNECTIONS; i++)
		control_drop(&control->connection[i]);
	if (control->listener >= 0) {
		if (!site_bounds(control->requests.site))
			unlink(control->path);
		close(control->listener);
	}
	if (control->source.fd >= 0)
		close(control->source.fd);
	free(control);
}
