/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/view.h"

#include "guest/memory/figure.h"

void view_get(struct guest *guest, const uint8_t uuid[16], unsigned int index,
	      uint64_t total_bytes, struct view *ret)
{
	uint64_t limit = guest_limit_by_uuid(guest, uuid, index, total_bytes);
	uint64_t used = 0, siblings = 0;
	int device = ledger_device(guest->ledger, uuid, total_bytes);

	if (limit > total_bytes)
		limit = total_bytes;
	for (int i = 0; i < guest->ndevices && atomic_load(&guest->slot); i++) {
		if (guest->device[i].ledger != device)
			continue;
		figure_look(guest, &guest->device[i]);
		siblings = atomic_load(&guest->device[i].siblings_bytes);
	}
	if (device >= 0)
		used = figure_tenant_used(guest, uuid, device);
	if (!guest_by_driver(guest) && used < UINT64_MAX - siblings)
		used += siblings;
	*ret = (struct view){.total_bytes = limit, .used_bytes = used < limit ? used : limit};
}
