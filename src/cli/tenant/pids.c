/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/pids.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/now.h"
#include "base/pidns.h"
#include "cli/say/say.h"
#include "ledger/ledger.h"
#include "ledger/shared_file.h"
#include "ledger/slot.h"
#include "node/process/mapped.h"

#define ENDS_NS	 (30 * NS_PER_S)
#define NAP_US	 20000

void pids_free(struct pids *pids)
{
	free(pids->list);
	*pids = (struct pids){0};
}

/*
 * Waits for a process whose memory is gone: it keeps its slot until the kernel has freed all of it.
 * False: it does not end after all, like a process whose first thread alone has ended.
 */
static bool pids_await_end(const struct moving *moving, int slot)
{
	uint64_t until_ns = now_monotonic_ns() + ENDS_NS;
	unsigned int nap_us = NAP_US;

	while (slot_alive(moving->ledger, slot)) {
		if (now_monotonic_ns() > until_ns)
			return false;
		shared_file_nap(&nap_us, NAP_US);
	}
	return true;
}

static int pids_add(const struct moving *moving, const struct stat *file, int slot,
		    const struct slot_info *info, struct pids *pids)
{
	struct pidns_query query = {.pidns = info->pidns, .pid = info->pid};
	struct pid_entry *list;
	int r;

	pidns_translate(&query, 1);
	r = query.host_pid ? mapped_by((pid_t)query.host_pid, file) : -ENOENT;
	/* It may have ended since, which is nothing wrong. */
	if (r < 0 && (r == -ESRCH ? pids_await_end(moving, slot)
				  : !slot_alive(moving->ledger, slot)))
		return 0;
	if (r == -ESRCH)
		return say_error("process %" PRIu32 " (%s) of tenant \"%s\" is ending, and does not "
				 "end; kill it", info->pid, info->comm, moving->name);
	if (r == -EACCES)
		return say_error("process %" PRIu32 " (%s) of tenant \"%s\" is not yours to look into; "
				 "do it as its user, or as root",
				 info->pid, info->comm, moving->name);
	if (r < 0)
		return say_error("process %" PRIu32 " (%s) of tenant \"%s\" cannot be seen from here; "
				 "do it in its container, or outside of all",
				 info->pid, info->comm, moving->name);
	list = reallocarray(pids->list, pids->n + 1, sizeof(*list));
	if (!list)
		return say_error("out of memory");
	pids->list = list;
	list[pids->n] = (struct pid_entry){.pid = (pid_t)query.host_pid, .slot = slot};
	memcpy(list[pids->n++].comm, info->comm, sizeof(info->comm));
	return 0;
}

int pids_find(const struct moving *moving, struct pids *ret)
{
	struct pids pids = {0};
	struct slot_info info;
	struct stat file;
	int r = mapped_find_ledger(moving->dir, &file);

	if (r < 0)
		return say_error("%s/ledger: %s", moving->dir, say_errno(r));
	ledger_refresh(moving->ledger);
	for (int i = 0; !r && i < slot_count(moving->ledger); i++)
		if (!slot_info(moving->ledger, i, &info) && slot_alive(moving->ledger, i))
			r = pids_add(moving, &file, i, &info, &pids);
	if (r)
		pids_free(&pids);
	else
		*ret = pids;
	return r;
}
