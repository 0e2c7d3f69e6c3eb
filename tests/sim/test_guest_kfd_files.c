/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of AMD's driver in a tenant that has two of three emulated GPUs, with quotas: by whichever
 * function and path they are opened, sizes are the tenant's and all else is the driver's own, byte
 * for byte. Files of the third GPU cannot be read. What else a program opens stays as it is.
 */
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "ledger/policy.h"
#include "tests/files.h"
#include "tests/sim/kfd_program.h"

#define DEVICE "268435456" /* bytes of a GPU */
#define QUOTA  "67108864"  /* bytes of node 2's that the tenant has */
#define NODES  "/sys/devices/virtual/kfd/kfd/topology/nodes"
#define CLASS  "/sys/class/kfd/kfd/topology/nodes"
#define BANK   "/mem_banks/0/properties"
#define BANK_1 "/mem_banks/1/properties"
#define PLACE  "/sys/devices/pci0000:00/0000:02:00.0"
#define HIDDEN "/sys/devices/pci0000:00/0000:01:00.0"
#define TEXT   8192

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);

/* Where the emulator keeps the machine's files: what no hook has seen. */
static char root[PATH_MAX];

static void find_root(void)
{
	snprintf(root, sizeof(root), "%s/amd", getenv("ALLOT_SIM_DIR"));
}

static size_t raw(const char *path, char text[TEXT])
{
	char real[PATH_MAX];
	ssize_t n;
	long fd;

	CHECK(snprintf(real, sizeof(real), "%s%s", root, path) < PATH_MAX);
	fd = syscall(SYS_openat, AT_FDCWD, real, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	n = read((int)fd, text, TEXT - 1);
	CHECK(n >= 0);
	text[n] = '\0';
	close((int)fd);
	return (size_t)n;
}

static void write_raw(const char *path, const char *text)
{
	char real[PATH_MAX];
	long fd;

	CHECK(snprintf(real, sizeof(real), "%s%s", root, path) < PATH_MAX);
	fd = syscall(SYS_openat, AT_FDCWD, real, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0644);
	CHECK(fd >= 0);
	CHECK_EQ(write((int)fd, text, strlen(text)), strlen(text));
	close((int)fd);
}

/* The driver's own text with one number in place of another. */
static void expected(const char *path, const char *from, const char *to, char text[TEXT])
{
	char own[TEXT], *at;

	raw(path, own);
	at = strstr(own, from);
	CHECK(at);
	snprintf(text, TEXT, "%.*s%s%s", (int)(at - own), own, to, at + strlen(from));
}

/* Reads to the end from where it begins, and closes it. */
static void check_text(int fd, const char *text)
{
	char got[TEXT];
	ssize_t n;

	CHECK(fd >= 0);
	CHECK_EQ(lseek(fd, 0, SEEK_CUR), 0);
	n = read(fd, got, sizeof(got));
	CHECK_EQ(n, strlen(text));
	CHECK(!memcmp(got, text, (size_t)n));
	CHECK_EQ(read(fd, got, sizeof(got)), 0);
	close(fd);
}

static void check_stream(FILE *stream, const char *text)
{
	char got[TEXT];
	size_t n;

	CHECK(stream);
	n = fread(got, 1, sizeof(got), stream);
	CHECK_EQ(n, strlen(text));
	CHECK(!memcmp(got, text, n));
	CHECK(feof(stream) && !ferror(stream));
	CHECK(!fclose(stream));
}

static void test_every_way(void)
{
	char text[TEXT];
	int node = open(NODES "/2", O_RDONLY | O_DIRECTORY | O_CLOEXEC), here;

	CHECK(node >= 0);
	expected(NODES "/2" BANK, "size_in_bytes " DEVICE, "size_in_bytes " QUOTA, text);
	for (int i = 0; i < 2; i++) {
		const char *path = i ? NODES "/2" BANK : CLASS "/2" BANK;

		check_text(open(path, O_RDONLY), text);
		check_text(open64(path, O_RDONLY | O_CLOEXEC), text);
		check_text(openat(AT_FDCWD, path, O_RDONLY), text);
		check_text(openat64(node, path, O_RDONLY), text);
		check_text(__open_2(path, O_RDONLY), text);
		check_text(__open64_2(path, O_RDONLY), text);
		check_text(__openat_2(AT_FDCWD, path, O_RDONLY), text);
		check_text(__openat64_2(AT_FDCWD, path, O_RDONLY), text);
		check_stream(fopen(path, "r"), text);
		check_stream(fopen64(path, "re"), text);
	}
	check_text(openat(node, "mem_banks/0/properties", O_RDONLY), text);
	check_text(openat64(node, "../2/./mem_banks//0/properties", O_RDONLY), text);
	here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(here >= 0 && !fchdir(node));
	check_text(open("mem_banks/0/properties", O_RDONLY), text);
	check_stream(fopen("mem_banks/0/properties", "r"), text);
	CHECK(!fchdir(here));
	close(here);
	close(node);
}

/* By a link of the program's own to a folder. */
static void test_symlink(void)
{
	char dir[64] = "/dev/shm/allot-test-XXXXXX", link[80], path[160], target[PATH_MAX + 64];
	char text[TEXT];

	expected(NODES "/2" BANK, "size_in_bytes " DEVICE, "size_in_bytes " QUOTA, text);
	CHECK(mkdtemp(dir));
	snprintf(link, sizeof(link), "%s/x", dir);
	snprintf(target, sizeof(target), "%s" NODES "/2", root);
	CHECK(!symlink(target, link));
	snprintf(path, sizeof(path), "%s" BANK, link);
	check_text(open(path, O_RDONLY), text);
	check_stream(fopen(path, "r"), text);
	unlink(link);
	rmdir(dir);
}

/* Files that tell no size, of GPUs that the tenant has and of the machine. */
static void test_others(void)
{
	static const char *const same[] = {NODES "/2/gpu_id",
					   NODES "/2/name",
					   NODES "/2/properties",
					   NODES "/2/caches/0/properties",
					   NODES "/2/io_links/0/properties",
					   NODES "/0/gpu_id",
					   NODES "/0/properties",
					   NODES "/0" BANK,
					   NODES "/../generation_id"};
	char text[TEXT];

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		raw(same[i], text);
		check_text(open(same[i], O_RDONLY), text);
		check_stream(fopen(same[i], "r"), text);
	}
	raw(PLACE "/mem_info_gtt_total", text);
	check_text(open("/sys/class/drm/card1/device/mem_info_gtt_total", O_RDONLY), text);
	raw(HIDDEN "/vendor", text);
	check_text(open("/sys/class/drm/card0/device/vendor", O_RDONLY), text);
	CHECK(open(NODES "/2/properties", O_RDONLY | O_DIRECTORY) < 0 && errno == ENOTDIR);
	CHECK(open(NODES "/9/properties", O_RDONLY) < 0 && errno == ENOENT);
	CHECK(!fopen(NODES "/9/properties", "r") && errno == ENOENT);
}

