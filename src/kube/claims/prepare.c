/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/claims/prepare.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "base/number.h"
#include "kube/claims/claim.h"
#include "kube/state/counts.h"
#include "kube/grants/grant.h"
#include "kube/claims/prepare_answer.h"
#include "kube/wire/name.h"
#include "kube/wire/reply.h"
#include "text/log.h"

/* The kubelet waits for 45 s. A claim that waits for one of few connections counts, too. */
#define FETCH_MS 38000
#define FETCH_NS (40000 * NS_PER_MS)

#define FETCHES_MOST 256 /* in flight */
#define CLAIMS_MOST  256 /* of a call */
#define WHY_BYTES    1024

/* A claim of a call, which waits for its fetch. */
struct waiter {
	struct waiter *next;
	struct preparing *of;
	size_t i;
};

/* A call that is not answered yet. */
struct preparing {
	struct preparing *next;
	struct prepare *prepare;
	struct grpc_call *call;
	uint64_t since_ns;
	size_t left; /* claims without an answer */
	bool failed; /* there was no memory for an answer */
	Dra__NodePrepareResourcesRequest *request;
	Dra__NodePrepareResourcesResponse *response;
	struct waiter waiter[];
};

/* A claim on its way from the API server. */
struct fetch {
	struct fetch *next;
	struct prepare *prepare;
	struct api_call *api_call;
	struct waiter *waiter;
	uint64_t until_ns;
	char space[KUBE_NAME_BYTES], name[KUBE_NAME_BYTES], uid[CLAIM_UID_BYTES];
};

struct prepare {
	struct api *api;
	const struct kube_conf *conf;
	const struct node_devices *devices;
	struct preparing *preparing;
	struct fetch *fetch;
	size_t nfetches;
	struct claim claim; /* the one that is looked at */
};

/* --- Answers ------------------------------------------------------------------------------- */

static void preparing_free(struct preparing *p)
{
	struct preparing **at = &p->prepare->preparing;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	dra__node_prepare_resources_request__free_unpacked(p->request, NULL);
	dra__node_prepare_resources_response__free_unpacked(p->response, NULL);
	free(p);
}

