/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KFD's ioctl for CRIU, as the kernel has it: who may ask, when; queues stand still meanwhile; one
 * buffer of two processes is one; and a process comes back in another one.
 */
#include <linux/capability.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/sim/kfd_criu.h"
#include "tests/sim/kfd_queue.h"

#define MOST 16 /* of buffers */

/* Memory at the same address in all of the processes: the queue's ring, and what it writes to. */
#define ARENA_BYTES (RING_BYTES + 8192)
static char *arena;

#define SHARED_AT  (UINT64_C(1) << 33)
#define PRIVATE_AT (UINT64_C(1) << 34)
#define GTT	   KFD_IOC_ALLOC_MEM_FLAGS_GTT
#define WRITABLE   KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE

/* A process's state, as the ioctl gives it. */
struct saved {
	struct kfd_ioctl_criu_args args;
	struct kfd_criu_device_bucket devices[GPUS];
	struct kfd_criu_bo_bucket bos[MOST];
	char blob[65536];
};

static struct queue arena_queue(void)
{
	fence = (uint64_t *)(arena + RING_BYTES + 4096);
	return (struct queue){.ring = arena,
			      .read = (uint64_t *)(arena + RING_BYTES),
			      .write = (uint64_t *)(arena + RING_BYTES + 8)};
}

static void make_arena_queue(struct queue *ret)
{
	struct kfd_ioctl_create_queue_args a = {
		.ring_base_address = (uintptr_t)arena,
		.ring_size = RING_BYTES,
		.read_pointer_address = (uintptr_t)arena + RING_BYTES,
		.write_pointer_address = (uintptr_t)arena + RING_BYTES + 8,
		.gpu_id = ids[0],
		.queue_type = KFD_IOC_QUEUE_TYPE_SDMA,
		.queue_percentage = 100};

	give_memory(give_queue_memory(arena) + RING_BYTES + 4096, ARENA_BYTES - RING_BYTES - 4096);
	CHECK_EQ(call(KFD_IOWR(CREATE_QUEUE, a), &a), 0);
	*ret = arena_queue();
	ret->id = a.queue_id;
	ret->doorbell = map_doorbell(a.doorbell_offset);
}

static void make_private(uint64_t *ret_handle)
{
	uint32_t done = 0;
	uint64_t offset = 0;
	char *here;

	CHECK_EQ(alloc_at(0, PRIVATE_AT, MIB, VRAM | WRITABLE, ret_handle, &offset), 0);
	CHECK_EQ(map(*ret_handle, ids, 1, &done), 0);
	here = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, render[0], (off_t)offset);
	CHECK(here != MAP_FAILED);
	snprintf(here, MIB, "of %d", getpid());
	munmap(here, MIB);
}

/* Exports a buffer, then has a queue, which it uses when it is told to. */
static void run_exporter(int socket)
{
	struct kfd_ioctl_export_dmabuf_args export = {.flags = O_CLOEXEC};
	uint64_t handle, shared;
	struct queue queue;
	uint32_t done = 0;

	open_devices();
	acquire_devices();
	make_private(&handle);
	CHECK_EQ(alloc_at(0, SHARED_AT, MIB, VRAM | WRITABLE, &shared, NULL), 0);
	CHECK_EQ(map(shared, ids, 2, &done), 0);
	export.handle = shared;
	CHECK_EQ(call(KFD_IOWR(EXPORT_DMABUF, export), &export), 0);
	make_arena_queue(&queue);
	CHECK_EQ(make_event(KFD_IOC_EVENT_SIGNAL, true), 1);
	CHECK_EQ(make_event(KFD_IOC_EVENT_MEMORY, false), 2);
	message_send(socket, &kfd, sizeof(kfd), (int)export.dmabuf_fd);
	for (;;) {
		hear(socket);
		put_fill(&queue, SHARED_AT, 0x66666666, 4096);
		put_fence(&queue, 77);
		ring(&queue);
		say(socket);
	}
}

