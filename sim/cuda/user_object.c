/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/user_object.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "sim/cuda/api.h"
#include "sim/cuda/sim.h"

#define USER_OBJECT_MAGIC 0x55534f42

struct user_object {
	uint32_t magic;
	_Atomic uint64_t refs;
	CUhostFn destroy;
	void *ptr;
};

struct user_object_ref {
	struct user_object_ref *next;
	struct user_object *object;
	uint64_t n;
};

static CUresult user_object_lookup(CUuserObject handle, struct user_object **ret)
{
	struct user_object *object = (struct user_object *)handle;
	CUresult error = sim_ready();

	if (error)
		return error;
	if (!object || object->magic != USER_OBJECT_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = object;
	return CUDA_SUCCESS;
}

static void user_object_drop(struct user_object *object, uint64_t n)
{
	if (atomic_fetch_sub(&object->refs, n) != n)
		return;
	object->magic = 0;
	object->destroy(object->ptr);
	free(object);
}

static int user_object_refs_add(struct user_object_ref **refs, struct user_object *object,
				uint64_t n)
{
	struct user_object_ref *ref = malloc(sizeof(*ref));

	if (!ref)
		return -ENOMEM;
	*ref = (struct user_object_ref){*refs, object, n};
	*refs = ref;
	return 0;
}

static void user_object_refs_drop(struct user_object_ref *refs)
{
	for (struct user_object_ref *next; refs; refs = next) {
		next = refs->next;
		user_object_drop(refs->object, refs->n);
		free(refs);
	}
}

int user_object_refs_copy(struct user_object_ref **refs, const struct user_object_ref *from)
{
	struct user_object_ref *added = NULL, **last = &added;

	for (; from; from = from->next) {
		if (user_object_refs_add(&added, from->object, from->n)) {
			user_object_refs_drop(added);
			return -ENOMEM;
		}
		atomic_fetch_add(&from->object->refs, from->n);
	}
	while (*last)
		last = &(*last)->next;
	*last = *refs;
	*refs = added;
	return 0;
}

CUresult user_object_refs_retain(struct user_object_ref **refs, CUuserObject handle,
				 unsigned int count, bool move)
{
	struct user_object *object;
	CUresult error = user_object_lookup(handle, &object);

	if (error)
		return error;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	if (user_object_refs_add(refs, object, count))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!move)
		atomic_fetch_add(&object->refs, count);
	return CUDA_SUCCESS;
}

CUresult user_object_refs_give(struct user_object_ref **refs, CUuserObject handle,
			       unsigned int count)
{
	struct user_object *object;
	CUresult error = user_object_lookup(handle, &object);

	if (error)
		return error;
	for (struct user_object_ref **link = refs, *ref; (ref = *link); link = &ref->next) {
		if (ref->object != object || ref->n < count || !count)
			continue;
		ref->n -= count;
		if (!ref->n) {
			*link = ref->next;
			free(ref);
		}
		user_object_drop(object, count);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

struct launched {
	struct user_object_ref *refs;
	struct sim_mark *last;
};

static void *user_object_await(void *arg)
{
	struct launched *launched = arg;

	mark_wait(launched->last);
	mark_unref(launched->last);
	user_object_refs_drop(launched->refs);
	free(launched);
	return NULL;
}

void user_object_refs_release(struct user_object_ref *refs, struct sim_mark *last)
{
	struct launched *launched;
	pthread_t thread;

	if (!refs)
		return;
	if (!last || mark_done(last)) {
		user_object_refs_drop(refs);
		return;
	}
	/* Without a thread, or memory, they are kept for good. */
	launched = malloc(sizeof(*launched));
	if (!launched)
		return;
	*launched = (struct launched){refs, mark_ref(last)};
	if (!pthread_create(&thread, NULL, user_object_await, launched))
		pthread_detach(thread);
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
				    unsigned int initialRefcount, unsigned int flags)
{
	struct user_object *object;
	CUresult error = sim_ready();

	if (error)
		return error;
	if (!object_out || !destroy || !initialRefcount ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	object = malloc(sizeof(*object));
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*object = (struct user_object){USER_OBJECT_MAGIC, initialRefcount, destroy, ptr};
	*object_out = (CUuserObject)object;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	struct user_object *of;
	CUresult error = user_object_lookup(object, &of);

	if (error)
		return error;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_fetch_add(&of->refs, count);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	struct user_object *of;
	CUresult error = user_object_lookup(object, &of);

	if (error)
		return error;
	if (!count || count > atomic_load(&of->refs))
		return CUDA_ERROR_INVALID_VALUE;
	user_object_drop(of, count);
	return CUDA_SUCCESS;
}
