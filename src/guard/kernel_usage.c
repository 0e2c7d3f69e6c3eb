/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/kernel_usage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amd/kfd_ioctl.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/parse.h"
#include "guard/fdinfo.h"

#define PROCESSES "/sys/class/kfd/kfd/proc"

/* No figure is larger; figures are added up. */
#define MOST_BYTES (UINT64_C(1) << 56)

int kernel_usage_of_kfd(pid_t process, const struct topology_node *gpu, uint64_t *ret_bytes)
{
	char path[96], text[32];
	uint64_t bytes;
	ssize_t n;
	int r;

	snprintf(path, sizeof(path), PROCESSES "/%d/vram_%" PRIu32, process, gpu->gpu_id);
	n = fd_read_text(AT_FDCWD, path, text, sizeof(text));
	if (n < 0)
		return n == -ENODEV ? -ENOENT : (int)n; /* ENODEV: it ended while it was read */
	text[strcspn(text, "\n")] = '\0';
	r = parse_u64(text, 0, MOST_BYTES, &bytes);
	if (r == 0)
		*ret_bytes = bytes;
	return r;
}

int kernel_usage_of_files(pid_t process, const int *kept, uint32_t nkept,
			  const struct topology_node *gpu, uint64_t *ret_bytes)
{
	uint64_t bytes;
	int r = fdinfo_read(process, kept, nkept, gpu, &bytes);

	if (r == -ESRCH || (r == 0 && !bytes))
		return -ENOENT;
	if (r == 0)
		*ret_bytes = bytes;
	return r;
}

bool kernel_usage_is_shown(pid_t process)
{
	char path[64];

	snprintf(path, sizeof(path), PROCESSES "/%d", process);
	return access(path, F_OK) == 0;
}

/* The child's report. */
struct probe {
	int error;
	struct kfd_ioctl_get_version_args version;
};

/* Waits for a byte, opens the device, says how that went, and waits for the end of it. */
static void kernel_usage_probe_child(int socket)
{
	struct probe probe = {.error = 0};
	char byte;
	int kfd;

	if (read(socket, &byte, 1) != 1)
		return;
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	if (kfd < 0)
		probe.error = err_errno();
	else if (ioctl(kfd, _IOR(AMDKFD_IOCTL_BASE, KFD_NR_GET_VERSION, probe.version),
		       &probe.version) < 0)
		probe.version = (struct kfd_ioctl_get_version_args){0};
	if (write(socket, &probe, sizeof(probe)) == sizeof(probe))
		(void)!read(socket, &byte, 1);
}

static int kernel_usage_fork_probe(pid_t child, int socket,
				   struct kfd_ioctl_get_version_args *ret_version)
{
	struct probe probe;

	if (kernel_usage_is_shown(
		    child)) /* another process, which has the child's number in another namespace */
		return -ENOTSUP;
	if (write(socket, "", 1) != 1 || read(socket, &probe, sizeof(probe)) != sizeof(probe))
		return -EIO;
	if (probe.error)
		return probe.error == -ENOENT || probe.error == -ENXIO ? -ENODEV : probe.error;
	if (!kernel_usage_is_shown(child))
		return -ENOTSUP;
	*ret_version = probe.version;
	return 0;
}

int kernel_usage_probe(struct kfd_ioctl_get_version_args *ret_version)
{
	CLEANUP_CLOSE int ours = -EBADF;
	int pair[2], r;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno();
	ours = pair[0];
	child = fork();
	if (child == 0) {
		close(pair[0]);
		kernel_usage_probe_child(pair[1]);
		_exit(0);
	}
	r = child < 0 ? err_errno() : 0;
	close(pair[1]);
	if (r == 0)
		r = kernel_usage_fork_probe(child, ours, ret_version);
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	return r;
}