/* Has the other's buffer, by the same handle number as the other's own one. */
static void run_importer(int socket)
{
	struct kfd_ioctl_import_dmabuf_args import = {.va_addr = SHARED_AT};
	uint64_t handle;
	int dmabuf, unused;

	open_devices();
	acquire_devices();
	message_receive(socket, &unused, sizeof(unused), &dmabuf);
	import.gpu_id = ids[0];
	import.dmabuf_fd = (uint32_t)dmabuf;
	CHECK_EQ(call(KFD_IOWR(IMPORT_DMABUF, import), &import), 0);
	close(dmabuf);
	make_private(&handle);
	CHECK_EQ((uint32_t)handle, 1);
	message_send(socket, &kfd, sizeof(kfd), -1);
	hear(socket);
}

/* 0 or -errno; descriptors in the buckets are the caller's. */
static int checkpoint(int fd, struct saved *ret)
{
	int r;

	memset(ret, 0, sizeof(*ret));
	r = criu_op(fd, KFD_CRIU_OP_PROCESS_INFO, &ret->args);
	if (r < 0)
		return r;
	CHECK(ret->args.num_devices == GPUS && ret->args.num_bos <= MOST);
	CHECK(ret->args.priv_data_size <= sizeof(ret->blob));
	ret->args.devices = (uintptr_t)ret->devices;
	ret->args.bos = (uintptr_t)ret->bos;
	ret->args.priv_data = (uintptr_t)ret->blob;
	return criu_op(fd, KFD_CRIU_OP_CHECKPOINT, &ret->args);
}

static const struct kfd_criu_bo_priv *priv_of(const struct saved *s)
{
	return (const void *)(s->blob + sizeof(struct kfd_criu_process_priv) +
			      s->args.num_devices * sizeof(struct kfd_criu_device_priv));
}

/* The buffer at that address of the GPUs. */
static const struct kfd_criu_bo_bucket *bo_at(const struct saved *s, uint64_t at)
{
	for (uint32_t i = 0; i < s->args.num_bos; i++)
		if (s->bos[i].addr == at)
			return &s->bos[i];
	CHECK(!"a buffer at that address");
	return NULL;
}

static ino_t inode_of(const struct kfd_criu_bo_bucket *bo)
{
	struct stat st;

	CHECK_EQ(fstat((int)bo->dmabuf_fd, &st), 0);
	return st.st_ino;
}

static char *content_of(const struct kfd_criu_bo_bucket *bo)
{
	char *at = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)bo->dmabuf_fd, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

static void set_effective(bool all)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	CHECK_EQ(syscall(SYS_capget, &head, caps), 0);
	for (int i = 0; i < 2; i++)
		caps[i].effective = all ? caps[i].permitted : 0;
	CHECK_EQ(syscall(SYS_capset, &head, caps), 0);
}

/* Before and after it is traced, and in each order that is none. */
static void test_errors(pid_t pid, int fd)
{
	struct kfd_ioctl_get_available_memory_args available = {.gpu_id = ids[0]};
	struct kfd_ioctl_criu_args a = {0};
	static struct saved s;

	CHECK_EQ(criu_op(fd, KFD_CRIU_OP_PROCESS_INFO, &a), -EBADF);
	seize(pid);
	CHECK(ioctl(fd, KFD_IOWR(AVAILABLE_MEMORY, available), &available) < 0 && errno == EBADF);
	set_effective(false);
	CHECK_EQ(criu_op(fd, KFD_CRIU_OP_PROCESS_INFO, &a), -EACCES);
	set_effective(true);
	CHECK_EQ(criu_op(fd, KFD_CRIU_OP_UNPAUSE, &a), -EINVAL);
	CHECK_EQ(criu_op(fd, KFD_CRIU_OP_CHECKPOINT, &a), -EINVAL);
	CHECK_EQ(criu_op(fd, (enum kfd_criu_op)77, &a), -EINVAL);
	a.pid = (uint32_t)getppid(); /* which has no devices */
	CHECK_EQ(criu_op(kfd, KFD_CRIU_OP_RESUME, &a), -ESRCH);

	CHECK_EQ(checkpoint(fd, &s), 0);
	CHECK_EQ(s.args.pid, pid);
	s.args.num_bos--;
	CHECK_EQ(criu_op(fd, KFD_CRIU_OP_CHECKPOINT, &s.args), -EINVAL);
	s.args.num_bos++;
	s.args.bos = 4096;
	CHECK_EQ(criu_op(fd, KFD_CRIU_OP_CHECKPOINT, &s.args), -EFAULT);
	CHECK_EQ(criu_op(fd, KFD_CRIU_OP_UNPAUSE, &a), 0);
	s.args.bos = (uintptr_t)s.bos;
	CHECK_EQ(criu_op(fd, KFD_CRIU_OP_CHECKPOINT, &s.args), -EINVAL);
	for (uint32_t i = 0; i < s.args.num_bos; i++)
		if (s.bos[i].dmabuf_fd != KFD_INVALID_FD)
			close((int)s.bos[i].dmabuf_fd);
}

