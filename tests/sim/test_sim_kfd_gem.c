/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of the emulated render nodes: where queues find them, and what is told of them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "tests/sim/kfd_queue.h"

#define AT     (UINT64_C(1) << 33)
#define READ   AMDGPU_VM_PAGE_READABLE
#define WRITE  AMDGPU_VM_PAGE_WRITEABLE
#define MAP    AMDGPU_VA_OP_MAP
#define UNMAP  AMDGPU_VA_OP_UNMAP
#define NOTHING (AMDGPU_VM_PAGE_PRT | AMDGPU_VM_DELAY_UPDATE)
#define NOBODY 4711 /* a handle that there is not */

#define DRM_IOWR(name, type) _IOWR('d', DRM_NR_##name, type)

static uint32_t create(int file, uint64_t size, uint64_t domains)
{
	union drm_amdgpu_gem_create a = {
		.in = {.bo_size = size, .alignment = 65536, .domains = domains, .domain_flags = 2}};

	CHECK_EQ(drm(file, DRM_IOWR(AMDGPU_GEM_CREATE, a), &a), 0);
	return a.out.handle;
}

static int va(int file, uint32_t handle, uint32_t operation, uint32_t flags, uint64_t at,
	      uint64_t offset, uint64_t size)
{
	struct drm_amdgpu_gem_va a = {.handle = handle,
				      .operation = operation,
				      .flags = flags,
				      .va_address = at,
				      .offset_in_bo = offset,
				      .map_size = size};

	return drm(file, _IOW('d', DRM_NR_AMDGPU_GEM_VA, a), &a);
}

static int list(int file, uint32_t *n, struct drm_amdgpu_gem_list_handles_entry *entries)
{
	struct drm_amdgpu_gem_list_handles a = {(uintptr_t)entries, *n, 0};
	int r = drm(file, DRM_IOWR(AMDGPU_GEM_LIST_HANDLES, a), &a);

	*n = a.num_entries;
	return r;
}

static uint32_t mappings(int file, uint32_t handle, uint32_t room,
			 struct drm_amdgpu_gem_vm_entry *ret)
{
	struct drm_amdgpu_gem_op a = {.handle = handle,
				      .op = AMDGPU_GEM_OP_GET_MAPPING_INFO,
				      .value = (uintptr_t)ret,
				      .num_entries = room};

	CHECK_EQ(drm(file, DRM_IOWR(AMDGPU_GEM_OP, a), &a), 0);
	return a.num_entries;
}

