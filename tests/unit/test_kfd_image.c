/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of /dev/kfd: written, read, of a former build (tests/golden/kfd-1), damaged in every byte,
 * of a later version. And the plan that is made of one for the kernel.
 *
 *     test_kfd_image GOLDEN          tests
 *     test_kfd_image GOLDEN write    makes tests/golden/kfd-1 anew, which changes what it is for
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amd/abi/kfd_criu.h"
#include "criu/kfd/kfd_content.h"
#include "criu/kfd/kfd_image.h"
#include "criu/kfd/kfd_plan.h"
#include "image/contents.h"
#include "image/crc32c.h"
#include "tests/check.h"

#define VRAM_RW	 (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)
#define IMPORTED (VRAM_RW | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE)
#define RING	 (VRAM_RW | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM)
#define BYTES	 8192
#define HOLDERS	 2 /* of each process */

static char why[KFD_WHY_BYTES];
static const struct contents_seal no_seal;

static void add(struct kfd_image *image, enum kfd_image_list list, const void *record, uint32_t n)
{
	CHECK(kfd_image_add(image, list, record, n) >= 0);
}

/* The kernel's data of a process: a head, two devices, its buffers, and an object. */
struct priv {
	struct kfd_criu_process_priv head;
	struct kfd_criu_device_priv devices[2];
	struct kfd_criu_bo_priv bos[HOLDERS];
	uint32_t object[2];
};

static void add_process(struct kfd_image *image, uint32_t number)
{
	const struct kfd_image_name names[2] = {{.gpu_id = 10111 + number, .gpu = 0},
						{.gpu_id = 10222 + number, .gpu = 1}};
	struct priv priv = {.head = {.version = KFD_CRIU_PRIV_VERSION}, .object = {77 + number}};
	struct kfd_image_process process = {.pid = 1000 + number,
					    .file = 5 + number,
					    .nobjects = 1,
					    .ndevices = 2,
					    .first_device = 2 * number,
					    .nholders = HOLDERS,
					    .first_holder = HOLDERS * number,
					    .priv_bytes = sizeof(priv),
					    .priv_at = number * sizeof(priv)};
	/* The first process has a ring and a buffer that the second has, too, at another handle. */
	struct kfd_image_holder holders[HOLDERS] = {
		{.address = 0x1000000,
		 .bytes = BYTES,
		 .offset = UINT64_C(1) << 40,
		 .mapped = 3,
		 .process = number,
		 .buffer = 0,
		 .gpu_id = names[0].gpu_id,
		 .index = number ? 4 : 1,
		 .flags = number ? IMPORTED : VRAM_RW},
		{.address = 0x2000000,
		 .bytes = BYTES,
		 .offset = UINT64_C(2) << 40,
		 .mapped = 1,
		 .process = number,
		 .buffer = 1 + number,
		 .gpu_id = names[0].gpu_id,
		 .index = number ? 1 : 0,
		 .flags = number ? VRAM_RW : RING},
	};

	for (int i = 0; i < HOLDERS; i++)
		priv.bos[i].idr_handle = holders[i].index;
	add(image, KFD_IMAGE_NAMES, names, 2);
	add(image, KFD_IMAGE_HOLDERS, holders, HOLDERS);
	add(image, KFD_IMAGE_BYTES, &priv, sizeof(priv));
	add(image, KFD_IMAGE_PROCESSES, &process, 1);
}

static void build(struct kfd_image *ret)
{
	const struct kfd_image_buffer buffers[] = {{BYTES, 0, 0}, {BYTES, 1, 0}, {BYTES, 3, 0}};
	const struct match_link links[] = {{0, 1, TOPOLOGY_LINK_XGMI}, {1, 0, TOPOLOGY_LINK_XGMI}};

	*ret = (struct kfd_image){.id = "golden"};
	for (uint32_t i = 0; i < 2; i++) {
		const struct match_gpu gpu = {.vram_bytes = UINT64_C(64) << 30,
					      .hive_id = 1,
					      .gpu_id = 10111 * (i + 1),
					      .render_minor = 129 + i,
					      .gfx_version = 90010};

		add(ret, KFD_IMAGE_GPUS, &gpu, 1);
	}
	add(ret, KFD_IMAGE_LINKS, links, 2);
	add(ret, KFD_IMAGE_BUFFERS, buffers, 3);
	add_process(ret, 0);
	add_process(ret, 1);
}

