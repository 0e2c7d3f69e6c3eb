/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with memory of emulated AMD GPUs, for swap_amd.py: it fills what it holds, says "ready",
 * does something or nothing until it reads a line, and then looks at each word, at which GPUs reach
 * it, and at its handles. Run by `allot sim --amd 3` with links 1 <-> 2 and 2 -> 3. With "used" it
 * says what of each GPU is taken, by the emulator's own count.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/un.h>

/*
 * What is put into a queue is done when the tenant is there, and others may have their turns
 * before.
 */
#define WAIT_MS 300000

#include "sim/kfd/bank.h"
#include "tests/e2e/swap/rest.h"
#include "tests/sim/kfd_queue.h"

#define STAGE	 MIB
#define BUFFERS	 12
#define WRITABLE KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE

struct buffer {
	uint64_t handle, va, size, offset;
	uint32_t seed;
	int gpu;
	uint32_t mapped; /* GPUs, a bit each */
};

static struct queue queue[GPUS];
static uint32_t *stage;
static struct buffer buffers[BUFFERS];

static uint32_t word_of(uint32_t seed, uint64_t i)
{
	return (seed * 2654435761u) ^ (uint32_t)(i * 40503u + seed);
}

static void make(struct buffer *b, int n, int gpu, uint64_t size)
{
	*b = (struct buffer){.va = (UINT64_C(1) << 33) + (uint64_t)n * (64 * MIB),
			     .size = size,
			     .gpu = gpu};
	CHECK_EQ(alloc_at(gpu, b->va, size, VRAM | WRITABLE, &b->handle, &b->offset), 0);
}

static void set_mapped(struct buffer *b, uint32_t mapped)
{
	for (int i = 0; i < GPUS; i++) {
		uint32_t bit = 1u << i, done = 0;

		if ((mapped & ~b->mapped) & bit)
			CHECK_EQ(map(b->handle, &ids[i], 1, &done), 0);
		if ((b->mapped & ~mapped) & bit)
			CHECK_EQ(unmap(b->handle, &ids[i], 1), 0);
	}
	b->mapped = mapped;
}

/* Also while its own GPU does not map it. */
static void fill(struct buffer *b, uint32_t seed)
{
	uint32_t before = b->mapped;

	set_mapped(b, before | 1u << b->gpu);
	b->seed = seed;
	for (uint64_t at = 0; at < b->size; at += STAGE) {
		uint64_t n = b->size - at < STAGE ? b->size - at : STAGE;

		for (uint64_t i = 0; i < n / 4; i++)
			stage[i] = word_of(seed, at / 4 + i);
		put_copy(&queue[b->gpu], b->va + at, (uintptr_t)stage, (uint32_t)n);
		CHECK_EQ(execute(b->gpu, &queue[b->gpu]), 0);
	}
	set_mapped(b, before);
}

static void look(struct buffer *b)
{
	uint32_t before = b->mapped;

	set_mapped(b, before | 1u << b->gpu);
	for (uint64_t at = 0; at < b->size; at += STAGE) {
		uint64_t n = b->size - at < STAGE ? b->size - at : STAGE;

		memset(stage, 0x5a, n);
		put_copy(&queue[b->gpu], (uintptr_t)stage, b->va + at, (uint32_t)n);
		CHECK_EQ(execute(b->gpu, &queue[b->gpu]), 0);
		for (uint64_t i = 0; i < n / 4; i++)
			CHECK_EQ(stage[i], word_of(b->seed, at / 4 + i));
	}
	set_mapped(b, before);
}

/* Each GPU reaches what it has mapped, and nothing else. */
static void look_who_reaches(const struct buffer *b)
{
	for (int i = 0; i < GPUS; i++) {
		put_copy(&queue[i], (uintptr_t)stage, b->va, 4);
		CHECK_EQ(!execute(i, &queue[i]), b->mapped >> i & 1);
	}
}

