/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CRIU asks of a process that it has stopped, through a descriptor of that process's /dev/kfd.
 * Where the kernel has all processes, the emulator has its own alone: it reads the other one's
 * state out of its memory, as a debugger does. For that each process leaves in the tree who opened
 * which file, and where its state is.
 *
 * Two files there are read and written by place, and are holes for the most part: by the number of
 * an open file its opener's pid, and by pid an address.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "amd/abi/kfd_criu.h"
#include "base/cleanup.h"
#include "base/target.h"
#include "sim/kfd/gem.h"
#include "sim/kfd/memory.h"
#include "sim/kfd/queue.h"
#include "sim/kfd/user.h"

#define OPENERS "/kfd-openers"
#define STATES	"/kfd-states"
#define MAGIC	UINT64_C(0x5453554952434d41) /* "AMCRIUST" */

#define BUSY_NAPS   2000 /* of a millisecond, until a process is believed to be stopped in there */
#define BUSY_NAP_NS 1000000

/* Where everything is in a process that others look at. */
struct state {
	uint64_t magic;
	uint64_t pid;
	struct emu_machine *machine;
	struct emu_queue **queues;
	uint32_t *nqueues;
	const void *events;
	const uint32_t *nranges;
};

/* --- Who has which file, and where his state is ------------------------------------------------
 */