/* A part of a buffer, at an address of one GPU; of the file that has the queues' page tables. */
static void test_addresses(void)
{
	uint32_t b = create(render[1], MIB, AMDGPU_GEM_DOMAIN_VRAM), elsewhere;
	int other = open("/dev/dri/renderD130", O_RDWR | O_CLOEXEC);
	struct drm_amdgpu_gem_vm_entry entries[2];
	char *host = host_memory(4096);
	uint64_t handle;
	struct queue q;

	make_queue(1, KFD_IOC_QUEUE_TYPE_SDMA, &q);
	/* A block that the request does not say to be read is zeros. */
	CHECK_EQ(drm(render[1], _IOC(_IOC_NONE, 'd', DRM_NR_GEM_CLOSE, 8), &b), -EINVAL);
	CHECK_EQ(va(render[1], NOBODY, MAP, READ, AT, 0, 4096), -ENOENT);
	CHECK_EQ(va(render[1], b, 99, READ, AT, 0, 4096), -EINVAL);
	CHECK_EQ(va(render[1], b, MAP, READ, AT + 1, 0, 4096), -EINVAL);
	CHECK_EQ(va(render[1], b, MAP, READ, AT, MIB, 4096), -EINVAL);
	CHECK_EQ(va(render[1], b, MAP, READ, AT, 4096, MIB), -EINVAL);
	CHECK_EQ(va(render[1], b, MAP, READ | WRITE, AT, 8192, 4096), 0);
	CHECK_EQ(va(render[1], b, MAP, READ, AT, 0, 4096), -EINVAL); /* taken */
	CHECK_EQ(va(render[1], b, MAP, READ, AT + 8192, 0, MIB), 0);
	CHECK_EQ(alloc_at(1, AT, MIB, VRAM, &handle, NULL), 0);
	CHECK_EQ(map(handle, &ids[1], 1, &(uint32_t){0}), -EINVAL);
	CHECK_EQ(free_memory(handle), 0);

	/* Addresses that nothing is at: taken by a buffer, or by memory of /dev/kfd. */
	CHECK_EQ(alloc_at(1, 2 * AT, MIB, VRAM, &handle, NULL), 0);
	CHECK_EQ(map(handle, &ids[1], 1, &(uint32_t){0}), 0);
	CHECK_EQ(va(render[1], 0, MAP, NOTHING, AT + 8192 + MIB - 4096, 0, 8192), -EINVAL);
	CHECK_EQ(va(render[1], 0, MAP, NOTHING, 2 * AT + MIB - 4096, 0, 4096), -EINVAL);
	CHECK_EQ(va(render[1], 0, MAP, NOTHING, AT + 8192 + MIB, 0, 2 * AT - (AT + 8192 + MIB)), 0);
	CHECK_EQ(va(render[1], b, MAP, READ, AT + 8192 + MIB, 0, 4096), -EINVAL);
	CHECK_EQ(va(other, 0, MAP, NOTHING, 2 * AT, 0, 4096), 0);
	CHECK_EQ(va(other, 0, UNMAP, NOTHING, 2 * AT, 0, 4096), 0);
	CHECK_EQ(va(render[1], 0, UNMAP, NOTHING, AT + 8192 + MIB, 0, 0), 0);
	CHECK_EQ(va(render[1], 0, UNMAP, NOTHING, AT + 8192 + MIB, 0, 0), -ENOENT);
	CHECK_EQ(unmap(handle, &ids[1], 1), 0);
	CHECK_EQ(free_memory(handle), 0);

	strcpy(host, "content");
	put_copy(&q, AT, (uintptr_t)host, 16);
	put_copy(&q, (uintptr_t)host + 16, AT + 8192 + 8192, 16);
	CHECK_EQ(execute(1, &q), 0);
	CHECK(!strcmp(host + 16, "content"));
	put_copy(&q, AT + 8192, (uintptr_t)host, 16); /* which is for reading */
	CHECK_EQ(execute(1, &q), AT + 8192);

	CHECK_EQ(mappings(render[1], b, 0, NULL), 2);
	CHECK_EQ(mappings(render[1], b, 2, entries), 2);
	CHECK(entries[0].addr == AT && entries[0].size == 4096 && entries[0].offset == 8192);
	CHECK_EQ(entries[0].flags, READ | WRITE);
	CHECK_EQ(va(render[1], b, UNMAP, 0, AT + 4096, 0, 4096), -ENOENT);
	CHECK_EQ(va(render[1], b, UNMAP, 0, AT, 0, 4096), 0);
	put_copy(&q, (uintptr_t)host, AT, 16);
	CHECK_EQ(execute(1, &q), AT);
	CHECK_EQ(close_handle(render[1], b), 0); /* with the other mapping */
	put_copy(&q, (uintptr_t)host, AT + 8192, 16);
	CHECK_EQ(execute(1, &q), AT + 8192);
	CHECK_EQ(vacant(1), 64 * MIB);

	elsewhere = create(other, MIB, AMDGPU_GEM_DOMAIN_GTT);
	CHECK_EQ(va(other, elsewhere, MAP, READ, AT, 0, 4096), 0); /* which no queue sees */
	CHECK_EQ(mappings(other, elsewhere, 2, entries), 1);
	put_copy(&q, (uintptr_t)host, AT, 16);
	CHECK_EQ(execute(1, &q), AT);
	CHECK_EQ(close_handle(other, elsewhere), 0);
	CHECK_EQ(destroy_queue(&q), 0);
	close(other);
}

static int place_at(int file, uint32_t handle, uint64_t domains)
{
	struct drm_amdgpu_gem_op a = {
		.handle = handle, .op = AMDGPU_GEM_OP_SET_PLACEMENT, .value = domains};

	return drm(file, DRM_IOWR(AMDGPU_GEM_OP, a), &a);
}

