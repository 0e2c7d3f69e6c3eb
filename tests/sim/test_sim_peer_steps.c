/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who maps what, while mapping fails: after each of many steps what our side believes is what the
 * emulated KFD has. Run by `allot sim --amd 8 --memory 64MiB`, with any links.
 *
 * The emulator is not asked for its page tables but found out: it refuses to free what any GPU
 * maps. So with all but one unmapped behind our side's back the refusal proves that one, and when
 * our side frees an object for good there was none that it did not know of.
 *
 * This program's ioctl() stands between the library and the emulator, and fails as a driver does:
 * after so much of a list is done. The emulator's own failures are another run, of each in a
 * process of its own.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/peer_driver.h"

#define GPUS	8
#define OBJECTS 12
#define STEPS	10000
#define PAGE	UINT64_C(4096)
#define MOST	UINT32_MAX /* it fails for ever */

static const int errors[] = {EIO,   EINVAL, ENOMEM, EFAULT, EBUSY,
			     EPERM, ENODEV, ENOSPC, EINTR,  EAGAIN};
#define ERRORS (sizeof(errors) / sizeof(errors[0]))

/* What fails, and when: after `at` of a list. */
static struct {
	unsigned int nr; /* 0: nothing */
	int err;
	uint32_t at, times;
} failure;

static uint64_t last_handle;

static int fail_now(void)
{
	failure.times -= failure.times != MOST;
	if (!failure.times)
		failure.nr = 0;
	errno = failure.err;
	return -1;
}

/* Both blocks of a mapping are the same. */
static int map_ioctl(int fd, unsigned long request, struct kfd_ioctl_map_memory_to_gpu_args *a)
{
	uint32_t n = a->n_devices;
	int r = 0;

	if (failure.nr != _IOC_NR(request) || failure.at < a->n_success || failure.at > n)
		return real_ioctl(fd, request, a);
	if (failure.at > a->n_success) {
		a->n_devices = failure.at;
		r = real_ioctl(fd, request, a);
		a->n_devices = n;
	}
	return r < 0 ? r : fail_now();
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *block;
	int r;

	va_start(ap, request);
	block = va_arg(ap, void *);
	va_end(ap);
	if (_IOC_TYPE(request) != AMDKFD_IOCTL_BASE)
		return real_ioctl(fd, request, block);
	kfd = fd;
	if (_IOC_NR(request) == KFD_NR_MAP_MEMORY_TO_GPU ||
	    _IOC_NR(request) == KFD_NR_UNMAP_MEMORY_FROM_GPU)
		return map_ioctl(fd, request, block);
	if (failure.nr == _IOC_NR(request))
		return fail_now();
	r = real_ioctl(fd, request, block);
	if (r == 0 && _IOC_NR(request) == KFD_NR_ALLOC_MEMORY_OF_GPU)
		last_handle = ((struct kfd_ioctl_alloc_memory_of_gpu_args *)block)->handle;
	return r;
}

static uint32_t ids[GPUS];
static uint64_t reachable[GPUS];

struct object {
	uint64_t address, handle; /* 0: none */
	uint32_t device;
};
static struct object objects[OBJECTS];

static uint32_t state = 1;

static uint32_t random_below(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

static uint64_t devices_of(const struct object *o)
{
	return find(o->address).devices;
}

/* Behind our side's back: one GPU at a time. */
static void remap(const struct object *o, uint32_t gpu, bool unmap)
{
	struct kfd_ioctl_map_memory_to_gpu_args a = {o->handle, (uintptr_t)&ids[gpu], 1, 0};
	unsigned int nr = unmap ? KFD_NR_UNMAP_MEMORY_FROM_GPU : KFD_NR_MAP_MEMORY_TO_GPU;

	CHECK_EQ(real_ioctl(kfd, _IOWR('K', nr, a), &a), 0);
}

static bool is_mapped(const struct object *o)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = {o->handle};
	int r = real_ioctl(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, a), &a);

	CHECK(r < 0 && errno == EBUSY); /* else it is gone now: it was not mapped */
	return true;
}

/* Each that is believed to map it does. */
static void audit(const struct object *o)
{
	uint64_t devices = devices_of(o);
	int last = -1;

	if (!devices)
		return;			    /* freeing it will tell */
	for (uint32_t i = 0; i < GPUS; i++) /* all but the first */
		if (devices >> i & 1 && last < 0)
			last = (int)i;
		else if (devices >> i & 1)
			remap(o, i, true);
	CHECK(is_mapped(o));
	for (uint32_t i = (uint32_t)last + 1; i < GPUS; i++) {
		if (!(devices >> i & 1))
			continue;
		remap(o, i, false);
		remap(o, (uint32_t)last, true);
		CHECK(is_mapped(o));
		last = (int)i;
	}
	for (uint32_t i = 0; i < GPUS; i++)
		if (devices >> i & 1 && (int)i != last)
			remap(o, i, false);
}

