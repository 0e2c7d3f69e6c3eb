/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * CRIU's plugin with processes that have /dev/kfd open, by the hooks as CRIU calls them
 * (criu_host.h), over the emulated devices:
 *
 *     test_sim_criu_plugin ALLOT PLUGIN LINKS OTHER_LINKS
 *
 * runs itself in one machine to dump, and in others to restore: two processes that share buffers by
 * /dev/kfd and hold dma-bufs of them; one that shares buffers between /dev/kfd and a render node,
 * either way; one that has buffers at addresses of a GPU, on a kernel that tells neither; and one with
 * buffers that the CPU does not reach.
 */
#include <linux/sched.h>
#include <stdio.h>
#include <sys/resource.h>

#include "amd/gem_addresses.h"
#include "tests/sim/criu_host.h"
#include "tests/sim/kfd_criu.h"
#include "tests/sim/kfd_queue.h"

#define PROCESSES 2
#define BYTES	  (2 * MIB)
#define FLAGS	  (VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT)
#define MMIO	  (KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)

/* Addresses of GPUs, and where the CPU has the same, which nothing else has. */
#define AT(i)  ((UINT64_C(1) + (i)) << 33)
#define CPU(i) ((char *)(uintptr_t)(UINT64_C(0x200000000000) + ((uint64_t)(i) << 32)))

/* Descriptors of each process. */
enum { FD_KFD = 20, FD_RENDER, FD_DMABUF = FD_RENDER + GPUS, FDS };

/* The first process has a dma-buf of the second's buffer; the second has its memory alone. */
#define FDS_OF(number) ((number) ? FD_DMABUF : FDS)

/* What it has mapped, and where: by place. */
enum { OWN, SHARED, OTHERS, REGISTERS, DOORBELLS, MAPS };

/* Memory of the program's own, for a queue: its ring, pointers, a fence. CRIU brings it back. */
#define ARENA	    CPU(MAPS)
#define ARENA_BYTES (RING_BYTES + 8192)

struct record {
	pid_t pid;
	uint32_t gpu_ids[GPUS], handle; /* the handle: of a render node */
	uint32_t doorbell;	       /* in the page, in bytes */
	struct map {
		uint64_t bytes, offset; /* 0 bytes: nothing */
		int fd;
	} maps[MAPS];
};

static struct record was[PROCESSES];

static int id_of(int number, int fd)
{
	return 100 * (number + 1) + fd;
}

/* --- The first machine ------------------------------------------------------------------------- */

static void place(int *fd, int at)
{
	CHECK_EQ(dup3(*fd, at, O_CLOEXEC), at);
	close(*fd);
	*fd = at;
}

static void begin_process(struct record *r)
{
	open_devices();
	place(&kfd, FD_KFD);
	for (int i = 0; i < GPUS; i++)
		place(&render[i], FD_RENDER + i);
	acquire_devices();
	*r = (struct record){.pid = getpid()};
	memcpy(r->gpu_ids, ids, sizeof(ids));
}

static void map_as(struct record *r, int as, int fd, uint64_t offset, uint64_t bytes)
{
	void *at = mmap(CPU(as), bytes, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_FIXED | MAP_FIXED_NOREPLACE, fd, (off_t)offset);

	CHECK(at == CPU(as));
	CHECK_EQ(host_handle_vma(fd), 0);
	r->maps[as] = (struct map){bytes, offset, fd};
}

/* A buffer of /dev/kfd with something in it, mapped by the first two GPUs and the CPU. */
static uint64_t make_buffer(struct record *r, int as, const char *text, int number)
{
	uint64_t handle, offset = 0;
	uint32_t done = 0;

	CHECK_EQ(alloc_at(0, AT(as), BYTES, FLAGS, &handle, &offset), 0);
	CHECK_EQ(map(handle, ids, 2, &done), 0);
	map_as(r, as, render[0], offset, BYTES);
	snprintf(CPU(as) + BYTES / 2, 64, "%s of %d", text, number);
	return handle;
}

static void import(struct record *r, int as, int dmabuf)
{
	struct kfd_ioctl_import_dmabuf_args a = {
		.va_addr = AT(as), .gpu_id = ids[0], .dmabuf_fd = (uint32_t)dmabuf};
	uint32_t done = 0;

	CHECK_EQ(call(KFD_IOWR(IMPORT_DMABUF, a), &a), 0);
	CHECK_EQ(map(a.handle, ids, 1, &done), 0);
	map_as(r, as, render[0], ((a.handle & UINT32_MAX) + 1) << 40, BYTES);
}

