/* SPDX-License-Identifier: Apache-2.0 */
/* Objects: where they are, which devices map them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "peer/backend.h"
#include "peer/complain.h"

/* Of an object, from its place in the tree; NULL of NULL. */
static struct peer_object *object_of(struct range *range)
{
	return range ? (struct peer_object *)((char *)range - offsetof(struct peer_object, range))
		     : NULL;
}

int peer_object_find(const struct allot_peer *peer, uint64_t address, const char *call,
		     struct peer_object **ret_object)
{
	struct range *range = ranges_at_or_after(&peer->objects, address);

	if (!range || range->first > address)
		return complain(-ENOENT, "%s: no object is at %#" PRIx64, call, address);
	*ret_object = object_of(range);
	return 0;
}

/* Finds the object that begins at the address, which is its name. */
static int peer_object_find_named(const struct allot_peer *peer, uint64_t address, const char *call,
				  struct peer_object **ret_object)
{
	struct peer_object *object = NULL;
	int r = peer_object_find(peer, address, call, &object);

	if (r < 0)
		return r;
	if (object->range.first != address)
		return complain(-ENOENT,
				"%s: no object begins at %#" PRIx64 ", which is %" PRIu64
				" bytes into the one at %#" PRIx64 "; name that",
				call, address, address - object->range.first, object->range.first);
	*ret_object = object;
	return 0;
}

const char *peer_object_call(const struct peer_object *object)
{
	return object->imported ? "import" : "alloc";
}

/* Gives the object a name of addresses where no memory can be. */
static int peer_object_take_name(struct allot_peer *peer, struct peer_object *object)
{
	uint64_t name;
	int r = address_pick(&peer->objects, &address_names, peer->next_name, object->bytes,
			     peer->page, &name);

	if (r < 0) /* from the beginning: some may have been freed */
		r = address_pick(&peer->objects, &address_names, 0, object->bytes, peer->page,
				 &name);
	if (r < 0)
		return complain(r, "%s: no name is left for %" PRIu64 " bytes",
				peer_object_call(object), object->bytes);
	object->range = (struct range){.first = name, .last = name + object->bytes - 1};
	peer->next_name = object->range.last;
	return 0;
}

/* Where any address will do, the aperture's beginning is checked in its place. */
static int peer_object_check_place(const struct allot_peer *peer, const struct peer_object *object,
				   uint64_t address, uint64_t alignment)
{
	const struct aperture *a = &peer->aperture;
	uint64_t any = (a->first | (alignment - 1)) + 1;
	int r = address_check(a, address ? address : any, object->bytes, peer->page, alignment);
	char at[32] = "";

	if (address)
		snprintf(at, sizeof(at), " at %#" PRIx64, address);
	if (r == -ERANGE)
		return complain(r,
				"%s: %" PRIu64 " bytes%s are not within what all devices can "
				"address, %#" PRIx64 " to %#" PRIx64,
				peer_object_call(object), object->bytes, at, a->first, a->last);
	if (r < 0)
		return complain(r,
				"%s: %" PRIu64 " bytes%s, at a multiple of %" PRIu64
				": length and address are to be whole pages, of %" PRIu64
				" bytes, and the multiple a power of two of them",
				peer_object_call(object), object->bytes, at, alignment, peer->page);
	return 0;
}

int peer_object_place(struct allot_peer *peer, struct peer_object *object, uint64_t address,
		      uint64_t alignment)
{
	int r;

	if (!alignment)
		alignment = address ? peer->page : address_alignment(object->bytes, peer->page);
	r = peer_object_check_place(peer, object, address, alignment);
	if (r < 0)
		return r;
	if (object->kind == ALLOT_PEER_HANDLE)
		r = peer_object_take_name(peer, object);
	else if (object->kind == ALLOT_PEER_USER)
		object->range =
			(struct range){.first = address, .last = address + object->bytes - 1};
	else
		r = peer->backend->reserve(peer, object, address, alignment);
	if (r < 0)
		return r;
	r = ranges_insert(&peer->objects, &object->range);
	if (r == 0)
		return 0;
	peer->backend->release(peer, object);
	return complain(r, "%s: %" PRIu64 " bytes at %#" PRIx64 " overlap another object",
			peer_object_call(object), object->bytes, address);
}

void peer_object_displace(struct allot_peer *peer, struct peer_object *object)
{
	ranges_remove(&peer->objects, &object->range);
	peer->backend->release(peer, object);
}

