/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bare: a program without a library, linked statically, whose ioctls are bare system calls. It does
 * what it reads, a line each, and answers each with a line: a number, or -errno.
 *
 *	take GPU BYTES		ALLOC_MEMORY_OF_GPU in VRAM; the handle
 *	flags GPU BYTES FLAGS	the same with other flags
 *	give HANDLE		FREE_MEMORY_OF_GPU
 *	loop N GPU BYTES	N times both; how often it got it
 *	render N, card N	from here on ioctls go to that node; 0
 *	create BYTES		GEM_CREATE in VRAM
 *	place			GEM_OP, an object goes to VRAM
 *	svm GPU BYTES		SVM, memory is fetched to the GPU
 *	ioctl FD REQUEST	any, with a block that is all zero; fd -1: of the device
 *	xnack			SET_XNACK_MODE, on
 *	wild REQUEST ADDRESS	any of the device, with a block there
 *	threads N GPU BYTES	N threads take at once; how many got it
 *	race N GPU BYTES	takes a page N times; another thread writes BYTES into the block
 *	stall			a child asks, with a block that nobody will ever fill in; its pid
 *	timer			a signal each millisecond from here on
 *	fork			goes on in a child; its pid
 *	exec			begins anew
 *	arch			how a 32-bit getpid() is answered (x86-64)
 */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "tests/e2e/guard/bare.h"

#define THREADS 64
#define PAGE	4096

static int kfd;

static long alloc(struct kfd_ioctl_alloc_memory_of_gpu_args *a)
{
	long r = bare_ioctl(kfd, _IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, *a), a);

	return r < 0 ? r : (long)a->handle;
}

static long take(uint32_t gpu_id, uint64_t bytes, uint32_t flags)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.va_addr = 1 << 30, .size = bytes, .gpu_id = gpu_id, .flags = flags};

	return alloc(&a);
}

static long give(uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = {handle};

	return bare_ioctl(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, a), &a);
}

static long loop(uint64_t n, uint32_t gpu_id, uint64_t bytes)
{
	long got = 0;

	for (uint64_t i = 0; i < n; i++) {
		long handle = take(gpu_id, bytes, KFD_IOC_ALLOC_MEM_FLAGS_VRAM);

		if (handle > 0) {
			got++;
			give((uint64_t)handle);
		}
	}
	return got;
}

static long create(uint64_t bytes)
{
	union drm_amdgpu_gem_create a = {
		.in = {.bo_size = bytes, .domains = AMDGPU_GEM_DOMAIN_VRAM}};

	return bare_ioctl(kfd, _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a);
}

static long use_node(const char *kind, unsigned int number)
{
	char name[32];

	snprintf(name, sizeof(name), "dri/%s%u", kind, number);
	kfd = open_device(name);
	return kfd < 0 ? -errno : 0;
}

/* Hands the kernel a file of its own, which it closes then. */
static long acquire(unsigned int number, uint32_t gpu_id)
{
	struct kfd_ioctl_acquire_vm_args a = {.gpu_id = gpu_id};
	char name[32];
	long r;
	int fd;

	snprintf(name, sizeof(name), "dri/renderD%u", number);
	fd = open_device(name);
	a.drm_fd = (uint32_t)fd;
	r = bare_ioctl(kfd, _IOW('K', KFD_NR_ACQUIRE_VM, a), &a);
	close(fd);
	return r;
}

static long place(void)
{
	struct drm_amdgpu_gem_op a = {
		.handle = 1, .op = AMDGPU_GEM_OP_SET_PLACEMENT, .value = AMDGPU_GEM_DOMAIN_VRAM};

	return bare_ioctl(kfd, _IOWR('d', DRM_NR_AMDGPU_GEM_OP, a), &a);
}

static long set_xnack(void)
{
	struct kfd_ioctl_set_xnack_mode_args a = {1};

	return bare_ioctl(kfd, _IOWR('K', KFD_NR_SET_XNACK_MODE, a), &a);
}

struct order {
	uint32_t gpu_id;
	uint64_t bytes;
	pthread_barrier_t *barrier;
};

static void *take_in_thread(void *arg)
{
	struct order *order = arg;

	pthread_barrier_wait(order->barrier);
	return (void *)take(order->gpu_id, order->bytes, KFD_IOC_ALLOC_MEM_FLAGS_VRAM);
}

static long take_in_threads(unsigned int n, uint32_t gpu_id, uint64_t bytes)
{
	pthread_barrier_t barrier;
	struct order order = {gpu_id, bytes, &barrier};
	pthread_t thread[THREADS];
	long got = 0;

	if (n > THREADS)
		return -EINVAL;
	pthread_barrier_init(&barrier, NULL, n);
	for (unsigned int i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, take_in_thread, &order))
			abort();
	for (unsigned int i = 0; i < n; i++) {
		void *r;

		pthread_join(thread[i], &r);
		got += (long)r > 0;
	}
	return got;
}

struct race {
	struct kfd_ioctl_alloc_memory_of_gpu_args args;
	uint64_t bytes;
	int over;
};

