/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated KFD as one process has it: devices, requests, memory, mapping and events. */
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "tests/sim/kfd_program.h"

static void test_apertures(void)
{
	struct kfd_process_device_apertures at[8];
	struct kfd_ioctl_get_process_apertures_new_args a = {.num_of_nodes = 0};
	unsigned long request = KFD_IOWR(GET_PROCESS_APERTURES_NEW, a);

	CHECK_EQ(call(request, &a), 0);
	CHECK_EQ(a.num_of_nodes, GPUS);
	a = (struct kfd_ioctl_get_process_apertures_new_args){(uintptr_t)at, 8, 0};
	CHECK_EQ(call(request, &a), 0);
	CHECK_EQ(a.num_of_nodes, GPUS);
	for (int i = 0; i < GPUS; i++)
		CHECK(at[i].gpu_id == ids[i] && at[i].gpuvm_base < at[i].gpuvm_limit);
	a = (struct kfd_ioctl_get_process_apertures_new_args){8, 8, 0};
	CHECK_EQ(call(request, &a), -EFAULT);
	CHECK(open("/dev/dri/renderD200", O_RDWR) < 0 && errno == ENOENT);
}

static void test_devices(void)
{
	struct stat st;
	int copy;

	CHECK_EQ(stat("/dev/kfd", &st), 0);
	CHECK(S_ISCHR(st.st_mode));
	copy = dup(render[1]);
	CHECK_EQ(fstat(copy, &st), 0);
	CHECK(S_ISCHR(st.st_mode) && st.st_rdev == makedev(226, 130));
	close(copy);
	CHECK_EQ(access("/sys/class/kfd/kfd/topology/generation_id", R_OK), 0);
	CHECK_EQ(access("/sys/dev/char/226:129/device/drm", X_OK), 0);
}

