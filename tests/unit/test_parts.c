/* SPDX-License-Identifier: Apache-2.0 */
/* The list that vouches for a checkpoint's files: written, read, cut off and changed at each byte. */
#include "image/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/crc32c.h"
#include "tests/check.h"

static char dir[] = "/tmp/allot-parts-XXXXXX";

static void put(const char *name, const void *data, size_t len)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(write(fd, data, len), (ssize_t)len);
	close(fd);
}

static size_t get(const char *name, char *ret, size_t size)
{
	char path[PATH_MAX];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	n = read(fd, ret, size);
	CHECK(n > 0);
	close(fd);
	return (size_t)n;
}

static void make(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	CHECK_EQ(mkdir(path, 0700), 0);
}

static struct damage last;

static int verify(struct parts *ret)
{
	int r;

	last.text[0] = 0;
	r = parts_verify(dir, ret, &last);
	CHECK(!r == !*last.text);
	return r;
}

static void check_files(void)
{
	static const char *const files[] = {"ledger", "criu/0/a.img", "criu/1/b.img",
					    "criu/1/allot-kfd"};
	struct parts read;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char whole[64], path[PATH_MAX];
		size_t len = get(files[i], whole, sizeof(whole));

		put(files[i], whole, len - 1);
		CHECK_EQ(verify(&read), -ENODATA);
		whole[0] ^= 1;
		put(files[i], whole, len);
		CHECK_EQ(verify(&read), -EBADMSG);
		whole[0] ^= 1;
		whole[len] = 0;
		put(files[i], whole, len + 1);
		CHECK_EQ(verify(&read), -EBADMSG);
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		CHECK_EQ(unlink(path), 0);
		CHECK_EQ(verify(&read), -ENODATA);
		put(files[i], whole, len);
		CHECK_EQ(verify(&read), 0);
	}
}

/* Refused with the entry's name, and taken again once it is as it was. */
static void refused(const char *name)
{
	struct parts read;

	CHECK_EQ(verify(&read), -EPERM);
	CHECK(!strncmp(last.text, name, strlen(name)) && last.text[strlen(name)] == ':');
}

static const char *in_dir(const char *name, char ret[static PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%s/%s", dir, name);
	return ret;
}

static void check_owners(void)
{
	static const char *const entries[] = {".", "criu", "criu/0", "criu/1", "ledger", "parts",
					      "manifest.json", "objects", "criu/0/a.img",
					      "criu/1/allot-kfd", "criu/0/criu.log",
					      "criu/0/stats-dump"};
	char path[PATH_MAX], away[PATH_MAX];
	struct parts read;

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		struct stat st;

		in_dir(entries[i], path);
		CHECK_EQ(stat(path, &st), 0);
		CHECK_EQ(chmod(path, st.st_mode | S_IWGRP), 0);
		refused(entries[i]);
		CHECK_EQ(chmod(path, st.st_mode | S_IWOTH), 0);
		refused(entries[i]);
		CHECK_EQ(chmod(path, st.st_mode | S_IRGRP | S_IROTH), 0);
		CHECK_EQ(verify(&read), 0);
		CHECK_EQ(chmod(path, st.st_mode), 0);
		if (!geteuid()) {
			CHECK_EQ(chown(path, 1, 0), 0);
			refused(entries[i]);
			CHECK_EQ(chown(path, 0, 0), 0);
		}
		if (i == 0)
			continue;
		snprintf(away, sizeof(away), "%s.away", dir);
		CHECK_EQ(rename(path, away), 0);
		CHECK_EQ(symlink(away, path), 0);
		CHECK(verify(&read) < 0); /* of `parts`, that it cannot be read */
		CHECK(!strncmp(last.text, entries[i], strlen(entries[i])));
		CHECK_EQ(unlink(path), 0);
		CHECK_EQ(rename(away, path), 0);
		CHECK_EQ(verify(&read), 0);
	}
}

/* CRIU would read each of them where it has that name. */
static void check_others(void)
{
	static const char *const others[] = {"criu/0/b.img", "criu/0/core-99.img", "criu/0/irmap-cache",
					     "criu/0/.hidden", "criu/c.img", "other",
					     "criu/0/allot-amdgpu.catalog", "criu.log"};
	static const char *const folders[] = {"criu/2", "criu/00", "criu/0/0", "criu/0/parent", "more"};
	char path[PATH_MAX], away[PATH_MAX];
	struct parts read;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		put(others[i], "x", 1);
		refused(others[i]);
		CHECK_EQ(unlink(in_dir(others[i], path)), 0);
	}
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		make(folders[i]);
		refused(folders[i]);
		CHECK_EQ(rmdir(in_dir(folders[i], path)), 0);
	}
	CHECK_EQ(symlink("/tmp", in_dir("criu/0/parent", path)), 0);
	refused("criu/0/parent");
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(rename(in_dir("criu/0/criu.log", path), in_dir("criu/0/stats-restore", away)), 0);
	CHECK_EQ(verify(&read), 0);
	CHECK_EQ(mkfifo(path, 0600), 0);
	CHECK_EQ(verify(&read), -EBADMSG);
	CHECK_EQ(unlink(path), 0);
}

