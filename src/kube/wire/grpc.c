/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/wire/grpc.h"

#include <errno.h>
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/now.h"
#include "base/number.h"
#include "kube/wire/message.h"

#define CONNECTIONS 32 /* of a server */
#define CALLS	    128 /* of a connection, at a time */
/* Calls that a connection may reset, for each that was answered and beyond. */
#define RESETS	    256
#define REQUESTS_MOST (2 * GRPC_MESSAGE_MOST)
#define EVENTS	    16
#define READ_BYTES  16384
#define STATUS_TEXT 512
#define REST_NS	    (100 * NS_PER_MS) /* a server lets nobody in so long, when no descriptor was left */
#define PATH_BYTES  sizeof(((struct sockaddr_un *)0)->sun_path)

/* The first member of a server or connection, to which epoll's events point. */
struct watched {
	int fd;
	void (*ready)(struct watched *watched, uint32_t events);
};

struct server {
	struct watched watched;
	struct server *next;
	struct grpc *grpc;
	const struct grpc_method *method;
	size_t n, connections;
	void *arg;
	uint64_t rests_until_ns; /* 0: it lets others in */
	struct stat socket;	 /* its file */
	char path[PATH_BYTES];
};

struct connection {
	struct watched watched;
	struct connection *next;
	struct grpc *grpc;
	struct server *server; /* NULL: it is ours, of one call */
	nghttp2_session *session;
	struct grpc_call *call; /* all of them */
	unsigned int resets;
	bool dead; /* is no more after this round */
};

/* A message on its way out. */
struct piece {
	struct piece *next;
	size_t len, at;
	uint8_t bytes[];
};

struct grpc_call {
	struct grpc_call *next;
	struct connection *connection;
	int32_t stream;
	struct message_buffer in;
	struct piece *first, **last;
	size_t out_bytes;
	bool begun;    /* headers are on their way */
	bool deferred; /* the session waits for more */
	bool finished; /* no more comes */
	enum grpc_status status;
	char text[STATUS_TEXT];
	/* Of a server: */
	const struct grpc_method *method; /* NULL: of none that there is */
	bool called;
	/* Of ours: */
	struct grpc_request request;
	uint64_t deadline_ns; /* 0: none */
	bool answered;	      /* a status came */
};

struct grpc {
	int epoll;
	struct server *server;
	struct connection *connection;
};

/* --- Descriptors --------------------------------------------------------------------------- */

static int grpc_watch(struct grpc *grpc, struct watched *watched, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = watched};

	return epoll_ctl(grpc->epoll, EPOLL_CTL_ADD, watched->fd, &event) < 0 ? -errno : 0;
}

/* A session writes when the descriptor can be written to, which wakes the loop, too. */
static void connection_set_out(struct connection *connection, bool out)
{
	struct epoll_event event = {
		.events = EPOLLIN | (out ? (uint32_t)EPOLLOUT : 0),
		.data.ptr = &connection->watched,
	};

	epoll_ctl(connection->grpc->epoll, EPOLL_CTL_MOD, connection->watched.fd, &event);
}

/* --- Calls --------------------------------------------------------------------------------- */

static struct grpc_call *call_new(struct connection *connection)
{
	struct grpc_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->connection = connection;
	call->last = &call->first;
	call->status = GRPC_UNAVAILABLE;
	call->next = connection->call;
	connection->call = call;
	return call;
}

static void call_free(struct grpc_call *call)
{
	struct grpc_call **p = &call->connection->call;

	while (*p != call)
		p = &(*p)->next;
	*p = call->next;
	while (call->first) {
		struct piece *piece = call->first;

		call->first = piece->next;
		free(piece);
	}
	message_buffer_free(&call->in);
	free(call);
}

/* Tells the method or the requester that the call is over, and frees it. */
static void call_end(struct grpc_call *call)
{
	const struct server *server = call->connection->server;

	if (!server && call->request.ended)
		call->request.ended(call->request.arg, call->status, call->text);
	else if (server && call->called && !call->finished && call->method->gone)
		call->method->gone(server->arg, call);
	call_free(call);
}

static void call_set_text(struct grpc_call *call, const char *text)
{
	snprintf(call->text, sizeof(call->text), "%s", text ? text : "");
}