static void begin(void)
{
	open_devices();
	acquire_devices();
	stage = host_memory(STAGE);
	for (int i = 0; i < GPUS; i++)
		make_queue(i, KFD_IOC_QUEUE_TYPE_SDMA, &queue[i]);
}

static void ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

static bool is_told(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};

	return poll(&in, 1, 0) > 0;
}

/* --- Programs ------------------------------------------------------------------------------- */

static void hold_still(void)
{
	/* GPU 1 is reached from 2, GPU 2 from 1, and GPU 3 from 2. */
	static const struct {
		int gpu;
		uint64_t size;
		uint32_t mapped;
	} has[] = {{0, 2 * MIB, 1},	 {0, 4096, 3},	     {1, 5 * MIB, 2}, {1, 12288, 3},
		   {0, 3 * MIB, 0},	 {2, MIB, 4},	     {2, 8192, 6},    {1, 65536, 0},
		   {0, 7 * MIB + 4096, 1}, {2, 4 * MIB, 4}, {0, 4096, 1},    {1, 2 * MIB, 2}};

	for (int i = 0; i < BUFFERS; i++) {
		make(&buffers[i], i, has[i].gpu, has[i].size);
		set_mapped(&buffers[i], has[i].mapped);
		fill(&buffers[i], (uint32_t)i + 1);
	}
	/* Numbers that nobody has, between those that come back. */
	for (int i = 0; i < BUFFERS; i += 5) {
		set_mapped(&buffers[i], 0);
		CHECK_EQ(free_memory(buffers[i].handle), 0);
		buffers[i].size = 0;
	}
}

/* The numbers that nobody has are free, and no others. */
static void look_at_handles(void)
{
	for (int i = 0; i < BUFFERS; i += 5) {
		uint64_t handle;

		CHECK_EQ(alloc_vram(buffers[i].gpu, 4096, &handle), 0);
		CHECK_EQ(handle, buffers[i].handle);
	}
}

static void look_at_all(void)
{
	look_at_handles();
	for (int i = 0; i < BUFFERS; i++) {
		if (!buffers[i].size)
			continue;
		look(&buffers[i]);
		look_who_reaches(&buffers[i]);
	}
}

/* Round after round of all that a program does with memory, with copies under way at all times. */
static void churn_once(unsigned int *seed, uint32_t *fills)
{
	struct buffer *b = &buffers[rand_r(seed) % BUFFERS], *from = &buffers[rand_r(seed) % BUFFERS];

	switch (rand_r(seed) % 6) {
	case 0:
		fill(b, ++*fills);
		break;
	case 1:
		set_mapped(b, 0);
		CHECK_EQ(free_memory(b->handle), 0);
		make(b, (int)(b - buffers), rand_r(seed) % 2, 4096u << rand_r(seed) % 10);
		set_mapped(b, 1u << b->gpu);
		fill(b, ++*fills);
		break;
	case 2:
		set_mapped(b, (uint32_t)rand_r(seed) % 4);
		break;
	case 3:
		if (from->size < b->size || from->gpu != b->gpu)
			break;
		set_mapped(b, b->mapped | 1u << b->gpu);
		set_mapped(from, from->mapped | 1u << b->gpu);
		for (int i = 0; i < 40; i++)
			put_copy(&queue[b->gpu], b->va, from->va, (uint32_t)b->size);
		CHECK_EQ(execute(b->gpu, &queue[b->gpu]), 0);
		b->seed = from->seed;
		break;
	default:
		look(b);
	}
}

static void churn(unsigned int seed)
{
	uint32_t fills = 0, rounds = 0;

	for (int i = 0; i < BUFFERS; i++) {
		make(&buffers[i], i, i % 2, 4096u << i % 10);
		set_mapped(&buffers[i], 1u << buffers[i].gpu);
		fill(&buffers[i], ++fills);
	}
	ready();
	for (; !is_told() || rounds < 100; rounds++)
		churn_once(&seed, &fills);
	for (int i = 0; i < BUFFERS; i++)
		look(&buffers[i]);
}

