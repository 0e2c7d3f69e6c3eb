/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The catalog of CRIU's plugin: what is written is read, and what is not whole, or not ours, is not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "criu/catalog.h"
#include "image/crc32c.h"
#include "tests/check.h"

#define HEADER 40 /* bytes; the version is at 8, the number of rows at 12, the length at 16 */
#define ROW    8

static void make(struct catalog *c)
{
	*c = (struct catalog){.id = {1, 2, 3}};
	catalog_add(c, CATALOG_FILES, &(struct catalog_file){.id = 5, .minor = 128});
	catalog_add(c, CATALOG_FILES, &(struct catalog_file){.id = 6, .minor = 129});
	catalog_add(c, CATALOG_BUFFERS, &(struct catalog_buffer){.bytes = 65536, .domains = 4});
	catalog_add(c, CATALOG_BUFFERS, &(struct catalog_buffer){.bytes = 4096, .owner = 1});
	catalog_add(c, CATALOG_HOLDERS, &(struct catalog_holder){.handle = 7});
	catalog_add(c, CATALOG_HOLDERS, &(struct catalog_holder){.handle = 1, .buffer = 1});
	catalog_add(c, CATALOG_HOLDERS,
		    &(struct catalog_holder){.handle = 7, .file = 1, .mmap_offset = 4096});
	catalog_add(c, CATALOG_MAPPINGS, &(struct catalog_mapping){.holder = 2, .bytes = 4096});
}

/* A catalog with the lists that former builds have not written. */
static void make_all(struct catalog *c)
{
	make(c);
	catalog_add(c, CATALOG_CONTEXTS, &(struct catalog_context){1, 3});
	catalog_add(c, CATALOG_METADATA,
		    &(struct catalog_metadata){.holder = 2, .bytes = 4, .tiling = 7, .data = {9}});
}

static void seal(void *text, size_t len)
{
	uint64_t bytes = len;
	uint32_t crc;

	memcpy((char *)text + 16, &bytes, sizeof(bytes));
	crc = crc32c(0, text, len - sizeof(crc));
	memcpy((char *)text + len - sizeof(crc), &crc, sizeof(crc));
}

static uint32_t version_of(const void *text)
{
	return ((const uint32_t *)text)[2];
}

/* A build that does not know a list passes over it, and must not where that loses something. */
static void test_version(void)
{
	struct catalog c;
	void *text;
	size_t len;

	make(&c);
	CHECK_EQ(catalog_pack(&c, &text, &len), 0);
	CHECK_EQ(version_of(text), 1);
	free(text);
	catalog_add(&c, CATALOG_CONTEXTS, &(struct catalog_context){1, 3});
	CHECK_EQ(catalog_pack(&c, &text, &len), 0);
	CHECK_EQ(version_of(text), 2);
	free(text);
	catalog_done(&c);
}

static void test_back(void)
{
	struct catalog c, back;
	void *text;
	size_t len;

	make_all(&c);
	CHECK_EQ(catalog_pack(&c, &text, &len), 0);
	CHECK_EQ(catalog_unpack(text, len, &back, NULL), 0);
	CHECK(!memcmp(c.n, back.n, sizeof(c.n)) && !memcmp(c.id, back.id, sizeof(c.id)));
	CHECK(!memcmp(c.holders, back.holders, 3 * sizeof(*c.holders)));
	CHECK(!memcmp(c.contexts, back.contexts, sizeof(*c.contexts)));
	CHECK(!memcmp(c.metadata, back.metadata, sizeof(*c.metadata)));
	CHECK(catalog_is_shared(&back, 0) && !catalog_is_shared(&back, 1));
	back.buffers[1].kfd_plus_one = 5;
	CHECK(catalog_is_shared(&back, 1));
	back.buffers[1].kfd_plus_one = 0;
	catalog_add(&back, CATALOG_DMABUFS, &(struct catalog_dmabuf){.buffer = 1});
	CHECK(catalog_is_shared(&back, 1));
	catalog_done(&back);
	catalog_done(&c);
	free(text);
}

/* What a former build has written, whose buffers were shorter: tests/golden/catalog-1. */
static void test_golden(const char *golden)
{
	struct catalog c, back;
	char text[512], path[4096];
	FILE *file;
	size_t len;

	snprintf(path, sizeof(path), "%s/catalog-1/" CATALOG_FILE, golden);
	file = fopen(path, "re");
	CHECK(file);
	len = fread(text, 1, sizeof(text), file);
	fclose(file);
	make(&c);
	CHECK_EQ(catalog_unpack(text, len, &back, NULL), 0);
	CHECK(!memcmp(c.n, back.n, sizeof(c.n)) && !memcmp(c.id, back.id, sizeof(c.id)));
	CHECK(!memcmp(c.files, back.files, 2 * sizeof(*c.files)));
	CHECK(!memcmp(c.buffers, back.buffers, 2 * sizeof(*c.buffers)));
	CHECK(!memcmp(c.holders, back.holders, 3 * sizeof(*c.holders)));
	CHECK(!memcmp(c.mappings, back.mappings, sizeof(*c.mappings)));
	catalog_done(&back);
	catalog_done(&c);
}

