/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/slot_grants.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/holder.h"
#include "kube/device_id.h"
#include "text/log.h"

struct slot_grant {
	struct slot_grant *next;
	bool listed;	     /* by the list that is being looked through */
	unsigned int missed; /* lists that had it not, since one had it or it was put */
	char slot[DEVICE_ID_BYTES];
};

#define MISSED_ENOUGH 2

struct slot_grants {
	const struct kube_conf *conf;
	struct slot_grant *first;
};

static struct slot_grant *slot_grants_find(const struct slot_grants *grants, const char *slot)
{
	struct slot_grant *g = grants->first;

	while (g && strcmp(g->slot, slot))
		g = g->next;
	return g;
}

/* Also where it is there already. */
static int slot_grants_add(struct slot_grants *grants, const char *slot)
{
	struct slot_grant *g = slot_grants_find(grants, slot);

	if (!g) {
		g = calloc(1, sizeof(*g));
		if (!g)
			return -ENOMEM;
		snprintf(g->slot, sizeof(g->slot), "%s", slot);
		g->next = grants->first;
		grants->first = g;
	}
	g->missed = 0;
	return 0;
}

static int slot_grants_add_id(const char *id, void *arg)
{
	return slot_grants_add(arg, id + strlen(SLOT_GRANT));
}

int slot_grants_open(const struct kube_conf *conf, struct slot_grants **ret)
{
	struct slot_grants *grants = calloc(1, sizeof(*grants));
	int r;

	if (!grants)
		return -ENOMEM;
	grants->conf = conf;
	r = grant_list(conf, SLOT_GRANT, slot_grants_add_id, grants);
	if (r < 0) {
		log_line(LOG_FAULT, "the grants in %s cannot be listed: %s", conf->cdi,
			 strerror(-r));
		slot_grants_close(grants);
		return r;
	}
	*ret = grants;
	return 0;
}

void slot_grants_close(struct slot_grants *grants)
{
	while (grants && grants->first) {
		struct slot_grant *g = grants->first;

		grants->first = g->next;
		free(g);
	}
	free(grants);
}

bool slot_grants_any(const struct slot_grants *grants)
{
	return grants->first;
}

bool slot_grants_have(const struct slot_grants *grants, const char *slot)
{
	return slot_grants_find(grants, slot);
}

struct putting {
	struct slot_grants *grants;
	const char *first, *leader;
	char *why;
};

static int slot_grants_note(struct slot_grants *grants, const char *slot,
			    char why[static GRANT_WHY])
{
	int r = slot_grants_add(grants, slot);

	if (r < 0)
		snprintf(why, GRANT_WHY, "out of memory");
	return r;
}

static int slot_grants_put_beside(const char *slot, void *arg)
{
	const struct putting *p = arg;
	char id[GRANT_ID_BYTES];
	int r;

	if (!strcmp(slot, p->first))
		return 0;
	device_id_grant(slot, id);
	r = grant_put_beside(p->grants->conf, id, p->leader, p->why);
	return r < 0 ? r : slot_grants_note(p->grants, slot, p->why);
}

int slot_grants_put(struct slot_grants *grants, const V1__ContainerResources *container,
		    const char *first, const struct policy *policy, char why[static GRANT_WHY])
{
	static struct grant grant;
	struct putting putting = {grants, first, grant.id, why};
	int r;

	device_id_grant(first, grant.id);
	grant.policy = *policy;
	grant.xpu = true;
	r = grant_put(grants->conf, &grant, why);
	if (r == 0)
		r = slot_grants_note(grants, first, why);
	return r < 0 ? r
		     : holder_each_slot(grants->conf, container, slot_grants_put_beside, &putting);
}

static int slot_grants_see(const char *slot, void *arg)
{
	struct slot_grant *g = slot_grants_find(arg, slot);

	if (g)
		g->listed = true;
	return 0;
}

static void slot_grants_see_all(struct slot_grants *grants,
				const V1__ListPodResourcesResponse *list)
{
	for (size_t i = 0; i < list->n_pod_resources; i++) {
		const V1__PodResources *pod = list->pod_resources[i];

		for (size_t k = 0; k < pod->n_containers; k++)
			holder_each_slot(grants->conf, pod->containers[k], slot_grants_see, grants);
	}
}

/* A grant that cannot be dropped is tried again with the next list. */
static int slot_grants_drop(const struct slot_grants *grants, const struct slot_grant *g)
{
	char id[GRANT_ID_BYTES], why[GRANT_WHY] = "";
	int r;

	device_id_grant(g->slot, id);
	r = grant_drop(grants->conf, id, why);
	if (r < 0)
		log_line(LOG_WARN, "slot %s, which no container has any more: %s", g->slot, why);
	return r;
}

void slot_grants_sweep(struct slot_grants *grants, const V1__ListPodResourcesResponse *list)
{
	struct slot_grant **at = &grants->first;

	slot_grants_see_all(grants, list);
	while (*at) {
		struct slot_grant *g = *at;

		g->missed = g->listed ? 0 : g->missed + 1;
		g->listed = false;
		if (g->missed < MISSED_ENOUGH || slot_grants_drop(grants, g) < 0) {
			at = &g->next;
			continue;
		}
		*at = g->next;
		free(g);
	}
}