/* Rung while it is paused, the queue executes nothing; afterwards it does. */
static void test_pause(int fd, int socket)
{
	volatile uint32_t *value = (volatile uint32_t *)(arena + RING_BYTES + 4096);
	struct kfd_ioctl_criu_args a = {0};

	CHECK_EQ(criu_op(fd, KFD_CRIU_OP_PROCESS_INFO, &a), 0);
	say(socket);
	hear(socket);
	usleep(20000); /* long enough for an engine that does not stand still to be seen */
	CHECK_EQ(*value, 0);
	CHECK_EQ(criu_op(fd, KFD_CRIU_OP_UNPAUSE, &a), 0);
	while (*value != 77)
		usleep(1000);
	*value = 0;
}

/* One buffer is one in both processes, and those that are not are not, though handles are alike. */
static void test_identity(const struct saved *exporter, const struct saved *importer)
{
	const struct kfd_criu_bo_bucket *shared = bo_at(exporter, SHARED_AT);
	const struct kfd_criu_bo_priv *priv = &priv_of(exporter)[shared - exporter->bos];
	uint32_t n = exporter->args.num_bos;

	CHECK(n == 5 && importer->args.num_bos == 2 && exporter->args.num_objects == 3);
	CHECK_EQ(inode_of(shared), inode_of(bo_at(importer, SHARED_AT)));
	CHECK(inode_of(bo_at(exporter, PRIVATE_AT)) != inode_of(bo_at(importer, PRIVATE_AT)));
	CHECK_EQ(priv->idr_handle, 1);
	CHECK(priv->mapped_gpuids[0] == ids[0] && priv->mapped_gpuids[1] == ids[1]);
	CHECK_EQ(priv->mapped_gpuids[2], 0);
	CHECK_EQ(priv_of(importer)[bo_at(importer, PRIVATE_AT) - importer->bos].idr_handle, 1);
	CHECK_EQ(shared->alloc_flags, VRAM | WRITABLE);
	CHECK_EQ(bo_at(exporter, (uintptr_t)arena)->dmabuf_fd, KFD_INVALID_FD);
	CHECK_EQ(priv_of(exporter)[bo_at(exporter, (uintptr_t)arena) - exporter->bos].user_addr,
		 (uintptr_t)arena);
}

static struct saved was; /* the exporter */
static char was_private[32];

/* Where GPU `i` is now: the first two change places. */
static int now_at(int i)
{
	return i < 2 ? 1 - i : i;
}

static void restore_devices(void)
{
	for (int i = 0; i < GPUS; i++) {
		was.devices[i].actual_gpu_id = ids[now_at(i)];
		was.devices[i].drm_fd = (uint32_t)render[now_at(i)];
	}
}

/* A process that was refused stands still for good, and is to end. */
static void run_refused(int socket)
{
	struct kfd_ioctl_criu_args a = was.args;
	uint32_t *version = (uint32_t *)was.blob;

	open_devices();
	restore_devices();
	a.num_devices--;
	CHECK_EQ(criu_op(kfd, KFD_CRIU_OP_RESTORE, &a), -EINVAL);
	a = was.args;
	a.priv_data = 0;
	CHECK_EQ(criu_op(kfd, KFD_CRIU_OP_RESTORE, &a), -EINVAL);
	a = was.args;
	++*version;
	CHECK_EQ(criu_op(kfd, KFD_CRIU_OP_RESTORE, &a), -EINVAL);
	--*version;
	CHECK_EQ(criu_op(kfd, KFD_CRIU_OP_RESTORE, &was.args), 0);
	CHECK_EQ(criu_op(kfd, KFD_CRIU_OP_RESTORE, &was.args), -EINVAL); /* it has GPUs now */
}