/* --- Memory that the CPU has mapped --------------------------------------------------------- */

#define VIEW_BYTES (UINT64_C(8) << 20)
#define WRITERS	   3
#define STRIDE	   (2 * MIB / 8) /* words between writers: of their own pages */

static volatile uint64_t *view;
static atomic_bool ending;
static atomic_ulong written[WRITERS];

static void *keep_writing(void *arg)
{
	uint64_t n = (uintptr_t)arg, value = 0;
	volatile uint64_t *at = view + n * STRIDE;

	while (!atomic_load(&ending)) {
		for (int i = 0; i < 64; i++) {
			CHECK_EQ(at[i * 512], value);
			at[i * 512] = value + 1;
		}
		atomic_store(&written[n], ++value);
		if (n) /* one of them never rests */
			nap_ns(50 * NS_PER_US);
	}
	return NULL;
}

static void write_all_the_time(void)
{
	pthread_t thread[WRITERS];
	struct buffer hidden;
	void *p;

	make(&buffers[0], 0, 0, VIEW_BYTES);
	set_mapped(&buffers[0], 1);
	fill(&buffers[0], 7);
	p = mmap(NULL, VIEW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, render[0],
		 (off_t)buffers[0].offset);
	CHECK(p != MAP_FAILED);
	view = p;
	memset(p, 0, WRITERS * STRIDE * 8);
	/* As ROCm's library has all memory: mapped for no access. */
	make(&hidden, 1, 1, MIB);
	p = mmap(NULL, MIB, PROT_NONE, MAP_SHARED, render[1], (off_t)hidden.offset);
	CHECK(p != MAP_FAILED);
	for (uintptr_t i = 0; i < WRITERS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, keep_writing, (void *)i), 0);
	ready();
	while (!is_told())
		usleep(1000);
	for (int i = 0; i < WRITERS; i++) {
		unsigned long before = atomic_load(&written[i]);

		while (atomic_load(&written[i]) == before)
			usleep(1000);
	}
	atomic_store(&ending, true);
	for (int i = 0; i < WRITERS; i++) {
		pthread_join(thread[i], NULL);
		/* What the CPU has written is what the GPU has. */
		put_copy(&queue[0], (uintptr_t)stage, buffers[0].va + (uint64_t)i * STRIDE * 8, 4096);
		CHECK_EQ(execute(0, &queue[0]), 0);
		CHECK_EQ(*(uint64_t *)stage, atomic_load(&written[i]));
	}
	/* Behind the writers it is as it was filled, for both. */
	for (uint64_t i = WRITERS * STRIDE * 2; i < VIEW_BYTES / 4; i++)
		CHECK_EQ(((volatile uint32_t *)view)[i], word_of(7, i));
	CHECK_EQ(mprotect(p, MIB, PROT_READ | PROT_WRITE), 0);
	fill(&hidden, 9);
	for (uint64_t i = 0; i < MIB / 4; i++)
		CHECK_EQ(((volatile uint32_t *)p)[i], word_of(9, i));
}

