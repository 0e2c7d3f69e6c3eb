/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/http.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "base/number.h"
#include "daemon/web/answers.h"
#include "daemon/web/server.h"

/* How much is passed to the kernel at once, which keeps a little more. */
#define BLOCK_BYTES (64 << 10)
/* In answers of one page that are being taken. */
#define ANSWERS_BYTES (16 << 20)
#define PAGES	      8

struct http {
	struct server *server;
	const struct http_page *pages;
	struct answers *answers[PAGES]; /* of each of these */
};

static enum MHD_Result http_refuse(struct MHD_Connection *connection, unsigned int status,
				   char *why)
{
	return server_send(connection, status, "text/plain", NULL,
			   MHD_create_response_from_buffer(strlen(why), why, MHD_RESPMEM_PERSISTENT));
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
	server_goes_on(taking->visit);
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

static enum MHD_Result http_send_page(struct http *http, struct MHD_Connection *connection, int page)
{
	static char failed[] = "what was asked for cannot be read now; the log says why\n";
	static char full[] = "too many ask at once; try again\n";
	struct visit *visit = server_visit(connection);
	struct answer *answer;

	if (!visit)
		return http_refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, full);
	if (answers_are_crowded(http->answers[page]))
		server_make_room(http->server);
	if (answers_get(http->answers[page], now_monotonic_ns(), &answer) < 0)
		return http_refuse(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, failed);
	server_begin_answer(connection, visit);
	return server_send(connection, MHD_HTTP_OK, http->pages[page].type,
			   http->pages[page].policy, http_offer(answer, visit));
}

static enum MHD_Result http_answer(void *arg, struct MHD_Connection *connection, const char *path,
				   const char *method, const char *version, const char *upload,
				   size_t *upload_bytes, void **of_request)
{
	static char unknown[] = 
		"there is no such page; / is for people, /metrics for Prometheus, /v1 lists what is JSON\n";
	static char changes[] = "pages can be read, and nothing else\n";
	static char misled[] =
		"asked by a name that is not this machine's own: a page of another site may have asked; "
		"write http://localhost, a loopback address in numbers, or what --listen says\n";
	struct http *http = arg;

	if (!server_is_meant(http->server, connection))
		return http_refuse(connection, MHD_HTTP_MISDIRECTED_REQUEST, misled);
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return http_refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, changes);
	for (int i = 0; http->pages[i].path; i++)
		if (!strcmp(path, http->pages[i].path))
			return http_send_page(http, connection, i);
	return http_refuse(connection, MHD_HTTP_NOT_FOUND, unknown);
}

static uint64_t http_due_ns(void *arg, uint64_t now_ns)
{
	const struct http *http = arg;
	uint64_t due_ns = UINT64_MAX;

	for (int i = 0; http->pages[i].path; i++)
		due_ns = min_u64(due_ns, answers_tidy(http->answers[i], now_ns));
	return due_ns;
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
	struct http *http = calloc(1, sizeof(*http));
	const struct server_user user = {.answer = http_answer, .due_ns = http_due_ns, .arg = http};
	int r;

	if (!http)
		return -ENOMEM;
	http->pages = pages;
	r = http_open_answers(http, arg);
	if (!r)
		r = server_open(loop, address, &user, &http->server);
	if (r < 0)
		http_close(http);
	else
		*ret = http;
	return r;
}

void http_close(struct http *http)
{
	if (!http)
		return;
	server_close(http->server);
	for (int i = 0; i < PAGES; i++)
		answers_close(http->answers[i]);
	free(http);
}