static void check_same(const struct kfd_image *a, const struct kfd_image *b)
{
	void *one, *other;
	size_t len, other_len;

	CHECK_EQ(kfd_image_pack(a, &one, &len), 0);
	CHECK_EQ(kfd_image_pack(b, &other, &other_len), 0);
	CHECK(len == other_len && !memcmp(one, other, len));
	free(one);
	free(other);
}

/* --- Content, of dma-bufs that are plain files in memory ----------------------------------------
 */

static int dmabufs[3];

static int dmabuf_of(void *arg, uint32_t buffer, uint32_t *ret_minor)
{
	*ret_minor = 0;
	return dmabufs[buffer];
}

static int read_from(const struct kfd_place *place, uint64_t offset, void *memory, size_t len)
{
	return pread(place->dmabuf, memory, len, (off_t)offset) == (ssize_t)len ? 0 : -EIO;
}

static int write_to(const struct kfd_place *place, uint64_t offset, const void *memory, size_t len)
{
	return pwrite(place->dmabuf, memory, len, (off_t)offset) == (ssize_t)len ? 0 : -EIO;
}

static const struct kfd_calls calls = {.read = read_from, .write = write_to};

static void make_dmabufs(bool filled)
{
	for (int i = 0; i < 3; i++) {
		dmabufs[i] = memfd_create("dmabuf", MFD_CLOEXEC);
		CHECK(dmabufs[i] >= 0 && ftruncate(dmabufs[i], BYTES) == 0);
		for (int at = 0; filled && at < BYTES; at += 16)
			CHECK(dprintf(dmabufs[i], "buffer %d %6d\n", i, at) == 16);
	}
}

static void check_dmabufs(void)
{
	char expected[32], got[32] = "";

	for (int i = 0; i < 3; i++) {
		for (int at = 0; at < BYTES; at += 16) {
			snprintf(expected, sizeof(expected), "buffer %d %6d\n", i, at);
			CHECK(pread(dmabufs[i], got, 16, at) == 16 && !strcmp(got, expected));
		}
		close(dmabufs[i]);
	}
}

static void write_all(int dir)
{
	struct kfd_image image;
	void *file;
	size_t len;

	build(&image);
	make_dmabufs(true);
	CHECK_EQ(kfd_image_pack(&image, &file, &len), 0);
	CHECK_EQ(kfd_content_save(&calls, &image, dmabuf_of, NULL, dir, 0,
				  &(struct contents_seal){len, crc32c(0, file, len)}, why), 0);
	CHECK_EQ(contents_put_file(dir, KFD_IMAGE_FILE, file, len), 0);
	check_dmabufs();
	free(file);
	kfd_image_done(&image);
}

static void read_image(int dir, struct kfd_image *ret)
{
	struct damage damage;
	void *file;
	size_t len;

	CHECK_EQ(contents_get_file(dir, KFD_IMAGE_FILE, KFD_IMAGE_MAX_BYTES, &file, &len),
		 0);
	CHECK_EQ(kfd_image_unpack(file, len, ret, &damage), 0);
	free(file);
}

/* What a former build has written is still what it was. */
static void test_golden(int dir)
{
	struct kfd_image image, expected;

	build(&expected);
	read_image(dir, &image);
	check_same(&image, &expected);
	make_dmabufs(false);
	for (uint32_t i = 0; i < 2; i++)
		CHECK_EQ(kfd_content_load(&calls, &image, i, dmabuf_of, NULL, dir, &no_seal, why), 0);
	check_dmabufs();
	kfd_image_done(&image);
	kfd_image_done(&expected);
}

