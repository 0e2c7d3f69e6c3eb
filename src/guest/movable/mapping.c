/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/mapping.h"

#include "guest/core/object.h"
#include "guest/movable/backing.h"

/* The driver knows who may reach a mapping: the program said it range by range, and device by device. */
static void mapping_ask(struct guest *guest, struct object *mapping)
{
	mapping->mapping.may_read = mapping->mapping.may_write = 0;
	for (int i = 0; i < guest->ndevices; i++) {
		const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i};
		unsigned long long flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;

		if (DRIVER(cuMemGetAccess, (&flags, &location, mapping->key)))
			continue;
		if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			mapping->mapping.may_write |= UINT64_C(1) << i;
		else if (flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
			mapping->mapping.may_read |= UINT64_C(1) << i;
	}
}

static CUresult mapping_allow(struct guest *guest, const struct object *mapping)
{
	CUmemAccessDesc desc[GUEST_DEVICES];
	size_t n = 0;

	for (int i = 0; i < guest->ndevices; i++) {
		bool writes = mapping->mapping.may_write >> i & 1;

		if (!writes && !(mapping->mapping.may_read >> i & 1))
			continue;
		desc[n++] = (CUmemAccessDesc){
			.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i},
			.flags = writes ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
					: CU_MEM_ACCESS_FLAGS_PROT_READ,
		};
	}
	return n ? DRIVER(cuMemSetAccess, (mapping->key, mapping->size, desc, n)) : CUDA_SUCCESS;
}

static CUresult mapping_take_away(struct guest *guest, struct object *mapping)
{
	CUresult e;

	mapping_ask(guest, mapping);
	e = DRIVER(cuMemUnmap, (mapping->key, mapping->size));
	mapping->mapping.away = !e;
	return e;
}

static CUresult mapping_put_back(struct guest *guest, struct object *mapping)
{
	CUresult e = DRIVER(cuMemMap, (mapping->key, mapping->size, mapping->mapping.offset,
				       backing_handle(guest, mapping->mapping.handle), 0));

	if (e)
		return e;
	e = mapping_allow(guest, mapping);
	if (e)
		DRIVER(cuMemUnmap, (mapping->key, mapping->size));
	mapping->mapping.away = e;
	return e;
}

/* All of them one way or the other; the first error ends it. */
static CUresult mapping_move(struct guest *guest, bool away)
{
	struct object *mapping;
	CUresult e;

	OBJECT_EACH (mapping, guest->objects, OBJECT_MAPPING) {
		if (mapping->mapping.away == away ||
		    !backing_device(guest, mapping->mapping.handle))
			continue;
		e = away ? mapping_take_away(guest, mapping) : mapping_put_back(guest, mapping);
		if (e)
			return e;
		object_put(guest->objects, mapping); /* in its own place: needs no room */
	}
	return CUDA_SUCCESS;
}

CUresult mapping_detach(struct guest *guest)
{
	CUresult e = mapping_move(guest, true);

	if (e)
		mapping_move(guest, false);
	return e;
}

CUresult mapping_attach(struct guest *guest)
{
	CUresult e = mapping_move(guest, false);

	if (e)
		mapping_move(guest, true);
	return e;
}