static void check_list(void)
{
	char whole[4096], changed[4096];
	size_t len = get(PARTS_FILE, whole, sizeof(whole));
	struct parts read;

	for (size_t at = 0; at < len; at++) {
		put(PARTS_FILE, whole, at);
		CHECK(verify(&read) < 0);
		memcpy(changed, whole, len);
		changed[at] ^= 1 << at % 8;
		put(PARTS_FILE, changed, len);
		CHECK(verify(&read) < 0);
	}
	put(PARTS_FILE, whole, len);
	CHECK_EQ(verify(&read), 0);
}

static int look(const char *name, uint64_t bytes, uint32_t crc, void *arg)
{
	++*(int *)arg;
	return 0;
}

/* With its sum put right. */
static int parse(const char *body, int *ret_files)
{
	struct damage damage = {.text = ""};
	struct parts parts;
	char text[4096];

	*ret_files = 0;
	snprintf(text, sizeof(text), "%send %08x\n", body, crc32c(0, body, strlen(body)));
	return parts_parse(text, strlen(text), look, ret_files, &parts, &damage);
}

#define HEAD "allot-checkpoint 1\nimage 00112233445566778899aabbccddeeff\ndir /run/allot/t\ntrees 1\n"

static void check_forged(void)
{
	static const char *const wrong[] = {
		"", "allot-checkpoint 1\n", "allot-checkpoint x\n",
		"allot-checkpoint 1\nimage 0011\ndir /run\ntrees 1\n",
		"allot-checkpoint 1\nimage 00112233445566778899aabbccddeeff\ndir run\ntrees 1\n",
		"allot-checkpoint 1\nimage 00112233445566778899aabbccddeeff\ndir /run\ntrees 0\n",
		"allot-checkpoint 1\nimage 00112233445566778899aabbccddeeff\ndir /run\ntrees 999\n",
		HEAD "file 00000000 1 ../ledger\n", HEAD "file 00000000 1 /etc/passwd\n",
		HEAD "file 00000000 1 criu/1/a.img\n", HEAD "file 00000000 1 criu/0/../../a\n",
		HEAD "file 00000000 1 criu/0/.img\n", HEAD "file 0000000 1 ledger\n",
		HEAD "file 00000000 -1 ledger\n", HEAD "file 00000000 1\n", HEAD "file \n",
		HEAD "file 00000000 99999999999999999999 ledger\n", HEAD "other\n", HEAD "\n",
	};
	int n;

	CHECK_EQ(parse(HEAD "file 0011aabb 12 ledger\nfile 00000000 0 criu/0/a.img\n", &n), 0);
	CHECK_EQ(n, 2);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK_EQ(parse(wrong[i], &n), -EBADMSG);
	CHECK_EQ(parse("allot-checkpoint 2\n", &n), -EPROTONOSUPPORT);
}

int main(void)
{
	struct parts parts = {.image = {1, 2, 3}, .tenant_dir = "/run/allot/t", .ntrees = 2}, read;
	char command[PATH_MAX];

	CHECK(mkdtemp(dir));
	make("criu");
	make("criu/0");
	make("criu/1");
	put("ledger", "what they had", 13);
	put("criu/0/a.img", "processes", 9);
	put("criu/0/criu.log", "not vouched for", 15);
	put("criu/0/stats-dump", "nor that", 8);
	put("manifest.json", "an image's", 10);
	put("objects", "its own sums", 12);
	CHECK_EQ(verify(&read), -ENOENT);
	CHECK_EQ(parts_write(dir, &parts), -ENODATA); /* the second tree has no file */
	put("criu/1/allot-kfd", "a plugin's", 10);
	put("criu/1/b.img", "more of them", 12);
	CHECK_EQ(parts_write(dir, &parts), 0);
	CHECK_EQ(verify(&read), 0);
	CHECK_EQ(memcmp(read.image, parts.image, 16), 0);
	CHECK(!strcmp(read.tenant_dir, parts.tenant_dir));
	CHECK_EQ(read.ntrees, 2);
	check_files();
	check_list();
	check_forged();
	check_owners();
	check_others();
	snprintf(command, sizeof(command), "rm -r %s", dir);
	CHECK_EQ(system(command), 0);
	return 0;
}
