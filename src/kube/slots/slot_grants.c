/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/slots/slot_grants.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "kube/pods/holder.h"
#include "kube/pods/device_id.h"
#include "text/log.h"

struct slot_grant {
	struct slot_grant *next;
	bool listed;	     /* by the latest list, or it was put since */
	unsigned int missed; /* sweeps by lists that had it not, since one had it or it was put */
	bool own;	     /* of the container that is asked about */
	bool known;	     /* its memory, of each device */
	uint64_t bytes[POLICY_DEVICES];
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
	g->listed = true;
	g->missed = 0;
	g->known = false;
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
	r = slot_grants_note(p->grants, slot, p->why);
	return r < 0 ? r : grant_put_beside(p->grants->conf, id, p->leader, p->why);
}

int slot_grants_put(struct slot_grants *grants, const V1__ContainerResources *container,
		    const char *first, const struct policy *policy, const struct grant_folder *folder,
		    char why[static GRANT_WHY])
{
	static struct grant grant;
	struct putting putting = {grants, first, grant.id, why};
	int r;

	device_id_grant(first, grant.id);
	grant.policy = *policy;
	grant.xpu = true;
	grant.folder = folder ? *folder : (struct grant_folder){""};
	/* Before: what fails may leave a file, which goes when no container has the slot. */
	r = slot_grants_note(grants, first, why);
	if (r == 0)
		r = grant_put(grants->conf, &grant, why);
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

void slot_grants_look(struct slot_grants *grants, const V1__ListPodResourcesResponse *list)
{
	for (struct slot_grant *g = grants->first; g; g = g->next)
		g->listed = false;
	for (size_t i = 0; i < list->n_pod_resources; i++) {
		const V1__PodResources *pod = list->pod_resources[i];

		for (size_t k = 0; k < pod->n_containers; k++)
			holder_each_slot(grants->conf, pod->containers[k], slot_grants_see, grants);
	}
}

/* A slot beside the first one of its container has none. */
static void slot_grants_read(const struct slot_grants *grants, const struct node_devices *devices,
			     struct slot_grant *g)
{
	char id[GRANT_ID_BYTES];

	device_id_grant(g->slot, id);
	if (!g->known)
		grant_read_memory(grants->conf, id, devices, g->bytes);
	g->known = true;
}

static int slot_grants_mark_own(const char *slot, void *arg)
{
	struct slot_grant *g = slot_grants_find(arg, slot);

	if (g)
		g->own = true;
	return 0;
}

/* Memory that is on file for a slot of the container's own is an earlier container's. */
void slot_grants_given(struct slot_grants *grants, const struct node_devices *devices,
		       const V1__ContainerResources *container,
		       uint64_t ret_bytes[static POLICY_DEVICES])
{
	memset(ret_bytes, 0, POLICY_DEVICES * sizeof(*ret_bytes));
	for (struct slot_grant *g = grants->first; g; g = g->next)
		g->own = false;
	holder_each_slot(grants->conf, container, slot_grants_mark_own, grants);
	for (struct slot_grant *g = grants->first; g; g = g->next) {
		if (!g->listed || g->own)
			continue;
		slot_grants_read(grants, devices, g);
		for (unsigned int i = 0; i < devices->n; i++)
			ret_bytes[i] = sat_add_u64(ret_bytes[i], g->bytes[i]);
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

void slot_grants_sweep(struct slot_grants *grants)
{
	struct slot_grant **at = &grants->first;

	while (*at) {
		struct slot_grant *g = *at;

		g->missed = g->listed ? 0 : g->missed + 1;
		if (g->missed < MISSED_ENOUGH || slot_grants_drop(grants, g) < 0) {
			at = &g->next;
			continue;
		}
		*at = g->next;
		free(g);
	}
}
