/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulated driver answers as the kernel's does: the tables of docs/design/amd-kernel.md, a
 * check for each row. The argument is the version that `allot sim --amd 3,linux=6.1` was asked for;
 * none: the newest. Run by `allot sim --amd 3 --memory 72MiB` with links 1 <-> 2 and 2 -> 3.
 */
#include "sim/kfd/kernel.h"
#include "tests/sim/kfd_queue.h"

#define GTT	 KFD_IOC_ALLOC_MEM_FLAGS_GTT
#define USERPTR	 KFD_IOC_ALLOC_MEM_FLAGS_USERPTR
#define DOORBELL KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL
#define MMIO	 KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP
#define AT	 (UINT64_C(1) << 33)

static uint32_t kernel = KERNEL_NEWEST;

static bool since(unsigned int major, unsigned int minor)
{
	return kernel >= KERNEL(major, minor);
}

static int acquire(int fd, uint32_t gpu_id)
{
	struct kfd_ioctl_acquire_vm_args a = {(uint32_t)fd, gpu_id};

	return call(_IOW('K', KFD_NR_ACQUIRE_VM, a), &a);
}

static int import_on(int gpu, int fd, uint64_t at, uint64_t *ret_handle)
{
	struct kfd_ioctl_import_dmabuf_args a = {
		.va_addr = at, .gpu_id = ids[gpu], .dmabuf_fd = (uint32_t)fd};
	int r = call(KFD_IOWR(IMPORT_DMABUF, a), &a);

	*ret_handle = a.handle;
	return r;
}

/* A dma-buf of memory of a GPU, by way of a render node, which all kernels have. */
static int buffer_of(int gpu)
{
	union drm_amdgpu_gem_create a = {
		.in = {.bo_size = MIB, .domains = AMDGPU_GEM_DOMAIN_VRAM}};
	struct drm_prime_handle prime = {.flags = O_CLOEXEC | O_RDWR};

	CHECK_EQ(drm(render[gpu], _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), 0);
	prime.handle = a.out.handle;
	CHECK_EQ(drm(render[gpu], _IOWR('d', DRM_NR_PRIME_HANDLE_TO_FD, prime), &prime), 0);
	CHECK_EQ(close_handle(render[gpu], prime.handle), 0);
	return prime.fd;
}

static int create_queue(int gpu, const char *memory, uint32_t ring_bytes, uint32_t *ret_id)
{
	struct kfd_ioctl_create_queue_args a = {.ring_size = ring_bytes,
						.gpu_id = ids[gpu],
						.queue_type = KFD_IOC_QUEUE_TYPE_SDMA,
						.queue_percentage = 100};
	int r;

	a.ring_base_address = (uintptr_t)memory;
	a.read_pointer_address = a.write_pointer_address = (uintptr_t)memory + RING_BYTES;
	r = call(KFD_IOWR(CREATE_QUEUE, a), &a);
	*ret_id = a.queue_id;
	return r;
}

/* Before a GPU has an address space. */
static void test_not_acquired(void)
{
	uint64_t handle, offset = (uintptr_t)&handle & ~UINT64_C(4095);
	int fd = buffer_of(0);
	uint32_t id;

	CHECK_EQ(alloc_vram(0, MIB, &handle), -ENODEV);
	CHECK_EQ(alloc_vram(0, 0, &handle), -EINVAL);
	CHECK_EQ(alloc_at(0, AT, 4096, USERPTR, &handle, &offset), -ENODEV);
	CHECK_EQ(import_on(0, fd, AT, &handle), -ENODEV);
	CHECK_EQ(map((uint64_t)ids[0] << 32, ids, 1, &(uint32_t){0}), -ENODEV);
	CHECK_EQ(create_queue(0, NULL, 0, &id), -ESRCH);
	close(fd);
}

