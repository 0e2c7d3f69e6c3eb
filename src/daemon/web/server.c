/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/server.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/now.h"
#include "base/number.h"

/*
 * A client that opens this many connections and sends nothing delays others for PATIENCE_S at most.
 */
#define CONNECTIONS 256
#define PATIENCE_S  5
#define REQUEST_BYTES 4096 /* of a connection, for its request */
/*
 * The same for a client that sends a byte now and then: the longest time from one answer, or from
 * the beginning, to the next complete request.
 */
#define ASK_NS (10 * NS_PER_S)
/*
 * An answer is taken whole, as long as some of it is taken within the first of these times, and, where
 * others need the room, within the second one in all.
 */
#define STALL_S	  30
#define ANSWER_NS (10 * NS_PER_S)

struct visit {
	uint64_t due_ns;   /* 0: there is none */
	uint64_t began_ns; /* its answer, which it takes; 0: it does not */
	int fd;		   /* the library's, which closes it */
};

struct server {
	struct loop_source source; /* the library's own epoll */
	struct loop *loop;
	struct MHD_Daemon *daemon;
	struct visit visit[CONNECTIONS];
	struct listen_address address;
	struct server_user user;
};

/* Names of tenants are in the answers: a browser takes nothing in them for a page, and keeps none. */
#define POLICY_NOTHING "default-src 'none'; frame-ancestors 'none'"

static bool server_add_headers(struct MHD_Response *response, const char *type, const char *policy)
{
	const char *const headers[][2] = {
		{MHD_HTTP_HEADER_CONTENT_TYPE, type},
		{"Content-Security-Policy", policy ? policy : POLICY_NOTHING},
		{"X-Content-Type-Options", "nosniff"},
		{"Referrer-Policy", "no-referrer"},
		{"Cache-Control", "no-store"},
	};

	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		if (!MHD_add_response_header(response, headers[i][0], headers[i][1]))
			return false;
	return true;
}

enum MHD_Result server_send(struct MHD_Connection *connection, unsigned int status,
			    const char *type, const char *policy, struct MHD_Response *response)
{
	enum MHD_Result result = MHD_NO;

	if (response && server_add_headers(response, type, policy))
		result = MHD_queue_response(connection, status, response);
	if (response)
		MHD_destroy_response(response);
	return result;
}

struct visit *server_visit(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

bool server_is_meant(const struct server *server, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct sockaddr_storage local;
	socklen_t bytes = sizeof(local);

	return info && !getsockname(info->connect_fd, (struct sockaddr *)&local, &bytes) &&
	       listen_answers(&server->address, (struct sockaddr *)&local,
			      MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							  MHD_HTTP_HEADER_HOST));
}

/* --- How long ------------------------------------------------------------------------------- */

void server_goes_on(struct visit *visit)
{
	visit->due_ns = now_monotonic_ns() + STALL_S * NS_PER_S;
}

void server_begin_answer(struct MHD_Connection *connection, struct visit *visit)
{
	visit->began_ns = now_monotonic_ns();
	server_goes_on(visit);
	/* While an answer is sent, due_ns limits the client's silence. */
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
				  (unsigned int)(2 * STALL_S));
}

void server_begin_wait(struct MHD_Connection *connection, struct visit *visit)
{
	visit->due_ns = UINT64_MAX;
	MHD_suspend_connection(connection);
}

/* The library finds the connection at its end, and closes it. */
static void server_end_visit(struct visit *visit, uint64_t now_ns)
{
	shutdown(visit->fd, SHUT_RDWR);
	visit->due_ns = now_ns + ASK_NS; /* it is closed long before */
	visit->began_ns = 0;
}

static uint64_t server_due_of(const struct visit *visit, bool needed)
{
	if (!visit->due_ns)
		return UINT64_MAX;
	return needed && visit->began_ns ? min_u64(visit->due_ns, visit->began_ns + ANSWER_NS)
					 : visit->due_ns;
}

/* `needed`: others wait for the room. */
static void server_end_late(struct server *server, bool needed)
{
	uint64_t now_ns = now_monotonic_ns();

	for (int i = 0; i < CONNECTIONS; i++)
		if (server_due_of(&server->visit[i], needed) <= now_ns)
			server_end_visit(&server->visit[i], now_ns);
}

void server_make_room(struct server *server)
{
	server_end_late(server, true);
}

/* --- Connections ------------------------------------------------------------------------------ */

