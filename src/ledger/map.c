/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "ledger/shared_file.h"

int map_allocate(int fd, uint64_t at, uint64_t len)
{
	int r;

	do {
		r = fallocate(fd, 0, (off_t)at, (off_t)len);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? err_errno() : 0;
}

int map_allocate_rows(struct ledger *ledger, int fd, int device)
{
	const struct {
		size_t at, bytes;
	} part[] = {
		{offsetof(struct ledger_file, rows), sizeof(ledger->map->rows[0])},
		{offsetof(struct ledger_file, info), sizeof(ledger->map->info[0])},
		{offsetof(struct ledger_file, timeline), sizeof(ledger->map->timeline[0])},
	};
	int r;

	if (map_ready(ledger, device))
		return 0;
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		r = map_allocate(fd, part[i].at + (size_t)device * part[i].bytes, part[i].bytes);
		if (r < 0)
			return r;
	}
	word_set_bits(&ledger->ready, UINT64_C(1) << device);
	return 0;
}

int map_file(struct ledger *ledger, int fd)
{
	void *map = mmap(ledger->map, sizeof(struct ledger_file), PROT_READ | PROT_WRITE,
			 ledger->map ? MAP_SHARED | MAP_FIXED : MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return err_errno();
	/* Again at the same place: threads that are in it need not notice. */
	if (!ledger->map)
		ledger->map = map;
	/* A child that kept the mapping would keep our slot's lock alive. */
	return madvise(map, sizeof(struct ledger_file), MADV_DONTFORK) < 0 ? err_errno() : 0;
}

int map_open(const char *dir, int flags)
{
	return shared_file_open(dir, LEDGER_FILE, flags, sizeof(struct ledger_file));
}

int map_open_noted(struct ledger *ledger, int flags)
{
	CLEANUP_CLOSE int fd = map_open(ledger->dir, flags);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno();
	ledger->dev = st.st_dev;
	ledger->ino = st.st_ino;
	return TAKE_FD(fd);
}

int map_fd(struct ledger *ledger, int *ret_own)
{
	CLEANUP_CLOSE int fd = -EBADF;
	struct stat st;

	if (ledger->fd >= 0)
		return ledger->fd;
	fd = map_open(ledger->dir, O_RDWR);
	if (fd < 0)
		return fd == -ENOENT ? -ESTALE : fd;
	if (fstat(fd, &st) < 0)
		return err_errno();
	if (st.st_dev != ledger->dev || st.st_ino != ledger->ino)
		return -ESTALE;
	*ret_own = TAKE_FD(fd);
	return *ret_own;
}

bool map_is_held(const char *dir, int64_t at, int64_t len)
{
	CLEANUP_CLOSE int fd = map_open(dir, O_RDONLY);

	if (fd < 0)
		return fd == -EMFILE || fd == -ENFILE;
	return shared_file_locked(fd, at, len) != 0;
}
