/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/wire/api.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/guarded.h"
#include "kube/wire/libcurl.h"
#include "text/log.h"

#define EVENTS	    16
#define CONNECTIONS 16L /* at a time; further calls wait for one */
#define CONNECT_MS  10000L
/* A watch is silent for minutes; a peer that has gone is found out by the kernel. */
#define KEEPALIVE_S	     30L
#define KEEPALIVE_INTERVAL_S 10L
#define TOKEN_BYTES	     16384
#define URL_BYTES	     (PATH_MAX + 4096)
#define FIRST_BYTES	     4096

static const struct libcurl *libcurl; /* where an API was opened */

struct api_call {
	struct api_call *next;
	struct api *api;
	CURL *easy;
	struct curl_slist *headers;
	char *body;
	void (*ended)(void *arg, int status, const char *bytes, size_t len);
	void (*line)(void *arg, const char *bytes, size_t len);
	void *arg;
	char *bytes; /* of the answer, or of the line that is not whole yet */
	size_t len, room;
	bool too_long;
	bool out_of_memory;
	bool forgotten; /* from a callback of its own: it goes when libcurl has returned */
	bool over;	/* it has ended, and is freed next */
	char words[CURL_ERROR_SIZE];
};

struct api {
	struct loop_source source; /* its descriptor is the epoll of the others */
	int timer;
	CURLM *multi;
	bool inside; /* libcurl runs, which takes no new call meanwhile */
	bool closing;
	struct api_call *call;
	char base[PATH_MAX];
	char token[PATH_MAX + 8], ca[PATH_MAX + 8];
};

/* --- Calls --------------------------------------------------------------------------------- */

static void call_free(struct api_call *call)
{
	if (call->easy)
		libcurl->curl_easy_cleanup(call->easy);
	libcurl->curl_slist_free_all(call->headers);
	free(call->body);
	free(call->bytes);
	free(call);
}

static void call_unlink(struct api_call *call)
{
	struct api_call **p = &call->api->call;

	while (*p && *p != call)
		p = &(*p)->next;
	if (*p)
		*p = call->next;
}

/* Takes it out of everything; it is freed by the caller. */
static void call_leave(struct api_call *call)
{
	call_unlink(call);
	libcurl->curl_multi_remove_handle(call->api->multi, call->easy);
	call->over = true;
}

static void call_end(struct api_call *call, int status, const char *bytes, size_t len)
{
	call_leave(call);
	if (!call->forgotten)
		call->ended(call->arg, status, bytes, len);
	call_free(call);
}

static void call_fail(struct api_call *call, int error, const char *what)
{
	char words[CURL_ERROR_SIZE + PATH_MAX + 64];

	snprintf(words, sizeof(words), "%s: %s", call->api->base, what);
	call_end(call, error, words, strlen(words));
}

static bool call_make_room(struct api_call *call, size_t more)
{
	size_t room = call->room ? call->room : FIRST_BYTES;
	char *bytes;

	while (room < call->len + more + 1)
		room *= 2;
	if (room == call->room)
		return true;
	bytes = realloc(call->bytes, room);
	if (!bytes)
		return false;
	call->bytes = bytes;
	call->room = room;
	return true;
}

static bool call_add(struct api_call *call, const char *bytes, size_t len)
{
	call->too_long = call->len + len > API_ANSWER_MOST;
	call->out_of_memory = !call->too_long && !call_make_room(call, len);
	if (call->too_long || call->out_of_memory)
		return false;
	memcpy(call->bytes + call->len, bytes, len);
	call->len += len;
	call->bytes[call->len] = '\0';
	return true;
}

/* Each line that is whole is heard; the callback may forget the call. */
static bool call_add_lines(struct api_call *call, const char *bytes, size_t len)
{
	const char *end;

	while (len && (end = memchr(bytes, '\n', len))) {
		if (!call_add(call, bytes, (size_t)(end - bytes)))
			return false;
		call->line(call->arg, call->bytes, call->len);
		if (call->forgotten)
			return false;
		call->len = 0;
		len -= (size_t)(end + 1 - bytes);
		bytes = end + 1;
	}
	return call_add(call, bytes, len);
}

/* libcurl's: a lesser count than `n` ends the transfer. What is refused is no watch, but one answer. */
static size_t call_hear(char *bytes, size_t one, size_t n, void *arg)
{
	struct api_call *call = arg;
	long status = 0;

	if (call->forgotten)
		return 0;
	libcurl->curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
	if (call->line && status == 200)
		return call_add_lines(call, bytes, n) ? n : 0;
	return call_add(call, bytes, n) ? n : 0;
}

