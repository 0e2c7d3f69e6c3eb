/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a dump makes of the kernel's answers, which a table of functions gives here: who is a
 * buffer's owner, in whatever order processes come; and that processes go on after each error.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amd/abi/kfd_criu.h"
#include "criu/kfd/kfd_content.h"
#include "criu/kfd/kfd_dump.h"
#include "criu/kfd/kfd_image.h"
#include "tests/check.h"

#define GPU_ID	 10111
#define BYTES	 4096
#define RW	 (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)
#define IMPORTED (RW | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE)
#define MADE	 (IMPORTED | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE)
#define HOSTS	 ((IMPORTED & ~KFD_IOC_ALLOC_MEM_FLAGS_VRAM) | KFD_IOC_ALLOC_MEM_FLAGS_GTT)
#define MOST	 2 /* buffers of a process */

static char why[KFD_WHY_BYTES];

/* --- A kernel ------------------------------------------------------------------------------------
 */

/* A process, whose /dev/kfd is its place in this list. */
static struct process {
	uint32_t nbos;
	struct {
		int memory; /* of which the kernel gives a new descriptor each time */
		uint32_t flags, index;
		uint64_t bytes;
	} bos[MOST];
	uint32_t version;
	int fail_op, fail_errno; /* 0: nothing fails */
	int paused;
} processes[3];

static uint64_t priv_bytes(const struct process *p)
{
	return sizeof(struct kfd_criu_process_priv) + sizeof(struct kfd_criu_device_priv) +
	       p->nbos * sizeof(struct kfd_criu_bo_priv);
}

static void fill(const struct process *p, const struct kfd_ioctl_criu_args *a)
{
	struct kfd_criu_process_priv *head = (void *)(uintptr_t)a->priv_data;
	struct kfd_criu_bo_priv *privs =
		(void *)((char *)(head + 1) + sizeof(struct kfd_criu_device_priv));
	struct kfd_criu_bo_bucket *bos = (void *)(uintptr_t)a->bos;

	*(struct kfd_criu_device_bucket *)(uintptr_t)a->devices =
		(struct kfd_criu_device_bucket){.user_gpu_id = GPU_ID, .actual_gpu_id = GPU_ID};
	head->version = p->version;
	for (uint32_t i = 0; i < p->nbos; i++) {
		privs[i].idr_handle = p->bos[i].index;
		bos[i] = (struct kfd_criu_bo_bucket){
			.addr = 0x100000 * (i + 1),
			.size = p->bos[i].bytes,
			.gpu_id = GPU_ID,
			.alloc_flags = p->bos[i].flags,
			.dmabuf_fd = (uint32_t)fcntl(p->bos[i].memory, F_DUPFD_CLOEXEC, 0)};
	}
}

static int ask_kernel(int fd, unsigned long request, void *arg)
{
	struct process *p = &processes[fd];
	struct kfd_ioctl_criu_args *a = arg;

	if (p->fail_errno && p->fail_op == (int)a->op)
		return -p->fail_errno;
	switch (a->op) {
	case KFD_CRIU_OP_PROCESS_INFO:
		p->paused++;
		*a = (struct kfd_ioctl_criu_args){.priv_data_size = priv_bytes(p),
						  .num_devices = 1,
						  .num_bos = p->nbos,
						  .pid = 1000 + (uint32_t)fd};
		return 0;
	case KFD_CRIU_OP_CHECKPOINT:
		CHECK(p->paused);
		fill(p, a);
		return 0;
	case KFD_CRIU_OP_UNPAUSE:
		p->paused--;
		return 0;
	}
	return -EINVAL;
}

static int read_from(const struct kfd_place *place, uint64_t offset, void *memory, size_t len)
{
	return pread(place->dmabuf, memory, len, (off_t)offset) == (ssize_t)len ? 0 : -EPERM;
}

static const struct kfd_calls calls = {.ioctl = ask_kernel, .read = read_from};

static int make_memory(uint64_t bytes)
{
	int fd = memfd_create("memory", MFD_CLOEXEC);

	CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	return fd;
}

/* One shared buffer, at the handle that is the other process's private one. */
static void make_processes(uint32_t first_flags, uint32_t second_flags)
{
	int shared = make_memory(BYTES);

	memset(processes, 0, sizeof(processes));
	for (uint32_t i = 0; i < 2; i++) {
		struct process *p = &processes[i];

		p->version = KFD_CRIU_PRIV_VERSION;
		p->nbos = 2;
		p->bos[0].memory = shared;
		p->bos[0].index = i;
		p->bos[0].flags = i ? second_flags : first_flags;
		p->bos[1].memory = make_memory(BYTES);
		p->bos[1].index = !i;
		p->bos[1].flags = RW;
		p->bos[0].bytes = p->bos[1].bytes = BYTES;
	}
}

static void end_processes(void)
{
	close(processes[0].bos[0].memory);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(processes[i].paused, 0);
		close(processes[i].bos[1].memory);
	}
}

static struct kfd_dump *begin(void)
{
	static struct topology_node node = {.gpu_id = GPU_ID};
	static const struct topology topology = {.node_count = 1, .gpu_count = 1, .nodes = &node};
	struct kfd_dump *dump;

	CHECK_EQ(kfd_dump_open(&calls, &topology, &dump), 0);
	return dump;
}

/* --- Tests ---------------------------------------------------------------------------------------
 */

static void read_image(const char *path, struct kfd_image *ret)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct damage damage;
	void *file;
	size_t len;

	CHECK_EQ(contents_get_file(dir, KFD_IMAGE_FILE, 1 << 20, &file, &len), 0);
	CHECK_EQ(kfd_image_unpack(file, len, ret, &damage), 0);
	free(file);
	close(dir);
}

