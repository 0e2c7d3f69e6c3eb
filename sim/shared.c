/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int sim_byte_lock(int fd, off_t at, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

bool sim_byte_locked(int fd, off_t at)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

int sim_seat_take(int fd, off_t at, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (sim_byte_lock(fd, at + i, F_WRLCK) == 0)
			return (int)i;
	return -ENOSPC;
}

static int shared_fill(int fd, size_t bytes, sim_shared_init_fn *init)
{
	void *map;
	int r;

	if (ftruncate(fd, (off_t)bytes) < 0)
		return -errno;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	r = init(map);
	munmap(map, bytes);
	return r;
}

static int shared_create(const char *path, size_t bytes, sim_shared_init_fn *init)
{
	char tmp[PATH_MAX];
	int fd, r;

	if ((size_t)snprintf(tmp, sizeof(tmp), "%s-XXXXXX", path) >= sizeof(tmp))
		return -ENAMETOOLONG;
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = shared_fill(fd, bytes, init);
	if (r == 0 && link(tmp, path) < 0 && errno != EEXIST)
		r = -errno;
	unlink(tmp);
	close(fd);
	return r;
}

int sim_shared_open(const char *path, size_t bytes, sim_shared_init_fn *init, void **ret_map,
		    int *ret_fd)
{
	struct stat st;
	void *map;
	int fd, r;

	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && init) {
		r = shared_create(path, bytes, init);
		if (r)
			return r;
		fd = open(path, O_RDWR | O_CLOEXEC);
	}
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_size != (off_t)bytes) {
		close(fd);
		return -EPROTO;
	}
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		r = -errno;
		close(fd);
		return r;
	}
	madvise(map, bytes, MADV_DONTFORK);
	*ret_map = map;
	*ret_fd = fd;
	return 0;
}
