/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/life.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "ledger/map.h"
#include "ledger/shared_file.h"

int life_hold(const char *dir)
{
	CLEANUP_CLOSE int fd = map_open(dir, O_RDONLY);
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	r = shared_file_share(fd, LEDGER_LOCK_LIFE, 1);
	/* The tenant is being removed: the remover holds the lock exclusively. */
	if (r < 0)
		return r == -EAGAIN ? -ESTALE : r;
	/* tenant_remove holds it until the file is gone: is the file still there? */
	if (fstat(fd, &st) < 0)
		return err_errno();
	return st.st_nlink ? TAKE_FD(fd) : -ESTALE;
}

int life_keep(const char *dir)
{
	CLEANUP_CLOSE int fd = life_hold(dir);
	void *map;

	if (fd < 0)
		return fd;
	/* Nobody touches the page: the mapping keeps the description, and so the lock. */
	map = mmap(NULL, 1, PROT_NONE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return err_errno();
	return madvise(map, 1, MADV_DONTFORK) < 0 ? err_errno() : 0;
}

bool life_is_held(const char *dir)
{
	return map_is_held(dir, LEDGER_LOCK_LIFE, 1);
}