/* An object of its own, in the machine's memory as far as that GPU is asked. */
static void check_import_elsewhere(uint32_t handle, int file)
{
	struct drm_prime_handle prime = {.handle = handle, .flags = O_CLOEXEC | O_RDWR};
	struct drm_amdgpu_gem_list_handles_entry e;
	uint32_t n = 1;
	int other = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC);

	CHECK_EQ(drm(file, DRM_IOWR(PRIME_HANDLE_TO_FD, prime), &prime), 0);
	CHECK_EQ(drm(other, DRM_IOWR(PRIME_FD_TO_HANDLE, prime), &prime), 0);
	CHECK_EQ(list(other, &n, &e), 0);
	CHECK(n == 1 && e.flags == AMDGPU_GEM_LIST_HANDLES_FLAG_IS_IMPORT && e.alignment == 4096);
	CHECK(e.preferred_domains == AMDGPU_GEM_DOMAIN_GTT && !e.alloc_flags);
	CHECK_EQ(place_at(other, prime.handle, AMDGPU_GEM_DOMAIN_VRAM), -EINVAL);
	CHECK_EQ(place_at(other, prime.handle, AMDGPU_GEM_DOMAIN_GTT), 0);
	close(prime.fd);
	close(other);
}

/* What a process has of a file, and how to make it again elsewhere. */
static void test_lists(void)
{
	int file = open("/dev/dri/renderD131", O_RDWR | O_CLOEXEC);
	uint32_t one = create(file, 2 * MIB, AMDGPU_GEM_DOMAIN_VRAM), n = 0;
	struct drm_prime_handle prime = {.flags = O_CLOEXEC | O_RDWR};
	struct drm_gem_change_handle change = {.handle = one, .new_handle = 77};
	struct drm_amdgpu_gem_list_handles_entry e[4];
	struct drm_amdgpu_gem_create_in info = {0};
	struct drm_amdgpu_gem_op op = {.handle = 77, .value = (uintptr_t)&info};

	prime.handle = create(render[2], MIB, AMDGPU_GEM_DOMAIN_GTT);
	CHECK_EQ(drm(render[2], DRM_IOWR(PRIME_HANDLE_TO_FD, prime), &prime), 0);
	CHECK_EQ(drm(file, DRM_IOWR(PRIME_FD_TO_HANDLE, prime), &prime), 0);
	close(prime.fd);
	CHECK_EQ(list(file, &n, NULL), 0);
	CHECK_EQ(n, 2);
	n = 4;
	CHECK_EQ(list(file, &n, e), 0);
	CHECK(n == 2 && e[0].gem_handle == one && !e[0].flags && e[0].size == 2 * MIB);
	CHECK(e[0].preferred_domains == AMDGPU_GEM_DOMAIN_VRAM && e[0].alloc_flags == 2);
	CHECK(e[0].alignment == 65536 && e[1].gem_handle == prime.handle);
	/* It is the object itself: only another GPU's import is told as one. */
	CHECK(!e[1].flags && e[1].size == MIB && e[1].alignment == 65536 && e[1].alloc_flags == 2);
	check_import_elsewhere(prime.handle, file);
	n = 4;
	CHECK_EQ(list(file, &n, (void *)8), -EFAULT);
	CHECK_EQ(n, 2); /* a block comes back where it fails, too */

	CHECK_EQ(drm(file, DRM_IOWR(GEM_CHANGE_HANDLE, change), &change), 0);
	CHECK_EQ(drm(file, DRM_IOWR(GEM_CHANGE_HANDLE, change), &change), -ENOENT);
	change = (struct drm_gem_change_handle){77, prime.handle};
	CHECK_EQ(drm(file, DRM_IOWR(GEM_CHANGE_HANDLE, change), &change), -ENOSPC);
	CHECK_EQ(drm(file, DRM_IOWR(AMDGPU_GEM_OP, op), &op), 0);
	CHECK(info.bo_size == 2 * MIB && info.domains == AMDGPU_GEM_DOMAIN_VRAM);
	CHECK_EQ(close_handle(file, one), -EINVAL);
	CHECK(close_handle(file, 77) == 0 && close_handle(file, prime.handle) == 0);
	close(file);
}

static void be_on_older_kernel(void)
{
	uint32_t n = 0, handle = create(render[0], 1, AMDGPU_GEM_DOMAIN_GTT);

	CHECK_EQ(list(render[0], &n, NULL), -EINVAL);
	CHECK_EQ(close_handle(render[0], handle), 0);
	CHECK_EQ(close_handle(render[0], handle), -EIO);
	CHECK_EQ(close_handle(render[0], handle), -EIO);
	CHECK_EQ(close_handle(render[0], handle), -EINVAL); /* no more; but it was closed */
}

