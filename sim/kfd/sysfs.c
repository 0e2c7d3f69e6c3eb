/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the tree that say what is so at the moment: what is used of a device's memory. They are
 * written when a program is about to open one.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "sim/kfd/bank.h"
#include "sim/kfd/emu.h"

static const struct used {
	const char *file;
	uint32_t flag;
} files[] = {
	{"mem_info_vram_used", KFD_IOC_ALLOC_MEM_FLAGS_VRAM},
	{"mem_info_vis_vram_used", KFD_IOC_ALLOC_MEM_FLAGS_VRAM},
	{"mem_info_gtt_used", KFD_IOC_ALLOC_MEM_FLAGS_GTT},
};

static const struct used *find(const char *file)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!strcmp(file, files[i].file))
			return &files[i];
	return NULL;
}

/* The number in the machine of the device whose folder a path goes through; -1: none. */
static long gpu_of(const char *path)
{
	static const struct {
		const char *before;
		long first;
	} ways[] = {{"/226:", 129}, {"/drm/renderD", 129}, {"/drm/card", 0}};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		const char *at = strstr(path, ways[i].before);

		if (at)
			return strtol(at + strlen(ways[i].before), NULL, 10) - ways[i].first;
	}
	return -1;
}

/* In place of the file, so that nobody reads half of it. */
static void put(const char *path, uint64_t bytes)
{
	char tmp[PATH_MAX], text[24];
	int n = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)bytes), fd;

	if (snprintf(tmp, sizeof(tmp), "%s-%d-%ld", path, getpid(), syscall(SYS_gettid)) >=
	    (int)sizeof(tmp))
		return;
	fd = (int)syscall(SYS_openat, AT_FDCWD, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			  0644);
	if (fd < 0)
		return;
	if (write(fd, text, (size_t)n) != n || rename(tmp, path) < 0)
		unlink(tmp);
	close(fd);
}

void emu_sysfs_refresh(const char *path)
{
	const char *slash = strrchr(path, '/');
	const struct used *used = slash ? find(slash + 1) : NULL;
	long gpu = used ? gpu_of(path) : -1;
	struct bank *bank;

	if (gpu >= 0 && gpu < TREE_GPUS && bank_open(emu_root(), &bank) == 0)
		put(path, bank_used(bank, (uint32_t)gpu, used->flag));
}
