/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/amd_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "peer/mapping.h"

/* The first file is /dev/kfd, the others are render nodes in the order of being asked for. */
#define FILES (1 + MAPPING_DEVICES)

static struct {
	pthread_mutex_t lock;
	pthread_once_t once;
	uint32_t n;
	struct {
		uint32_t minor; /* 0: KFD */
		int fd;
	} file[FILES];
} files = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

/* In a forked child there is only this thread: the one that held the lock may be gone. */
static void amd_files_drop(void)
{
	for (uint32_t i = 0; i < files.n; i++)
		close(files.file[i].fd);
	files.n = 0;
	pthread_mutex_init(&files.lock, NULL);
}

static void amd_files_watch_forks(void)
{
	pthread_atfork(NULL, NULL, amd_files_drop);
}

static int amd_files_open_locked(uint32_t minor)
{
	char path[32];
	uint32_t i = 0;
	int fd;

	while (i < files.n && files.file[i].minor != minor)
		i++;
	if (i < files.n)
		return files.file[i].fd;
	if (i == FILES)
		return -E2BIG;
	if (minor)
		snprintf(path, sizeof(path), "/dev/dri/renderD%u", minor);
	else
		snprintf(path, sizeof(path), "/dev/kfd");
	fd = fd_openat(AT_FDCWD, path, O_RDWR, 0);
	if (fd < 0)
		return fd;
	files.file[i].minor = minor;
	files.file[i].fd = fd;
	files.n++;
	return fd;
}

int amd_file_render(uint32_t minor)
{
	int r;

	pthread_once(&files.once, amd_files_watch_forks);
	pthread_mutex_lock(&files.lock);
	r = amd_files_open_locked(minor);
	pthread_mutex_unlock(&files.lock);
	return r;
}

int amd_file_kfd(void)
{
	return amd_file_render(0);
}

int amd_ioctl_once(int fd, unsigned long request, void *block)
{
	return ioctl(fd, request, block) < 0 ? err_errno() : 0;
}

void amd_wait_us(uint32_t us)
{
	struct timespec t = {.tv_nsec = us * 1000L};

	if (us)
		nanosleep(&t, NULL);
}

int amd_ioctl(int fd, unsigned long request, void *block)
{
	uint32_t interrupted = 0, again = 0;
	int r;

	for (;;) {
		r = amd_ioctl_once(fd, request, block);
		if (r == -EINTR && interrupted++ < MAPPING_INTERRUPTED_MOST)
			continue;
		if (r != -EAGAIN || again++ >= MAPPING_AGAIN_MOST)
			return r;
		amd_wait_us(MAPPING_WAIT_MOST_US);
	}
}
