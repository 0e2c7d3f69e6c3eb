/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/driver_pids.h"

#include <errno.h>

#include "ledger/ledger.h"
#include "ledger/slot.h"
#include "node/mapped.h"

static bool driver_pids_lists(const struct usage_list *usage, uint32_t pid)
{
	for (size_t i = 0; i < usage->n; i++)
		if ((uint32_t)usage->list[i].pid == pid)
			return true;
	return false;
}

static bool driver_pids_lacks(const struct usage_list *usage, const struct snapshot_process *p)
{
	return p->live && p->host_pid && p->info.driver_pid != p->host_pid &&
	       driver_pids_lists(usage, p->host_pid);
}

static void driver_pids_tell_tenant(const struct usage_list *usage, const struct tenant_entry *entry)
{
	const struct snapshot *snapshot = entry->snapshot;
	struct ledger *ledger = NULL;

	for (int i = 0; snapshot && i < snapshot->nprocesses; i++) {
		const struct snapshot_process *p = &snapshot->process[i];

		if (!driver_pids_lacks(usage, p) ||
		    mapped_ledger((pid_t)p->host_pid, entry->dir) == -ENOENT)
			continue;
		if (!ledger && ledger_open(entry->dir, LEDGER_GUEST, &ledger))
			return;
		slot_tell_driver_pid(ledger, p->slot, &p->info, p->host_pid);
	}
	ledger_close(ledger);
}

void driver_pids_tell(const struct usage_list *usage, const struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->n; i++)
		driver_pids_tell_tenant(usage, &tenants->list[i]);
}
