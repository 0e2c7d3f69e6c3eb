/* SPDX-License-Identifier: Apache-2.0 */
/* Ioctls of queues: the kernel's part, which ends where the engine begins. */
#include "sim/kfd/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amd/abi/kfd_criu.h"
#include "sim/kfd/memory.h"
#include "sim/kfd/user.h"

#define QUEUES	       1024 /* of a process */
#define DOORBELL_BYTES 8
#define GFX10	       100000
#define PAGE_BYTES     EMU_DOORBELLS_BYTES
_Static_assert(PAGE_BYTES == QUEUES * DOORBELL_BYTES, "one for each queue");

static struct emu_queue *queues; /* by id */
static uint32_t nqueues;	 /* ever used: the engine looks no further */
static struct roster *roster;	 /* from the first queue on */
static uint64_t *doorbells[TREE_GPUS];
static bool looked_for; /* somebody knows that there is something to do */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;

struct emu_queue *emu_queues(uint32_t *ret_n)
{
	*ret_n = nqueues;
	return queues;
}

void emu_queues_at(struct emu_queue ***ret_queues, uint32_t **ret_n)
{
	*ret_queues = &queues;
	*ret_n = &nqueues;
}

void emu_queues_forget(void)
{
	free(queues);
	queues = NULL;
	nqueues = 0;
	roster = NULL;
	memset(doorbells, 0, sizeof(doorbells)); /* which fork did not hand on */
	looked_for = false;
	pthread_cond_init(&wake, NULL);
}

void emu_queues_look(void)
{
	looked_for = true;
	pthread_cond_signal(&wake);
}

bool emu_queues_rest(const struct timespec *deadline)
{
	bool told;

	emu_wait(&wake, deadline);
	told = looked_for;
	looked_for = false;
	return told;
}

/* After any change: whether the queue is on its hardware follows from the rest. */
static void queue_tell_sysfs(struct emu_queue *q)
{
	q->is.active = !q->stopped && q->ring && q->ring_bytes && q->is.percent;
	roster_change(roster, q->number, &q->is);
}

void emu_queue_stop(struct emu_queue *q)
{
	q->stopped = true;
	queue_tell_sysfs(q);
}

void emu_queue_set_busy(struct emu_queue *q, bool busy)
{
	if (q->is.busy == busy)
		return;
	q->is.busy = busy;
	queue_tell_sysfs(q);
}

static struct emu_queue *queue_find(uint32_t id)
{
	return queues && id < QUEUES && queues[id].used ? &queues[id] : NULL;
}

/* Memory that the program maps, too; fork hands on neither its mapping nor this one. */
static uint64_t *queue_doorbells_of(const struct emu_machine *m, const struct emu_gpu *gpu)
{
	uint64_t **page = &doorbells[gpu - m->gpu];
	void *map;

	if (!*page) {
		map = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			   0);
		if (map == MAP_FAILED)
			return NULL;
		madvise(map, PAGE_BYTES, MADV_DONTFORK);
		*page = map;
	}
	return *page;
}

void *emu_map_doorbells(struct emu_machine *m, uint64_t offset, void *at, size_t len, bool fixed)
{
	for (uint32_t i = 0; i < m->ngpus; i++) {
		uint64_t *page;

		if (offset != (EMU_OFFSET_DOORBELL | EMU_OFFSET_GPU(m->gpu[i].actual_id)))
			continue;
		page = len <= PAGE_BYTES ? queue_doorbells_of(m, &m->gpu[i]) : NULL;
		if (!page)
			break;
		/* An old size of 0 has mremap() map the same memory a second time. */
		return mremap(page, 0, len, MREMAP_MAYMOVE | (fixed ? MREMAP_FIXED : 0), at);
	}
	errno = EINVAL;
	return MAP_FAILED;
}

bool emu_has_queues(void)
{
	for (uint32_t i = 0; i < nqueues; i++)
		if (queues[i].used)
			return true;
	return false;
}

static bool queue_is_type(uint32_t type)
{
	return type <= KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
}

/* Checks the arguments that making a queue and changing one have in common. */
static int queue_check(uint64_t ring, uint64_t ring_bytes, uint32_t percent, uint32_t priority)
{
	if (percent > KFD_MAX_QUEUE_PERCENTAGE || priority > KFD_MAX_QUEUE_PRIORITY ||
	    ring_bytes & (ring_bytes - 1))
		return -EINVAL;
	return ring >> 47 ? -EFAULT : 0;
}

static void queue_let_go(struct emu_machine *m, struct emu_queue *q, int i)
{
	struct emu_object *o = q->held[i] ? emu_object(m, q->held[i]) : NULL;

	if (o)
		o->queues--;
	q->held[i] = 0;
}

/*
 * Memory at an address that a queue uses stays mapped. With `bytes` it is to be there, and those whole
 * pages are to be all of it; of less than a page the kernel looks only where it begins.
 */