/* libhsakmt wants some caches. Those of the machine itself may be the ones that are there. */
static void test_caches(void)
{
	DIR *dir = opendir("/sys/devices/system/cpu/cpu0/cache");
	int fd = open("/sys/devices/system/cpu/cpu0/cache", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FILE *level = fopen("/sys/devices/system/cpu/cpu0/cache/index0/level", "re");
	int n = 0, number;

	CHECK(dir && fd >= 0 && level);
	for (struct dirent *entry; (entry = readdir(dir));)
		n += !strncmp(entry->d_name, "index", 5);
	CHECK(n > 0);
	CHECK_EQ(faccessat(fd, "index0/shared_cpu_map", R_OK, 0), 0);
	CHECK(fscanf(level, "%d", &number) == 1 && number > 0);
	closedir(dir);
	close(fd);
	fclose(level);
	if (!access("/sys/devices/system/node/node0/cpu0", F_OK))
		CHECK_EQ(access("/sys/devices/system/node/node0/cpu0/cache/index0/size", R_OK), 0);
	/* What the kernel tells besides stays the kernel's. */
	CHECK_EQ(access("/sys/devices/system/cpu/online", R_OK), 0);
	CHECK(open("/sys/devices/system/cpu/cpu0/cache/index0/none", O_RDONLY) < 0);
	CHECK_EQ(errno, ENOENT);
}

/* Callers of other versions, and what is not there. */
static void test_requests(void)
{
	struct kfd_ioctl_get_version_args version = {0};
	uint64_t word = 0;

	CHECK_EQ(call(_IOR('K', KFD_NR_GET_VERSION, version), &version), 0);
	CHECK(version.major_version == 1 && version.minor_version == 15);
	CHECK_EQ(call(_IOC(_IOC_READ, 'K', KFD_NR_GET_VERSION, 4), &word), 0);
	CHECK_EQ(word, 1);
	CHECK_EQ(call(_IOR('K', KFD_NR_GET_VERSION, version), NULL), -EFAULT);
	CHECK_EQ(call(_IOWR('K', 0x70, word), &word), -ENOTTY);
	CHECK_EQ(call(_IOWR('K', KFD_NR_DBG_TRAP, word), &word), -ENOTTY);
	CHECK_EQ(call(_IOWR('T', 1, word), &word), -ENOTTY);
}

static void test_acquire(void)
{
	struct kfd_ioctl_acquire_vm_args a = {.drm_fd = (uint32_t)render[1], .gpu_id = ids[0]};
	unsigned long request = _IOW('K', KFD_NR_ACQUIRE_VM, a);
	uint64_t handle;

	CHECK_EQ(alloc_vram(0, MIB, &handle), -ENODEV);
	a.drm_fd = (uint32_t)kfd;
	CHECK_EQ(call(request, &a), -EINVAL);
	acquire_devices();
	a.gpu_id = 1;
	CHECK_EQ(call(request, &a), -EINVAL);
}

static void test_memory(void)
{
	uint64_t all, one, offset, aql;
	char *here;
	int other;

	CHECK_EQ(vacant(0), 64 * MIB);
	CHECK_EQ(alloc_vram(0, 0, &one), -EINVAL);
	CHECK_EQ(alloc_vram(0, 64 * MIB + 4096, &one), -ENOMEM);
	CHECK_EQ(alloc_vram(0, UINT64_MAX, &one), -EINVAL);
	CHECK_EQ(alloc_flags(0, MIB, 0, &one, NULL), -EINVAL);
	CHECK_EQ(alloc_vram(0, 64 * MIB, &all), 0);
	CHECK_EQ(all >> 32, ids[0]);
	CHECK_EQ(alloc_vram(0, 4096, &one), -ENOMEM);
	CHECK_EQ(vacant(0), 0);
	CHECK_EQ(vacant(1), 64 * MIB);
	CHECK_EQ(free_memory(all + 1), -EINVAL);
	CHECK_EQ(free_memory(all), 0);
	CHECK_EQ(free_memory(all), -EINVAL);
	CHECK_EQ(alloc_flags(0, 2 * MIB, VRAM | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM, &aql, NULL),
		 0);
	CHECK_EQ(vacant(0), 63 * MIB);
	CHECK_EQ(free_memory(aql), 0);

	CHECK_EQ(alloc_vram(0, 63 * MIB + 1, &one), 0); /* of which the last page is taken whole */
	CHECK_EQ(vacant(0), MIB - 4096);
	CHECK_EQ(free_memory(one), 0);
	offset = 1;
	CHECK_EQ(alloc_at(0, 1u << 30, MIB, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, &one, &offset),
		 -EINVAL);

	/* What is written stays, whoever maps it where. */
	CHECK_EQ(alloc_flags(0, MIB, VRAM, &one, &offset), 0);
	here = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, render[0], (off_t)offset);
	CHECK(here != MAP_FAILED);
	strcpy(here + 4096, "content");
	CHECK_EQ(munmap(here, MIB), 0);
	here = mmap(NULL, MIB, PROT_READ, MAP_SHARED, render[0], (off_t)offset);
	CHECK(here != MAP_FAILED && !strcmp(here + 4096, "content"));
	CHECK_EQ(munmap(here, MIB), 0);
	CHECK(mmap(NULL, 2 * MIB, PROT_READ, MAP_SHARED, render[0], (off_t)offset) == MAP_FAILED);
	/* Offsets are a device's own, and a file's that has the memory. */
	CHECK(mmap(NULL, MIB, PROT_READ, MAP_SHARED, render[1], (off_t)offset) == MAP_FAILED);
	CHECK_EQ(errno, EINVAL);
	other = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC);
	CHECK(mmap(NULL, MIB, PROT_READ, MAP_SHARED, other, (off_t)offset) == MAP_FAILED);
	CHECK_EQ(errno, EACCES);
	close(other);
	CHECK_EQ(free_memory(one), 0);
	CHECK(mmap(NULL, MIB, PROT_READ, MAP_SHARED, render[0], (off_t)offset) == MAP_FAILED);
}

/* How often such a line is in the list of what the process has mapped. */
static int count_mappings(const void *at, uint64_t size, const char *perms, uint64_t offset,
			  const char *name)
{
	char wanted[64], line[512];
	FILE *file = fdopen(open("/proc/self/maps", O_RDONLY | O_CLOEXEC), "r");
	int n = 0;

	CHECK(file);
	snprintf(wanted, sizeof(wanted), "%lx-%lx %s %08lx ", (unsigned long)(uintptr_t)at,
		 (unsigned long)((uintptr_t)at + size), perms, (unsigned long)offset);
	while (fgets(line, sizeof(line), file)) {
		CHECK(!strstr(line, "/amd/memory/") || strstr(line, "/table"));
		n += !strncmp(line, wanted, strlen(wanted)) && strstr(line, name);
	}
	fclose(file);
	return n;
}

