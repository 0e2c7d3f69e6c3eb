/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images: what is written comes back; what is damaged in any byte, cut off anywhere or never
 * finished is refused, with words; and one that was written by version 1 is read for ever.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "base/fd.h"
#include "image/crc32c.h"
#include "image/format.h"
#include "image/packing.h"
#include "tests/unit/image_fixture.h"

static char top[64] = "/dev/shm/allot-test-image-XXXXXX";
static char dir[128];

static void test_crc(void)
{
	uint8_t buf[300];
	uint64_t state = 1;

	CHECK_EQ(crc32c(0, "123456789", 9), 0xe3069283);
	CHECK_EQ(crc32c_by_table(0, "123456789", 9), 0xe3069283);
	CHECK_EQ(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
	CHECK_EQ(crc32c(0, "", 0), 0);
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)fixture_random(&state);
	for (int i = 0; i < 1000; i++) {
		size_t from = fixture_random(&state) % 100, len = fixture_random(&state) % 200;

		CHECK_EQ(crc32c(7, buf + from, len), crc32c_by_table(7, buf + from, len));
	}
}

static void test_round_trips(void)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		uint32_t nobjects = (uint32_t)(seed * 7 % 23);
		int level = packing_offered() ? (int)(seed % 3) : 0;

		fixture_write(dir, seed, nobjects, level);
		fixture_check(dir, seed, nobjects);
		fixture_remove(dir);
	}
	if (!packing_offered()) {
		struct manifest m = fixture_manifest();
		struct image_draft *draft;

		CHECK_EQ(image_create(dir, &m, 1, &draft), -ENOTSUP);
		manifest_done(&m);
	}
}

/* Sizes and offsets that need more than 32 bits, and content larger than an extent. */
static void test_large(void)
{
	struct manifest m = fixture_manifest();
	struct object object = {.bytes = UINT64_C(6) << 30};
	size_t len = 2 * OBJECT_EXTENT + 3 * PAGE;
	uint8_t *data = malloc(len);
	struct object_extent extent;
	struct image_draft *draft;
	struct damage damage;
	struct image *image;
	struct object found;
	uint64_t at = UINT64_C(5) << 30, end = at;
	char path[160];
	struct stat st;

	CHECK(data);
	memset(data, 9, len);
	CHECK_EQ(image_create(dir, &m, 0, &draft), 0);
	CHECK_EQ(object_writer_begin(image_writer(draft), &object), 0);
	CHECK_EQ(object_writer_content(image_writer(draft), at, data, len), 0);
	CHECK_EQ(image_commit(draft), 0);
	snprintf(path, sizeof(path), "%s/" IMAGE_OBJECTS, dir);
	CHECK_EQ(stat(path, &st), 0);
	CHECK((size_t)st.st_size >= len && (size_t)st.st_size < len + 4096);
	CHECK_EQ(image_open(dir, false, &image, &damage), 0);
	CHECK_EQ(object_reader_next(image_reader(image), &found, &damage), 1);
	CHECK_EQ(found.bytes, object.bytes);
	while (object_reader_content(image_reader(image), &extent, &damage) > 0) {
		CHECK_EQ(extent.offset, end);
		CHECK(!memcmp(extent.data, data, extent.bytes));
		end += extent.bytes;
	}
	CHECK_EQ(end, at + len);
	CHECK_EQ(object_reader_next(image_reader(image), &found, &damage), 0);
	image_close(image);
	fixture_remove(dir);
	manifest_done(&m);
	free(data);
}