static int queue_hold(struct emu_machine *m, struct emu_queue *q, int i, uint64_t at, uint64_t bytes)
{
	struct emu_object *o;

	at -= at % 4096;
	if (bytes && !vm_is_object(&q->gpu->vm, at, bytes & ~UINT64_C(4095)))
		return -EINVAL;
	queue_let_go(m, q, i);
	o = at ? emu_object_mapped(m, q->gpu, at) : NULL;
	if (o) {
		o->queues++;
		q->held[i] = o->handle;
	}
	return 0;
}

static void queue_let_all_go(struct emu_machine *m, struct emu_queue *q)
{
	for (int i = 0; i < QUEUE_HOLDS; i++)
		queue_let_go(m, q, i);
}

/*
 * As kfd_queue_acquire_buffers(), but for the sizes of what a queue's waves are saved to and of its
 * end-of-pipe buffer: there are no waves here.
 */
static int queue_hold_all(struct emu_machine *m, struct emu_queue *q,
			  const struct kfd_ioctl_create_queue_args *a)
{
	int r;

	if (!emu_answers(KERNEL_QUEUES_HOLD_BUFFERS) || !q->gpu || !q->gpu->acquired)
		return 0;
	if ((r = queue_hold(m, q, QUEUE_WRITE, a->write_pointer_address, 4096)) == 0 &&
	    (r = queue_hold(m, q, QUEUE_READ, a->read_pointer_address, 4096)) == 0 &&
	    (r = queue_hold(m, q, QUEUE_RING, q->ring, q->ring_bytes)) == 0 &&
	    q->is.type != KFD_IOC_QUEUE_TYPE_SDMA && q->is.type != KFD_IOC_QUEUE_TYPE_SDMA_XGMI) {
		queue_hold(m, q, QUEUE_EOP, a->eop_buffer_address, 0);
		queue_hold(m, q, QUEUE_SAVED, a->ctx_save_restore_address, 0);
	}
	if (r < 0)
		queue_let_all_go(m, q);
	return r;
}

#define ANY_ID UINT32_MAX

/* The lowest that is free, or just this one. */
static int queue_free_id(uint32_t wanted)
{
	uint32_t id = wanted == ANY_ID ? 0 : wanted;

	if (!queues)
		queues = calloc(QUEUES, sizeof(*queues));
	if (!queues)
		return -ENOMEM;
	while (wanted == ANY_ID && id < QUEUES && queues[id].used)
		id++;
	return id < QUEUES && !queues[id].used ? (int)id : -ENOSPC;
}

/* Into the roster, not active yet. */
static int queue_enroll(struct emu_queue *q, uint32_t id)
{
	int r = roster ? 0 : roster_open(emu_root(), true, &roster);

	q->is.id = id;
	return r < 0 ? r : roster_add(roster, &q->is, &q->number);
}

/* Takes an id and a doorbell, which says `rung`; answers the id. */
static int queue_install(const struct emu_machine *m, struct emu_queue *q, uint32_t wanted,
			 uint64_t rung)
{
	uint64_t *page;
	int id, r;

	if (!q->gpu || !queue_is_type(q->is.type))
		return -EINVAL;
	if (!q->gpu->acquired)
		return -ESRCH;
	r = queue_check(q->ring, q->ring_bytes, q->is.percent, q->is.priority);
	if (r < 0)
		return r;
	q->used = true;
	q->is.pid = getpid();
	q->is.gpu_id = q->gpu->actual_id;
	page = queue_doorbells_of(m, q->gpu);
	id = page ? queue_free_id(wanted) : -ENOMEM;
	if (id < 0)
		return id;
	if ((r = queue_enroll(q, (uint32_t)id)) < 0)
		return r;
	page[id] = rung;
	q->doorbell = &page[id];
	queues[id] = *q;
	if ((uint32_t)id >= nqueues)
		nqueues = (uint32_t)id + 1;
	queue_tell_sysfs(&queues[id]);
	emu_sysfs_add_queue((uint32_t)id, q->is.gpu_id, (uint32_t)q->ring_bytes, q->is.type);
	return id;
}

int emu_add_queue(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_create_queue_args *a = block;
	struct emu_queue q = {.is = {.type = a->queue_type,
				     .percent = a->queue_percentage & 0xff,
				     .priority = a->queue_priority},
			      .gpu = emu_gpu(m, a->gpu_id),
			      .ring = a->ring_base_address,
			      .ring_bytes = a->ring_size,
			      .read_pointer = a->read_pointer_address};
	/* AQL's doorbell is told the number of the last packet, the first of which is 0. */
	uint64_t rung = a->queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL ? UINT64_MAX : 0;
	int id = queue_hold_all(m, &q, a);

	if (id == 0)
		id = queue_install(m, &q, ANY_ID, rung);
	if (id < 0) {
		queue_let_all_go(m, &q);
		return id;
	}
	a->queue_id = (uint32_t)id;
	a->doorbell_offset = EMU_OFFSET_DOORBELL | EMU_OFFSET_GPU(q.gpu->actual_id) |
			     (uint64_t)id * DOORBELL_BYTES;
	return 0;
}

