/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the tree that say what is so at the moment: what is used of a device's memory, and which
 * processes there are and what each has. They are written when a program is about to look at one.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

#define PROCESSES "/sys/devices/virtual/kfd/kfd/proc"

void emu_sysfs_enter(const struct emu_machine *m)
{
	const char *root = emu_root();
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.*s" PROCESSES, PATH_MAX - 80, root);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%.*s" PROCESSES "/%d", PATH_MAX - 80, root, getpid());
	mkdir(path, 0755);
	for (uint32_t i = 0; i < m->ngpus; i++) {
		snprintf(path, sizeof(path), "%.*s" PROCESSES "/%d/vram_%u", PATH_MAX - 80, root,
			 getpid(), m->gpu[i].gpu_id);
		put(path, 0);
	}
}

static void remove_process(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(path);
}

/* `at` is behind PROCESSES in the path: "/pid" or more. */
static void refresh_process(struct bank *bank, const char *path, const char *at)
{
	char dir[PATH_MAX], *end;
	long pid = strtol(at + 1, &end, 10);
	uint64_t bytes;

	if (pid <= 0)
		return;
	if (bank_used_by(bank, (pid_t)pid, 0, &bytes) < 0) {
		snprintf(dir, sizeof(dir), "%.*s", (int)(end - path), path);
		remove_process(dir);
		return;
	}
	for (uint32_t i = 0; !strncmp(end, "/vram_", 6) && i < TREE_GPUS; i++)
		if (strtoul(end + 6, NULL, 10) == TREE_GPU_ID(i + 1) &&
		    bank_used_by(bank, (pid_t)pid, i, &bytes) == 0)
			put(path, bytes);
}

/* Those that live stay. */
static void refresh_processes(struct bank *bank, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char process[PATH_MAX];

	while (dir && (entry = readdir(dir))) {
		if (snprintf(process, sizeof(process), "%s/%s", path, entry->d_name) <
		    (int)sizeof(process))
			refresh_process(bank, process, process + strlen(path));
	}
	if (dir)
		closedir(dir);
}

void emu_sysfs_refresh(const char *path)
{
	const char *slash = strrchr(path, '/'), *processes = strstr(path, "/kfd/kfd/proc");
	const struct used *used = slash ? find(slash + 1) : NULL;
	struct bank *bank;

	if ((!used && !processes) || bank_open(emu_root(), &bank) < 0)
		return;
	if (processes) {
		const char *at = processes + strlen("/kfd/kfd/proc");

		if (*at == '/' && at[1])
			refresh_process(bank, path, at);
		else
			refresh_processes(bank, path);
	} else {
		long gpu = gpu_of(path);

		if (gpu >= 0 && gpu < TREE_GPUS)
			put(path, bank_used(bank, (uint32_t)gpu, used->flag));
	}
}