static void make_arena(void)
{
	CHECK(mmap(ARENA, ARENA_BYTES, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == ARENA);
}

/* Nothing is in it yet. */
static void make_idle_queue(struct record *r)
{
	struct kfd_ioctl_create_queue_args a = {
		.ring_base_address = (uintptr_t)ARENA,
		.ring_size = RING_BYTES,
		.read_pointer_address = (uintptr_t)ARENA + RING_BYTES,
		.write_pointer_address = (uintptr_t)ARENA + RING_BYTES + 8,
		.gpu_id = ids[0],
		.queue_type = KFD_IOC_QUEUE_TYPE_SDMA,
		.queue_percentage = 100};

	make_arena();
	give_memory(give_queue_memory(ARENA) + RING_BYTES + 4096, ARENA_BYTES - RING_BYTES - 4096);
	CHECK_EQ(call(KFD_IOWR(CREATE_QUEUE, a), &a), 0);
	r->doorbell = (uint32_t)(a.doorbell_offset % DOORBELLS_BYTES);
	map_as(r, DOORBELLS, kfd, a.doorbell_offset - r->doorbell, DOORBELLS_BYTES);
}

/* One handle in front of all others that is free again. */
static void run_process(int socket, int number)
{
	struct record r;
	uint64_t hole, registers, offset = 0;
	int dmabuf, unused;

	begin_process(&r);
	CHECK_EQ(alloc_at(0, AT(8), 4096, FLAGS, &hole, NULL), 0);
	make_buffer(&r, OWN, "own", number);
	dmabuf = export_memory(make_buffer(&r, SHARED, "shared", number));
	CHECK_EQ(alloc_at(0, AT(REGISTERS), 4096, MMIO, &registers, &offset), 0);
	map_as(&r, REGISTERS, kfd, offset, 4096);
	make_idle_queue(&r);
	message_send(socket, &unused, sizeof(unused), dmabuf);
	close(dmabuf);
	message_receive(socket, &unused, sizeof(unused), &dmabuf);
	import(&r, OTHERS, dmabuf);
	if (number)
		close(dmabuf);
	else
		place(&dmabuf, FD_DMABUF);
	CHECK_EQ(free_memory(hole), 0);
	message_send(socket, &r, sizeof(r), -1);
	pause();
}

static void run_first(int socket)
{
	run_process(socket, 0);
}

static void run_second(int socket)
{
	run_process(socket, 1);
}

static void put_records(const char *path)
{
	char name[256];
	FILE *file;

	snprintf(name, sizeof(name), "%s/records", path);
	file = fopen(name, "we");
	CHECK(file && fwrite(was, sizeof(was), 1, file) == 1 && !fclose(file));
}

static void get_records(const char *path)
{
	char name[256];
	FILE *file;

	snprintf(name, sizeof(name), "%s/records", path);
	file = fopen(name, "re");
	CHECK(file && fread(was, sizeof(was), 1, file) == 1 && !fclose(file));
}

/* In the order of numbers, of one process after the other: not that of who needs whom. */
static void dump_process(pid_t pid, int number, int fds)
{
	for (int i = FD_KFD; i < fds; i++) {
		int fd = take_descriptor(pid, i);

		CHECK_EQ(host_dump_file(fd, id_of(number, i)), 0);
		close(fd);
	}
}

static bool has_image(void)
{
	return !faccessat(host_images, "allot-amdgpu.catalog", F_OK, 0) &&
	       !faccessat(host_images, "allot-kfd", F_OK, 0);
}

/*
 * CRIU's post-dump script may copy the image before the plugin is unloaded: it is whole with the last
 * file of the processes. One in a message, which is nobody's descriptor, may follow.
 */
static void check_written(void)
{
	int late = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC);

	CHECK_EQ(has_image(), !host_retries());
	CHECK_EQ(unlinkat(host_images, "allot-kfd", 0), host_retries() ? -1 : 0);
	CHECK_EQ(host_dump_file(late, 999), 0);
	close(late);
	CHECK_EQ(has_image(), !host_retries());
}

static void dump_two(const char *path)
{
	void (*const run[PROCESSES])(int) = {run_first, run_second};
	int sockets[PROCESSES], dmabuf[PROCESSES], unused, null = open("/dev/null", O_RDWR);
	pid_t pids[PROCESSES];

	for (int i = 0; i < PROCESSES; i++)
		pids[i] = start(run[i], &sockets[i]);
	for (int i = 0; i < PROCESSES; i++)
		message_receive(sockets[i], &unused, sizeof(unused), &dmabuf[i]);
	for (int i = 0; i < PROCESSES; i++) {
		message_send(sockets[i], &unused, sizeof(unused), dmabuf[!i]);
		CHECK_EQ(message_receive(sockets[i], &was[i], sizeof(was[i]), &unused),
			 sizeof(was[i]));
	}
	open_devices();
	for (int i = 0; i < PROCESSES; i++) {
		seize(pids[i]);
		stop(pids[i]);
		close(dmabuf[i]);
	}
	CHECK_EQ(host_dump_file(null, 1), -ENOTSUP);
	CHECK_EQ(host_handle_vma(null), -ENOTSUP);
	for (int i = 0; i < PROCESSES; i++)
		dump_process(pids[i], i, FDS_OF(i));
	check_written();
	CHECK_EQ(host_dump_end(pids[0]), 0);
	put_records(path);
	for (int i = 0; i < PROCESSES; i++)
		end(pids[i], SIGKILL);
}

/* --- One that shares with a render node -------------------------------------------------------- */

static uint32_t import_to_node(int dmabuf)
{
	struct drm_prime_handle a = {.fd = dmabuf};

	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_PRIME_FD_TO_HANDLE, a), &a), 0);
	return a.handle;
}

static uint32_t create_at_node(void)
{
	union drm_amdgpu_gem_create a = {.in = {BYTES, 4096, AMDGPU_GEM_DOMAIN_VRAM, 0}};

	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), 0);
	return a.out.handle;
}

static int export_from_node(uint32_t handle)
{
	struct drm_prime_handle a = {.handle = handle, .flags = O_CLOEXEC | O_RDWR};

	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_PRIME_HANDLE_TO_FD, a), &a), 0);
	return a.fd;
}

/* Beside buffers: contexts 1 and 3, and what is noted of a buffer. */
static const struct drm_amdgpu_gem_metadata note = {
	.data = {.tiling_info = 7, .data_size_bytes = 8, .data = {4711, 4712}}};