/* What is mapped of a node stands there by its name and offset; what the emulator has does not. */
static void test_maps(void)
{
	struct kfd_ioctl_export_dmabuf_args export = {.flags = O_CLOEXEC};
	uint64_t one, two, offset, other;
	char *here, *there;
	int fd;

	CHECK_EQ(alloc_flags(0, MIB, VRAM, &one, &offset), 0);
	CHECK_EQ(alloc_flags(1, MIB, VRAM, &two, &other), 0);
	here = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, render[0], (off_t)offset);
	there = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE, render[1], (off_t)other);
	CHECK(here != MAP_FAILED && there != MAP_FAILED);
	CHECK_EQ(count_mappings(here, MIB, "rw-s", offset, " /dev/dri/renderD129\n"), 1);
	CHECK_EQ(count_mappings(there, MIB, "---p", other, " /dev/dri/renderD130\n"), 1);
	CHECK_EQ(munmap(there, MIB), 0);
	CHECK_EQ(munmap(here, MIB / 2), 0);
	here += MIB / 2;
	CHECK_EQ(count_mappings(here, MIB / 2, "rw-s", offset + MIB / 2, "/dev/dri/renderD129"), 1);
	export.handle = two;
	CHECK_EQ(call(KFD_IOWR(EXPORT_DMABUF, export), &export), 0);
	fd = (int)export.dmabuf_fd;
	there = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(there != MAP_FAILED);
	CHECK_EQ(count_mappings(there, MIB, "r--s", 0, " /dmabuf:"), 1);
	CHECK_EQ(munmap(there, MIB), 0);
	CHECK_EQ(munmap(here, MIB / 2), 0);
	close(fd);
	CHECK_EQ(free_memory(one), 0);
	CHECK_EQ(free_memory(two), 0);
}

/* The last that there is before memory ends. */
static const uint32_t *at_edge(uint32_t id)
{
	char *here = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t *last = (uint32_t *)(here + 4096) - 1;

	CHECK(here != MAP_FAILED);
	CHECK_EQ(munmap(here + 4096, 4096), 0);
	*last = id;
	return last;
}

/* Who has a link to the owner maps; what failed is where n_success says. */
static void test_mapping(void)
{
	uint32_t wild[2], done = 0, unknown[] = {ids[0], 7, ids[1]};
	uint64_t h[GPUS];

	for (int i = 0; i < GPUS; i++)
		CHECK_EQ(alloc_vram(i, MIB, &h[i]), 0);
	CHECK_EQ(map(h[0], ids, 0, &done), -EINVAL);
	CHECK_EQ(map(h[0], ids, GPUS, &done), -EINVAL); /* 3 has none to 1 */
	CHECK_EQ(done, 2);
	CHECK_EQ(free_memory(h[0]), -EBUSY);
	CHECK_EQ(unmap(h[0], ids, 2), 0);
	CHECK_EQ(free_memory(h[0]), 0);

	done = 0;
	CHECK_EQ(map(h[1], ids, 2, &done), 0); /* 1 has one to 2 */
	CHECK_EQ(done, 2);
	CHECK_EQ(unmap(h[1], unknown, 3), -EINVAL);
	CHECK_EQ(free_memory(h[1]), -EBUSY); /* 2 still has it */
	CHECK_EQ(unmap(h[1], ids + 1, 1), 0);
	CHECK_EQ(unmap(h[1], ids, 2), -EINVAL);
	CHECK_EQ(free_memory(h[1]), 0);

	done = 0;
	CHECK_EQ(map(h[2], ids, 1, &done), -EINVAL); /* 1 has none to 3 */
	CHECK_EQ(map(h[2], ids + 1, 2, &done), 0);   /* 2 has */
	done = 3;
	CHECK_EQ(map(h[2], ids, 2, &done), -EINVAL);
	done = 0;
	CHECK_EQ(map(h[2], (uint32_t *)8, 2, &done), -EFAULT);
	CHECK_EQ(done, 0);
	CHECK_EQ(map(h[2], at_edge(ids[1]), 2, &done), -EFAULT);
	CHECK_EQ(done, 0);
	CHECK_EQ(map(h[2], ids, UINT32_MAX, &done), -ENOMEM);
	memcpy(wild, ids + 1, sizeof(wild));
	CHECK_EQ(unmap(h[2], wild, 2), 0); /* which 3 has, too */
	CHECK_EQ(free_memory(h[2]), 0);
	CHECK_EQ(vacant(2), 64 * MIB);
}

