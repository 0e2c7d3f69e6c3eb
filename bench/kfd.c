/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kfd [BATCHES]: nanoseconds for allocating memory of an emulated AMD GPU, mapping, unmapping and
 * freeing it by ioctls, for each of the four, and for an ioctl that is none of the driver's:
 * medians over batches, one line of JSON. In turns by the emulator's own ioctl, which is the way
 * without liballot, and by the program's, so that the machine is as fast for one as for the other.
 * See bench/run-kfd.
 */
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "guest/core/lookup_elf.h"

#define BATCHES_MAX 10000
#define CYCLES	    20 /* in a batch */
#define MIB	    (1u << 20)

enum item { CYCLE, ALLOC, MAP, UNMAP, FREE, OTHER, ITEMS };

static const char *const names[ITEMS] = {"cycle", "alloc", "map", "unmap", "free", "other"};
enum way { BARE, WITH, WAYS };

static double ns[WAYS][ITEMS][BATCHES_MAX];
static int (*ways[WAYS])(int fd, unsigned long request, ...) = {[WITH] = ioctl};
static enum way way;
static int kfd, pipes[2];
static uint32_t gpu;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void ask(unsigned long request, void *block)
{
	if (ways[way](kfd, request, block) >= 0)
		return;
	perror("kfd: ioctl");
	exit(1);
}

/* Adds the time since *then to an item of the batch. */
static void lap(enum item item, int batch, double *then)
{
	double now = now_ns();

	ns[way][item][batch] += (now - *then) / CYCLES;
	*then = now;
}

static void cycle(int batch)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args alloc = {.va_addr = UINT64_C(1) << 32,
							   .size = 2 * MIB,
							   .gpu_id = gpu,
							   .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM};
	struct kfd_ioctl_map_memory_to_gpu_args map = {.device_ids_array_ptr = (uintptr_t)&gpu,
						       .n_devices = 1};
	struct kfd_ioctl_unmap_memory_from_gpu_args unmap = {
		.device_ids_array_ptr = (uintptr_t)&gpu, .n_devices = 1};
	struct kfd_ioctl_free_memory_of_gpu_args gone;
	double then = now_ns();
	int n;

	ask(_IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, alloc), &alloc);
	lap(ALLOC, batch, &then);
	map.handle = unmap.handle = gone.handle = alloc.handle;
	ask(_IOWR('K', KFD_NR_MAP_MEMORY_TO_GPU, map), &map);
	lap(MAP, batch, &then);
	ask(_IOWR('K', KFD_NR_UNMAP_MEMORY_FROM_GPU, unmap), &unmap);
	lap(UNMAP, batch, &then);
	ask(_IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, gone), &gone);
	lap(FREE, batch, &then);
	ways[way](pipes[0], FIONREAD, &n);
	lap(OTHER, batch, &then);
}

/* Of the library that stands in for the driver, behind liballot: dlsym would find liballot's. */
static int find_bare(struct dl_phdr_info *info, size_t size, void *arg)
{
	const ElfW(Dyn) *dynamic = lookup_elf_dynamic(info);

	(void)size, (void)arg;
	if (!strstr(info->dlpi_name, "sim-kfd") || !dynamic)
		return 0;
	*(void **)&ways[BARE] = lookup_elf_symbol(info->dlpi_addr, dynamic, "ioctl");
	return 1;
}

static void open_device(void)
{
	struct kfd_process_device_apertures at;
	struct kfd_ioctl_get_process_apertures_new_args apertures = {(uintptr_t)&at, 1, 0};
	struct kfd_ioctl_acquire_vm_args acquire;
	int render = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC);

	dl_iterate_phdr(find_bare, NULL);
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	if (!ways[BARE] || kfd < 0 || render < 0 || pipe(pipes)) {
		perror("kfd: no emulated device: run under `allot sim --amd 1`");
		exit(1);
	}
	ask(_IOWR('K', KFD_NR_GET_PROCESS_APERTURES_NEW, apertures), &apertures);
	gpu = at.gpu_id;
	acquire = (struct kfd_ioctl_acquire_vm_args){(uint32_t)render, gpu};
	ask(_IOW('K', KFD_NR_ACQUIRE_VM, acquire), &acquire);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_medians(int batches)
{
	for (way = BARE; way < WAYS; way++) {
		printf("%s", way == BARE ? "{\"bare\": " : ", \"with\": ");
		for (int i = 0; i < ITEMS; i++) {
			qsort(ns[way][i], (size_t)batches, sizeof(double), ascending);
			printf("%s\"%s\": %.1f", i ? ", " : "{", names[i], ns[way][i][batches / 2]);
		}
		printf("}");
	}
	printf("}\n");
}

int main(int argc, char **argv)
{
	int batches = argc > 1 ? atoi(argv[1]) : 200;
	cpu_set_t cpu;

	if (batches < 1 || batches > BATCHES_MAX)
		return 1;
	/* Where it happens to run, it stays. */
	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	way = WITH;
	open_device();
	cycle(0); /* the first one is for what is made once */
	memset(ns, 0, sizeof(ns));
	for (int b = 0; b < batches; b++) {
		for (way = BARE; way < WAYS; way++) {
			double *all = &ns[way][CYCLE][b];

			for (int c = 0; c < CYCLES; c++)
				cycle(b);
			for (int i = ALLOC; i <= FREE; i++)
				*all += ns[way][i][b];
		}
	}
	print_medians(batches);
	return 0;
}