static int ask_context(uint32_t op, uint32_t id)
{
	union drm_amdgpu_ctx a = {.in = {.op = op, .ctx_id = id}};
	int r = drm(render[0], _IOWR('d', DRM_NR_AMDGPU_CTX, a), &a);

	return r < 0 || op != AMDGPU_CTX_OP_ALLOC_CTX ? r : (int)a.out.alloc.ctx_id;
}

static int ask_metadata(uint32_t op, struct drm_amdgpu_gem_metadata *a)
{
	a->op = op;
	return drm(render[0], _IOWR('d', DRM_NR_AMDGPU_GEM_METADATA, *a), a);
}

static void make_beside(uint32_t handle)
{
	struct drm_amdgpu_gem_metadata a = note;

	a.handle = handle;
	CHECK_EQ(ask_metadata(AMDGPU_GEM_METADATA_OP_SET_METADATA, &a), 0);
	for (int id = 1; id <= 4; id++)
		CHECK_EQ(ask_context(AMDGPU_CTX_OP_ALLOC_CTX, 0), id);
	CHECK_EQ(ask_context(AMDGPU_CTX_OP_FREE_CTX, 2), 0);
	CHECK_EQ(ask_context(AMDGPU_CTX_OP_FREE_CTX, 4), 0);
}

static void check_beside(uint32_t handle)
{
	struct drm_amdgpu_gem_metadata a = {.handle = handle};

	CHECK_EQ(ask_metadata(AMDGPU_GEM_METADATA_OP_GET_METADATA, &a), 0);
	CHECK(!memcmp(&a.data, &note.data, sizeof(a.data)));
	for (uint32_t id = 1; id <= 5; id++)
		CHECK_EQ(ask_context(AMDGPU_CTX_OP_QUERY_STATE2, id), id == 1 || id == 3 ? 0 : -EINVAL);
	CHECK_EQ(ask_context(AMDGPU_CTX_OP_ALLOC_CTX, 0), 2);
}

static uint64_t node_offset(uint32_t handle)
{
	union drm_amdgpu_gem_mmap a = {.in = {.handle = handle}};

	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_AMDGPU_GEM_MMAP, a), &a), 0);
	return a.out.addr_ptr;
}

/*
 * It dumps itself, for the emulator tells of a render node's handles in their own process alone. So
 * nobody holds it, and by which file it has its GPU the plugin does not find: check_new_memory.
 */
static void dump_one(const char *path)
{
	struct record *r = &was[0];
	int dmabuf;

	/* A dump without GPUs, where there was one with: nothing is left of that. */
	close(openat(host_images, "allot-kfd", O_CREAT | O_WRONLY, 0600));
	CHECK_EQ(plugin->init(CRIU_DUMP), 0);
	CHECK_EQ(faccessat(host_images, "allot-kfd", F_OK, 0), 0);
	CHECK_EQ(host_dump_end(getpid()), 0);
	CHECK_EQ(faccessat(host_images, "allot-kfd", F_OK, 0), -1);
	/* A restore without the plugin is refused where there is something for it to do. */
	CHECK_EQ(host->in_inventory, 0);
	begin_process(r);
	dmabuf = export_memory(make_buffer(r, SHARED, "shared", 0));
	r->handle = import_to_node(dmabuf);
	close(dmabuf);
	dmabuf = export_from_node(create_at_node());
	import(r, OTHERS, dmabuf);
	close(dmabuf);
	snprintf(CPU(OTHERS) + BYTES / 2, 64, "node's");
	map_as(r, OWN, render[0], node_offset(r->handle), BYTES);
	make_beside(r->handle);
	for (int i = FD_KFD; i < FD_DMABUF; i++)
		CHECK_EQ(host_dump_file(i, id_of(0, i)), 0);
	CHECK_EQ(host_dump_end(getpid()), 0);
	CHECK_EQ(host->in_inventory, 1);
	put_records(path);
}

/* --- One of which the kernel tells nothing ----------------------------------------------------- */

#define READS	AMDGPU_VM_PAGE_READABLE
#define HANDLES 3

static const struct where {
	uint32_t handle;
	struct drm_amdgpu_gem_vm_entry is;
} addresses[] = {{1, {AT(1), 8192, 4096, READS}},
		 {1, {AT(2), BYTES, 0, READS | AMDGPU_VM_PAGE_WRITEABLE}},
		 {3, {AT(2) + BYTES, 4096, BYTES - 4096, READS}}};
#define ADDRESSES (sizeof(addresses) / sizeof(addresses[0]))

static struct drm_amdgpu_gem_va va_of(uint32_t handle, uint32_t operation,
				      const struct drm_amdgpu_gem_vm_entry *at)
{
	return (struct drm_amdgpu_gem_va){.handle = handle,
					  .operation = operation,
					  .flags = (uint32_t)at->flags,
					  .va_address = at->addr,
					  .offset_in_bo = at->offset,
					  .map_size = at->size};
}

static void address(uint32_t handle, uint32_t operation, const struct drm_amdgpu_gem_vm_entry *at)
{
	struct drm_amdgpu_gem_va a = va_of(handle, operation, at);

	CHECK_EQ(drm(render[0], _IOW('d', DRM_NR_AMDGPU_GEM_VA, a), &a), 0);
}

/* What this process has noted, which it can write what it likes to. */
static struct amd_addresses *find_noted(void)
{
	const struct amd_addresses_at *at = NULL;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], access[5];
	uintptr_t from, end;

	while (!at && fgets(line, sizeof(line), maps))
		if (strstr(line, "liballot.so") &&
		    sscanf(line, "%lx-%lx %4s", &from, &end, access) == 3 && access[1] == 'w')
			for (; !at && from < end; from += 4096)
				if (*(uint64_t *)from == AMD_ADDRESSES_MAGIC_FIRST)
					at = (void *)from;
	CHECK(at && at->magic[1] == AMD_ADDRESSES_MAGIC_SECOND);
	fclose(maps);
	return (void *)(uintptr_t)at->addresses_at;
}