static int call_add_piece(struct grpc_call *call, const uint8_t *message, size_t len)
{
	struct piece *piece = malloc(sizeof(*piece) + MESSAGE_HEAD + len);

	if (!piece)
		return -ENOMEM;
	*piece = (struct piece){.len = MESSAGE_HEAD + len};
	message_put_head(piece->bytes, len);
	if (len)
		memcpy(piece->bytes + MESSAGE_HEAD, message, len);
	*call->last = piece;
	call->last = &piece->next;
	call->out_bytes += piece->len;
	return 0;
}

static size_t call_take_out(struct grpc_call *call, uint8_t *to, size_t most)
{
	size_t n = 0;

	while (call->first && n < most) {
		struct piece *piece = call->first;
		size_t len = min_u64(piece->len - piece->at, most - n);

		memcpy(to + n, piece->bytes + piece->at, len);
		piece->at += len;
		n += len;
		if (piece->at < piece->len)
			break;
		call->first = piece->next;
		if (!call->first)
			call->last = &call->first;
		free(piece);
	}
	call->out_bytes -= n;
	return n;
}

/* --- Headers ------------------------------------------------------------------------------- */

static nghttp2_nv header(const char *name, const char *value)
{
	return (nghttp2_nv){
		.name = (uint8_t *)(uintptr_t)name,
		.value = (uint8_t *)(uintptr_t)value,
		.namelen = strlen(name),
		.valuelen = strlen(value),
	};
}

static bool header_is(const uint8_t *bytes, size_t len, const char *text)
{
	return len == strlen(text) && !memcmp(bytes, text, len);
}

struct status_text {
	char number[8];
	char text[3 * STATUS_TEXT];
};

/* Bytes other than printable ASCII, and %, are written as %XX. */
static struct status_text status_text(const struct grpc_call *call)
{
	struct status_text ret;
	size_t n = 0;

	snprintf(ret.number, sizeof(ret.number), "%d", (int)call->status);
	for (const char *c = call->text; *c; c++) {
		if (*c >= ' ' && *c <= '~' && *c != '%')
			ret.text[n++] = *c;
		else
			n += (size_t)snprintf(ret.text + n, 4, "%%%02X", (unsigned char)*c);
	}
	ret.text[n] = 0;
	return ret;
}

static size_t status_headers(const struct status_text *status, nghttp2_nv *nv)
{
	nv[0] = header("grpc-status", status->number);
	nv[1] = header("grpc-message", status->text);
	return status->text[0] ? 2 : 1;
}

static unsigned int hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10u : 16;
}

static void call_read_text(struct grpc_call *call, const uint8_t *bytes, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n < sizeof(call->text) - 1; i++) {
		unsigned int high = 16, low = 16;

		if (bytes[i] == '%' && len - i > 2) {
			high = hex_digit(bytes[i + 1]);
			low = hex_digit(bytes[i + 2]);
		}
		call->text[n++] = (char)(high < 16 && low < 16 ? high << 4 | low : bytes[i]);
		i += high < 16 && low < 16 ? 2 : 0;
	}
	call->text[n] = 0;
}

static void call_read_status(struct grpc_call *call, const uint8_t *bytes, size_t len)
{
	unsigned int status = 0;

	for (size_t i = 0; i < len; i++)
		status = bytes[i] >= '0' && bytes[i] <= '9' && status < 100
				 ? status * 10 + (bytes[i] - '0')
				 : GRPC_UNKNOWN;
	call->status = len ? status : GRPC_UNKNOWN;
	call->answered = true;
}

/* --- What a session asks ------------------------------------------------------------------- */

