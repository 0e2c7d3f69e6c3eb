/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/policy_file.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/err.h"

bool policy_file_ok(const struct policy_file *file)
{
	return file->magic == POLICY_MAGIC && file->version == POLICY_VERSION &&
	       file->file_bytes == sizeof(*file);
}

int policy_file_map(int fd, int prot, struct policy_file **ret)
{
	struct policy_file *file;

	file = mmap(NULL, sizeof(*file), prot, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return err_errno();
	if (madvise(file, sizeof(*file), MADV_DONTFORK) < 0 || !policy_file_ok(file)) {
		munmap(file, sizeof(*file));
		return -EPROTO;
	}
	*ret = file;
	return 0;
}

void policy_file_unmap(struct policy_file **file)
{
	if (*file)
		munmap(*file, sizeof(**file));
}
