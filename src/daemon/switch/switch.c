/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/switch/switch.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/now.h"
#include "base/number.h"
#include "base/parse.h"
#include "control/message.h"
#include "daemon/switch/switch_state.h"
#include "daemon/switch/token.h"
#include "daemon/users/moves.h"
#include "daemon/web/server.h"
#include "ledger/tenant.h"
#include "text/json.h"
#include "text/log.h"

#define MOVES	   8 /* at once, beside those of users (daemon/users/control.c) */
#define BODY_BYTES 4096
#define PATIENCE_US (30 * UINT64_C(1000000)) /* as the command's */
#define WORDS_BYTES 640
/*
 * A process that moves some of its memory is waited for longer, and what it says is a tenant's own
 * word. This bounds it, and is more than any step of a move that goes on takes.
 */
#define BOUND_TIMES 8
#define BOUND_NS    (30 * NS_PER_S)
#define BLIND_NS    (100 * NS_PER_MS)

/* A request, from its first piece to the end of its answer. */
struct asking {
	struct MHD_Connection *connection;
	const struct verb *verb;
	char name[POLICY_NAME_BYTES];
	size_t body_bytes;
	struct switching *on; /* the move that it waits for, or waited for; NULL: none */
};

/* A move, and its words until the place is used again: `state` says why it did not succeed. */
struct switching {
	struct move move; /* pid 0: it has ended, or there is none */
	struct control_answer answer;
	char name[POLICY_NAME_BYTES];
	bool away;	 /* it suspends */
	bool blind;	 /* its descriptor could not be added: it is looked at now and then */
	bool bounded;	 /* it took too long, and was told to end */
	uint64_t due_ns; /* then it is told to */
	uint64_t ended_ns;
	struct asking *asking; /* NULL: the client is gone, or has its answer */
};

struct switches {
	struct loop_source source; /* an epoll of the moves */
	struct server *server;
	const char *runtime, *token;
	bool ending; /* nothing more is begun */
	int token_error; /* that was logged */
	struct switching list[MOVES];
};

/* --- Answers ---------------------------------------------------------------------------------- */

#define TYPE "application/json"

/* `text` is the library's from then on; NULL: out of memory. */
static enum MHD_Result switch_send(struct MHD_Connection *connection, unsigned int status, char *text,
				   const char *header, const char *value)
{
	struct MHD_Response *response =
		text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE) : NULL;
	struct visit *visit = server_visit(connection);

	if (response && header)
		MHD_add_response_header(response, header, value);
	if (visit)
		server_begin_answer(connection, visit);
	return server_send(connection, status, TYPE, NULL, response);
}

/* {first: its text, second: its text}; without the second's text: of the first alone. NULL: out of memory. */
static char *switch_write(const char *first, const char *first_text, const char *second,
			  const char *second_text)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	struct json j = {.out = out};

	if (!out)
		return NULL;
	json_open(&j, NULL, '{');
	json_text(&j, first, first_text);
	if (second_text)
		json_text(&j, second, second_text);
	json_close(&j, '}');
	fclose(out);
	return text;
}

/* Without a name: of no tenant. */
static char *switch_write_error(const char *name, const char *why)
{
	return switch_write("error", why, "tenant", name);
}

__attribute__((format(printf, 4, 5))) static enum MHD_Result
switch_refuse(struct MHD_Connection *connection, unsigned int status, const char *name,
	      const char *fmt, ...)
{
	char why[WORDS_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return switch_send(connection, status, switch_write_error(name, why),
			   status == MHD_HTTP_SERVICE_UNAVAILABLE ? "Retry-After" : NULL, "1");
}

/* The line of the command behind its name, "allot suspend: ". */
static const char *switch_behind_name(const char *line)
{
	static const char *const names[] = {"allot suspend: ", "allot resume: "};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(line, names[i], strlen(names[i])))
			return line + strlen(names[i]);
	return line;
}

/* In one line, without the command's name. */
static void switch_plain_words(const char *words, char ret[static WORDS_BYTES])
{
	size_t n = 0;

	for (const char *next; *words && n < WORDS_BYTES - 1; words = next) {
		const char *line = switch_behind_name(words);
		size_t bytes = strcspn(line, "\n"), room = WORDS_BYTES - 1 - n;

		next = line + bytes + (line[bytes] == '\n');
		if (n && room > 2) {
			memcpy(ret + n, "; ", 2);
			n += 2;
			room -= 2;
		}
		bytes = bytes < room ? bytes : room;
		memcpy(ret + n, line, bytes);
		n += bytes;
	}
	ret[n] = '\0';
}