static void test_mem_info(void)
{
	static const char *const ways[] = {"/sys/class/drm/renderD130/device/",
					   "/sys/class/drm/card1/device/",
					   "/sys/dev/char/226:130/device/"};
	char path[128];

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		const struct {
			const char *file, *text;
		} files[] = {{"mem_info_vram_total", QUOTA "\n"},
			     {"mem_info_vis_vram_total", QUOTA "\n"},
			     {"mem_info_vram_used", "0\n"},
			     {"mem_info_vis_vram_used", "0\n"}};

		for (size_t k = 0; k < sizeof(files) / sizeof(files[0]); k++) {
			snprintf(path, sizeof(path), "%s%s", ways[i], files[k].file);
			check_text(open(path, O_RDONLY), files[k].text);
			check_stream(fopen(path, "r"), files[k].text);
		}
	}
}

/* What is used is what the tenant's processes hold, and follows. */
static void test_used(void)
{
	struct kfd_ioctl_acquire_vm_args a;
	uint64_t handle;

	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	render[1] = open("/dev/dri/renderD130", O_RDWR | O_CLOEXEC);
	CHECK(kfd >= 0 && render[1] >= 0);
	ids[1] = 10222;
	a = (struct kfd_ioctl_acquire_vm_args){(uint32_t)render[1], ids[1]};
	CHECK_EQ(call(KFD_IOWR(ACQUIRE_VM, a), &a), 0);
	CHECK_EQ(alloc_vram(1, MIB, &handle), 0);
	check_text(open("/sys/class/drm/card1/device/mem_info_vram_used", O_RDONLY), "1048576\n");
	CHECK_EQ(call(KFD_IOWR(FREE_MEMORY_OF_GPU, handle), &handle), 0);
	check_text(open("/sys/class/drm/card1/device/mem_info_vram_used", O_RDONLY), "0\n");
}

