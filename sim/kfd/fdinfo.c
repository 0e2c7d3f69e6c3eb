/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text that /proc has of an open render node (fdinfo): whose driver, which device, and how much memory its
 * handles are of. It is the same for whoever reads it: the file is told by the offset that stands there
 * (handles.h), and the node by the inode. What /dev/kfd mapped in the file's address space the kernel
 * counts there, too; here only the process knows it that did.
 */
#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/topology.h"
#include "sim/kfd/bank.h"
#include "sim/kfd/emu.h"
#include "sim/kfd/handles.h"

/* True if a file that was opened by this path is one: the path may be relative. */
static bool fdinfo_is_one(int fd, const char *path)
{
	const char *name = strrchr(path, '/');
	char link[40], is[PATH_MAX];
	ssize_t n;

	name = name ? name + 1 : path;
	if (!isdigit((unsigned char)*name) || name[strspn(name, "0123456789")])
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = syscall(SYS_readlinkat, AT_FDCWD, link, is, sizeof(is) - 1);
	if (n <= 0)
		return false;
	is[n] = '\0';
	return !strncmp(is, "/proc/", 6) && strstr(is, "/fdinfo/");
}

static uint64_t fdinfo_number_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

struct sums {
	uint64_t vram, vram_resident, gtt;
};

static void fdinfo_add_up(struct bank *bank, uint64_t file, struct sums *ret)
{
	struct bank_piece piece;
	struct handle h;

	*ret = (struct sums){0};
	for (uint32_t i = 0; handles_nth(bank_handles(bank), file, i, &h); i++) {
		if (bank_find_key(bank, h.key, &piece) < 0)
			continue;
		if (piece.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
			ret->vram += piece.size;
		else
			ret->gtt += piece.size;
		if (bank_is_in_vram(bank, &piece))
			ret->vram_resident += piece.size;
	}
}

static void fdinfo_write(int to, const struct emu_machine *m, const struct emu_gpu *gpu,
			 uint64_t file)
{
	char pci[TOPOLOGY_PCI_BYTES];
	struct sums s;

	fdinfo_add_up(m->bank, file, &s);
	topology_pci_name(&m->topology->nodes[gpu->node], pci);
	dprintf(to, "drm-driver:\tamdgpu\ndrm-client-id:\t%" PRIu64 "\ndrm-pdev:\t%s\n", file, pci);
	if (emu_answers(KERNEL_FDINFO_TELLS_TOTALS))
		dprintf(to, "drm-total-vram:\t%" PRIu64 " KiB\ndrm-resident-vram:\t%" PRIu64 " KiB\n",
			s.vram >> 10, s.vram_resident >> 10);
	dprintf(to, "drm-memory-vram:\t%" PRIu64 " KiB\ndrm-memory-gtt: \t%" PRIu64 " KiB\n",
		s.vram_resident >> 10, s.gtt >> 10);
}

/* A file in memory with what is to be read, in the place of `fd`. */
static void fdinfo_exchange(int fd, int flags, const char *text, size_t n,
			    const struct emu_machine *m, const struct emu_gpu *gpu)
{
	int shown = memfd_create("fdinfo", MFD_CLOEXEC);

	if (shown < 0)
		return;
	if (write(shown, text, n) == (ssize_t)n)
		fdinfo_write(shown, m, gpu, fdinfo_number_of(text, "pos:"));
	lseek(shown, 0, SEEK_SET);
	syscall(SYS_dup3, shown, fd, flags & O_CLOEXEC);
	syscall(SYS_close, shown);
}

void emu_fdinfo_opened(int fd, const char *path, int flags)
{
	struct emu_machine *m;
	struct emu_gpu *gpu;
	char text[1024];
	ssize_t n;
	int minor;

	if (!*emu_root() || !fdinfo_is_one(fd, path))
		return;
	n = pread(fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return;
	text[n] = '\0';
	minor = emu_minor_of_inode(fdinfo_number_of(text, "ino:"));
	m = minor > EMU_FILE_KFD ? emu_lock_any() : NULL;
	if (!m)
		return;
	gpu = emu_gpu_of_minor(m, minor);
	if (gpu)
		fdinfo_exchange(fd, flags, text, (size_t)n, m, gpu);
	emu_unlock();
}