/* --- Who is meant, and allowed ---------------------------------------------------------------- */

enum what { WHAT_SUSPEND, WHAT_RESUME, WHAT_STATE, WHAT_IS_SLEEPING };

static const struct verb {
	const char *before, *name; /* of the path, around the tenant's name */
	enum what what;
	bool quiet; /* as vLLM's: 200 and no words */
} verbs[] = {
	{"/v1/tenants/", "suspend", WHAT_SUSPEND, false},
	{"/v1/tenants/", "resume", WHAT_RESUME, false},
	{"/v1/tenants/", "state", WHAT_STATE, false},
	{"/tenants/", "sleep", WHAT_SUSPEND, true},
	{"/tenants/", "wake_up", WHAT_RESUME, true},
	{"/tenants/", "is_sleeping", WHAT_IS_SLEEPING, true},
};

static bool switch_moves(const struct verb *verb)
{
	return verb->what == WHAT_SUSPEND || verb->what == WHAT_RESUME;
}

/* NULL: there is no such path. */
static const struct verb *switch_find_verb(const char *path, char ret_name[static POLICY_NAME_BYTES])
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		size_t before = strlen(verbs[i].before);
		const char *slash;

		if (strncmp(path, verbs[i].before, before) != 0)
			continue;
		slash = strchr(path + before, '/');
		if (!slash || strcmp(slash + 1, verbs[i].name) != 0 ||
		    slash - path - (ptrdiff_t)before >= POLICY_NAME_BYTES)
			continue;
		snprintf(ret_name, POLICY_NAME_BYTES, "%.*s", (int)(slash - path - (ptrdiff_t)before),
			 path + before);
		return &verbs[i];
	}
	return NULL;
}

/* Logged once, until the file is right again. 1: the token is right; 0: it is not; -errno. */
static int switch_has_token(struct switches *s, struct MHD_Connection *connection)
{
	static struct token_why why;
	struct token token;
	int r = token_read(s->token, &token, &why);

	if (r < 0 && r != s->token_error)
		log_line(LOG_FAULT, "nobody can switch tenants by HTTP: control-token: %s", why.words);
	else if (!r && s->token_error)
		log_line(LOG_SAY, "control-token %s is right again", s->token);
	s->token_error = r;
	if (r < 0)
		return r;
	r = token_is_in(&token, MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							    MHD_HTTP_HEADER_AUTHORIZATION));
	explicit_bzero(&token, sizeof(token));
	return r;
}

static enum MHD_Result switch_check_client(struct switches *s, struct MHD_Connection *connection,
					   bool *ret_right)
{
	int r;

	*ret_right = false;
	if (!server_is_meant(s->server, connection))
		return switch_refuse(connection, MHD_HTTP_MISDIRECTED_REQUEST, NULL,
				     "asked by a name that is not this machine's own; write "
				     "http://localhost, a loopback address in numbers, or what control says");
	/* A browser sends it with every request that a page of any site can make it change things by. */
	if (MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN))
		return switch_refuse(connection, MHD_HTTP_FORBIDDEN, NULL,
				     "a page in a browser asks (Origin): none may switch tenants");
	r = switch_has_token(s, connection);
	if (r < 0)
		return switch_refuse(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL,
				     "the site's token cannot be read; allotd's log says why");
	if (!r)
		return switch_send(connection, MHD_HTTP_UNAUTHORIZED,
				   switch_write_error(NULL, "the token is missing or wrong; send the "
						      "header \"Authorization: Bearer TOKEN\", with what "
						      "is in the file that control-token names"),
				   MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	*ret_right = true;
	return MHD_YES;
}

static bool switch_takes(const struct verb *verb, const char *method)
{
	if (switch_moves(verb))
		return !strcmp(method, MHD_HTTP_METHOD_POST);
	return !strcmp(method, MHD_HTTP_METHOD_GET) || !strcmp(method, MHD_HTTP_METHOD_HEAD);
}

