/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ioctls as a program may write them: a byte that says which device, a request, a block. Whatever
 * they are, the answer is one that a ledger can be given.
 */
#include <errno.h>
#include <string.h>

#include "amd/abi/kfd.h"
#include "amd/demand.h"
#include "amd/kfd_ioctl.h"
#include "tests/fuzz/fuzz.h"

#define PAGE 4096
#define GPU  0x1234

static void check_parts(const struct demand *d)
{
	MUST(d->count >= 1 && d->count <= DEMAND_PARTS);
	for (uint32_t i = 0; i < d->count; i++) {
		const struct demand_part *part = &d->parts[i];

		MUST(part->bytes <= DEMAND_MOST_BYTES && part->bytes % PAGE == 0);
		MUST(part->memory == DEMAND_VRAM || part->memory == DEMAND_GTT ||
		     part->memory == DEMAND_USERPTR);
		MUST(!d->by_address || part->bytes == d->length);
	}
	MUST(d->count < 2 || d->parts[0].gpu_id != d->parts[1].gpu_id ||
	     d->parts[0].memory != d->parts[1].memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum kfd_decision decision;
	uint32_t request;
	struct demand d;
	bool kfd;

	if (size < 1 + sizeof(request))
		return 0;
	kfd = data[0] % 2 == 0;
	memcpy(&request, data + 1, sizeof(request));
	data += 1 + sizeof(request);
	size -= 1 + sizeof(request);
	d = kfd ? demand_of_kfd(request, data, size, PAGE)
		: demand_of_drm(request, data, size, PAGE, GPU);
	decision = kfd ? kfd_ioctl_decide(request) : drm_ioctl_decide(request);
	MUST(d.error == (d.act == DEMAND_REFUSE ? d.error : 0));
	if (d.act == DEMAND_REFUSE)
		MUST(d.error == -ENOMEM || d.error == -EINVAL || d.error == -ENOTTY ||
		     d.error == -EPERM || d.error == -EACCES);
	if (d.act == DEMAND_TAKE)
		check_parts(&d);
	else
		MUST(d.count <= (d.act == DEMAND_PLACE ? DEMAND_PARTS : 0));
	MUST(!d.by_address || d.object + d.length >= d.object);
	/* What is decided and what is asked agree. */
	MUST(decision != KFD_REFUSE || d.act == DEMAND_REFUSE);
	MUST(decision != KFD_PASS || d.act == DEMAND_NOTHING);
	MUST(d.act != DEMAND_TAKE || decision == KFD_COUNT);
	MUST(d.act != DEMAND_PLACE || decision == KFD_COUNT);
	MUST(d.act != DEMAND_IMPORT || decision == KFD_SHARE);
	MUST(d.act != DEMAND_GIVE || decision == KFD_RELEASE || d.by_address);
	return 0;
}