static uint32_t create_event(uint32_t type, bool auto_reset)
{
	struct kfd_ioctl_create_event_args a = {.event_type = type, .auto_reset = auto_reset};

	CHECK_EQ(call(KFD_IOWR(CREATE_EVENT, a), &a), 0);
	CHECK(a.event_page_offset && a.event_id && a.event_slot_index < KFD_SIGNAL_EVENT_LIMIT);
	return a.event_id;
}

static int on_event(unsigned int nr, uint32_t id)
{
	struct kfd_ioctl_set_event_args a = {.event_id = id};

	return call(_IOW('K', nr, a), &a);
}

/* The result, or -errno. */
static int wait_events(uint32_t a, uint32_t b, bool all, uint32_t timeout_ms)
{
	struct kfd_event_data events[2] = {{.event_id = a}, {.event_id = b}};
	struct kfd_ioctl_wait_events_args w = {.events_ptr = (uintptr_t)events,
					       .num_events = 2,
					       .wait_for_all = all,
					       .timeout = timeout_ms};
	int r = call(KFD_IOWR(WAIT_EVENTS, w), &w);

	return r < 0 ? r : (int)w.wait_result;
}

static void *set_later(void *id)
{
	struct timespec t = {.tv_nsec = 20000000};

	nanosleep(&t, NULL);
	CHECK_EQ(on_event(KFD_NR_SET_EVENT, *(uint32_t *)id), 0);
	return NULL;
}

static void *destroy_later(void *id)
{
	struct timespec t = {.tv_nsec = 20000000};

	nanosleep(&t, NULL);
	CHECK_EQ(on_event(KFD_NR_DESTROY_EVENT, *(uint32_t *)id), 0);
	return NULL;
}

