/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "amd/topology_read.h"
#include "base/parse.h"
#include "sim/kfd/gem.h"

/*
 * The state of the process that opened the device. A forked child has none until it opens the
 * device itself.
 */
static struct {
	pid_t pid;
	pthread_mutex_t mutex;
	struct emu_machine machine;
} process = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool locked; /* by this thread */

/* As the machine was made (machine.c); here it is only believed. */
static uint64_t process_visible_bytes(const struct topology_node *node)
{
	const char *bar = getenv("ALLOT_SIM_AMD_BAR");
	uint64_t bytes = topology_vram_bytes(node), reached;

	return bar && parse_size(bar, 0, &reached) == 0 ? reached : bytes;
}

/*
 * A part of all memory there is. The machine's own is left out here, or of the small GPUs of tests a
 * large machine would leave nothing.
 */
#define RESERVED_BYTES (UINT64_C(8) << 20)

static uint64_t process_reserved_bytes(uint64_t all)
{
	return all >> 14 > RESERVED_BYTES ? all >> 14 : RESERVED_BYTES;
}

int emu_read_machine(struct emu_machine *m)
{
	struct topology_complaint complaint = {""};
	uint64_t all = 0;
	struct topology *t;
	int r = topology_read(emu_root(), &t, &complaint);

	if (r < 0) {
		fprintf(stderr, "allot sim: %s\n", complaint.text);
		return r;
	}
	m->topology = t;
	for (uint32_t i = 0; i < t->node_count; i++)
		all += topology_vram_bytes(&t->nodes[i]);
	for (uint32_t i = 0; i < t->node_count && m->ngpus < TREE_GPUS; i++) {
		const struct topology_node *node = &t->nodes[i];
		char gfx[TOPOLOGY_GFX_BYTES];

		if (!node->gpu_id)
			continue;
		topology_gfx_name(node, gfx);
		m->gpu[m->ngpus++] = (struct emu_gpu){.gpu_id = node->gpu_id,
						      .actual_id = node->gpu_id,
						      .node = node->id,
						      .minor = node->render_minor,
						      .vram_bytes = topology_vram_bytes(node),
						      .visible_bytes = process_visible_bytes(node),
						      .reserved_bytes = process_reserved_bytes(all),
						      .model = tree_model_find(gfx),
						      .device_id = node->device_id};
	}
	return 0;
}

struct emu_machine *emu_process(bool *ret_is_here, bool *ret_is_inherited)
{
	*ret_is_here = process.pid == getpid();
	*ret_is_inherited = process.pid && !*ret_is_here;
	if (*ret_is_inherited) {
		/* The thread that held the lock is not in this process. */
		pthread_mutex_init(&process.mutex, NULL);
		locked = false;
	}
	return &process.machine;
}

void emu_process_enter(void)
{
	__atomic_store_n(&process.pid, getpid(), __ATOMIC_RELEASE);
}

struct emu_machine *emu_lock(void)
{
	if (locked || __atomic_load_n(&process.pid, __ATOMIC_ACQUIRE) != getpid())
		return NULL;
	pthread_mutex_lock(&process.mutex);
	locked = true;
	__atomic_store_n(&process.machine.busy, true, __ATOMIC_SEQ_CST);
	return &process.machine;
}

void emu_unlock(void)
{
	locked = false;
	__atomic_store_n(&process.machine.busy, false, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&process.mutex);
}

void emu_wait(pthread_cond_t *cond, const struct timespec *deadline)
{
	__atomic_store_n(&process.machine.busy, false, __ATOMIC_SEQ_CST);
	if (deadline)
		pthread_cond_clockwait(cond, &process.mutex, CLOCK_MONOTONIC, deadline);
	else
		pthread_cond_wait(cond, &process.mutex);
	__atomic_store_n(&process.machine.busy, true, __ATOMIC_SEQ_CST);
}

struct emu_gpu *emu_gpu(struct emu_machine *m, uint32_t gpu_id)
{
	for (uint32_t i = 0; i < m->ngpus; i++)
		if (m->gpu[i].gpu_id == gpu_id)
			return &m->gpu[i];
	return NULL;
}

struct emu_gpu *emu_gpu_of_minor(struct emu_machine *m, int minor)
{
	for (uint32_t i = 0; i < m->ngpus; i++)
		if (minor == (int)m->gpu[i].minor || minor == TREE_CARD(m->gpu[i].minor))
			return &m->gpu[i];
	return NULL;
}

/* As the kernel does: for as long as the process lives. A mapping does so without a descriptor. */
static int process_keep_file(int fd)
{
	void *page = (void *)syscall(SYS_mmap, NULL, 1L, PROT_NONE, MAP_SHARED, fd, 0L);

	return page == MAP_FAILED ? -errno : madvise(page, 1, MADV_DONTFORK);
}

int emu_acquire(struct emu_gpu *gpu, int drm_fd)
{
	int r = process_keep_file(drm_fd);

	if (r < 0)
		return r;
	gpu->acquired = true;
	gpu->file = emu_file_of(drm_fd);
	return 0;
}
