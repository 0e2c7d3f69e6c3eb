/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory by handle. A handle is charged to the device that it lives on until its last
 * reference and its last mapping are gone, in whatever order they go; that is when the driver
 * frees it.
 *
 * A swappable tenant's program gets handles of ours (movable/backing.h): the driver's change when
 * the memory leaves. We have the one reference of the driver's; the program's are counted here.
 */
#include "base/fault.h"
#include "guest/account/room.h"
#include "guest/core/hook.h"
#include "guest/memory/allocator.h"
#include "guest/memory/sharing.h"
#include "guest/memory/state.h"
#include "guest/memory/vmm.h"

/* Takes `refs` references and `maps` mappings off or puts them on; copies the object out. */
struct count {
	int refs, maps;
	bool by_address; /* the program need not have a reference to it */
	bool refused;	 /* of ours, and the program has no reference to it */
	struct object after;
};

static bool vmm_add_counts(struct object *handle, void *arg)
{
	struct count *count = arg;

	count->refused = handle->flags & OBJECT_BACKED && !handle->refs && count->refs <= 0 &&
			 count->maps >= 0 && !count->by_address;
	if (count->refused)
		return true;
	handle->refs += (uint32_t)count->refs;
	handle->handle.maps += (uint32_t)count->maps;
	count->after = *handle;
	return handle->refs || handle->handle.maps;
}

static bool vmm_change(struct guest *guest, uint64_t handle, struct count *count)
{
	return object_change(guest->objects, OBJECT_HANDLE, handle, false, vmm_add_counts, count);
}

bool vmm_retain(struct guest *guest, uint64_t handle)
{
	struct count count = {.refs = 1};

	return vmm_change(guest, handle, &count);
}

static bool vmm_is_gone(const struct object *handle)
{
	return !handle->refs && !handle->handle.maps;
}

/* The driver's handle, for a call with one of the program's. False: it is one no more. */
static bool vmm_real(struct guest *guest, CUmemGenericAllocationHandle handle,
		     CUmemGenericAllocationHandle *ret)
{
	struct object object;

	*ret = guest->allocator->real_handle(guest, handle);
	return *ret == handle ||
	       (*ret && object_get(guest->objects, OBJECT_HANDLE, handle, &object) && object.refs);
}

/* One that other processes have keeps what is bound to it for as long as these like. */
static bool vmm_ends_multicast(const struct object *handle)
{
	return handle->flags & OBJECT_MULTICAST && !(handle->flags & OBJECT_GIVEN);
}

/* After the driver freed it, or as we do; the object is in the table no more. */
static void vmm_gone(struct guest *guest, uint64_t name, const struct object *handle)
{
	if (handle->flags & OBJECT_BACKED)
		guest->allocator->abandon(guest, name, handle);
	if (vmm_ends_multicast(handle))
		vmm_forget_array_end(guest, vmm_forget_array_begin(guest, name), true);
	sharing_drop(guest, handle);
}

/* The driver did not free it after all. Should there be no room in the table, its charge stays. */
static void vmm_restore(struct guest *guest, uint64_t handle, struct object *as_gone, int refs,
			int maps)
{
	struct count count = {.refs = refs, .maps = maps};

	if (!as_gone) {
		vmm_change(guest, handle, &count);
		return;
	}
	as_gone->kind = OBJECT_HANDLE;
	as_gone->key = handle;
	as_gone->refs = (uint32_t)refs;
	as_gone->handle.maps = (uint32_t)maps;
	object_put(guest->objects, as_gone);
}

/* After the driver dropped a mapping. */
static void vmm_drop_mapping(struct guest *guest, uint64_t handle)
{
	struct count count = {.maps = -1};

	if (vmm_change(guest, handle, &count) && vmm_is_gone(&count.after))
		vmm_gone(guest, handle, &count.after);
}

static CUresult vmm_create(struct charge *charge, CUmemGenericAllocationHandle *handle, size_t size,
			   const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult e = DRIVER(cuMemCreate, (handle, size, prop, flags));

	if (e)
		charge_cancel(charge);
	return e;
}