static void *change(void *arg)
{
	struct race *race = arg;

	while (!__atomic_load_n(&race->over, __ATOMIC_RELAXED)) {
		__atomic_store_n(&race->args.size, race->bytes, __ATOMIC_RELAXED);
		__atomic_store_n(&race->args.size, PAGE, __ATOMIC_RELAXED);
	}
	return NULL;
}

static long take_in_race(unsigned int n, uint32_t gpu_id, uint64_t bytes)
{
	struct race race = {.bytes = bytes};
	pthread_t thread;
	long got = 0;

	race.args.gpu_id = gpu_id;
	race.args.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
	race.args.size = PAGE;
	if (pthread_create(&thread, NULL, change, &race))
		abort();
	for (unsigned int i = 0; i < n; i++)
		got += alloc(&race.args) > 0;
	__atomic_store_n(&race.over, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	return got;
}

static void nothing(int signal)
{
	(void)signal;
}

static long start_timer(void)
{
	struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
	struct itimerval each = {{0, 1000}, {0, 1000}};

	sigaction(SIGALRM, &action, NULL);
	return setitimer(ITIMER_REAL, &each, NULL);
}

/* Memory whose faults are ours to serve, also the kernel's; NULL. */
static void *unfilled(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register r = {.range.len = PAGE, .mode = UFFDIO_REGISTER_MODE_MISSING};
	long fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	r.range.start = (uintptr_t)page;
	if (fd < 0 || page == MAP_FAILED || ioctl((int)fd, UFFDIO_API, &api) < 0 ||
	    ioctl((int)fd, UFFDIO_REGISTER, &r) < 0)
		return NULL;
	return page;
}

static long stall(void)
{
	pid_t child;

	if (!unfilled())
		return -EPERM;
	child = fork();
	if (child)
		return child;
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	_exit(bare_ioctl(kfd,
			 _IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU,
			       struct kfd_ioctl_alloc_memory_of_gpu_args),
			 unfilled()) != -ENOSYS);
}

/* The device has to be opened anew in a child; how the child ends, this one does. */
static long go_on_in_child(void)
{
	pid_t child = fork();
	int status;

	if (child) {
		waitpid(child, &status, 0);
		if (WIFSIGNALED(status))
			kill(getpid(), WTERMSIG(status));
		_exit(WEXITSTATUS(status));
	}
	kfd = open_device("kfd");
	return getpid();
}

static long old_getpid(void)
{
#if defined(__x86_64__)
	int r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
	return r;
#else
	return -ENOSYS;
#endif
}

static long obey(char *line, char **argv)
{
	static char zero[1 << 14];
	unsigned long long a[3] = {0};
	char word[16] = "";
	long fd;

	if (sscanf(line, "%15s %lli %lli %lli", word, &a[0], &a[1], &a[2]) < 1)
		return -EINVAL;
	fd = (int)a[0] < 0 ? kfd : (int)a[0];
	if (!strcmp(word, "take"))
		return take((uint32_t)a[0], a[1], KFD_IOC_ALLOC_MEM_FLAGS_VRAM);
	if (!strcmp(word, "flags"))
		return take((uint32_t)a[0], a[1], (uint32_t)a[2]);
	if (!strcmp(word, "give"))
		return give(a[0]);
	if (!strcmp(word, "loop"))
		return loop(a[0], (uint32_t)a[1], a[2]);
	if (!strcmp(word, "render"))
		return use_node("renderD", (unsigned int)a[0]);
	if (!strcmp(word, "card"))
		return use_node("card", (unsigned int)a[0]);
	if (!strcmp(word, "create"))
		return create(a[0]);
	if (!strcmp(word, "acquire"))
		return acquire((unsigned int)a[0], (uint32_t)a[1]);
	if (!strcmp(word, "place"))
		return place();
	if (!strcmp(word, "svm"))
		return bare_fetch(kfd, (uint32_t)a[0], a[1]);
	if (!strcmp(word, "xnack"))
		return set_xnack();
	if (!strcmp(word, "ioctl"))
		return bare_ioctl(fd, a[1], zero);
	if (!strcmp(word, "wild"))
		return bare_ioctl(kfd, a[0], (void *)(uintptr_t)a[1]);
	if (!strcmp(word, "threads"))
		return take_in_threads((unsigned int)a[0], (uint32_t)a[1], a[2]);
	if (!strcmp(word, "race"))
		return take_in_race((unsigned int)a[0], (uint32_t)a[1], a[2]);
	if (!strcmp(word, "timer"))
		return start_timer();
	if (!strcmp(word, "stall"))
		return stall();
	if (!strcmp(word, "fork"))
		return go_on_in_child();
	if (!strcmp(word, "arch"))
		return old_getpid();
	if (!strcmp(word, "exec"))
		execv(argv[0], argv);
	return -EINVAL;
}

int main(int argc, char **argv)
{
	char line[256];

	(void)argc;
	kfd = open_device("kfd");
	printf("pid %d\n", getpid());
	fflush(stdout);
	setvbuf(stdin, NULL, _IONBF, 0); /* an exec loses nothing */
	while (fgets(line, sizeof(line), stdin)) {
		printf("%ld\n", obey(line, argv));
		fflush(stdout);
	}
	return kfd < 0;
}