/* The file that has a GPU's page tables stays the same. */
static void test_acquire(void)
{
	int other = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC), copy = dup(render[0]);
	struct kfd_ioctl_acquire_vm_args a = {(uint32_t)other, ids[0]};

	CHECK_EQ(call(_IOW('K', KFD_NR_ACQUIRE_VM, a), &a), -EBUSY);
	a.drm_fd = (uint32_t)copy;
	CHECK_EQ(call(_IOW('K', KFD_NR_ACQUIRE_VM, a), &a), 0);
	close(other);
	close(copy);
}

static int metadata(int file, uint32_t handle, uint32_t op, struct drm_amdgpu_gem_metadata *a)
{
	a->handle = handle;
	a->op = op;
	return drm(file, DRM_IOWR(AMDGPU_GEM_METADATA, *a), a);
}

/* What a program notes of a buffer goes where the buffer goes. */
static void test_metadata(void)
{
	struct drm_amdgpu_gem_metadata a = {.data = {.tiling_info = 7, .data_size_bytes = 8}}, b;
	uint32_t handle = create(render[0], MIB, AMDGPU_GEM_DOMAIN_VRAM), words[4] = {0};
	struct drm_prime_handle prime = {.handle = handle, .flags = O_CLOEXEC | O_RDWR};
	struct kfd_ioctl_get_dmabuf_info_args info = {.metadata_ptr = (uintptr_t)words};
	int file = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC);

	memset(&b, 0x5a, sizeof(b));
	CHECK_EQ(metadata(render[0], handle, AMDGPU_GEM_METADATA_OP_GET_METADATA, &b), 0);
	CHECK(!b.data.flags && !b.data.tiling_info && !b.data.data_size_bytes);
	CHECK_EQ(metadata(render[0], NOBODY, AMDGPU_GEM_METADATA_OP_GET_METADATA, &b), -ENOENT);
	CHECK_EQ(metadata(render[0], handle, 3, &b), -EINVAL);
	a.data.data[1] = 4711;
	CHECK_EQ(metadata(render[0], handle, AMDGPU_GEM_METADATA_OP_SET_METADATA, &a), 0);
	a.data.data_size_bytes = sizeof(a.data.data) + 1;
	CHECK_EQ(metadata(render[0], handle, AMDGPU_GEM_METADATA_OP_SET_METADATA, &a), -EINVAL);
	CHECK_EQ(drm(render[0], DRM_IOWR(PRIME_HANDLE_TO_FD, prime), &prime), 0);
	info.dmabuf_fd = (uint32_t)prime.fd;
	info.metadata_size = 7;
	CHECK_EQ(call(KFD_IOWR(GET_DMABUF_INFO, info), &info), -EINVAL);
	info.metadata_size = sizeof(words);
	CHECK_EQ(call(KFD_IOWR(GET_DMABUF_INFO, info), &info), 0);
	CHECK(info.metadata_size == 8 && words[1] == 4711);
	CHECK_EQ(close_handle(render[0], handle), 0);
	CHECK_EQ(drm(file, DRM_IOWR(PRIME_FD_TO_HANDLE, prime), &prime), 0);
	CHECK_EQ(metadata(file, prime.handle, AMDGPU_GEM_METADATA_OP_GET_METADATA, &b), 0);
	CHECK(b.data.tiling_info == 7 && b.data.data_size_bytes == 8 && b.data.data[1] == 4711);
	close(prime.fd);
	close(file);
}

static int place(uint32_t handle, uint64_t domains)
{
	return place_at(render[0], handle, domains);
}

/* Neither way while a GPU of the hive maps it; any way when it is there alone. */
static void test_placement_in_hive(void)
{
	uint32_t b = create(render[0], MIB, AMDGPU_GEM_DOMAIN_VRAM), done = 0;
	struct drm_prime_handle prime = {.handle = b, .flags = O_CLOEXEC | O_RDWR};
	struct kfd_ioctl_import_dmabuf_args a = {.va_addr = AT, .gpu_id = ids[0]};

	CHECK_EQ(drm(render[0], DRM_IOWR(PRIME_HANDLE_TO_FD, prime), &prime), 0);
	a.dmabuf_fd = (uint32_t)prime.fd;
	CHECK_EQ(call(KFD_IOWR(IMPORT_DMABUF, a), &a), 0);
	close(prime.fd);
	CHECK_EQ(place(b, AMDGPU_GEM_DOMAIN_VRAM), 0);
	CHECK_EQ(map(a.handle, ids, 2, &done), 0);
	CHECK_EQ(place(b, AMDGPU_GEM_DOMAIN_VRAM), -EINVAL);
	CHECK_EQ(place(b, AMDGPU_GEM_DOMAIN_GTT), -EINVAL);
	CHECK_EQ(unmap(a.handle, ids, 2), 0);
	CHECK_EQ(place(b, AMDGPU_GEM_DOMAIN_GTT), 0);
	CHECK_EQ(free_memory(a.handle), 0);
	CHECK_EQ(close_handle(render[0], b), 0);
}