static void begin(void)
{
	CHECK_EQ(allot_peer_open(ALLOT_PEER_AMD, &peer), 0);
	CHECK_EQ(allot_peer_device_count(peer), GPUS);
	for (uint32_t i = 0; i < GPUS; i++) {
		struct allot_peer_device d;

		CHECK_EQ(allot_peer_device(peer, i, &d), 0);
		ids[i] = d.gpu_id;
		CHECK_EQ(allot_peer_reachable(peer, i, &reachable[i]), 0);
	}
}

static int make(struct object *o, uint32_t device)
{
	struct allot_peer_request what = {.device = device, .bytes = (1 + random_below(16)) * PAGE};
	int r = allot_peer_alloc(peer, &what, &o->address);

	if (r < 0)
		return r;
	o->handle = last_handle;
	o->device = device;
	CHECK_EQ(devices_of(o), 0);
	return 0;
}

static void destroy(struct object *o)
{
	CHECK_EQ(allot_peer_free(peer, o->address), 0);
	o->address = 0;
}

static void set_failure(unsigned int nr, int err, uint32_t at, uint32_t times)
{
	failure.nr = nr;
	failure.err = err;
	failure.at = at;
	failure.times = times;
}

/* Mapping to all, and unmapping from all, fail after each number of GPUs with each error. */
static void each_failure(uint32_t k, int err)
{
	bool passes = err == EINTR || err == EAGAIN;
	struct object o;

	CHECK_EQ(make(&o, k % GPUS), 0);
	set_failure(KFD_NR_MAP_MEMORY_TO_GPU, err, k, MOST);
	CHECK_EQ(allot_peer_map(peer, o.address, ALLOT_PEER_ALL), -err);
	CHECK(strstr(allot_peer_error(), strerror(err)));
	CHECK(strstr(allot_peer_error(), "it is mapped as before"));
	CHECK_EQ(devices_of(&o), 0);
	set_failure(KFD_NR_MAP_MEMORY_TO_GPU, err, k, 1);
	CHECK_EQ(allot_peer_map(peer, o.address, ALLOT_PEER_ALL), passes ? 0 : -err);
	CHECK_EQ(devices_of(&o), passes ? 0xff : 0);
	failure.nr = 0;
	CHECK_EQ(allot_peer_map(peer, o.address, ALLOT_PEER_ALL), 0);
	set_failure(KFD_NR_UNMAP_MEMORY_FROM_GPU, err, k, 1);
	CHECK_EQ(allot_peer_unmap(peer, o.address, ALLOT_PEER_ALL), passes ? 0 : -err);
	CHECK_EQ(__builtin_popcountll(devices_of(&o)), passes ? 0 : GPUS - k);
	audit(&o);
	failure.nr = 0;
	CHECK_EQ(allot_peer_unmap(peer, o.address, ALLOT_PEER_ALL), 0);
	set_failure(KFD_NR_FREE_MEMORY_OF_GPU, err, 0, 1);
	CHECK_EQ(allot_peer_free(peer, o.address), passes ? 0 : -err);
	if (!passes)
		destroy(&o);
	failure.nr = 0;
}

static void random_failure(void)
{
	static const unsigned int of[] = {
		KFD_NR_MAP_MEMORY_TO_GPU,     KFD_NR_MAP_MEMORY_TO_GPU,
		KFD_NR_MAP_MEMORY_TO_GPU,     KFD_NR_UNMAP_MEMORY_FROM_GPU,
		KFD_NR_UNMAP_MEMORY_FROM_GPU, KFD_NR_ALLOC_MEMORY_OF_GPU,
		KFD_NR_FREE_MEMORY_OF_GPU};

	set_failure(random_below(2) ? of[random_below(sizeof(of) / sizeof(of[0]))] : 0,
		    errors[random_below(ERRORS)], random_below(GPUS + 1), 1 + random_below(3));
}

/* A map, an unmap or a free of an object, which may fail. */
static void step(struct object *o, unsigned int what)
{
	uint64_t before = devices_of(o), set = 1 + random_below((1 << GPUS) - 1), after;
	bool reaches = !(set & ~reachable[o->device]);
	int r;

	switch (what) {
	case 0:
	case 1:
		r = allot_peer_map(peer, o->address, set);
		after = devices_of(o);
		CHECK(reaches || r == -ENOLINK);
		if (r == 0)
			CHECK_EQ(after, before | set);
		else
			CHECK_EQ(after, before);
		break;
	case 2:
		r = allot_peer_unmap(peer, o->address, set);
		after = devices_of(o);
		if (r == 0)
			CHECK_EQ(after, before & ~set);
		else
			CHECK(!(after & ~before) && !(before & ~set & ~after));
		break;
	default:
		r = allot_peer_free(peer, o->address);
		if (r == 0)
			o->address = 0;
		CHECK_EQ(before != 0, r == -EBUSY && failure.err != EBUSY);
	}
}