/* One claim more has its answer. */
static void preparing_done(struct preparing *p)
{
	if (--p->left)
		return;
	if (p->failed)
		grpc_finish(p->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		reply(p->call, &p->response->base);
	counts_answered(COUNTS_PREPARE, p->since_ns);
	preparing_free(p);
}

__attribute__((format(printf, 3, 4))) static void preparing_fail(struct preparing *p, size_t i,
								 const char *fmt, ...)
{
	const Dra__Claim *claim = p->request->claims[i];
	char why[WHY_BYTES];
	va_list args;
	int n;

	n = snprintf(why, sizeof(why), "ResourceClaim %.63s/%.253s: ", claim->namespace_, claim->name);
	va_start(args, fmt);
	vsnprintf(why + n, sizeof(why) - (size_t)n, fmt, args);
	va_end(args);
	log_line(LOG_WARN, "%s", why);
	p->failed |= !prepare_answer_fail(p->response->claims[i]->value, why);
	preparing_done(p);
}

static void preparing_answer(struct preparing *p, size_t i, const struct claim *claim)
{
	char why[GRANT_WHY] = "";
	int r = prepare_answer_devices(p->response->claims[i]->value, claim, p->prepare->conf, why);

	if (r < 0 && r != -ENOMEM) {
		preparing_fail(p, i, "%s", why);
		return;
	}
	p->failed |= r < 0;
	preparing_done(p);
}

/* --- Grants -------------------------------------------------------------------------------- */

struct recalling {
	struct prepare *prepare;
	int of; /* so many grants the claim has */
	char why[CLAIM_WHY];
};

/* A grant without a memo that can be read is one that is not there. */
static int prepare_recall_one(const char *id, void *arg)
{
	struct recalling *recalling = arg;
	struct prepare *prepare = recalling->prepare;
	char memo[GRANT_MEMO_BYTES];
	int r = grant_memo(prepare->conf, id, memo);

	if (!r)
		r = claim_recall(id, memo, prepare->devices, &prepare->claim, recalling->why);
	if (r > 0)
		recalling->of = r;
	return r == -ENODEV || r == -EIO ? r : 0;
}

/* 1: all grants are there, and in prepare->claim; 0; -ENODEV, -EIO with words. */
static int prepare_recall(struct prepare *prepare, const char *uid, char why[static CLAIM_WHY])
{
	struct recalling recalling = {.prepare = prepare};
	int r;

	prepare->claim.ngrants = prepare->claim.nresults = 0;
	r = grant_list(prepare->conf, claim_prefix(uid).s, prepare_recall_one, &recalling);
	if (r == -ENODEV || r == -EIO) {
		memcpy(why, recalling.why, CLAIM_WHY);
		return r;
	}
	return recalling.of && prepare->claim.ngrants == (unsigned int)recalling.of;
}

struct dropping {
	const struct kube_conf *conf;
	int error;
	char why[GRANT_WHY];
};

static int prepare_drop_one(const char *id, void *arg)
{
	struct dropping *dropping = arg;
	char why[GRANT_WHY];
	int r = grant_drop(dropping->conf, id, why);

	if (r < 0 && !dropping->error) {
		dropping->error = r;
		memcpy(dropping->why, why, sizeof(why));
	}
	return 0;
}

static int prepare_drop(const struct prepare *prepare, const char *uid, char why[static GRANT_WHY])
{
	struct dropping dropping = {.conf = prepare->conf};
	int r = grant_list(prepare->conf, claim_prefix(uid).s, prepare_drop_one, &dropping);

	if (r < 0 && r != -ENOENT) {
		snprintf(why, GRANT_WHY, "%.255s cannot be read: %s", prepare->conf->cdi, strerror(-r));
		return r;
	}
	memcpy(why, dropping.why, GRANT_WHY);
	return dropping.error;
}

/* All of prepare->claim's or none, and none without NVIDIA's driver, which a Pod would miss. */
static int prepare_put(struct prepare *prepare, const char *uid, char why[static GRANT_WHY])
{
	static struct grant_names names;
	const struct claim *claim = &prepare->claim;
	char words[GRANT_WHY];
	int r = 0;

	for (unsigned int i = 0; !r && i < claim->ngrants; i++)
		r = grant_names(prepare->conf, &claim->grant[i].grant, &names, why);
	if (r)
		return r;
	for (unsigned int i = 0; !r && i < claim->ngrants; i++)
		r = grant_put(prepare->conf, &claim->grant[i].grant, why);
	if (r)
		(void)prepare_drop(prepare, uid, words);
	return r;
}

/* --- Fetches ------------------------------------------------------------------------------- */

static void fetch_free(struct fetch *fetch)
{
	struct fetch **at = &fetch->prepare->fetch;

	while (*at != fetch)
		at = &(*at)->next;
	*at = fetch->next;
	fetch->prepare->nfetches--;
	if (fetch->api_call)
		api_forget(fetch->api_call);
	free(fetch);
}

/* It is over: `why` for all that wait, or prepare->claim. */
static void fetch_end(struct fetch *fetch, const char *why)
{
	struct waiter *waiter = fetch->waiter, *next;
	const struct claim *claim = &fetch->prepare->claim;

	fetch_free(fetch);
	for (; waiter; waiter = next) {
		next = waiter->next;
		if (why)
			preparing_fail(waiter->of, waiter->i, "%s", why);
		else
			preparing_answer(waiter->of, waiter->i, claim);
	}
}

static void fetch_explain(int status, const char *bytes, char why[static GRANT_WHY])
{
	if (status < 0)
		snprintf(why, GRANT_WHY, "the API server does not answer: %.300s", bytes);
	else if (status == 404)
		snprintf(why, GRANT_WHY, "there is no such claim any more");
	else if (status == 401 || status == 403)
		snprintf(why, GRANT_WHY,
			 "the API server refuses it with %d: allotd's service account needs `get` on "
			 "resourceclaims of resource.k8s.io",
			 status);
	else
		snprintf(why, GRANT_WHY, "the API server answers with status %d", status);
}

static void fetch_ended(void *arg, int status, const char *bytes, size_t len)
{
	struct fetch *fetch = arg;
	struct prepare *prepare = fetch->prepare;
	const struct claim_id id = {fetch->space, fetch->name, fetch->uid};
	char why[GRANT_WHY] = "";
	int r = -EIO;

	_Static_assert(GRANT_WHY >= CLAIM_WHY, "either's words have room");
	fetch->api_call = NULL;
	if (status != 200)
		fetch_explain(status, bytes, why);
	else
		r = claim_read(bytes, len, &id, prepare->conf, prepare->devices, &prepare->claim, why);
	if (!r)
		r = prepare_put(prepare, fetch->uid, why);
	fetch_end(fetch, r ? why : NULL);
}

static struct fetch *prepare_find_fetch(const struct prepare *prepare, const Dra__Claim *claim)
{
	struct fetch *f = prepare->fetch;

	while (f && (strcmp(f->uid, claim->uid) || strcmp(f->name, claim->name) ||
		     strcmp(f->space, claim->namespace_)))
		f = f->next;
	return f;
}

static int fetch_ask(struct fetch *fetch)
{
	char path[CLAIM_PATH_BYTES];

	claim_path(fetch->space, fetch->name, path);
	return api_get(fetch->prepare->api, path, FETCH_MS, fetch_ended, fetch, &fetch->api_call);
}

static int prepare_fetch(struct prepare *prepare, const Dra__Claim *claim, struct fetch **ret)
{
	struct fetch *fetch;
	int r;

	if (prepare->nfetches == FETCHES_MOST)
		return -EBUSY;
	fetch = calloc(1, sizeof(*fetch));
	if (!fetch)
		return -ENOMEM;
	fetch->prepare = prepare;
	fetch->until_ns = now_monotonic_ns() + FETCH_NS;
	snprintf(fetch->space, sizeof(fetch->space), "%s", claim->namespace_);
	snprintf(fetch->name, sizeof(fetch->name), "%s", claim->name);
	snprintf(fetch->uid, sizeof(fetch->uid), "%s", claim->uid);
	fetch->next = prepare->fetch;
	prepare->fetch = fetch;
	prepare->nfetches++;
	r = fetch_ask(fetch);
	if (r < 0)
		fetch_free(fetch);
	else
		*ret = fetch;
	return r;
}

/* --- Prepare ------------------------------------------------------------------------------- */

static void preparing_wait(struct preparing *p, size_t i)
{
	const Dra__Claim *claim = p->request->claims[i];
	struct fetch *fetch = prepare_find_fetch(p->prepare, claim);
	int r = fetch ? 0 : prepare_fetch(p->prepare, claim, &fetch);

	if (r < 0) {
		preparing_fail(p, i, "the API server cannot be asked: %s", strerror(-r));
		return;
	}
	p->waiter[i] = (struct waiter){fetch->waiter, p, i};
	fetch->waiter = &p->waiter[i];
}

static void preparing_begin(struct preparing *p, size_t i)
{
	const Dra__Claim *claim = p->request->claims[i];
	char why[CLAIM_WHY];
	int r;

	if (!claim_uid_valid(claim->uid) || !name_is_valid(claim->namespace_) ||
	    !name_is_valid(claim->name)) {
		preparing_fail(p, i, "its name or uid is none that Kubernetes gives");
		return;
	}
	r = prepare_recall(p->prepare, claim->uid, why);
	if (r < 0)
		preparing_fail(p, i, "%s", why);
	else if (r)
		preparing_answer(p, i, &p->prepare->claim);
	else
		preparing_wait(p, i);
}

static struct preparing *preparing_new(struct prepare *prepare, struct grpc_call *call,
				       Dra__NodePrepareResourcesRequest *request)
{
	struct preparing *p = calloc(1, sizeof(*p) + request->n_claims * sizeof(p->waiter[0]));
	Dra__NodePrepareResourcesResponse *response = prepare_answer_new(request);

	if (!p || !response) {
		if (response)
			dra__node_prepare_resources_response__free_unpacked(response, NULL);
		free(p);
		return NULL;
	}
	p->prepare = prepare;
	p->call = call;
	p->since_ns = now_monotonic_ns();
	p->request = request;
	p->response = response;
	p->next = prepare->preparing;
	prepare->preparing = p;
	return p;
}

void prepare_called(struct prepare *prepare, struct grpc_call *call, const uint8_t *request, size_t len)
{
	Dra__NodePrepareResourcesRequest *unpacked =
		dra__node_prepare_resources_request__unpack(NULL, len, request);
	struct preparing *p;
	size_t n = unpacked ? unpacked->n_claims : 0;

	if (!unpacked || n > CLAIMS_MOST) {
		if (unpacked)
			dra__node_prepare_resources_request__free_unpacked(unpacked, NULL);
		grpc_finish(call, GRPC_INVALID_ARGUMENT, "that is no request to prepare at most 256 claims");
		return;
	}
	p = preparing_new(prepare, call, unpacked);
	if (!p) {
		dra__node_prepare_resources_request__free_unpacked(unpacked, NULL);
		grpc_finish(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	p->left = n + 1; /* it may not be over before all have begun */
	for (size_t i = 0; i < n; i++)
		preparing_begin(p, i);
	preparing_done(p);
}

static void fetch_leave(struct fetch *fetch, const struct preparing *p)
{
	struct waiter **at = &fetch->waiter;

	while (*at) {
		if ((*at)->of == p)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	}
	if (!fetch->waiter)
		fetch_free(fetch);
}

void prepare_gone(struct prepare *prepare, const struct grpc_call *call)
{
	struct preparing *p = prepare->preparing;
	struct fetch *next;

	while (p && p->call != call)
		p = p->next;
	if (!p)
		return;
	for (struct fetch *fetch = prepare->fetch; fetch; fetch = next) {
		next = fetch->next;
		fetch_leave(fetch, p);
	}
	preparing_free(p);
}

/* --- Unprepare ----------------------------------------------------------------------------- */

static void prepare_stop_fetches(struct prepare *prepare, const char *uid)
{
	struct fetch *fetch = prepare->fetch;

	while (fetch) {
		if (strcmp(fetch->uid, uid)) {
			fetch = fetch->next;
			continue;
		}
		fetch_end(fetch, "it was given up meanwhile");
		fetch = prepare->fetch; /* an answer may have ended others */
	}
}

/* Nothing of a claim is here whose uid is none. */
int prepare_undo(struct prepare *prepare, const char *uid, char why[static GRANT_WHY])
{
	if (!claim_uid_valid(uid))
		return 0;
	prepare_stop_fetches(prepare, uid);
	return prepare_drop(prepare, uid, why);
}

struct undone {
	Dra__NodeUnprepareResourcesResponse__ClaimsEntry entry, *list;
	Dra__NodeUnprepareResourceResponse answer;
	char why[GRANT_WHY];
};

static void undone_fill(struct prepare *prepare, const Dra__Claim *claim, struct undone *u)
{
	dra__node_unprepare_resources_response__claims_entry__init(&u->entry);
	dra__node_unprepare_resource_response__init(&u->answer);
	u->entry.key = claim->uid;
	u->entry.value = &u->answer;
	if (prepare_undo(prepare, claim->uid, u->why) < 0) {
		log_line(LOG_WARN, "ResourceClaim %s/%s: %s", claim->namespace_, claim->name, u->why);
		u->answer.error = u->why;
	}
}

static void undo_all(struct prepare *prepare, struct grpc_call *call,
		     const Dra__NodeUnprepareResourcesRequest *request)
{
	Dra__NodeUnprepareResourcesResponse response = DRA__NODE_UNPREPARE_RESOURCES_RESPONSE__INIT;
	struct undone *undone = calloc(request->n_claims + 1, sizeof(*undone));
	Dra__NodeUnprepareResourcesResponse__ClaimsEntry **list =
		calloc(request->n_claims + 1, sizeof(*list));

	for (size_t i = 0; undone && list && i < request->n_claims; i++) {
		undone_fill(prepare, request->claims[i], &undone[i]);
		list[i] = &undone[i].entry;
	}
	response.claims = list;
	response.n_claims = request->n_claims;
	if (undone && list)
		reply(call, &response.base);
	else
		grpc_finish(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	free(list);
	free(undone);
}

void prepare_undo_called(struct prepare *prepare, struct grpc_call *call, const uint8_t *request,
			 size_t len)
{
	Dra__NodeUnprepareResourcesRequest *unpacked =
		dra__node_unprepare_resources_request__unpack(NULL, len, request);

	if (unpacked && unpacked->n_claims <= CLAIMS_MOST)
		undo_all(prepare, call, unpacked);
	else
		grpc_finish(call, GRPC_INVALID_ARGUMENT, "that is no request to unprepare at most 256 claims");
	if (unpacked)
		dra__node_unprepare_resources_request__free_unpacked(unpacked, NULL);
}

/* --- Time ---------------------------------------------------------------------------------- */

int prepare_timeout_ms(const struct prepare *prepare)
{
	uint64_t now = now_monotonic_ns(), least = UINT64_MAX;

	for (const struct fetch *fetch = prepare->fetch; fetch; fetch = fetch->next)
		least = min_u64(least, sat_sub_u64(fetch->until_ns, now));
	return least == UINT64_MAX ? -1 : (int)((least + NS_PER_MS - 1) / NS_PER_MS);
}

void prepare_expire(struct prepare *prepare)
{
	uint64_t now = now_monotonic_ns();
	struct fetch *fetch = prepare->fetch;

	while (fetch) {
		if (fetch->until_ns > now) {
			fetch = fetch->next;
			continue;
		}
		fetch_end(fetch, "the API server does not answer in time");
		fetch = prepare->fetch;
	}
}

/* --- All of it ----------------------------------------------------------------------------- */

int prepare_open(struct api *api, const struct kube_conf *conf, const struct node_devices *devices,
		 struct prepare **ret)
{
	struct prepare *prepare = calloc(1, sizeof(*prepare));

	if (!prepare)
		return -ENOMEM;
	prepare->api = api;
	prepare->conf = conf;
	prepare->devices = devices;
	*ret = prepare;
	return 0;
}

void prepare_close(struct prepare *prepare)
{
	if (!prepare)
		return;
	while (prepare->fetch)
		fetch_end(prepare->fetch, "allotd ends: try again");
	free(prepare);
}