/* The first piece of a request: its head. NULL in *ret: it is answered. */
static enum MHD_Result switch_begin(struct switches *s, struct MHD_Connection *connection,
				    const char *path, const char *method, struct asking **ret)
{
	char name[POLICY_NAME_BYTES];
	const struct verb *verb;
	enum MHD_Result result;
	bool right;

	*ret = NULL;
	result = switch_check_client(s, connection, &right);
	if (!right)
		return result;
	verb = switch_find_verb(path, name);
	if (!verb)
		return switch_refuse(connection, MHD_HTTP_NOT_FOUND, NULL,
				     "there is no such path; it is /v1/tenants/NAME/ and suspend, resume "
				     "or state, or /tenants/NAME/ and sleep, wake_up or is_sleeping");
	if (!switch_takes(verb, method))
		return switch_send(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
				   switch_write_error(name, switch_moves(verb)
								    ? "it changes the tenant: POST it"
								    : "it only says something: GET it"),
				   MHD_HTTP_HEADER_ALLOW, switch_moves(verb) ? "POST" : "GET, HEAD");
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return MHD_NO;
	(*ret)->connection = connection;
	(*ret)->verb = verb;
	memcpy((*ret)->name, name, sizeof(name));
	return MHD_YES;
}

/* --- Moves ------------------------------------------------------------------------------------ */

static const char *switch_argument(const struct asking *asking, const char *key)
{
	return MHD_lookup_connection_value(asking->connection, MHD_GET_ARGUMENT_KIND, key);
}

/* The reason why the arguments are wrong; NULL: they are right, and in the request. */
static const char *switch_read_request(const struct asking *asking, struct control_request *request)
{
	const char *timeout = switch_argument(asking, "timeout");
	const char *notice = switch_argument(asking, "notice");
	const char *level = switch_argument(asking, "level"), *tags = switch_argument(asking, "tags");
	bool suspends = asking->verb->what == WHAT_SUSPEND, sleeps = asking->verb->quiet && suspends;
	uint64_t notice_us = 0;

	*request = (struct control_request){
		.verb = suspends ? CONTROL_SUSPEND : CONTROL_RESUME,
		.timeout_us = PATIENCE_US};
	memcpy(request->name, asking->name, sizeof(asking->name));
	if (timeout && parse_duration_us(timeout, CONTROL_TIMEOUT_MAX_US, &request->timeout_us) < 0)
		return "timeout: write a time up to 600s, like ?timeout=10s";
	if (notice && (!suspends || parse_duration_us(notice, CONTROL_NOTICE_MAX_US, &notice_us) < 0))
		return "notice: write a time up to 60s, like ?notice=2s, of a suspend";
	request->notice_ms = (uint32_t)(notice_us / 1000);
	if (!sleeps)
		return NULL;
	if (tags)
		return "tags: allot moves all of a tenant's memory, or none; leave it out";
	if (level && strcmp(level, "1") != 0 && strcmp(level, "2") != 0)
		return "level: it is 1, or 2 with contexts; allot has no other";
	if (level && *level == '2')
		request->said = CONTROL_SAID_CONTEXTS;
	return NULL;
}

/* The place that has been unused for longest. NULL: all are under way. */
static struct switching *switch_place(struct switches *s)
{
	struct switching *best = NULL;

	for (int i = 0; i < MOVES; i++) {
		struct switching *one = &s->list[i];

		if (!one->move.pid && !one->asking && (!best || one->ended_ns < best->ended_ns))
			best = one;
	}
	return best;
}

static void switch_watch(struct switches *s, struct switching *on)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = on};

	on->blind = epoll_ctl(s->source.fd, EPOLL_CTL_ADD, on->move.out, &event) < 0;
}

static void switch_begin_move(struct switches *s, struct switching *on, struct asking *asking,
			      const struct control_request *request)
{
	memcpy(on->name, asking->name, sizeof(on->name));
	on->away = request->verb == CONTROL_SUSPEND;
	on->due_ns = now_monotonic_ns() + BOUND_TIMES * request->timeout_us * NS_PER_US + BOUND_NS +
		     (on->away ? request->notice_ms * NS_PER_MS : 0);
	on->asking = asking;
	asking->on = on;
	switch_watch(s, on);
}

static enum MHD_Result switch_start(struct switches *s, struct asking *asking)
{
	struct switching *on = switch_place(s);
	struct visit *visit = server_visit(asking->connection);
	struct control_request request;
	const char *wrong = switch_read_request(asking, &request);
	int r;

