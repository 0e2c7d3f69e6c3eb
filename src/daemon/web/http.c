/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/now.h"
#include "base/number.h"
#include "daemon/web/answers.h"

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
/* How much is passed to the kernel at once, which keeps a little more. */
#define BLOCK_BYTES (64 << 10)
/* In answers of one page that are being taken. */
#define ANSWERS_BYTES (16 << 20)
#define PAGES	      8

/* Of a connection. */
struct visit {
	uint64_t due_ns;   /* 0: there is none */
	uint64_t began_ns; /* its answer, which it takes; 0: it does not */
	int fd;		   /* the library's, which closes it */
};

struct http {
	struct loop_source source; /* the library's own epoll */
	struct MHD_Daemon *server;
	struct visit visit[CONNECTIONS];
	const struct http_page *pages;
	struct answers *answers[PAGES]; /* of each of these */
	struct listen_address address;
};

/* Names of tenants are in the answers: a browser takes nothing in them for a page, and keeps none. */
#define POLICY_NOTHING "default-src 'none'; frame-ancestors 'none'"

static bool http_add_headers(struct MHD_Response *response, const char *type, const char *policy)
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

/* `response` is the library's from then on; NULL: it could not be made. */
static enum MHD_Result http_send(struct MHD_Connection *connection, unsigned int status,
				 const char *type, const char *policy,
				 struct MHD_Response *response)
{
	enum MHD_Result result = MHD_NO;

	if (response && http_add_headers(response, type, policy))
		result = MHD_queue_response(connection, status, response);
	if (response)
		MHD_destroy_response(response);
	return result;
}

static enum MHD_Result http_refuse(struct MHD_Connection *connection, unsigned int status,
				   char *why)
{
	return http_send(connection, status, "text/plain", NULL,
			 MHD_create_response_from_buffer(strlen(why), why, MHD_RESPMEM_PERSISTENT));
}

static struct visit *http_visit_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/* --- Answers that are taken ------------------------------------------------------------------- */

struct taking {
	struct answer *answer;
	struct visit *visit;
};

static ssize_t http_give(void *arg, uint64_t at, char *to, size_t most)
{
	const struct taking *taking = arg;
	size_t left = taking->answer->bytes - (size_t)at, n = min_u64(left, most);

	memcpy(to, taking->answer->text + at, n);
	taking->visit->due_ns = now_monotonic_ns() + STALL_S * NS_PER_S;
	return (ssize_t)n;
}

static void http_end_taking(void *arg)
{
	struct taking *taking = arg;

	answer_release(taking->answer);
	free(taking);
}

/* Takes `answer` in any case. */
static struct MHD_Response *http_offer(struct answer *answer, struct visit *visit)
{
	struct taking *taking = malloc(sizeof(*taking));
	struct MHD_Response *response = NULL;

	if (!taking) {
		answer_release(answer);
		return NULL;
	}
	*taking = (struct taking){.answer = answer, .visit = visit};
	response = MHD_create_response_from_callback(answer->bytes, BLOCK_BYTES, http_give, taking,
						     http_end_taking);
	if (!response)
		http_end_taking(taking);
	return response;
}

/* The library finds the connection at its end, and closes it. */
static void http_end_visit(struct visit *visit, uint64_t now_ns)
{
	shutdown(visit->fd, SHUT_RDWR);
	visit->due_ns = now_ns + ASK_NS; /* it is closed long before */
	visit->began_ns = 0;
}

static uint64_t http_due_of(const struct visit *visit, bool needed)
{
	if (!visit->due_ns)
		return UINT64_MAX;
	return needed && visit->began_ns ? min_u64(visit->due_ns, visit->began_ns + ANSWER_NS)
					 : visit->due_ns;
}

/* `needed`: others wait for the room. */
static void http_end_late(struct http *http, bool needed)
{
	uint64_t now_ns = now_monotonic_ns();

	for (int i = 0; i < CONNECTIONS; i++)
		if (http_due_of(&http->visit[i], needed) <= now_ns)
			http_end_visit(&http->visit[i], now_ns);
}

static enum MHD_Result http_send_page(struct http *http, struct MHD_Connection *connection, int page)
{
	static char failed[] = "what was asked for cannot be read now; the log says why\n";
	static char full[] = "too many ask at once; try again\n";
	struct visit *visit = http_visit_of(connection);
	uint64_t now_ns = now_monotonic_ns();
	struct answer *answer;

	if (!visit)
		return http_refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, full);
	if (answers_are_crowded(http->answers[page]))
		http_end_late(http, true);
	if (answers_get(http->answers[page], now_ns, &answer) < 0)
		return http_refuse(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, failed);
	visit->began_ns = now_ns;
	visit->due_ns = now_ns + STALL_S * NS_PER_S;
	/* While an answer is sent, due_ns limits the client's silence. */
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
				  (unsigned int)(2 * STALL_S));
	return http_send(connection, MHD_HTTP_OK, http->pages[page].type, http->pages[page].policy,
			 http_offer(answer, visit));
}

static bool http_is_meant(const struct http *http, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct sockaddr_storage local;
	socklen_t bytes = sizeof(local);

	return info && !getsockname(info->connect_fd, (struct sockaddr *)&local, &bytes) &&
	       listen_answers(&http->address, (struct sockaddr *)&local,
			      MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							  MHD_HTTP_HEADER_HOST));
}