static int criu_open_file(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.*s%s", PATH_MAX - 32, emu_root(), name);
	return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static void criu_note(const char *name, uint64_t place, uint64_t value)
{
	CLEANUP_CLOSE int fd = criu_open_file(name);

	if (fd < 0 || pwrite(fd, &value, sizeof(value), (off_t)(place * sizeof(value))) < 0)
		fprintf(stderr, "allot sim: cannot write %s%s: %s\n", emu_root(), name,
			strerror(errno));
}

static uint64_t criu_noted(const char *name, uint64_t place)
{
	CLEANUP_CLOSE int fd = criu_open_file(name);
	uint64_t value = 0;

	return fd >= 0 && pread(fd, &value, sizeof(value), (off_t)(place * sizeof(value))) ==
				       sizeof(value)
		       ? value
		       : 0;
}

void emu_criu_opened(struct emu_machine *m, int fd)
{
	static struct state state;
	size_t unused;

	state = (struct state){.magic = MAGIC,
			       .pid = (uint64_t)getpid(),
			       .machine = m,
			       .events = emu_events(&unused),
			       .nranges = emu_svm_count()};
	emu_queues_at(&state.queues, &state.nqueues);
	m->own_file = emu_file_of(fd);
	criu_note(OPENERS, m->own_file, (uint64_t)getpid());
	criu_note(STATES, (uint64_t)getpid(), (uintptr_t)&state);
}

pid_t emu_criu_owner(uint64_t file)
{
	return (pid_t)criu_noted(OPENERS, file);
}

/* --- Another process's state -------------------------------------------------------------------
 */

/* A copy of it; addresses in there are the other one's, but for the objects. */
struct target {
	pid_t pid;
	struct state state;
	struct emu_machine machine;
	struct emu_queue *queues;
	uint32_t nqueues, nevents;
	struct kfd_criu_event_priv *events; /* with room for all that there may be */
};

static int criu_read(const struct target *t, const void *from, void *to, size_t len)
{
	return len ? target_copy(t->pid, (uintptr_t)from, to, len) : 0;
}

static int criu_find(pid_t pid, struct target *t)
{
	uint64_t at = pid > 0 ? criu_noted(STATES, (uint64_t)pid) : 0;

	t->pid = pid;
	if (!at || criu_read(t, (void *)(uintptr_t)at, &t->state, sizeof(t->state)) < 0 ||
	    t->state.magic != MAGIC || t->state.pid != (uint64_t)pid)
		return -ESRCH;
	return 0;
}

static int criu_write(const struct target *t, void *to, const void *from, size_t len)
{
	struct iovec here = {(void *)from, len}, there = {to, len};

	return process_vm_writev(t->pid, &here, 1, &there, 1, 0) == (ssize_t)len ? 0 : -ESRCH;
}

/*
 * One reason more for which no queue is executed, or one less: while there is any, the engine makes
 * no step that it has not begun. The process itself changes this only in RESTORE.
 */
static int criu_evict(const struct target *t, bool evict)
{
	uint32_t reasons;
	int r = criu_read(t, &t->state.machine->evicted, &reasons, sizeof(reasons));

	if (r < 0 || (!evict && !reasons))
		return r;
	reasons += evict ? 1 : -1u;
	return criu_write(t, &t->state.machine->evicted, &reasons, sizeof(reasons));
}

/* CRIU's own reason. */
static int criu_pause(const struct target *t, bool pause)
{
	int r = criu_evict(t, pause);

	return r < 0 ? r : criu_write(t, &t->state.machine->paused, &pause, sizeof(pause));
}

/* The kernel waits for a lock here. -EBUSY, which it never answers: a thread was stopped with it.
 */
static int criu_wait_idle(const struct target *t)
{
	bool busy = t->pid != getpid();
	int r = 0;

	for (int i = 0; r == 0 && busy && i < BUSY_NAPS; i++) {
		r = criu_read(t, &t->state.machine->busy, &busy, sizeof(busy));
		if (r == 0 && busy)
			nanosleep(&(struct timespec){.tv_nsec = BUSY_NAP_NS}, NULL);
	}
	return r == 0 && busy ? -EBUSY : r;
}

static int criu_copy_objects(struct target *t)
{
	int r = 0;

	for (uint32_t i = 0; i < t->machine.ngpus; i++) {
		struct emu_gpu *gpu = &t->machine.gpu[i];
		const void *theirs = gpu->objects;

		gpu->objects = r == 0 ? calloc(gpu->nobjects + 1, sizeof(*gpu->objects)) : NULL;
		if (r == 0)
			r = gpu->objects ? criu_read(t, theirs, gpu->objects,
						     gpu->nobjects * sizeof(*gpu->objects))
					 : -ENOMEM;
	}
	return r;
}

static int criu_copy_events(struct target *t)
{
	size_t bytes;
	CLEANUP_FREE void *copy = NULL;
	int r;

	emu_events(&bytes);
	copy = malloc(bytes);
	t->events = calloc(KFD_SIGNAL_EVENT_LIMIT, sizeof(*t->events));
	if (!copy || !t->events)
		return -ENOMEM;
	r = criu_read(t, t->state.events, copy, bytes);
	if (r == 0)
		t->nevents = emu_events_save(copy, t->events);
	return r;
}

static int criu_copy_queues(struct target *t)
{
	struct emu_queue *theirs;
	int r = criu_read(t, t->state.nqueues, &t->nqueues, sizeof(t->nqueues));

	if (r == 0)
		r = criu_read(t, t->state.queues, &theirs, sizeof(theirs));
	if (r < 0)
		return r;
	t->queues = calloc(t->nqueues + 1, sizeof(*t->queues));
	return t->queues ? criu_read(t, theirs, t->queues, t->nqueues * sizeof(*t->queues))
			 : -ENOMEM;
}

/* Ranges of SVM are not emulated here: such a process is refused, and not saved without them. */
static int criu_copy(struct target *t)
{
	uint32_t nranges = 0;
	int r = criu_wait_idle(t);

	if (r == 0)
		r = criu_read(t, t->state.machine, &t->machine, sizeof(t->machine));
	if (r == 0)
		r = criu_copy_objects(t);
	else
		t->machine.ngpus = 0;
	if (r == 0)
		r = criu_copy_queues(t);
	if (r == 0)
		r = criu_copy_events(t);
	if (r == 0)
		r = criu_read(t, t->state.nranges, &nranges, sizeof(nranges));
	return r == 0 && nranges ? -EOPNOTSUPP : r;
}

static void criu_release(struct target *t)
{
	for (uint32_t i = 0; i < t->machine.ngpus; i++)
		free(t->machine.gpu[i].objects);
	free(t->queues);
	free(t->events);
	free(t);
}

/* --- What there is of it -----------------------------------------------------------------------
 */

static bool criu_is_saved(const struct emu_object *o)
{
	return o->handle && (!o->va || o->va > EMU_GPUVM_BASE);
}

static uint32_t criu_count_queues(const struct target *t)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->nqueues; i++)
		n += t->queues[i].used;
	return n;
}

static void criu_count(const struct target *t, struct kfd_ioctl_criu_args *ret)
{
	uint32_t queues = criu_count_queues(t);

	ret->num_devices = t->machine.ngpus;
	ret->num_bos = 0;
	for (uint32_t g = 0; g < t->machine.ngpus; g++)
		for (uint32_t i = 0; i < t->machine.gpu[g].nobjects; i++)
			ret->num_bos += criu_is_saved(&t->machine.gpu[g].objects[i]);
	ret->num_objects = queues + t->nevents;
	ret->priv_data_size =
		sizeof(struct kfd_criu_process_priv) +
		ret->num_devices * sizeof(struct kfd_criu_device_priv) +
		(uint64_t)ret->num_bos * sizeof(struct kfd_criu_bo_priv) +
		queues * (sizeof(struct kfd_criu_queue_priv) + sizeof(struct emu_queue_state)) +
		t->nevents * sizeof(struct kfd_criu_event_priv);
}

