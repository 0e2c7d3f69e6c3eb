/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays. Their layout is the driver's secret, but the driver tells what an array would need: it is
 * asked about an array made with deferred mapping, which takes nothing (about 5 us). Small arrays
 * share granules. They have no address, so they are charged by their sum.
 */
#include "guest/account/context.h"
#include "guest/account/room.h"
#include "guest/core/hook.h"
#include "guest/memory/memory.h"
#include "guest/memory/vmm.h"

/* Without deferred mapping (drivers before 11.6): by the elements, with room for tiling. */
static uint64_t array_estimate(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	static const unsigned char bits[] = {
		[CU_AD_FORMAT_UNSIGNED_INT8] = 8, [CU_AD_FORMAT_UNSIGNED_INT16] = 16,
		[CU_AD_FORMAT_UNSIGNED_INT32] = 32, [CU_AD_FORMAT_SIGNED_INT8] = 8,
		[CU_AD_FORMAT_SIGNED_INT16] = 16, [CU_AD_FORMAT_SIGNED_INT32] = 32,
		[CU_AD_FORMAT_HALF] = 16, [CU_AD_FORMAT_FLOAT] = 32,
	};
	bool known = (unsigned int)d->Format < sizeof(bits) && bits[d->Format];
	uint64_t element = known ? bits[d->Format] / 8 : 16;
	uint64_t row = round_up(d->Width * element * (d->NumChannels ? d->NumChannels : 1), 512);
	uint64_t bytes;

	if (__builtin_mul_overflow(row, round_up(d->Height ? d->Height : 1, 8), &bytes) ||
	    __builtin_mul_overflow(bytes, d->Depth ? d->Depth : 1, &bytes))
		return UINT64_MAX;
	return bytes;
}

/* Bytes that the array needs; 0 for a sparse one, whose parts are backed by handles. */
static uint64_t array_require(struct guest_device *device, const CUDA_ARRAY3D_DESCRIPTOR *desc,
			      unsigned int levels)
{
	CUDA_ARRAY3D_DESCRIPTOR probe = *desc;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {0};
	CUmipmappedArray mipmap;
	CUarray array;
	CUresult e;

	if (desc->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	probe.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
	if (levels) {
		e = DRIVER(cuMipmappedArrayCreate, (&mipmap, &probe, levels));
		if (!e) {
			e = DRIVER(cuMipmappedArrayGetMemoryRequirements,
				   (&needs, mipmap, device->ordinal));
			DRIVER(cuMipmappedArrayDestroy, (mipmap));
		}
	} else {
		e = DRIVER(cuArray3DCreate_v2, (&array, &probe));
		if (!e) {
			e = DRIVER(cuArrayGetMemoryRequirements, (&needs, array, device->ordinal));
			DRIVER(cuArrayDestroy, (array));
		}
	}
	if (!e && needs.size)
		return needs.size;
	/* A mipmap is at most a third more than its first level, and each level is rounded up. */
	return levels ? array_estimate(desc) / 3 * 4 + levels * 65536u : array_estimate(desc);
}

/* Undoes an array that cannot be recorded; the driver calls both kinds by their own names. */
static CUresult array_finish(struct charge *charge, CUresult result, uint64_t handle,
			     uint64_t bytes, CUresult (*destroy)(uint64_t handle))
{
	struct guest *guest = charge->guest;
	struct object object = {.kind = OBJECT_ARRAY, .key = handle, .category = CAT_ARRAY,
				.device = (int16_t)charge->device->ordinal, .size = bytes};
	uint64_t actual;

	if (result) {
		charge_cancel(charge);
		return result;
	}
	object.context = KEY(context_of_memory(guest));
	if (bytes > SMALL_BYTES)
		object.bytes = round_up(bytes, GRANULE_BYTES);
	actual = object.bytes ? object.bytes : memory_small_array_add(charge->device, bytes);
	if (!memory_record(charge, &object, actual))
		return CUDA_SUCCESS;
	destroy(handle);
	memory_freed(guest, &object);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult array_call_destroy(uint64_t handle)
{
	return DRIVER(cuArrayDestroy, ((CUarray)(uintptr_t)handle));
}

static CUresult array_call_destroy_mipmap(uint64_t handle)
{
	return DRIVER(cuMipmappedArrayDestroy, ((CUmipmappedArray)(uintptr_t)handle));
}

/* The four forms differ in their descriptor alone: `wide` is the same array in the widest one. */
#define CREATE(name, type, wide)                                                                   \
	CUresult hook_##name(CUarray *pHandle, const type *pAllocateArray)                         \
	{                                                                                          \
		GUEST_OR_PASS(name, (pHandle, pAllocateArray));                                    \
		struct guest_device *device = guest_current_device(guest);                         \
		const type *in = pAllocateArray;                                                   \
		uint64_t bytes;                                                                    \
                                                                                                   \
		if (!device || !in || !pHandle)                                                    \
			return DRIVER(name, (pHandle, pAllocateArray));                            \
		bytes = array_require(device, &(CUDA_ARRAY3D_DESCRIPTOR)wide, 0);                  \
		return CHARGE_AND_CALL(guest, device, memory_need(bytes),                          \
				       DRIVER(name, (pHandle, pAllocateArray)),                    \
				       array_finish(&charge_, answer_, KEY(*pHandle), bytes,       \
						    array_call_destroy));                          \
	}

#define FLAT {in->Width, in->Height, 0, in->Format, in->NumChannels, 0}
#define DEEP {in->Width, in->Height, in->Depth, in->Format, in->NumChannels, in->Flags}

CREATE(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, FLAT)
CREATE(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR, FLAT)
CREATE(cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, DEEP)
CREATE(cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR, DEEP)

CUresult hook_cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
				     const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
				     unsigned int numMipmapLevels)
{
	GUEST_OR_PASS(cuMipmappedArrayCreate, (pHandle, pMipmappedArrayDesc, numMipmapLevels));
	struct guest_device *device = guest_current_device(guest);
	uint64_t bytes;

	if (!device || !pMipmappedArrayDesc || !pHandle || !numMipmapLevels)
		return DRIVER(cuMipmappedArrayCreate,
			      (pHandle, pMipmappedArrayDesc, numMipmapLevels));
	bytes = array_require(device, pMipmappedArrayDesc, numMipmapLevels);
	return CHARGE_AND_CALL(
		guest, device, memory_need(bytes),
		DRIVER(cuMipmappedArrayCreate, (pHandle, pMipmappedArrayDesc, numMipmapLevels)),
		array_finish(&charge_, answer_, KEY(*pHandle), bytes, array_call_destroy_mipmap));
}

static CUresult array_destroy(struct guest *guest, uint64_t handle,
			      CUresult (*real)(uint64_t handle))
{
	struct object object;
	uint64_t call;
	CUresult e;

	if (!memory_take(guest, OBJECT_ARRAY, handle, &object) &&
	    !memory_take(guest, OBJECT_VIEW, handle, &object))
		return real(handle);
	call = vmm_forget_array_begin(guest, handle);
	e = real(handle);
	vmm_forget_array_end(guest, call, !e);
	return memory_free_end(guest, &object, e);
}

CUresult hook_cuArrayDestroy(CUarray hArray)
{
	GUEST_OR_PASS(cuArrayDestroy, (hArray));
	return array_destroy(guest, KEY(hArray), array_call_destroy);
}

CUresult hook_cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	GUEST_OR_PASS(cuMipmappedArrayDestroy, (hMipmappedArray));
	return array_destroy(guest, KEY(hMipmappedArray), array_call_destroy_mipmap);
}