void emu_queue_save(const struct emu_queue *q, uint64_t rung, struct kfd_criu_queue_priv *ret,
		    struct emu_queue_state *ret_state)
{
	*ret = (struct kfd_criu_queue_priv){.object_type = KFD_CRIU_OBJECT_TYPE_QUEUE,
					    .q_address = q->ring,
					    .q_size = q->ring_bytes,
					    .read_ptr_addr = q->read_pointer,
					    .doorbell_off = q->is.id,
					    .type = q->is.type,
					    .q_id = q->is.id,
					    .priority = q->is.priority,
					    .q_percent = q->is.percent,
					    .doorbell_id = q->is.id,
					    .mqd_size = sizeof(*ret_state)};
	*ret_state = (struct emu_queue_state){.doorbell = rung,
					      .read = q->read,
					      .done = q->done,
					      .copied_bytes = q->copied_bytes,
					      .stopped = q->stopped,
					      .mask_bits = q->is.mask_bits};
	memcpy(ret_state->mask, q->is.mask, sizeof(ret_state->mask));
}

int emu_queue_restore(struct emu_machine *m, const struct kfd_criu_queue_priv *saved,
		      const struct emu_queue_state *state)
{
	struct emu_queue q = {.stopped = state->stopped,
			      .is = {.type = saved->type,
				     .percent = saved->q_percent,
				     .priority = saved->priority,
				     .mask_bits = state->mask_bits},
			      .gpu = emu_gpu(m, saved->gpu_id),
			      .ring = saved->q_address,
			      .ring_bytes = saved->q_size,
			      .read_pointer = saved->read_ptr_addr,
			      .read = state->read,
			      .done = state->done,
			      .copied_bytes = state->copied_bytes};
	int id;

	memcpy(q.is.mask, state->mask, sizeof(q.is.mask));
	id = queue_install(m, &q, saved->q_id, state->doorbell);
	return id < 0 ? id : 0;
}

int emu_destroy_queue(struct emu_machine *m, void *block)
{
	const struct kfd_ioctl_destroy_queue_args *a = block;
	struct emu_queue *q = queue_find(a->queue_id);
	struct roster_times times;

	if (!q)
		return -EINVAL;
	roster_remove(roster, q->number, &times);
	emu_trace_end(q, &times);
	emu_sysfs_remove_queue(q->is.id);
	queue_let_all_go(m, q);
	q->used = false;
	return 0;
}

int emu_update_queue(struct emu_machine *m, void *block)
{
	const struct kfd_ioctl_update_queue_args *a = block;
	uint32_t percent = a->queue_percentage & 0xff;
	struct emu_queue *q = queue_find(a->queue_id);
	int r = queue_check(a->ring_base_address, a->ring_size, percent, a->queue_priority);

	if (r < 0)
		return r;
	if (!q || (emu_answers(KERNEL_QUEUES_HOLD_BUFFERS) && a->ring_base_address && a->ring_size &&
		   queue_hold(m, q, QUEUE_RING, a->ring_base_address, a->ring_size) < 0))
		return -EFAULT;
	q->ring = a->ring_base_address;
	q->ring_bytes = a->ring_size;
	q->is.percent = percent;
	q->is.priority = a->queue_priority;
	queue_tell_sysfs(q);
	emu_queues_look();
	return 0;
}

/* From GFX10 on CUs come in pairs, of which a queue has both or none. */
static bool queue_has_half_pairs(const struct emu_gpu *gpu, const uint32_t mask[ROSTER_MASK_WORDS])
{
	for (int i = 0; i < ROSTER_MASK_WORDS; i++)
		if ((mask[i] ^ mask[i] >> 1) & 0x55555555)
			return gpu->model && gpu->model->gfx_version >= GFX10;
	return false;
}

/* No shader is executed here, so none is amid its work. */
int emu_get_wave_state(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_get_queue_wave_state_args *a = block;
	const struct emu_queue *q = queue_find(a->queue_id);
	char byte = 0;

	if (!q || q->is.active ||
	    (q->is.type != KFD_IOC_QUEUE_TYPE_COMPUTE &&
	     q->is.type != KFD_IOC_QUEUE_TYPE_COMPUTE_AQL))
		return -EINVAL;
	if (user_copy_out(a->ctl_stack_address, &byte, sizeof(byte)) < 0)
		return -EFAULT;
	a->ctl_stack_used_size = a->save_area_used_size = 0;
	return 0;
}

int emu_set_cu_mask(struct emu_machine *m, void *block)
{
	const struct kfd_ioctl_set_cu_mask_args *a = block;
	struct emu_queue *q = queue_find(a->queue_id);
	uint32_t mask[ROSTER_MASK_WORDS] = {0}, bits = a->num_cu_mask;

	if (!bits || bits % 32)
		return -EINVAL;
	if (bits > 32 * ROSTER_MASK_WORDS) /* what is beyond is dropped */
		bits = 32 * ROSTER_MASK_WORDS;
	if (user_copy_in(mask, a->cu_mask_ptr, bits / 8) < 0 || !q)
		return -EFAULT;
	if (queue_has_half_pairs(q->gpu, mask))
		return -EINVAL;
	memcpy(q->is.mask, mask, sizeof(mask));
	q->is.mask_bits = bits;
	queue_tell_sysfs(q);
	return 0;
}