static enum MHD_Result http_answer(void *arg, struct MHD_Connection *connection, const char *path,
				   const char *method, const char *version, const char *upload,
				   size_t *upload_bytes, void **of_request)
{
	static char unknown[] = 
		"there is no such page; / is for people, /metrics for Prometheus, /v1/node is JSON\n";
	static char changes[] = "pages can be read, and nothing else\n";
	static char misled[] =
		"asked by a name that is not this machine's own: a page of another site may have asked; "
		"write http://localhost, a loopback address in numbers, or what --listen says\n";
	struct http *http = arg;

	if (!http_is_meant(http, connection))
		return http_refuse(connection, MHD_HTTP_MISDIRECTED_REQUEST, misled);
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return http_refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, changes);
	for (int i = 0; http->pages[i].path; i++)
		if (!strcmp(path, http->pages[i].path))
			return http_send_page(http, connection, i);
	return http_refuse(connection, MHD_HTTP_NOT_FOUND, unknown);
}

static void http_begin_visit(struct http *http, struct MHD_Connection *connection,
			     void **ret_visit)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	for (int i = 0; info && i < CONNECTIONS; i++) {
		struct visit *visit = &http->visit[i];

		if (visit->due_ns)
			continue;
		visit->due_ns = now_monotonic_ns() + ASK_NS;
		visit->fd = info->connect_fd;
		visit->began_ns = 0;
		*ret_visit = visit;
		return;
	}
}

static void http_note_connection(void *arg, struct MHD_Connection *connection, void **of_connection,
				 enum MHD_ConnectionNotificationCode what)
{
	struct visit *visit = *of_connection;

	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		http_begin_visit(arg, connection, of_connection);
	else if (visit)
		visit->due_ns = 0;
}

static void http_note_answer(void *arg, struct MHD_Connection *connection, void **of_request,
			     enum MHD_RequestTerminationCode how)
{
	struct visit *visit = http_visit_of(connection);

	if (!visit)
		return;
	visit->due_ns = now_monotonic_ns() + ASK_NS;
	visit->began_ns = 0;
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned int)PATIENCE_S);
}

static unsigned int http_connections(const struct http *http)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(http->server, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	return info ? info->num_connections : 0;
}

static bool http_is_full(const struct http *http)
{
	return http_connections(http) >= CONNECTIONS;
}

static uint64_t http_due_ns(const struct http *http)
{
	uint64_t due_ns = UINT64_MAX, now_ns = now_monotonic_ns();
	bool needed = http_is_full(http);

	for (int i = 0; i < CONNECTIONS; i++)
		due_ns = min_u64(due_ns, http_due_of(&http->visit[i], needed));
	for (int i = 0; http->pages[i].path; i++)
		due_ns = min_u64(due_ns, answers_tidy(http->answers[i], now_ns));
	return due_ns;
}

/*
 * With all connections taken the library takes its listening socket out of its epoll, and puts it
 * back when it next runs with one free. Nothing wakes it for that: so it runs again whenever some
 * have gone.
 */
static void http_run(struct loop_source *source)
{
	struct http *http = (struct http *)source;
	unsigned int before;

	http_end_late(http, http_is_full(http));
	do {
		before = http_connections(http);
		MHD_run(http->server);
	} while (http_connections(http) < before);
}

static int http_timeout_ms(struct loop_source *source)
{
	struct http *http = (struct http *)source;
	MHD_UNSIGNED_LONG_LONG ms;
	uint64_t now_ns, due_ns;

	if (!MHD_get_timeout(http->server, &ms))
		return -1;
	now_ns = now_monotonic_ns();
	due_ns = http_due_ns(http);
	ms = due_ns <= now_ns ? 0 : min_u64(ms, (due_ns - now_ns) / NS_PER_MS + 1);
	return ms > 60000 ? 60000 : (int)ms;
}

static int http_start(struct http *http, int fd)
{
	const union MHD_DaemonInfo *info;

	http->server = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ITC, 0, NULL, NULL, http_answer, http,
					MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
					(unsigned int)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
					(unsigned int)PATIENCE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
					(size_t)REQUEST_BYTES, MHD_OPTION_NOTIFY_CONNECTION,
					http_note_connection, http, MHD_OPTION_NOTIFY_COMPLETED,
					http_note_answer, http, MHD_OPTION_END);
	if (!http->server) {
		close(fd);
		return -EIO;
	}
	info = MHD_get_daemon_info(http->server, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -EIO;
	http->source = (struct loop_source){
		.fd = info->epoll_fd, .ready = http_run, .timeout_ms = http_timeout_ms};
	return 0;
}

static int http_open_answers(struct http *http, void *arg)
{
	int r = 0;

	for (int i = 0; !r && http->pages[i].path; i++)
		r = i == PAGES ? -E2BIG
			       : answers_open(http->pages[i].write, arg, ANSWERS_BYTES,
					      &http->answers[i]);
	return r;
}

int http_open(struct loop *loop, const struct listen_address *address, const struct http_page *pages,
	      void *arg, struct http **ret)
{
	struct http *http;
	int r, fd = listen_open(address);

	if (fd < 0)
		return fd;
	http = calloc(1, sizeof(*http));
	if (!http) {
		close(fd);
		return -ENOMEM;
	}
	http->pages = pages;
	http->address = *address;
	r = http_open_answers(http, arg);
	if (r < 0)
		close(fd);
	else
		r = http_start(http, fd);
	if (!r)
		r = loop_add(loop, &http->source);
	if (r < 0)
		http_close(http);
	else
		*ret = http;
	return r;
}

void http_close(struct http *http)
{
	if (http && http->server)
		MHD_stop_daemon(http->server);
	for (int i = 0; http && i < PAGES; i++)
		answers_close(http->answers[i]);
	free(http);
}