static void test_misuse(void)
{
	struct manifest m = fixture_manifest(), other = fixture_manifest();
	struct object_holder holder = {.process = 1, .bytes = PAGE};
	struct object object = {.bytes = 3 * PAGE, .nholders = 1, .holders = &holder}, wrong;
	static uint8_t page[2 * PAGE] = {1};
	struct image_draft *draft, *second;
	struct object_writer *w;
	struct damage damage;
	struct image *image;

	CHECK_EQ(image_create("/nonexistent/dir", &m, 0, &draft), -ENOENT);
	CHECK_EQ(image_create(dir, &m, 99, &draft), -EINVAL);
	CHECK_EQ(image_create(dir, &m, 0, &draft), 0);
	CHECK_EQ(image_create(dir, &other, 0, &second), -EBUSY);
	w = image_writer(draft);
	CHECK_EQ(object_writer_content(w, 0, page, PAGE), -EINVAL); /* of no object */
	wrong = object, wrong.device = 2;
	CHECK_EQ(object_writer_begin(w, &wrong), -EINVAL);
	wrong = object, wrong.bytes = 0;
	CHECK_EQ(object_writer_begin(w, &wrong), -EINVAL);
	holder.bytes = 4 * PAGE;
	CHECK_EQ(object_writer_begin(w, &object), -EINVAL);
	holder.bytes = PAGE;
	CHECK_EQ(object_writer_begin(w, &object), 0);
	CHECK_EQ(object_writer_content(w, 1, page, PAGE), -EINVAL);
	CHECK_EQ(object_writer_content(w, 0, page, PAGE + 1), -EINVAL);
	CHECK_EQ(object_writer_content(w, 2 * PAGE, page, 2 * PAGE), -EINVAL);
	CHECK_EQ(object_writer_content(w, PAGE, page, PAGE), 0);
	CHECK_EQ(object_writer_content(w, 0, page, PAGE), -EINVAL); /* backwards */
	/* A holder that is no process of the manifest as it is in the end. */
	holder.process = 3;
	CHECK_EQ(object_writer_begin(w, &object), 0);
	CHECK_EQ(image_commit(draft), 0);
	CHECK_EQ(image_open(dir, false, &image, &damage), 0);
	CHECK_EQ(image_verify(image, NULL, NULL, &damage), -EBADMSG);
	CHECK(strstr(damage.text, "object 1: a holder is no process of the manifest"));
	CHECK_EQ(damage.object, 1);
	image_close(image);
	CHECK_EQ(image_create(dir, &m, 0, &draft), -EEXIST);
	fixture_remove(dir);

	CHECK_EQ(image_open(dir, false, &image, &damage), -ENOENT);
	CHECK_EQ(image_create(dir, &m, 0, &draft), 0);
	CHECK_EQ(image_open(dir, false, &image, &damage), -ENOENT);
	CHECK(strstr(damage.text, "never finished"));
	image_abort(draft);
	CHECK_EQ(rmdir(dir), 0); /* nothing was left */
	m.policy.weight = 0, m.policy.device[0].limit_bytes = 0; /* no policy at all */
	CHECK_EQ(image_create(dir, &m, 0, &draft), 0);
	CHECK_EQ(image_commit(draft), -EINVAL);
	CHECK_EQ(rmdir(dir), 0);
	manifest_done(&m);
	manifest_done(&other);
}

static uint8_t *file_read(const char *name, size_t *ret_len)
{
	char path[256];
	struct stat st;
	uint8_t *data;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && !fstat(fd, &st));
	data = malloc((size_t)st.st_size + 1);
	CHECK(data);
	CHECK_EQ(fd_pread_all(fd, data, (size_t)st.st_size, 0), 0);
	close(fd);
	*ret_len = (size_t)st.st_size;
	return data;
}

static void file_write(const char *name, const void *data, size_t len)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(fd_pwrite_all(fd, data, len, 0), 0);
	close(fd);
}

static void check_refused(const char *file, const char *what, size_t at)
{
	struct damage damage = {0};
	int r = fixture_verify(dir, &damage);

	if (!r || !damage.text[0])
		fprintf(stderr, "%s, %s at %zu: %d %s\n", file, what, at, r, damage.text);
	CHECK(r == -EBADMSG || r == -ENODATA || r == -EPROTONOSUPPORT);
	CHECK(damage.text[0] && !strchr(damage.text, '\n'));
}

static void check_every_byte(const char *name)
{
	size_t len;
	uint8_t *data = file_read(name, &len);

	for (size_t i = 0; i < len; i++) {
		file_write(name, data, i);
		check_refused(name, "cut off", i);
	}
	for (size_t i = 0; i < len; i++) {
		uint8_t was = data[i];

		data[i] = (uint8_t)(was ^ 1u << i % 8);
		file_write(name, data, len);
		check_refused(name, "flipped", i);
		data[i] = (uint8_t)~was;
		file_write(name, data, len);
		check_refused(name, "inverted", i);
		data[i] = was;
	}
	file_write(name, "", 0);
	check_refused(name, "emptied", 0);
	data[len] = 0;
	file_write(name, data, len + 1);
	check_refused(name, "longer", len);
	file_write(name, data, len);
	free(data);
}