/* --- Damage -------------------------------------------------------------------------------------
 */

static void check_refused(const char *file, size_t len, int expected)
{
	struct kfd_image image;
	struct damage damage = {.text = ""};
	char *copy = malloc(len + 1); /* of just that size, for ASan */
	int r;

	CHECK(copy);
	copy = realloc(copy, len ? len : 1);
	memcpy(copy, file, len);
	r = kfd_image_unpack(copy, len, &image, &damage);
	CHECK(r < 0 && *damage.text);
	CHECK(!expected || r == expected);
	free(copy);
}

static void seal(char *file, size_t len)
{
	uint32_t crc = crc32c(0, file, len - 4);

	memcpy(file + len - 4, &crc, 4);
}

/* Of each length that is too short, and with each byte changed. */
static void test_damage(void)
{
	struct kfd_image image;
	char *file;
	size_t len;

	build(&image);
	CHECK_EQ(kfd_image_pack(&image, (void **)&file, &len), 0);
	for (size_t n = 0; n < len; n++)
		check_refused(file, n, 0);
	for (size_t i = 0; i < len; i++) {
		file[i] ^= 0x10;
		check_refused(file, len, 0);
		file[i] ^= 0x10;
	}
	file[8]++; /* the version */
	seal(file, len);
	check_refused(file, len, -EPROTONOSUPPORT);
	free(file);
	kfd_image_done(&image);
}