static void test_events(void)
{
	uint32_t a = create_event(KFD_IOC_EVENT_SIGNAL, true);
	uint32_t b = create_event(KFD_IOC_EVENT_SIGNAL, false);
	uint32_t fault = create_event(KFD_IOC_EVENT_MEMORY, false);
	pthread_t thread;

	CHECK(a != b);
	CHECK_EQ(wait_events(a, 4000, false, 0), -EINVAL);
	CHECK_EQ(wait_events(a, b, false, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	CHECK_EQ(wait_events(a, b, false, 5), KFD_IOC_WAIT_RESULT_TIMEOUT);
	CHECK_EQ(on_event(KFD_NR_SET_EVENT, fault), -EINVAL);
	CHECK_EQ(on_event(KFD_NR_SET_EVENT, a), 0);
	CHECK_EQ(wait_events(a, b, true, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	CHECK_EQ(on_event(KFD_NR_SET_EVENT, b), 0);
	CHECK_EQ(wait_events(a, b, true, UINT32_MAX), KFD_IOC_WAIT_RESULT_COMPLETE);
	/* The one was taken by that, the other stays until it is reset. */
	CHECK_EQ(wait_events(a, fault, false, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	CHECK_EQ(wait_events(b, fault, false, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
	CHECK_EQ(on_event(KFD_NR_RESET_EVENT, b), 0);
	CHECK_EQ(wait_events(b, fault, false, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);

	CHECK_EQ(pthread_create(&thread, NULL, set_later, &a), 0);
	CHECK_EQ(wait_events(a, b, false, UINT32_MAX), KFD_IOC_WAIT_RESULT_COMPLETE);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(pthread_create(&thread, NULL, destroy_later, &b), 0);
	CHECK_EQ(wait_events(a, b, false, UINT32_MAX), KFD_IOC_WAIT_RESULT_FAIL);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(on_event(KFD_NR_DESTROY_EVENT, b), -EINVAL);
}

/* The result; *age is the one that is known, and the one that comes back. */
static int wait_age(uint32_t id, uint64_t *age, uint32_t timeout_ms)
{
	struct kfd_event_data event = {.signal_event_data = {*age}, .event_id = id};
	struct kfd_ioctl_wait_events_args w = {
		.events_ptr = (uintptr_t)&event, .num_events = 1, .timeout = timeout_ms};

	CHECK_EQ(call(KFD_IOWR(WAIT_EVENTS, w), &w), 0);
	*age = event.signal_event_data.last_event_age;
	return (int)w.wait_result;
}

static void *wait_for_third(void *id)
{
	uint64_t age = 2;

	CHECK_EQ(wait_age(*(uint32_t *)id, &age, UINT32_MAX), KFD_IOC_WAIT_RESULT_COMPLETE);
	CHECK_EQ(age, 3);
	return NULL;
}

/* Who names an age misses no signal, whoever took it; two that wait get one signal both. */
static void test_ages(void)
{
	uint32_t e = create_event(KFD_IOC_EVENT_SIGNAL, true);
	uint64_t age = 1, none = 0;
	pthread_t threads[2];

	CHECK_EQ(wait_age(e, &age, 5), KFD_IOC_WAIT_RESULT_TIMEOUT);
	CHECK_EQ(age, 1);
	CHECK_EQ(on_event(KFD_NR_SET_EVENT, e), 0);
	CHECK_EQ(wait_age(e, &none, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
	CHECK_EQ(none, 0);
	CHECK_EQ(wait_age(e, &none, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
	CHECK_EQ(wait_age(e, &age, 0), KFD_IOC_WAIT_RESULT_COMPLETE);
	CHECK_EQ(age, 2);
	CHECK_EQ(wait_age(e, &age, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);

	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, wait_for_third, &e), 0);
	set_later(&e);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(on_event(KFD_NR_DESTROY_EVENT, e), 0);
}

static void test_drm(void)
{
	struct drm_amdgpu_memory_info memory = {0};
	struct drm_amdgpu_info info = {.return_pointer = (uintptr_t)&memory,
				       .return_size = sizeof(memory),
				       .query = AMDGPU_INFO_MEMORY};
	unsigned long request = _IOW('d', DRM_NR_AMDGPU_INFO, info);
	char name[16] = "";
	struct drm_version version = {.name = (uintptr_t)name, .name_len = 6};
	uint64_t handle;

	CHECK_EQ(ioctl(render[0], _IOWR('d', DRM_NR_VERSION, version), &version), 0);
	CHECK(version.version_major == 3 && version.name_len == 6 && !strcmp(name, "amdgpu"));
	CHECK_EQ(alloc_vram(0, 3 * MIB, &handle), 0);
	CHECK_EQ(ioctl(render[0], request, &info), 0);
	CHECK_EQ(memory.vram.total_heap_size, 72 * MIB);
	CHECK_EQ(memory.vram.heap_usage, 3 * MIB);
	CHECK_EQ(memory.vram.max_allocation, 54 * MIB);
	CHECK_EQ(free_memory(handle), 0);
	info.query = 0xffff;
	CHECK(ioctl(render[0], request, &info) < 0 && errno == EINVAL);
}

/* A child has nothing of its parent's until it opens the device, and then no memory of its. */
static void test_fork(void)
{
	uint64_t handle, other;
	pid_t child;
	int status;

	CHECK_EQ(alloc_vram(0, MIB, &handle), 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK_EQ(free_memory(handle), -EBADF);
		CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, kfd, 0) == MAP_FAILED);
		kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
		CHECK(kfd >= 0);
		CHECK_EQ(vacant(0), 63 * MIB);
		CHECK_EQ(free_memory(handle), -EINVAL);
		CHECK_EQ(alloc_vram(0, MIB, &other), -ENODEV);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_EQ(vacant(0), 63 * MIB);
	CHECK_EQ(free_memory(handle), 0);
}

int main(void)
{
	if (access("/dev/kfd", F_OK) < 0) {
		fprintf(stderr, "to be run by allot sim --amd 3\n");
		return 1;
	}
	open_devices();
	test_apertures();
	test_devices();
	test_caches();
	test_requests();
	test_acquire();
	test_memory();
	test_maps();
	test_mapping();
	test_events();
	test_ages();
	test_drm();
	test_fork();
	return 0;
}