/* A buffer that is to move takes the other memory, if that has room: here it does so at once. */
static void test_placement(void)
{
	uint64_t all = vacant(0);
	uint32_t b = create(render[0], 8 * MIB, AMDGPU_GEM_DOMAIN_GTT);
	uint32_t large = create(render[0], 128 * MIB, AMDGPU_GEM_DOMAIN_GTT);

	CHECK_EQ(vacant(0), all);
	CHECK_EQ(place(b, AMDGPU_GEM_DOMAIN_VRAM), 0);
	CHECK_EQ(vacant(0), all - 8 * MIB);
	CHECK_EQ(place(large, AMDGPU_GEM_DOMAIN_VRAM), 0);
	CHECK_EQ(vacant(0), all - 8 * MIB);
	CHECK_EQ(place(b, AMDGPU_GEM_DOMAIN_GTT), 0);
	CHECK_EQ(vacant(0), all);
	CHECK_EQ(place(NOBODY, AMDGPU_GEM_DOMAIN_VRAM), -ENOENT);
	CHECK(close_handle(render[0], b) == 0 && close_handle(render[0], large) == 0);
}

static int context(int file, uint32_t op, uint32_t id)
{
	union drm_amdgpu_ctx a = {.in = {.op = op, .ctx_id = id}};
	int r = drm(file, DRM_IOWR(AMDGPU_CTX, a), &a);

	return r < 0 || op != AMDGPU_CTX_OP_ALLOC_CTX ? r : (int)a.out.alloc.ctx_id;
}

/* Numbers of one file, of which the lowest is given out; and no work is known that there was not. */
static void test_contexts(void)
{
	union drm_amdgpu_wait_cs wait = {.in = {.handle = 1, .ip_type = AMDGPU_HW_IP_DMA, .ctx_id = 1}};

	CHECK_EQ(context(render[0], AMDGPU_CTX_OP_QUERY_STATE2, 1), -EINVAL);
	CHECK_EQ(context(render[0], AMDGPU_CTX_OP_ALLOC_CTX, 0), 1);
	CHECK_EQ(context(render[0], AMDGPU_CTX_OP_ALLOC_CTX, 0), 2);
	CHECK_EQ(context(render[1], AMDGPU_CTX_OP_ALLOC_CTX, 0), 1);
	CHECK_EQ(context(render[0], AMDGPU_CTX_OP_QUERY_STATE2, 2), 0);
	CHECK_EQ(context(render[1], AMDGPU_CTX_OP_QUERY_STATE2, 2), -EINVAL);
	CHECK_EQ(context(render[0], AMDGPU_CTX_OP_FREE_CTX, 1), 0);
	CHECK_EQ(context(render[0], AMDGPU_CTX_OP_FREE_CTX, 1), -EINVAL);
	CHECK_EQ(context(render[0], AMDGPU_CTX_OP_ALLOC_CTX, 0), 1);
	CHECK_EQ(drm(render[0], DRM_IOWR(AMDGPU_WAIT_CS, wait), &wait), -EINVAL);
	wait.in.handle = 0;
	CHECK_EQ(drm(render[0], DRM_IOWR(AMDGPU_WAIT_CS, wait), &wait), 0);
}

static int open_first(void)
{
	int file = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC);

	CHECK(file >= 0);
	return file;
}

/* Keeps what it inherited until it is told. */
static void keep(int socket)
{
	say(socket);
	hear(socket);
}

/* A file's memory goes with the last descriptor of it, wherever that is. */
static void test_closed(void)
{
	uint64_t all = vacant(0);
	int file = open_first(), copy = dup(file), socket;
	pid_t child;

	create(file, 8 * MIB, AMDGPU_GEM_DOMAIN_VRAM);
	close(file);
	CHECK_EQ(vacant(0), all - 8 * MIB);
	close(copy);
	CHECK_EQ(vacant(0), all);
	file = open_first();
	create(file, 8 * MIB, AMDGPU_GEM_DOMAIN_VRAM);
	CHECK_EQ(dup2(render[1], file), file);
	CHECK_EQ(vacant(0), all);
	close(file);
	file = open_first();
	create(file, 8 * MIB, AMDGPU_GEM_DOMAIN_VRAM);
	child = start(keep, &socket);
	hear(socket);
	close(file);
	CHECK_EQ(vacant(0), all - 8 * MIB);
	say(socket);
	end(child, 0);
	close(socket);
	CHECK_EQ(vacant(0), all);
}

