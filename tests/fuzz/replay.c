/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay DIRECTORY: every file of a corpus, then each of them cut short at every length and with
 * every byte changed once, through a fuzzer's function. The same inputs every time.
 */
#include <dirent.h>
#include <limits.h>
#include <string.h>

#include "tests/check.h"
#include "tests/fuzz/fuzz.h"

#define MOST_BYTES    (1 << 20)
#define MOST_CHANGES  400 /* for each file, so that a large one takes no longer */

/* In a block of exactly its size, so that a sanitizer sees a read past the end. */
static void feed(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	CHECK(copy);
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void replay(const char *path, uint8_t *buf)
{
	FILE *file = fopen(path, "re");
	size_t size, step;

	if (!file) {
		perror(path);
		exit(1);
	}
	size = fread(buf, 1, MOST_BYTES, file);
	CHECK(!ferror(file));
	fclose(file);
	feed(buf, size);
	step = size / MOST_CHANGES + 1;
	for (size_t i = 0; i < size; i += step) {
		uint8_t old = buf[i];

		feed(buf, i);
		buf[i] = (uint8_t)(old ^ (1u << (i % 8)));
		feed(buf, size);
		buf[i] = (uint8_t)~old;
		feed(buf, size);
		buf[i] = old;
	}
}

int main(int argc, char **argv)
{
	uint8_t *buf = malloc(MOST_BYTES);
	unsigned int n = 0;
	struct dirent *entry;
	DIR *dir;

	CHECK(argc == 2 && buf);
	dir = opendir(argv[1]);
	if (!dir) {
		perror(argv[1]);
		return 1;
	}
	feed(buf, 0);
	while ((entry = readdir(dir))) {
		char path[PATH_MAX];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
		replay(path, buf);
		n++;
	}
	closedir(dir);
	free(buf);
	CHECK(n > 0);
	return 0;
}
