/* SPDX-License-Identifier: Apache-2.0 */
/* The file that containers read: its bytes, and that our own reader takes them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "dropin/vgpu_file.h"
#include "kube/grants/vgpu_config.h"
#include "tests/check.h"

#define MIB(n) (UINT64_C(n) << 20)

static const struct decision_container whole = {.n = 1, .device = {{{0}, MIB(4096), 50}}};

static void check_text(const struct decision_container *container, const char *expected,
		       uint64_t bytes, uint32_t permille)
{
	char text[VGPU_CONFIG_BYTES];
	struct config config = {.file_bytes = 0};

	CHECK_EQ(vgpu_config_text(container, text), 0);
	CHECK(!strcmp(text, expected));
	CHECK_EQ(vgpu_file_parse(&config, text, strlen(text)), 0);
	CHECK_EQ(config.file_bytes, bytes);
	CHECK_EQ(config.file_share_permille, permille);
}

static void check_texts(void)
{
	const struct decision_container several = {
		.n = 3, .device = {{{0}, MIB(4096), 0}, {{1}, MIB(2048), 40}, {{2}, 0, 30}}};
	const struct decision_container memory = {.n = 1, .device = {{{0}, MIB(1), 0}}};
	const struct decision_container cores = {.n = 1, .device = {{{0}, 0, 25}}};
	const struct decision_container none = {.n = 1};
	char text[VGPU_CONFIG_BYTES];

	check_text(&whole, "UsedMem:4096\nUsedCores:50\n", MIB(4096), 500);
	check_text(&several, "UsedMem:2048\nUsedCores:30\n", MIB(2048), 300);
	check_text(&memory, "UsedMem:1\nUsedCores:0\n", MIB(1), 0);
	check_text(&cores, "UsedCores:25\n", 0, 250);
	CHECK_EQ(vgpu_config_text(&none, text), -ENODATA);
}

static unsigned int count(int dir)
{
	DIR *d = fdopendir(dup(dir));
	unsigned int n = 0;

	CHECK(d);
	rewinddir(d);
	for (const struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
	closedir(d);
	return n;
}

static void check_file(int dir)
{
	const struct decision_container less = {.n = 1, .device = {{{0}, MIB(1), 5}}};
	const struct decision_container none = {.n = 0};
	char text[64];
	struct stat st;

	umask(077);
	CHECK_EQ(vgpu_config_write(dir, &whole), 0);
	CHECK_EQ(vgpu_config_write(dir, &less), 0);
	CHECK(fd_read_text(dir, "vgpu.config", text, sizeof(text)) > 0);
	CHECK(!strcmp(text, "UsedMem:1\nUsedCores:5\n"));
	CHECK(!fstatat(dir, "vgpu.config", &st, AT_SYMLINK_NOFOLLOW));
	CHECK_EQ(st.st_mode & 07777, 0644);
	CHECK_EQ(count(dir), 1);
	CHECK_EQ(vgpu_config_write(dir, &none), -ENODATA);
	CHECK_EQ(count(dir), 0);
	CHECK_EQ(vgpu_config_write(dir, &none), -ENODATA);
}

static void check_ids(int dir)
{
	static const struct decision_container two = {
		.n = 2, .device = {{{0}, MIB(1), 0, 3}, {{[15] = 1}, MIB(1), 0, UINT32_MAX}}};
	static struct decision_container all = {.n = POLICY_DEVICES};
	char ids[VGPU_CONFIG_IDS_BYTES], text[256];

	vgpu_config_ids(&two, ids);
	CHECK(!strcmp(ids, "GPU-00000000-0000-0000-0000-000000000000-3\n"
			   "GPU-00000000-0000-0000-0000-000000000001-4294967295\n"));
	CHECK_EQ(vgpu_config_write_ids(dir, ids), 0);
	CHECK(fd_read_text(dir, "vgpu-ids.config", text, sizeof(text)) > 0);
	CHECK(!strcmp(text, ids));
	for (unsigned int i = 0; i < POLICY_DEVICES; i++)
		all.device[i].part = UINT32_MAX;
	vgpu_config_ids(&all, ids);
	CHECK(strlen(ids) < sizeof(ids) && ids[strlen(ids) - 1] == '\n');
	vgpu_config_remove(dir);
	CHECK_EQ(count(dir), 0);
}

static void check_preload(int dir)
{
	struct stat before, after;

	CHECK_EQ(vgpu_config_write_preload(dir), 0);
	CHECK(!fstatat(dir, VGPU_CONFIG_PRELOAD, &before, 0));
	/* Containers have it mounted. */
	CHECK_EQ(vgpu_config_write_preload(dir), 0);
	CHECK(!fstatat(dir, VGPU_CONFIG_PRELOAD, &after, 0));
	CHECK(fd_is_same(&before, &after));
	CHECK(!unlinkat(dir, VGPU_CONFIG_PRELOAD, 0));
	CHECK_EQ(count(dir), 0);
}

static void make(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK_EQ(fd_pwrite_all(fd, text, strlen(text), 0), 0);
	close(fd);
}

static void check_library(int dir, const char *path)
{
	char from[64], text[16];
	struct stat before, after;

	snprintf(from, sizeof(from), "%s/from", path);
	CHECK_EQ(vgpu_config_write_library(dir, from), -ENOENT);
	make(dir, "from", "one");
	/* As a runtime leaves it that was to mount what was not there. */
	CHECK(!mkdirat(dir, VGPU_CONFIG_LIBRARY, 0755));
	CHECK_EQ(vgpu_config_write_library(dir, from), 0);
	CHECK(!fstatat(dir, VGPU_CONFIG_LIBRARY, &before, 0));
	CHECK_EQ(before.st_mode, S_IFREG | 0644);
	CHECK_EQ(vgpu_config_write_library(dir, from), 0);
	CHECK(!fstatat(dir, VGPU_CONFIG_LIBRARY, &after, 0));
	CHECK(fd_is_same(&before, &after));
	/* Another version of it, and one that was cut short. */
	make(dir, "from", "two");
	CHECK_EQ(vgpu_config_write_library(dir, from), 0);
	make(dir, VGPU_CONFIG_LIBRARY, "tw");
	CHECK_EQ(vgpu_config_write_library(dir, from), 0);
	CHECK_EQ(fd_read_text(dir, VGPU_CONFIG_LIBRARY, text, sizeof(text)), 3);
	CHECK(!strcmp(text, "two"));
	CHECK_EQ(count(dir), 2);
	CHECK(!unlinkat(dir, "from", 0) && !unlinkat(dir, VGPU_CONFIG_LIBRARY, 0));
}

int main(void)
{
	char path[] = "/tmp/allot-vgpu-config.XXXXXX";
	int dir;

	check_texts();
	CHECK(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0);
	check_file(dir);
	check_ids(dir);
	check_preload(dir);
	check_library(dir, path);
	close(dir);
	CHECK(!rmdir(path));
	return 0;
}