/* --- Requests ------------------------------------------------------------------------------ */

/*
 * The account's token is behind a link to the folder that it is in, which the kubelet replaces and then removes. If
 * that comes between two steps of the way there, the link leads to the new one by now.
 */
static int api_open_token(const struct api *api)
{
	struct guarded_why why;
	int fd = guarded_open(api->token, &why);

	return fd == -ENOLINK || fd == -ENOENT ? guarded_open(api->token, &why) : fd;
}

static int api_read_token(const struct api *api, char ret[static TOKEN_BYTES])
{
	CLEANUP_CLOSE int fd = api_open_token(api);
	ssize_t n;

	if (fd < 0)
		return fd == -ENOLINK ? -ENOENT : fd;
	n = read(fd, ret, TOKEN_BYTES);
	if (n < 0)
		return err_errno();
	if (n == TOKEN_BYTES)
		return -EMSGSIZE;
	while (n && strchr(" \t\r\n", ret[n - 1]))
		n--;
	ret[n] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if (ret[i] <= ' ' || ret[i] > '~')
			return -EBADMSG;
	return n ? 0 : -ENODATA;
}

static int call_add_header(struct api_call *call, const char *header)
{
	struct curl_slist *list = libcurl->curl_slist_append(call->headers, header);

	if (!list)
		return -ENOMEM;
	call->headers = list;
	return 0;
}

/* A token goes over no connection that others can read. Without one the server knows nobody. */
static int call_add_token(struct api_call *call)
{
	static const char before[] = "Authorization: Bearer ";
	char header[sizeof(before) + TOKEN_BYTES];
	char *token = header + sizeof(before) - 1;
	int r;

	if (strncmp(call->api->base, "https:", 6) != 0)
		return 0;
	r = api_read_token(call->api, token);
	if (r == -ENOENT)
		return 0;
	memcpy(header, before, sizeof(before) - 1);
	if (!r)
		r = call_add_header(call, header);
	explicit_bzero(header, sizeof(header));
	return r;
}

static int call_add_headers(struct api_call *call, const struct api_request *request)
{
	char type[128];
	int r;

	snprintf(type, sizeof(type), "Content-Type: %s",
		 request->type ? request->type : "application/json");
	r = call_add_header(call, "Accept: application/json");
	if (!r && request->body)
		r = call_add_header(call, type);
	if (!r && request->body)
		r = call_add_header(call, "Expect:"); /* nor is there a wait for "100 Continue" */
	return r ? r : call_add_token(call);
}

/* HTTP/1.1, so that one connection that hangs is not the one of every call. */
static void call_set_transport(struct api_call *call)
{
	CURL *easy = call->easy;

	libcurl->curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	libcurl->curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
	libcurl->curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	libcurl->curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	libcurl->curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* a resolver that hangs is not waited for */
	libcurl->curl_easy_setopt(easy, CURLOPT_CAINFO, call->api->ca);
	libcurl->curl_easy_setopt(easy, CURLOPT_CAPATH, NULL); /* that authority, and no other */
	/* libcurl would know the file's first content for a day; a cluster's authority may be renewed. */
	libcurl->curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
	libcurl->curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	libcurl->curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
	libcurl->curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
	libcurl->curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
}

static int call_set_request(struct api_call *call, const struct api_request *request)
{
	CURL *easy = call->easy;
	char url[URL_BYTES];

	if ((size_t)snprintf(url, sizeof(url), "%s%s", call->api->base, request->path) >=
	    sizeof(url))
		return -ENAMETOOLONG;
	libcurl->curl_easy_setopt(easy, CURLOPT_URL, url);
	libcurl->curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L); /* a name is no way to another object */
	libcurl->curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
	libcurl->curl_easy_setopt(easy, CURLOPT_USERAGENT, "allotd");
	libcurl->curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
	if (call->body)
		libcurl->curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body);
	if (request->timeout_ms > 0)
		libcurl->curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
	libcurl->curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->words);
	libcurl->curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	libcurl->curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, call_hear);
	libcurl->curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	return 0;
}

