/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holder CASE: processes that hold buffers of render nodes, to be dumped and restored. They make
 * them, tell by the file /tmp/ready that all is as the case wants it, and wait for /tmp/go. Then
 * they look whether it is still so, and whether what they share they still share; the first writes
 * to /tmp/result "good" or what is wrong. What they agree on is in anonymous memory that they share.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"

#define BYTES	65536
#define PROCS	8 /* of the largest case, and devices */
#define PATIENCE 3000 /* times 10 ms, until a wait is in vain */

static struct common {
	atomic_int ready, go, wrong;
	atomic_int step[PROCS];	 /* how far each process is */
	int dmabuf[PROCS][PROCS]; /* descriptors, as their process has them */
	pid_t pid[PROCS];
	char what[256];
} *common;

/* --- Saying what is wrong, and waiting ------------------------------------------------------ */

static void wrong(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void wrong(const char *format, ...)
{
	va_list args;

	if (!atomic_exchange(&common->wrong, 1)) {
		va_start(args, format);
		vsnprintf(common->what, sizeof(common->what), format, args);
		va_end(args);
	}
	_exit(1);
}

static void doze(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static void wait_for(atomic_int *word, int value, const char *what)
{
	for (int i = 0; atomic_load(word) < value; i++) {
		if (i == PATIENCE || atomic_load(&common->wrong))
			wrong("waited in vain for %s", what);
		doze();
	}
}

/* All is made. From here on the processes may be dumped. */
static void rest(void)
{
	atomic_fetch_add(&common->ready, 1);
	while (!atomic_load(&common->go))
		doze();
}

static void wait_for_word(volatile uint32_t *word, uint32_t value, const char *what)
{
	for (int i = 0; *word != value; i++) {
		if (i == PATIENCE || atomic_load(&common->wrong))
			wrong("%s: has %#x, not %#x", what, *word, value);
		doze();
	}
}

/* --- Render nodes --------------------------------------------------------------------------- */

static int call(int fd, unsigned int nr, void *args, size_t bytes)
{
	return ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, DRM_IOCTL_BASE, nr, bytes), args) < 0 ? -errno : 0;
}
#define CALL(fd, nr, args) call(fd, nr, args, sizeof(*(args)))

static int node(int i)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/dri/renderD%d", 128 + i);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		wrong("%s: %s", path, strerror(errno));
	return fd;
}

static uint32_t create_as(int fd, uint64_t alignment, uint64_t domains, uint64_t flags)
{
	union drm_amdgpu_gem_create args = {.in = {BYTES, alignment, domains, flags}};
	int r = CALL(fd, DRM_NR_AMDGPU_GEM_CREATE, &args);

	if (r < 0)
		wrong("GEM_CREATE: %s", strerror(-r));
	return args.out.handle;
}

static uint32_t create(int fd)
{
	return create_as(fd, 4096, AMDGPU_GEM_DOMAIN_VRAM, 0x5);
}

static void close_handle(int fd, uint32_t handle)
{
	struct drm_gem_close args = {.handle = handle};

	if (ioctl(fd, _IOW(DRM_IOCTL_BASE, DRM_NR_GEM_CLOSE, args), &args) < 0)
		wrong("GEM_CLOSE %u: %s", handle, strerror(errno));
}

static int export(int fd, uint32_t handle)
{
	struct drm_prime_handle args = {.handle = handle, .flags = O_CLOEXEC | O_RDWR};
	int r = CALL(fd, DRM_NR_PRIME_HANDLE_TO_FD, &args);

	if (r < 0)
		wrong("PRIME_HANDLE_TO_FD %u: %s", handle, strerror(-r));
	return args.fd;
}

static uint32_t import(int fd, int dmabuf)
{
	struct drm_prime_handle args = {.fd = dmabuf};
	int r = CALL(fd, DRM_NR_PRIME_FD_TO_HANDLE, &args);

	if (r < 0)
		wrong("PRIME_FD_TO_HANDLE: %s", strerror(-r));
	close(dmabuf);
	return args.handle;
}

