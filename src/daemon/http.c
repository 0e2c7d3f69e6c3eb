/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/now.h"
#include "base/number.h"

/* Whoever opens so many and says nothing keeps others waiting for no longer than that. */
#define CONNECTIONS 256
#define PATIENCE_S  5
#define REQUEST_BYTES 4096 /* of a connection, for what it asks */
/*
 * The same for whoever says something now and then, or takes an answer bit by bit: from one answer to
 * the end of the next one, or from the beginning.
 */
#define ANSWER_NS (10 * NS_PER_S)
/* With so much in answers that nobody has taken yet, there is no other one. */
#define ANSWERS_BYTES (64 << 20)

/* Of a connection. */
struct visit {
	uint64_t due_ns; /* 0: there is none */
	int fd;		 /* the library's, which closes it */
	size_t bytes;	 /* of the answer that it has not taken whole */
};

struct http {
	struct loop_source source; /* the library's own epoll */
	struct MHD_Daemon *server;
	struct visit visit[CONNECTIONS];
	const struct http_page *pages;
	void *arg;
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

static enum MHD_Result http_send(struct MHD_Connection *connection, unsigned int status,
				 const char *type, const char *policy, char *text, size_t bytes,
				 enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(bytes, text, mode);
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
	return http_send(connection, status, "text/plain", NULL, why, strlen(why),
			 MHD_RESPMEM_PERSISTENT);
}

static struct visit *http_visit_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static size_t http_waiting_bytes(const struct http *http)
{
	size_t bytes = 0;

	for (int i = 0; i < CONNECTIONS; i++)
		bytes += http->visit[i].due_ns ? http->visit[i].bytes : 0;
	return bytes;
}

static enum MHD_Result http_send_page(struct http *http, struct MHD_Connection *connection,
				      const struct http_page *page)
{
	static char failed[] = "what was asked for cannot be read now; the log says why\n";
	static char full[] = "too much waits to be taken by those who asked before; try again\n";
	struct visit *visit = http_visit_of(connection);
	char *text = NULL;
	size_t bytes = 0;
	int r = -ENOMEM;
	FILE *out;

	if (!visit || http_waiting_bytes(http) > ANSWERS_BYTES)
		return http_refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, full);
	out = open_memstream(&text, &bytes);
	if (out) {
		__fsetlocking(out, FSETLOCKING_BYCALLER); /* no other thread has it */
		r = page->write(out, http->arg);
	}
	if (out && (fclose(out) || !text))
		r = -ENOMEM;
	if (r < 0) {
		free(text);
		return http_refuse(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, failed);
	}
	visit->bytes = bytes;
	return http_send(connection, MHD_HTTP_OK, page->type, page->policy, text, bytes,
			 MHD_RESPMEM_MUST_FREE);
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
	for (const struct http_page *page = http->pages; page->path; page++)
		if (!strcmp(path, page->path))
			return http_send_page(http, connection, page);
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
		visit->due_ns = now_monotonic_ns() + ANSWER_NS;
		visit->fd = info->connect_fd;
		visit->bytes = 0;
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
	visit->due_ns = now_monotonic_ns() + ANSWER_NS;
	visit->bytes = 0;
}

static uint64_t http_due_ns(const struct http *http)
{
	uint64_t due_ns = UINT64_MAX;

	for (int i = 0; i < CONNECTIONS; i++)
		if (http->visit[i].due_ns)
			due_ns = min_u64(due_ns, http->visit[i].due_ns);
	return due_ns;
}

/* The library finds the connection at its end, and closes it. */
static void http_end_late(struct http *http)
{
	uint64_t now_ns = now_monotonic_ns();

	for (int i = 0; i < CONNECTIONS; i++) {
		struct visit *visit = &http->visit[i];

		if (!visit->due_ns || visit->due_ns > now_ns)
			continue;
		shutdown(visit->fd, SHUT_RDWR);
		visit->due_ns = now_ns + ANSWER_NS; /* it is closed long before */
	}
}

static unsigned int http_connections(const struct http *http)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(http->server, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	return info ? info->num_connections : 0;
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

	http_end_late(http);
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
	http->arg = arg;
	http->address = *address;
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
	free(http);
}
