/* SPDX-License-Identifier: Apache-2.0 */
/* The web server: pages that are written when they are asked for. Nothing can be changed by it. */
#ifndef ALLOT_DAEMON_WEB_HTTP_H
#define ALLOT_DAEMON_WEB_HTTP_H

#include "base/loop.h"
#include "daemon/web/answers.h"
#include "daemon/web/listen.h"

struct http;

struct http_page {
	const char *path, *type;
	const char *policy; /* what a browser may load for it; NULL: nothing */
	answers_writer *write;
};

/*
 * Listens on `address`, with pages that end with a path of NULL. -errno of bind and listen; -EIO
 * where the library will not.
 */
int http_open(struct loop *loop, const struct listen_address *address, const struct http_page *pages,
	      void *arg, struct http **ret);
void http_close(struct http *http); /* takes NULL; before the loop is closed */

#endif
