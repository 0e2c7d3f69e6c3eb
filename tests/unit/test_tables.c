/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of lists whose records are longer or shorter than ours, and that ask for more memory than
 * they may. (That damage is refused, test_criu_catalog and test_kfd_image show of each byte.)
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "image/tables.h"
#include "tests/check.h"

#define MAX 4096

struct old {
	uint32_t a;
};

struct new {
	uint32_t a, b, c[64];
};

static const uint32_t old_bytes[] = {sizeof(struct old)}, new_bytes[] = {sizeof(struct new), 8};

static const struct tables_format old_format = {.magic = 7,
						.file = "some-file",
						.what = "file of a test",
						.version = 3,
						.max_bytes = MAX,
						.tail_bytes = 4,
						.nlists = 1,
						.record_bytes = old_bytes};

static void make(const struct tables_format *format, uint32_t count, void **ret, size_t *ret_len)
{
	const struct new record = {1, 2, {3}};
	uint32_t n[2] = {0};
	void *lists[2] = {NULL};

	for (uint32_t i = 0; i < count; i++)
		CHECK_EQ(tables_add(format, n, lists, 0, &record, 1), i);
	CHECK_EQ(tables_pack(format, "tail", n, lists, ret, ret_len), 0);
	tables_free(format, n, lists);
	CHECK(!lists[0] && !n[0]);
}

int main(void)
{
	struct tables_format new_format = old_format;
	uint32_t n[2] = {0};
	void *lists[2] = {NULL}, *file;
	struct damage damage;
	struct new *taken;
	char tail[4];
	size_t len;

	/* What the file does not have is zero. */
	new_format.nlists = 2;
	new_format.record_bytes = new_bytes;
	make(&old_format, 3, &file, &len);
	CHECK_EQ(tables_unpack(&new_format, file, len, tail, n, lists, NULL), 0);
	taken = lists[0];
	CHECK(n[0] == 3 && !n[1] && !lists[1] && !memcmp(tail, "tail", 4));
	CHECK(taken[2].a == 1 && !taken[2].b && !taken[2].c[0]);
	tables_free(&new_format, n, lists);
	free(file);

	/* A small file of short records is not a lot of memory. */
	make(&old_format, 100, &file, &len);
	CHECK_EQ(tables_unpack(&new_format, file, len, tail, n, lists, &damage), -EBADMSG);
	CHECK(strstr(damage.text, "too much") && !lists[0] && !n[0]);
	CHECK_EQ(tables_unpack(&old_format, file, len, tail, n, lists, &damage), 0);
	tables_free(&old_format, n, lists);
	free(file);

	/* What we do not know is passed over. */
	make(&new_format, 3, &file, &len);
	CHECK_EQ(tables_unpack(&old_format, file, len, tail, n, lists, NULL), 0);
	CHECK(n[0] == 3 && ((struct old *)lists[0])[2].a == 1);
	tables_free(&old_format, n, lists);
	free(file);

	/* More than a file may have is not written. */
	lists[0] = malloc(MAX);
	n[0] = MAX / sizeof(struct old);
	CHECK_EQ(tables_pack(&old_format, "tail", n, lists, &file, &len), -EFBIG);
	CHECK_EQ(tables_add(&old_format, n, lists, 0, lists[0], MAX), -ENOMEM);
	tables_free(&old_format, n, lists);
	return 0;
}