static int dump_from(int first)
{
	*host->said = 0;
	for (int i = first; i < FD_DMABUF; i++)
		CHECK_EQ(host_dump_file(i, id_of(0, i)), 0);
	return host_dump_end(getpid());
}

static int dump_self(void)
{
	return dump_from(FD_KFD);
}

/* As a program comes to them: over others, and with some that are gone again. */
static void make_addresses(void)
{
	struct drm_amdgpu_gem_vm_entry gone = {AT(7), BYTES, 0, READS};

	begin_process(&was[0]);
	for (uint32_t i = 1; i <= HANDLES; i++)
		CHECK_EQ(create_at_node(), i);
	address(2, AMDGPU_VA_OP_MAP, &gone);
	gone.addr = AT(8);
	address(3, AMDGPU_VA_OP_MAP, &gone);
	for (uint32_t i = 0; i < ADDRESSES; i++)
		address(addresses[i].handle, AMDGPU_VA_OP_MAP, &addresses[i].is);
	CHECK_EQ(close_handle(render[0], 2), 0);
	address(3, AMDGPU_VA_OP_UNMAP, &gone);
}

static void check_refused(int error, const char *words)
{
	CHECK_EQ(dump_self(), error);
	CHECK(strstr(host->said, words));
}

/* Less than there is, and more, also at the addresses of another one. */
static void check_lies(struct amd_addresses *noted)
{
	struct amd_address *list = (void *)(uintptr_t)noted->list_at;

	CHECK_EQ(noted->n, ADDRESSES);
	noted->n--;
	check_refused(-EEXIST, "that no tenant's process noted, and this kernel cannot");
	noted->n++;
	list[0].at = AT(6);
	check_refused(-ENOENT, "noted a buffer at 0xe00000000 of the GPU, and none is there");
	list[0].at = list[1].at;
	check_refused(-EINVAL, "another one there as well");
	list[0].at = addresses[0].is.addr;
	list[0].bytes += 4096;
	check_refused(-ENOENT, "none is there");
	list[0].bytes -= 4096;
	list[1].bytes -= 4096;
	check_refused(-EEXIST, "between 0x6001ff000 and 0x600200000 that no tenant's");
	list[1].bytes += 4096;
}

/*
 * Where the dump ends without a hook that is told, a failed one ends the program: these are tried with
 * the other plugin.
 */
static void dump_noted(const char *path)
{
	make_addresses();
	if (host_retries())
		check_lies(find_noted());
	CHECK_EQ(dump_self(), 0);
	put_records(path);
}

/* Not a tenant's: nobody has noted where its buffers are. */
static void dump_untold(void)
{
	make_addresses();
	CHECK_EQ(dump_self(), -EEXIST);
	CHECK(strstr(host->said, "kernel cannot say which"));
	CHECK_EQ(close_handle(render[0], 1), 0);
	CHECK_EQ(close_handle(render[0], 3), 0);
	CHECK_EQ(dump_self(), 0);
}

/* --- One with buffers that the CPU does not reach ---------------------------------------------- */

/* More than the engine copies at once, and no whole number of that. */
#define UNREACHED_BYTES (5 * MIB + 4096)

static uint32_t create_unreached(void)
{
	union drm_amdgpu_gem_create a = {.in = {UNREACHED_BYTES, 4096, AMDGPU_GEM_DOMAIN_VRAM,
						AMDGPU_GEM_CREATE_NO_CPU_ACCESS}};

	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), 0);
	return a.out.handle;
}

static uint32_t word_of(uint64_t i)
{
	return (uint32_t)i * 2654435761u + 1;
}

/* By a queue of the process's own, in memory that GPU and CPU reach. */
static void copy_by_queue(uint64_t to, uint64_t from)
{
	static struct queue q;

	if (!q.ring)
		make_queue(0, KFD_IOC_QUEUE_TYPE_SDMA, &q);
	put_copy(&q, to, from, UNREACHED_BYTES);
	CHECK_EQ(execute(0, &q), 0);
}

static void map_unreached(uint32_t handle, uint64_t at)
{
	struct drm_amdgpu_gem_va a = {.handle = handle,
				      .operation = AMDGPU_VA_OP_MAP,
				      .flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE,
				      .va_address = at,
				      .map_size = UNREACHED_BYTES};

	CHECK_EQ(drm(render[0], _IOW('d', DRM_NR_AMDGPU_GEM_VA, a), &a), 0);
}

/*
 * Also where nothing copies, which the machine may have been told. Its render nodes alone: for /dev/kfd
 * memory of the process would have to come back, which its queue has.
 */
static void dump_unreached(const char *path)
{
	bool copies = !getenv("ALLOT_SIM_AMD_WITHOUT");
	uint32_t *text;

	begin_process(&was[0]);
	was[0].handle = create_unreached();
	map_unreached(was[0].handle, AT(1));
	text = (uint32_t *)host_memory(UNREACHED_BYTES);
	for (uint64_t i = 0; i < UNREACHED_BYTES / 4; i++)
		text[i] = word_of(i);
	copy_by_queue(AT(1), (uintptr_t)text);
	if (copies || host_retries())
		CHECK_EQ(dump_from(FD_RENDER), copies ? 0 : -ENODEV);
	if (!copies && host_retries())
		CHECK(strstr(host->said, "buffer 1 of render node 129 cannot be read: the CPU does not "
					 "reach it, and the GPU's engine does not copy it"));
	put_records(path);
}

