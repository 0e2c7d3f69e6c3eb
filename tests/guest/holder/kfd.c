/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of /dev/kfd: of two processes, of a render node, too, and of a process outside. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "holder.h"

#define GPU_ID 2000 /* of the first render node */
#define VRAM   (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)

static void kfd_call(int kfd, unsigned int nr, void *args, size_t bytes, const char *what)
{
	if (ioctl(kfd, _IOC(_IOC_READ | _IOC_WRITE, AMDKFD_IOCTL_BASE, nr, bytes), args) < 0)
		wrong("%s: %s", what, strerror(errno));
}
#define KFD_CALL(kfd, name, args) kfd_call(kfd, KFD_NR_##name, args, sizeof(*(args)), #name)

/* With the first GPU by one file of its render node, which stays open, and the second by another. */
static int kfd_begin(int *ret_node)
{
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);

	if (kfd < 0)
		wrong("/dev/kfd: %s", strerror(errno));
	for (uint32_t i = 0; i < 2; i++) {
		int fd = node((int)i);
		struct kfd_ioctl_acquire_vm_args args = {(uint32_t)fd, GPU_ID + i};

		KFD_CALL(kfd, ACQUIRE_VM, &args);
		*ret_node = i ? *ret_node : fd;
	}
	return kfd;
}

/* By both GPUs: the second is a peer of the first, in its hive. */
static void kfd_map_by_all(int kfd, uint64_t handle)
{
	const uint32_t ids[] = {GPU_ID, GPU_ID + 1};
	struct kfd_ioctl_map_memory_to_gpu_args on = {
		.handle = handle, .device_ids_array_ptr = (uintptr_t)ids, .n_devices = 2};

	KFD_CALL(kfd, MAP_MEMORY_TO_GPU, &on);
}

static uint64_t kfd_alloc(int kfd, uint64_t address, uint64_t bytes, uint32_t flags,
			  uint64_t *ret_offset)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = address, .size = bytes, .gpu_id = GPU_ID, .flags = flags};

	KFD_CALL(kfd, ALLOC_MEMORY_OF_GPU, &args);
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM && bytes == BYTES)
		kfd_map_by_all(kfd, args.handle);
	*ret_offset = args.mmap_offset;
	return args.handle;
}

static void *kfd_map(int fd, uint64_t offset, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	if (at == MAP_FAILED)
		wrong("memory of /dev/kfd cannot be mapped: %s", strerror(errno));
	return at;
}

static int kfd_export(int kfd, uint64_t handle)
{
	struct kfd_ioctl_export_dmabuf_args args = {.handle = handle, .flags = O_CLOEXEC | O_RDWR};

	KFD_CALL(kfd, EXPORT_DMABUF, &args);
	return (int)args.dmabuf_fd;
}

static uint64_t kfd_import(int kfd, int dmabuf)
{
	struct kfd_ioctl_import_dmabuf_args args = {
		.va_addr = 0x300000000, .gpu_id = GPU_ID, .dmabuf_fd = (uint32_t)dmabuf};

	KFD_CALL(kfd, IMPORT_DMABUF, &args);
	return args.handle;
}

static void *kfd_map_import(int kfd, uint64_t handle)
{
	int dmabuf = kfd_export(kfd, handle);
	void *at = map_dmabuf(dmabuf);

	close(dmabuf);
	return at;
}

/* There is new memory, at the handle that was free, and the process's own file maps it. */
static void kfd_check_new(int kfd, int fd, uint32_t expected)
{
	uint64_t offset, handle = kfd_alloc(kfd, 0x900000000, 4096, VRAM, &offset);

	if ((uint32_t)handle != expected)
		wrong("new memory has handle %u, not %u", (uint32_t)handle, expected);
	*(volatile uint32_t *)kfd_map(fd, offset, 4096) = 1;
}

/* Handle 0 is taken, until kfd_rest; then memory of its own, of which it has the address; registers. */
static volatile uint32_t *kfd_fill(int kfd, int fd, uint32_t word, uint64_t *ret_handle)
{
	uint64_t offset;
	void *at;

	kfd_alloc(kfd, 0x800000000, 4096, VRAM, &offset);
	*ret_handle = kfd_alloc(kfd, 0x100000000, BYTES, VRAM, &offset);
	at = kfd_map(fd, offset, BYTES);
	fill(at, word);
	kfd_alloc(kfd, 0x700000000, 4096,
		  KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE, &offset);
	kfd_map(kfd, offset, 4096);
	return at;
}

