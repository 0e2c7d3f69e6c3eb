/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Marks are signal numbers, from 1 on: the last one is for all files that find no other free. */
#define MARKS	   AMD_ADDRESSES_NUMBER_LAST
#define MARK_SHIFT 32
#define PID_SHIFT  (MARK_SHIFT + AMD_ADDRESSES_NUMBER_BITS) /* above: a pid has at most 22 bits */

#define FIRST_RENDER 128 /* minors below are of primary nodes */

/* Behind all that a process might lock in a device file. */
#define LOCK_AT (INT64_C(1) << 61)

/* A mark and its process's pid, as they stand in a key. */
static uint64_t amd_files_mark_of(int number)
{
	return amd_addresses_file(getpid(), number) << MARK_SHIFT;
}

/* The same of an open file; 0: not marked. */
static uint64_t amd_files_read_mark(int fd)
{
	int owner = fcntl(fd, F_GETOWN), number = fcntl(fd, F_GETSIG);

	if (owner <= 0 || number <= 0 || number > MARKS)
		return 0;
	return amd_addresses_file(owner, number) << MARK_SHIFT;
}

/* The byte that the mark's description has a lock on. */
static struct flock amd_files_byte(uint64_t mark, short type)
{
	return (struct flock){.l_type = type,
			      .l_whence = SEEK_SET,
			      .l_start = (off_t)(LOCK_AT | mark >> MARK_SHIFT),
			      .l_len = 1};
}

/* A file that was opened for writing alone can only have the other kind of lock. */
static bool amd_files_lock(int fd, uint64_t mark)
{
	struct flock byte = amd_files_byte(mark, F_RDLCK);

	if (!fcntl(fd, F_OFD_SETLK, &byte))
		return true;
	byte.l_type = F_WRLCK;
	return !fcntl(fd, F_OFD_SETLK, &byte);
}

/*
 * True if any description has the lock, asked through one of our own; also if that cannot be told.
 */
static bool amd_files_is_locked(uint64_t mark, int minor)
{
	struct flock byte = amd_files_byte(mark, F_WRLCK);
	char path[32];
	bool locked;
	int fd;

	snprintf(path, sizeof(path), "/dev/dri/%s%d", minor < FIRST_RENDER ? "card" : "renderD",
		 minor);
	fd = open(path, O_RDWR | O_CLOEXEC);
	locked = fd < 0 || fcntl(fd, F_OFD_GETLK, &byte) || byte.l_type != F_UNLCK;
	if (fd >= 0)
		close(fd);
	return locked;
}

/* Under the lock. */
static void amd_files_give_number(struct amd *amd, int fd, uint64_t number)
{
	amd->file_given[number]++;
	amd->file_minor[number] = (int16_t)(amd_file(fd) + 1);
	atomic_fetch_or(&amd->file_marks, UINT64_C(1) << number);
}

static int amd_files_free_number(struct amd *amd)
{
	uint64_t taken = atomic_load(&amd->file_marks);

	for (int i = 1; i < MARKS; i++)
		if (!(taken >> i & 1))
			return i;
	return MARKS;
}

/*
 * Threads that mark a file or forget marks take the lock: of two threads that meet a file at once,
 * one would else write over the other's mark. Nothing that is called under it waits.
 */
static uint64_t amd_files_mark(struct amd *amd, int fd)
{
	uint64_t found;
	int number;

	lock_take(&amd->file_lock);
	found = amd_files_read_mark(fd);
	if (!found) {
		number = amd_files_free_number(amd);
		found = amd_files_mark_of(number);
		/* Nobody could tell when a file without the lock is closed. */
		if (number != MARKS && !amd_files_lock(fd, found))
			number = MARKS;
		if (!fcntl(fd, F_SETSIG, number) && !fcntl(fd, F_SETOWN, getpid()))
			amd_files_give_number(amd, fd, (uint64_t)number);
		else
			number = MARKS;
		found = amd_files_mark_of(number);
	}
	lock_drop(&amd->file_lock);
	return found;
}

bool amd_files_is_shared(uint64_t key)
{
	return (key >> MARK_SHIFT & MARKS) == MARKS;
}