static void *map(int fd, uint32_t handle)
{
	union drm_amdgpu_gem_mmap args = {.in = {.handle = handle}};
	int r = CALL(fd, DRM_NR_AMDGPU_GEM_MMAP, &args);
	void *at = MAP_FAILED;

	if (r == 0)
		at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			  (off_t)args.out.addr_ptr);
	if (at == MAP_FAILED)
		wrong("handle %u cannot be mapped: %s", handle, strerror(r ? -r : errno));
	return at;
}

static int map_address(int fd, uint32_t handle, uint64_t address, uint64_t offset, uint64_t bytes)
{
	struct drm_amdgpu_gem_va args = {.handle = handle, .operation = AMDGPU_VA_OP_MAP,
					 .flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE,
					 .va_address = address, .offset_in_bo = offset,
					 .map_size = bytes};

	return CALL(fd, DRM_NR_AMDGPU_GEM_VA, &args);
}

/* Another process's descriptor. */
static int take(pid_t pid, int fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int taken = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	if (taken < 0)
		wrong("descriptor %d of %d: %s", fd, (int)pid, strerror(errno));
	close(pidfd);
	return taken;
}

/* --- What must be as it was ----------------------------------------------------------------- */

static void fill(void *at, uint32_t word)
{
	for (int i = 0; i < BYTES / 4; i++)
		((uint32_t *)at)[i] = word;
}

static void check_filled(const char *what, const void *at, int from, uint32_t word)
{
	for (int i = from; i < BYTES / 4; i++)
		if (((const uint32_t *)at)[i] != word)
			wrong("%s: word %d is %#x, not %#x", what, i, ((const uint32_t *)at)[i], word);
}

/* The file has these handles, and no other up to 100. Ends with a 0. */
static void check_handles(const char *what, int fd, const uint32_t *wanted)
{
	for (uint32_t handle = 1; handle <= 100; handle++) {
		struct drm_amdgpu_gem_create_in info;
		struct drm_amdgpu_gem_op args = {.handle = handle, .value = (uintptr_t)&info};
		int r = CALL(fd, DRM_NR_AMDGPU_GEM_OP, &args);
		bool want = *wanted == handle;

		if (r != (want ? 0 : -ENOENT))
			wrong("%s: handle %u: %s", what, handle, want ? strerror(-r) : "is there");
		if (want && info.bo_size != BYTES)
			wrong("%s: handle %u has another size", what, handle);
		wanted += want;
	}
}

static void check_addresses(int fd, uint32_t handle, const struct drm_amdgpu_gem_vm_entry *wanted,
			    uint32_t n)
{
	struct drm_amdgpu_gem_vm_entry list[8] = {0};
	struct drm_amdgpu_gem_op args = {.handle = handle, .op = AMDGPU_GEM_OP_GET_MAPPING_INFO,
					 .value = (uintptr_t)list, .num_entries = 8};
	int r = CALL(fd, DRM_NR_AMDGPU_GEM_OP, &args);

	if (r < 0 || args.num_entries != n || memcmp(list, wanted, n * sizeof(*list)))
		wrong("handle %u: addresses are not as they were", handle);
}

/* --- Two processes and one buffer, or two --------------------------------------------------- */

#define KEPT 33 /* the descriptor that stays open */

static bool addresses, keeps, crowded, high;

#define RW (AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE)
static const struct drm_amdgpu_gem_vm_entry vm1[] = {{0x100000000, BYTES, 0, RW}};
static const struct drm_amdgpu_gem_vm_entry vm7[] = {{0x7f0000000000, 16384, 4096, RW},
						     {0x200000, BYTES, 0, RW}};

static void set_addresses(int fd, uint32_t handle, const struct drm_amdgpu_gem_vm_entry *list, int n)
{
	for (int i = 0; i < n; i++)
		if (map_address(fd, handle, list[i].addr, list[i].offset, list[i].size))
			wrong("GEM_VA");
}

/* Handles 1, 7 and 8; or, with a kernel that lets it, 1, 7 and 100000. */
static uint32_t move_up(int fd, uint32_t handle)
{
	struct drm_gem_change_handle args = {.handle = handle, .new_handle = 100000};

	if (!high)
		return handle;
	if (CALL(fd, DRM_NR_GEM_CHANGE_HANDLE, &args))
		wrong("GEM_CHANGE_HANDLE");
	return args.new_handle;
}