/* It unmaps, protects and moves what it has mapped while that is away. */
static void change_views(void)
{
	char *p;

	make(&buffers[0], 0, 0, VIEW_BYTES);
	set_mapped(&buffers[0], 1);
	fill(&buffers[0], 3);
	p = mmap(NULL, VIEW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, render[0],
		 (off_t)buffers[0].offset);
	CHECK(p != MAP_FAILED);
	ready();
	while (!is_told())
		usleep(1000);
	getchar();
	CHECK_EQ(munmap(p + MIB, MIB), 0);
	CHECK_EQ(mprotect(p + 4 * MIB, MIB, PROT_READ), 0);
	CHECK(mmap(p + MIB, 4096, PROT_READ | PROT_WRITE,
		   MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == p + MIB);
	strcpy(p + MIB, "mine");
	printf("changed\n");
	fflush(stdout);
	while (!is_told())
		usleep(1000);
	CHECK(!strcmp(p + MIB, "mine"));
	for (uint64_t i = 0; i < VIEW_BYTES / 4; i++)
		if (i < MIB / 4 || i >= 2 * MIB / 4)
			CHECK_EQ(((volatile uint32_t *)p)[i], word_of(3, i));
	p[0] = 1;
}

/* --- Memory by handles of render nodes ------------------------------------------------------ */

/* Of each file six, of which two are given back: numbers between those that come back. */
#define NODE_BUFFERS 6
#define NODE_BYTES   (3 * MIB)
#define NODE_VA(i)   ((UINT64_C(1) << 34) + (uint64_t)(i) * (16 * MIB))

static uint32_t node_make(int file, uint64_t size)
{
	union drm_amdgpu_gem_create a = {
		.in = {.bo_size = size, .alignment = 4096, .domains = AMDGPU_GEM_DOMAIN_VRAM}};

	CHECK_EQ(drm(file, _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), 0);
	return a.out.handle;
}

static uint32_t *node_view(int file, uint32_t handle, void *where)
{
	union drm_amdgpu_gem_mmap a = {.in = {.handle = handle}};
	void *p;

	CHECK_EQ(drm(file, _IOWR('d', DRM_NR_AMDGPU_GEM_MMAP, a), &a), 0);
	p = mmap(where, NODE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
		 (off_t)a.out.addr_ptr);
	CHECK(p == where);
	return p;
}

static void node_map(int file, uint32_t handle, uint64_t va, uint64_t from, uint64_t size)
{
	struct drm_amdgpu_gem_va a = {.handle = handle,
				      .operation = AMDGPU_VA_OP_MAP,
				      .flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE,
				      .va_address = va,
				      .offset_in_bo = from,
				      .map_size = size};

	CHECK_EQ(drm(file, _IOW('d', DRM_NR_AMDGPU_GEM_VA, a), &a), 0);
}

static void node_metadata(int file, uint32_t handle, uint32_t op, uint32_t *word)
{
	struct drm_amdgpu_gem_metadata a = {.handle = handle, .op = op};

	a.data.data_size_bytes = 4;
	a.data.data[0] = *word;
	CHECK_EQ(drm(file, _IOWR('d', DRM_NR_AMDGPU_GEM_METADATA, a), &a), 0);
	*word = a.data.data[0];
}

static void look_at_view(const volatile uint32_t *view_of, uint32_t seed)
{
	for (uint64_t i = 0; i < NODE_BYTES / 4; i++)
		CHECK_EQ(view_of[i], word_of(seed, i));
}

/*
 * The file that is the GPU's address space, and another one, which gives the same numbers. What is
 * mapped for the CPU lies side by side: what stands in for it meanwhile may be one mapping.
 */
static void hold_nodes(void)
{
	int other = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC), file[2] = {render[0], other};
	uint32_t handle[2][NODE_BUFFERS], *views[2][NODE_BUFFERS], word;
	char *where = mmap(NULL, 2 * NODE_BUFFERS * NODE_BYTES, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(other >= 0 && where != MAP_FAILED);
	for (int f = 0; f < 2; f++)
		for (int i = 0; i < NODE_BUFFERS; i++) {
			handle[f][i] = node_make(file[f], NODE_BYTES);
			CHECK_EQ(handle[f][i], (uint32_t)i + 1);
			views[f][i] = node_view(file[f], handle[f][i], where);
			where += NODE_BYTES;
			for (uint64_t w = 0; w < NODE_BYTES / 4; w++)
				views[f][i][w] = word_of((uint32_t)(10 * f + i), w);
		}
	for (int f = 0; f < 2; f++)
		for (int i = f; i < 4; i += 2) {
			CHECK_EQ(munmap(views[f][i], NODE_BYTES), 0);
			CHECK_EQ(close_handle(file[f], handle[f][i]), 0);
			handle[f][i] = 0;
		}
	/* One as a whole, one in part and with other memory between, one not for the CPU. */
	node_map(render[0], handle[0][1], NODE_VA(1), 0, NODE_BYTES);
	node_map(render[0], handle[0][3], NODE_VA(3), MIB, MIB);
	node_map(render[0], handle[0][3], NODE_VA(3) + 4 * MIB, 0, 4096);
	node_map(render[0], handle[0][5], NODE_VA(5), 0, NODE_BYTES);
	CHECK_EQ(munmap(views[0][5], NODE_BYTES), 0);
	word = 4711;
	node_metadata(render[0], handle[0][3], AMDGPU_GEM_METADATA_OP_SET_METADATA, &word);
	ready();
	getchar();
	for (int f = 0; f < 2; f++)
		for (int i = 0; i < NODE_BUFFERS; i++)
			if (handle[f][i] && !(f == 0 && i == 5))
				look_at_view(views[f][i], (uint32_t)(10 * f + i));
	word = 0;
	node_metadata(render[0], handle[0][3], AMDGPU_GEM_METADATA_OP_GET_METADATA, &word);
	CHECK_EQ(word, 4711);
	buffers[0] = (struct buffer){.va = NODE_VA(1), .size = NODE_BYTES, .seed = 1, .mapped = 1};
	look(&buffers[0]);
	buffers[0] = (struct buffer){.va = NODE_VA(5), .size = NODE_BYTES, .seed = 5, .mapped = 1};
	look(&buffers[0]);
	put_copy(&queue[0], (uintptr_t)stage, NODE_VA(3), 4096);
	put_copy(&queue[0], (uintptr_t)stage + 4096, NODE_VA(3) + 4 * MIB, 4096);
	CHECK_EQ(execute(0, &queue[0]), 0);
	for (uint64_t i = 0; i < 1024; i++) {
		CHECK_EQ(stage[i], word_of(3, MIB / 4 + i));
		CHECK_EQ(stage[1024 + i], word_of(3, i));
	}
	/* A write of the GPU's is what the CPU sees, and the numbers that nobody has are free. */
	stage[0] = 815;
	put_copy(&queue[0], NODE_VA(1), (uintptr_t)stage, 4);
	CHECK_EQ(execute(0, &queue[0]), 0);
	CHECK_EQ(*(volatile uint32_t *)views[0][1], 815);
	for (int f = 0; f < 2; f++)
		for (int i = f; i < 4; i += 2)
			CHECK_EQ(node_make(file[f], 4096), (uint32_t)i + 1);
}

/* --- What processes share ------------------------------------------------------------------- */

#define SHARED_BYTES NODE_BYTES

static struct buffer lent;    /* by /dev/kfd */
static uint32_t *lent_view;   /* of memory by a node's handle */
static uint32_t *second_view; /* of `lent`, by such a handle */

static int export(uint64_t handle)
{
	struct kfd_ioctl_export_dmabuf_args a = {.handle = handle, .flags = O_CLOEXEC};

	CHECK_EQ(call(KFD_IOWR(EXPORT_DMABUF, a), &a), 0);
	return (int)a.dmabuf_fd;
}

static int export_node(uint32_t handle)
{
	struct drm_prime_handle a = {.handle = handle, .flags = O_CLOEXEC | O_RDWR};

	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_PRIME_HANDLE_TO_FD, a), &a), 0);
	return a.fd;
}