static int peer_object_check_request(const struct allot_peer *peer,
				     const struct allot_peer_request *what)
{
	bool addressed = what->kind != ALLOT_PEER_HANDLE;

	if ((unsigned int)what->kind > ALLOT_PEER_HANDLE || what->flags & ~PEER_FLAGS)
		return complain(-EINVAL, "alloc: no such kind (%u) or flags (%#x)",
				(unsigned int)what->kind, what->flags);
	if (what->device >= peer->n)
		return complain(-EINVAL, "alloc: there is no device %u; there are %u", what->device,
				peer->n);
	if (peer->backend->devices_only &&
	    (what->kind == ALLOT_PEER_SYSTEM || what->kind == ALLOT_PEER_USER))
		return complain(-ENOTSUP, "alloc: this driver has memory of devices only");
	if (what->kind == ALLOT_PEER_USER && !what->address)
		return complain(-EINVAL, "alloc: pages of the program need their address");
	if (!addressed && (what->address || what->alignment))
		return complain(-EINVAL, "alloc: a handle has no address to choose");
	return 0;
}

int allot_peer_alloc(struct allot_peer *peer, const struct allot_peer_request *what,
		     uint64_t *ret_address)
{
	PEER_LOCKED locked = NULL;
	CLEANUP_FREE struct peer_object *object = calloc(1, sizeof(*object));
	int r = peer_lock(peer, &locked);

	if (r == 0)
		r = peer_object_check_request(peer, what);
	if (r < 0)
		return r;
	if (!object)
		return complain(-ENOMEM, "alloc: out of memory");
	object->kind = what->kind;
	object->flags = what->flags;
	object->device = what->device;
	object->bytes = what->bytes;
	r = peer_object_place(peer, object, what->address, what->alignment);
	if (r < 0)
		return r;
	if (object->kind != ALLOT_PEER_ADDRESS)
		r = peer->backend->alloc(peer, object);
	if (r < 0) {
		peer_object_displace(peer, object);
		return r;
	}
	*ret_address = object->range.first;
	object = NULL; /* the tree has it */
	return 0;
}

struct asking {
	struct allot_peer *peer;
	struct peer_object *object;
	bool unmap;
	struct peer_why why; /* the last time that this, not undoing it, failed */
};

static int peer_object_ask(void *context, const struct mapping_call *call, uint32_t *ret_done)
{
	struct asking *a = context;
	int r = a->peer->backend->map(a->peer, a->object, call, ret_done);

	if (r < 0 && call->unmap == a->unmap)
		snprintf(a->why.text, sizeof(a->why.text), "%s", allot_peer_error());
	return r;
}

static bool peer_object_has_owner(const struct peer_object *object)
{
	return object->kind == ALLOT_PEER_MEMORY;
}

/* A device is the first of its own peers; memory of the machine has all devices by number. */
int peer_remap(struct allot_peer *peer, struct peer_object *object, bool unmap, uint64_t devices,
	       struct peer_why *ret_why)
{
	struct asking context = {.peer = peer, .object = object, .unmap = unmap};
	uint32_t list[MAPPING_DEVICES];
	uint32_t n = mapping_list(
		devices, peer_object_has_owner(object) ? object->device : MAPPING_DEVICES, list);
	int r = mapping_run(&object->devices, unmap, list, n, peer_object_ask, &context);

	if (ret_why)
		*ret_why = context.why;
	return r;
}

uint64_t peer_all(const struct allot_peer *peer)
{
	return peer->n == ALLOT_PEER_DEVICES ? UINT64_MAX : (UINT64_C(1) << peer->n) - 1;
}

static int peer_object_check_reach(const struct allot_peer *peer, const struct peer_object *object,
				   uint64_t devices)
{
	for (uint32_t i = 0; peer_object_has_owner(object) && i < peer->n; i++)
		if (devices >> i & 1 && !(peer->reach[i] >> object->device & 1))
			return complain(-ENOLINK,
					"map: %s has no link to %s, whose memory is at %#" PRIx64
					"; map it to those that allot_peer_reachable() names",
					peer_name(peer, i).text,
					peer_name(peer, object->device).text, object->range.first);
	return 0;
}

static int peer_object_check_devices(const struct allot_peer *peer, uint64_t devices,
				     const char *call)
{
	if (devices != ALLOT_PEER_ALL && devices & ~peer_all(peer))
		return complain(-EINVAL, "%s: no such devices: %#" PRIx64 "; there are %" PRIu32,
				call, devices & ~peer_all(peer), peer->n);
	return 0;
}

static int peer_object_complain_mapping(const struct allot_peer *peer,
					const struct peer_object *object, int r, const char *what,
					const struct peer_why *why, const char *now)
{
	return complain(r, "%s: the object at %#" PRIx64 " of %s: %s; %s", what,
			object->range.first, peer_name(peer, object->device).text, why->text, now);
}

