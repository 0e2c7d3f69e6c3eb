/* SPDX-License-Identifier: Apache-2.0 */
#include "node/process/mapped_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "node/process/allowance.h"
#include "node/process/lookup.h"
#include "node/process/mapped.h"
#include "node/process/mapped_priv.h"
#include "node/process/process.h"

struct mapped_file {
	uint64_t begin, end;
	struct stat file; /* st_dev and st_ino */
	bool deleted;
	size_t dir_length;
	char *path;
};

/* The process that has the arbiter's role has the files of all tenants beside its own. */
#define FILES_MOST 256

struct mapped_files {
	pid_t pid;
	size_t nledgers, npolicies;
	struct mapped_file ledger[FILES_MOST], policy[FILES_MOST];
};

static void mapped_note(const struct mapping *mapping, const char *name, struct mapped_file *list,
			size_t *n)
{
	struct mapped_file *file = &list[*n];
	size_t length;

	/* A mapping may be several, one behind the other. */
	if (*n == FILES_MOST || (*n && mapped_is_of(mapping, &file[-1].file)))
		return;
	length = mapped_is_called(mapping, name, &file->deleted);
	file->path = length ? strndup(mapping->path, length) : NULL;
	if (!file->path)
		return;
	file->begin = mapping->begin;
	file->end = mapping->end;
	file->file.st_dev = mapping->dev;
	file->file.st_ino = mapping->ino;
	file->dir_length = length - strlen(name);
	++*n;
}

static bool mapped_note_both(const struct mapping *mapping, void *arg)
{
	struct mapped_files *files = arg;

	mapped_note(mapping, "/ledger", files->ledger, &files->nledgers);
	mapped_note(mapping, "/policy", files->policy, &files->npolicies);
	return false;
}

/* A process with more mappings than can be read in a second is not read here. */
#define WHOLE_BYTES (UINT64_C(4) << 20)

static int mapped_read_files(pid_t pid, uid_t uid, struct mapped_files *files)
{
	CLEANUP_FREE char *slice = malloc(MAPPED_SLICE_BYTES + 1);
	CLEANUP_CLOSE int fd = -EBADF;
	uint64_t left = allowance_left(ALLOWANCE_MAPPINGS, uid, WHOLE_BYTES), bytes = 0;
	ssize_t n = slice ? mapped_open(pid, slice, &fd) : -ENOMEM;

	for (; n > 0 && bytes < left; bytes += (uint64_t)n) {
		mapped_search(slice, (size_t)n, mapped_note_both, files);
		allowance_spend(ALLOWANCE_MAPPINGS, uid, (uint64_t)n);
		n = read(fd, slice, MAPPED_SLICE_BYTES);
	}
	if (n <= 0)
		return fd < 0 ? (int)n : 0;
	allowance_put_off(ALLOWANCE_MAPPINGS, uid);
	return -EAGAIN;
}

/* The answer that a process has no ledger is kept for longer, and is that of most processes. */
int mapped_find_files(pid_t pid, struct mapped_files **ret)
{
	struct mapped_files *files;
	struct stat first;
	uid_t uid;
	int r = mapped_any_ledger(pid, &first);

	if (r < 0 || (r = process_read_user(pid, &uid)) < 0)
		return r;
	files = calloc(1, sizeof(*files));
	if (!files)
		return -ENOMEM;
	files->pid = pid;
	r = mapped_read_files(pid, uid, files);
	if (!r && !files->nledgers)
		r = -ENOENT;
	if (r < 0)
		mapped_files_free(files);
	else
		*ret = files;
	return r;
}

void mapped_files_free(struct mapped_files *files)
{
	for (size_t i = 0; files && i < files->nledgers; i++)
		free(files->ledger[i].path);
	for (size_t i = 0; files && i < files->npolicies; i++)
		free(files->policy[i].path);
	free(files);
}

const struct stat *mapped_files_ledger(const struct mapped_files *files, size_t at)
{
	return at < files->nledgers ? &files->ledger[at].file : NULL;
}

/* A process has as many mounts as it likes, in a namespace of its own. */
#define MOUNTS_READ 10000

