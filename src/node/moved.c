/* SPDX-License-Identifier: Apache-2.0 */
#include "node/moved.h"

#include "base/now.h"
#include "base/number.h"
#include "ledger/role/residency_file.h"
#include "ledger/swap.h"
#include "ledger/tenant.h"

/* A process that could not move is asked again each second. */
#define LATELY_NS (3 * NS_PER_S)

struct moved moved_of(const struct tenant_entry *tenant)
{
	const struct snapshot *s = tenant->snapshot;
	struct moved moved = {.out_ns = snapshot_swap_ns(s, true),
			      .back_ns = snapshot_swap_ns(s, false)};

	for (int d = 0; d < s->ndevices; d++) {
		moved.resident_bytes += swap_can_leave(s->device[d].used);
		moved.host_bytes += s->device[d].out_bytes;
	}
	for (int i = 0; i < s->nprocesses; i++) {
		if (!s->process[i].live)
			continue;
		moved.waiting += s->process[i].waiting;
		moved.file_bytes += s->process[i].filed_bytes;
	}
	/* They are read one after the other, and it may be on its way. */
	moved.file_bytes = min_u64(moved.file_bytes, moved.host_bytes);
	moved.host_bytes -= moved.file_bytes;
	return moved;
}

bool moved_waits_for_host(const struct tenant_entry *tenant, const struct moved *moved)
{
	uint64_t full_ns, now = now_monotonic_ns();
	char runtime[PATH_MAX];

	if (!moved->waiting || tenant->apart ||
	    tenant_runtime_of(tenant->dir, runtime, sizeof(runtime)))
		return false;
	full_ns = residency_file_full_ns(runtime);
	return full_ns && full_ns <= now && now - full_ns < LATELY_NS;
}
