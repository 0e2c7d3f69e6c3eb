/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "amd/topology_parse.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "guest/amd/amd.h"
#include "guest/amd/ask.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8
#endif

/* Wherever sysfs is mounted: a container's agent may have the machine's at a place of its own. */
#define NODES "/devices/virtual/kfd/kfd/topology/nodes/"

#define BANKS "mem_banks/"

#define MEM_INFO "mem_info_"

static bool amd_open_begins_with(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

bool amd_open_may_be(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	switch (*name) {
	case 'c':
		return amd_open_begins_with(name, "card") ||
		       amd_open_begins_with(path, "/dev/char/");
	case 'g':
		return !strcmp(name, "gpu_id");
	case 'k':
		return !strcmp(name, "kfd");
	case 'm':
		return amd_open_begins_with(name, MEM_INFO);
	case 'n':
		return !strcmp(name, "name");
	case 'p':
		return !strcmp(name, "properties") || amd_open_begins_with(path, "/dev/dri/");
	case 'r':
		return amd_open_begins_with(name, "renderD");
	case 'u':
		return !strcmp(name, "used_memory");
	}
	return *name >= '0' && *name <= '9' && amd_open_begins_with(path, "/dev/char/");
}

/* A file of that text, which nobody can change. */
static int open_text(const char *name, const char *text, size_t len)
{
	CLEANUP_CLOSE int fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	int r;

	if (fd < 0 && errno == EINVAL) /* an older kernel */
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_errno();
	r = fd_pwrite_all(fd, text, len, 0);
	if (r < 0)
		return r;
	fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	return TAKE_FD(fd);
}

/* In one step, and under the number that the program is to get: there is no time without a file. */
static int amd_open_exchange(int fd, const char *name, const char *text, size_t len)
{
	CLEANUP_CLOSE int other = open_text(name, text, len);
	int flags = fcntl(fd, F_GETFD);

	if (other < 0)
		return other;
	return dup3(other, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0 ? err_errno() : 0;
}

#define TEXT_BYTES (TOPOLOGY_FILE_BYTES + 1) /* one more than the kernel writes */

/* From its beginning, without moving where the program reads. */
static int amd_open_read_text(int fd, char text[TEXT_BYTES], size_t *ret_len)
{
	size_t len = 0;
	ssize_t n;

	do {
		n = pread(fd, text + len, TEXT_BYTES - len, (off_t)len);
		if (n > 0)
			len += (size_t)n;
	} while ((n > 0 && len < TEXT_BYTES) || (n < 0 && errno == EINTR));
	if (n < 0)
		return err_errno();
	if (len == TEXT_BYTES)
		return -EIO;
	*ret_len = len;
	return 0;
}

/* Real bytes of device memory in the banks before one. */
static uint64_t amd_open_bytes_before(const struct topology_node *node, uint32_t bank)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < bank && i < node->bank_count; i++)
		if (node->banks[i].heap == TOPOLOGY_HEAP_VRAM_VISIBLE ||
		    node->banks[i].heap == TOPOLOGY_HEAP_VRAM)
			bytes += node->banks[i].size_bytes;
	return bytes;
}

/* `file` from the folder on that it is in: of a node, or, with NULL for it, of a device. */
static int amd_open_show(int fd, const struct kfd_view *view, const struct topology_node *node,
			 const char *file)
{
	const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
	char text[TEXT_BYTES], shown[KFD_VIEW_ROOM(TOPOLOGY_FILE_BYTES)];
	size_t len = 0;
	int r = amd_open_read_text(fd, text, &len);

	if (r < 0)
		return r;
	if (strcmp(name, "properties")) {
		r = kfd_view_mem_info(view, name, text, len, shown, sizeof(shown), &len);
	} else if (!slash) {
		r = kfd_view_node(view, text, len, shown, sizeof(shown), &len);
	} else {
		uint32_t bank = (uint32_t)strtoul(file + strlen(BANKS), NULL, 10);

		r = kfd_view_bank(view, text, len, amd_open_bytes_before(node, bank), shown,
				  sizeof(shown), &len);
	}
	if (r == -ENOENT) /* it tells another size */
		return 0;
	/* Not as the kernel writes it: nothing is shown. */
	return r < 0 ? -EIO : amd_open_exchange(fd, name, shown, len);
}