static ssize_t on_send(nghttp2_session *session, const uint8_t *bytes, size_t len, int flags,
		       void *arg)
{
	struct connection *connection = arg;
	ssize_t n = send(connection->watched.fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? NGHTTP2_ERR_WOULDBLOCK
						 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* Behind the last message of a server's comes its status; ours is at its end. */
static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *to, size_t most,
		       uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	const struct connection *connection = arg;
	struct grpc_call *call = source->ptr;
	size_t n = call_take_out(call, to, most);
	struct status_text status;
	nghttp2_nv nv[2];

	if (call->first || !call->finished) {
		call->deferred = !n;
		return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
	}
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (!connection->server)
		return (ssize_t)n;
	*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	status = status_text(call);
	if (nghttp2_submit_trailer(session, stream, nv, status_headers(&status, nv)))
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	return (ssize_t)n;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct connection *connection = arg;
	struct grpc_call *call;

	if (!connection->server || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	call = call_new(connection);
	if (!call)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	call->stream = frame->hd.stream_id;
	nghttp2_session_set_stream_user_data(session, call->stream, call);
	return 0;
}

static const struct grpc_method *server_find(const struct server *server, const uint8_t *path,
					     size_t len)
{
	for (size_t i = 0; i < server->n; i++)
		if (header_is(path, len, server->method[i].path))
			return &server->method[i];
	return NULL;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
	const struct connection *connection = arg;
	struct grpc_call *call =
		nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	if (!call)
		return 0;
	if (connection->server) {
		if (header_is(name, name_len, ":path"))
			call->method = server_find(connection->server, value, len);
	} else if (header_is(name, name_len, "grpc-status")) {
		call_read_status(call, value, len);
	} else if (header_is(name, name_len, "grpc-message")) {
		call_read_text(call, value, len);
	}
	return 0;
}

/* Status and reason of a refusal, by error. */
static const struct refusal {
	int error;
	enum grpc_status status;
	const char *why;
} refusals[] = {
	{-EPROTONOSUPPORT, GRPC_UNIMPLEMENTED, "messages are not compressed here"},
	{-EPROTO, GRPC_INVALID_ARGUMENT, "a request is one message"},
	{-EMSGSIZE, GRPC_RESOURCE_EXHAUSTED, "the message is larger than 4 MiB"},
	{-ENOSPC, GRPC_RESOURCE_EXHAUSTED, "too many requests are under way"},
	{0, GRPC_RESOURCE_EXHAUSTED, "out of memory"},
};

static void call_refuse(struct grpc_call *call, int error)
{
	const struct refusal *refusal = refusals;

	while (refusal->error && refusal->error != error)
		refusal++;
	message_buffer_free(&call->in);
	if (call->connection->server) {
		grpc_finish(call, refusal->status, refusal->why);
		return;
	}
	call->status = refusal->status;
	call->answered = true;
	call_set_text(call, refusal->why);
	nghttp2_submit_rst_stream(call->connection->session, NGHTTP2_FLAG_NONE, call->stream,
				  NGHTTP2_CANCEL);
}

static int call_hear(struct grpc_call *call)
{
	const uint8_t *message;
	size_t len;
	int r;

	while ((r = message_buffer_take(&call->in, GRPC_MESSAGE_MOST, &message, &len)) == 1)
		if (call->request.heard)
			call->request.heard(call->request.arg, message, len);
	return r;
}

/* Requests that are not whole yet have so much of a connection's room. */
static bool connection_has_room(const struct connection *connection, size_t len)
{
	for (const struct grpc_call *call = connection->call; call; call = call->next)
		len += call->in.len;
	return len <= REQUESTS_MOST;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
		   size_t len, void *arg)
{
	const struct connection *connection = arg;
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);
	int r;

	if (!call || (connection->server ? call->finished || call->called : call->answered))
		return 0;
	r = connection_has_room(connection, len)
		    ? message_buffer_add(&call->in, bytes, len, GRPC_MESSAGE_MOST)
		    : -ENOSPC;
	if (!r && !connection->server)
		r = call_hear(call);
	if (r < 0)
		call_refuse(call, r);
	return 0;
}

/* The request is whole. */
static void call_dispatch(struct grpc_call *call)
{
	const struct server *server = call->connection->server;
	struct message_buffer in = call->in;
	const uint8_t *message;
	size_t len;
	int r;

	if (call->finished || call->called)
		return;
	if (!call->method) {
		grpc_finish(call, GRPC_UNIMPLEMENTED, "there is no such method here");
		return;
	}
	r = message_buffer_take(&in, GRPC_MESSAGE_MOST, &message, &len);
	if (r != 1 || message_buffer_is_torn(&in)) {
		call_refuse(call, r < 0 ? r : -EPROTO);
		return;
	}
	/* The method may finish the call, so the call no longer owns the request. */
	call->in = (struct message_buffer){0};
	call->called = true;
	call->method->called(server->arg, call, message, len);
	message_buffer_free(&in);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct connection *connection = arg;
	struct grpc_call *call =
		nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	bool ends = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
		    frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (frame->hd.type == NGHTTP2_RST_STREAM && ++connection->resets > RESETS)
		connection->dead = true;
	if (connection->server && call && ends)
		call_dispatch(call);
	return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *arg)
{
	struct connection *connection = arg;
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);

	if (!call)
		return 0;
	if (!error && connection->resets)
		connection->resets--;
	call_end(call);
	if (!connection->server)
		connection->dead = true;
	return 0;
}