/* A few KiB of image, once as it is and once packed. */
static void test_every_byte(void)
{
	static uint8_t pages[2 * PAGE];
	struct object_holder holder = {.process = 2, .address = PAGE, .bytes = PAGE};
	struct object object = {.bytes = 2 * PAGE, .nholders = 1, .holders = &holder};

	for (int level = 0; level <= packing_offered(); level++) {
		struct manifest m = fixture_manifest();
		struct image_draft *draft;
		struct damage damage;

		CHECK_EQ(image_create(dir, &m, level, &draft), 0);
		memset(pages, 0, sizeof(pages));
		memset(pages + 100, 3, level ? PAGE : 300);
		CHECK_EQ(object_writer_begin(image_writer(draft), &object), 0);
		CHECK_EQ(object_writer_content(image_writer(draft), 0, pages, sizeof(pages)), 0);
		CHECK_EQ(object_writer_begin(image_writer(draft), &object), 0);
		CHECK_EQ(image_commit(draft), 0);
		manifest_done(&m);
		CHECK_EQ(fixture_verify(dir, &damage), 0);
		check_every_byte("objects");
		check_every_byte("manifest.json");
		CHECK_EQ(fixture_verify(dir, &damage), 0);
		fixture_remove(dir);
	}
}

/* Fields that are wrong, in records whose CRCs are right. */
static void reseal(uint8_t *data, size_t at)
{
	struct format_record r;

	memcpy(&r, data + at, sizeof(r));
	r.crc = crc32c(0, &r, offsetof(struct format_record, crc));
	memcpy(data + at, &r, sizeof(r));
}

static void check_field(uint8_t *data, size_t len, size_t at, size_t field, uint8_t value, int want,
			const char *words)
{
	uint8_t was = data[at + field], record[sizeof(struct format_record)];
	struct damage damage = {0};
	int r;

	memcpy(record, data + at, sizeof(record));
	data[at + field] = value;
	reseal(data, at);
	file_write("objects", data, len);
	r = fixture_verify(dir, &damage);
	if (r != want || !strstr(damage.text, words))
		fprintf(stderr, "%zu+%zu: %d, %s\n", at, field, r, damage.text);
	CHECK_EQ(r, want);
	CHECK(strstr(damage.text, words));
	CHECK(!want || damage.offset == at || at == 0);
	memcpy(data + at, record, sizeof(record));
	CHECK_EQ(data[at + field], was);
}

#define FIELD(name) offsetof(struct format_record, name)

static void test_fields(void)
{
	static uint8_t page[PAGE] = {5};
	struct object object = {.bytes = 3 * PAGE};
	struct manifest m = fixture_manifest();
	struct image_draft *draft;
	struct damage damage;
	uint8_t *data;
	size_t len, first = 64, extent = 128, end = 192 + PAGE;

	CHECK_EQ(image_create(dir, &m, 0, &draft), 0);
	CHECK_EQ(object_writer_begin(image_writer(draft), &object), 0);
	CHECK_EQ(object_writer_content(image_writer(draft), PAGE, page, PAGE), 0);
	CHECK_EQ(image_commit(draft), 0);
	manifest_done(&m);
	data = file_read("objects", &len);
	CHECK_EQ(len, 64 + 64 + 64 + PAGE + 64 + 64);

	check_field(data, len, 0, offsetof(struct format_header, version), 2, -EPROTONOSUPPORT,
		    "byte 0: it is of version 2; this allot reads version 1");
	check_field(data, len, 0, offsetof(struct format_header, page_bytes), 1, -EBADMSG, "sizes");
	check_field(data, len, first, FIELD(which), 2, -EBADMSG,
		    "objects, byte 64, object 0: its device is none");
	check_field(data, len, first, FIELD(a) + 6, 1, -EBADMSG, "its size is none");
	check_field(data, len, first, FIELD(number), 5, -EBADMSG, "it is record 5");
	check_field(data, len, first, FIELD(payload_bytes), 7, -EBADMSG, "holders are cut off");
	check_field(data, len, first, FIELD(payload_bytes) + 3, 0xc0, -EBADMSG, "payload");
	check_field(data, len, first, FIELD(type), 9, -EPROTONOSUPPORT, "records of type 9");
	check_field(data, len, first, FIELD(type), FORMAT_EXTENT, -EBADMSG,
		    "content without an object");
	check_field(data, len, extent, FIELD(a) + 1, 0x30, -EBADMSG, "not where it may be");
	check_field(data, len, extent, FIELD(a), 1, -EBADMSG, "not where it may be");
	check_field(data, len, extent, FIELD(b) + 4, 1, -EBADMSG, "not where it may be");
	check_field(data, len, extent, FIELD(b) + 1, 0x30, -EBADMSG, "not where it may be");
	check_field(data, len, extent, FIELD(which), 1, -EBADMSG, "not where it may be");
	check_field(data, len, extent, FIELD(packing), 2, -EPROTONOSUPPORT, "compressed in a way");
	check_field(data, len, extent, FIELD(packing), FORMAT_ZSTD, -EBADMSG, "its payload");
	check_field(data, len, extent, FIELD(type), FORMAT_END, -EBADMSG, "does not end");
	check_field(data, len, end, FIELD(b), 2, -EBADMSG, "not what was written");
	check_field(data, len, end, FIELD(c), (uint8_t)~data[end + FIELD(c)], -EBADMSG,
		    "not what was written");
	check_field(data, len, len - 64, FIELD(which), 2, -EBADMSG, "the last record tells of 2");

	/* What a later version may add is passed over, if it says that it may be. */
	data[end + FIELD(type)] = 77;
	data[end + FIELD(flags)] = FORMAT_OPTIONAL;
	reseal(data, end);
	file_write("objects", data, len);
	CHECK_EQ(fixture_verify(dir, &damage), -EBADMSG); /* and then the object's end is missing */
	CHECK(strstr(damage.text, "the object does not end"));
	CHECK_EQ(damage.offset, len - 64);
	fixture_remove(dir);
	free(data);
}