/* The mark that many files may have is left out: nobody can tell when the last is closed. */
void amd_files_marks(struct amd *amd, struct amd_marks *ret)
{
	ret->pid = getpid();
	lock_take(&amd->file_lock);
	ret->set = atomic_load(&amd->file_marks) & ~(UINT64_C(1) << MARKS);
	memcpy(ret->given, amd->file_given, sizeof(ret->given));
	memcpy(ret->minor, amd->file_minor, sizeof(ret->minor));
	lock_drop(&amd->file_lock);
}

void amd_files_keep_same(const struct amd *amd, struct amd_marks *marks)
{
	for (int i = 0; i < MARKS; i++)
		if (amd->file_given[i] != marks->given[i])
			marks->set &= ~(UINT64_C(1) << i);
}

bool amd_files_has_mark(uint64_t key, const struct amd_marks *marks)
{
	return key >> PID_SHIFT == (uint64_t)marks->pid &&
	       marks->set >> (key >> MARK_SHIFT & MARKS) & 1;
}

void amd_files_forget(struct amd *amd, uint64_t marks)
{
	atomic_fetch_and(&amd->file_marks, ~marks);
}

/* An entry as getdents64 writes it. readdir() is not used: it takes memory of the program's. */
struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

/*
 * Calls `look` for each descriptor of the process. False: /proc does not tell them. It reads the
 * folder of the thread: that of the process is empty, without an error, once the main thread has
 * ended. A list in which our own descriptor is missing is not believed.
 */