	if (wrong)
		return switch_refuse(asking->connection, MHD_HTTP_BAD_REQUEST, asking->name, "%s", wrong);
	if (!switch_state_is_there(s->runtime, asking->name))
		return switch_refuse(asking->connection, MHD_HTTP_NOT_FOUND, asking->name,
				     SWITCH_NO_TENANT, asking->name, s->runtime);
	if (s->ending)
		return switch_refuse(asking->connection, MHD_HTTP_SERVICE_UNAVAILABLE, asking->name,
				     "allotd ends; try again when it is back");
	if (!on || !visit)
		return switch_refuse(asking->connection, MHD_HTTP_SERVICE_UNAVAILABLE, asking->name,
				     "%d moves are under way, and no more may be; try again", MOVES);
	*on = (struct switching){.move = {.out = -EBADF}};
	r = moves_start(&request, &on->move);
	if (r < 0)
		return switch_refuse(asking->connection, MHD_HTTP_INTERNAL_SERVER_ERROR, asking->name,
				     "%s", r == -ENOENT ? "allot is not beside this allotd; have both "
							  "installed"
							: strerror(-r));
	switch_begin_move(s, on, asking, &request);
	server_begin_wait(asking->connection, visit);
	return MHD_YES;
}

static unsigned int switch_status(int error)
{
	switch (error) {
	case 0:
		return MHD_HTTP_OK;
	case -ENOSPC:
	case -ESHUTDOWN:
		return MHD_HTTP_SERVICE_UNAVAILABLE;
	case -ETIMEDOUT:
		return MHD_HTTP_GATEWAY_TIMEOUT;
	}
	return MHD_HTTP_CONFLICT;
}

/* The move has ended. */
static enum MHD_Result switch_finish(struct switches *s, struct asking *asking)
{
	unsigned int status = switch_status(asking->on->answer.error);
	char words[WORDS_BYTES], *text;

	asking->on->asking = NULL;
	switch_plain_words(asking->on->answer.words, words);
	asking->on = NULL;
	if (status != MHD_HTTP_OK)
		return switch_refuse(asking->connection, status, asking->name, "%s", words);
	if (asking->verb->quiet)
		return switch_send(asking->connection, status, strdup(""), NULL, NULL);
	if (switch_state_write(s->runtime, asking->name, words, NULL, &text) < 0)
		text = switch_write("tenant", asking->name, "words", words);
	return switch_send(asking->connection, status, text, NULL, NULL);
}

/* --- States ----------------------------------------------------------------------------------- */

/* Why the tenant's last move, if it is not forgotten, did not succeed. NULL: it did. */
static const struct switch_failure *switch_last_failure(const struct switches *s, const char *name,
							struct switch_failure *ret,
							char words[static WORDS_BYTES])
{
	const struct switching *last = NULL;

	for (int i = 0; i < MOVES; i++)
		if (s->list[i].ended_ns && !strcmp(s->list[i].name, name) &&
		    (!last || s->list[i].ended_ns > last->ended_ns))
			last = &s->list[i];
	if (!last || !last->answer.error)
		return NULL;
	switch_plain_words(last->answer.words, words);
	*ret = (struct switch_failure){words, last->away};
	return ret;
}

static enum MHD_Result switch_tell(const struct switches *s, const struct asking *asking)
{
	struct switch_failure failure;
	char words[WORDS_BYTES], *text = NULL;
	int r;

	if (asking->verb->what == WHAT_IS_SLEEPING) {
		r = switch_state_write_sleeping(s->runtime, asking->name, &text);
	} else {
		r = switch_state_write(s->runtime, asking->name, NULL,
				       switch_last_failure(s, asking->name, &failure, words), &text);
	}
	if (r == -ENOENT)
		return switch_refuse(asking->connection, MHD_HTTP_NOT_FOUND, asking->name,
				     SWITCH_NO_TENANT, asking->name, s->runtime);
	if (r < 0)
		return switch_refuse(asking->connection, MHD_HTTP_SERVICE_UNAVAILABLE, asking->name,
				     "tenant \"%s\" cannot be read: %s", asking->name,
				     switch_state_words(r));
	return switch_send(asking->connection, MHD_HTTP_OK, text, NULL, NULL);
}

/* --- Requests --------------------------------------------------------------------------------- */

static enum MHD_Result switch_answer(void *arg, struct MHD_Connection *connection, const char *path,
				     const char *method, const char *version, const char *upload,
				     size_t *upload_bytes, void **of_request)
{
	struct switches *s = arg;
	struct asking *asking = *of_request;
	enum MHD_Result result;

	if (!asking) {
		result = switch_begin(s, connection, path, method, &asking);
		*of_request = asking;
		return result;
	}
	if (*upload_bytes) { /* nothing in it is of use */
		asking->body_bytes += *upload_bytes;
		*upload_bytes = 0;
		return asking->body_bytes > BODY_BYTES ? MHD_NO : MHD_YES;
	}
	if (asking->on)
		return switch_finish(s, asking);
	return switch_moves(asking->verb) ? switch_start(s, asking) : switch_tell(s, asking);
}

