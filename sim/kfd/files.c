/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the tree's device files one is, told by its inode. */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/kfd/emu.h"

/* Inodes of the device files: KFD's, and two DRM nodes of each GPU. */
static struct {
	dev_t dev;
	ino_t ino[1 + 2 * TREE_GPUS];
	int minor[1 + 2 * TREE_GPUS]; /* or EMU_FILE_KFD */
	int n;			      /* 0: not looked for yet */
} files;

static int files_stat_of(const char *path, struct stat *st)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, 0);
}

__attribute__((format(printf, 3, 4))) static void files_find_file(int *n, int minor,
								  const char *fmt, ...)
{
	char path[PATH_MAX];
	struct stat st;
	va_list ap;
	int len = snprintf(path, sizeof(path), "%.*s", PATH_MAX - 32, emu_root());

	va_start(ap, fmt);
	vsnprintf(path + len, sizeof(path) - (size_t)len, fmt, ap);
	va_end(ap);
	if (files_stat_of(path, &st) < 0)
		return;
	files.dev = st.st_dev;
	files.ino[*n] = st.st_ino;
	files.minor[(*n)++] = minor;
}

/* Several threads may do this at once: they write the same. */
static bool files_find_files(void)
{
	int n = 0;

	if (__atomic_load_n(&files.n, __ATOMIC_ACQUIRE))
		return true;
	if (!*emu_root())
		return false;
	files_find_file(&n, EMU_FILE_KFD, "/dev/kfd");
	for (int minor = 129; minor <= 128 + TREE_GPUS; minor++) {
		files_find_file(&n, minor, "/dev/dri/renderD%d", minor);
		files_find_file(&n, TREE_CARD(minor), "/dev/dri/card%d", TREE_CARD(minor));
	}
	__atomic_store_n(&files.n, n, __ATOMIC_RELEASE);
	return n > 0;
}

int emu_minor_of_stat(const struct stat *st)
{
	if (!S_ISREG(st->st_mode) || !files_find_files() || st->st_dev != files.dev)
		return EMU_FILE_NONE;
	for (int i = 0; i < files.n; i++)
		if (files.ino[i] == st->st_ino)
			return files.minor[i];
	return EMU_FILE_NONE;
}

int emu_minor_of_inode(uint64_t ino)
{
	for (int i = 0; files_find_files() && i < files.n; i++)
		if (files.ino[i] == ino)
			return files.minor[i];
	return EMU_FILE_NONE;
}

int emu_minor_of(int fd)
{
	struct stat st;

	return syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) < 0 ? EMU_FILE_NONE
								       : emu_minor_of_stat(&st);
}