/* Cut off anywhere, or with any byte changed. */
static void test_damaged(void)
{
	struct catalog c, back;
	char *part;
	void *text;
	size_t len;

	make_all(&c);
	CHECK_EQ(catalog_pack(&c, &text, &len), 0);
	for (size_t i = 0; i < len; i++) {
		part = malloc(i + 1);
		memcpy(part, text, i);
		CHECK(catalog_unpack(part, i, &back, NULL) < 0);
		free(part);
		((char *)text)[i] ^= 0x40;
		CHECK(catalog_unpack(text, len, &back, NULL) < 0);
		((char *)text)[i] ^= 0x40;
	}
	CHECK_EQ(catalog_unpack(text, len, &back, NULL), 0);
	catalog_done(&back);
	((uint32_t *)text)[2] = 3;
	seal(text, len);
	CHECK_EQ(catalog_unpack(text, len, &back, NULL), -EPROTONOSUPPORT);
	catalog_done(&c);
	free(text);
}

/* Numbers of what is not there. */
static void test_unsound(void)
{
	struct catalog c, back;
	void *text;
	size_t len;

	for (int i = 0; i < 10; i++) {
		make(&c);
		if (i == 0)
			c.holders[0].file = 2;
		else if (i == 1)
			c.buffers[1].owner = 0; /* another's */
		else if (i == 2)
			c.mappings[0].holder = 3;
		else if (i == 3)
			c.holders[2].handle = 0;
		else if (i == 4)
			c.buffers[1].owner = CATALOG_NONE; /* and not of /dev/kfd */
		else if (i == 5)
			catalog_add(&c, CATALOG_DMABUFS, &(struct catalog_dmabuf){.buffer = 2});
		else if (i == 6)
			catalog_add(&c, CATALOG_CONTEXTS, &(struct catalog_context){2, 1});
		else if (i == 7)
			catalog_add(&c, CATALOG_CONTEXTS, &(struct catalog_context){1, 4096});
		else if (i == 8)
			catalog_add(&c, CATALOG_METADATA, &(struct catalog_metadata){.holder = 3});
		else
			catalog_add(&c, CATALOG_METADATA, &(struct catalog_metadata){.bytes = 257});
		CHECK_EQ(catalog_pack(&c, &text, &len), 0);
		CHECK_EQ(catalog_unpack(text, len, &back, NULL), -EBADMSG);
		catalog_done(&c);
		free(text);
	}
}

/* A later one of this version has longer records and one more list. */
static void test_later(void)
{
	struct catalog c, back;
	char *longer, *at;
	size_t len, own, files = 2 * sizeof(struct catalog_file);
	void *text;

	make(&c);
	CHECK_EQ(catalog_pack(&c, &text, &len), 0);
	own = HEADER + CATALOG_LISTS * ROW;
	longer = calloc(1, len + ROW + 2 * 8 + 12);
	memcpy(longer, text, own);
	((uint32_t *)longer)[3] = CATALOG_LISTS + 1;
	((uint32_t *)longer)[HEADER / 4 + 1] += 8; /* a file's record */
	at = longer + own;
	((uint32_t *)at)[0] = 1; /* one record of 12 bytes */
	((uint32_t *)at)[1] = 12;
	at += ROW;
	for (int i = 0; i < 2; i++, at += sizeof(struct catalog_file) + 8)
		memcpy(at, &c.files[i], sizeof(struct catalog_file));
	memcpy(at, (char *)text + own + files, len - own - files - 4);
	len += ROW + 2 * 8 + 12;
	seal(longer, len);
	CHECK_EQ(catalog_unpack(longer, len, &back, NULL), 0);
	CHECK(!memcmp(c.files, back.files, files));
	CHECK(!memcmp(c.holders, back.holders, 3 * sizeof(*c.holders)));
	catalog_done(&back);
	catalog_done(&c);
	free(longer);
	free(text);
}

int main(int argc, char *argv[])
{
	CHECK(argc == 2);
	test_version();
	test_back();
	test_golden(argv[1]);
	test_damaged();
	test_unsound();
	test_later();
	return 0;
}