static void exporter(void)
{
	static const uint32_t handles[] = {1, 7, 8, 0}, low[] = {1, 7, 0};
	int fd = node(0), dmabuf7, dmabuf8;
	volatile uint32_t *own, *same, *cross;
	uint32_t handle8;

	for (int i = 0; i < 7; i++)
		create(fd);
	create_as(fd, BYTES, AMDGPU_GEM_DOMAIN_VRAM, 0x5); /* which the driver can be late with */
	for (uint32_t handle = 2; handle < 7; handle++)
		close_handle(fd, handle);
	handle8 = move_up(fd, 8);
	own = map(fd, 1);
	same = map(fd, 7);
	cross = map(fd, handle8);
	fill((void *)own, 0xaaaaaaaa);
	fill((void *)same, 0x77777777);
	fill((void *)cross, 0x88888888);
	dmabuf7 = export(fd, 7);
	dmabuf8 = export(fd, handle8);
	if (addresses) {
		set_addresses(fd, 1, vm1, 1);
		set_addresses(fd, 7, vm7, 2);
	}
	common->dmabuf[0][0] = dmabuf7;
	common->dmabuf[0][1] = dmabuf8;
	common->pid[0] = getpid();
	atomic_store(&common->step[0], 1);
	wait_for(&common->step[1], 1, "the importer");
	if (keeps && dup2(dmabuf7, KEPT) < 0)
		wrong("dup2");
	close(dmabuf7);
	close(dmabuf8);
	rest();

	check_handles("exporter", fd, high ? low : handles);
	check_filled("the exporter's own", (void *)own, 0, 0xaaaaaaaa);
	check_filled("shared, at the exporter", (void *)same, 2, 0x77777777);
	check_filled("shared over devices, at the exporter", (void *)cross, 2, 0x88888888);
	if (addresses) {
		check_addresses(fd, 1, vm1, 1);
		check_addresses(fd, 7, vm7, 2);
	}
	same[0] = 118;
	cross[0] = 119;
	wait_for_word(&same[1], 118, "what the importer answers");
	wait_for_word(&cross[1], 119, "what the importer answers over devices");
	if (keeps) {
		volatile uint32_t *kept = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, KEPT, 0);

		if (lseek(KEPT, 0, SEEK_END) != BYTES)
			wrong("the dma-buf has another size");
		if (kept == MAP_FAILED || kept[0] != 118)
			wrong("the dma-buf is not the buffer");
		kept[2] = 120;
		if (same[2] != 120)
			wrong("a write through the dma-buf is not in the buffer");
	}
}

static void importer(void)
{
	static const uint32_t handles[] = {1, 2, 3, 0}, handles1[] = {1, 0};
	int fd = node(0), fd1 = node(1), most = crowded ? 40 : 0;
	volatile uint32_t *own, *same, *third, *cross;

	wait_for(&common->step[0], 1, "the exporter");
	if (create(fd) != 1 || import(fd, take(common->pid[0], common->dmabuf[0][0])) != 2 ||
	    create(fd) != 3 || import(fd1, take(common->pid[0], common->dmabuf[0][1])) != 1)
		wrong("handles of the importer");
	own = map(fd, 1);
	same = map(fd, 2);
	third = map(fd, 3);
	fill((void *)own, 0xbbbbbbbb);
	fill((void *)third, 0x33333333);
	for (int i = 3; i <= most; i++)
		if (fcntl(i, F_GETFD) < 0 && dup2(0, i) < 0)
			wrong("dup2");
	atomic_store(&common->step[1], 1);
	rest();

	cross = map(fd1, 1); /* a mapping of an import is one of the dma-buf, which CRIU refuses */
	for (int i = 0; i <= most; i++)
		if (fcntl(i, F_GETFD) < 0)
			wrong("descriptor %d is closed", i);
	check_handles("importer", fd, handles);
	check_handles("importer, second device", fd1, handles1);
	check_filled("the importer's own", (void *)own, 0, 0xbbbbbbbb);
	check_filled("the importer's third", (void *)third, 0, 0x33333333);
	wait_for_word(&same[0], 118, "what the exporter says");
	wait_for_word(&cross[0], 119, "what the exporter says over devices");
	same[1] = 118;
	cross[1] = 119;
}