static void remove_image(const char *path)
{
	static const char *const names[] = {KFD_IMAGE_FILE, "allot-kfd-objects.0",
					    "allot-kfd-objects.1"};
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK(unlinkat(dir, names[i], 0) == 0 || errno == ENOENT);
	close(dir);
	CHECK_EQ(rmdir(path), 0);
}

#define REFUSED (KFD_IMAGE_NONE - 1)
#define GIVEN	true

/* The process that owns the shared buffer, which may be given away before. */
static uint32_t owner_of(uint32_t first_flags, uint32_t second_flags, bool given)
{
	char path[] = "/tmp/allot-kfd-dump-XXXXXX";
	struct kfd_image image = {.n = {0}};
	struct kfd_dump *dump = begin();
	uint32_t buffer, owner = REFUSED;
	struct stat st;
	int dir, r;

	make_processes(first_flags, second_flags);
	CHECK(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(kfd_dump_add(dump, 0, 7, why) == 0 && kfd_dump_add(dump, 1, 8, why) == 0);
	CHECK(processes[0].paused && processes[1].paused);
	CHECK_EQ(fstat(processes[0].bos[0].memory, &st), 0);
	CHECK_EQ(kfd_dump_find(dump, st.st_ino, &buffer), 0);
	CHECK_EQ(kfd_dump_is_made(dump, buffer), first_flags == MADE || second_flags == MADE);
	if (given)
		kfd_dump_give(dump, buffer);
	r = kfd_dump_write(dump, dir, 0, why);
	CHECK(r == 0 || r == -EXDEV);
	kfd_dump_close(dump);
	end_processes();
	if (r == 0) {
		read_image(path, &image);
		CHECK(image.n[KFD_IMAGE_BUFFERS] == 3 && image.n[KFD_IMAGE_HOLDERS] == 4);
		CHECK(image.holders[0].buffer == buffer && image.holders[2].buffer == buffer);
		CHECK(image.holders[1].buffer != image.holders[3].buffer);
		owner = image.buffers[buffer].owner;
		owner = owner == KFD_IMAGE_NONE ? owner : image.holders[owner].process;
	}
	kfd_image_done(&image);
	remove_image(path);
	close(dir);
	return owner;
}

/* Who has flags that no import has made it, in whatever order they come. */
static void test_owner(void)
{
	CHECK_EQ(owner_of(MADE, IMPORTED, !GIVEN), 0);
	CHECK_EQ(owner_of(IMPORTED, MADE, !GIVEN), 1);
	CHECK_EQ(owner_of(IMPORTED, IMPORTED, !GIVEN), REFUSED);
	CHECK(strstr(why, "process 1000") && strstr(why, "not among"));
	CHECK_EQ(owner_of(IMPORTED, IMPORTED, GIVEN), KFD_IMAGE_NONE);
	CHECK_EQ(owner_of(HOSTS, HOSTS, !GIVEN), 0);
}

static void test_errors(void)
{
	static const struct {
		int op, err;
		const char *says;
	} rows[] = {
		{KFD_CRIU_OP_PROCESS_INFO, EACCES, "CAP_CHECKPOINT_RESTORE"},
		{KFD_CRIU_OP_PROCESS_INFO, EBADF, "not traced"},
		{KFD_CRIU_OP_PROCESS_INFO, EOPNOTSUPP, "queues"},
		{KFD_CRIU_OP_CHECKPOINT, ENOMEM, "process 1000"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kfd_dump *dump = begin();

		make_processes(MADE, IMPORTED);
		processes[0].fail_op = rows[i].op;
		processes[0].fail_errno = rows[i].err;
		CHECK_EQ(kfd_dump_add(dump, 0, 7, why), -rows[i].err);
		CHECK(strstr(why, rows[i].says) && strstr(why, strerror(rows[i].err)));
		kfd_dump_close(dump);
		end_processes();
	}
}

/* Data of another version; one buffer of two sizes. */
static void test_nonsense(void)
{
	for (int what = 0; what < 2; what++) {
		struct kfd_dump *dump = begin();

		make_processes(MADE, IMPORTED);
		if (what)
			processes[1].bos[0].bytes = 2 * BYTES;
		else
			processes[1].version++;
		CHECK_EQ(kfd_dump_add(dump, 0, 7, why), 0);
		CHECK_EQ(kfd_dump_add(dump, 1, 8, why), what ? -EPROTO : -EPROTONOSUPPORT);
		CHECK(strstr(why, what ? "process 1001" : "version 1"));
		CHECK(processes[0].paused && !processes[1].paused);
		kfd_dump_close(dump);
		end_processes();
	}
}

/* Content that nobody reads is no content that is left out. */
static void test_unread(void)
{
	char path[] = "/tmp/allot-kfd-dump-XXXXXX";
	struct kfd_dump *dump = begin();
	int dir;

	make_processes(MADE, IMPORTED);
	CHECK_EQ(ftruncate(processes[1].bos[1].memory, 0), 0);
	CHECK(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(kfd_dump_add(dump, 0, 7, why) == 0 && kfd_dump_add(dump, 1, 8, why) == 0);
	CHECK_EQ(kfd_dump_write(dump, dir, 0, why), -EPERM);
	CHECK(strstr(why, "process 1001") && strstr(why, "GPU 10111"));
	CHECK(faccessat(dir, KFD_IMAGE_FILE, F_OK, 0) < 0);
	kfd_dump_close(dump);
	end_processes();
	remove_image(path);
	close(dir);
}

int main(void)
{
	test_owner();
	test_errors();
	test_nonsense();
	test_unread();
	return 0;
}
