/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/claims/claim_sweep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "kube/claims/claim.h"
#include "kube/pods/pod_resources.h"
#include "kube/wire/name.h"
#include "text/log.h"

#define ROUND_NS   (600 * NS_PER_S)
#define TIMEOUT_MS 20000

/* A grant whose claim the API server is asked for. */
struct suspect {
	char id[GRANT_ID_BYTES], uid[CLAIM_UID_BYTES], claim[CLAIM_NAME_BYTES];
};

struct claim_sweep {
	struct lister *lister;
	struct lister_hearer hearer;
	struct api *api;
	const struct kube_conf *conf;
	struct prepare *prepare;
	struct api_call *asked; /* NULL: none is under way */
	struct suspect suspect; /* the latest of this round; its id is "" in the beginning */
	uint64_t round_ns;	/* when the round begins */
};

/* --- Which one ----------------------------------------------------------------------------- */

static bool claim_resource_has(const V1__ClaimResource *given, const char *id)
{
	size_t len = strlen(GRANT_KIND "=");

	for (size_t i = 0; i < given->n_cdi_devices; i++)
		if (!strncmp(given->cdi_devices[i]->name, GRANT_KIND "=", len) &&
		    !strcmp(given->cdi_devices[i]->name + len, id))
			return true;
	return false;
}

static bool container_has(const V1__ContainerResources *container, const char *id)
{
	for (size_t i = 0; i < container->n_dynamic_resources; i++) {
		const V1__DynamicResource *claim = container->dynamic_resources[i];

		for (size_t k = 0; k < claim->n_claim_resources; k++)
			if (claim_resource_has(claim->claim_resources[k], id))
				return true;
	}
	return false;
}

static bool list_has(const V1__ListPodResourcesResponse *list, const char *id)
{
	for (size_t i = 0; i < list->n_pod_resources; i++) {
		const V1__PodResources *pod = list->pod_resources[i];

		for (size_t k = 0; k < pod->n_containers; k++)
			if (container_has(pod->containers[k], id))
				return true;
	}
	return false;
}

struct choosing {
	const struct claim_sweep *sweep;
	const V1__ListPodResourcesResponse *list;
	struct suspect *ret; /* the first by its id; "": none so far */
};

/* "claim.UID.REQUEST": false for another. */
static bool suspect_read_uid(const char *id, char ret[static CLAIM_UID_BYTES])
{
	const char *uid = id + strlen(claim_prefix("").s), *end = strchr(uid, '.');

	if (!end || end - uid >= CLAIM_UID_BYTES)
		return false;
	snprintf(ret, CLAIM_UID_BYTES, "%.*s", (int)(end - uid), uid);
	return claim_uid_valid(ret);
}

/* Grants of a version that noted no claim in them are left alone. */
static bool suspect_read(const struct kube_conf *conf, const char *id, struct suspect *ret)
{
	char memo[GRANT_MEMO_BYTES];

	snprintf(ret->id, sizeof(ret->id), "%s", id);
	return suspect_read_uid(id, ret->uid) && grant_memo(conf, id, memo) == 0 &&
	       claim_recall_name(memo, ret->claim) == 0;
}

static int claim_sweep_choose_one(const char *id, void *arg)
{
	const struct choosing *choosing = arg;
	struct suspect suspect;

	if (strcmp(id, choosing->sweep->suspect.id) <= 0 ||
	    (*choosing->ret->id && strcmp(id, choosing->ret->id) >= 0))
		return 0;
	if (!list_has(choosing->list, id) && suspect_read(choosing->sweep->conf, id, &suspect))
		*choosing->ret = suspect;
	return 0;
}

/* --- What the API server says -------------------------------------------------------------- */

static void claim_sweep_drop(const struct claim_sweep *sweep)
{
	const struct suspect *suspect = &sweep->suspect;
	char why[GRANT_WHY] = "";

	log_line(LOG_SAY, "ResourceClaim %s, uid %s, is not this node's any more, and was not unprepared: its grants "
		 "are removed", suspect->claim, suspect->uid);
	if (prepare_undo(sweep->prepare, suspect->uid, why) < 0)
		log_line(LOG_WARN, "ResourceClaim %s: %s", suspect->claim, why);
}

static void claim_sweep_answered(void *arg, int status, const char *bytes, size_t len)
{
	struct claim_sweep *sweep = arg;

	sweep->asked = NULL;
	if ((status == 200 || status == 404) &&
	    claim_is_here(bytes, len, sweep->suspect.uid, sweep->conf) == 0)
		claim_sweep_drop(sweep);
}

/* A claim that cannot be asked for has its turn in the next round. */
static void claim_sweep_ask(struct claim_sweep *sweep)
{
	char path[CLAIM_PATH_BYTES], space[CLAIM_NAME_BYTES], *name;

	snprintf(space, sizeof(space), "%s", sweep->suspect.claim);
	name = strchr(space, '/');
	*name++ = 0;
	if (!name_is_valid(space) || !name_is_valid(name))
		return;
	claim_path(space, name, path);
	(void)api_get(sweep->api, path, TIMEOUT_MS, claim_sweep_answered, sweep, &sweep->asked);
}

/* --- Rounds -------------------------------------------------------------------------------- */

static void claim_sweep_heard(void *arg, const V1__ListPodResourcesResponse *list, const char *why)
{
	struct claim_sweep *sweep = arg;
	struct suspect next = {""};
	struct choosing choosing = {sweep, list, &next};

	if (!list || sweep->asked || now_monotonic_ns() < sweep->round_ns ||
	    !pod_resources_is_whole(sweep->conf, list))
		return;
	grant_list(sweep->conf, claim_prefix("").s, claim_sweep_choose_one, &choosing);
	sweep->suspect = next;
	if (*next.id)
		claim_sweep_ask(sweep);
	else
		sweep->round_ns = now_monotonic_ns() + ROUND_NS;
}

int claim_sweep_open(struct lister *lister, struct api *api, const struct kube_conf *conf,
		     struct prepare *prepare, struct claim_sweep **ret)
{
	struct claim_sweep *sweep = calloc(1, sizeof(*sweep));

	if (!sweep)
		return -ENOMEM;
	*sweep = (struct claim_sweep){.lister = lister,
				      .hearer = {.heard = claim_sweep_heard, .arg = sweep},
				      .api = api,
				      .conf = conf,
				      .prepare = prepare};
	lister_add(lister, &sweep->hearer);
	*ret = sweep;
	return 0;
}

void claim_sweep_close(struct claim_sweep *sweep)
{
	if (!sweep)
		return;
	lister_remove(sweep->lister, &sweep->hearer);
	if (sweep->asked)
		api_forget(sweep->asked);
	free(sweep);
}