/* The CPU reaches a part of the GPU's memory, and nobody says which. */
static void dump_small(const char *path)
{
	bool copies = !getenv("ALLOT_SIM_AMD_WITHOUT");
	uint64_t offset;

	begin_process(&was[0]);
	make_buffer(&was[0], OWN, "own", 0);
	was[0].handle = create_at_node();
	offset = node_offset(was[0].handle);
	map_as(&was[0], SHARED, render[0], offset, BYTES);
	snprintf(CPU(SHARED) + BYTES / 2, 64, "shared of 0");
	if (copies || host_retries())
		CHECK_EQ(dump_self(), copies ? 0 : -ENODEV);
	if (!copies && host_retries())
		CHECK(strstr(host->said, "the content of its buffer 0 of GPU"));
	put_records(path);
}

/* The queue goes on, finds its doorbell, and memory where it was. */
static void check_queue_goes_on(int number)
{
	struct queue q = {.ring = ARENA,
			  .read = (uint64_t *)(ARENA + RING_BYTES),
			  .write = (uint64_t *)(ARENA + RING_BYTES + 8),
			  .doorbell = (uint64_t *)(CPU(DOORBELLS) + was[number].doorbell)};

	fence = (uint64_t *)(ARENA + RING_BYTES + 4096);
	put_fill(&q, AT(OWN), 0x66666666, 4096);
	put_fence(&q, 77);
	ring(&q);
	for (int i = 0; *(volatile uint32_t *)fence != 77; i++) {
		CHECK(i < HOST_PATIENCE);
		usleep(1000);
	}
	CHECK_EQ(*(volatile uint32_t *)CPU(OWN), 0x66666666);
}

/* --- Two with a large buffer each, on a GPU each ------------------------------------------------ */

/* Five requests of the engine, of which four are under way at once. */
#define LARGE_BYTES    (18 * MIB)
#define LARGE_REQUESTS 5

static void fill_large(int number)
{
	for (uint64_t i = 0; i < LARGE_BYTES / 4; i++)
		((uint32_t *)CPU(OWN))[i] = word_of(i + (uint64_t)number);
}

static void check_large(int number)
{
	const uint32_t *words = (const uint32_t *)CPU(OWN);

	for (uint64_t i = 0; i < LARGE_BYTES / 4; i++)
		CHECK_EQ(words[i], word_of(i + (uint64_t)number));
}

/* Its content is what it was whenever it is asked. */
static void run_large(int socket, int number)
{
	uint64_t handle, offset = 0;
	struct record r;
	uint32_t done = 0;

	begin_process(&r);
	CHECK_EQ(alloc_at(number, AT(OWN), LARGE_BYTES, FLAGS, &handle, &offset), 0);
	CHECK_EQ(map(handle, ids, 2, &done), 0); /* its queue is the first's */
	map_as(&r, OWN, render[number], offset, LARGE_BYTES);
	fill_large(number);
	make_idle_queue(&r);
	message_send(socket, &r, sizeof(r), -1);
	hear(socket);
	check_large(number);
	was[number] = r;
	check_queue_goes_on(number);
	fill_large(number);
	say(socket);
	pause();
}

static void run_large_first(int socket)
{
	run_large(socket, 0);
}

static void run_large_second(int socket)
{
	run_large(socket, 1);
}

static int dump_processes(const pid_t pids[PROCESSES])
{
	open_devices();
	for (int i = 0; i < PROCESSES; i++) {
		seize(pids[i]);
		stop(pids[i]);
	}
	for (int i = 0; i < PROCESSES; i++)
		dump_process(pids[i], i, FD_DMABUF);
	return host_dump_end(pids[0]);
}

/* Killed while it writes the content, as by SIGKILL: there is a limit to how long a file may be. */
static void dump_and_be_killed(const pid_t pids[PROCESSES])
{
	const struct rlimit limit = {6 * MIB, 6 * MIB};
	const struct rlimit no_core = {0, 0};
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		setrlimit(RLIMIT_CORE, &no_core);
		setrlimit(RLIMIT_FSIZE, &limit);
		dump_processes(pids);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
	*host->said = *host->logged = 0;
}

/* The plugin's process, which ended their pause, is gone. */
static void await_no_tracer(const pid_t pids[PROCESSES])
{
	for (int i = 0; i < PROCESSES; i++) {
		char path[64], line[128];
		int tracer = 1;

		snprintf(path, sizeof(path), "/proc/%d/status", pids[i]);
		for (int tries = 0; tracer; tries++) {
			FILE *file = fopen(path, "re");

			CHECK(file && tries < HOST_PATIENCE);
			while (fgets(line, sizeof(line), file))
				sscanf(line, "TracerPid: %d", &tracer);
			fclose(file);
			usleep(1000);
		}
	}
}

static void check_large_log(bool by_engines)
{
	char expected[256];
	const uint64_t bytes = PROCESSES * LARGE_BYTES;
	const int requests = PROCESSES * LARGE_REQUESTS;

	snprintf(expected, sizeof(expected),
		 "content of /dev/kfd: %llu bytes by GPUs' engines in %d requests, %llu by threads "
		 "of the CPU in %d, at most 4 under way of a GPU; ",
		 (unsigned long long)(by_engines ? bytes : 0), by_engines ? requests : 0,
		 (unsigned long long)(by_engines ? 0 : bytes), by_engines ? 0 : requests);
	CHECK(strstr(host->logged, expected));
}

