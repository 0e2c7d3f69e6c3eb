/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/limited.h"

#include <string.h>

#include "base/cancel.h"
#include "guest/core/library.h"
#include "guest/core/pass.h"
#include "guest/core/rooms.h"
#include "guest/core/space.h"
#include "guest/core/trace.h"
#include "guest/process/complain.h"

/* Devices as the driver names them. Every thread asks for itself; the one that claims keeps them. */
struct limited_found {
	int count;
	struct {
		CUuuid uuid;
		size_t total_bytes;
		uint64_t stack_threads;
	} device[GUEST_DEVICES];
};

static CUresult limited_ask_device(struct limited_found *found, int i)
{
	int sms = 0, threads = 0;
	CUresult e = cuda_real_address(CUDA_FN_cuDeviceGetUuid_v2)
			     ? DRIVER(cuDeviceGetUuid_v2, (&found->device[i].uuid, i))
			     : DRIVER(cuDeviceGetUuid, (&found->device[i].uuid, i));

	if (!e)
		e = DRIVER(cuDeviceTotalMem_v2, (&found->device[i].total_bytes, i));
	if (e)
		return e;
	DRIVER(cuDeviceGetAttribute, (&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, i));
	DRIVER(cuDeviceGetAttribute,
	       (&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, i));
	found->device[i].stack_threads = (uint64_t)sms * (uint64_t)threads;
	return CUDA_SUCCESS;
}

static CUresult limited_enumerate(struct limited_found *found)
{
	CUresult e = DRIVER(cuDeviceGetCount, (&found->count));

	if (found->count > GUEST_DEVICES)
		found->count = GUEST_DEVICES;
	for (int i = 0; !e && i < found->count; i++)
		e = limited_ask_device(found, i);
	return e;
}

static int limited_keep_device(struct guest *guest, const struct limited_found *found, int i)
{
	struct guest_device *device = &guest->device[i];

	memcpy(device->uuid, found->device[i].uuid.bytes, sizeof(device->uuid));
	device->ordinal = i;
	device->total_bytes = found->device[i].total_bytes;
	device->stack_threads = found->device[i].stack_threads;
	device->ledger = ledger_device(guest->ledger, device->uuid, device->total_bytes);
	return device->ledger < 0 ? device->ledger : 0;
}

/* The thread that claims: everything below is files and memory, no driver. */
static int limited_claim(struct guest *guest, const struct limited_found *found)
{
	struct slot *slot;
	int r = 0;

	guest->ndevices = found->count;
	for (int i = 0; !r && i < found->count; i++)
		r = limited_keep_device(guest, found, i);
	for (int i = 0; !r && i < found->count; i++)
		guest_name_device(guest, guest->device[i].uuid, (unsigned int)i,
				  guest->device[i].total_bytes);
	if (!r)
		r = guest_claim_slot(guest, &slot);
	if (r)
		return r;
	pass_init(guest);
	guest_rooms.choose_allocator(guest);
	trace_follow(guest);
	atomic_store_explicit(&guest->slot, slot, memory_order_release);
	return 0;
}

static CUresult limited_attach_slow(struct guest *guest)
{
	struct limited_found found = {.count = 0};
	CUresult e = limited_enumerate(&found);
	int r;

	if (e)
		return e; /* not initialised: the program's own affair */
	e = space_confirm(guest, found.count);
	if (e)
		return e;
	if (once_begin(&guest->claim)) {
		r = limited_claim(guest, &found);
		if (r) {
			guest_close(guest, CUDA_ERROR_OPERATING_SYSTEM);
			guest_explain(guest, r, guest->config.complaint,
				      sizeof(guest->config.complaint));
			complain_refusal(guest->config.complaint);
		}
		once_end(&guest->claim, r);
		if (guest->swappable)
			guest_rooms.start_swap(guest);
	}
	return guest->claim.error ? guest_refusal(guest) : CUDA_SUCCESS;
}

CUresult limited_attach(struct guest *guest)
{
	enum guest_mode mode = guest_mode(guest);
	CUresult e;
	int cancel;

	if (mode != GUEST_LIMITED)
		return mode == GUEST_CLOSED ? guest_refusal(guest) : CUDA_SUCCESS;
	if (atomic_load_explicit(&guest->slot, memory_order_acquire))
		return CUDA_SUCCESS;
	/* Other threads wait for the one that claims. */
	cancel = cancel_hold();
	e = limited_attach_slow(guest);
	cancel_release(cancel);
	return e;
}

struct guest *limited_ask(CUresult *ret_error)
{
	struct guest *guest;

	if (!library_present(&library_cuda)) {
		/* Called by its name in a process that has no driver. */
		*ret_error = CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
		return NULL;
	}
	if (guest_inside())
		return NULL;
	guest = guest_get();
	switch (guest_mode(guest)) {
	case GUEST_INERT:
		return NULL;
	case GUEST_LIMITED:
		*ret_error = limited_attach(guest);
		return *ret_error ? NULL : guest;
	case GUEST_CLOSED:
	default:
		*ret_error = guest_refusal(guest);
		return NULL;
	}
}