/* --- One process ---------------------------------------------------------------------------- */

static void alone(void)
{
	static const uint32_t handles[] = {1, 7, 8, 0};
	int fd = node(0);
	void *at[3];

	for (int i = 0; i < 8; i++) /* one of them never leaves its file */
		create_as(fd, 4096, AMDGPU_GEM_DOMAIN_GTT, i == 6 ? 1 << 6 : 0);
	for (uint32_t handle = 2; handle < 7; handle++)
		close_handle(fd, handle);
	for (int i = 0; i < 3; i++) {
		at[i] = map(fd, handles[i]);
		fill(at[i], 0x1000u + handles[i]);
	}
	((uint32_t *)at[0])[0] = 1;
	memset((char *)at[2] + 8192, 0, 16384);
	if (addresses)
		set_addresses(fd, 7, vm7, 2);
	rest();
	check_handles("alone", fd, handles);
	check_filled("first", at[0], 1, 0x1001);
	check_filled("second", at[1], 0, 0x1007);
	for (int i = 0; i < BYTES / 4; i++)
		if (((uint32_t *)at[2])[i] != (i >= 2048 && i < 6144 ? 0 : 0x1008))
			wrong("third: word %d", i);
	if (addresses)
		check_addresses(fd, 7, vm7, 2);
}

/* --- /dev/kfd --------------------------------------------------------------------------------- */

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

static uint64_t kfd_alloc(int kfd, uint64_t address, uint64_t bytes, uint32_t flags,
			  uint64_t *ret_offset)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = address, .size = bytes, .gpu_id = GPU_ID, .flags = flags};
	const uint32_t ids[] = {GPU_ID, GPU_ID + 1};
	struct kfd_ioctl_map_memory_to_gpu_args on = {.device_ids_array_ptr = (uintptr_t)ids,
						      .n_devices = 2};

	KFD_CALL(kfd, ALLOC_MEMORY_OF_GPU, &args);
	on.handle = args.handle;
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM && bytes == BYTES)
		KFD_CALL(kfd, MAP_MEMORY_TO_GPU, &on);
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
	void *at = kfd_map(dmabuf, 0, BYTES);

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

/* Each of two has memory that the other one imports; the first also keeps a dma-buf of that. */
static void kfd_pair(int self)
{
	uint64_t handle, offset;
	uint32_t word = 0x1000u * (uint32_t)(self + 1);
	volatile uint32_t *own, *shared, *others;
	int fd, kfd = kfd_begin(&fd), taken;

	own = kfd_fill(kfd, fd, word, &handle);
	handle = kfd_alloc(kfd, 0x200000000, BYTES, VRAM, &offset);
	shared = kfd_map(fd, offset, BYTES);
	fill((void *)shared, word + 1);
	common->dmabuf[self][0] = kfd_export(kfd, handle);
	common->pid[self] = getpid();
	atomic_store(&common->step[self], 1);
	wait_for(&common->step[!self], 1, "the other's memory");
	taken = take(common->pid[!self], common->dmabuf[!self][0]);
	handle = kfd_import(kfd, taken);
	atomic_store(&common->step[self], 2);
	wait_for(&common->step[!self], 2, "the other's import");
	close(common->dmabuf[self][0]);
	if (!self && dup2(taken, KEPT) < 0)
		wrong("dup2");
	close(taken);
	kfd_rest(kfd);

	check_filled("own memory of /dev/kfd", (void *)own, 0, word);
	check_filled("shared memory of /dev/kfd", (void *)shared, 1, word + 1);
	others = kfd_map_import(kfd, handle);
	shared[0] = 118 + (uint32_t)self;
	wait_for_word(&others[0], 118 + !self, "what the other one says");
	if (!self && *(volatile uint32_t *)kfd_map(KEPT, 0, BYTES) != 119)
		wrong("the dma-buf is not the memory");
	kfd_check_new(kfd, fd, 0);
}

/* Memory of /dev/kfd that a render node has, too, and the other way round. */
static void kfd_node(void)
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

/* --- Eight processes on eight devices -------------------------------------------------------- */

