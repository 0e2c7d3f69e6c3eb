/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the API server, by libcurl, on the loop's thread: nothing here waits. The account's token is
 * read anew for each request, since it is replaced from time to time, and goes over https alone. The server
 * is known by the account's ca.crt and by nothing else; no proxy of the environment is used. Callbacks may
 * ask and forget; they may not close.
 */
#ifndef ALLOT_KUBE_WIRE_API_H
#define ALLOT_KUBE_WIRE_API_H

#include <stddef.h>

#include "base/loop.h"
#include "kube/state/conf.h"

#define API_ANSWER_MOST ((size_t)4 << 20) /* bytes of an answer, or of a line of a watch */

struct api;
struct api_call;

struct api_request {
	const char *method; /* "GET", "POST", "PUT", "PATCH", "DELETE" */
	const char *path;   /* with its query: "/apis/resource.k8s.io/v1/resourceslices?..." */
	const char *type;   /* of the body; NULL: "application/json" */
	const char *body;   /* NULL: none; is copied */
	int timeout_ms; /* for all of it; 0: none, as for a watch that ends by the server's timeoutSeconds */
	/*
	 * Once: the status of HTTP, or -errno where there was no answer (-ETIMEDOUT, -ECONNREFUSED, -EMSGSIZE,
	 * -EIO). The bytes end with a NUL that is not counted, and are gone when this returns; without an
	 * answer they are words of why.
	 */
	void (*ended)(void *arg, int status, const char *bytes, size_t len);
	/*
	 * Of a watch: each line, without its end. An answer other than 200 is none, and `ended` has it. NULL:
	 * the answer is one, and `ended` has it.
	 */
	void (*line)(void *arg, const char *bytes, size_t len);
	void *arg;
};

/*
 * -errno. -ENOSYS: libcurl cannot be loaded, which was logged. -ENOENT: no API server is named, and none
 * is told to this process as to a Pod's; -EINVAL: what is named is no URL of http or https.
 */
int api_open(struct loop *loop, const struct kube_conf *conf, struct api **ret);
/* Its calls end (-ECANCELED). Takes NULL. The loop is not run after this: it keeps its sources. */
void api_close(struct api *api);

/*
 * -errno where `ended` will not be heard; other than -ENOMEM, -ENAMETOOLONG and -ECANCELED they are of the
 * token's file. `ret`, which may be NULL, is good until `ended`. `path` has no characters that a URL must
 * escape.
 */
int api_ask(struct api *api, const struct api_request *request, struct api_call **ret);
/* GET, of which the answer comes as one; otherwise as api_ask. */
int api_get(struct api *api, const char *path, int timeout_ms,
	    void (*ended)(void *arg, int status, const char *bytes, size_t len), void *arg,
	    struct api_call **ret);
/* `ended` is not heard any more. */
void api_forget(struct api_call *call);

#endif
