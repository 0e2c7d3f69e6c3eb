/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/audit/driver_pids.h"

#include <errno.h>

#include "ledger/ledger.h"
#include "ledger/slot.h"
#include "node/process/mapped.h"

static bool driver_pids_lacks(const struct snapshot_process *p, uint32_t pid)
{
	return p->live && p->host_pid == pid && p->info.driver_pid != pid;
}

/*
 * Tells the slots about one pid of the driver's list. Its ledger is looked up once, however many
 * slots of the tenant claim to be that process.
 */
static int driver_pids_tell_process(const struct tenant_entry *entry, uint32_t pid,
				    struct ledger **ledger)
{
	const struct snapshot *snapshot = entry->snapshot;
	bool looked = false;
	int r;

	for (int i = 0; i < snapshot->nprocesses; i++) {
		const struct snapshot_process *p = &snapshot->process[i];

		if (!pid || !driver_pids_lacks(p, pid))
			continue;
		r = looked ? 0 : mapped_ledger((pid_t)pid, &entry->ledger);
		if (r == -ENOENT || mapped_is_unknown(r))
			return 0;
		looked = true;
		if (!*ledger && ledger_open(entry->dir, LEDGER_GUEST, ledger))
			return -EIO;
		slot_tell_driver_pid(*ledger, p->slot, &p->info, pid);
	}
	return 0;
}

static void driver_pids_tell_tenant(const struct usage_list *usage, const struct tenant_entry *entry)
{
	struct ledger *ledger = NULL;

	for (size_t i = 0; entry->snapshot && !entry->apart && i < usage->n; i++)
		if (driver_pids_tell_process(entry, (uint32_t)usage->list[i].pid, &ledger) < 0)
			break;
	ledger_close(ledger);
}

void driver_pids_tell(const struct usage_list *usage, const struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->n; i++)
		driver_pids_tell_tenant(usage, &tenants->list[i]);
}