static uint32_t tag(int process, int k, int round)
{
	return 0x5a000000u | (uint32_t)round << 16 | (uint32_t)process << 8 | (uint32_t)k;
}

/* The k-th buffer that process p shares is on device p, and is imported by another on device k. */
static int importer_of(int p, int k)
{
	return (p + 1 + k % (PROCS - 1)) % PROCS;
}

static void one_of_many(int self)
{
	void *own[PROCS], *shared[PROCS], *from[PROCS][PROCS] = {{NULL}};
	uint32_t import_of[PROCS][PROCS] = {{0}};
	int fd[PROCS];

	for (int d = 0; d < PROCS; d++) {
		fd[d] = node(d);
		own[d] = map(fd[d], create(fd[d]));
		fill(own[d], 0xe0000000u | (uint32_t)(self << 8 | d));
	}
	for (int k = 0; k < PROCS; k++) {
		uint32_t handle = create(fd[self]);

		shared[k] = map(fd[self], handle);
		fill(shared[k], tag(self, k, 1));
		common->dmabuf[self][k] = export(fd[self], handle);
	}
	common->pid[self] = getpid();
	atomic_store(&common->step[self], 1);
	for (int p = 0; p < PROCS; p++)
		for (int k = 0; k < PROCS; k++) {
			wait_for(&common->step[p], 1, "another's buffers");
			if (importer_of(p, k) == self)
				import_of[p][k] = import(fd[k], take(common->pid[p],
								     common->dmabuf[p][k]));
		}
	atomic_store(&common->step[self], 2);
	for (int p = 0; p < PROCS; p++)
		wait_for(&common->step[p], 2, "another's imports");
	for (int k = 0; k < PROCS; k++)
		close(common->dmabuf[self][k]);
	rest();
	for (int k = 0; k < PROCS; k++) {
		check_filled("own", own[k], 0, 0xe0000000u | (uint32_t)(self << 8 | k));
		check_filled("shared", shared[k], 0, tag(self, k, 1));
	}
	for (int p = 0; p < PROCS; p++)
		for (int k = 0; k < PROCS; k++)
			if (import_of[p][k]) {
				from[p][k] = map(fd[k], import_of[p][k]);
				check_filled("imported", from[p][k], 0, tag(p, k, 1));
			}
	atomic_store(&common->step[self], 3);
	for (int p = 0; p < PROCS; p++)
		wait_for(&common->step[p], 3, "another's look");
	for (int k = 0; k < PROCS; k++)
		fill(shared[k], tag(self, k, 2));
	atomic_store(&common->step[self], 4);
	for (int p = 0; p < PROCS; p++)
		wait_for(&common->step[p], 4, "another's write");
	for (int p = 0; p < PROCS; p++)
		for (int k = 0; k < PROCS; k++)
			if (from[p][k])
				check_filled("imported, then written", from[p][k], 0, tag(p, k, 2));
	for (int d = 0; d < PROCS; d++)
		check_filled("own, after all", own[d], 0, 0xe0000000u | (uint32_t)(self << 8 | d));
}

/* --- One of two trees ------------------------------------------------------------------------ */

/* Makes the buffer that the other tree has, and tells where in /tmp/outside. */
static void outside(void)
{
	FILE *tell = fopen("/tmp/outside", "w");
	int fd = node(0);

	fprintf(tell, "%d %d\n", (int)getpid(), export(fd, create(fd)));
	fclose(tell);
	rest();
}

static int from_outside(void)
{
	FILE *told = fopen("/tmp/outside", "r");
	int pid, fd;

	if (!told || fscanf(told, "%d %d", &pid, &fd) != 2)
		wrong("/tmp/outside");
	fclose(told);
	return take(pid, fd);
}

static void inside_descriptor(void)
{
	int fd = from_outside();

	dup2(fd, KEPT);
	close(fd);
	rest();
}

/* By /dev/kfd, whose imports have flags of their own. */
static void inside_kfd(void)
{
	int fd, kfd = kfd_begin(&fd), dmabuf = from_outside();

	kfd_import(kfd, dmabuf);
	close(dmabuf);
	rest();
	kfd_check_new(kfd, fd, 1);
}

