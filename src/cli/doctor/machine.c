/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/doctor/finding.h"
#include "cli/say/say.h"
#include "node/library.h"
#include "text/units.h"

/* A tenant takes well under a MiB of the runtime directory. */
#define ROOM_BYTES (16u << 20)

/* Preloads it by the dynamic linker, which complains on stderr and continues. */
static int machine_try_preload(const char *library, char *ret, size_t size)
{
	CLEANUP_CLOSE int out = -EBADF, in = -EBADF;
	size_t len = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	out = fds[0];
	in = fds[1];
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		dup2(in, STDERR_FILENO);
		setenv("LD_PRELOAD", library, 1);
		setenv("LD_BIND_NOW", "1", 1);
		unsetenv("ALLOT_TENANT_DIR");
		execl("/bin/sh", "sh", "-c", ":", NULL);
		_exit(127);
	}
	close(in);
	in = -EBADF;
	while (len < size - 1 && (n = read(out, ret + len, size - 1 - len)) > 0)
		len += (size_t)n;
	ret[len] = 0;
	ret[strcspn(ret, "\n")] = 0;
	waitpid(pid, &status, 0);
	return len || !WIFEXITED(status) || WEXITSTATUS(status) ? -ELIBBAD : 0;
}

void machine_check_library(void)
{
	char library[PATH_MAX], complaint[512] = "";
	int r = library_find(library);

	if (r == -EINVAL) {
		finding_say(
			FINDING_FAIL, "set ALLOT_LIBRARY to a copy elsewhere",
			"\"%s\" is in a path with a space or a colon, where LD_PRELOAD is split",
			library);
		return;
	}
	if (r < 0) {
		const char *chosen = getenv("ALLOT_LIBRARY");

		finding_say(FINDING_FAIL,
			    "install it together with allot, or set ALLOT_LIBRARY to its path",
			    "liballot.so is not found: %s",
			    chosen && *chosen ? chosen : "not beside this allot");
		return;
	}
	if (machine_try_preload(library, complaint, sizeof(complaint)) < 0) {
		finding_say(FINDING_FAIL, "build it on this machine, against its libc",
			    "%s cannot be preloaded: %s", library, complaint);
		return;
	}
	finding_say(FINDING_OK, NULL, "%s can be preloaded", library);
}

/* A launch that waits for its share sleeps on a shared futex; a sandbox may forbid that. */
void machine_check_kernel(void)
{
	const struct timespec now = {0};
	uint32_t word = 0;

	syscall(SYS_futex, &word, FUTEX_WAIT, 1, &now, NULL, 0);
	if (errno == EAGAIN) {
		finding_say(FINDING_OK, NULL,
			    "the kernel lets processes wait for each other (futex)");
		return;
	}
	finding_say(FINDING_FAIL,
		    "allow futex(2) in the sandbox or container: shares of compute need it",
		    "processes cannot wait for each other (futex): %s", say_errno(errno));
}

/*
 * Tries the locks by which the ledger knows living processes: a lock is seen through another
 * descriptor; a mapping keeps it when its own descriptor is closed; it ends with the mapping. 0,
 * -ENOLCK if one of these is not so, else -errno.
 */
static int machine_try_lock(const char *path)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	struct flock seen = lock;
	CLEANUP_CLOSE int owner = -EBADF, other = -EBADF;
	void *map;
	int r = 0;

	owner = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (owner < 0)
		return -errno;
	other = open(path, O_RDWR | O_CLOEXEC);
	if (other < 0 || ftruncate(owner, 4096) < 0 || fcntl(owner, F_OFD_SETLK, &lock) < 0)
		return -errno;
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, owner, 0);
	if (map == MAP_FAILED)
		return -errno;
	close(TAKE_FD(owner));
	if (fcntl(other, F_OFD_GETLK, &seen) < 0)
		r = -errno;
	else if (seen.l_type == F_UNLCK)
		r = -ENOLCK;
	munmap(map, 4096);
	seen = lock;
	if (!r && (fcntl(other, F_OFD_GETLK, &seen) < 0 || seen.l_type != F_UNLCK))
		r = -ENOLCK;
	return r;
}

static void machine_check_locks(const char *runtime)
{
	char path[PATH_MAX + 32];
	int r;

	snprintf(path, sizeof(path), "%s/.doctor-%ld", runtime, (long)getpid());
	r = machine_try_lock(path);
	unlink(path);
	if (!r) {
		finding_say(FINDING_OK, NULL, "regions there can be mapped and locked");
		return;
	}
	finding_say(FINDING_FAIL,
		    r == -ENOSPC || r == -EDQUOT
			    ? "make room there, or set ALLOT_RUNTIME_DIR to another directory"
			    : "set ALLOT_RUNTIME_DIR to a directory on tmpfs or a local disk",
		    "a region in %s cannot be locked: %s", runtime, say_errno(r));
}

static void machine_check_filesystem(const char *runtime)
{
	struct statfs fs;

	if (statfs(runtime, &fs) < 0)
		return;
	if (fs.f_type == NFS_SUPER_MAGIC || fs.f_type == SMB_SUPER_MAGIC ||
	    fs.f_type == SMB2_SUPER_MAGIC || fs.f_type == FUSE_SUPER_MAGIC) {
		finding_say(FINDING_WARN,
			    "set ALLOT_RUNTIME_DIR to a directory on tmpfs: tenants of several "
			    "machines must not meet",
			    "%s is on a network or user-space file system", runtime);
	} else if (fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC) {
		finding_say(FINDING_WARN, "mount tmpfs there, or set ALLOT_RUNTIME_DIR",
			    "%s is on a disk: tenants outlive a reboot", runtime);
	}
	if ((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize < ROOM_BYTES)
		finding_say(FINDING_WARN, "make room: new tenants will be refused",
			    "%s has only %s left", runtime,
			    units_bytes((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize).s);
}

void machine_check_runtime_dir(const char *runtime)
{
	struct stat st;

	if (lstat(runtime, &st) < 0 && errno == ENOENT) {
		/* Made as the first run will make it: the checks below need it. */
		if (mkdir(runtime, 0700) < 0 || lstat(runtime, &st) < 0) {
			finding_say(FINDING_FAIL, "set ALLOT_RUNTIME_DIR to a directory of yours",
				    "cannot make %s: %s", runtime, say_errno(errno));
			return;
		}
	}
	if (!S_ISDIR(st.st_mode)) {
		finding_say(FINDING_FAIL, "remove it, or set ALLOT_RUNTIME_DIR",
			    "%s is not a directory", runtime);
		return;
	}
	if (st.st_uid != geteuid() && st.st_uid != 0) {
		finding_say(FINDING_FAIL, "set ALLOT_RUNTIME_DIR to a directory of yours",
			    "%s belongs to user %u", runtime, (unsigned int)st.st_uid);
		return;
	}
	if (st.st_mode & 022) {
		finding_say(FINDING_FAIL, "chmod 0700 it",
			    "%s can be written by others (mode %04o)", runtime, st.st_mode & 07777);
	} else {
		finding_say(FINDING_OK, NULL, "runtime directory %s", runtime);
	}
	machine_check_filesystem(runtime);
	machine_check_locks(runtime);
	if (access("/proc/1/status", R_OK) < 0)
		finding_say(FINDING_WARN, "quotas hold; \"allot ps\" cannot show their host pids",
			    "/proc hides other users' processes (hidepid)");
}