/* --- Connections --------------------------------------------------------------------------- */

static void connection_free(struct connection *connection)
{
	struct connection **p = &connection->grpc->connection;

	while (*p != connection)
		p = &(*p)->next;
	*p = connection->next;
	while (connection->call)
		call_end(connection->call);
	if (connection->server)
		connection->server->connections--;
	nghttp2_session_del(connection->session);
	close(connection->watched.fd);
	free(connection);
}

static void connection_write(struct connection *connection)
{
	if (nghttp2_session_send(connection->session))
		connection->dead = true;
	connection_set_out(connection, nghttp2_session_want_write(connection->session));
}

static void connection_read(struct connection *connection)
{
	uint8_t bytes[READ_BYTES];
	ssize_t n = recv(connection->watched.fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || nghttp2_session_mem_recv(connection->session, bytes, (size_t)n) < 0)
		connection->dead = true;
}

static void connection_ready(struct watched *watched, uint32_t events)
{
	struct connection *connection = (struct connection *)watched;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		connection_read(connection);
	if (!connection->dead)
		connection_write(connection);
	if (!nghttp2_session_want_read(connection->session) &&
	    !nghttp2_session_want_write(connection->session))
		connection->dead = true;
}

static int connection_session(struct connection *connection)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option = NULL;
	int r;

	if (nghttp2_session_callbacks_new(&callbacks))
		return -ENOMEM;
	nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	r = nghttp2_option_new(&option);
	if (!r) {
		/* Kubelets before 1.26 send the path of the socket as :authority. */
		nghttp2_option_set_no_http_messaging(option, 1);
		r = connection->server
			    ? nghttp2_session_server_new2(&connection->session, callbacks,
							  connection, option)
			    : nghttp2_session_client_new2(&connection->session, callbacks,
							  connection, option);
	}
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	return r ? -ENOMEM : 0;
}

/* Has the descriptor from here on. */
static int connection_new(struct grpc *grpc, struct server *server, int fd,
			  struct connection **ret)
{
	const nghttp2_settings_entry setting = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, CALLS};
	struct connection *connection = calloc(1, sizeof(*connection));
	int r;

	if (!connection) {
		close(fd);
		return -ENOMEM;
	}
	connection->watched = (struct watched){fd, connection_ready};
	connection->grpc = grpc;
	connection->server = server;
	r = connection_session(connection);
	if (!r && nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, &setting, 1))
		r = -ENOMEM;
	if (!r)
		r = grpc_watch(grpc, &connection->watched, EPOLLIN | EPOLLOUT);
	if (r) {
		nghttp2_session_del(connection->session);
		close(fd);
		free(connection);
		return r;
	}
	if (server)
		server->connections++;
	connection->next = grpc->connection;
	grpc->connection = connection;
	*ret = connection;
	return 0;
}

/* --- Servers ------------------------------------------------------------------------------- */

static void server_watch(const struct server *server, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = (void *)&server->watched};

	epoll_ctl(server->grpc->epoll, EPOLL_CTL_MOD, server->watched.fd, &event);
}

/* Those that connect wait until there are descriptors again; epoll would tell of them all the time. */
static void server_rest(struct server *server)
{
	server->rests_until_ns = now_monotonic_ns() + REST_NS;
	server_watch(server, 0);
}

static void server_look_at_time(struct server *server, uint64_t now_ns)
{
	if (!server->rests_until_ns || server->rests_until_ns > now_ns)
		return;
	server->rests_until_ns = 0;
	server_watch(server, EPOLLIN);
}

static void server_ready(struct watched *watched, uint32_t events)
{
	struct server *server = (struct server *)watched;
	struct connection *connection;
	int fd = accept4(watched->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			server_rest(server);
		return;
	}
	if (server->connections >= CONNECTIONS)
		close(fd);
	else
		(void)connection_new(server->grpc, server, fd, &connection);
}

static struct server *grpc_find_server(struct grpc *grpc, const char *path)
{
	struct server *server = grpc->server;