CUresult hook_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			  const CUmemAllocationProp *prop, unsigned long long flags)
{
	GUEST_OR_PASS(cuMemCreate, (handle, size, prop, flags));
	struct object object = {.kind = OBJECT_HANDLE, .category = CAT_DATA, .refs = 1};
	struct guest_device *device = NULL;
	CUmemGenericAllocationHandle real;
	struct charge charge;
	uint64_t need;
	CUresult e;

	if (prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		device = guest_device(guest, prop->location.id);
	if (!device) /* host memory, or an error for the driver to name */
		return DRIVER(cuMemCreate, (handle, size, prop, flags));
	need = round_up(size, GRANULE_BYTES);
	e = BACK_WITH_ROOM(guest, device, need, &charge,
			   charge_reserve(guest, device, need, &charge), false,
			   vmm_create(&charge, handle, size, prop, flags));
	if (e)
		return e;
	real = object.key = *handle;
	object.device = (int16_t)device->ordinal;
	object.size = size;
	object.bytes = charge.reserved;
	e = guest->allocator->adopt(guest, device, prop, &object);
	if (e || object_put(guest->objects, &object)) {
		if (object.flags & OBJECT_BACKED)
			guest->allocator->abandon(guest, object.key, &object);
		else
			DRIVER(cuMemRelease, (real));
		charge_cancel(&charge);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	charge_commit(&charge, CAT_DATA, object.bytes);
	*handle = object.key;
	return e;
}

/*
 * The reference is counted off before the driver drops it: once a handle is free, the driver may
 * give its number to another thread, for another handle.
 */
CUresult hook_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	GUEST_OR_PASS(cuMemRelease, (handle));
	struct count count = {.refs = -1};
	uint64_t call = 0;
	CUresult e;

	charge_release_begin_all(guest);
	if (!vmm_change(guest, handle, &count)) {
		e = DRIVER(cuMemRelease, (handle)); /* host memory */
	} else if (count.refused) {
		e = CUDA_ERROR_INVALID_VALUE;
	} else {
		if (vmm_is_gone(&count.after))
			sharing_begin_drop(guest, &count.after);
		if (vmm_is_gone(&count.after) && vmm_ends_multicast(&count.after))
			call = vmm_forget_array_begin(guest, handle);
		e = count.after.flags & OBJECT_BACKED ? CUDA_SUCCESS
						       : DRIVER(cuMemRelease, (handle));
		vmm_forget_array_end(guest, call, !e);
		if (e)
			vmm_restore(guest, handle, vmm_is_gone(&count.after) ? &count.after : NULL,
				    1, 0);
		else if (vmm_is_gone(&count.after))
			vmm_gone(guest, handle, &count.after);
	}
	charge_release_end_all(guest);
	return e;
}

struct place {
	uint64_t at;
	uint64_t handle; /* that is mapped there; 0: none */
};

static bool vmm_find_mapping(const struct object *object, void *arg)
{
	struct place *place = arg;

	if (object->kind == OBJECT_MAPPING && place->at - object->key < object->size)
		place->handle = object->mapping.handle;
	return false; /* it stays in the table */
}

uint64_t vmm_handle_at(struct guest *guest, uint64_t at)
{
	struct place place = {.at = at};
	struct object none;

	object_sweep(guest->objects, vmm_find_mapping, &place, &none, 1);
	return place.handle;
}

CUresult hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	GUEST_OR_PASS(cuMemRetainAllocationHandle, (handle, addr));
	struct count count = {.refs = 1};
	uint64_t ours;
	CUresult e;

	if (guest->allocator->holds(guest, (CUdeviceptr)addr))
		return CUDA_ERROR_INVALID_VALUE; /* as of memory by cuMemAlloc */
	ours = handle ? guest->allocator->mapped_handle(guest, (CUdeviceptr)addr) : 0;
	if (ours && vmm_change(guest, ours, &count)) {
		*handle = ours;
		return CUDA_SUCCESS;
	}
	e = DRIVER(cuMemRetainAllocationHandle, (handle, addr));
	if (!e)
		vmm_change(guest, *handle, &count);
	return e;
}

CUresult hook_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						     CUmemGenericAllocationHandle handle)
{
	GUEST_OR_PASS(cuMemGetAllocationPropertiesFromHandle, (prop, handle));
	CUmemGenericAllocationHandle real;

	if (!vmm_real(guest, handle, &real))
		return CUDA_ERROR_INVALID_VALUE;
	return DRIVER(cuMemGetAllocationPropertiesFromHandle, (prop, real));
}

