/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants suspended and resumed by HTTP, for programs that have the site's token (token.h): in
 * allot's own words below /v1/tenants/, and in those of vLLM's sleep mode below /tenants/. It is an
 * address of its own: pages (http.h) change nothing. A move is the command beside this daemon
 * (daemon/users/moves.h) and goes on to its end if its client goes away; what takes longer than a
 * bound is called off.
 *
 *	request ── Host, Origin, token, path, method, body ── state: answered at once
 *	                                                   └─ move: the connection waits ── its end: answered
 */
#ifndef ALLOT_DAEMON_SWITCH_SWITCH_H
#define ALLOT_DAEMON_SWITCH_SWITCH_H

#include "base/loop.h"
#include "daemon/web/listen.h"

struct switches;

/* `runtime` and `token`, a path, stay where they are. Errors as server_open(). */
int switch_open(struct loop *loop, const struct listen_address *address, const char *runtime,
		const char *token, struct switches **ret);
/*
 * Takes NULL; before the loop is closed. Moves that are under way are left: systemd and a container end
 * them together with the daemon, and they are called off then.
 */
void switch_close(struct switches *switches);

#endif