static void server_begin_visit(struct server *server, struct MHD_Connection *connection,
			       void **ret_visit)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	for (int i = 0; info && i < CONNECTIONS; i++) {
		struct visit *visit = &server->visit[i];

		if (visit->due_ns)
			continue;
		visit->due_ns = now_monotonic_ns() + ASK_NS;
		visit->fd = info->connect_fd;
		visit->began_ns = 0;
		*ret_visit = visit;
		return;
	}
}

static void server_note_connection(void *arg, struct MHD_Connection *connection,
				   void **of_connection, enum MHD_ConnectionNotificationCode what)
{
	struct visit *visit = *of_connection;

	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		server_begin_visit(arg, connection, of_connection);
	else if (visit)
		visit->due_ns = 0;
}

static void server_note_answer(void *arg, struct MHD_Connection *connection, void **of_request,
			       enum MHD_RequestTerminationCode how)
{
	const struct server *server = arg;
	struct visit *visit = server_visit(connection);

	if (server->user.end)
		server->user.end(server->user.arg, *of_request);
	if (!visit)
		return;
	visit->due_ns = now_monotonic_ns() + ASK_NS;
	visit->began_ns = 0;
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned int)PATIENCE_S);
}

static unsigned int server_connections(const struct server *server)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	return info ? info->num_connections : 0;
}

static bool server_is_full(const struct server *server)
{
	return server_connections(server) >= CONNECTIONS;
}

/* --- The loop --------------------------------------------------------------------------------- */

static uint64_t server_due_ns(const struct server *server)
{
	uint64_t due_ns = UINT64_MAX;
	bool needed = server_is_full(server);

	for (int i = 0; i < CONNECTIONS; i++)
		due_ns = min_u64(due_ns, server_due_of(&server->visit[i], needed));
	if (server->user.due_ns)
		due_ns = min_u64(due_ns, server->user.due_ns(server->user.arg, now_monotonic_ns()));
	return due_ns;
}

/*
 * With all connections taken the library takes its listening socket out of its epoll, and puts it
 * back when it next runs with one free. Nothing wakes it for that: so it runs again whenever some
 * have gone.
 */
static void server_run(struct loop_source *source)
{
	struct server *server = (struct server *)source;
	unsigned int before;

	server_end_late(server, server_is_full(server));
	do {
		before = server_connections(server);
		MHD_run(server->daemon);
	} while (server_connections(server) < before);
}

/* Nothing in its epoll wakes the library for that. */
void server_end_wait(struct server *server, struct MHD_Connection *connection)
{
	MHD_resume_connection(connection);
	server_run(&server->source);
}

static int server_timeout_ms(struct loop_source *source)
{
	struct server *server = (struct server *)source;
	MHD_UNSIGNED_LONG_LONG ms;
	uint64_t now_ns, due_ns;

	if (!MHD_get_timeout(server->daemon, &ms))
		return -1;
	due_ns = server_due_ns(server);
	now_ns = now_monotonic_ns();
	ms = due_ns <= now_ns ? 0 : min_u64(ms, (due_ns - now_ns) / NS_PER_MS + 1);
	return ms > 60000 ? 60000 : (int)ms;
}

static int server_start(struct server *server, int fd)
{
	const union MHD_DaemonInfo *info;

	server->daemon = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, server->user.answer,
		server->user.arg, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)PATIENCE_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
		MHD_OPTION_NOTIFY_CONNECTION, server_note_connection, server,
		MHD_OPTION_NOTIFY_COMPLETED, server_note_answer, server, MHD_OPTION_END);
	if (!server->daemon) {
		close(fd);
		return -EIO;
	}
	info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -EIO;
	server->source = (struct loop_source){
		.fd = info->epoll_fd, .ready = server_run, .timeout_ms = server_timeout_ms};
	return 0;
}

int server_open(struct loop *loop, const struct listen_address *address,
		const struct server_user *user, struct server **ret)
{
	struct server *server;
	int r, fd = listen_open(address);

	if (fd < 0)
		return fd;
	server = calloc(1, sizeof(*server));
	if (!server) {
		close(fd);
		return -ENOMEM;
	}
	server->loop = loop;
	server->address = *address;
	server->user = *user;
	r = server_start(server, fd);
	if (!r)
		r = loop_add(loop, &server->source);
	if (r < 0)
		server_close(server);
	else
		*ret = server;
	return r;
}

void server_close(struct server *server)
{
	if (!server)
		return;
	loop_remove(server->loop, &server->source);
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	free(server);
}