struct marking {
	const struct object *as;
	bool done;
};

/* Another thread may have shared it meanwhile: then it has its entry, or its charge. */
static bool vmm_mark_shared(struct object *handle, void *arg)
{
	struct marking *marking = arg;

	marking->done = !(handle->flags & OBJECT_SHARED) &&
			!(handle->flags & OBJECT_IMPORTED && handle->bytes);
	if (!marking->done)
		return true;
	handle->flags |= marking->as->flags & OBJECT_SHARED;
	handle->bytes = marking->as->bytes;
	handle->shared = marking->as->shared;
	return true;
}

/* False: the handle is released, or shared by another thread. */
static bool vmm_share(struct guest *guest, uint64_t handle, const struct object *as)
{
	struct marking marking = {.as = as};

	object_change(guest->objects, OBJECT_HANDLE, handle, false, vmm_mark_shared, &marking);
	return marking.done;
}

/* Imported memory with a size: joins its entry, or is charged. Marks the object. */
static CUresult vmm_import_charge(struct guest *guest, struct object *handle, uint64_t bytes)
{
	if (!handle->shared.word[0]) /* no stamp: a key that nobody else has */
		handle->shared = entry_key(&(uint64_t[2]){handle->key, KEY(guest)}, 16);
	return sharing_import(guest, guest_device(guest, handle->device), handle->shared,
			    round_up(bytes, GRANULE_BYTES), handle);
}

/* Where the size could not be found out before: as much as is mapped first. */
static CUresult vmm_import_size(struct guest *guest, const struct object *handle, uint64_t bytes)
{
	struct object sized = *handle;
	CUresult e;

	if (!guest_device(guest, handle->device) || handle->bytes ||
	    handle->flags & (OBJECT_SHARED | OBJECT_BACKED))
		return CUDA_SUCCESS;
	e = vmm_import_charge(guest, &sized, bytes);
	if (!e && !vmm_share(guest, handle->key, &sized))
		sharing_drop(guest, &sized);
	return e;
}

static bool vmm_can_map(CUdeviceptr at, uint64_t bytes, uint64_t handle)
{
	if (DRIVER(cuMemMap, (at, bytes, 0, handle, 0)))
		return false;
	DRIVER(cuMemUnmap, (at, bytes));
	return true;
}

/*
 * The driver does not tell how large imported memory is, but it maps no more than there is. So the
 * largest mapping that it makes is looked for, at addresses that nobody else has. 0: not found.
 */
static uint64_t vmm_probe_size(const struct guest_device *device, uint64_t handle,
			       const CUmemAllocationProp *prop)
{
	uint64_t room, least = 0, most;
	size_t unit = 0;
	CUdeviceptr at;

	if (DRIVER(cuMemGetAllocationGranularity,
		   (&unit, prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM)) || !unit)
		unit = GRANULE_BYTES;
	room = round_up(device->total_bytes, unit);
	if (DRIVER(cuMemAddressReserve, (&at, room, 0, 0, 0)))
		return 0;
	most = room / unit + 1;
	/* Doubled first: most are small, and a large mapping takes longer. */
	for (uint64_t n = 1; n < most; n *= 2) {
		if (!vmm_can_map(at, n * unit, handle)) {
			most = n;
			break;
		}
		least = n;
	}
	while (least && most - least > 1) {
		uint64_t n = least + (most - least) / 2;

		if (vmm_can_map(at, n * unit, handle))
			least = n;
		else
			most = n;
	}
	DRIVER(cuMemAddressFree, (at, room));
	return least * unit;
}

/*
 * Charges imported memory, whether or not it will be mapped: it is held from now on, though its
 * exporter lets go of it.
 */
static CUresult vmm_imported(struct guest *guest, struct object *handle,
			     const CUmemAllocationProp *prop)
{
	struct guest_device *device = guest_device(guest, handle->device);
	uint64_t bytes;

	if (!device)
		return CUDA_SUCCESS;
	bytes = shared_bytes(guest->ledger, handle->shared);
	if (!bytes)
		bytes = vmm_probe_size(device, handle->key, prop);
	return bytes ? vmm_import_charge(guest, handle, bytes) : CUDA_SUCCESS;
}