static void kfd_rest(int kfd)
{
	struct kfd_ioctl_free_memory_of_gpu_args hole = {(uint64_t)GPU_ID << 32};

	KFD_CALL(kfd, FREE_MEMORY_OF_GPU, &hole);
	rest();
}

/* The other one's memory, as a dma-buf; then both have it. */
static int kfd_exchange(int self, int kfd, uint64_t handle, int step)
{
	int taken;

	common->dmabuf[self][0] = kfd_export(kfd, handle);
	common->pid[self] = getpid();
	atomic_store(&common->step[self], step);
	wait_for(&common->step[!self], step, "the other's memory");
	taken = take(common->pid[!self], common->dmabuf[!self][0]);
	atomic_store(&common->step[self], step + 1);
	wait_for(&common->step[!self], step + 1, "the other's descriptor");
	close(common->dmabuf[self][0]);
	return taken;
}

/*
 * In a tenant whose quota has less room left than a buffer: more of that is refused, and what the other
 * one shares is imported once more, for it is charged to him already.
 */
static void kfd_check_quota(int self, int kfd, uint64_t handle)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args more = {
		.va_addr = 0xa00000000, .size = BYTES, .gpu_id = GPU_ID, .flags = VRAM};
	int taken = kfd_exchange(self, kfd, handle, 3);

	if (!ioctl(kfd, _IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, more), &more) || errno != ENOMEM)
		wrong("memory above the quota is not refused");
	kfd_import(kfd, taken);
	close(taken);
	/* Who lends it lives until then: what is taken may be no dma-buf, see map_dmabuf. */
	atomic_store(&common->step[self], 5);
	wait_for(&common->step[!self], 5, "the other's import");
}

/* Each of two has memory that the other one imports; the first also keeps a dma-buf of that. */
static void kfd_share(int self, bool limited)
{
	uint64_t handle, own_handle, offset;
	uint32_t word = 0x1000u * (uint32_t)(self + 1);
	volatile uint32_t *own, *shared, *others;
	int fd, kfd = kfd_begin(&fd), taken;

	own = kfd_fill(kfd, fd, word, &handle);
	own_handle = kfd_alloc(kfd, 0x200000000, BYTES, VRAM, &offset);
	shared = kfd_map(fd, offset, BYTES);
	fill((void *)shared, word + 1);
	taken = kfd_exchange(self, kfd, own_handle, 1);
	handle = kfd_import(kfd, taken);
	if (!self && dup2(taken, KEPT) < 0)
		wrong("dup2");
	close(taken);
	kfd_rest(kfd);

	check_filled("own memory of /dev/kfd", (void *)own, 0, word);
	check_filled("shared memory of /dev/kfd", (void *)shared, 1, word + 1);
	others = kfd_map_import(kfd, handle);
	shared[0] = 118 + (uint32_t)self;
	wait_for_word(&others[0], 118 + !self, "what the other one says");
	if (!self && *(volatile uint32_t *)map_dmabuf(KEPT) != 119)
		wrong("the dma-buf is not the memory");
	kfd_check_new(kfd, fd, 0);
	if (limited)
		kfd_check_quota(self, kfd, own_handle);
}

void kfd_pair(int self)
{
	kfd_share(self, false);
}

void kfd_tenant(int self)
{
	kfd_share(self, true);
}

#define CHURNED 2
#define CHURN_BYTES (BYTES + 4096) /* what is not BYTES is not mapped to GPUs, and can be freed */
#define QUOTA	    307200	       /* as the case says it */

static void kfd_free(int kfd, uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args args = {handle};

	KFD_CALL(kfd, FREE_MEMORY_OF_GPU, &args);
}