static void dump_large(const char *path)
{
	void (*const run[PROCESSES])(int) = {run_large_first, run_large_second};
	int sockets[PROCESSES], unused;
	pid_t pids[PROCESSES];

	for (int i = 0; i < PROCESSES; i++) {
		pids[i] = start(run[i], &sockets[i]);
		CHECK_EQ(message_receive(sockets[i], &was[i], sizeof(was[i]), &unused),
			 sizeof(was[i]));
	}
	dump_and_be_killed(pids);
	for (int i = 0; i < PROCESSES; i++) {
		say(sockets[i]);
		hear(sockets[i]);
	}
	await_no_tracer(pids);
	CHECK_EQ(dump_processes(pids), 0);
	check_large_log(!getenv("ALLOT_SIM_AMD_WITHOUT"));
	put_records(path);
	for (int i = 0; i < PROCESSES; i++)
		end(pids[i], SIGKILL);
}

/* --- The second machine ------------------------------------------------------------------------ */

/* As a task of CRIU's, with the pid that it had where that is free. */
static pid_t fork_as(pid_t pid)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1};
	pid_t child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	return child < 0 ? fork() : child;
}

static void restore_maps(int number)
{
	for (int i = 0; i < MAPS; i++) {
		const struct map *m = &was[number].maps[i];
		uint64_t offset;
		char path[32] = "/dev/kfd";
		int fd;

		if (!m->bytes)
			continue;
		if (m->fd != FD_KFD)
			snprintf(path, sizeof(path), "/dev/dri/renderD%d",
				 129 + m->fd - FD_RENDER);
		CHECK_EQ(host_map(path + i % 2, (uintptr_t)CPU(i), m->offset, &offset, &fd), 1);
		CHECK(mmap(CPU(i), m->bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_FIXED | MAP_FIXED_NOREPLACE, fd,
			   (off_t)offset) == CPU(i));
		close(fd);
	}
	kfd = FD_KFD;
	for (int i = 0; i < GPUS; i++)
		render[i] = FD_RENDER + i;
	ids[0] = was[number].gpu_ids[0]; /* whatever it is called here */
}

static void restore_files(int number, const int *fds, int n)
{
	struct host_file files[FDS] = {{0}};

	for (int i = 0; i < n; i++)
		files[i] = (struct host_file){.id = id_of(number, fds[i]), .fd = fds[i]};
	host_restore_files(number, files, n);
}

static void check_text(int map, const char *text, int number)
{
	char expected[64];

	snprintf(expected, sizeof(expected), "%s of %d", text, number);
	CHECK(!strcmp(CPU(map) + BYTES / 2, expected));
}

/* The kernel gives new memory, at the handle that was free, and maps it by the file that there was. */
static void check_new_memory(uint64_t expected)
{
	uint64_t handle, offset = 0;
	void *at;

	CHECK_EQ(alloc_at(0, AT(8), 4096, FLAGS, &handle, &offset), 0);
	CHECK_EQ((uint32_t)handle, expected);
	at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, render[0], (off_t)offset);
	CHECK(at != MAP_FAILED);
	*(volatile char *)at = 1;
	munmap(at, 4096);
}

static void come_back(int socket, int number)
{
	const int fds[] = {FD_KFD, FD_RENDER, FD_RENDER + 1, FD_RENDER + 2};
	const int dmabuf_first[] = {FD_DMABUF, FD_KFD, FD_RENDER, FD_RENDER + 1, FD_RENDER + 2};
	volatile char *dmabuf;

	socket = host_move_high(socket);
	/* The second wants what the first one makes, and sleeps until it is told. */
	for (int i = 0; !number && host_retries() && !atomic_load(&host->asleep[1]); i++) {
		CHECK(i < HOST_PATIENCE);
		usleep(1000);
	}
	restore_files(number, number ? fds : dmabuf_first, number ? 4 : 5);
	restore_maps(number);
	make_arena();
	say(socket); /* CRIU has queues go on, */
	hear(socket);
	check_text(OWN, "own", number);
	check_text(SHARED, "shared", number);
	check_text(OTHERS, "shared", !number);
	CPU(SHARED)[0] = (char)('A' + number);
	say(socket); /* and both have written */
	hear(socket);
	CHECK_EQ(CPU(OTHERS)[0], 'A' + !number);
	if (!number) {
		dmabuf = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, FD_DMABUF, 0);
		CHECK(dmabuf != MAP_FAILED && dmabuf[0] == 'A' + !number);
	}
	check_new_memory(0);
	check_queue_goes_on(number);
	say(socket);
}

static void come_back_one(int socket, int number)
{
	const int fds[] = {FD_KFD, FD_RENDER, FD_RENDER + 1, FD_RENDER + 2};
	char *at;

	socket = host_move_high(socket);
	restore_files(0, fds, 4);
	restore_maps(0);
	say(socket);
	hear(socket);
	check_text(SHARED, "shared", 0);
	check_text(OWN, "shared", 0);
	check_beside(was[0].handle);
	CHECK(!strcmp(CPU(OTHERS) + BYTES / 2, "node's"));
	at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, render[0],
		  (off_t)node_offset(was[0].handle + 1));
	CHECK(at != MAP_FAILED && !strcmp(at + BYTES / 2, "node's"));
	CPU(SHARED)[0] = 'K';
	CPU(OTHERS)[0] = 'N';
	CHECK(CPU(OWN)[0] == 'K' && at[0] == 'N');
	say(socket);
	hear(socket);
	say(socket);
}

