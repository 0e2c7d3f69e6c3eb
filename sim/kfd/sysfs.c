/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the tree that say what is so at the moment: what is used of a device's memory, and which
 * processes there are and what each has. They are written when a program is about to look at one.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
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

static const struct used *sysfs_find_figure(const char *file)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!strcmp(file, files[i].file))
			return &files[i];
	return NULL;
}

/* The number in the machine of the device whose folder a path goes through; -1: none. */
static long sysfs_gpu_of(const char *path)
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

/* Writes a new file in place of the old one, so that nobody reads half of it. */
static void sysfs_put_figure(const char *path, uint64_t bytes)
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

#define PROCESSES     "/kfd/kfd/proc" /* by either of its names */
#define PROCESSES_DIR "/sys/devices/virtual" PROCESSES

/* A file or folder of a process's. */
__attribute__((format(printf, 3, 4))) static void sysfs_own_path(char ret[static PATH_MAX],
								 pid_t pid, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(ret, PATH_MAX, "%.*s" PROCESSES_DIR "/%d", PATH_MAX - 128, emu_root(),
			 pid);

	va_start(ap, fmt);
	vsnprintf(ret + n, (size_t)(PATH_MAX - n), fmt, ap);
	va_end(ap);
}

/* No wave of a shader ever occupies a CU here, and nothing is evicted. */
void emu_sysfs_enter(const struct emu_machine *m, pid_t pid)
{
	char path[PATH_MAX];

	bank_lock_files(m->bank);
	sysfs_own_path(path, pid, "%s", "");
	tree_remove_all(path); /* of another process, which had this number */
	mkdir(path, 0755);
	sysfs_own_path(path, pid, "/queues");
	mkdir(path, 0755);
	sysfs_own_path(path, pid, "/pasid");
	sysfs_put_figure(path, 0x8000 | ((uint32_t)pid & 0x7fff));
	for (uint32_t i = 0; i < m->ngpus; i++) {
		sysfs_own_path(path, pid, "/vram_%u", m->gpu[i].actual_id);
		sysfs_put_figure(path, 0);
		sysfs_own_path(path, pid, "/stats_%u", m->gpu[i].actual_id);
		mkdir(path, 0755);
		sysfs_own_path(path, pid, "/stats_%u/cu_occupancy", m->gpu[i].actual_id);
		sysfs_put_figure(path, 0);
		sysfs_own_path(path, pid, "/stats_%u/evicted_ms", m->gpu[i].actual_id);
		sysfs_put_figure(path, 0);
	}
	bank_unlock_files(m->bank);
}

void emu_sysfs_add_queue(uint32_t id, uint32_t gpu_id, uint64_t ring_bytes, uint32_t type)
{
	char path[PATH_MAX];

	sysfs_own_path(path, getpid(), "/queues/%u", id);
	mkdir(path, 0755);
	sysfs_own_path(path, getpid(), "/queues/%u/gpuid", id);
	sysfs_put_figure(path, gpu_id);
	sysfs_own_path(path, getpid(), "/queues/%u/size", id);
	sysfs_put_figure(path, ring_bytes);
	sysfs_own_path(path, getpid(), "/queues/%u/type", id);
	sysfs_put_figure(path, type);
}

void emu_sysfs_remove_queue(uint32_t id)
{
	char path[PATH_MAX];

	sysfs_own_path(path, getpid(), "/queues/%u", id);
	tree_remove_all(path);
}

/* `at` is behind PROCESSES in the path: "/pid" or more. */
static void sysfs_refresh_process(struct bank *bank, const char *path, const char *at)
{
	char dir[PATH_MAX], *end;
	long pid = strtol(at + 1, &end, 10);
	uint64_t bytes;

	if (pid <= 0)
		return;
	if (bank_used_by(bank, (pid_t)pid, 0, &bytes) < 0) {
		snprintf(dir, sizeof(dir), "%.*s", (int)(end - path), path);
		tree_remove_all(dir);
		return;
	}
	for (uint32_t i = 0; !strncmp(end, "/vram_", 6) && i < TREE_GPUS; i++)
		if (strtoul(end + 6, NULL, 10) == TREE_GPU_ID(i + 1) &&
		    bank_used_by(bank, (pid_t)pid, i, &bytes) == 0)
			sysfs_put_figure(path, bytes);
}

/* Those that live stay. */
static void sysfs_refresh_processes(struct bank *bank, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char process[PATH_MAX];

	while (dir && (entry = readdir(dir))) {
		if (snprintf(process, sizeof(process), "%s/%s", path, entry->d_name) <
		    (int)sizeof(process))
			sysfs_refresh_process(bank, process, process + strlen(path));
	}
	if (dir)
		closedir(dir);
}

bool emu_sysfs_is_of_processes(const char *path)
{
	return strstr(path, PROCESSES);
}

void emu_sysfs_refresh(const char *path)
{
	const char *slash = strrchr(path, '/'), *processes = strstr(path, PROCESSES);
	const struct used *used = slash ? sysfs_find_figure(slash + 1) : NULL;
	struct bank *bank;

	if ((!used && !processes) || bank_open(emu_root(), &bank) < 0)
		return;
	bank_lock_files(bank);
	if (processes) {
		const char *at = processes + strlen(PROCESSES);

		if (*at == '/' && at[1])
			sysfs_refresh_process(bank, path, at);
		else
			sysfs_refresh_processes(bank, path);
	} else {
		long gpu = sysfs_gpu_of(path);

		if (gpu >= 0 && gpu < TREE_GPUS)
			sysfs_put_figure(path, bank_used(bank, (uint32_t)gpu, used->flag));
	}
	bank_unlock_files(bank);
}
