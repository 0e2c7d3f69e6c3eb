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
	emu_files_forget();
	emu_gem_va_forget();
	emu_contexts_forget();
	emu_queues_forget();
	emu_engine_forget();
	m->xnack_off = m->paused = false;
	m->evicted = 0;
	m->signal_handle = 0;
	m->own_file = m->asked_by = 0;
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
	if (r == 0)
		emu_process_enter();
	return r;
}

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* With that lock: what the process has of the machine, from here on if not before. */
static int open_join(struct emu_machine **ret)
{
	bool is_here, is_inherited;
	int r = 0;

	*ret = emu_process(&is_here, &is_inherited);
	if (is_inherited)
		open_forget_all(*ret);
	if (!is_here)
		r = open_enter(*ret);
	return r;
}

struct emu_machine *emu_lock_any(void)
{
	struct emu_machine *m = emu_lock();

	if (m)
		return m;
	pthread_mutex_lock(&opening);
	open_join(&m);
	pthread_mutex_unlock(&opening);
	return emu_lock();
}

struct emu_machine *emu_lock_with(int fd)
{
	struct emu_machine *m = emu_lock_any();

	if (m)
		emu_file_met(emu_file_of(fd));
	return m;
}

/* KFD shows each process that has opened it. */
static void open_show(const struct emu_machine *m)
{
	static pid_t shown;

	if (shown != getpid())
		emu_sysfs_enter(m, getpid());
	shown = getpid();
}

int emu_open(int fd)
{
	struct emu_machine *m;
	int r;

	pthread_mutex_lock(&opening);
	r = open_join(&m);
	if (r == 0)
		emu_gem_opened(m, fd);
	if (r == 0)
		emu_file_met(emu_file_of(fd));
	if (r == 0 && emu_minor_of(fd) == EMU_FILE_KFD) {
		open_show(m);
		emu_criu_opened(m, fd);
	}
	pthread_mutex_unlock(&opening);
	return r;
}