static int inherited;

/* Has opened nothing: what it makes is the file's, and so the parent's, too. */
static void use_inherited(int socket)
{
	uint32_t handle;

	CHECK_EQ(close_handle(inherited, 1), 0);
	handle = create(inherited, 4 * MIB, AMDGPU_GEM_DOMAIN_VRAM);
	CHECK_EQ(handle, 1);
	CHECK_EQ(create(inherited, 2 * MIB, AMDGPU_GEM_DOMAIN_VRAM), 2);
	CHECK_EQ(call(KFD_IOWR(AVAILABLE_MEMORY, (struct kfd_ioctl_get_available_memory_args){0}),
		      &(struct kfd_ioctl_get_available_memory_args){.gpu_id = ids[0]}),
		 -EBADF);
	say(socket);
	hear(socket);
}

/* A render node's file is of all that have a descriptor; only /dev/kfd is its opener's. */
static void test_inherited(void)
{
	struct drm_amdgpu_gem_list_handles_entry e[4];
	uint64_t all = vacant(0);
	uint32_t n = 4;
	int socket;
	pid_t child;

	inherited = open_first();
	CHECK_EQ(create(inherited, 8 * MIB, AMDGPU_GEM_DOMAIN_VRAM), 1);
	child = start(use_inherited, &socket);
	hear(socket);
	CHECK_EQ(vacant(0), all - 6 * MIB);
	CHECK_EQ(list(inherited, &n, e), 0);
	CHECK(n == 2 && e[0].size == 4 * MIB && e[1].size == 2 * MIB);
	say(socket);
	end(child, 0);
	close(socket);
	CHECK_EQ(vacant(0), all - 6 * MIB); /* which the child's end leaves */
	CHECK_EQ(close_handle(inherited, 2), 0);
	CHECK_EQ(vacant(0), all - 4 * MIB);
	close(inherited);
	CHECK_EQ(vacant(0), all);
}

/* Another process's address space is none of this one's. */
static void acquire_inherited(int socket)
{
	struct kfd_ioctl_acquire_vm_args a = {(uint32_t)render[0], ids[0]};

	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	CHECK_EQ(call(_IOW('K', KFD_NR_ACQUIRE_VM, a), &a), -EINVAL);
	a.drm_fd = (uint32_t)open_first();
	CHECK_EQ(call(_IOW('K', KFD_NR_ACQUIRE_VM, a), &a), 0);
	say(socket);
}

static void test_acquire_inherited(void)
{
	int socket;
	pid_t child = start(acquire_inherited, &socket);

	hear(socket);
	end(child, 0);
	close(socket);
}

static void close_the_kernels(int socket)
{
	open_devices();
	acquire_devices();
	create(render[0], 8 * MIB, AMDGPU_GEM_DOMAIN_VRAM);
	close(render[0]);
	say(socket);
	hear(socket);
}

/* The file that ACQUIRE_VM was called with is the kernel's until the process ends. */
static void test_closed_and_acquired(void)
{
	uint64_t all = vacant(0);
	int socket;
	pid_t child = start(close_the_kernels, &socket);

	hear(socket);
	CHECK_EQ(vacant(0), all - 8 * MIB);
	say(socket);
	end(child, 0);
	close(socket);
	CHECK_EQ(vacant(0), all);
}

int main(int argc, char **argv)
{
	open_devices();
	acquire_devices();
	if (argc > 1) {
		be_on_older_kernel();
		return 0;
	}
	test_acquire();
	test_addresses();
	test_lists();
	test_metadata();
	test_placement();
	test_placement_in_hive();
	test_contexts();
	test_closed();
	test_inherited();
	test_acquire_inherited();
	test_closed_and_acquired();
	run_on_older_kernel(argv[0], "AMDGPU_GEM_LIST_HANDLES,GEM_CHANGE_HANDLE",
			    "GEM_CLOSE:EIO:1:2");
	return 0;
}
