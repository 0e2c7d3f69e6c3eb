/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/opencl/charge.h"

#include "guest/opencl/device.h"
#include "guest/opencl/state.h"
#include "opencl/opencl_size.h"

#define EACH(i, devices)                           \
	for (int i = 0; i < OPENCL_ACCOUNTED; i++) \
		if ((devices) & UINT64_C(1) << i)

bool opencl_charge_reserve(struct guest *guest, uint64_t devices, uint64_t bytes,
			   struct opencl_charge *ret)
{
	bytes = opencl_size_whole(bytes);
	ret->devices = 0;
	ret->bytes = bytes;
	if (guest_mode(guest) != GUEST_LIMITED || devices >> OPENCL_DEVICE_MORE)
		return false;
	EACH(i, devices) {
		if (uuid_charge_reserve(guest, &guest->opencl->device[i], bytes, &ret->of[i])) {
			opencl_charge_cancel(ret);
			return false;
		}
		ret->devices |= UINT64_C(1) << i;
	}
	return true;
}

void opencl_charge_commit(struct opencl_charge *charge)
{
	EACH(i, charge->devices)
		uuid_charge_commit(&charge->of[i]);
}

void opencl_charge_cancel(struct opencl_charge *charge)
{
	EACH(i, charge->devices)
		uuid_charge_cancel(&charge->of[i]);
}

void opencl_release_begin(struct guest *guest, uint64_t devices, struct opencl_release *ret)
{
	ret->devices = guest_mode(guest) == GUEST_LIMITED ? devices : 0;
	EACH(i, ret->devices) {
		ret->bytes[i] = 0;
		uuid_charge_release_begin(guest, &guest->opencl->device[i], &ret->of[i]);
	}
}

void opencl_release_add(struct opencl_release *release, uint64_t devices, uint64_t bytes)
{
	EACH(i, release->devices & devices)
		release->bytes[i] += bytes;
}

void opencl_release_end(struct opencl_release *release)
{
	EACH(i, release->devices)
		uuid_charge_release_end(&release->of[i], release->bytes[i]);
}

void opencl_release_object(struct guest *guest, const struct object *object)
{
	struct opencl_release release;

	if (object->kind == OBJECT_NONE || !object->opencl.devices)
		return;
	opencl_release_begin(guest, object->opencl.devices, &release);
	opencl_release_add(&release, object->opencl.devices, object->bytes);
	opencl_release_end(&release);
}