static void switch_end(void *arg, void *of_request)
{
	struct asking *asking = of_request;

	if (asking && asking->on)
		asking->on->asking = NULL;
	free(asking);
}

/* Ended by us; it may have succeeded before that. */
static void switch_note_bounded(struct switching *on)
{
	static const char words[] = "it took too long, and was called off; ask for the tenant's state";

	if (!on->bounded || !on->answer.error)
		return;
	on->answer.error = -ETIMEDOUT;
	memcpy(on->answer.words, words, sizeof(words));
}

static void switch_go_on(struct switches *s, struct switching *on)
{
	bool silent = on->move.silent;

	if (moves_read(&on->move, &on->answer)) {
		if (on->move.silent != silent)
			switch_watch(s, on);
		return;
	}
	switch_note_bounded(on);
	on->ended_ns = now_monotonic_ns();
	if (on->asking)
		server_end_wait(s->server, on->asking->connection);
}

static void switch_end_late(struct switches *s)
{
	uint64_t now_ns = now_monotonic_ns();

	for (int i = 0; i < MOVES; i++) {
		struct switching *on = &s->list[i];

		if (!on->move.pid || now_ns < on->due_ns)
			continue;
		kill(on->move.pid, SIGTERM);
		on->bounded = true;
		on->due_ns = now_ns + BOUND_NS;
	}
}

static void switch_ready(struct loop_source *source)
{
	struct switches *s = (struct switches *)source;
	struct epoll_event event[MOVES];
	int n = epoll_wait(source->fd, event, MOVES, 0);

	for (int i = 0; i < n; i++)
		switch_go_on(s, event[i].data.ptr);
	for (int i = 0; i < MOVES; i++)
		if (s->list[i].move.pid && s->list[i].blind)
			switch_go_on(s, &s->list[i]);
	switch_end_late(s);
}

static int switch_timeout_ms(struct loop_source *source)
{
	const struct switches *s = (const struct switches *)source;
	uint64_t now_ns = now_monotonic_ns(), next_ns = UINT64_MAX;

	for (int i = 0; i < MOVES; i++) {
		if (!s->list[i].move.pid)
			continue;
		next_ns = min_u64(next_ns, s->list[i].due_ns);
		if (s->list[i].blind)
			next_ns = min_u64(next_ns, now_ns + BLIND_NS);
	}
	if (next_ns == UINT64_MAX)
		return -1;
	return next_ns <= now_ns ? 0 : (int)min_u64((next_ns - now_ns) / NS_PER_MS + 1, 60000);
}

int switch_open(struct loop *loop, const struct listen_address *address, const char *runtime,
		const char *token, struct switches **ret)
{
	struct switches *s = calloc(1, sizeof(*s));
	const struct server_user user = {.answer = switch_answer, .end = switch_end, .arg = s};
	int r;

	if (!s)
		return -ENOMEM;
	s->runtime = runtime;
	s->token = token;
	s->source = (struct loop_source){.fd = epoll_create1(EPOLL_CLOEXEC),
					 .ready = switch_ready,
					 .timeout_ms = switch_timeout_ms};
	r = s->source.fd < 0 ? -errno : server_open(loop, address, &user, &s->server);
	if (!r)
		r = loop_add(loop, &s->source);
	if (r < 0)
		switch_close(s);
	else
		*ret = s;
	return r;
}

static void switch_leave(struct switches *s, struct switching *on)
{
	static const char words[] = "allotd ends; ask for the tenant's state when it is back: a move "
				    "that is under way may be called off";

	on->answer.error = -ESHUTDOWN;
	memcpy(on->answer.words, words, sizeof(words));
	server_end_wait(s->server, on->asking->connection);
}

void switch_close(struct switches *s)
{
	if (!s)
		return;
	s->ending = true; /* server_end_wait() takes requests, too */
	for (int i = 0; i < MOVES; i++)
		if (s->list[i].move.pid && s->list[i].asking)
			switch_leave(s, &s->list[i]);
	server_close(s->server);
	if (s->source.fd >= 0)
		close(s->source.fd);
	free(s);
}