CUresult hook_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
		       CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	GUEST_OR_PASS(cuMemMap, (ptr, size, offset, handle, flags));
	struct object mapping = {.kind = OBJECT_MAPPING, .key = ptr, .size = size,
				 .mapping = {.handle = handle, .offset = offset}, .device = -1};
	struct count count = {.maps = 1};
	struct object object;
	CUresult e;

	if (object_get(guest->objects, OBJECT_HANDLE, handle, &object) &&
	    object.flags & OBJECT_IMPORTED) {
		e = vmm_import_size(guest, &object, size + offset);
		if (e)
			return e;
	}
	if (!vmm_change(guest, handle, &count)) /* host memory */
		return DRIVER(cuMemMap, (ptr, size, offset, handle, flags));
	if (count.refused)
		return CUDA_ERROR_INVALID_VALUE;
	e = DRIVER(cuMemMap,
		   (ptr, size, offset, guest->allocator->real_handle(guest, handle), flags));
	FAULT_POINT(GUEST_HANDLE_MAPPED);
	if (!e && object_put(guest->objects, &mapping)) {
		DRIVER(cuMemUnmap, (ptr, size));
		e = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (e)
		vmm_drop_mapping(guest, handle);
	return e;
}

/* So many granules are looked at one by one; in a larger range the table's mappings are. */
#define WALK 65536

/* Takes out the first object of a kind in the range, and moves `at` behind it. */
static bool vmm_take_next(struct guest *guest, enum object_kind kind, uint64_t *at, uint64_t end,
			  struct object *ret)
{
	for (; *at < end && (end - *at) / GRANULE_BYTES < WALK; *at += GRANULE_BYTES)
		if (object_take(guest->objects, kind, *at, ret)) {
			*at += ret->size;
			return true;
		}
	while (*at < end && object_next(guest->objects, kind, *at ? *at - 1 : 0, ret) &&
	       ret->key < end) {
		*at = ret->key + ret->size;
		if (object_take(guest->objects, kind, ret->key, ret))
			return true;
	}
	return false;
}

/*
 * One call may unmap many mappings, whole ones only. As in cuMemRelease they are counted off before
 * the driver drops them. Meanwhile the table keeps under a mapping's address the mapping
 * (OBJECT_LEAVING) and the handle that goes with it (OBJECT_GONE), for the case that the driver
 * refuses.
 */
static void vmm_unmap_begin(struct guest *guest, uint64_t at, uint64_t end)
{
	struct object mapping;

	while (vmm_take_next(guest, OBJECT_MAPPING, &at, end, &mapping)) {
		struct count count = {.maps = -1};

		if (vmm_change(guest, mapping.mapping.handle, &count) &&
		    vmm_is_gone(&count.after)) {
			sharing_begin_drop(guest, &count.after);
			count.after.kind = OBJECT_GONE;
			count.after.key = mapping.key;
			object_put(guest->objects, &count.after);
		}
		mapping.kind = OBJECT_LEAVING;
		object_put(guest->objects, &mapping);
	}
}

static void vmm_unmap_end(struct guest *guest, uint64_t at, uint64_t end, bool done)
{
	struct object mapping, handle;

	while (vmm_take_next(guest, OBJECT_LEAVING, &at, end, &mapping)) {
		bool was_last = object_take(guest->objects, OBJECT_GONE, mapping.key, &handle);

		if (!done) {
			vmm_restore(guest, mapping.mapping.handle, was_last ? &handle : NULL, 0, 1);
			mapping.kind = OBJECT_MAPPING;
			object_put(guest->objects, &mapping);
		} else if (was_last) {
			vmm_gone(guest, mapping.mapping.handle, &handle);
		}
	}
}

CUresult hook_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	GUEST_OR_PASS(cuMemUnmap, (ptr, size));
	CUresult e;

	if (guest->allocator->holds(guest, ptr))
		return CUDA_ERROR_INVALID_VALUE; /* as of memory by cuMemAlloc */
	charge_release_begin_all(guest);
	vmm_unmap_begin(guest, ptr, ptr + size);
	e = DRIVER(cuMemUnmap, (ptr, size));
	vmm_unmap_end(guest, ptr, ptr + size, !e);
	charge_release_end_all(guest);
	return e;
}

static bool vmm_given(struct object *handle, void *arg)
{
	handle->flags |= OBJECT_GIVEN;
	return true;
}

