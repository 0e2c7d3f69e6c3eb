/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NodePrepareResources and NodeUnprepareResources. A claim is read once, from the API server, and kept as its
 * grants. An allocation does not change while it is in use, so a claim whose grants are all on disk is answered
 * from them.
 *
 *	the claim's uid		prepare				unprepare
 *	no grants		fetch				nothing
 *	fetched			waits for the same answer	ends the fetch: it fails for all that wait
 *	some of its grants	fetch, which writes all		removes them
 *	all of its grants	answers from them		removes them
 *
 * A prepare that fails leaves no grant. A fetch ends when its last caller has given up.
 */
#ifndef ALLOT_KUBE_CLAIMS_PREPARE_H
#define ALLOT_KUBE_CLAIMS_PREPARE_H

#include "kube/wire/api.h"
#include "kube/state/conf.h"
#include "kube/grants/grant.h"
#include "kube/wire/grpc.h"
#include "kube/state/node.h"

struct prepare;

/* All stays where it is. -ENOMEM. */
int prepare_open(struct api *api, const struct kube_conf *conf, const struct node_devices *devices,
		 struct prepare **ret);
/* Calls are answered, fetches forgotten, grants stay. Takes NULL. */
void prepare_close(struct prepare *prepare);

/* See struct grpc_method. */
void prepare_called(struct prepare *prepare, struct grpc_call *call, const uint8_t *request, size_t len);
void prepare_gone(struct prepare *prepare, const struct grpc_call *call);
void prepare_undo_called(struct prepare *prepare, struct grpc_call *call, const uint8_t *request,
			 size_t len);

/* Removes what a claim has, and ends what is under way for it. 0 or -errno with words. */
int prepare_undo(struct prepare *prepare, const char *uid, char why[static GRANT_WHY]);

/* Until prepare_expire has something to do; -1: nothing. */
int prepare_timeout_ms(const struct prepare *prepare);
/* Ends the fetches that took too long, whatever became of them. */
void prepare_expire(struct prepare *prepare);

#endif