/* Off the hardware for all who look, or back. */
static void criu_tell_roster(const struct target *t, bool paused)
{
	struct roster *roster = NULL;

	if (!criu_count_queues(t) || roster_open(emu_root(), false, &roster) < 0)
		return;
	for (uint32_t i = 0; i < t->nqueues; i++) {
		struct roster_queue is = t->queues[i].is;

		is.active &= !paused;
		if (t->queues[i].used)
			roster_change(roster, t->queues[i].number, &is);
	}
	roster_close(roster);
}

static int criu_process_info(struct target *t, struct kfd_ioctl_criu_args *a)
{
	int r = criu_pause(t, true);

	if (r == 0)
		r = criu_copy(t);
	if (r < 0) {
		criu_pause(t, false);
		return r;
	}
	criu_tell_roster(t, true);
	criu_count(t, a);
	a->pid = (uint32_t)t->pid;
	return 0;
}

/* --- Checkpoint --------------------------------------------------------------------------------
 */

/* The private data, from the first byte on. */
struct blob {
	char *at;
	size_t n;
};

static void criu_put(struct blob *b, const void *what, size_t len)
{
	memcpy(b->at + b->n, what, len);
	b->n += len;
}

static int criu_put_queues(const struct target *t, struct blob *b)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < t->nqueues; i++) {
		const struct emu_queue *q = &t->queues[i];
		struct kfd_criu_queue_priv saved;
		struct emu_queue_state state;
		uint64_t rung;

		if (!q->used)
			continue;
		r = criu_read(t, q->doorbell, &rung, sizeof(rung));
		emu_queue_save(q, rung, &saved, &state);
		saved.gpu_id = t->machine.gpu[q->gpu - t->state.machine->gpu].gpu_id;
		criu_put(b, &saved, sizeof(saved));
		criu_put(b, &state, sizeof(state));
	}
	return r;
}

static int criu_save_object(struct emu_machine *m, const struct target *t,
			    const struct emu_gpu *gpu, const struct emu_object *o,
			    struct kfd_criu_bo_bucket *ret, struct kfd_criu_bo_priv *ret_priv)
{
	bool writable = o->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
	uint32_t n = 0;
	int fd;

	*ret = (struct kfd_criu_bo_bucket){.addr = o->va,
					   .size = o->piece.key ? o->piece.size : o->size,
					   .offset = emu_object_offset(gpu, o),
					   .gpu_id = gpu->gpu_id,
					   .alloc_flags = o->flags,
					   .dmabuf_fd = KFD_INVALID_FD};
	*ret_priv =
		(struct kfd_criu_bo_priv){.user_addr = o->users, .idr_handle = (uint32_t)o->handle};
	for (uint32_t i = 0; i < t->machine.ngpus; i++)
		if (o->mapped >> i & 1)
			ret_priv->mapped_gpuids[n++] = t->machine.gpu[i].gpu_id;
	if (!o->piece.key)
		return 0;
	fd = bank_fd(m->bank, &o->piece, BANK_DMABUF, writable ? O_RDWR : O_RDONLY);
	if (fd < 0)
		return fd;
	ret->dmabuf_fd = (uint32_t)fd;
	return 0;
}

/* Opens descriptors: nothing after it may fail but what closes them. */
static int criu_save_objects(struct emu_machine *m, const struct target *t,
			     struct kfd_criu_bo_bucket *buckets, struct kfd_criu_bo_priv *privs,
			     uint32_t *ret_n)
{
	uint32_t n = 0;
	int r = 0;

	for (uint32_t g = 0; g < t->machine.ngpus; g++) {
		const struct emu_gpu *gpu = &t->machine.gpu[g];

		for (uint32_t i = 0; r == 0 && i < gpu->nobjects; i++) {
			if (!criu_is_saved(&gpu->objects[i]))
				continue;
			r = criu_save_object(m, t, gpu, &gpu->objects[i], &buckets[n], &privs[n]);
			n += r == 0;
		}
	}
	*ret_n = n;
	return r;
}

static int criu_give_objects(struct emu_machine *m, const struct target *t,
			     const struct kfd_ioctl_criu_args *a, struct kfd_criu_bo_priv *privs)
{
	CLEANUP_FREE struct kfd_criu_bo_bucket *buckets = calloc(a->num_bos + 1, sizeof(*buckets));
	uint32_t n = 0;
	int r = buckets ? criu_save_objects(m, t, buckets, privs, &n) : -ENOMEM;

	if (r == 0)
		r = user_copy_out(a->bos, buckets, a->num_bos * sizeof(*buckets));
	for (uint32_t i = 0; r < 0 && i < n; i++)
		if (buckets[i].dmabuf_fd != KFD_INVALID_FD)
			close((int)buckets[i].dmabuf_fd);
	return r;
}