static uint32_t import_node(int fd)
{
	struct drm_prime_handle a = {.fd = fd};

	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_PRIME_FD_TO_HANDLE, a), &a), 0);
	return a.handle;
}

static void import(int fd, struct buffer *b)
{
	struct kfd_ioctl_get_dmabuf_info_args info = {.dmabuf_fd = (uint32_t)fd};
	struct kfd_ioctl_import_dmabuf_args a = {
		.va_addr = b->va, .gpu_id = ids[0], .dmabuf_fd = (uint32_t)fd};

	CHECK_EQ(call(KFD_IOWR(GET_DMABUF_INFO, info), &info), 0);
	CHECK_EQ(info.size, SHARED_BYTES);
	CHECK_EQ(info.gpu_id, ids[0]);
	CHECK_EQ(lseek(fd, 0, SEEK_END), (off_t)SHARED_BYTES);
	CHECK_EQ(call(KFD_IOWR(IMPORT_DMABUF, a), &a), 0);
	b->handle = a.handle;
	b->size = info.size;
}

static uint32_t *view_of(uint32_t handle)
{
	return node_view(render[0], handle,
			 mmap(NULL, NODE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void fill_lent(uint32_t seed)
{
	fill(&lent, seed);
	for (uint64_t i = 0; i < NODE_BYTES / 4; i++)
		lent_view[i] = word_of(seed + 1, i);
}

static void look_at_lent(uint32_t seed)
{
	lent.seed = seed;
	look(&lent);
	look_at_view(lent_view, seed + 1);
	if (second_view)
		look_at_view(second_view, seed);
	look(&buffers[1]);
	look(&buffers[2]);
}

static void lend_to(int listener, int fd, int node)
{
	int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	CHECK(peer >= 0);
	CHECK_EQ(message_send(peer, "", 1, fd), 1);
	CHECK_EQ(message_send(peer, "", 1, node), 1);
	close(peer);
}

/* Does as it is told, and gives others what it lends; `fd`: -1, as they do. */
static void share(int listener, int fd, int node)
{
	struct pollfd events[] = {{.fd = 0, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
	char line[32];

	for (;;) {
		CHECK(poll(events, 2, -1) > 0);
		if (events[1].revents)
			lend_to(listener, fd, node);
		if (!events[0].revents)
			continue;
		if (!fgets(line, sizeof(line), stdin) || *line == 'q')
			return;
		if (*line == 'f')
			fill_lent((uint32_t)atoi(line + 1));
		else if (*line == 'l')
			look_at_lent((uint32_t)atoi(line + 1));
		else if (*line == 'g')
			CHECK_EQ(free_memory(lent.handle), 0);
		printf("done\n");
		fflush(stdout);
	}
}

static struct sockaddr_un address_of(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	return address;
}

/* Memory of its own, around what is shared, and numbers that nobody has. */
static void hold_around(void (*hold_shared)(void *arg), void *arg)
{
	for (int i = 0; i < 2; i++)
		make(&buffers[i], i, 0, MIB);
	hold_shared(arg);
	make(&buffers[2], 2, 0, 2 * MIB);
	CHECK_EQ(free_memory(buffers[0].handle), 0);
	for (int i = 1; i < 3; i++) {
		set_mapped(&buffers[i], 1);
		fill(&buffers[i], (uint32_t)getpid() + (uint32_t)i);
	}
}

static void hold_lent(void *arg)
{
	make(&lent, 3, 0, SHARED_BYTES);
	set_mapped(&lent, 1);
}

static void lend(const char *path)
{
	struct sockaddr_un address = address_of(path);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint32_t node = node_make(render[0], NODE_BYTES);
	int fd;

	hold_around(hold_lent, NULL);
	lent_view = view_of(node);
	fd = export(lent.handle);
	/* Its own, by another handle. */
	second_view = view_of(import_node(fd));
	fill_lent(1);
	CHECK_EQ(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(listen(listener, 4), 0);
	ready();
	share(listener, fd, export_node(node));
}

struct borrowed {
	int fd, node;
};

static void hold_borrowed(void *arg)
{
	const struct borrowed *borrowed = arg;

	lent = (struct buffer){.va = (UINT64_C(1) << 33) + UINT64_C(3) * 64 * MIB};
	import(borrowed->fd, &lent);
	set_mapped(&lent, 1);
	lent_view = view_of(import_node(borrowed->node));
	second_view = view_of(import_node(borrowed->fd));
}

static void borrow(const char *path)
{
	struct sockaddr_un address = address_of(path);
	int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct borrowed borrowed;

	CHECK_EQ(connect(peer, (struct sockaddr *)&address, sizeof(address)), 0);
	borrowed.fd = receive_fd(peer);
	borrowed.node = receive_fd(peer);
	hold_around(hold_borrowed, &borrowed);
	close(borrowed.fd);
	close(borrowed.node);
	close(peer);
	ready();
	share(-1, -1, -1);
}

/* --- Turns ---------------------------------------------------------------------------------- */

#define SERVED	   64
#define PIECE_MOST (4 * MIB)

static struct buffer served[SERVED];
static int nserved;

/* So many bytes more, in buffers of unequal sizes. Whether there were so many. */
static bool hold_more(uint64_t bytes)
{
	for (uint64_t size; bytes; bytes -= size) {
		struct buffer *b = &served[nserved];

		CHECK(nserved < SERVED);
		size = bytes < PIECE_MOST ? bytes : MIB + (uint64_t)nserved % 3 * MIB;
		*b = (struct buffer){.va = (UINT64_C(1) << 33) + (uint64_t)nserved * (64 * MIB),
				     .size = size};
		if (alloc_at(0, b->va, size, VRAM | WRITABLE, &b->handle, &b->offset) < 0)
			return false;
		nserved++;
		set_mapped(b, 1);
		fill(b, (uint32_t)nserved);
	}
	return true;
}

/*
 * Every word is what it was, and another one from here on. No call is made that waits for memory.
 */
static void work_on_all(uint32_t *seed)
{
	uint64_t rested = now_ns(CLOCK_PROCESS_CPUTIME_ID);

	for (int i = 0; i < nserved; i++) {
		look(&served[i]);
		rest(&rested);
	}
	for (int i = 0; i < nserved; i++) {
		fill(&served[i], ++*seed);
		rest(&rested);
	}
}

static void compute(uint64_t bytes, uint32_t seed)
{
	CHECK(hold_more(bytes));
	ready();
	do
		work_on_all(&seed);
	while (!is_told());
}

static void say_of(bool good)
{
	printf(good ? "served\n" : "refused\n");
	fflush(stdout);
}

/* Works when it is told to, and has so many MiB more where it reads a number. */
static void serve(uint64_t bytes, uint32_t seed)
{
	char line[32];

	CHECK(hold_more(bytes));
	ready();
	while (fgets(line, sizeof(line), stdin) && *line != 'q') {
		bool more = hold_more(strtoull(line, NULL, 10) * MIB);

		work_on_all(&seed);
		say_of(more);
	}
}

/* Of the processor alone: each line has it count on in what it has mapped, and makes no call. */
static void touch(uint64_t bytes)
{
	volatile uint64_t *at;
	char line[32];

	CHECK(hold_more(bytes));
	at = mmap(NULL, served[0].size, PROT_READ | PROT_WRITE, MAP_SHARED, render[0],
		  (off_t)served[0].offset);
	CHECK(at != MAP_FAILED);
	*at = 0;
	ready();
	for (uint64_t n = 0; fgets(line, sizeof(line), stdin) && *line != 'q'; n++) {
		CHECK_EQ(*at, n);
		*at = n + 1;
		say_of(true);
	}
}

/* --- Compute queues --------------------------------------------------------------------------- */

struct barrier {
	uint16_t header, pad[3];
	uint64_t depends_on[5], pad2;
	uint64_t completion;
};

struct signal {
	int64_t kind;
	volatile int64_t value;
	uint64_t rest[6];
};

/* Each line is a packet that is done when its signal is; it is waited for without a call. */
static void barriers(uint64_t bytes)
{
	static struct queue q;
	struct signal *signal = host_memory(4096);
	struct barrier packet = {.completion = (uintptr_t)signal};
	char line[32];

	make_queue(0, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, &q);
	CHECK(hold_more(bytes));
	ready();
	while (fgets(line, sizeof(line), stdin) && *line != 'q') {
		char *at = q.ring + q.written % (RING_BYTES / 64) * 64;

		signal->value = 1;
		packet.header = 1;
		memcpy(at, &packet, sizeof(packet));
		*q.write = ++q.written;
		__atomic_store_n((uint16_t *)at, 3, __ATOMIC_RELEASE);
		__atomic_store_n(q.doorbell, q.written - 1, __ATOMIC_RELEASE);
		while (signal->value)
			usleep(1000);
		for (int i = 0; i < nserved; i++)
			look(&served[i]);
		say_of(true);
	}
}

/* --- What cannot leave ---------------------------------------------------------------------- */

static void hold_what_stays(const char *what)
{
	make(&buffers[0], 0, 0, MIB);
	fill(&buffers[0], 1);
	if (!strcmp(what, "dmabuf")) {
		export(buffers[0].handle);
	} else if (!strcmp(what, "dmabuf alone")) {
		struct buffer gone = {.gpu = 0, .size = MIB};

		CHECK_EQ(alloc_at(0, 0, MIB, VRAM, &gone.handle, &gone.offset), 0);
		export(gone.handle);
		CHECK_EQ(free_memory(gone.handle), 0);
	} else if (!strcmp(what, "svm")) {
		void *own = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				 0);
		struct kfd_ioctl_svm_attribute there = {KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, ids[0]};

		CHECK_EQ(svm_set(own, MIB, 1, &there), 0);
	} else if (!strcmp(what, "own node")) {
		union drm_amdgpu_gem_create a = {.in = {.bo_size = MIB,
							.domains = AMDGPU_GEM_DOMAIN_VRAM,
							.domain_flags = 1 << 6}};

		/* Of its file's address space alone: it cannot be exported. */
		CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), 0);
	} else {
		struct buffer none;

		CHECK(!strcmp(what, "address"));
		none = (struct buffer){.gpu = 0, .size = MIB};
		CHECK_EQ(alloc_at(0, 0, MIB, VRAM, &none.handle, &none.offset), 0);
	}
}

static int say_used(bool peak)
{
	struct bank *bank;
	char root[256];

	snprintf(root, sizeof(root), "%s/amd", getenv("ALLOT_SIM_DIR"));
	CHECK_EQ(bank_open(root, &bank), 0);
	for (uint32_t i = 0; i < GPUS; i++)
		printf("%llu\n", (unsigned long long)(peak ? bank_peak(bank, i)
								  : bank_used(bank, i, VRAM)));
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "used") || !strcmp(what, "peak"))
		return say_used(!strcmp(what, "peak"));
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* `allot sim` is its parent */
	begin();
	if (!strcmp(what, "churn")) {
		churn((unsigned int)atoi(argv[2]));
	} else if (!strcmp(what, "write")) {
		write_all_the_time();
	} else if (!strcmp(what, "nodes")) {
		hold_nodes();
	} else if (!strcmp(what, "compute")) {
		compute(strtoull(argv[2], NULL, 10) * MIB, (uint32_t)atoi(argv[3]));
	} else if (!strcmp(what, "lend")) {
		lend(argv[2]);
	} else if (!strcmp(what, "borrow")) {
		borrow(argv[2]);
	} else if (!strcmp(what, "serve")) {
		serve(strtoull(argv[2], NULL, 10) * MIB, (uint32_t)atoi(argv[3]));
	} else if (!strcmp(what, "touch")) {
		touch(strtoull(argv[2], NULL, 10) * MIB);
	} else if (!strcmp(what, "barriers")) {
		barriers(strtoull(argv[2], NULL, 10) * MIB);
	} else if (!strcmp(what, "change")) {
		change_views();
	} else if (!strcmp(what, "idle")) {
		hold_still();
		ready();
		getchar();
		look_at_all();
	} else {
		hold_what_stays(what);
		ready();
		getchar();
		look(&buffers[0]);
	}
	printf("good\n");
	return 0;
}