/* A file of a node, `file` from the node's folder on. */
static int open_in_node(int fd, struct guest *guest, struct amd *amd, uint32_t sysfs_id,
			const char *file)
{
	for (uint32_t i = 0; i < amd->topology->node_count; i++) {
		const struct topology_node *node = &amd->topology->nodes[i];
		struct amd_device *device = amd_device(amd, node->gpu_id);
		struct kfd_view view;

		if (node->sysfs_id != sysfs_id)
			continue;
		if (!node->gpu_id)
			return 0;
		if (!device || !device->ours)
			break;
		if (strcmp(file, "properties") && !amd_open_begins_with(file, BANKS))
			return 0;
		view = amd_view(guest, device);
		return amd_open_show(fd, &view, node, file);
	}
	return AMD_OPEN_UNREADABLE; /* a GPU that nobody sees, or came later than we looked */
}

/*
 * A file in the folder of a PCI device. Of one that is partitioned, whose GPUs are all at the same
 * place, the tenant sees the sum of what it has.
 */
static int open_in_device(int fd, struct guest *guest, struct amd *amd, const char *place,
			  const char *file)
{
	struct kfd_view sum = {0};
	bool known = false, ours = false;

	for (uint32_t i = 0; i < amd->ndevices; i++) {
		char pci[TOPOLOGY_PCI_BYTES];
		struct kfd_view view;

		topology_pci_name(amd->device[i].node, pci);
		if (strcmp(pci, place))
			continue;
		known = true;
		if (!amd->device[i].ours)
			continue;
		ours = true;
		view = amd_view(guest, &amd->device[i]);
		sum.limit_bytes += view.limit_bytes;
		sum.used_bytes += view.used_bytes;
		sum.device_bytes += view.device_bytes;
		sum.visible_bytes = view.visible_bytes == UINT64_MAX
					    ? UINT64_MAX
					    : sum.visible_bytes + view.visible_bytes;
	}
	if (!known)
		return 0;
	return ours ? amd_open_show(fd, &sum, NULL, file) : -EPERM;
}

/* `path` is the kernel's. */
static int open_at(int fd, char *path)
{
	char *node = strstr(path, NODES), *name = strrchr(path, '/'), *place, *file;
	struct guest *guest;
	struct amd *amd;
	unsigned long id = 0;
	int error;

	if (!name)
		return 0;
	if (node) {
		id = strtoul(node + strlen(NODES), &file, 10);
		if (*file++ != '/')
			return 0;
	} else if (!amd_open_begins_with(name + 1, MEM_INFO)) {
		return 0;
	}
	amd = amd_limited(&guest, &error);
	if (!amd)
		return error;
	if (node)
		return open_in_node(fd, guest, amd, (uint32_t)id, file);
	*name = '\0';
	place = strrchr(path, '/');
	return place ? open_in_device(fd, guest, amd, place + 1, name + 1) : 0;
}

static int open_file(int fd, const char *path)
{
	char link[40], real[1024];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
	n = readlink(link, real, sizeof(real) - 1);
	if (n < 0) /* no /proc here: by what the program called it */
		n = snprintf(real, sizeof(real), "%s", path);
	if ((size_t)n >= sizeof(real))
		return 0;
	real[n] = '\0';
	return open_at(fd, real);
}

static int open_set_xnack(int kfd, int *mode)
{
	struct kfd_ioctl_set_xnack_mode_args args = {.xnack_enabled = *mode};
	int r = amd_ask(kfd, _IOWR(AMDKFD_IOCTL_BASE, KFD_NR_SET_XNACK_MODE, args), &args);

	*mode = args.xnack_enabled;
	return r;
}

/*
 * With XNACK memory follows a GPU's accesses, and nobody is told. A program that asks for it is
 * refused (demand.h). On some GPUs a process begins with it: then it is switched off, which works
 * as long as there is no queue. A kernel that cannot answer has no XNACK.
 */
static int open_without_xnack(int kfd)
{
	int mode = -1;

	if (open_set_xnack(kfd, &mode) < 0 || mode <= 0)
		return 0;
	mode = 0;
	return open_set_xnack(kfd, &mode) < 0 ? -ENODEV : 0;
}

static int open_device(int fd, int file)
{
	const struct amd_device *device;
	struct guest *guest;
	struct amd *amd;
	int error;

	amd = amd_limited(&guest, &error);
	if (!amd)
		return error;
	if (file == AMD_FILE_KFD)
		return open_without_xnack(fd);
	device = amd_device_of_minor(amd, file);
	return device && !device->ours ? -EPERM : 0;
}

int amd_opened(int fd, const char *path)
{
	int saved = errno, r, file;

	if (!amd_is_here())
		return 0;
	file = amd_file(fd);
	r = file == AMD_FILE_NONE ? open_file(fd, path) : open_device(fd, file);
	errno = saved;
	return r;
}
