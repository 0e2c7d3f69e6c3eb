/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/amd_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A signal's number, of which 0 is none: the last is for all that find no other. */
#define MARKS	   63
#define MARK_SHIFT 32
#define PID_SHIFT  38 /* above: a pid has at most 22 bits */

/* 0: not marked; or the mark and its process's pid, as they stand in a key. */
static uint64_t read_mark(int fd)
{
	int owner = fcntl(fd, F_GETOWN), number = fcntl(fd, F_GETSIG);

	if (owner <= 0 || number <= 0 || number > MARKS)
		return 0;
	return (uint64_t)owner << PID_SHIFT | (uint64_t)number << MARK_SHIFT;
}

static int free_number(struct amd *amd)
{
	uint64_t taken = atomic_load(&amd->file_marks);

	for (int i = 1; i < MARKS; i++)
		if (!(taken >> i & 1))
			return i;
	return MARKS;
}

/*
 * The lock is for who marks and who forgets: of two threads that meet a file at once one would
 * else write over the other's mark. What is called meanwhile waits for nobody.
 */
static uint64_t mark(struct amd *amd, int fd)
{
	uint64_t found;
	int number;

	lock_take(&amd->file_lock);
	found = read_mark(fd);
	if (!found) {
		number = free_number(amd);
		if (!fcntl(fd, F_SETSIG, number) && !fcntl(fd, F_SETOWN, getpid()))
			atomic_fetch_or(&amd->file_marks, UINT64_C(1) << number);
		else
			number = MARKS;
		found = (uint64_t)getpid() << PID_SHIFT | (uint64_t)number << MARK_SHIFT;
	}
	lock_drop(&amd->file_lock);
	return found;
}

uint64_t amd_files_key(struct amd *amd, int fd, uint32_t handle)
{
	int saved = errno;
	uint64_t found = read_mark(fd);

	if (!found)
		found = mark(amd, fd);
	errno = saved;
	return found | handle;
}

bool amd_files_is_shared(uint64_t key)
{
	return (key >> MARK_SHIFT & MARKS) == MARKS;
}

/* The mark that many files may have is left out: nobody can tell when the last is closed. */
uint64_t amd_files_marks(struct amd *amd)
{
	return atomic_load(&amd->file_marks) & ~(UINT64_C(1) << MARKS);
}

bool amd_files_has_mark(uint64_t key, uint64_t marks)
{
	return key >> PID_SHIFT == (uint64_t)getpid() && marks >> (key >> MARK_SHIFT & MARKS) & 1;
}

void amd_files_forget(struct amd *amd, uint64_t marks)
{
	atomic_fetch_and(&amd->file_marks, ~marks);
}

/* What the kernel writes; by hand, for readdir() takes memory of the program's. */
struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

static uint64_t mark_of(const char *name)
{
	char *end;
	long fd = strtol(name, &end, 10);
	uint64_t key;

	if (*end || end == name || amd_file((int)fd) <= AMD_FILE_KFD)
		return 0;
	key = read_mark((int)fd);
	return key >> PID_SHIFT == (uint64_t)getpid() ? UINT64_C(1) << (key >> MARK_SHIFT & MARKS)
						      : 0;
}

/* The marks of all descriptors; false: cannot be told. */
static bool list_open(uint64_t *ret_marks)
{
	_Alignas(8) char buffer[2048];
	uint64_t marks = 0;
	long n;
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return false;
	while ((n = syscall(SYS_getdents64, dir, buffer, sizeof(buffer))) > 0) {
		const struct entry *e;

		for (long at = 0; at < n; at += e->len) {
			e = (const struct entry *)(buffer + at);
			marks |= mark_of(e->name);
		}
	}
	close(dir);
	*ret_marks = marks;
	return n == 0;
}

/* Whether any render node is mapped, which may be of a file that has no descriptor any more. */
static bool is_mapped(void)
{
	static const char path[] = "/dev/dri/";
	const size_t keep = sizeof(path) - 2;
	char buffer[4096 + sizeof(path)];
	size_t have = 0;
	bool found = false;
	ssize_t n = 0;
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while (maps >= 0 && !found && (n = read(maps, buffer + have, 4096)) > 0) {
		have += (size_t)n;
		found = memmem(buffer, have, path, sizeof(path) - 1);
		if (have > keep) { /* what may be the beginning of it */
			memmove(buffer, buffer + have - keep, keep);
			have = keep;
		}
	}
	if (maps >= 0)
		close(maps);
	return found || maps < 0 || n < 0;
}

uint64_t amd_files_closed(uint64_t marks)
{
	uint64_t now, then;
	int saved = errno;

	/* Twice: a descriptor may move, by dup and close, to where the first look has been. */
	guest_depth++;
	if (!marks || !list_open(&now) || !(marks & ~now) || !list_open(&then))
		marks = 0;
	else
		marks &= ~(now | then);
	if (marks && is_mapped())
		marks = 0;
	guest_depth--;
	errno = saved;
	return marks;
}
