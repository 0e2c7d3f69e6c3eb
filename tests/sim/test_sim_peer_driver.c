/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer memory on a driver that answers otherwise than the emulated KFD does: run by `allot sim
 * --amd 3 --memory 64MiB`. This program's ioctl() changes answers on their way; what fails leaves
 * nothing behind.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/peer_driver.h"

#define GPUS 3
#define MIB  (UINT64_C(1) << 20)
#define PAGE UINT64_C(4096)

/* What a test does to one ioctl: fails it, or changes the block that was answered. */
static struct {
	unsigned int nr; /* 0: none */
	int err;
	void (*change)(void *block);
	unsigned int calls;
} other;

/* Mapping fails with EIO after the first of a list, undoing that with this error, so often. */
static struct {
	int err; /* 0: mapping does not fail */
	unsigned int times;
} undo;

static int map_one_only(int fd, unsigned long request, struct kfd_ioctl_map_memory_to_gpu_args *a)
{
	uint32_t n = a->n_devices;

	if (_IOC_NR(request) == KFD_NR_UNMAP_MEMORY_FROM_GPU && undo.times) {
		undo.times--;
		errno = undo.err;
		return -1;
	}
	if (_IOC_NR(request) != KFD_NR_MAP_MEMORY_TO_GPU)
		return real_ioctl(fd, request, a);
	a->n_devices = 1;
	CHECK_EQ(real_ioctl(fd, request, a), 0);
	a->n_devices = n;
	errno = EIO;
	return -1;
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	bool is_other = _IOC_TYPE(request) == AMDKFD_IOCTL_BASE && _IOC_NR(request) == other.nr;
	va_list ap;
	void *block;
	int r;

	va_start(ap, request);
	block = va_arg(ap, void *);
	va_end(ap);
	if (_IOC_TYPE(request) == AMDKFD_IOCTL_BASE)
		kfd = fd;
	if (undo.err && _IOC_TYPE(request) == AMDKFD_IOCTL_BASE)
		return map_one_only(fd, request, block);
	if (is_other && other.err) {
		other.calls++;
		errno = other.err;
		return -1;
	}
	r = real_ioctl(fd, request, block);
	if (r == 0 && is_other && other.change) {
		other.calls++;
		other.change(block);
	}
	return r;
}

/* The last of the GPUs is the only one that has a file here, or all of them have. */
static bool only_last;

__attribute__((visibility("default"))) int faccessat(int at, const char *path, int mode, int flags)
{
	static int (*real)(int, const char *, int, int);

	if (only_last && strstr(path, "/renderD") && !strstr(path, "/renderD131")) {
		errno = ENOENT;
		return -1;
	}
	if (!real)
		real = (int (*)(int, const char *, int, int))dlsym(RTLD_NEXT, "faccessat");
	return real(at, path, mode, flags);
}

static pid_t told_pid; /* 0: the true one */

__attribute__((visibility("default"))) pid_t getpid(void)
{
	return told_pid ? told_pid : (pid_t)syscall(SYS_getpid);
}

static void set_other(unsigned int nr, int err, void (*change)(void *block))
{
	other.err = err;
	other.change = change;
	other.nr = nr;
	other.calls = 0;
}

static uint32_t first_id;

static int open_devices(void)
{
	struct allot_peer_device d;
	int r = allot_peer_open(ALLOT_PEER_AMD, &peer);

	if (r == 0) {
		CHECK_EQ(allot_peer_device(peer, 0, &d), 0);
		first_id = d.gpu_id;
	}
	return r;
}

static int alloc(uint64_t bytes, uint64_t address, uint64_t *ret)
{
	struct allot_peer_request what = {
		.bytes = bytes, .address = address, .flags = ALLOT_PEER_HOST};

	return allot_peer_alloc(peer, &what, ret);
}

static void change_version(void *block)
{
	((struct kfd_ioctl_get_version_args *)block)->major_version = 2;
}

static struct kfd_process_device_apertures *apertures(void *block)
{
	const struct kfd_ioctl_get_process_apertures_new_args *a = block;

	return (struct kfd_process_device_apertures *)(uintptr_t)
		a->kfd_process_device_apertures_ptr;
}

static void part_apertures(void *block)
{
	apertures(block)[0].gpuvm_limit = 0xffffffff;
	apertures(block)[1].gpuvm_base = UINT64_C(1) << 32;
}

static void lose_aperture(void *block)
{
	apertures(block)[1].gpu_id++;
}

/* One more than there are nodes, which are the GPUs and a CPU: so many were asked for. */
static void exaggerate(void *block)
{
	((struct kfd_ioctl_get_process_apertures_new_args *)block)->num_of_nodes = 1 + GPUS + 1;
}

/* Less than the kernel hands out, and not the same of both. */
static void narrow_apertures(void *block)
{
	apertures(block)[0].gpuvm_base = 64 * MIB;
	apertures(block)[0].gpuvm_limit = 512 * MIB - 1;
	apertures(block)[1].gpuvm_limit = 256 * MIB - 1;
}

