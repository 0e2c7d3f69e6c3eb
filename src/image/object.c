/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "image/object.h"

static const char *object_holder_wrong(const struct object_holder *h, const struct object *object,
				       const struct object_limits *limits)
{
	uint64_t reach = limits->ndevices < 64 ? (UINT64_C(1) << limits->ndevices) - 1 : UINT64_MAX;

	if (h->process >= limits->nprocesses)
		return "a holder is no process of the manifest";
	if (h->flags & ~(uint32_t)OBJECT_HOLDER_FLAGS)
		return "a holder's flags are unknown";
	if (h->devices & ~reach)
		return "a holder's devices are not the manifest's";
	if (!h->bytes && (h->address || h->offset))
		return "a holder maps nothing at an address";
	if (h->offset > object->bytes || h->bytes > object->bytes - h->offset)
		return "a holder maps more than there is";
	if (h->address > OBJECT_MAX_BYTES || h->bytes > OBJECT_MAX_BYTES - h->address)
		return "a holder's addresses are none";
	return NULL;
}

const char *object_wrong(const struct object *object, const struct object_limits *limits)
{
	const char *wrong = NULL;

	if (object->device >= limits->ndevices)
		return "its device is none of the manifest";
	if (!object->bytes || object->bytes > OBJECT_MAX_BYTES)
		return "its size is none";
	if (object->nholders > OBJECT_MAX_HOLDERS)
		return "it has too many holders";
	for (uint32_t i = 0; i < object->nholders && !wrong; i++)
		wrong = object_holder_wrong(&object->holders[i], object, limits);
	return wrong;
}