static void vmm_mark_given(struct guest *guest, uint64_t handle)
{
	object_change(guest->objects, OBJECT_HANDLE, handle, false, vmm_given, NULL);
}

void vmm_give(struct guest *guest, CUdeviceptr at, uint64_t size)
{
	struct object *mapping;

	OBJECT_EACH (mapping, guest->objects, OBJECT_MAPPING)
		if (mapping->key < at + size && at < mapping->key + mapping->size)
			vmm_mark_given(guest, mapping->mapping.handle);
}

/* Whether the program may have a descriptor: it said so when it made the memory. */
static bool vmm_has_token(CUmemGenericAllocationHandle real, CUmemAllocationHandleType type)
{
	CUmemAllocationProp prop;

	return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
	       !DRIVER(cuMemGetAllocationPropertiesFromHandle, (&prop, real)) &&
	       prop.requestedHandleTypes & type;
}

static bool vmm_set_number(struct object *handle, void *arg)
{
	uint32_t *number = arg;

	if (!handle->handle.number && !(handle->flags & OBJECT_SHARED))
		handle->handle.number = *number;
	*number = handle->handle.number;
	return true;
}

/* Every descriptor of one object gets one number, so that all lead to one entry. */
static bool vmm_stamp(struct guest *guest, const struct object *handle, int fd,
		      struct shared_key *ret)
{
	uint32_t number = handle->handle.number ? handle->handle.number : stamp_number(guest);

	return object_change(guest->objects, OBJECT_HANDLE, handle->key, false, vmm_set_number,
			     &number) &&
	       stamp_put(guest, fd, number, ret);
}

CUresult hook_cuMemExportToShareableHandle(void *shareableHandle,
					   CUmemGenericAllocationHandle handle,
					   CUmemAllocationHandleType handleType,
					   unsigned long long flags)
{
	GUEST_OR_PASS(cuMemExportToShareableHandle, (shareableHandle, handle, handleType, flags));
	CUmemGenericAllocationHandle real;
	struct guest_device *device;
	struct object object;
	struct shared_key key;
	CUresult e;

	if (!vmm_real(guest, handle, &real))
		return CUDA_ERROR_INVALID_VALUE;
	if (real != handle && vmm_has_token(real, handleType) && shareableHandle && !flags)
		return guest->allocator->export_handle(guest, handle, shareableHandle);
	e = DRIVER(cuMemExportToShareableHandle, (shareableHandle, real, handleType, flags));
	if (!e && real != handle)
		vmm_mark_given(guest, handle);
	FAULT_POINT(GUEST_EXPORTED);
	if (e || !object_get(guest->objects, OBJECT_HANDLE, handle, &object))
		return e;
	device = guest_device(guest, object.device);
	if (object.flags & OBJECT_MULTICAST)
		vmm_mark_given(guest, handle);
	if (!device)
		return e;
	if (object.flags & OBJECT_IMPORTED) {
		if (handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
			stamp_put_as(*(int *)shareableHandle, &object.handle.stamp);
		return e;
	}
	if (handleType == CU_MEM_HANDLE_TYPE_FABRIC)
		key = entry_key(shareableHandle, sizeof(CUmemFabricHandle));
	else if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		 !vmm_stamp(guest, &object, *(int *)shareableHandle, &key))
		return e;
	/* It stays under its first key. */
	if (object.flags & OBJECT_SHARED)
		return e;
	sharing_export(guest, device, key, object.bytes, &object);
	if (object.flags & OBJECT_SHARED && !vmm_share(guest, handle, &object))
		entry_leave(guest, &object);
	return e;
}