static void test_open(void)
{
	static const struct {
		unsigned int nr;
		int err;
		void (*change)(void *block);
		int expected;
		const char *words;
	} wrong[] = {
		{KFD_NR_GET_VERSION, EIO, NULL, -EIO, "version"},
		{KFD_NR_GET_VERSION, 0, change_version, -ENOTSUP, "2."},
		{KFD_NR_GET_PROCESS_APERTURES_NEW, ENOMEM, NULL, -ENOMEM, "apertures"},
		{KFD_NR_GET_PROCESS_APERTURES_NEW, 0, part_apertures, -ERANGE, "in common"},
		{KFD_NR_GET_PROCESS_APERTURES_NEW, 0, lose_aperture, -ENODEV, "topology"},
		{KFD_NR_GET_PROCESS_APERTURES_NEW, 0, exaggerate, -ERANGE, "more GPUs"},
		{KFD_NR_ACQUIRE_VM, EBUSY, NULL, -EBUSY, "another library"},
		{KFD_NR_ACQUIRE_VM, EINTR, NULL, -EINTR, "amd1 (0000:"},
		{KFD_NR_ACQUIRE_VM, EAGAIN, NULL, -EAGAIN, "amd1 (0000:"},
		{KFD_NR_SET_MEMORY_POLICY, EINVAL, NULL, -EINVAL, "amd1 (0000:"},
	};
	int files;

	CHECK_EQ(open_devices(), 0);
	allot_peer_close(peer);
	files = count_files();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		set_other(wrong[i].nr, wrong[i].err, wrong[i].change);
		peer = NULL;
		CHECK_EQ(open_devices(), wrong[i].expected);
		CHECK(!peer);
		CHECK(strstr(allot_peer_error(), wrong[i].words));
		CHECK(other.calls > 0 && other.calls < 10000); /* and not for ever */
		other.nr = 0;
		CHECK_EQ(count_files(), files);
		CHECK_EQ(available_bytes(first_id), 64 * MIB);
	}
}