static bool amd_files_each_descriptor(void (*look)(int fd, void *arg), void *arg)
{
	_Alignas(8) char buffer[2048];
	int dir = open("/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool listed = false;
	long n;

	if (dir < 0)
		return false;
	while ((n = syscall(SYS_getdents64, dir, buffer, sizeof(buffer))) > 0) {
		const struct entry *e;

		for (long at = 0; at < n; at += e->len) {
			char *end;
			long fd;

			e = (const struct entry *)(buffer + at);
			fd = strtol(e->name, &end, 10);
			if (*end || end == e->name)
				continue;
			listed |= fd == dir;
			look((int)fd, arg);
		}
	}
	close(dir);
	return n == 0 && listed;
}

struct marked {
	uint64_t marks;
	amd_files_fn *found; /* NULL: only the marks are wanted */
	void *arg;
};

static void amd_files_look_for_mark(int fd, void *arg)
{
	struct marked *marked = arg;
	uint64_t key, mark;

	if (amd_file(fd) <= AMD_FILE_KFD)
		return;
	key = amd_files_read_mark(fd);
	mark = UINT64_C(1) << (key >> MARK_SHIFT & MARKS);
	if (key >> PID_SHIFT != (uint64_t)getpid() || marked->marks & mark)
		return;
	marked->marks |= mark;
	if (marked->found)
		marked->found(fd, marked->arg);
}

/*
 * A file that was kept over exec still has its mark, with this pid, and the program that runs now
 * does not know it. No such mark is given to another file: they are found before the first is
 * given, and later when a file comes that was not open then.
 */
void amd_files_find_before(struct amd *amd, amd_files_fn *found, void *arg)
{
	struct marked before = {.found = found, .arg = arg};

	if (atomic_load(&amd->file_marks_found))
		return;
	guest_depth++;
	amd_files_each_descriptor(amd_files_look_for_mark, &before);
	guest_depth--;
	atomic_fetch_or(&amd->file_marks, before.marks);
	atomic_store(&amd->file_marks_found, true);
}

static bool amd_files_is_new(struct amd *amd, uint64_t found)
{
	return !(atomic_load(&amd->file_marks) >> (found >> MARK_SHIFT & MARKS) & 1) &&
	       found >> PID_SHIFT == (uint64_t)getpid();
}

/* In a key with the mark of many files the device stands in place of the pid. */
uint64_t amd_files_key(struct amd *amd, int fd, int device, uint32_t handle)
{
	int saved = errno;
	uint64_t found = amd_files_read_mark(fd);

	if (!found) {
		amd_files_find_before(amd, NULL, NULL);
		found = amd_files_mark(amd, fd);
	} else if (amd_files_is_new(amd, found)) {
		lock_take(&amd->file_lock);
		amd_files_give_number(amd, fd, found >> MARK_SHIFT & MARKS);
		lock_drop(&amd->file_lock);
	}
	errno = saved;
	if (amd_files_is_shared(found))
		found = (uint64_t)device << PID_SHIFT | (uint64_t)MARKS << MARK_SHIFT;
	return found | handle;
}

bool amd_files_meet(struct amd *amd, int fd, int device)
{
	uint64_t found = amd_files_read_mark(fd);

	if (found && !amd_files_is_new(amd, found))
		return false;
	amd_files_key(amd, fd, device, 0);
	return true;
}

struct mark_look {
	uint64_t mark;
	int fd;
};

static void amd_files_look_for_file(int fd, void *arg)
{
	struct mark_look *look = arg;

	if (look->fd >= 0 || amd_file(fd) <= AMD_FILE_KFD || amd_files_read_mark(fd) != look->mark)
		return;
	look->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

int amd_files_dup(uint64_t key)
{
	struct mark_look look = {key >> MARK_SHIFT << MARK_SHIFT, -EBADF};
	int saved = errno;

	if (!look.mark || amd_files_is_shared(key))
		return -EBADF;
	guest_depth++;
	amd_files_each_descriptor(amd_files_look_for_file, &look);
	guest_depth--;
	errno = saved;
	return look.fd < 0 ? -EBADF : look.fd;
}

static void amd_files_look_for_kfd(int fd, void *arg)
{
	if (amd_file(fd) == AMD_FILE_KFD)
		*(int *)arg = fd;
}

int amd_files_kfd(void)
{
	int found = -EBADF, saved = errno;

	guest_depth++;
	amd_files_each_descriptor(amd_files_look_for_kfd, &found);
	guest_depth--;
	errno = saved;
	return found;
}

struct inode_look {
	uint64_t inode;
	bool found;
};

static void amd_files_look_for_inode(int fd, void *arg)
{
	struct inode_look *look = arg;
	struct stat st;

	if (!fstat(fd, &st) && st.st_ino == look->inode)
		look->found = true;
}

/*
 * True if the list of mappings has that text, of at most 32 characters; also if it cannot be read.
 */
static bool amd_files_is_mapped(const char *text)
{
	const size_t len = strlen(text), keep = len - 1;
	char buffer[4096 + 32];
	size_t have = 0;
	bool found = false;
	ssize_t n = 0;
	int maps = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);

	while (maps >= 0 && !found && (n = read(maps, buffer + have, 4096)) > 0) {
		have += (size_t)n;
		found = memmem(buffer, have, text, len);
		if (have > keep) { /* what may be the beginning of it */
			memmove(buffer, buffer + have - keep, keep);
			have = keep;
		}
	}
	if (maps >= 0)
		close(maps);
	return found || maps < 0 || n < 0 || !have;
}

/*
 * Our own descriptors are looked at first, which costs less than to open a node: twice, since by
 * dup and close one may move to where the first look has been.
 */
uint64_t amd_files_closed(const struct amd_marks *marks)
{
	struct marked open = {.marks = 0};
	int saved = errno;
	uint64_t closed;

	guest_depth++;
	for (int i = 0; i < 2 && marks->set & ~open.marks; i++)
		if (!amd_files_each_descriptor(amd_files_look_for_mark, &open))
			open.marks = marks->set;
	closed = marks->set & ~open.marks;
	for (int i = 0; closed && i < MARKS; i++)
		if (closed >> i & 1 && marks->minor[i] &&
		    amd_files_is_locked(amd_files_mark_of(i), marks->minor[i] - 1))
			closed &= ~(UINT64_C(1) << i);
	guest_depth--;
	errno = saved;
	return closed;
}

bool amd_files_has_inode(uint64_t inode)
{
	struct inode_look look = {.inode = inode};
	int saved = errno;
	char column[32];

	snprintf(column, sizeof(column), " %llu ", (unsigned long long)inode);
	guest_depth++;
	for (int i = 0; i < 2 && !look.found; i++)
		if (!amd_files_each_descriptor(amd_files_look_for_inode, &look))
			look.found = true;
	/* Of a dma-buf, not of what else has that number in its line. */
	if (!look.found)
		look.found = amd_files_is_mapped("/dmabuf:") && amd_files_is_mapped(column);
	guest_depth--;
	errno = saved;
	return look.found;
}