/* Every so often all of an object is unmapped, or there would be few that can be freed. */
static void random_step(void)
{
	struct object *o = &objects[random_below(OBJECTS)];

	random_failure();
	if (!o->address) {
		if (make(o, random_below(GPUS)) < 0)
			o->address = 0;
	} else if (!random_below(8)) {
		allot_peer_unmap(peer, o->address, ALLOT_PEER_ALL);
	} else {
		/* Its refusal of what is mapped is to be told from one that is made up. */
		if (failure.err == EBUSY)
			failure.err = EIO;
		step(o, random_below(4));
	}
	failure.nr = 0;
	if (o->address)
		audit(o);
}

static unsigned int mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int n = 0;
	int c;

	CHECK(maps);
	while ((c = getc(maps)) != EOF)
		n += c == '\n';
	fclose(maps);
	return n;
}

static void check_all_free(void)
{
	for (uint32_t i = 0; i < GPUS; i++)
		CHECK_EQ(available_bytes(ids[i]), UINT64_C(64) << 20);
}

static void run_steps(bool all_linked)
{
	unsigned int maps;
	int files;

	begin();
	allot_peer_close(peer);
	files = count_files();
	maps = mappings();
	begin();
	for (uint32_t k = 0; all_linked && k <= GPUS; k++)
		for (size_t e = 0; e < ERRORS; e++)
			each_failure(k, errors[e]);
	for (uint32_t i = 0; i < STEPS; i++)
		random_step();
	/* One half is freed here, the other by closing. */
	for (uint32_t i = 0; i < OBJECTS; i += 2) {
		if (!objects[i].address)
			continue;
		CHECK_EQ(allot_peer_unmap(peer, objects[i].address, ALLOT_PEER_ALL), 0);
		destroy(&objects[i]);
	}
	allot_peer_close(peer);
	check_all_free();
	CHECK_EQ(count_files(), files);
	CHECK_EQ(mappings(), maps);
}

/* In a process in which the emulator itself fails after k of a list, for good. */
static void run_failing(bool unmapping, uint32_t k, int err)
{
	struct object o;

	begin();
	for (uint32_t i = 0; i < 40; i++) {
		uint64_t set = i ? 1 + random_below((1 << GPUS) - 1) : 0xff, after;
		uint32_t n = (uint32_t)__builtin_popcountll(set);
		int r;

		CHECK_EQ(make(&o, random_below(GPUS)), 0);
		r = allot_peer_map(peer, o.address, set);
		CHECK_EQ(r, unmapping || n <= k ? 0 : -err);
		CHECK_EQ(devices_of(&o), r == 0 ? set : 0);
		audit(&o);
		while ((after = devices_of(&o))) {
			n = (uint32_t)__builtin_popcountll(after);
			r = allot_peer_unmap(peer, o.address, ALLOT_PEER_ALL);
			CHECK_EQ(r, unmapping && n > k ? -err : 0);
			CHECK_EQ(__builtin_popcountll(devices_of(&o)), r == 0 ? 0 : n - k);
			audit(&o);
		}
		destroy(&o);
	}
	allot_peer_close(peer);
	if (unmapping && k < GPUS)
		return; /* the emulator keeps its pages of registers */
	check_all_free();
}

static void run_each(const char *self)
{
	for (uint32_t i = 0; i < 2 * (GPUS + 1) * 3; i++) {
		int err = errors[i % 3], status;
		bool unmapping = i / 3 & 1;
		uint32_t k = i / 6;
		char fails[64], list[16], code[16];
		pid_t child;

		if (unmapping && !k)
			continue; /* nothing could ever be freed */
		snprintf(fails, sizeof(fails), "%s:%s:%u",
			 unmapping ? "UNMAP_MEMORY_FROM_GPU" : "MAP_MEMORY_TO_GPU",
			 strerrorname_np(err), k);
		snprintf(list, sizeof(list), "%u", k);
		snprintf(code, sizeof(code), "%d", err);
		child = fork();
		CHECK(child >= 0);
		if (!child) {
			setenv("ALLOT_SIM_AMD_FAIL", fails, 1);
			execl(self, self, unmapping ? "unmap" : "map", list, code, NULL);
			_exit(127);
		}
		CHECK_EQ(waitpid(child, &status, 0), child);
		if (status)
			fprintf(stderr, "with %s\n", fails);
		CHECK_EQ(status, 0);
	}
}

int main(int argc, char **argv)
{
	if (argc == 4)
		run_failing(!strcmp(argv[1], "unmap"), (uint32_t)atoi(argv[2]), atoi(argv[3]));
	else if (argc == 2 && !strcmp(argv[1], "each"))
		run_each("/proc/self/exe");
	else
		run_steps(argc < 2);
	return 0;
}