/* The kernel has the others of this process, too, and tells of them first. */
static void test_hidden(void)
{
	struct allot_peer_device d;
	uint64_t at;

	only_last = true;
	CHECK_EQ(open_devices(), 0);
	only_last = false;
	CHECK_EQ(allot_peer_device_count(peer), 1);
	CHECK_EQ(allot_peer_device(peer, 0, &d), 0);
	CHECK_EQ(d.id, 1); /* as ROCm numbers them; the CPU is 0 */
	CHECK_EQ(alloc(MIB, 0, &at), 0);
	CHECK_EQ(allot_peer_map(peer, at, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_write(peer, at, "x", 1), 0);
	allot_peer_close(peer);
}

/* Without the registers through which writes are let through, everything else is as it was. */
static void test_without_registers(void)
{
	static const unsigned int nr[] = {KFD_NR_ALLOC_MEMORY_OF_GPU, KFD_NR_MAP_MEMORY_TO_GPU};
	uint64_t at;

	for (int i = 0; i < 2; i++) {
		set_other(nr[i], ENODEV, NULL);
		CHECK_EQ(open_devices(), 0);
		CHECK_EQ(other.calls, GPUS);
		other.nr = 0;
		CHECK_EQ(alloc(MIB, 0, &at), 0);
		CHECK_EQ(allot_peer_map(peer, at, ALLOT_PEER_ALL), 0);
		CHECK_EQ(allot_peer_write(peer, at, "x", 1), 0);
		allot_peer_close(peer);
		CHECK_EQ(available_bytes(first_id), 64 * MIB);
	}
}

/* Whether nobody else in the process can have that page. */
static bool is_taken(uint64_t address)
{
	void *got = mmap((void *)(uintptr_t)address, PAGE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (got == MAP_FAILED)
		return errno == EEXIST;
	CHECK_EQ(munmap(got, PAGE), 0);
	return false;
}

/* Where the kernel would not put it by itself: all within, none beside another, and all of it. */
static void test_narrow(void)
{
	struct allot_peer_request what = {.kind = ALLOT_PEER_ADDRESS, .bytes = 16 * MIB};
	uint64_t at[16], a;
	int n = 0, r;

	set_other(KFD_NR_GET_PROCESS_APERTURES_NEW, 0, narrow_apertures);
	CHECK_EQ(open_devices(), 0);
	other.nr = 0;
	while ((r = allot_peer_alloc(peer, &what, &at[n])) == 0) {
		CHECK(at[n] >= 64 * MIB && at[n] + what.bytes <= 256 * MIB);
		CHECK_EQ(at[n] % (2 * MIB), 0);
		CHECK(n == 0 || at[n] > at[n - 1] + what.bytes);
		CHECK(is_taken(at[n] - PAGE) && is_taken(at[n] + what.bytes));
		n++;
		CHECK(n < 16);
	}
	CHECK_EQ(r, -ENOMEM);
	CHECK(n >= 9); /* of ten, with what lies between them */
	CHECK_EQ(allot_peer_free(peer, at[4]), 0);
	CHECK_EQ(alloc(MIB, 0, &a), 0);
	CHECK(a > at[0] && a < at[n - 1]);
	CHECK_EQ(allot_peer_write(peer, a, "x", 1), 0);
	CHECK_EQ(alloc(MIB, 256 * MIB, &a), -ERANGE);
	CHECK_EQ(alloc(MIB, 256 * MIB - PAGE, &a), -ERANGE);
	allot_peer_close(peer);
}

static void spoil_offset(void *block)
{
	((struct kfd_ioctl_alloc_memory_of_gpu_args *)block)->mmap_offset += PAGE;
}

static void spoil_owner(void *block)
{
	((struct kfd_ioctl_get_dmabuf_info_args *)block)->gpu_id++;
}

/* Half an object is none: memory and addresses are free again. */
static void test_halves(void)
{
	struct allot_peer_request as = {.address = 0};
	struct allot_peer_object object;
	uint64_t at, again, offset;
	int fd;

	CHECK_EQ(open_devices(), 0);
	CHECK_EQ(alloc(MIB, 0, &at), 0);
	CHECK_EQ(allot_peer_free(peer, at), 0);

	set_other(KFD_NR_ALLOC_MEMORY_OF_GPU, 0, spoil_offset);
	CHECK_EQ(alloc(MIB, at, &again), -EINVAL);
	other.nr = 0;
	CHECK_EQ(available_bytes(first_id), 64 * MIB);
	set_other(KFD_NR_ALLOC_MEMORY_OF_GPU, ENOSPC, NULL);
	CHECK_EQ(alloc(MIB, at, &again), -ENOSPC);
	other.nr = 0;
	CHECK_EQ(allot_peer_next(peer, 0, &object), -ENOENT);
	CHECK_EQ(alloc(MIB, at, &again), 0);

	set_other(KFD_NR_EXPORT_DMABUF, EMFILE, NULL);
	CHECK_EQ(allot_peer_export(peer, at, MIB, &fd, &offset), -EMFILE);
	other.nr = 0;
	CHECK_EQ(allot_peer_export(peer, at, MIB, &fd, &offset), 0);
	CHECK_EQ(allot_peer_free(peer, at), 0);
	as.address = at;
	set_other(KFD_NR_GET_DMABUF_INFO, 0, spoil_owner);
	CHECK_EQ(allot_peer_import(peer, fd, &as, &again), -EINVAL);
	set_other(KFD_NR_IMPORT_DMABUF, ENOMEM, NULL);
	CHECK_EQ(allot_peer_import(peer, fd, &as, &again), -ENOMEM);
	other.nr = 0;
	CHECK_EQ(allot_peer_next(peer, 0, &object), -ENOENT);
	CHECK_EQ(allot_peer_import(peer, fd, &as, &again), 0);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(allot_peer_free(peer, at), 0);
	CHECK_EQ(available_bytes(first_id), 64 * MIB);
	allot_peer_close(peer);
}

/* Why is what failed, not what went wrong or was tried again while that was undone. */
static void test_undo(void)
{
	struct allot_peer_object object;
	uint64_t at;

	CHECK_EQ(open_devices(), 0);
	CHECK_EQ(alloc(MIB, 0, &at), 0);
	undo.err = EINTR;
	undo.times = 1;
	CHECK_EQ(allot_peer_map(peer, at, ALLOT_PEER_ALL), -EIO);
	CHECK(strstr(allot_peer_error(), strerror(EIO)));
	CHECK(strstr(allot_peer_error(), "as before"));
	undo.err = EPERM;
	undo.times = 1;
	CHECK_EQ(allot_peer_map(peer, at, ALLOT_PEER_ALL), -EIO);
	CHECK(strstr(allot_peer_error(), strerror(EIO)));
	CHECK(strstr(allot_peer_error(), "unmap it"));
	undo.err = 0;
	CHECK_EQ(allot_peer_find(peer, at, &object), 0);
	CHECK_EQ(object.devices, 1);
	CHECK_EQ(allot_peer_unmap(peer, at, ALLOT_PEER_ALL), 0);
	CHECK_EQ(allot_peer_free(peer, at), 0);
	allot_peer_close(peer);
}

/* A forked child whose number is that of the process that opened the handle, as numbers come again
 * and are the same in many namespaces. */
static void test_same_pid(void)
{
	struct allot_peer_object object;
	pid_t opener = getpid(), child;
	int status;
	uint64_t at;

	CHECK_EQ(open_devices(), 0);
	CHECK_EQ(alloc(MIB, 0, &at), 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		told_pid = opener;
		CHECK_EQ(allot_peer_find(peer, at, &object), -EBADF);
		CHECK_EQ(allot_peer_free(peer, at), -EBADF);
		allot_peer_close(peer);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_EQ(allot_peer_free(peer, at), 0);
	allot_peer_close(peer);
}

int main(void)
{
	test_open();
	test_hidden();
	test_without_registers();
	test_narrow();
	test_halves();
	test_undo();
	test_same_pid();
	return 0;
}