static int set_limit(struct policy *policy, void *arg)
{
	policy->device[0].limit_bytes = *(const uint64_t *)arg;
	return 0;
}

/* `allot set` shows at once; never more than there is. */
static void test_set(void)
{
	const char *file = "/sys/class/drm/card1/device/mem_info_vram_total";
	const char *dir = getenv("ALLOT_TENANT_DIR");
	uint64_t limits[] = {4096, UINT64_C(1) << 40, 64 * MIB};
	const char *shown[] = {"4096\n", DEVICE "\n", QUOTA "\n"};

	for (int i = 0; i < 3; i++) {
		CHECK_EQ(policy_update(dir, set_limit, &limits[i]), 0);
		check_text(open(file, O_RDONLY), shown[i]);
	}
}

static void test_hidden(void)
{
	static const char *const files[] = {"/gpu_id",
					    "/name",
					    "/properties",
					    BANK,
					    "/caches/0/properties",
					    "/io_links/0/properties"};
	char path[128], text[8];
	FILE *stream;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), CLASS "/1%s", files[i]);
		CHECK(open(path, O_RDONLY) < 0 && errno == EPERM);
		stream = fopen(path, "r");
		CHECK(stream);
		errno = 0;
		CHECK_EQ(fread(text, 1, sizeof(text), stream), 0);
		CHECK(ferror(stream) && errno == EPERM);
		fclose(stream);
	}
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/sys/class/drm/%s/device/mem_info_vram_%s",
			 i ? "card0" : "renderD129", i ? "used" : "total");
		CHECK(open(path, O_RDONLY) < 0 && errno == EPERM);
		CHECK(!fopen(path, "r") && errno == EPERM);
	}
	CHECK(!fopen("/dev/dri/renderD129", "r") && errno == EPERM);
}

/* Torn, empty, or not what the kernel writes: an error, and no word of it. */
static void test_torn(void)
{
	static const char *const wrong[] = {"", "heap_type 1\nsize_in_bytes 2684",
					    "heap_type 1\nsize_in_bytes x\n", "heap_type 1\n"};
	char own[TEXT], *large;

	raw(NODES "/2" BANK, own);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		write_raw(NODES "/2" BANK, wrong[i]);
		CHECK(open(NODES "/2" BANK, O_RDONLY) < 0 && errno == EIO);
		CHECK(!fopen(NODES "/2" BANK, "r") && errno == EIO);
	}
	large = malloc(TEXT);
	CHECK(large);
	memset(large, '\n', TEXT - 1);
	large[TEXT - 1] = '\0';
	write_raw(NODES "/2" BANK, large);
	CHECK(open(NODES "/2" BANK, O_RDONLY) < 0 && errno == EIO);
	write_raw(NODES "/2" BANK, own);
	free(large);
}