/* A node of any GPU is taken; a file has one address space. */
static void test_acquire(void)
{
	int other = open("/dev/dri/renderD130", O_RDWR | O_CLOEXEC);

	CHECK_EQ(acquire(999, ids[0]), -EINVAL);
	CHECK_EQ(acquire(kfd, ids[0]), -EINVAL);
	CHECK_EQ(acquire(other, 1), -EINVAL);
	CHECK_EQ(acquire(other, ids[0]), 0);
	CHECK_EQ(acquire(other, ids[0]), 0);
	CHECK_EQ(acquire(other, ids[1]), -EINVAL);
	CHECK_EQ(acquire(render[0], ids[0]), -EBUSY);
	CHECK_EQ(acquire(render[1], ids[1]), 0);
	CHECK_EQ(acquire(render[2], ids[2]), 0);
	close(other);
}

static void test_handles(void)
{
	uint64_t none = (uint64_t)ids[0] << 32 | 77, handle;

	CHECK_EQ(map(none, ids, 1, &(uint32_t){0}), -ENOMEM);
	CHECK_EQ(unmap(none, ids, 1), -ENOMEM);
	CHECK_EQ(map(77, ids, 1, &(uint32_t){0}), -EINVAL); /* of no GPU */
	CHECK_EQ(unmap(77, ids, 1), -EINVAL);
	CHECK_EQ(free_memory(none), -EINVAL);
	CHECK_EQ(alloc_vram(0, MIB, &handle), 0);
	CHECK_EQ(unmap(handle, ids, 1), -EINVAL);
	CHECK_EQ(map(handle, ids, 1, &(uint32_t){0}), 0);
	CHECK_EQ(map(handle, ids, 1, &(uint32_t){0}), 0);
	CHECK_EQ(unmap(handle, ids, 1), 0);
	CHECK_EQ(unmap(handle, ids, 1), -EINVAL);
	CHECK_EQ(free_memory(handle), 0);
}