/* Returns true if files of that device are on a file system of the kernel's own. */
static bool mapped_is_kernels(pid_t pid, dev_t dev)
{
	static const char *const kinds[] = {"tmpfs", "ext4", "xfs"};
	unsigned int major, minor;
	char path[64], kind[16], *line = NULL, *dash;
	bool found = false, is = false;
	size_t size = 0;
	FILE *mounts;

	snprintf(path, sizeof(path), "/proc/%ld/mountinfo", (long)pid);
	mounts = fopen(path, "re");
	for (int i = 0; mounts && !found && i < MOUNTS_READ && getline(&line, &size, mounts) > 0; i++) {
		dash = strstr(line, " - "); /* a blank in a path is written as \040 */
		found = dash && sscanf(line, "%*s %*s %u:%u", &major, &minor) == 2 &&
			makedev(major, minor) == dev && sscanf(dash, " - %15s", kind) == 1;
	}
	for (size_t i = 0; found && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		is |= !strcmp(kind, kinds[i]);
	free(line);
	if (mounts)
		fclose(mounts);
	return is;
}

/* By the mapping itself: with CAP_CHECKPOINT_RESTORE, whatever the file is called by now. */
static int mapped_find_by_range(pid_t pid, const struct mapped_file *file)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/map_files/%" PRIx64 "-%" PRIx64, (long)pid,
		 file->begin, file->end);
	fd = open(path, O_PATH | O_CLOEXEC);
	return fd < 0 ? err_errno() : fd;
}

/*
 * By its path, from the process's root; no link in it leads out of that. A user has no right to look into
 * others' processes, and so waits for file systems of one's own alone.
 */
static int mapped_find_by_path(pid_t pid, const struct mapped_file *file)
{
	uint64_t resolve = LOOKUP_NO_MAGIC | LOOKUP_IN_ROOT | (geteuid() ? 0 : LOOKUP_CACHED);
	CLEANUP_CLOSE int root = -EBADF;
	char path[64];

	if (file->deleted)
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%ld/root", (long)pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? err_errno() : lookup_open(root, file->path, O_NOFOLLOW, resolve);
}

/* The file is found without being opened, then looked at, and only then opened. */
static int mapped_open_file(pid_t pid, const struct mapped_file *file, struct stat *ret)
{
	CLEANUP_CLOSE int found = -EBADF;
	struct stat st;
	char path[64];
	int fd, r;

	if (!mapped_is_kernels(pid, file->file.st_dev))
		return -EOPNOTSUPP;
	found = mapped_find_by_range(pid, file);
	if (found < 0)
		found = mapped_find_by_path(pid, file);
	if (found < 0)
		return found;
	r = lookup_stat(found, &st);
	if (r < 0)
		return r;
	if (!fd_is_same(&st, &file->file))
		return -ESTALE;
	if (!S_ISREG(st.st_mode))
		return -EOPNOTSUPP;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	/* O_NONBLOCK: its owner may have a lease of it. */
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return err_errno();
	*ret = st;
	return fd;
}

static const struct mapped_file *mapped_policy_beside(const struct mapped_files *files,
						       const struct mapped_file *ledger)
{
	for (size_t i = 0; i < files->npolicies; i++)
		if (files->policy[i].dir_length == ledger->dir_length &&
		    !strncmp(files->policy[i].path, ledger->path, ledger->dir_length))
			return &files->policy[i];
	return NULL;
}

int mapped_open_tenant(const struct mapped_files *files, size_t at, struct mapped_tenant *ret)
{
	const struct mapped_file *ledger = &files->ledger[at];
	const struct mapped_file *policy = mapped_policy_beside(files, ledger);
	CLEANUP_CLOSE int ledger_fd = -EBADF;
	CLEANUP_CLOSE int policy_fd = -EBADF;
	struct stat ledger_stat, policy_stat;

	if (!policy)
		return -ENOENT;
	ledger_fd = mapped_open_file(files->pid, ledger, &ledger_stat);
	if (ledger_fd < 0)
		return ledger_fd;
	policy_fd = mapped_open_file(files->pid, policy, &policy_stat);
	if (policy_fd < 0)
		return policy_fd;
	ret->ledger = ledger_stat;
	snprintf(ret->dir, sizeof(ret->dir), "/proc/%ld/root%.*s", (long)files->pid,
		 (int)ledger->dir_length, ledger->path);
	ret->ledger_fd = TAKE_FD(ledger_fd);
	ret->policy_fd = TAKE_FD(policy_fd);
	return 0;
}