/* What order alone tells: content that comes twice, and what is behind the end. */
static void test_order(void)
{
	static uint8_t pages[3 * PAGE];
	struct object object = {.bytes = sizeof(pages)};
	struct manifest m = fixture_manifest();
	struct image_draft *draft;
	struct damage damage;
	struct image *image;
	uint8_t *data, *longer;
	size_t len, second = 64 + 64 + 64 + PAGE;

	pages[0] = pages[2 * PAGE] = 1;
	CHECK_EQ(image_create(dir, &m, 0, &draft), 0);
	CHECK_EQ(object_writer_begin(image_writer(draft), &object), 0);
	CHECK_EQ(object_writer_content(image_writer(draft), 0, pages, sizeof(pages)), 0);
	CHECK_EQ(image_commit(draft), 0);
	manifest_done(&m);
	data = file_read("objects", &len);
	check_field(data, len, second, FIELD(a) + 1, 0, -EBADMSG, "not where it may be");

	longer = malloc(len + 64);
	CHECK(longer);
	memcpy(longer, data, len);
	memcpy(longer + len, data + len - 64, 64);
	file_write("objects", longer, len + 64);
	CHECK_EQ(fixture_verify(dir, &damage), -EBADMSG);
	CHECK(strstr(damage.text, "behind the last record"));
	CHECK_EQ(damage.offset, len);

	/* Seen before anything is read of it. */
	file_write("objects", data, len - 1);
	CHECK_EQ(image_open(dir, false, &image, &damage), -ENODATA);
	CHECK_EQ(damage.offset, len - 1);
	fixture_remove(dir);
	free(data);
	free(longer);
}

/* With what images of before lack, as the fixture's does. */
static struct manifest placed_manifest(void)
{
	struct manifest m = fixture_manifest();

	m.policy.flags = POLICY_SWAPPABLE;
	m.policy.host_bytes = UINT64_C(9) << 30;
	strcpy(m.policy.swap_dir, "/var/tmp");
	return m;
}

static void check_manifest(const char *from, const char *to, const char *words)
{
	struct manifest m = placed_manifest(), again;
	struct damage damage;
	char *text, *at, changed[8192];
	size_t len;

	CHECK_EQ(manifest_write(&m, &text, &len), 0);
	at = strstr(text, from);
	CHECK(at);
	CHECK((size_t)snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text, to,
			       at + strlen(from)) < sizeof(changed));
	if (words) {
		CHECK(manifest_read(changed, strlen(changed), &again, &damage) < 0);
		if (!strstr(damage.text, words))
			fprintf(stderr, "%s: %s\n", to, damage.text);
		CHECK(strstr(damage.text, words));
	} else {
		CHECK_EQ(manifest_read(changed, strlen(changed), &again, &damage), 0);
		manifest_done(&again);
	}
	free(text);
	manifest_done(&m);
}

