/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process opens a device. The kernel knows a process by its address space and keeps what it has
 * until that ends, whatever happens to descriptors. A child that opens the device anew begins with
 * nothing.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim/kfd/bank.h"
#include "sim/kfd/emu.h"
#include "sim/kfd/gem.h"
#include "sim/kfd/queue.h"

static int open_bank(struct bank **ret)
{
	int r = bank_open(emu_root(), ret);

	if (r < 0)
		fprintf(stderr, "allot sim: cannot use the devices' memory in %s/memory: %s%s\n",
			emu_root(), strerror(-r),
			r == -EPROTO ? "; it is of another version: use another directory" : "");
	return r;
}

static void open_forget_all(struct emu_machine *m)
{
	emu_memory_forget(m);
	emu_svm_forget();
	emu_events_forget();
	emu_buffers_forget();
	emu_gem_va_forget();
	emu_contexts_forget();
	emu_queues_forget();
	emu_engine_forget();
	m->xnack_off = m->paused = false;
	m->evicted = 0;
	for (uint32_t i = 0; i < m->ngpus; i++) {
		m->gpu[i].acquired = false;
		m->gpu[i].gpu_id = m->gpu[i].actual_id;
		vm_forget(&m->gpu[i].vm);
	}
}

static int open_enter(struct emu_machine *m)
{
	int r = m->topology ? 0 : emu_read_machine(m);

	if (r == 0)
		r = open_bank(&m->bank);
	if (r == 0) {
		emu_sysfs_enter(m, getpid());
		emu_process_enter();
	}
	return r;
}

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* Under `opening`. */
static int open_begin(struct emu_machine **ret)
{
	bool is_here, is_inherited;

	*ret = emu_process(&is_here, &is_inherited);
	if (is_inherited)
		open_forget_all(*ret);
	return is_here ? 0 : open_enter(*ret);
}

int emu_enter(void)
{
	struct emu_machine *m;
	int r;

	pthread_mutex_lock(&opening);
	r = open_begin(&m);
	pthread_mutex_unlock(&opening);
	return r;
}

int emu_open(int fd)
{
	struct emu_machine *m;
	int r;

	pthread_mutex_lock(&opening);
	r = open_begin(&m);
	if (r == 0)
		emu_gem_opened(m, fd);
	if (r == 0 && emu_minor_of(fd) == EMU_FILE_KFD)
		emu_criu_opened(m, fd);
	pthread_mutex_unlock(&opening);
	return r;
}