static void come_back_noted(int socket, int number)
{
	const int fds[] = {FD_KFD, FD_RENDER, FD_RENDER + 1, FD_RENDER + 2};
	uint32_t seen = 0;

	socket = host_move_high(socket);
	restore_files(0, fds, 4);
	restore_maps(0);
	for (uint32_t handle = 1; handle <= HANDLES; handle++) {
		struct drm_amdgpu_gem_vm_entry list[ADDRESSES];
		struct drm_amdgpu_gem_op a = {.handle = handle, .op = AMDGPU_GEM_OP_GET_MAPPING_INFO,
					      .value = (uintptr_t)list, .num_entries = ADDRESSES};
		int r = drm(render[0], _IOWR('d', DRM_NR_AMDGPU_GEM_OP, a), &a);

		CHECK_EQ(r, handle == 2 ? -ENOENT : 0);
		for (uint32_t i = 0; r == 0 && i < a.num_entries; i++, seen++)
			CHECK(addresses[seen].handle == handle &&
			      !memcmp(&list[i], &addresses[seen].is, sizeof(list[i])));
	}
	CHECK_EQ(seen, ADDRESSES);
	say(socket);
	for (int step = 0; step < 2; step++) {
		hear(socket);
		say(socket);
	}
}

/* Its queue is a new one, and finds the buffer at a new address. */
static void check_unreached(void)
{
	uint32_t *text;

	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	memcpy(ids, was[0].gpu_ids, sizeof(ids));
	acquire_devices();
	map_unreached(was[0].handle, AT(9));
	text = (uint32_t *)host_memory(UNREACHED_BYTES);
	copy_by_queue((uintptr_t)text, AT(9));
	for (uint64_t i = 0; i < UNREACHED_BYTES / 4; i++)
		CHECK_EQ(text[i], word_of(i));
}

static void come_back_unreached(int socket, int number)
{
	const int fds[] = {FD_RENDER, FD_RENDER + 1, FD_RENDER + 2};
	union drm_amdgpu_gem_mmap a = {.in = {.handle = was[0].handle}};

	socket = host_move_high(socket);
	restore_files(0, fds, 3);
	restore_maps(0);
	say(socket);
	hear(socket);
	/* It is not to be reached again, and has what it had. */
	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_AMDGPU_GEM_MMAP, a), &a), -EPERM);
	check_unreached();
	say(socket);
	hear(socket);
	say(socket);
}

static void come_back_small(int socket, int number)
{
	const int fds[] = {FD_KFD, FD_RENDER, FD_RENDER + 1, FD_RENDER + 2};

	socket = host_move_high(socket);
	restore_files(0, fds, 4);
	restore_maps(0);
	say(socket);
	for (int step = 0; step < 2; step++) {
		hear(socket);
		check_text(OWN, "own", 0);
		check_text(SHARED, "shared", 0);
		say(socket);
	}
}

static void come_back_large(int socket, int number)
{
	const int fds[] = {FD_KFD, FD_RENDER, FD_RENDER + 1, FD_RENDER + 2};

	socket = host_move_high(socket);
	restore_files(number, fds, 4);
	restore_maps(number);
	make_arena();
	say(socket);
	for (int step = 0; step < 2; step++) {
		hear(socket);
		check_large(number);
		say(socket);
	}
}

static void restore_all(const char *path, int n, void (*run)(int socket, int number))
{
	int pair[2], sockets[PROCESSES];
	pid_t pids[PROCESSES];

	get_records(path);
	host->in_inventory = 1;
	CHECK_EQ(plugin->init(CRIU_RESTORE), 0);
	CHECK_EQ(host->in_inventory, 0);
	for (int i = n - 1; i >= 0; i--) {
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		pids[i] = fork_as(was[i].pid);
		CHECK(pids[i] >= 0);
		if (!pids[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(pair[0]);
			run(pair[1], i);
			_exit(0);
		}
		close(pair[1]);
		sockets[i] = host_move_high(pair[0]);
	}
	for (int i = 0; i < n; i++)
		hear(sockets[i]);
	for (int i = 0; i < n; i++)
		CHECK_EQ(host_resume(pids[i]), run == come_back_unreached ? -ENOTSUP : 0);
	CHECK_EQ(host_resume(host_keeper), -ENOTSUP);
	for (int step = 0; step < 2; step++) {
		for (int i = 0; i < n; i++)
			say(sockets[i]);
		for (int i = 0; i < n; i++)
			hear(sockets[i]);
	}
	for (int i = 0; i < n; i++)
		end(pids[i], 0);
	CHECK(!*host->said);
}

/* GPUs have less memory here, which is refused unless somebody says that it will do. */
static void restore_smaller(const char *path)
{
	CHECK_EQ(plugin->init(CRIU_RESTORE), -ENODEV);
	CHECK(strstr(host->said, "vram_bytes was 67108864 there, and is 33554432"));
	setenv("ALLOT_AMDGPU_RELAX", "caches,memroy", 1);
	CHECK_EQ(plugin->init(CRIU_RESTORE), -EINVAL);
	CHECK(strstr(host->said, "memroy is none of"));
	setenv("ALLOT_AMDGPU_RELAX", "caches,memory", 1);
	*host->said = 0;
	restore_all(path, PROCESSES, come_back);
}

/*
 * What CRIU's own plugin has written, of each version, is refused by name, when it is asked for.
 * Files of an earlier dump in the folder are no matter.
 */
static void restore_upstreams(void)
{
	static const struct {
		const char *name;
		int id;
	} files[] = {
		{"amdgpu-kfd-7.img", 7}, {"amdgpu-renderD-12.img", 12}, {"amdgpu-dmabuf_3.img", 3}};
	bool retry;

	for (int i = 0; i < 3; i++) {
		close(openat(host_images, files[i].name, O_CREAT | O_WRONLY, 0600));
		*host->said = 0;
		CHECK_EQ(plugin->init(CRIU_RESTORE), 0);
		CHECK_EQ(host_restore_file(files[i].id + 1, &retry), -ENOTSUP);
		CHECK(!*host->said);
		CHECK_EQ(host_restore_file(files[i].id, &retry), -ENOTSUP);
		CHECK(strstr(host->said, files[i].name) &&
		      strstr(host->said, "restore it with amdgpu_plugin.so"));
		CHECK_EQ(unlinkat(host_images, files[i].name, 0), 0);
	}
}

/* --- Both -------------------------------------------------------------------------------------- */

static void remove_all(const char *path)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -r %s", path);
	CHECK_EQ(system(command), 0);
}