	while (server && strcmp(server->path, path))
		server = server->next;
	return server;
}

static int address_of(const char *path, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	strcpy(ret->sun_path, path);
	return 0;
}

static int server_listen(const struct sockaddr_un *address)
{
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	/* The file that bind makes has the mode of the socket. */
	if (fd < 0 || fchmod(fd, S_IRUSR | S_IWUSR) < 0)
		return -errno;
	if (unlink(address->sun_path) < 0 && errno != ENOENT)
		return -errno;
	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
	    listen(fd, SOMAXCONN) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int grpc_serve(struct grpc *grpc, const char *path, const struct grpc_method *method, size_t n,
	       void *arg)
{
	struct sockaddr_un address;
	struct server *server;
	int r = address_of(path, &address);

	if (r < 0 || grpc_find_server(grpc, path))
		return r < 0 ? r : -EEXIST;
	server = calloc(1, sizeof(*server));
	if (!server)
		return -ENOMEM;
	r = server_listen(&address);
	server->watched = (struct watched){r, server_ready};
	server->grpc = grpc;
	server->method = method;
	server->n = n;
	server->arg = arg;
	strcpy(server->path, path);
	if (r >= 0)
		r = stat(path, &server->socket) < 0 ? -errno
						    : grpc_watch(grpc, &server->watched, EPOLLIN);
	if (r < 0) {
		if (server->watched.fd >= 0)
			close(server->watched.fd);
		free(server);
		return r;
	}
	server->next = grpc->server;
	grpc->server = server;
	return 0;
}

/* Another process may have put its own in the place. */
static void server_remove_socket(const struct server *server)
{
	struct stat st;

	if (stat(server->path, &st) == 0 && fd_is_same(&st, &server->socket))
		unlink(server->path);
}

void grpc_stop(struct grpc *grpc, const char *path)
{
	struct server *server = grpc_find_server(grpc, path), **p = &grpc->server;
	struct connection *connection, *next;

	if (!server)
		return;
	for (connection = grpc->connection; connection; connection = next) {
		next = connection->next;
		if (connection->server == server)
			connection_free(connection);
	}
	while (*p != server)
		p = &(*p)->next;
	*p = server->next;
	server_remove_socket(server);
	close(server->watched.fd);
	free(server);
}

/* There is more of it to write, and the session looks for that when it can write. */
static void call_go_on(struct grpc_call *call)
{
	if (call->deferred)
		nghttp2_session_resume_data(call->connection->session, call->stream);
	call->deferred = false;
	connection_set_out(call->connection, true);
}

int grpc_send(struct grpc_call *call, const uint8_t *message, size_t len)
{
	struct connection *connection = call->connection;
	int r;

	if (len > GRPC_MESSAGE_MOST)
		return -EMSGSIZE;
	if (call->out_bytes > GRPC_MESSAGE_MOST)
		return -EAGAIN;
	r = call_add_piece(call, message, len);
	if (r < 0)
		return r;
	if (!call->begun) {
		nghttp2_nv nv[] = {header(":status", "200"),
				   header("content-type", "application/grpc")};
		nghttp2_data_provider from = {.source.ptr = call, .read_callback = on_read};

		call->begun = true;
		if (nghttp2_submit_response(connection->session, call->stream, nv, 2, &from))
			return -ENOMEM;
	}
	call_go_on(call);
	return 0;
}

void grpc_finish(struct grpc_call *call, enum grpc_status status, const char *text)
{
	struct connection *connection = call->connection;

	call->finished = true;
	call->status = status;
	call_set_text(call, text);
	if (!call->begun) {
		struct status_text said = status_text(call);
		nghttp2_nv nv[4] = {header(":status", "200"),
				    header("content-type", "application/grpc")};

		call->begun = true;
		(void)nghttp2_submit_response(connection->session, call->stream, nv,
					      2 + status_headers(&said, nv + 2), NULL);
	}
	call_go_on(call);
}

/* --- Calls of ours ------------------------------------------------------------------------- */

static int connect_to(const char *path)
{
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	int r = address_of(path, &address);

	if (r < 0)
		return r;
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int call_submit(struct grpc_call *call)
{
	nghttp2_nv nv[] = {header(":method", "POST"),
			   header(":scheme", "http"),
			   header(":path", call->request.path),
			   header(":authority", "localhost"),
			   header("content-type", "application/grpc"),
			   header("te", "trailers")};
	nghttp2_data_provider from = {.source.ptr = call, .read_callback = on_read};
	int r = call_add_piece(call, call->request.bytes, call->request.len);

	if (r < 0)
		return r;
	call->finished = true;
	r = nghttp2_submit_request(call->connection->session, NULL, nv, sizeof(nv) / sizeof(*nv),
				   &from, call);
	if (r < 0)
		return -ENOMEM;
	call->stream = r;
	return 0;
}

int grpc_call_out(struct grpc *grpc, const char *socket_path, const struct grpc_request *request)
{
	struct connection *connection;
	struct grpc_call *call;
	int r = request->len > GRPC_MESSAGE_MOST ? -EMSGSIZE : connect_to(socket_path);

	if (r >= 0)
		r = connection_new(grpc, NULL, r, &connection);
	if (r < 0)
		return r;
	call = call_new(connection);
	r = call ? 0 : -ENOMEM;
	if (!r) {
		call->request = *request;
		r = call_submit(call);
	}
	if (r < 0) {
		if (call)
			call_free(call);
		connection_free(connection);
		return r;
	}
	if (request->timeout_ms >= 0)
		call->deadline_ns =
			now_monotonic_ns() + (uint64_t)request->timeout_ms * NS_PER_MS;
	return 0;
}

/* --- All of it ----------------------------------------------------------------------------- */

int grpc_open(struct grpc **ret)
{
	struct grpc *grpc = calloc(1, sizeof(*grpc));

	if (!grpc)
		return -ENOMEM;
	grpc->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (grpc->epoll < 0) {
		int r = -errno;

		free(grpc);
		return r;
	}
	*ret = grpc;
	return 0;
}

void grpc_close(struct grpc *grpc)
{
	if (!grpc)
		return;
	while (grpc->server)
		grpc_stop(grpc, grpc->server->path);
	while (grpc->connection)
		connection_free(grpc->connection);
	close(grpc->epoll);
	free(grpc);
}

int grpc_fd(const struct grpc *grpc)
{
	return grpc->epoll;
}

/* When the first call of ours is late, which has a connection to itself, or a server has rested. */
static uint64_t grpc_deadline_ns(const struct grpc *grpc)
{
	uint64_t least = UINT64_MAX;

	for (const struct connection *c = grpc->connection; c; c = c->next)
		if (c->call && c->call->deadline_ns)
			least = min_u64(least, c->call->deadline_ns);
	for (const struct server *s = grpc->server; s; s = s->next)
		if (s->rests_until_ns)
			least = min_u64(least, s->rests_until_ns);
	return least;
}

int grpc_timeout_ms(const struct grpc *grpc)
{
	uint64_t at = grpc_deadline_ns(grpc), now = now_monotonic_ns();

	if (at == UINT64_MAX)
		return -1;
	return (int)min_u64(sat_sub_u64(at + NS_PER_MS - 1, now) / NS_PER_MS, 3600 * 1000);
}

static void connection_look_at_time(struct connection *connection, uint64_t now_ns)
{
	struct grpc_call *call = connection->call;

	if (!call || !call->deadline_ns || call->deadline_ns > now_ns)
		return;
	call->status = GRPC_DEADLINE_EXCEEDED;
	call_set_text(call, "there was no answer in time");
	connection->dead = true;
}

/* Connections are freed here alone, so that nobody frees what an event is about. */
static void grpc_bury(struct grpc *grpc)
{
	struct connection *connection, *next;

	for (connection = grpc->connection; connection; connection = next) {
		next = connection->next;
		if (connection->dead)
			connection_free(connection);
	}
}

void grpc_run(struct grpc *grpc)
{
	struct epoll_event event[EVENTS];
	int n = epoll_wait(grpc->epoll, event, EVENTS, 0);
	uint64_t now = now_monotonic_ns();

	for (int i = 0; i < n; i++) {
		struct watched *watched = event[i].data.ptr;

		watched->ready(watched, event[i].events);
	}
	for (struct connection *c = grpc->connection; c; c = c->next)
		connection_look_at_time(c, now);
	for (struct server *s = grpc->server; s; s = s->next)
		server_look_at_time(s, now);
	grpc_bury(grpc);
}
