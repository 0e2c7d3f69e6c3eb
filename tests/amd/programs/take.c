/* SPDX-License-Identifier: Apache-2.0 */
/*
 * take FAMILY GPU MINOR BYTES MORE: takes memory of an AMD GPU by one of the families of calls of its
 * driver, step by step as the harness says: BYTES, then MORE beside them, then gives all back, and
 * takes three quarters of MORE, for which what was given back has to be free. The
 * GPU is KFD's number, MINOR its render node. As `amd_bare` it is linked statically and makes its
 * ioctls by bare system calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "tests/gpu/programs/steered.h"
#ifdef BARE
#include "tests/e2e/guard/bare.h"
#endif

#define SECONDS 120
#define ALIGN	(UINT64_C(2) << 20)

#define IOWR_KFD(name, a) _IOWR('K', KFD_NR_##name, a)
#define IOWR_DRM(name, a) _IOWR('d', DRM_NR_##name, a)

static int kfd, render;
static uint32_t gpu_id;
static char node_name[32];

#ifdef BARE
/* The emulator's files have other paths, and are the device's only under a guard. */
static int open_node(const char *name)
{
	char path[64];

	if (getenv("ALLOT_SIM_DIR"))
		return open_device(name);
	snprintf(path, sizeof(path), "/dev/%s", name);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int ask(int fd, unsigned long request, void *arg)
{
	return (int)bare_ioctl(fd, request, arg);
}
#else
static int open_node(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/%s", name);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int ask(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) < 0 ? -errno : 0;
}
#endif

/* What was taken, for it to be given back. */
struct taken {
	uint64_t memory; /* KFD's handle; 0: none */
	int file;	 /* -1: none */
	uint32_t handle, made; /* of `file`, and of the render node */
	void *at;
	uint64_t bytes;
};

/* --- Families --------------------------------------------------------------------------------- */

/* Addresses that nothing else has, as ROCm's library gives them to memory. */
static void *addresses(uint64_t bytes)
{
	char *at = mmap(NULL, bytes + ALIGN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			0);

	return at == MAP_FAILED ? NULL : (void *)(((uintptr_t)at + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
}

static int take_kfd(uint64_t bytes, struct taken *ret)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.va_addr = (uintptr_t)addresses(bytes),
		.size = bytes,
		.gpu_id = gpu_id,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			 KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE};
	int r = ask(kfd, IOWR_KFD(ALLOC_MEMORY_OF_GPU, a), &a);

	ret->memory = a.handle;
	return r;
}

static int take_gem(uint64_t bytes, struct taken *ret)
{
	union drm_amdgpu_gem_create a = {
		.in = {.bo_size = bytes, .domains = AMDGPU_GEM_DOMAIN_VRAM}};
	int r = ask(render, IOWR_DRM(AMDGPU_GEM_CREATE, a), &a);

	ret->made = a.out.handle;
	return r;
}

static int close_gem(int file, uint32_t handle)
{
	struct drm_gem_close a = {.handle = handle};

	return ask(file, _IOW('d', DRM_NR_GEM_CLOSE, a), &a);
}

/* A second file has the same memory, and the first no more: it is there, and counts once. */
static int take_shared(uint64_t bytes, struct taken *ret)
{
	struct drm_prime_handle out = {.flags = O_CLOEXEC}, in = {0};
	int r = take_gem(bytes, ret);

	if (r)
		return r;
	out.handle = ret->made;
	r = ask(render, IOWR_DRM(PRIME_HANDLE_TO_FD, out), &out);
	if (r)
		return r;
	ret->file = open_node(node_name);
	in.fd = out.fd;
	r = ret->file < 0 ? -errno : ask(ret->file, IOWR_DRM(PRIME_FD_TO_HANDLE, in), &in);
	close(out.fd);
	ret->handle = in.handle;
	r = r ? r : close_gem(render, ret->made);
	ret->made = 0;
	return r;
}

/* The program's own memory, fetched to the GPU; it has to be there to be fetched. */
static int take_svm(uint64_t bytes, struct taken *ret)
{
	const struct kfd_ioctl_svm_attribute there[] = {
		{KFD_IOCTL_SVM_ATTR_ACCESS, gpu_id}, {KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, gpu_id}};
	_Alignas(8) char block[sizeof(struct kfd_ioctl_svm_args) + sizeof(there)];
	struct kfd_ioctl_svm_args *a = (void *)block;
	void *at = addresses(bytes);

	if (!at || mprotect(at, bytes, PROT_READ | PROT_WRITE) < 0)
		return -errno;
	memset(at, 1, bytes);
	*a = (struct kfd_ioctl_svm_args){.start_addr = (uintptr_t)at, .size = bytes, .nattr = 2};
	memcpy(a->attrs, there, sizeof(there));
	ret->at = at;
	ret->bytes = bytes;
	return ask(kfd, IOWR_KFD(SVM, block), block);
}

static const struct family {
	const char *name;
	int (*take)(uint64_t bytes, struct taken *ret);
	bool optional; /* older kernels and some GPUs lack it */
} families[] = {{"kfd", take_kfd, false},
		{"gem", take_gem, false},
		{"shared", take_shared, false},
		{"svm", take_svm, true}};

static void give(const struct taken *taken)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = {taken->memory};

	if (taken->memory)
		ask(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, a), &a);
	if (taken->made)
		close_gem(render, taken->made);
	if (taken->file >= 0)
		close(taken->file);
	if (taken->at)
		munmap(taken->at, taken->bytes);
}

/* --- Steps ------------------------------------------------------------------------------------ */

static void absent(const char *why, int error)
{
	printf("{\"stage\": \"absent\", \"why\": \"%s: %s\"}\n", why, strerror(-error));
	exit(77);
}

static void open_gpu(void)
{
	struct kfd_ioctl_acquire_vm_args a = {.gpu_id = gpu_id};

	kfd = open_node("kfd");
	if (kfd < 0)
		absent("/dev/kfd", -errno);
	render = open_node(node_name);
	if (render < 0)
		absent(node_name, -errno);
	a.drm_fd = (uint32_t)render;
	/* The emulator has no address spaces for bare programs; without one, memory is refused. */
	ask(kfd, _IOW('K', KFD_NR_ACQUIRE_VM, a), &a);
}

/* Waits for the harness; without it the program ends, and the driver takes all back. */
static void say(const char *stage, int result)
{
	char word[32];

	printf("{\"stage\": \"%s\", \"result\": %d, \"error\": \"%s\"}\n", stage, result,
	       result ? strerror(-result) : "");
	fflush(stdout);
	if (!child_told(word))
		exit(0);
}

static void steps(const struct family *family, uint64_t bytes, uint64_t more)
{
	struct taken taken = {.file = -1}, beside = {.file = -1}, again = {.file = -1};
	int r;

	open_gpu();
	say("open", 0);
	r = family->take(bytes, &taken);
	if (family->optional && (r == -ENOTTY || r == -EOPNOTSUPP))
		absent("the kernel does not have it", r);
	say("taken", r);
	r = family->take(more, &beside);
	say("more", r);
	if (!r)
		give(&beside);
	give(&taken);
	say("given", 0);
	r = family->take(more / 4 * 3, &again);
	say("again", r);
	give(&again);
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	child_watched(SECONDS);
	gpu_id = (uint32_t)strtoul(argv[2], NULL, 10);
	snprintf(node_name, sizeof(node_name), "dri/renderD%s", argv[3]);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (!strcmp(families[i].name, argv[1]))
			steps(&families[i], strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10));
	return 0;
}
