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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/now.h"
#include "bench/batch.h"
#include "guest/process/lookup_elf.h"

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

static void kfd_ask(unsigned long request, void *block)
{
	if (ways[way](kfd, request, block) >= 0)
		return;
	perror("kfd: ioctl");
	exit(1);
}

/* Adds the time since *then to an item of the batch. */
static void kfd_lap(enum item item, int batch, uint64_t *then)
{
	uint64_t now = now_monotonic_ns();

	ns[way][item][batch] += (double)(now - *then) / CYCLES;
	*then = now;
}

static void kfd_cycle(int batch)
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
	uint64_t then = now_monotonic_ns();
	int n;

	kfd_ask(_IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, alloc), &alloc);
	kfd_lap(ALLOC, batch, &then);
	map.handle = unmap.handle = gone.handle = alloc.handle;
	kfd_ask(_IOWR('K', KFD_NR_MAP_MEMORY_TO_GPU, map), &map);
	kfd_lap(MAP, batch, &then);
	kfd_ask(_IOWR('K', KFD_NR_UNMAP_MEMORY_FROM_GPU, unmap), &unmap);
	kfd_lap(UNMAP, batch, &then);
	kfd_ask(_IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, gone), &gone);
	kfd_lap(FREE, batch, &then);
	ways[way](pipes[0], FIONREAD, &n);
	kfd_lap(OTHER, batch, &then);
}

/* Of the library that stands in for the driver, behind liballot: dlsym would find liballot's. */
static int kfd_find_bare(struct dl_phdr_info *info, size_t size, void *arg)
{
	const ElfW(Dyn) *dynamic = lookup_elf_dynamic(info);

	(void)size, (void)arg;
	if (!strstr(info->dlpi_name, "sim-kfd") || !dynamic)
		return 0;
	*(void **)&ways[BARE] = lookup_elf_symbol(info->dlpi_addr, dynamic, "ioctl");
	return 1;
}

static void kfd_open_device(void)
{
	struct kfd_process_device_apertures at;
	struct kfd_ioctl_get_process_apertures_new_args apertures = {(uintptr_t)&at, 1, 0};
	struct kfd_ioctl_acquire_vm_args acquire;
	int render = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC);

	dl_iterate_phdr(kfd_find_bare, NULL);
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	if (!ways[BARE] || kfd < 0 || render < 0 || pipe(pipes)) {
		perror("kfd: no emulated device: run under `allot sim --amd 1`");
		exit(1);
	}
	kfd_ask(_IOWR('K', KFD_NR_GET_PROCESS_APERTURES_NEW, apertures), &apertures);
	gpu = at.gpu_id;
	acquire = (struct kfd_ioctl_acquire_vm_args){(uint32_t)render, gpu};
	kfd_ask(_IOW('K', KFD_NR_ACQUIRE_VM, acquire), &acquire);
}

static void kfd_print_medians(int batches)
{
	for (way = BARE; way < WAYS; way++) {
		printf("%s", way == BARE ? "{\"bare\": " : ", \"with\": ");
		for (int i = 0; i < ITEMS; i++) {
			printf("%s\"%s\": %.1f", i ? ", " : "{", names[i],
			       batch_median(ns[way][i], batches));
		}
		printf("}");
	}
	printf("}\n");
}

int main(int argc, char **argv)
{
	int batches = batch_count(argc, argv, 200, BATCHES_MAX);

	if (!batches)
		return 1;
	batch_pin();
	way = WITH;
	kfd_open_device();
	kfd_cycle(0); /* the first one is for what is made once */
	memset(ns, 0, sizeof(ns));
	for (int b = 0; b < batches; b++) {
		for (way = BARE; way < WAYS; way++) {
			double *all = &ns[way][CYCLE][b];

			for (int c = 0; c < CYCLES; c++)
				kfd_cycle(b);
			for (int i = ALLOC; i <= FREE; i++)
				*all += ns[way][i][b];
		}
	}
	kfd_print_medians(batches);
	return 0;
}