/* Sizes and kinds of memory. */
static void test_kinds(void)
{
	uint64_t handle, gone, none = 0;
	void *here = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_EQ(alloc_vram(0, UINT64_C(1) << 40, &handle), -ENOMEM);
	CHECK_EQ(alloc_vram(0, UINT64_C(1) << 60, &handle), -ENOMEM);
	CHECK_EQ(alloc_vram(0, UINT64_MAX, &handle), -EINVAL); /* no number of pages */
	CHECK_EQ(alloc_flags(0, UINT64_C(1) << 50, GTT, &handle, NULL), -ENOMEM);
	CHECK_EQ(alloc_flags(0, 1, VRAM | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM, &handle, NULL),
		 -EINVAL);
	/* The first of several kinds is it. */
	CHECK_EQ(alloc_flags(0, MIB, VRAM | GTT, &handle, NULL), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(alloc_flags(0, MIB, 0, &handle, NULL), -EINVAL);

	CHECK_EQ(alloc_flags(0, DOORBELLS_BYTES, DOORBELL, &handle, NULL), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(alloc_flags(0, 4096, DOORBELL, &handle, NULL), -EINVAL);
	CHECK_EQ(alloc_flags(0, 2 * DOORBELLS_BYTES, DOORBELL, &handle, NULL), -EINVAL);
	CHECK_EQ(alloc_flags(0, 4096, MMIO, &handle, NULL), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(alloc_flags(0, 8192, MMIO, &handle, NULL), -EINVAL);

	CHECK(here != MAP_FAILED && munmap((char *)here + 4096, 4096) == 0);
	gone = (uintptr_t)here;
	CHECK_EQ(alloc_at(0, AT, 4096, USERPTR, &handle, &none), -EINVAL);
	CHECK_EQ(alloc_at(0, AT, 8192, USERPTR, &handle, &gone), -EFAULT);
	gone = (uintptr_t)here;
	CHECK_EQ(alloc_at(0, AT, 4096, USERPTR, &handle, &gone), 0);
	CHECK_EQ(free_memory(handle), 0);
	munmap(here, 4096);
}

static int set(void *at, uint64_t size, uint32_t type, uint32_t value)
{
	struct kfd_ioctl_svm_attribute a = {type, value};

	return svm_set(at, size, 1, &a);
}

static int get(void *at, uint64_t size)
{
	_Alignas(8) char block[sizeof(struct kfd_ioctl_svm_args) + 8] = {0};
	struct kfd_ioctl_svm_args *a = (void *)block;

	*a = (struct kfd_ioctl_svm_args){.start_addr = (uintptr_t)at,
					 .size = size,
					 .op = KFD_IOCTL_SVM_OP_GET_ATTR,
					 .nattr = 1};
	a->attrs[0].type = KFD_IOCTL_SVM_ATTR_PREFETCH_LOC;
	return call(_IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_SVM, sizeof(block)), a);
}

/* Addresses with attributes are no memory of /dev/kfd, and the other way round. */
static void test_svm(void)
{
	char *here = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t at = (uintptr_t)here, handle, users;
	uint32_t clear = KFD_IOCTL_SVM_ATTR_SET_FLAGS;

	CHECK(here != MAP_FAILED);
	CHECK_EQ(set(here, MIB, clear, 4), 0);
	CHECK_EQ(alloc_at(0, at, MIB, VRAM, &handle, NULL), -EADDRINUSE);
	CHECK_EQ(alloc_at(0, at - 4096, 8192, GTT, &handle, NULL), -EADDRINUSE);
	users = at;
	CHECK_EQ(alloc_at(0, AT, 4096, USERPTR, &handle, &users), -EADDRINUSE);
	CHECK_EQ(alloc_at(0, 0, MIB, VRAM, &handle, NULL), 0); /* at no address */
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(munmap(here, MIB), 0);
	CHECK_EQ(get(here, MIB), -EFAULT);
	CHECK_EQ(set(here, MIB, clear, 4), -EFAULT);
	CHECK(mmap(here, MIB, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == here);
	CHECK_EQ(alloc_at(0, at, MIB, VRAM, &handle, NULL), 0); /* its attributes went with it */
	CHECK_EQ(map(handle, ids, 1, &(uint32_t){0}), 0);
	CHECK_EQ(set(here, MIB, clear, 4), -EADDRINUSE);
	CHECK_EQ(get(here, MIB), -EADDRINUSE);
	CHECK_EQ(unmap(handle, ids, 1), 0);
	CHECK_EQ(set(here, MIB, clear, 4), 0);
	CHECK_EQ(get(here, MIB), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(munmap(here, MIB), 0);
}

/* A prefetch without room. */
static void test_prefetch(void)
{
	char *here = mmap(NULL, 80 * MIB, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(here != MAP_FAILED);
	CHECK_EQ(set(here, 80 * MIB, KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, ids[1]),
		 since(6, 12) ? 0 : -ENOMEM);
	CHECK_EQ(munmap(here, 80 * MIB), 0);
}

static void test_import(void)
{
	uint64_t handle;
	int fd = buffer_of(0);

	CHECK_EQ(import_on(0, fd, AT, &handle), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(import_on(2, fd, AT, &handle), since(6, 8) ? 0 : -EINVAL);
	if (since(6, 8)) { /* which no link leads to, but it is the machine's memory there */
		CHECK_EQ(map(handle, ids + 2, 1, &(uint32_t){0}), 0);
		CHECK_EQ(unmap(handle, ids + 2, 1), 0);
		CHECK_EQ(free_memory(handle), 0);
	}
	close(fd);
}

static uint32_t buffer(int gpu, uint64_t bytes, uint64_t *ret_domains)
{
	union drm_amdgpu_gem_create a = {
		.in = {.bo_size = bytes, .domains = AMDGPU_GEM_DOMAIN_VRAM}};
	struct drm_amdgpu_gem_create_in made = {0};
	struct drm_amdgpu_gem_op op = {.value = (uintptr_t)&made};

	CHECK_EQ(drm(render[gpu], _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), 0);
	op.handle = a.out.handle;
	CHECK_EQ(drm(render[gpu], _IOWR('d', DRM_NR_AMDGPU_GEM_OP, op), &op), 0);
	*ret_domains = made.domains;
	return a.out.handle;
}

/* What KFD tells and gives: its own alone, by 2 MiB, without what it keeps for page tables. */
static void test_available(void)
{
	uint64_t small[40], one, domains, left;
	uint32_t b;

	CHECK_EQ(available(0), 64 * MIB);
	CHECK_EQ(alloc_vram(0, 64 * MIB + 4096, &one), -ENOMEM);
	CHECK_EQ(alloc_vram(0, MIB, &one), 0);
	CHECK_EQ(available(0), 62 * MIB);
	CHECK_EQ(free_memory(one), 0);
	b = buffer(0, 16 * MIB, &domains);
	CHECK_EQ(available(0), 64 * MIB);
	CHECK_EQ(close_handle(render[0], b), 0);
	/* Small ones are told of as more than they are, and more can be had. */
	for (int i = 0; i < 40; i++)
		CHECK_EQ(alloc_vram(0, 4096, &small[i]), 0);
	left = available(0);
	CHECK_EQ(left, since(6, 12) ? 0 : -(16 * MIB));
	CHECK_EQ(alloc_vram(0, 60 * MIB, &one), 0);
	CHECK_EQ(free_memory(one), 0);
	for (int i = 0; i < 40; i++)
		CHECK_EQ(free_memory(small[i]), 0);
}

/* A render node's buffer finds room in the machine's memory, and leaves the GPU for KFD's. */
static void test_full(void)
{
	uint64_t one, domains;
	uint32_t first, second, huge;

	first = buffer(0, 40 * MIB, &domains);
	CHECK_EQ(domains, AMDGPU_GEM_DOMAIN_VRAM);
	CHECK_EQ(vacant(0), 24 * MIB);
	second = buffer(0, 40 * MIB, &domains);
	CHECK_EQ(domains, AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT);
	CHECK_EQ(vacant(0), 24 * MIB);
	huge = buffer(0, 256 * MIB, &domains);
	CHECK_EQ(domains, AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT);
	CHECK_EQ(alloc_vram(0, 64 * MIB, &one), 0);
	CHECK_EQ(vacant(0), 0);
	CHECK_EQ(alloc_vram(0, 4096, &domains), -ENOMEM);
	CHECK_EQ(free_memory(one), 0);
	CHECK_EQ(close_handle(render[0], first), 0);
	CHECK_EQ(close_handle(render[0], second), 0);
	CHECK_EQ(close_handle(render[0], huge), 0);
	CHECK_EQ(vacant(0), 64 * MIB);
}

static int set_xnack(int32_t enabled)
{
	struct kfd_ioctl_set_xnack_mode_args a = {enabled};

	return call(KFD_IOWR(SET_XNACK_MODE, a), &a);
}

static uint64_t give(char *here, uint64_t size)
{
	uint64_t handle, users = (uintptr_t)here;

	CHECK_EQ(alloc_at(0, users, size, USERPTR, &handle, &users), 0);
	CHECK_EQ(map(handle, ids, 1, &(uint32_t){0}), 0);
	return handle;
}

/* What a queue uses is to be there, as objects of their own; it stays mapped until the queue goes. */
static void test_queue(void)
{
	char *here = mmap(NULL, RING_BYTES + 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t ring, pointers;
	struct queue q = {.ring = here};

	CHECK(here != MAP_FAILED);
	CHECK_EQ(create_queue(0, here, RING_BYTES, &q.id), since(6, 12) ? -EINVAL : 0);
	if (!since(6, 12))
		CHECK_EQ(destroy_queue(&q), 0);
	ring = give(here, RING_BYTES);
	pointers = give(here + RING_BYTES, 4096);
	CHECK_EQ(create_queue(0, here, 2 * RING_BYTES, &q.id), since(6, 12) ? -EINVAL : 0);
	if (!since(6, 12))
		CHECK_EQ(destroy_queue(&q), 0);
	CHECK_EQ(create_queue(0, here, RING_BYTES, &q.id), 0);
	CHECK_EQ(set_xnack(0), -EBUSY);
	CHECK_EQ(set_xnack(1), -EBUSY);
	CHECK_EQ(set_xnack(-1), 0);
	CHECK_EQ(update_queue(&q, 50), 0);
	CHECK_EQ(unmap(pointers, ids, 1), since(6, 12) ? -EBUSY : 0);
	CHECK_EQ(unmap(ring, ids, 1), since(6, 12) ? -EBUSY : 0);
	CHECK_EQ(free_memory(ring), since(6, 12) ? -EBUSY : 0);
	q.ring = here + RING_BYTES; /* which is a page, too */
	CHECK_EQ(update_queue(&q, 100), 0);
	q.ring = here + 4 * RING_BYTES;
	CHECK_EQ(update_queue(&q, 100), since(6, 12) ? -EFAULT : 0);
	q.ring = NULL;
	CHECK_EQ(update_queue(&q, 0), 0);
	CHECK_EQ(destroy_queue(&q), 0);
	CHECK_EQ(set_xnack(0), 0);
	CHECK_EQ(set_xnack(1), -EPERM);
	if (since(6, 12)) {
		CHECK_EQ(unmap(ring, ids, 1), 0);
		CHECK_EQ(unmap(pointers, ids, 1), 0);
		CHECK_EQ(free_memory(ring), 0);
	}
	CHECK_EQ(free_memory(pointers), 0);
}

/* The memory where events are signalled is the kernel's from then on. */
static void test_signal_page(void)
{
	struct kfd_ioctl_create_event_args a = {.event_type = KFD_IOC_EVENT_SIGNAL};
	uint64_t handle, other;

	CHECK_EQ(alloc_flags(0, 32768, GTT, &handle, NULL), 0);
	CHECK_EQ(alloc_flags(0, 32768, GTT, &other, NULL), 0);
	a.event_page_offset = handle + 77;
	CHECK_EQ(call(KFD_IOWR(CREATE_EVENT, a), &a), -EINVAL);
	a.event_page_offset = handle;
	CHECK_EQ(call(KFD_IOWR(CREATE_EVENT, a), &a), 0);
	a.event_page_offset = other;
	CHECK_EQ(call(KFD_IOWR(CREATE_EVENT, a), &a), -EINVAL);
	CHECK_EQ(free_memory(handle), -EPERM);
	CHECK_EQ(free_memory(other), 0);
}

/* What /proc tells of a render node is its handles', whichever process reads it. */
static void test_fdinfo(void)
{
	int file = open("/dev/dri/renderD131", O_RDWR | O_CLOEXEC), info;
	union drm_amdgpu_gem_create a = {.in = {3 * MIB, 0, AMDGPU_GEM_DOMAIN_VRAM, 0}};
	char path[64], text[1024] = "";
	int socket;
	pid_t child;

	CHECK_EQ(drm(file, _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), 0);
	a.in = (struct drm_amdgpu_gem_create_in){2 * MIB, 0, AMDGPU_GEM_DOMAIN_GTT, 0};
	CHECK_EQ(drm(file, _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), 0);
	child = start(hear, &socket);
	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", child, file);
	info = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(info >= 0 && read(info, text, sizeof(text) - 1) > 0);
	CHECK(strstr(text, "drm-driver:\tamdgpu\n") && strstr(text, "drm-pdev:\t0000:03:00.0\n"));
	CHECK(strstr(text, "drm-memory-vram:\t3072 KiB\ndrm-memory-gtt: \t2048 KiB\n"));
	CHECK_EQ(!!strstr(text, "drm-total-vram:\t3072 KiB\n"), since(6, 14));
	say(socket);
	end(child, 0);
	close(info);
	close(file);
}

/* Ioctls that came later. */
static void test_ioctls(void)
{
	struct drm_amdgpu_gem_list_handles list = {0};
	struct kfd_ioctl_export_dmabuf_args export = {0};

	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_AMDGPU_GEM_LIST_HANDLES, list), &list),
		 since(6, 18) ? 0 : -EINVAL);
	CHECK_EQ(call(KFD_IOWR(EXPORT_DMABUF, export), &export), since(6, 4) ? -EINVAL : -ENOTTY);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		CHECK_EQ(kernel_parse(argv[1], &kernel), 0);
	open_devices();
	test_not_acquired();
	test_acquire();
	test_handles();
	test_kinds();
	test_svm();
	test_prefetch();
	test_import();
	test_available();
	test_full();
	test_queue();
	test_signal_page();
	test_fdinfo();
	test_ioctls();
	return 0;
}
