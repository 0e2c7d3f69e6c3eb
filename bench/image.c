/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast images are written and read, in MB/s of the memory that they hold: to a file in memory
 * (the directory that is named, /dev/shm as a rule), so that it is the code that is measured and no
 * disk. Content: bytes that no packing makes smaller, zeroes, and half of each page the one or the
 * other, as much of what programs keep is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "image/crc32c.h"
#include "image/image.h"
#include "image/packing.h"

#define MIB (UINT64_C(1) << 20)
#define ROUNDS 5

static uint64_t object_bytes = 512 * MIB;
static uint8_t *content;

static void must(int r, const char *what)
{
	if (r < 0) {
		fprintf(stderr, "image: %s: %s\n", what, strerror(-r));
		exit(1);
	}
}

static double rate(uint64_t from_ns)
{
	return (double)object_bytes * 1e3 / (double)(now_monotonic_ns() - from_ns);
}

static void keep_best(double *best, double is)
{
	*best = is > *best ? is : *best;
}

static void fill(int percent)
{
	uint64_t state = 88172645463325252u;

	memset(content, 0, object_bytes);
	for (uint64_t page = 0; page < object_bytes; page += OBJECT_PAGE)
		for (int i = 0; i < OBJECT_PAGE * percent / 100; i += 8) {
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			memcpy(content + page + i, &state, sizeof(state));
		}
}

static void write_image(const char *dir, int level)
{
	struct manifest_device device = {.uuid = {1, 2, 3}, .model = "none"};
	struct manifest m = {.ndevices = 1, .devices = &device};
	struct object object = {.bytes = object_bytes};
	struct image_draft *draft;

	m.policy = (struct policy){.ndevices = 1, .name = "bench"};
	m.policy.device[0].limit_permille = 1000;
	must(image_create(dir, &m, level, &draft), "create");
	must(object_writer_begin(image_writer(draft), &object), "begin");
	must(object_writer_content(image_writer(draft), 0, content, object_bytes), "write");
	must(image_commit(draft), "commit");
}

static void read_image(const char *dir)
{
	struct damage damage;
	struct image *image;
	int r = image_open(dir, false, &image, &damage);

	if (!r)
		r = image_verify(image, NULL, NULL, &damage);
	if (r < 0)
		fprintf(stderr, "%s\n", damage.text);
	must(r, "read");
	image_close(image);
}

static void remove_image(const char *dir)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/objects", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/manifest.json", dir);
	unlink(path);
	rmdir(dir);
}

static void measure(const char *dir, const char *what, int percent, int level)
{
	double written = 0, read = 0;

	fill(percent);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t from = now_monotonic_ns();

		write_image(dir, level);
		keep_best(&written, rate(from));
		from = now_monotonic_ns();
		read_image(dir);
		keep_best(&read, rate(from));
		remove_image(dir);
	}
	printf("%-24s %8.0f MB/s written", what, written);
	if (percent) /* what is not there is read in no time */
		printf(" %8.0f MB/s read", read);
	putchar('\n');
}

int main(int argc, char **argv)
{
	char dir[256];
	double fast = 0, slow = 0;

	if (argc > 2)
		object_bytes = strtoull(argv[2], NULL, 10) * MIB;
	snprintf(dir, sizeof(dir), "%s/allot-bench-image-%ld", argc > 1 ? argv[1] : "/dev/shm",
		 (long)getpid());
	content = malloc(object_bytes);
	if (!content)
		must(-ENOMEM, "content");
	fill(100);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t from = now_monotonic_ns();
		volatile uint32_t crc = crc32c(0, content, object_bytes);

		keep_best(&fast, rate(from));
		from = now_monotonic_ns();
		crc = crc32c_by_table(crc, content, object_bytes);
		keep_best(&slow, rate(from));
	}
	printf("%-24s %8.0f MB/s, by table %8.0f MB/s\n", "CRC32C", fast, slow);
	measure(dir, "as it is", 100, 0);
	measure(dir, "zeroes", 0, 0);
	if (packing_offered()) {
		measure(dir, "zstd 1, random", 100, 1);
		measure(dir, "zstd 1, half zeroes", 50, 1);
	}
	return 0;
}