CUresult hook_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
					     CUmemAllocationHandleType shHandleType)
{
	GUEST_OR_PASS(cuMemImportFromShareableHandle, (handle, osHandle, shHandleType));
	struct object object = {.kind = OBJECT_HANDLE, .category = CAT_IMPORTED,
				.flags = OBJECT_IMPORTED, .refs = 1, .device = -1};
	CUmemAllocationProp prop = {0};
	struct count count = {.refs = 1};
	CUresult e;

	if (handle && shHandleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
	    guest->allocator->import_handle(guest, (int)(intptr_t)osHandle, handle, &e))
		return e;
	/* Before the driver may close or consume it. */
	if (shHandleType == CU_MEM_HANDLE_TYPE_FABRIC && osHandle)
		object.shared = entry_key(osHandle, sizeof(CUmemFabricHandle));
	else if (shHandleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		stamp_read((int)(intptr_t)osHandle, &object.handle.stamp, &object.shared);
	e = DRIVER(cuMemImportFromShareableHandle, (handle, osHandle, shHandleType));
	if (e)
		return e;
	object.key = *handle;
	if (!DRIVER(cuMemGetAllocationPropertiesFromHandle, (&prop, *handle)) &&
	    prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		object.device = (int16_t)prop.location.id;
	/* The driver may answer a second import with the first one's handle. */
	if (vmm_change(guest, *handle, &count))
		return e;
	e = vmm_imported(guest, &object, &prop);
	if (!e && object_put(guest->objects, &object)) {
		sharing_drop(guest, &object);
		e = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (e)
		DRIVER(cuMemRelease, (*handle));
	return e;
}

/*
 * Parts of a sparse array. The key of a part is made of everything that places it, so that its
 * unmapping leads to the same key as its mapping.
 */
static uint64_t vmm_tile_key(const CUarrayMapInfo *info)
{
	struct {
		uint64_t array, type, place[5];
	} name = {.array = KEY(info->resource.array), .type = (uint64_t)info->subresourceType};

	_Static_assert(sizeof(info->subresource) <= sizeof(name.place),
		       "the place is copied whole");
	if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
		name.place[0] = info->subresource.miptail.layer;
		name.place[1] = info->subresource.miptail.offset;
	} else {
		name.place[0] = (uint64_t)info->subresource.sparseLevel.level << 32 |
				info->subresource.sparseLevel.layer;
		name.place[1] = (uint64_t)info->subresource.sparseLevel.offsetX << 32 |
				info->subresource.sparseLevel.offsetY;
		name.place[2] = info->subresource.sparseLevel.offsetZ;
	}
	return entry_key(&name, sizeof(name)).word[0];
}

/* Numbers that no address is, as OBJECT_GONE is known by either. */
static uint64_t vmm_untiled_numbers(struct guest *guest, unsigned int n)
{
	return UINT64_C(1) << 63 | atomic_fetch_add(&guest->memory->untiled, n);
}

/* As vmm_unmap_begin: counted off before the driver drops it, which frees the handle with the last. */
static void vmm_untile_begin(struct guest *guest, struct object *tile, uint64_t call,
			     uint64_t number)
{
	struct count count = {.maps = -1};

	if (vmm_change(guest, tile->tile.handle, &count) && vmm_is_gone(&count.after)) {
		count.after.kind = OBJECT_GONE;
		count.after.key = number;
		object_put(guest->objects, &count.after);
	}
	tile->tile.key = tile->key;
	tile->tile.call = call;
	tile->kind = OBJECT_UNTILED;
	tile->key = number;
	object_put(guest->objects, tile);
}

/* Of one that was taken out again. */
static void vmm_untile_end(struct guest *guest, struct object *tile, bool done)
{
	struct object handle;
	bool was_last = object_take(guest->objects, OBJECT_GONE, tile->key, &handle);

	if (!done) {
		vmm_restore(guest, tile->tile.handle, was_last ? &handle : NULL, 0, 1);
		tile->kind = OBJECT_TILE;
		tile->key = tile->tile.key;
		object_put(guest->objects, tile);
	} else if (was_last) {
		vmm_gone(guest, tile->tile.handle, &handle);
	}
}

/* Mapping over a mapping replaces it. False: the handle is none of the program's. */
static bool vmm_tile_begin(struct guest *guest, const CUarrayMapInfo *info, uint64_t number)
{
	struct count one = {.maps = 1};
	struct object tile;

	if (info->memOperationType == CU_MEM_OPERATION_TYPE_MAP &&
	    vmm_change(guest, info->memHandle.memHandle, &one) && one.refused)
		return false;
	if (object_take(guest->objects, OBJECT_TILE, vmm_tile_key(info), &tile))
		vmm_untile_begin(guest, &tile, number, number);
	return true;
}

static void vmm_tile_end(struct guest *guest, const CUarrayMapInfo *info, uint64_t number,
			 bool done)
{
	struct object tile = {.kind = OBJECT_TILE, .key = vmm_tile_key(info), .device = -1,
			      .tile.array = KEY(info->resource.array),
			      .tile.handle = info->memHandle.memHandle};
	struct object before, handle;

	if (object_take(guest->objects, OBJECT_UNTILED, number, &before))
		vmm_untile_end(guest, &before, done);
	if (info->memOperationType != CU_MEM_OPERATION_TYPE_MAP ||
	    !object_get(guest->objects, OBJECT_HANDLE, tile.tile.handle, &handle))
		return; /* host memory */
	if (!done || object_exchange(guest->objects, &tile, &before))
		vmm_drop_mapping(guest, tile.tile.handle);
	else if (before.kind != OBJECT_NONE) /* twice in one list */
		vmm_drop_mapping(guest, before.tile.handle);
}

CUresult vmm_map_tiles(struct guest *guest, const CUarrayMapInfo *list, CUarrayMapInfo *as_driver,
		       unsigned int count, CUstream stream, map_array_fn *real)
{
	uint64_t number = vmm_untiled_numbers(guest, count);
	CUresult e = CUDA_SUCCESS;
	unsigned int begun;

	for (begun = 0; !e && begun < count; begun++)
		if (!vmm_tile_begin(guest, &list[begun], number + begun)) {
			e = CUDA_ERROR_INVALID_VALUE;
			break;
		}
	guest_depth++;
	if (!e)
		e = real(as_driver, count, stream);
	guest_depth--;
	for (unsigned int i = 0; i < begun; i++)
		vmm_tile_end(guest, &list[i], number + i, !e);
	return e;
}

static CUresult vmm_map_array(struct guest *guest, CUarrayMapInfo *list, unsigned int count,
			      CUstream stream, map_array_fn *real)
{
	CUresult e;

	if (!list || !count) {
		guest_depth++;
		e = real(list, count, stream);
		guest_depth--;
		return e;
	}
	charge_release_begin_all(guest);
	e = guest->allocator->map_tiles(guest, list, count, stream, real);
	charge_release_end_all(guest);
	return e;
}

CUresult hook_cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
	GUEST_OR_PASS(cuMemMapArrayAsync, (mapInfoList, count, hStream));
	return vmm_map_array(guest, mapInfoList, count, hStream, cuda_real.cuMemMapArrayAsync);
}

CUresult hook_cuMemMapArrayAsync_ptsz(CUarrayMapInfo *mapInfoList, unsigned int count,
				      CUstream hStream)
{
	GUEST_OR_PASS(cuMemMapArrayAsync_ptsz, (mapInfoList, count, hStream));
	return vmm_map_array(guest, mapInfoList, count, hStream, cuda_real.cuMemMapArrayAsync_ptsz);
}

static bool vmm_is_of_array(const struct object *object, void *arg)
{
	return object->kind == OBJECT_TILE && object->tile.array == *(const uint64_t *)arg;
}

static bool vmm_is_of_call(const struct object *object, void *arg)
{
	return object->kind == OBJECT_UNTILED && object->tile.call == *(const uint64_t *)arg;
}

uint64_t vmm_forget_array_begin(struct guest *guest, uint64_t array)
{
	uint64_t call = vmm_untiled_numbers(guest, 1);
	struct object *tile;

	if (!object_count(guest->objects, OBJECT_TILE))
		return 0;
	OBJECT_SWEEP (tile, guest->objects, vmm_is_of_array, &array)
		vmm_untile_begin(guest, tile, call, vmm_untiled_numbers(guest, 1));
	return call;
}

void vmm_forget_array_end(struct guest *guest, uint64_t call, bool done)
{
	struct object *tile;

	if (!call)
		return;
	OBJECT_SWEEP (tile, guest->objects, vmm_is_of_call, &call)
		vmm_untile_end(guest, tile, done);
}

/*
 * Multicast objects. One is a handle as others are, and takes nothing. What is bound to it is held
 * by that as by a mapping, until it is unbound or the object ends: a part of it, as of an array.
 */
CUresult hook_cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle,
				const CUmulticastObjectProp *prop)
{
	GUEST_OR_PASS(cuMulticastCreate, (mcHandle, prop));
	struct object object = {.kind = OBJECT_HANDLE, .category = CAT_DATA, .refs = 1,
				.flags = OBJECT_MULTICAST, .device = -1};
	CUresult e = DRIVER(cuMulticastCreate, (mcHandle, prop));

	if (e)
		return e;
	object.key = *mcHandle;
	if (!object_put(guest->objects, &object))
		return CUDA_SUCCESS;
	DRIVER(cuMemRelease, (*mcHandle));
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Before the driver binds it. False: the program has no such handle; a host's is none of ours. */
static bool vmm_bind_begin(struct guest *guest, uint64_t handle, bool by_address,
			   bool *ret_counted)
{
	struct count one = {.maps = 1, .by_address = by_address};

	*ret_counted = vmm_change(guest, handle, &one) && !one.refused;
	return !one.refused;
}

/* Others map it, at addresses that are none of ours. */
static void vmm_bind_end(struct guest *guest, uint64_t handle, struct object *binding, bool done)
{
	struct object object;

	if (done && object_get(guest->objects, OBJECT_HANDLE, handle, &object)) {
		binding->kind = OBJECT_TILE;
		binding->key = vmm_untiled_numbers(guest, 1);
		binding->device = object.device;
		binding->tile.handle = handle;
		vmm_mark_given(guest, handle);
		object_put(guest->objects, binding); /* without a record it is charged for good */
	} else {
		vmm_drop_mapping(guest, handle);
	}
}

CUresult hook_cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
				 CUmemGenericAllocationHandle memHandle, size_t memOffset,
				 size_t size, unsigned long long flags)
{
	GUEST_OR_PASS(cuMulticastBindMem, (mcHandle, mcOffset, memHandle, memOffset, size, flags));
	struct object binding = {.tile = {.array = mcHandle, .offset = mcOffset, .size = size}};
	CUmemGenericAllocationHandle real;
	bool counted;
	CUresult e;

	if (!vmm_real(guest, memHandle, &real) ||
	    !vmm_bind_begin(guest, memHandle, false, &counted))
		return CUDA_ERROR_INVALID_VALUE;
	e = DRIVER(cuMulticastBindMem, (mcHandle, mcOffset, real, memOffset, size, flags));
	if (counted)
		vmm_bind_end(guest, memHandle, &binding, !e);
	return e;
}