int allot_peer_map(struct allot_peer *peer, uint64_t address, uint64_t devices)
{
	PEER_LOCKED locked = NULL;
	struct peer_object *object = NULL;
	struct peer_why why;
	uint64_t before;
	int r = peer_lock(peer, &locked);

	if (r == 0)
		r = peer_object_find_named(peer, address, "map", &object);
	if (r == 0)
		r = peer_object_check_devices(peer, devices, "map");
	if (r < 0)
		return r;
	if (object->kind == ALLOT_PEER_ADDRESS || object->kind == ALLOT_PEER_HANDLE)
		return complain(-EINVAL, "map: the object at %#" PRIx64 " has no %s", address,
				object->kind == ALLOT_PEER_HANDLE ? "address" : "memory");
	if (devices == ALLOT_PEER_ALL && peer_object_has_owner(object))
		allot_peer_reachable(peer, object->device, &devices);
	else if (devices == ALLOT_PEER_ALL)
		devices = peer_all(peer);
	r = peer_object_check_reach(peer, object, devices);
	if (r < 0)
		return r;
	before = object->devices;
	r = peer_remap(peer, object, false, devices & ~before, &why);
	if (r < 0)
		return peer_object_complain_mapping(
			peer, object, r, "map", &why,
			object->devices == before
				? "it is mapped as before"
				: "some devices map it now, as undoing it failed, "
				  "too; unmap it");
	return 0;
}

int allot_peer_unmap(struct allot_peer *peer, uint64_t address, uint64_t devices)
{
	PEER_LOCKED locked = NULL;
	struct peer_object *object = NULL;
	struct peer_why why;
	int r = peer_lock(peer, &locked);

	if (r == 0)
		r = peer_object_find_named(peer, address, "unmap", &object);
	if (r == 0)
		r = peer_object_check_devices(peer, devices, "unmap");
	if (r < 0)
		return r;
	if (devices == ALLOT_PEER_ALL)
		devices = object->devices;
	r = peer_remap(peer, object, true, devices & object->devices, &why);
	if (r < 0)
		return peer_object_complain_mapping(peer, object, r, "unmap", &why,
						    "the call may be repeated");
	return 0;
}

/* Ends an object that no device maps. */
static int peer_object_end(struct allot_peer *peer, struct peer_object *object)
{
	int r = object->kind == ALLOT_PEER_ADDRESS ? 0 : peer->backend->free(peer, object);

	if (r < 0)
		return r;
	peer_object_displace(peer, object);
	free(object);
	return 0;
}

int allot_peer_free(struct allot_peer *peer, uint64_t address)
{
	PEER_LOCKED locked = NULL;
	struct peer_object *object = NULL;
	int r = peer_lock(peer, &locked);

	if (r == 0)
		r = peer_object_find_named(peer, address, "free", &object);
	if (r == 0 && object->devices)
		r = complain(-EBUSY,
			     "free: devices %#" PRIx64 " map the object at %#" PRIx64
			     "; unmap it first",
			     object->devices, address);
	else if (r == 0)
		r = peer_object_end(peer, object);
	return r;
}

/* Memory that the driver does not let go stays until the process ends; here it is forgotten. */
void peer_object_free_all(struct allot_peer *peer, bool forked)
{
	struct range *range;

	while ((range = ranges_at_or_after(&peer->objects, 0))) {
		struct peer_object *object = object_of(range);

		if (!forked && peer_remap(peer, object, true, object->devices, NULL) == 0 &&
		    peer_object_end(peer, object) == 0)
			continue;
		ranges_remove(&peer->objects, range);
		free(object);
	}
}

static struct allot_peer_object peer_object_describe(const struct peer_object *o)
{
	bool charged = o->kind == ALLOT_PEER_MEMORY || o->kind == ALLOT_PEER_HANDLE;

	return (struct allot_peer_object){
		.address = o->range.first,
		.bytes = o->bytes,
		.charged_bytes = charged && !o->imported ? o->bytes : 0,
		.devices = o->devices,
		.inode = o->inode,
		.inode_device = o->inode_device,
		.kind = o->kind,
		.flags = o->flags,
		.device = o->device,
		.imported = o->imported,
	};
}

int allot_peer_find(struct allot_peer *peer, uint64_t address, struct allot_peer_object *ret_object)
{
	PEER_LOCKED locked = NULL;
	struct peer_object *object = NULL;
	int r = peer_lock(peer, &locked);

	if (r == 0)
		r = peer_object_find(peer, address, "find", &object);
	if (r == 0)
		*ret_object = peer_object_describe(object);
	return r;
}

int allot_peer_next(struct allot_peer *peer, uint64_t address, struct allot_peer_object *ret_object)
{
	PEER_LOCKED locked = NULL;
	struct peer_object *object;
	int r = peer_lock(peer, &locked);

	if (r < 0)
		return r;
	object = object_of(ranges_at_or_after(&peer->objects, address));
	if (object && object->range.first < address)
		object = object_of(ranges_at_or_after(&peer->objects, object->range.last + 1));
	if (!object)
		return complain(-ENOENT, "next: no object is at %#" PRIx64 " or behind it", address);
	*ret_object = peer_object_describe(object);
	return 0;
}
