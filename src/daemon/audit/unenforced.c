/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/audit/unenforced.h"

#include <string.h>

static bool unenforced_is_same(const struct pod *a, const struct pod *b)
{
	return !strcmp(a->uid, b->uid) && !strcmp(a->container, b->container);
}

/* Returns true if a process of some tenant is in that container. */
static bool unenforced_has_guest(const struct tenants *tenants, const struct pod *pod)
{
	struct pod found;

	for (size_t i = 0; i < tenants->n; i++) {
		const struct snapshot *s = tenants->list[i].snapshot;

		for (int p = 0; s && p < s->nprocesses; p++) {
			if (!s->process[p].live || !s->process[p].host_pid)
				continue;
			pod_of_process((pid_t)s->process[p].host_pid, &found);
			if (unenforced_is_same(&found, pod))
				return true;
		}
	}
	return false;
}

/* The Pod's name may stand in the note of a tenant of it. */
static void unenforced_name(const struct tenants *tenants, struct pod *pod)
{
	for (size_t i = 0; !*pod->name && i < tenants->n; i++) {
		const struct pod *noted = &tenants->list[i].pod;

		if (*noted->name && !strcmp(noted->uid, pod->uid)) {
			memcpy(pod->space, noted->space, sizeof(pod->space));
			memcpy(pod->name, noted->name, sizeof(pod->name));
		}
	}
}

/* Where the Pod's name is not known, that of the container has to do. */
bool unenforced_holds(const struct counts *counts, const struct pod *pod, const uint8_t uuid[static 16])
{
	for (size_t i = 0; i < counts->nheld; i++) {
		const struct counts_held *held = &counts->held[i];

		if (strcmp(held->container, pod->container) != 0 ||
		    (*pod->name && (strcmp(held->pod, pod->name) != 0 || strcmp(held->space, pod->space) != 0)))
			continue;
		for (unsigned int d = 0; d < counts->devices->n; d++)
			if (held->device[d] && !memcmp(counts->devices->list[d].device.uuid, uuid, 16))
				return true;
	}
	return false;
}

static bool unenforced_is_known(const struct pod *list, size_t n, const struct pod *pod)
{
	for (size_t i = 0; i < n; i++)
		if (unenforced_is_same(&list[i], pod))
			return true;
	return false;
}

size_t unenforced_find(const struct counts *counts, const struct tenants *tenants,
		       const struct audit_report *audit, struct pod *ret)
{
	size_t n = 0;

	for (size_t i = 0; counts->devices && i < audit->n; i++) {
		const struct outsider_found *f = &audit->finding[i].found;
		struct pod pod = f->process.pod;

		if (f->outsider.standing != OUTSIDER_UNLIMITED || !*pod.uid ||
		    unenforced_is_known(ret, n, &pod))
			continue;
		unenforced_name(tenants, &pod);
		if (unenforced_holds(counts, &pod, f->outsider.uuid) &&
		    !unenforced_has_guest(tenants, &pod))
			ret[n++] = pod;
	}
	return n;
}