/* The descriptor is the one that open would have given, with its flag; there is no other. */
static void test_descriptors(void)
{
	int before = count_files(), lowest = dup(0), fd;
	char path[64], byte = 0;

	CHECK(lowest >= 0);
	close(lowest);
	for (int i = 0; i < 64; i++) {
		fd = open(NODES "/2" BANK, O_RDONLY | (i & 1 ? O_CLOEXEC : 0));
		CHECK_EQ(fd, lowest);
		CHECK_EQ(fcntl(fd, F_GETFD), i & 1 ? FD_CLOEXEC : 0);
		CHECK(write(fd, &byte, 1) < 0);
		close(fd);
		CHECK(open(NODES "/1/properties", O_RDONLY) < 0);
		fclose(fopen(NODES "/1/properties", "r"));
	}
	CHECK_EQ(count_files(), before);
	close(0);
	CHECK_EQ(open(NODES "/2" BANK, O_RDONLY), 0);
	close(0);
	CHECK_EQ(fileno(fopen(NODES "/2" BANK, "re")), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", 0);
	fd = open(NODES "/2/mem_banks", O_PATH | O_DIRECTORY);
	CHECK(fd >= 0);
	close(fd);
}

/* Modes, errors and wild paths are as without a tenant. */
static void test_other_files(void)
{
	char path[64] = "/dev/shm/allot-test-XXXXXX", file[80];
	struct stat st;
	int fd;

	umask(0);
	CHECK(mkdtemp(path));
	snprintf(file, sizeof(file), "%s/properties", path);
	fd = open(file, O_CREAT | O_EXCL | O_RDWR, 0640);
	CHECK(fd >= 0 && !fstat(fd, &st));
	CHECK_EQ(st.st_mode & 0777, 0640);
	CHECK_EQ(write(fd, "x\n", 2), 2);
	close(fd);
	check_text(open(file, O_RDONLY), "x\n");
	check_stream(fopen(file, "r"), "x\n");
	CHECK(open(file, O_CREAT | O_EXCL | O_RDWR, 0640) < 0 && errno == EEXIST);
	fd = openat(AT_FDCWD, path, O_TMPFILE | O_RDWR, 0604);
	if (fd >= 0) {
		CHECK(!fstat(fd, &st));
		CHECK_EQ(st.st_mode & 0777, 0604);
		close(fd);
	}
	unlink(file);
	rmdir(path);
	CHECK(open((const char *)(uintptr_t)16, O_RDONLY) < 0 && errno == EFAULT);
	CHECK(openat(0, (const char *)(uintptr_t)-4096, O_RDONLY) < 0 && errno == EFAULT);
	CHECK(!fopen((const char *)(uintptr_t)16, "r") && errno == EFAULT);
	CHECK(open("", O_RDONLY) < 0 && errno == ENOENT);
	CHECK(open("properties", O_RDONLY) < 0 && errno == ENOENT);
	CHECK(!fopen("/dev/null", "x") && errno == EINVAL);
	fd = open("/dev/null", O_RDWR);
	CHECK(fd >= 0 && write(fd, "x", 1) == 1);
	close(fd);
}

static char shared_text[TEXT];

static void *read_often(void *arg)
{
	for (int i = 0; i < 200; i++) {
		check_text(open(NODES "/2" BANK, O_RDONLY | O_CLOEXEC), shared_text);
		check_stream(fopen(NODES "/2" BANK, "re"), shared_text);
	}
	return NULL;
}

/* Threads from the first call on, and children of a program that has them. */
static void test_threads(void)
{
	pthread_t thread[3];

	expected(NODES "/2" BANK, "size_in_bytes " DEVICE, "size_in_bytes " QUOTA, shared_text);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&thread[i], NULL, read_often, NULL));
	for (int i = 0; i < 10; i++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			check_text(open(NODES "/2" BANK, O_RDONLY), shared_text);
			CHECK(open(NODES "/1/gpu_id", O_RDONLY) < 0 && errno == EPERM);
			_exit(0);
		}
		end(child, 0);
	}
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(thread[i], NULL));
}

/* The program once more, which finds an argument then. */
static void run_again(const char *program, const char *how, const char *tenant)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		if (tenant)
			setenv("ALLOT_TENANT_DIR", tenant, 1);
		else
			leave_tenant();
		run_past_library(program, how);
		_exit(1);
	}
	end(child, 0);
}

/* Limits that cannot be read: no GPU, and none of its files; other files are as ever. */
static void closed(void)
{
	char text[TEXT];

	CHECK(open("/dev/kfd", O_RDWR) < 0 && errno == ENODEV);
	CHECK(open("/dev/dri/renderD130", O_RDWR) < 0 && errno == ENODEV);
	CHECK(open(NODES "/2" BANK, O_RDONLY) < 0 && errno == ENODEV);
	CHECK(!fopen("/sys/class/drm/card1/device/mem_info_vram_total", "r") && errno == ENODEV);
	raw(NODES "/../generation_id", text);
	check_text(open(NODES "/../generation_id", O_RDONLY), text);
}

/* No tenant: everything is the driver's. */
static void inert(void)
{
	char text[TEXT];

	raw(NODES "/1" BANK, text);
	check_text(open(NODES "/1" BANK, O_RDONLY), text);
	check_text(open("/sys/class/drm/card1/device/mem_info_vram_total", O_RDONLY), DEVICE "\n");
	CHECK(open("/dev/kfd", O_RDWR) >= 0 && open("/dev/dri/renderD129", O_RDWR) >= 0);
}

/* A GPU of whose memory the CPU reaches 32 MiB: these are the tenant's first, then others. */
static void two_banks(void)
{
	char text[TEXT];

	expected(NODES "/2/properties", "local_mem_size " DEVICE, "local_mem_size " QUOTA, text);
	check_text(open(NODES "/2/properties", O_RDONLY), text);
	raw(NODES "/2" BANK, text);
	check_text(open(NODES "/2" BANK, O_RDONLY), text);
	expected(NODES "/2" BANK_1, "size_in_bytes 234881024", "size_in_bytes 33554432", text);
	check_text(open(NODES "/2" BANK_1, O_RDONLY), text);
	check_text(open("/sys/class/drm/card1/device/mem_info_vram_total", O_RDONLY), QUOTA "\n");
	check_text(open(NODES "/2/mem_banks/0/used_memory", O_RDONLY), "0\n");
}