static int criu_give_devices(const struct target *t, uint64_t to)
{
	struct kfd_criu_device_bucket buckets[TREE_GPUS] = {{0}};

	for (uint32_t i = 0; i < t->machine.ngpus; i++) {
		buckets[i].user_gpu_id = t->machine.gpu[i].gpu_id;
		buckets[i].actual_gpu_id = t->machine.gpu[i].actual_id;
	}
	return user_copy_out(to, buckets, t->machine.ngpus * sizeof(buckets[0]));
}

static int criu_give_all(struct emu_machine *m, const struct target *t,
			 const struct kfd_ioctl_criu_args *a)
{
	struct kfd_criu_process_priv head = {.version = KFD_CRIU_PRIV_VERSION,
					     .xnack_mode = getenv("ALLOT_SIM_AMD_XNACK") &&
							   !t->machine.xnack_off};
	CLEANUP_FREE char *data = calloc(1, a->priv_data_size);
	struct blob b = {.at = data};
	struct kfd_criu_bo_priv *privs;
	int r;

	if (!data)
		return -ENOMEM;
	criu_put(&b, &head, sizeof(head));
	b.n += a->num_devices * sizeof(struct kfd_criu_device_priv);
	privs = (void *)(data + b.n); /* whose fields are aligned there */
	b.n += a->num_bos * sizeof(*privs);
	r = criu_put_queues(t, &b);
	criu_put(&b, t->events, t->nevents * sizeof(*t->events));
	if (r == 0)
		r = criu_give_devices(t, a->devices);
	if (r == 0)
		r = criu_give_objects(m, t, a, privs);
	/* A caller with no room there has lost the descriptors, as with the kernel. */
	return r == 0 ? user_copy_out(a->priv_data, data, a->priv_data_size) : r;
}

static int criu_checkpoint(struct emu_machine *m, struct target *t,
			   const struct kfd_ioctl_criu_args *a)
{
	struct kfd_ioctl_criu_args is = {0};
	int r;

	if (!a->devices || !a->bos || !a->priv_data)
		return -EINVAL;
	r = criu_copy(t);
	if (r < 0)
		return r;
	criu_count(t, &is);
	if (!t->machine.paused || is.num_devices != a->num_devices || is.num_bos != a->num_bos ||
	    is.num_objects != a->num_objects || is.priv_data_size != a->priv_data_size)
		return -EINVAL;
	return criu_give_all(m, t, a);
}

static int criu_unpause(struct target *t)
{
	int r = criu_copy(t);

	if (r < 0)
		return r;
	if (!t->machine.paused)
		return -EINVAL;
	criu_tell_roster(t, t->machine.evicted > 1);
	return criu_pause(t, false);
}

/* Of a process that was restored, by whoever asks. */
static int criu_resume(struct target *t, uint32_t pid)
{
	int r = criu_find((pid_t)pid, t);

	return r < 0 ? r : criu_evict(t, false);
}

/* --- Who may ask -------------------------------------------------------------------------------
 */

static bool criu_may(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	return syscall(SYS_capget, &head, caps) == 0 &&
	       (caps[1].effective & 1u << (CAP_CHECKPOINT_RESTORE - 32) ||
		caps[0].effective & 1u << CAP_SYS_ADMIN);
}

/* Whether the caller is the one that has stopped it. */
static bool criu_is_tracer_of(pid_t pid)
{
	char path[64], line[128];
	int tracer = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && !tracer && fgets(line, sizeof(line), file))
		sscanf(line, "TracerPid: %d", &tracer);
	if (file)
		fclose(file);
	return tracer == getpid();
}

static int criu_do(struct emu_machine *m, struct target *t, struct kfd_ioctl_criu_args *a)
{
	switch ((enum kfd_criu_op)a->op) {
	case KFD_CRIU_OP_PROCESS_INFO:
		return criu_process_info(t, a);
	case KFD_CRIU_OP_CHECKPOINT:
		return criu_checkpoint(m, t, a);
	case KFD_CRIU_OP_UNPAUSE:
		return criu_unpause(t);
	case KFD_CRIU_OP_RESTORE:
		/* Another process's is nothing that CRIU asks for. */
		return t->pid == getpid() ? emu_criu_restore(m, a) : -EINVAL;
	case KFD_CRIU_OP_RESUME:
		return criu_resume(t, a->pid);
	}
	return -EINVAL;
}

int emu_criu(struct emu_machine *m, void *block)
{
	pid_t owner = emu_criu_owner(m->asked_by);
	struct target *t;
	int r;

	if (owner != getpid() && !criu_is_tracer_of(owner))
		return -EBADF;
	if (!criu_may())
		return -EACCES;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	r = criu_find(owner, t);
	if (r == 0)
		r = criu_do(m, t, block);
	criu_release(t);
	return r;
}