int main(int argc, char *argv[])
{
	char two[] = "/tmp/allot-criu-plugin-XXXXXX", one[] = "/tmp/allot-criu-plugin-XXXXXX";
	char noted[] = "/tmp/allot-criu-plugin-XXXXXX", small[] = "/tmp/allot-criu-plugin-XXXXXX";
	char unreached[] = "/tmp/allot-criu-plugin-XXXXXX", large[] = "/tmp/allot-criu-plugin-XXXXXX";

	if (argc == 4) {
		host_start(argv[3], argv[2]);
		if (!strcmp(argv[1], "dump"))
			dump_two(argv[2]);
		else if (!strcmp(argv[1], "dump-one"))
			dump_one(argv[2]);
		else if (!strcmp(argv[1], "dump-noted"))
			dump_noted(argv[2]);
		else if (!strcmp(argv[1], "dump-untold") && host_retries())
			dump_untold();
		else if (!strcmp(argv[1], "dump-unreached"))
			dump_unreached(argv[2]);
		else if (!strcmp(argv[1], "dump-small"))
			dump_small(argv[2]);
		else if (!strcmp(argv[1], "restore-unreached"))
			restore_all(argv[2], 1, come_back_unreached);
		else if (!strcmp(argv[1], "dump-large"))
			dump_large(argv[2]);
		else if (!strcmp(argv[1], "restore-large"))
			restore_all(argv[2], PROCESSES, come_back_large);
		else if (!strcmp(argv[1], "restore-small"))
			restore_all(argv[2], 1, come_back_small);
		else if (!strcmp(argv[1], "restore-noted"))
			restore_all(argv[2], 1, come_back_noted);
		else if (!strcmp(argv[1], "restore"))
			restore_all(argv[2], PROCESSES, come_back);
		else if (!strcmp(argv[1], "restore-one"))
			restore_all(argv[2], 1, come_back_one);
		else if (!strcmp(argv[1], "restore-upstreams"))
			restore_upstreams();
		else if (!strcmp(argv[1], "smaller"))
			restore_smaller(argv[2]);
		return 0;
	}
	CHECK(argc == 5 && mkdtemp(two) && mkdtemp(one) && mkdtemp(noted) &&
	      mkdtemp(small) && mkdtemp(unreached) && mkdtemp(large));
	run_in_machine(argv, argv[3], "64MiB", "restore-upstreams", two, argv[2]);
	run_in_machine(argv, argv[3], "64MiB", "dump", two, argv[2]);
	run_in_machine(argv, argv[3], "64MiB", "restore", two, argv[2]);
	run_in_machine(argv, argv[4], "64MiB", "restore", two, argv[2]);
	run_in_machine(argv, argv[3], "32MiB", "smaller", two, argv[2]);
	run_in_machine(argv, argv[3], "64MiB", "dump-one", one, argv[2]);
	run_in_machine(argv, argv[3], "64MiB", "restore-one", one, argv[2]);
	run_in_machine(argv, argv[4], "64MiB", "restore-one", one, argv[2]);
	setenv("ALLOT_SIM_AMD_WITHOUT", "AMDGPU_GEM_LIST_HANDLES", 1);
	run_in_machine(argv, argv[3], "64MiB", "dump-untold", noted, argv[2]);
	run_in_machine_as(true, argv, argv[3], "64MiB", "dump-noted", noted, argv[2]);
	unsetenv("ALLOT_SIM_AMD_WITHOUT");
	run_in_machine(argv, argv[3], "64MiB", "restore-noted", noted, argv[2]);
	run_in_machine(argv, argv[3], "64MiB", "dump-unreached", unreached, argv[2]);
	run_in_machine(argv, argv[3], "64MiB", "restore-unreached", unreached, argv[2]);
	for (int by_cpu = 0; by_cpu < 2; by_cpu++) {
		if (by_cpu)
			setenv("ALLOT_SIM_AMD_WITHOUT", "AMDGPU_CS", 1);
		run_in_machine(argv, argv[3], "64MiB", "dump-large", large, argv[2]);
		run_in_machine(argv, argv[3], "64MiB", "restore-large", large, argv[2]);
		unsetenv("ALLOT_SIM_AMD_WITHOUT");
	}
	setenv("ALLOT_SIM_AMD_BAR", "16MiB", 1);
	run_in_machine(argv, argv[3], "64MiB", "dump-small", small, argv[2]);
	run_in_machine(argv, argv[4], "64MiB", "restore-small", small, argv[2]);
	setenv("ALLOT_SIM_AMD_WITHOUT", "AMDGPU_CS", 1);
	run_in_machine(argv, argv[3], "64MiB", "dump-unreached", one, argv[2]);
	run_in_machine(argv, argv[3], "64MiB", "dump-small", one, argv[2]);
	remove_all(two);
	remove_all(one);
	remove_all(unreached);
	remove_all(large);
	remove_all(small);
	remove_all(noted);
	return 0;
}