static void test_two_banks(const char *program)
{
	char bank[TEXT], properties[TEXT], text[TEXT], path[PATH_MAX];

	raw(NODES "/2" BANK, bank);
	raw(NODES "/2/properties", properties);
	expected(NODES "/2/properties", "mem_banks_count 1", "mem_banks_count 2", text);
	write_raw(NODES "/2/properties", text);
	expected(NODES "/2/properties", "local_mem_size 0", "local_mem_size " DEVICE, text);
	write_raw(NODES "/2/properties", text);
	expected(NODES "/2" BANK, "size_in_bytes " DEVICE, "size_in_bytes 33554432", text);
	write_raw(NODES "/2" BANK, text);
	CHECK(snprintf(path, sizeof(path), "%s" NODES "/2/mem_banks/1", root) < PATH_MAX);
	CHECK(!mkdir(path, 0755));
	write_raw(NODES "/2" BANK_1, "heap_type 2\nsize_in_bytes 234881024\nflags 0\nwidth 4096\n"
				     "mem_clk_max 1600\n");
	write_raw(NODES "/2/mem_banks/0/used_memory", "4096\n");
	run_again(program, "banks", getenv("ALLOT_TENANT_DIR"));
	write_raw(NODES "/2" BANK, bank);
	write_raw(NODES "/2/properties", properties);
}

/* GPUs at one place on the bus are parts of one: its figures are the tenant's parts together. */
static void one_place(void)
{
	check_text(open("/sys/class/drm/card1/device/mem_info_vram_total", O_RDONLY),
		   "100663296\n");
	check_text(open("/sys/class/drm/card1/device/mem_info_vram_used", O_RDONLY), "0\n");
}

static void test_one_place(const char *program)
{
	char properties[TEXT], text[TEXT];

	raw(NODES "/3/properties", properties);
	expected(NODES "/3/properties", "location_id 768", "location_id 512", text);
	write_raw(NODES "/3/properties", text);
	run_again(program, "place", getenv("ALLOT_TENANT_DIR"));
	write_raw(NODES "/3/properties", properties);
}

/* A container that was given render nodes alone. */
static void no_kfd(void)
{
	struct drm_amdgpu_info_vram_gtt sizes = {0};
	struct drm_amdgpu_info a = {.return_pointer = (uintptr_t)&sizes,
				    .return_size = sizeof(sizes),
				    .query = AMDGPU_INFO_VRAM_GTT};
	int file = open("/dev/dri/renderD130", O_RDWR | O_CLOEXEC);

	CHECK(open("/dev/kfd", O_RDWR) < 0 && errno == ENOENT);
	CHECK(open("/dev/dri/renderD129", O_RDWR) < 0 && errno == EPERM);
	CHECK(file >= 0);
	CHECK_EQ(drm(file, _IOW('d', DRM_NR_AMDGPU_INFO, a), &a), 0);
	CHECK_EQ(sizes.vram_size, 64 * MIB);
}

static void test_no_kfd(const char *program)
{
	char path[PATH_MAX], away[PATH_MAX];

	CHECK(snprintf(path, sizeof(path), "%s/dev/kfd", root) < PATH_MAX);
	CHECK(snprintf(away, sizeof(away), "%s/kfd", root) < PATH_MAX);
	CHECK(!rename(path, away));
	run_again(program, "no kfd", getenv("ALLOT_TENANT_DIR"));
	CHECK(!rename(away, path));
}

static int second_run(const char *how)
{
	if (!strcmp(how, "closed"))
		closed();
	else if (!strcmp(how, "inert"))
		inert();
	else if (!strcmp(how, "banks"))
		two_banks();
	else if (!strcmp(how, "no kfd"))
		no_kfd();
	else
		one_place();
	return 0;
}

int main(int argc, char **argv)
{
	find_root();
	if (argc > 1)
		return second_run(argv[1]);
	test_threads();
	test_every_way();
	test_symlink();
	test_others();
	test_mem_info();
	test_used();
	test_set();
	test_hidden();
	test_torn();
	test_other_files();
	run_again(argv[0], "closed", "/nowhere");
	run_again(argv[0], "inert", NULL);
	test_two_banks(argv[0]);
	test_one_place(argv[0]);
	test_no_kfd(argv[0]);
	test_descriptors();
	return 0;
}