/* The exporter comes back here, on other GPUs, by the names and handles that it knows. */
static void run_restored(int socket)
{
	struct kfd_ioctl_set_event_args event = {.event_id = 1};
	const struct kfd_criu_bo_bucket *private, *shared;
	struct kfd_ioctl_export_dmabuf_args export;
	struct queue queue = arena_queue();

	open_devices();
	restore_devices();
	CHECK_EQ(criu_op(kfd, KFD_CRIU_OP_RESTORE, &was.args), 0);
	private = bo_at(&was, PRIVATE_AT);
	shared = bo_at(&was, SHARED_AT);
	strcpy(content_of(private), was_private);
	export = (struct kfd_ioctl_export_dmabuf_args){.handle = (uint64_t)ids[0] << 32 | 1};
	CHECK_EQ(call(KFD_IOWR(EXPORT_DMABUF, export), &export), 0);
	CHECK_EQ(inode_of(&(struct kfd_criu_bo_bucket){.dmabuf_fd = export.dmabuf_fd}),
		 inode_of(shared));
	CHECK(mmap(NULL, MIB, PROT_READ, MAP_SHARED, render[now_at(0)],
		   (off_t)shared->restored_offset) != MAP_FAILED);
	CHECK_EQ(call(_IOWR('K', KFD_NR_SET_EVENT, event), &event), 0);
	CHECK_EQ(make_event(KFD_IOC_EVENT_SIGNAL, true), 3);
	/* The packets that it had rung for come with it. */
	CHECK_EQ(*(volatile uint32_t *)fence, 0);
	say(socket);
	while (*(volatile uint32_t *)fence != 77)
		usleep(1000);
	CHECK_EQ(*(uint32_t *)content_of(shared), 0x66666666);
	CHECK_EQ(*queue.read, *queue.write);
	say(socket);
}

static void test_restore(void)
{
	struct kfd_ioctl_criu_args a = {0};
	int socket;
	pid_t pid = start(run_refused, &socket);

	end(pid, 0);
	close(socket);
	pid = start(run_restored, &socket);
	hear(socket);
	a.pid = (uint32_t)pid;
	CHECK_EQ(criu_op(kfd, KFD_CRIU_OP_RESUME, &a), 0);
	hear(socket);
	end(pid, 0);
	close(socket);
}

int main(void)
{
	static struct saved importer_was;
	int sockets[2], files[2], dmabuf, theirs;
	pid_t exporter, importer;

	arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(arena != MAP_FAILED);
	exporter = start(run_exporter, &sockets[0]);
	importer = start(run_importer, &sockets[1]);
	open_devices();
	message_receive(sockets[0], &theirs, sizeof(theirs), &dmabuf);
	files[0] = take_descriptor(exporter, theirs);
	message_send(sockets[1], &theirs, sizeof(theirs), dmabuf);
	close(dmabuf);
	message_receive(sockets[1], &theirs, sizeof(theirs), &dmabuf);
	files[1] = take_descriptor(importer, theirs);

	test_errors(exporter, files[0]);
	test_pause(files[0], sockets[0]);
	seize(importer);
	CHECK_EQ(checkpoint(files[0], &was), 0);
	say(sockets[0]); /* rings once more, to no effect before it is restored */
	hear(sockets[0]);
	for (uint32_t i = 0; i < was.args.num_bos; i++)
		if (was.bos[i].dmabuf_fd != KFD_INVALID_FD)
			close((int)was.bos[i].dmabuf_fd);
	stop(exporter);
	stop(importer);
	CHECK_EQ(checkpoint(files[0], &was), 0);
	CHECK_EQ(checkpoint(files[1], &importer_was), 0);
	test_identity(&was, &importer_was);
	snprintf(was_private, sizeof(was_private), "%s", content_of(bo_at(&was, PRIVATE_AT)));
	end(exporter, SIGKILL);
	end(importer, SIGKILL);
	test_restore();
	return 0;
}