static void test_manifest(void)
{
	struct manifest m = placed_manifest(), again;
	struct damage damage;
	char *text;
	size_t len;

	strcpy(m.processes[0].command, "caf\xe9 \xff");
	CHECK_EQ(manifest_write(&m, &text, &len), 0);
	CHECK_EQ(manifest_read(text, len, &again, &damage), 0);
	CHECK(!strcmp(again.processes[0].command, "caf? ?"));
	CHECK(!memcmp(&again.policy, &m.policy, sizeof(m.policy)));
	manifest_done(&again);
	manifest_done(&m);
	free(text);

	check_manifest("\"allot_image\": 1", "\"later\": {\"x\": []}, \"allot_image\": 1", NULL);
	check_manifest("\"allot_image\": 1", "\"allot_image\": 2", "it is of version 2");
	check_manifest("\"allot_image\": 1", "\"allot_image\": \"1\"", "\"allot_image\" is missing");
	check_manifest("\"policy\"", "\"polity\"", "\"devices\" is missing");
	check_manifest("\"limit_bytes\": 42949672960", "\"limit_bytes\": 0", "none that a tenant");
	check_manifest("\"weight\": 3", "\"weight\": -3", "\"weight\" is missing, or no number");
	check_manifest("\"weight\": 3", "\"weight\": 99999999999", "\"weight\"");
	check_manifest("\"host_bytes\": 9663676416", "\"host_bytes\": -1", "\"host_bytes\"");
	check_manifest("\"swap_dir\": \"/var", "\"swap_dir\": \"var", "none that a tenant");
	check_manifest("\"swap_dir\": \"/var/tmp\"", "\"swap_dir\": null",
		       "\"swap_dir\" is missing");
	/* Images of before had neither. */
	check_manifest("\"host_bytes\"", "\"of_before\"", NULL);
	check_manifest("\"swap_dir\"", "\"of_before\"", NULL);
	check_manifest("\"pid\": 1001", "\"pid\": 1.5", "\"pid\"");
	check_manifest("\"pid\": 1001", "\"pid\": 1001, \"pid\": 2", "line ");
	check_manifest("GPU-11111111", "GPU-1111111", "\"uuid\" names no device");
	check_manifest("\"sm_count\": 132", "\"sm_count\": null", "\"sm_count\"");
	check_manifest("\"id\": \"0", "\"id\": \"Z", "\"id\" is not 32");
	check_manifest("{", "[", "line ");
}

/* Killed at each step of a commit: an image that is whole, or none, and room for the next one. */
static void test_kills(void)
{
#ifdef ALLOT_FAULT_POINTS
	for (int point = FAULT_IMAGE_OBJECTS_WRITTEN; point <= FAULT_IMAGE_NAMED; point++) {
		struct damage damage;
		int status, r;
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			CHECK_EQ(fault_arm(fault_name((enum fault_point)point)), 0);
			fixture_write(dir, 5, 3, 0);
			_exit(0);
		}
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		r = fixture_verify(dir, &damage);
		CHECK_EQ(r, point == FAULT_IMAGE_NAMED ? 0 : -ENOENT);
		if (r < 0) {
			CHECK(strstr(damage.text, "never finished"));
			fixture_write(dir, 6, 4, 0);
			fixture_check(dir, 6, 4);
		}
		fixture_remove(dir);
	}
#endif
}

/* A disk that is full leaves no image and no files. */
static void test_full(void)
{
	struct object_limits limits = {.ndevices = 1};
	struct object_writer *w;
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	if (full < 0)
		return;
	CHECK_EQ(object_writer_open(full, (uint8_t[16]){0}, &limits, 0, &w), -ENOSPC);
	close(full);
}

/* Made once, by `test_image write`, when version 1 was new: from now on it is read as it is. */
#define GOLDEN_SEED 13
#define GOLDEN_OBJECTS 4

static void test_golden(const char *golden)
{
	char path[512];

	fixture_most_pages = 3;
	snprintf(path, sizeof(path), "%s/image-1", golden);
	fixture_check(path, GOLDEN_SEED, GOLDEN_OBJECTS);
	snprintf(path, sizeof(path), "%s/image-1-zstd", golden);
	if (packing_offered())
		fixture_check(path, GOLDEN_SEED, GOLDEN_OBJECTS);
}

/* Whoever opens a FIFO waits for somebody who writes, and there is none. */
static void test_no_files(void)
{
	static const char *const names[] = {"manifest.json", "objects"};
	char path[160];
	struct damage damage;
	struct image *image;

	for (int i = 0; i < 2; i++) {
		fixture_write(dir, 1, 1, 0);
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		CHECK_EQ(unlink(path), 0);
		CHECK_EQ(mkfifo(path, 0600), 0);
		alarm(10);
		CHECK_EQ(image_open(dir, false, &image, &damage), -EBADMSG);
		alarm(0);
		fixture_remove(dir);
	}
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "write")) {
		fixture_most_pages = 3;
		fixture_write(argv[2], GOLDEN_SEED, GOLDEN_OBJECTS, atoi(argv[3]));
		return 0;
	}
	CHECK(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/image", top);
	test_crc();
	test_round_trips();
	test_large();
	test_misuse();
	test_manifest();
	test_fields();
	test_order();
	test_every_byte();
	test_kills();
	test_full();
	test_no_files();
	if (argc == 2)
		test_golden(argv[1]);
	CHECK_EQ(rmdir(top), 0);
	return 0;
}
