/* SPDX-License-Identifier: Apache-2.0 */
#include "node/apart.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/now.h"
#include "ledger/tenant.h"
#include "node/process/mapped_files.h"

#define SHORT_ID 12 /* digits of a container's id, as podman ps has it */

static bool apart_knows(const struct tenants *tenants, const struct stat *ledger)
{
	for (size_t i = 0; i < tenants->n; i++)
		if (fd_is_same(&tenants->list[i].ledger, ledger))
			return true;
	return false;
}

/*
 * Owners forge their ledgers, and may not make all others wait for a reader. One user has as many owners as
 * a user namespace has numbers, so there is a bound for all of them together: about a second.
 */
#define APART_TENANTS 256
#define APART_USERS   2		      /* this many users can each have the most */
#define APART_NS      (NS_PER_S / 2) /* of the processor: a process has 65536 mappings, if it likes */

static int apart_find_bound(const struct tenants *tenants, uid_t owner, struct snapshot_bound *ret)
{
	size_t n = 0, all = 0, of_owner = 0;

	*ret = tenants_bound_of_user();
	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];
		size_t weight;

		if (!e->apart)
			continue;
		weight = snapshot_weight(e->snapshot);
		n++;
		all += weight;
		of_owner += e->ledger.st_uid == owner ? weight : 0;
	}
	if (n >= APART_TENANTS || all >= APART_USERS * ret->weight || of_owner >= ret->weight)
		return -E2BIG;
	ret->weight -= of_owner;
	return 0;
}

/* --- Names ----------------------------------------------------------------------------------- */

/* Names the ledger's file by numbers that nobody chooses. */
static void apart_write_file(const struct tenant_entry *e, char ret[static 32])
{
	snprintf(ret, 32, "%" PRIx64 ".%" PRIx64, (uint64_t)e->ledger.st_dev,
		 (uint64_t)e->ledger.st_ino);
}

/* The tenant's own name is its process's word. `twice`: another tenant of the place has it, too. */
static void apart_name(struct tenant_entry *e, bool twice)
{
	char place[64], own[POLICY_NAME_BYTES], file[32], user[16] = "", name[4 * POLICY_NAME_BYTES];
	int room;

	apart_write_file(e, file);
	if (*e->container)
		snprintf(place, sizeof(place), "%.*s", SHORT_ID, e->container);
	else
		snprintf(place, sizeof(place), "elsewhere-%s", file);
	snprintf(own, sizeof(own), "%s", e->snapshot->policy.name);
	own[strcspn(own, "@")] = '\0';
	if (!tenant_name_valid(own))
		strcpy(own, "unnamed");
	if (twice)
		snprintf(own, sizeof(own), "~%s", file);
	if (e->ledger.st_uid)
		snprintf(user, sizeof(user), "@%u", (unsigned int)e->ledger.st_uid);
	room = (int)(sizeof(e->name) - strlen(place) - sizeof("/") - strlen(user));
	snprintf(name, sizeof(name), "%s/%.*s%s", place, room > 0 ? room : 0, own, user);
	snprintf(e->name, sizeof(e->name), "%.63s", name);
}

static int apart_compare(const void *a, const void *b)
{
	return strcmp(((const struct tenant_entry *)a)->name, ((const struct tenant_entry *)b)->name);
}

static void apart_name_all(struct tenant_entry *list, size_t n)
{
	char before[POLICY_NAME_BYTES] = "", own[POLICY_NAME_BYTES];

	for (size_t i = 0; i < n; i++)
		apart_name(&list[i], false);
	qsort(list, n, sizeof(*list), apart_compare);
	for (size_t i = 0; i < n; i++) {
		memcpy(own, list[i].name, sizeof(own));
		if (!strcmp(own, before) || (i + 1 < n && !strcmp(own, list[i + 1].name)))
			apart_name(&list[i], true);
		memcpy(before, own, sizeof(before));
	}
	qsort(list, n, sizeof(*list), apart_compare);
}

/* --- Reading --------------------------------------------------------------------------------- */

/* A tenant that cannot be read stays out, and its process is told as unread. */
static int apart_read(const struct tenants *tenants, pid_t pid, const struct mapped_files *files,
		      size_t at, struct tenant_entry *ret)
{
	struct mapped_tenant mapped;
	struct snapshot_bound bound;
	struct snapshot *snapshot;
	int r = mapped_open_tenant(files, at, &mapped);

	if (r < 0)
		return r;
	r = apart_find_bound(tenants, mapped.ledger.st_uid, &bound);
	if (!r)
		r = snapshot_read_files(mapped.policy_fd, mapped.ledger_fd, bound, &snapshot);
	close(mapped.policy_fd);
	close(mapped.ledger_fd);
	if (r < 0)
		return r;
	if (!tenants_live(snapshot)) {
		snapshot_free(snapshot);
		return -ESRCH;
	}
	*ret = (struct tenant_entry){.apart = pid,
				     .state = TENANT_RUNNING,
				     .ledger = mapped.ledger,
				     .snapshot = snapshot};
	memcpy(ret->dir, mapped.dir, sizeof(ret->dir));
	container_of_process(pid, ret->container);
	return 0;
}

static int apart_add_of(struct tenants *tenants, pid_t pid)
{
	struct mapped_files *files;
	struct tenant_entry *list;
	const struct stat *ledger;
	int r = pid > 0 ? mapped_find_files(pid, &files) : -ESRCH;

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; !r && (ledger = mapped_files_ledger(files, i)); i++) {
		if (apart_knows(tenants, ledger))
			continue;
		list = reallocarray(tenants->list, tenants->n + 1, sizeof(*list));
		if (list) {
			tenants->list = list;
			tenants->n += !apart_read(tenants, pid, files, i, &list[tenants->n]);
		} else {
			r = -ENOMEM;
		}
	}
	mapped_files_free(files);
	return r;
}

int apart_add(struct tenants *tenants, const pid_t *pid, size_t n)
{
	uint64_t until_ns = now_thread_ns() + APART_NS;
	size_t before = tenants->n;
	int r = 0;

	for (size_t i = 0; !r && i < n && now_thread_ns() < until_ns; i++)
		r = apart_add_of(tenants, pid[i]);
	if (tenants->n == before)
		return r;
	apart_name_all(tenants->list + before, tenants->n - before);
	return r < 0 ? r : tenants_find_host_pids(tenants, before);
}

int apart_add_users(struct tenants *tenants, const struct usage_list *usage)
{
	CLEANUP_FREE pid_t *pid = calloc(usage->n + 1, sizeof(*pid));
	size_t n = 0;

	if (!pid)
		return -ENOMEM;
	/* The list has a process once for each of its devices. */
	for (size_t i = 0; i < usage->n; i++) {
		size_t k = 0;

		while (k < n && pid[k] != usage->list[i].pid)
			k++;
		pid[k] = usage->list[i].pid;
		n += k == n;
	}
	return apart_add(tenants, pid, n);
}
