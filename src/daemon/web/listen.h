/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address that pages are served on, and the names by which it may be asked. A page of another
 * site can have its own name lead to 127.0.0.1 (DNS rebinding): a browser on this machine then takes
 * our pages for that site's, and lets its script read them. The name of the site is in the request.
 */
#ifndef ALLOT_DAEMON_WEB_LISTEN_H
#define ALLOT_DAEMON_WEB_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>

struct listen_address {
	struct sockaddr_storage at;
	socklen_t bytes;
};

/*
 * Reads an address in numbers and a port from 1 to 65535, as 127.0.0.1:9478 or [::1]:9478. 0 or
 * -EINVAL.
 */
int listen_parse(const char *text, struct listen_address *ret);

/* A socket that listens there, or -errno. */
int listen_open(const struct listen_address *address);

/*
 * Returns true if a request is answered that came in by the address `local` of this machine. A
 * loopback address answers to localhost, to loopback addresses and to what `address` is; `host` is
 * the request's Host, NULL if it has none, as no browser's request. Other addresses answer to every
 * name: their names are the site's. Pure.
 */
bool listen_answers(const struct listen_address *address, const struct sockaddr *local,
		    const char *host);

#endif
