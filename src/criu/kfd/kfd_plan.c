/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "criu/kfd/kfd_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SMALL	    4096
#define SMALL_FLAGS (KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)

bool kfd_plan_is_own(const struct kfd_image *image, const struct kfd_image_process *p, uint32_t i)
{
	uint32_t number = p->first_holder + i, buffer = image->holders[number].buffer;

	return buffer == KFD_IMAGE_NONE || image->buffers[buffer].owner == number;
}

/* --- Gaps --------------------------------------------------------------------------------------
 */

/* How many handles, from 0, must be taken on this GPU so that all imports get theirs. */
static uint32_t plan_imports_end(const struct kfd_image *image, const struct kfd_image_process *p,
				 uint32_t gpu_id)
{
	uint32_t end = 0;

	for (uint32_t i = 0; i < p->nholders; i++) {
		const struct kfd_image_holder *h = &image->holders[p->first_holder + i];

		if (h->gpu_id == gpu_id && h->index >= end && !kfd_plan_is_own(image, p, i))
			end = h->index + 1;
	}
	return end;
}

static int plan_add_filler(struct kfd_plan *plan, uint32_t gpu_id, uint32_t index)
{
	struct kfd_filler *grown;

	if (plan->nfillers == KFD_PLAN_FILLERS)
		return -EFBIG;
	/* In powers of two: there may be many. */
	if (!(plan->nfillers & (plan->nfillers - 1)) || !plan->nfillers) {
		uint32_t room = plan->nfillers ? 2 * plan->nfillers : 1;

		grown = reallocarray(plan->fillers, room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		plan->fillers = grown;
	}
	plan->fillers[plan->nfillers++] = (struct kfd_filler){gpu_id, index};
	return 0;
}

static int plan_fill_gpu(const struct kfd_image *image, const struct kfd_image_process *p,
			 uint32_t gpu_id, struct kfd_plan *plan)
{
	uint32_t end = plan_imports_end(image, p, gpu_id);
	bool *taken = calloc(end + 1, sizeof(*taken));
	int r = taken ? 0 : -ENOMEM;

	for (uint32_t i = 0; r == 0 && i < p->nholders; i++) {
		const struct kfd_image_holder *h = &image->holders[p->first_holder + i];

		if (h->gpu_id == gpu_id && h->index < end)
			taken[h->index] = true;
	}
	for (uint32_t i = 0; r == 0 && i < end; i++)
		if (!taken[i])
			r = plan_add_filler(plan, gpu_id, i);
	free(taken);
	return r;
}

/* --- Buckets, and the kernel's data ------------------------------------------------------------
 */

static void plan_bucket(const struct kfd_image_holder *h, bool own, struct kfd_criu_bo_bucket *ret)
{
	*ret = (struct kfd_criu_bo_bucket){.addr = own ? h->address : 0,
					   .size = own ? kfd_image_times(h) * h->bytes : SMALL,
					   .gpu_id = h->gpu_id,
					   .alloc_flags = own ? h->flags : SMALL_FLAGS,
					   .dmabuf_fd = KFD_INVALID_FD};
}

/* As it was, with small buffers in the place of imports and fillers behind all buffers. */
static int plan_make_priv(const struct kfd_image *image, const struct kfd_image_process *p,
			  struct kfd_plan *plan)
{
	const char *was = image->bytes + p->priv_at;
	size_t before = sizeof(struct kfd_criu_process_priv) +
			p->ndevices * sizeof(struct kfd_criu_device_priv);
	size_t until = before + p->nholders * sizeof(struct kfd_criu_bo_priv);
	size_t more = plan->nfillers * sizeof(struct kfd_criu_bo_priv);
	struct kfd_criu_bo_priv small = {0};

	plan->priv = malloc(p->priv_bytes + more);
	if (!plan->priv)
		return -ENOMEM;
	memcpy(plan->priv, was, until);
	memcpy(plan->priv + until + more, was + until, p->priv_bytes - until);
	for (uint32_t i = 0; i < p->nholders + plan->nfillers; i++) {
		bool filler = i >= p->nholders;

		if (!filler && kfd_plan_is_own(image, p, i))
			continue;
		small.idr_handle = filler ? plan->fillers[i - p->nholders].index
					  : image->holders[p->first_holder + i].index;
		memcpy(plan->priv + before + i * sizeof(small), &small, sizeof(small));
	}
	plan->args.priv_data_size = p->priv_bytes + more;
	return 0;
}

static int plan_make_buckets(const struct kfd_image *image, const struct kfd_image_process *p,
			     struct kfd_plan *plan)
{
	plan->args.num_bos = p->nholders + plan->nfillers;
	plan->args.num_objects = p->nobjects;
	plan->bos = calloc(plan->args.num_bos + 1, sizeof(*plan->bos));
	if (!plan->bos)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->nholders; i++)
		plan_bucket(&image->holders[p->first_holder + i], kfd_plan_is_own(image, p, i),
			    &plan->bos[i]);
	for (uint32_t i = 0; i < plan->nfillers; i++) {
		const struct kfd_image_holder small = {.gpu_id = plan->fillers[i].gpu_id};

		plan_bucket(&small, false, &plan->bos[p->nholders + i]);
	}
	return 0;
}

int kfd_plan_make(const struct kfd_image *image, uint32_t process, struct kfd_plan *ret)
{
	const struct kfd_image_process *p = &image->processes[process];
	struct kfd_plan plan = {.nfillers = 0};
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < p->ndevices; i++)
		r = plan_fill_gpu(image, p, image->names[p->first_device + i].gpu_id, &plan);
	if (r == 0)
		r = plan_make_buckets(image, p, &plan);
	if (r == 0)
		r = plan_make_priv(image, p, &plan);
	if (r < 0) {
		kfd_plan_done(&plan);
		return r;
	}
	plan.args.bos = (uintptr_t)plan.bos;
	plan.args.priv_data = (uintptr_t)plan.priv;
	*ret = plan;
	return 0;
}

void kfd_plan_close_files(struct kfd_plan *plan)
{
	for (uint32_t i = 0; plan->bos && i < plan->args.num_bos; i++) {
		if (plan->bos[i].dmabuf_fd != KFD_INVALID_FD)
			close((int)plan->bos[i].dmabuf_fd);
		plan->bos[i].dmabuf_fd = KFD_INVALID_FD;
	}
}

void kfd_plan_done(struct kfd_plan *plan)
{
	free(plan->bos);
	free(plan->priv);
	free(plan->fillers);
	*plan = (struct kfd_plan){.nfillers = 0};
}