/* All of the quota, which is there only if nothing of what was freed is charged, and no page more. */
static void kfd_check_whole_quota(int kfd)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args more = {
		.va_addr = 0xb00000000, .size = 4096, .gpu_id = GPU_ID, .flags = VRAM};
	uint64_t offset, handle = kfd_alloc(kfd, 0xa00000000, QUOTA, VRAM, &offset);

	if (!ioctl(kfd, _IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, more), &more) || errno != ENOMEM)
		wrong("memory above the quota is not refused");
	kfd_free(kfd, handle);
}

/* Takes and gives memory all the time, and looks at it before it goes. */
void kfd_churn(int self)
{
	uint64_t handle[CHURNED] = {0}, offset;
	volatile uint32_t *at[CHURNED] = {NULL};
	int fd, kfd = kfd_begin(&fd);

	for (uint32_t n = 0; !atomic_load(&common->go); n++) {
		uint32_t i = n % CHURNED, word = (uint32_t)self << 24 | n / CHURNED;

		if (at[i]) {
			check_filled("memory of a loop", (void *)at[i], 0, word - 1);
			munmap((void *)at[i], CHURN_BYTES);
			kfd_free(kfd, handle[i]);
		}
		handle[i] = kfd_alloc(kfd, 0x100000000 * (i + 1), CHURN_BYTES, VRAM, &offset);
		at[i] = kfd_map(fd, offset, CHURN_BYTES);
		fill((void *)at[i], word);
		if (n == CHURNED)
			atomic_fetch_add(&common->ready, 1);
	}
	for (int i = 0; i < CHURNED; i++)
		kfd_free(kfd, handle[i]);
	atomic_store(&common->step[self], 1);
	wait_for(&common->step[!self], 1, "the other's end");
	if (!self)
		kfd_check_whole_quota(kfd);
	atomic_store(&common->step[self], 2);
	wait_for(&common->step[!self], 2, "the other's end");
}

/* Memory of /dev/kfd that a render node has, too, and the other way round. */
void kfd_node(void)
{
	int fd, kfd = kfd_begin(&fd), dmabuf;
	volatile uint32_t *own, *nodes, *same;
	uint64_t handle, imported;
	uint32_t at_node, made;

	own = kfd_fill(kfd, fd, 0x4000, &handle);
	at_node = import(fd, kfd_export(kfd, handle));
	made = create(fd);
	nodes = map(fd, made);
	fill((void *)nodes, 0x5000);
	dmabuf = export(fd, made);
	imported = kfd_import(kfd, dmabuf);
	kfd_map_by_all(kfd, imported);
	close(dmabuf);
	kfd_rest(kfd);

	check_filled("memory of /dev/kfd", (void *)own, 0, 0x4000);
	check_filled("memory of a render node", (void *)nodes, 0, 0x5000);
	same = map(fd, at_node);
	own[0] = 118;
	if (same[0] != 118)
		wrong("the render node's is other memory");
	same = kfd_map_import(kfd, imported);
	nodes[0] = 119;
	if (same[0] != 119)
		wrong("/dev/kfd's is other memory");
	kfd_check_new(kfd, fd, 0);
}

/* Memory of /dev/kfd that a render node has, too, and no other: flags tell of no import. */
void kfd_lent(void)
{
	int fd, kfd = kfd_begin(&fd);
	volatile uint32_t *own, *same;
	uint64_t handle;
	uint32_t at_node;

	own = kfd_fill(kfd, fd, 0x4000, &handle);
	at_node = import(fd, kfd_export(kfd, handle));
	kfd_rest(kfd);

	check_filled("memory of /dev/kfd", (void *)own, 0, 0x4000);
	same = map(fd, at_node);
	own[0] = 118;
	if (same[0] != 118)
		wrong("the render node's is other memory");
	kfd_check_new(kfd, fd, 0);
}

/* By /dev/kfd, whose imports have flags of their own. */
void inside_kfd(void)
{
	int fd, kfd = kfd_begin(&fd), dmabuf = from_outside();

	kfd_import(kfd, dmabuf);
	close(dmabuf);
	rest();
	kfd_check_new(kfd, fd, 1);
}

void inside_kfd_twice(void)
{
	int fd, kfd = kfd_begin(&fd);

	if (open("/dev/kfd", O_RDWR | O_CLOEXEC) < 0)
		wrong("/dev/kfd");
	rest();
	kfd_check_new(kfd, fd, 0);
}