/* So memory by cuMemAlloc has none: a program falls back, as where there is no multicast. */
CUresult hook_cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
				  CUdeviceptr memptr, size_t size, unsigned long long flags)
{
	GUEST_OR_PASS(cuMulticastBindAddr, (mcHandle, mcOffset, memptr, size, flags));
	struct object binding = {.tile = {.array = mcHandle, .offset = mcOffset, .size = size}};
	uint64_t handle = vmm_handle_at(guest, memptr);
	bool counted;
	CUresult e;

	if (guest->allocator->holds(guest, memptr))
		return CUDA_ERROR_NOT_SUPPORTED;
	vmm_bind_begin(guest, handle, true, &counted);
	e = DRIVER(cuMulticastBindAddr, (mcHandle, mcOffset, memptr, size, flags));
	if (counted)
		vmm_bind_end(guest, handle, &binding, !e);
	return e;
}

/* Whole bindings only, all or nothing. */
static bool vmm_is_bound(const struct object *object, void *arg)
{
	const struct object *range = arg;

	return object->kind == OBJECT_TILE && object->tile.array == range->tile.array &&
	       object->device == range->device &&
	       object->tile.offset < range->tile.offset + range->tile.size &&
	       range->tile.offset < object->tile.offset + object->tile.size;
}

CUresult hook_cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
				size_t mcOffset, size_t size)
{
	GUEST_OR_PASS(cuMulticastUnbind, (mcHandle, dev, mcOffset, size));
	struct object range = {.device = (int16_t)dev,
			       .tile = {.array = mcHandle, .offset = mcOffset, .size = size}};
	uint64_t call = vmm_untiled_numbers(guest, 1);
	struct object *bound;
	CUresult e;

	charge_release_begin_all(guest);
	OBJECT_SWEEP (bound, guest->objects, vmm_is_bound, &range)
		vmm_untile_begin(guest, bound, call, vmm_untiled_numbers(guest, 1));
	e = DRIVER(cuMulticastUnbind, (mcHandle, dev, mcOffset, size));
	vmm_forget_array_end(guest, call, !e);
	charge_release_end_all(guest);
	return e;
}