static int call_new(struct api *api, const struct api_request *request, struct api_call **ret)
{
	struct api_call *call = calloc(1, sizeof(*call));
	int r;

	if (!call)
		return -ENOMEM;
	*call = (struct api_call){.api = api,
				  .easy = libcurl->curl_easy_init(),
				  .body = request->body ? strdup(request->body) : NULL,
				  .ended = request->ended,
				  .line = request->line,
				  .arg = request->arg};
	r = call->easy && (call->body || !request->body) ? call_make_room(call, 0) ? 0 : -ENOMEM
							 : -ENOMEM;
	if (!r) {
		call->bytes[0] = '\0';
		r = call_add_headers(call, request);
	}
	if (!r)
		r = call_set_request(call, request);
	if (r) {
		call_free(call);
		return r;
	}
	call_set_transport(call);
	*ret = call;
	return 0;
}

/* --- What libcurl wants of the loop ---------------------------------------------------------- */

static int api_watch(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
	struct api *api = arg;
	struct epoll_event event = {
		.events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0) |
			  (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0),
		.data.fd = fd};

	if (what == CURL_POLL_REMOVE) {
		epoll_ctl(api->source.fd, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	if (epoll_ctl(api->source.fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) < 0)
		return -1;
	libcurl->curl_multi_assign(api->multi, fd, api);
	return 0;
}

static int api_set_timer(CURLM *multi, int timeout_ms, void *arg)
{
	struct api *api = arg;
	struct itimerspec spec = {0};

	if (timeout_ms >= 0) {
		spec.it_value.tv_sec = timeout_ms / 1000;
		spec.it_value.tv_nsec = timeout_ms % 1000 * 1000000 + !timeout_ms;
	}
	return timerfd_settime(api->timer, 0, &spec, NULL);
}

static int api_error(CURLcode code)
{
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
		return -ECONNREFUSED;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

static void call_done(struct api_call *call, CURLcode code)
{
	long status = 0;

	libcurl->curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
	if (call->too_long)
		call_fail(call, -EMSGSIZE, "an answer of more than 4 MiB is not read");
	else if (call->out_of_memory)
		call_fail(call, -ENOMEM, "no memory for the answer");
	else if (code)
		call_fail(call, api_error(code), *call->words ? call->words : libcurl->curl_easy_strerror(code));
	else if (call->line && status == 200)
		call_end(call, (int)status, "", 0); /* a line that is torn is none */
	else
		call_end(call, (int)status, call->bytes, call->len);
}

static void api_reap(struct api *api)
{
	CURLMsg *message;
	int left;

	while ((message = libcurl->curl_multi_info_read(api->multi, &left))) {
		CURLcode code = message->data.result;
		struct api_call *call = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		libcurl->curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
		call_done(call, code);
	}
}

/* Calls that were begun or forgotten while libcurl ran. */
static void api_settle(struct api *api)
{
	struct api_call *next;

	for (struct api_call *call = api->call; call; call = next) {
		next = call->next;
		if (call->forgotten) {
			call_leave(call);
			call_free(call);
		} else {
			/* One that is there already is refused, which is right. */
			libcurl->curl_multi_add_handle(api->multi, call->easy);
		}
	}
}

static void api_act(struct api *api, curl_socket_t fd, int what)
{
	int running;

	api->inside = true;
	libcurl->curl_multi_socket_action(api->multi, fd, what, &running);
	api->inside = false;
	api_settle(api);
	api_reap(api);
}

static void api_ready(struct loop_source *source)
{
	struct api *api = (struct api *)source;
	struct epoll_event event[EVENTS];
	int n = epoll_wait(source->fd, event, EVENTS, 0);
	uint64_t times;

	for (int i = 0; i < n; i++) {
		uint32_t e = event[i].events;

		if (event[i].data.fd != api->timer)
			api_act(api, event[i].data.fd,
				(e & EPOLLIN ? CURL_CSELECT_IN : 0) |
					(e & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
					(e & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0));
		else if (read(api->timer, &times, sizeof(times)) > 0)
			api_act(api, CURL_SOCKET_TIMEOUT, 0);
	}
}

/* --- The API ------------------------------------------------------------------------------- */

/* As a Pod is told. */
static int api_base_in_cluster(char ret[static PATH_MAX])
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	bool v6 = host && strchr(host, ':');

	if (!host || !*host)
		return -ENOENT;
	snprintf(ret, PATH_MAX, "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "",
		 port && *port ? port : "443");
	return 0;
}

static int api_set_base(struct api *api, const struct kube_conf *conf)
{
	size_t len = strlen(conf->api);

	if (!len)
		return api_base_in_cluster(api->base);
	if (strncmp(conf->api, "https://", 8) != 0 && strncmp(conf->api, "http://", 7) != 0)
		return -EINVAL;
	memcpy(api->base, conf->api, len + 1);
	while (len && api->base[len - 1] == '/')
		api->base[--len] = '\0';
	return 0;
}

static int api_open_multi(struct api *api)
{
	libcurl = libcurl_load();
	if (!libcurl)
		return -ENOSYS;
	api->multi = libcurl->curl_multi_init();
	if (!api->multi)
		return -ENOMEM;
	libcurl->curl_multi_setopt(api->multi, CURLMOPT_SOCKETFUNCTION, api_watch);
	libcurl->curl_multi_setopt(api->multi, CURLMOPT_SOCKETDATA, api);
	libcurl->curl_multi_setopt(api->multi, CURLMOPT_TIMERFUNCTION, api_set_timer);
	libcurl->curl_multi_setopt(api->multi, CURLMOPT_TIMERDATA, api);
	libcurl->curl_multi_setopt(api->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, CONNECTIONS);
	return 0;
}

static int api_open_descriptors(struct api *api, struct loop *loop)
{
	struct epoll_event event = {.events = EPOLLIN};

	api->source.fd = epoll_create1(EPOLL_CLOEXEC);
	api->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	event.data.fd = api->timer;
	if (api->source.fd < 0 || api->timer < 0 ||
	    epoll_ctl(api->source.fd, EPOLL_CTL_ADD, api->timer, &event) < 0)
		return err_errno();
	return loop_add(loop, &api->source);
}

/* Whoever can change the authority or the token can be the API server. What is not there yet may come. */
static int api_check_file(const char *path)
{
	struct guarded_why why = {.words = NULL};
	CLEANUP_CLOSE int fd = guarded_open(path, &why);

	if (fd != -EPERM || !why.words)
		return 0;
	log_line(LOG_FAULT, "%s is not believed: %s: %s; have root alone own and write it", path, why.path,
		 why.words);
	return -EPERM;
}

int api_open(struct loop *loop, const struct kube_conf *conf, struct api **ret)
{
	struct api *api = calloc(1, sizeof(*api));
	int r;

	if (!api)
		return -ENOMEM;
	*api = (struct api){.source = {.fd = -EBADF, .ready = api_ready}, .timer = -EBADF};
	snprintf(api->token, sizeof(api->token), "%s/token", conf->account);
	snprintf(api->ca, sizeof(api->ca), "%s/ca.crt", conf->account);
	r = api_set_base(api, conf);
	if (!r)
		r = api_check_file(api->token);
	if (!r)
		r = api_check_file(api->ca);
	if (!r)
		r = api_open_multi(api);
	if (!r)
		r = api_open_descriptors(api, loop);
	if (r)
		api_close(api);
	else
		*ret = api;
	return r;
}

void api_close(struct api *api)
{
	if (!api)
		return;
	api->closing = true;
	while (api->call)
		call_fail(api->call, -ECANCELED, "the daemon ends");
	if (api->multi)
		libcurl->curl_multi_cleanup(api->multi);
	if (api->timer >= 0)
		close(api->timer);
	if (api->source.fd >= 0)
		close(api->source.fd);
	free(api);
}

int api_ask(struct api *api, const struct api_request *request, struct api_call **ret)
{
	struct api_call *call;
	int r = api->closing ? -ECANCELED : call_new(api, request, &call);

	if (r)
		return r;
	call->next = api->call;
	api->call = call;
	if (!api->inside && libcurl->curl_multi_add_handle(api->multi, call->easy)) {
		call_unlink(call);
		call_free(call);
		return -ENOMEM;
	}
	if (ret)
		*ret = call;
	return 0;
}

int api_get(struct api *api, const char *path, int timeout_ms,
	    void (*ended)(void *arg, int status, const char *bytes, size_t len), void *arg,
	    struct api_call **ret)
{
	return api_ask(api,
		       &(struct api_request){.method = "GET",
					     .path = path,
					     .timeout_ms = timeout_ms,
					     .ended = ended,
					     .arg = arg},
		       ret);
}

void api_forget(struct api_call *call)
{
	if (call->over)
		return;
	if (call->api->inside) {
		call->forgotten = true;
		return;
	}
	call_leave(call);
	call_free(call);
}
