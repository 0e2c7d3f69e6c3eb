/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/view.h"

#include <limits.h>

#include "base/number.h"
#include "guest/account/figure.h"
#include "ledger/quota.h"
#include "ledger/role/residency_file.h"
#include "ledger/swap.h"
#include "ledger/tenant.h"
#include "ledger/turn.h"

/* Has this process's own charges brought in line with the driver's figure, before they are told. */
static void view_look(struct guest *guest, int ledger_device)
{
	for (int i = 0; i < guest->ndevices && atomic_load(&guest->slot); i++)
		if (guest->device[i].ledger == ledger_device)
			figure_look(guest, &guest->device[i]);
}

/*
 * What each process holds, in `each` and together, at most what there is: a quota may be below what is
 * held, and what is about to be taken counts twice for a moment.
 */
static struct view view_each(struct guest *guest, const uint8_t uuid[16], int ledger_device,
			     uint64_t limit, uint64_t each[static QUOTA_SLOTS])
{
	struct view view = {.total_bytes = limit};
	int error = figure_tenant_each(guest, uuid, ledger_device, each);

	for (int i = 0; i < slot_count(guest->ledger); i++) {
		uint64_t out = swap_out(guest->ledger, i, ledger_device);

		if (out && slot_alive(guest->ledger, i))
			each[i] = sat_add_u64(each[i], out);
		each[i] = min_u64(each[i], view.total_bytes - view.used_bytes);
		view.used_bytes += each[i];
	}
	if (error) /* what is not known is not free */
		view.used_bytes = view.total_bytes;
	return view;
}

static struct view view_make(struct guest *guest, const uint8_t uuid[16], int ledger_device,
			     uint64_t limit, uint64_t total)
{
	uint64_t each[QUOTA_SLOTS];

	limit = min_u64(limit, total);
	if (ledger_device < 0)
		return (struct view){.total_bytes = limit};
	return view_each(guest, uuid, ledger_device, limit, each);
}

void view_of_device(struct guest *guest, struct guest_device *device, uint64_t total_bytes,
		    struct view *ret)
{
	*ret = view_make(guest, device->uuid, device->ledger, guest_limit(guest, device), total_bytes);
}

void view_get(struct guest *guest, const uint8_t uuid[16], unsigned int index,
	      uint64_t total_bytes, struct view *ret)
{
	uint64_t limit = guest_limit_by_uuid(guest, uuid, index, total_bytes);
	int device = ledger_device(guest->ledger, uuid, total_bytes);

	view_look(guest, device);
	*ret = view_make(guest, uuid, device, limit, total_bytes);
}

uint64_t view_free(struct guest *guest, const uint8_t uuid[16], const struct view *view,
		   uint64_t device_free)
{
	uint64_t left = view->total_bytes - view->used_bytes, leaves, stranded;
	bool turns = guest->policy.flags & POLICY_OVERCOMMIT;
	struct residency_room room;
	struct swap_places own;
	char runtime[PATH_MAX];

	/* To one that takes turns, what is free may be promised to others by their quotas. */
	if (!turns && left <= device_free)
		return left;
	if (tenant_runtime_of(guest->dir, runtime, sizeof(runtime)) ||
	    residency_file_ask_room(runtime, uuid, &room))
		return min_u64(left, device_free);
	stranded = turn_stranded(guest->policy_map, room.device);
	leaves = sat_sub_u64(sat_add_u64(device_free, room.there), stranded);
	/* One that takes none has its quota beside the room of those that do. */
	if (!turns)
		return min_u64(left, leaves);
	own = swap_find_live(guest->ledger, ledger_device(guest->ledger, uuid, 0));
	return min_u64(left, sat_sub_u64(min_u64(sat_sub_u64(room.all, stranded), leaves),
					 sat_add_u64(own.here, own.away)));
}

int view_processes(struct guest *guest, const uint8_t uuid[16], unsigned int index,
		   struct view_process *out, int max)
{
	int device = ledger_device(guest->ledger, uuid, 0), n = 0;
	struct ledger_device_info info;
	uint64_t each[QUOTA_SLOTS], total;

	if (device < 0 || ledger_device_info(guest->ledger, device, &info))
		return 0;
	total = info.total_bytes ? info.total_bytes : UINT64_MAX;
	view_look(guest, device);
	view_each(guest, uuid, device,
		  min_u64(guest_limit_by_uuid(guest, uuid, index, total), total), each);
	for (int i = 0; i < slot_count(guest->ledger); i++) {
		struct slot_info slot;
		struct quota_row row;

		if (!each[i] || quota_process(guest->ledger, i, device, &row) ||
		    slot_info(guest->ledger, i, &slot))
			continue;
		if (n < max)
			out[n] = (struct view_process){
				.pid = (pid_t)slot.pid,
				.driver_pid = (pid_t)slot.driver_pid,
				.used_bytes = each[i],
				/* By the driver's figure the ledger has no categories. */
				.context = guest_by_driver(guest) || row.used[CAT_CONTEXT] > 0,
			};
		n++;
	}
	return n;
}
