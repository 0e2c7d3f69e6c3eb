/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/limited.h"

#include <string.h>
#include <sys/mman.h>

#include "base/cancel.h"
#include "base/pages.h"
#include "guest/core/complain.h"
#include "guest/core/library.h"
#include "guest/core/pass.h"
#include "guest/core/rooms.h"
#include "guest/core/space.h"
#include "guest/core/trace.h"

/* Asks the driver what devices there are. No lock: every thread asks for itself. */
static CUresult limited_enumerate(struct guest_device *device, int *ret_count)
{
	int count = 0;
	CUresult e = DRIVER(cuDeviceGetCount, (&count));

	if (e)
		return e;
	if (count > GUEST_DEVICES)
		count = GUEST_DEVICES;
	for (int i = 0; i < count; i++) {
		struct guest_device *d = &device[i];
		size_t total = 0;
		CUuuid uuid;
		int sms = 0, threads = 0;

		e = cuda_real_address(CUDA_FN_cuDeviceGetUuid_v2)
			    ? DRIVER(cuDeviceGetUuid_v2, (&uuid, i))
			    : DRIVER(cuDeviceGetUuid, (&uuid, i));
		if (!e)
			e = DRIVER(cuDeviceTotalMem_v2, (&total, i));
		if (e)
			return e;
		memcpy(d->uuid, uuid.bytes, sizeof(d->uuid));
		d->ordinal = i;
		d->total_bytes = total;
		DRIVER(cuDeviceGetAttribute, (&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, i));
		DRIVER(cuDeviceGetAttribute,
		       (&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, i));
		d->stack_threads = (uint64_t)sms * (uint64_t)threads;
	}
	*ret_count = count;
	return CUDA_SUCCESS;
}

/* The thread that claims: everything below is files and memory, no driver. */
static int limited_claim(struct guest *guest, const struct guest_device *device, int count)
{
	struct slot *slot;
	int r = 0;

	memcpy(guest->device, device, sizeof(guest->device));
	guest->ndevices = count;
	for (int i = 0; !r && i < count; i++) {
		r = ledger_device(guest->ledger, guest->device[i].uuid,
				  guest->device[i].total_bytes);
		guest->device[i].ledger = r;
		r = r < 0 ? r : 0;
	}
	for (int i = 0; !r && i < count; i++)
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

/* `device` has room for all of them: too much for a stack that is not ours. */
static CUresult limited_attach_with(struct guest *guest, struct guest_device *device)
{
	int count = 0, r;
	CUresult e = limited_enumerate(device, &count);

	if (e)
		return e; /* not initialised: the program's own affair */
	e = space_confirm(guest, count);
	if (e)
		return e;
	if (once_begin(&guest->claim)) {
		r = limited_claim(guest, device, count);
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
	size_t size = sizeof(guest->device);
	void *device;
	CUresult e;
	int cancel;

	if (mode != GUEST_LIMITED)
		return mode == GUEST_CLOSED ? guest_refusal(guest) : CUDA_SUCCESS;
	if (atomic_load_explicit(&guest->slot, memory_order_acquire))
		return CUDA_SUCCESS;
	device = pages_map(size);
	if (!device)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Other threads wait for the one that claims. */
	cancel = cancel_hold();
	e = limited_attach_with(guest, device);
	cancel_release(cancel);
	munmap(device, size);
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