/* One field each that makes no sense, in a file whose sum is right. */
static void test_nonsense(void)
{
	struct {
		enum kfd_image_list list;
		size_t at;
		uint32_t value;
	} rows[] = {
#define ROW(which, n, type, field, value)                                                          \
	{KFD_IMAGE_##which, (n) * sizeof(type) + offsetof(type, field), value}
		ROW(LINKS, 1, struct match_link, to, 2),
		ROW(PROCESSES, 0, struct kfd_image_process, ndevices, 1),
		ROW(PROCESSES, 1, struct kfd_image_process, first_device, 0),
		ROW(PROCESSES, 1, struct kfd_image_process, nholders, 3),
		ROW(PROCESSES, 1, struct kfd_image_process, nholders, 1),
		ROW(PROCESSES, 1, struct kfd_image_process, priv_bytes, 100),
		ROW(PROCESSES, 1, struct kfd_image_process, priv_at, 1 << 30),
		ROW(NAMES, 0, struct kfd_image_name, gpu, 2),
		ROW(NAMES, 0, struct kfd_image_name, gpu, 1),
		ROW(NAMES, 0, struct kfd_image_name, gpu_id, 0),
		ROW(BUFFERS, 0, struct kfd_image_buffer, owner, 1),
		ROW(BUFFERS, 0, struct kfd_image_buffer, owner, 4),
		ROW(BUFFERS, 0, struct kfd_image_buffer, gpu, 2),
		ROW(BUFFERS, 0, struct kfd_image_buffer, bytes, 4096),
		ROW(HOLDERS, 0, struct kfd_image_holder, process, 1),
		ROW(HOLDERS, 0, struct kfd_image_holder, buffer, 3),
		ROW(HOLDERS, 0, struct kfd_image_holder, gpu_id, 1),
		ROW(HOLDERS, 0, struct kfd_image_holder, bytes, 4097),
		ROW(HOLDERS, 0, struct kfd_image_holder, index, KFD_IMAGE_INDEX_MAX + 1),
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kfd_image image;
		void *file;
		size_t len;

		build(&image);
		memcpy((char *)image.list[rows[i].list] + rows[i].at, &rows[i].value, 4);
		if (kfd_image_pack(&image, &file, &len) != -EINVAL)
			fprintf(stderr, "row %zu\n", i);
		CHECK_EQ(kfd_image_pack(&image, &file, &len), -EINVAL);
		kfd_image_done(&image);
	}
}

/*
 * A later version 1: records of each list have a word more, and there is a list more. It reads as
 * what is known of it.
 */
static void test_later(void)
{
	struct kfd_image image, read;
	size_t len, at = 32 + KFD_IMAGE_LISTS * 8, to;
	char *file, *later = calloc(1, 1 << 20);
	uint32_t rows[KFD_IMAGE_LISTS + 1][2], nlists = KFD_IMAGE_LISTS + 1;
	struct damage damage;

	build(&image);
	CHECK(later && kfd_image_pack(&image, (void **)&file, &len) == 0);
	memcpy(later, file, 32);
	memcpy(later + 12, &nlists, 4);
	memcpy(rows, file + 32, KFD_IMAGE_LISTS * 8);
	to = 32 + sizeof(rows);
	for (int i = 0; i < KFD_IMAGE_LISTS; i++)
		for (uint32_t j = 0; j < rows[i][1]; j++) {
			memcpy(later + to, file + at, rows[i][0]);
			at += rows[i][0];
			to += rows[i][0] + 4;
		}
	for (int i = 0; i < KFD_IMAGE_LISTS; i++)
		rows[i][0] += 4;
	rows[KFD_IMAGE_LISTS][0] = 12;
	rows[KFD_IMAGE_LISTS][1] = 3;
	memcpy(later + 32, rows, sizeof(rows));
	to += 12 * 3 + 4;
	seal(later, to);
	CHECK_EQ(kfd_image_unpack(later, to, &read, &damage), 0);
	check_same(&image, &read);
	kfd_image_done(&image);
	kfd_image_done(&read);
	free(file);
	free(later);
}

/* Content that was cut at any byte is refused, and never that of another image. */
static void test_content_damage(int golden)
{
	char path[] = "/tmp/allot-kfd-image-XXXXXX", name[64];
	struct kfd_image image;
	void *file;
	size_t len;
	int dir, fd;

	CHECK(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	read_image(golden, &image);
	snprintf(name, sizeof(name), KFD_IMAGE_OBJECTS, 1);
	CHECK_EQ(contents_get_file(golden, name, 1 << 20, &file, &len), 0);
	make_dmabufs(false);
	CHECK_EQ(contents_put_file(dir, name, file, len), 0);
	CHECK_EQ(kfd_content_load(&calls, &image, 1, dmabuf_of, NULL, dir, &no_seal, why), 0);
	image.id[0]++;
	CHECK_EQ(kfd_content_load(&calls, &image, 1, dmabuf_of, NULL, dir, &no_seal, why), -EBADMSG);
	CHECK(strstr(why, name));
	image.id[0]--;
	fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	while (len--) {
		CHECK_EQ(ftruncate(fd, (off_t)len), 0);
		CHECK(kfd_content_load(&calls, &image, 1, dmabuf_of, NULL, dir, &no_seal, why) < 0);
	}
	close(fd);
	for (int i = 0; i < 3; i++)
		close(dmabufs[i]);
	unlinkat(dir, name, 0);
	rmdir(path);
	close(dir);
	free(file);
	kfd_image_done(&image);
}

/* --- The plan -----------------------------------------------------------------------------------
 */

/*
 * The second process imports at handle 4 and has 1: what is lower is filled, behind its own
 * buffers, and all of the kernel's data that is not about buffers stays as it was.
 */
static void test_plan(void)
{
	const uint32_t fillers[] = {0, 2, 3};
	struct kfd_image image;
	const struct priv *was;
	const struct kfd_criu_bo_priv *privs;
	const uint32_t svm[2] = {KFD_CRIU_OBJECT_TYPE_SVM_RANGE, 0x5001};
	struct kfd_plan plan;

	build(&image);
	was = (const void *)(image.bytes + image.processes[1].priv_at);
	CHECK_EQ(kfd_plan_make(&image, 1, &plan), 0);
	CHECK(plan.args.num_bos == 5 && plan.nfillers == 3 && plan.args.num_objects == 1);
	privs = (const void *)(plan.priv + offsetof(struct priv, bos));
	CHECK(plan.bos[0].addr == 0 && plan.bos[0].size == 4096 && privs[0].idr_handle == 4);
	CHECK(plan.bos[1].addr == 0x2000000 && plan.bos[1].size == BYTES);
	CHECK_EQ(plan.bos[1].alloc_flags, VRAM_RW);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(plan.fillers[i].index, fillers[i]);
		CHECK_EQ(privs[2 + i].idr_handle, fillers[i]);
		CHECK(plan.bos[2 + i].gpu_id == 10112 && plan.bos[2 + i].size == 4096);
	}
	CHECK(!memcmp(plan.priv, was, offsetof(struct priv, bos)));
	CHECK(!memcmp(&privs[1], &was->bos[1], sizeof(privs[1])));
	CHECK(!memcmp(&privs[5], was->object, 8));
	CHECK_EQ(plan.args.priv_data_size, sizeof(*was) + 3 * sizeof(*privs));
	kfd_plan_done(&plan);

	/* The first imports nothing, and has a ring: of twice the addresses. */
	CHECK_EQ(kfd_plan_make(&image, 0, &plan), 0);
	CHECK(plan.args.num_bos == 2 && !plan.nfillers);
	CHECK(plan.bos[0].size == BYTES && plan.bos[1].size == 2 * BYTES);
	CHECK(!memcmp(plan.priv, image.bytes, sizeof(*was)));
	kfd_plan_done(&plan);

	/* A range of SVM is the kernel's own affair, behind buffers of whatever number. */
	memcpy(image.bytes + image.processes[1].priv_at + offsetof(struct priv, object), svm,
	       sizeof(svm));
	CHECK_EQ(kfd_plan_make(&image, 1, &plan), 0);
	privs = (const void *)(plan.priv + offsetof(struct priv, bos));
	CHECK(plan.args.num_objects == 1 && !memcmp(&privs[5], svm, sizeof(svm)));
	CHECK_EQ(plan.args.priv_data_size, sizeof(*was) + 3 * sizeof(*privs));
	kfd_plan_done(&plan);

	/* Of so many gaps none is filled; a buffer of its own is placed wherever it was. */
	image.holders[HOLDERS].index = KFD_PLAN_FILLERS + 1; /* and its own is below */
	CHECK_EQ(kfd_plan_make(&image, 1, &plan), 0);
	CHECK_EQ(plan.nfillers, KFD_PLAN_FILLERS);
	kfd_plan_done(&plan);
	image.holders[HOLDERS].index = KFD_PLAN_FILLERS + 2;
	CHECK_EQ(kfd_plan_make(&image, 1, &plan), -EFBIG);
	image.holders[HOLDERS].index = KFD_IMAGE_INDEX_MAX;
	CHECK_EQ(kfd_plan_make(&image, 1, &plan), -EFBIG);
	image.holders[HOLDERS].index = 4;
	image.holders[HOLDERS + 1].index = KFD_IMAGE_INDEX_MAX;
	CHECK_EQ(kfd_plan_make(&image, 1, &plan), 0);
	CHECK_EQ(plan.nfillers, 4);
	kfd_plan_done(&plan);
	kfd_image_done(&image);
}

int main(int argc, char *argv[])
{
	char path[4096];
	int dir;

	CHECK(argc >= 2);
	snprintf(path, sizeof(path), "%s/kfd-1", argv[1]);
	if (argc == 3)
		mkdir(path, 0755);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0);
	if (argc == 3) {
		write_all(dir);
		return 0;
	}
	test_golden(dir);
	test_damage();
	test_nonsense();
	test_later();
	test_content_damage(dir);
	test_plan();
	close(dir);
	return 0;
}
