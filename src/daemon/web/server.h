/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP at one address: its connections, and how long they may take. Answers are its user's. A slow
 * client has bounds in each state, so that none keeps others out.
 */
#ifndef ALLOT_DAEMON_WEB_SERVER_H
#define ALLOT_DAEMON_WEB_SERVER_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "daemon/web/listen.h"

struct server;

struct server_user {
	/* As libmicrohttpd calls it, for each request and for each piece of its body. */
	MHD_AccessHandlerCallback answer;
	/* The next time at which run() of it has to be, or UINT64_MAX; NULL: never. */
	uint64_t (*due_ns)(void *arg, uint64_t now_ns);
	/* The answer to a request is sent, or its client is gone; NULL: nobody asks. */
	void (*end)(void *arg, void *of_request);
	void *arg;
};

/* Listens on `address`. -errno of bind and listen; -EIO if the library refuses. */
int server_open(struct loop *loop, const struct listen_address *address,
		const struct server_user *user, struct server **ret);
/* Takes NULL; before the loop is closed. No client may wait: server_end_wait(). */
void server_close(struct server *server);

/* True if the request was asked by a name of this machine's (listen.h). */
bool server_is_meant(const struct server *server, struct MHD_Connection *connection);

/* Closes connections that have taken an answer for long, as others need their place. */
void server_make_room(struct server *server);

/* --- One connection ----------------------------------------------------------------------------- */

struct visit;

/* NULL: all places are taken. */
struct visit *server_visit(struct MHD_Connection *connection);
/* An answer is sent from now on, and has to be taken. */
void server_begin_answer(struct MHD_Connection *connection, struct visit *visit);
/* Some of it was taken. */
void server_goes_on(struct visit *visit);
/* The client waits for us, without a bound of this module's; `answer` is called again after its end. */
void server_begin_wait(struct MHD_Connection *connection, struct visit *visit);
void server_end_wait(struct server *server, struct MHD_Connection *connection);

/* `response` is the library's from then on; NULL: it could not be made. `policy`: see http.h. */
enum MHD_Result server_send(struct MHD_Connection *connection, unsigned int status,
			    const char *type, const char *policy, struct MHD_Response *response);

#endif