static void inside_kfd_twice(void)
{
	int fd, kfd = kfd_begin(&fd);

	if (open("/dev/kfd", O_RDWR | O_CLOEXEC) < 0)
		wrong("/dev/kfd");
	rest();
	kfd_check_new(kfd, fd, 0);
}

static void inside_import(void)
{
	int fd = node(1);

	dup2(fd, KEPT);
	close(fd);
	import(KEPT, from_outside());
	rest();
}

/* --- Cases ---------------------------------------------------------------------------------- */

static void nothing_child(int i) { (void)i; rest(); }
static void many_child(int i) { one_of_many(i); }
static void pair_child(int i) { i == 0 ? exporter() : importer(); }
static void reversed_child(int i) { i == 1 ? exporter() : importer(); }
static void alone_child(int i) { (void)i; alone(); }
static void kfd_pair_child(int i) { kfd_pair(i); }
static void kfd_node_child(int i) { (void)i; kfd_node(); }
static void outside_child(int i) { (void)i; outside(); }
static void descriptor_child(int i) { (void)i; inside_descriptor(); }
static void import_child(int i) { (void)i; inside_import(); }
static void inside_kfd_child(int i) { (void)i; inside_kfd(); }
static void kfd_twice_child(int i) { (void)i; inside_kfd_twice(); }

static const struct {
	const char *name;
	void (*child)(int i);
	int n;
	enum { ADDRESSES = 1, KEEPS = 2, CROWDED = 4, HIGH = 8 } with;
} cases[] = {
	{"nothing", nothing_child, 1, 0},
	{"alone", alone_child, 1, ADDRESSES},
	{"alone-unmapped", alone_child, 1, 0},
	{"pair", pair_child, 2, ADDRESSES | KEEPS},
	{"pair-unmapped", pair_child, 2, KEEPS},
	{"reversed", reversed_child, 2, 0},
	{"crowded", pair_child, 2, CROWDED},
	{"high", pair_child, 2, HIGH},
	{"many", many_child, PROCS, 0},
	{"kfd-pair", kfd_pair_child, 2, 0},
	{"kfd-node", kfd_node_child, 1, 0},
	{"outside", outside_child, 1, 0},
	{"inside-descriptor", descriptor_child, 1, 0},
	{"inside-import", import_child, 1, 0},
	{"inside-kfd", inside_kfd_child, 1, 0},
	{"kfd-twice", kfd_twice_child, 1, 0},
};

static void tell(const char *path, const char *text)
{
	char partial[64];
	FILE *f;

	snprintf(partial, sizeof(partial), "%s.partial", path);
	f = fopen(partial, "w");
	if (f) {
		fprintf(f, "%s\n", text);
		fclose(f);
		rename(partial, path);
	}
}

static int run(int at)
{
	char ready[32], go[32], result[32];
	bool outsider = !strcmp(cases[at].name, "outside");

	snprintf(ready, sizeof(ready), "/tmp/ready%s", outsider ? ".outside" : "");
	snprintf(go, sizeof(go), "/tmp/go%s", outsider ? ".outside" : "");
	snprintf(result, sizeof(result), "/tmp/result%s", outsider ? ".outside" : "");
	for (int i = 0; i < cases[at].n; i++)
		if (!fork()) {
			cases[at].child(i);
			_exit(0);
		}
	for (bool told = false; access(go, F_OK) && !atomic_load(&common->wrong); doze())
		if (!told && atomic_load(&common->ready) == cases[at].n) {
			tell(ready, "ready");
			told = true;
		}
	atomic_store(&common->go, 1);
	for (int status; wait(&status) > 0;)
		if (status && !atomic_exchange(&common->wrong, 1))
			snprintf(common->what, sizeof(common->what), "a process ended with %#x", status);
	tell(result, atomic_load(&common->wrong) ? common->what : "good");
	return 0;
}

int main(int argc, char **argv)
{
	setsid();
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			addresses = cases[i].with & ADDRESSES;
			keeps = cases[i].with & KEEPS;
			crowded = cases[i].with & CROWDED;
			high = cases[i].with & HIGH;
			return run((int)i);
		}
	fprintf(stderr, "usage: holder CASE\n");
	return 125;
}
