/* SPDX-License-Identifier: Apache-2.0 */
/* A process that notes its addresses as liballot does in a tenant's, by the same code. */
#include <fcntl.h>
#include <unistd.h>

#include "guest/amd/addresses.h"
#include "holder.h"

static struct addresses addresses;

/* A file's mark, given when the process first notes something of it. */
static int mark(int fd)
{
	static int last;

	if (fcntl(fd, F_GETOWN) != getpid() &&
	    (fcntl(fd, F_SETSIG, ++last) || fcntl(fd, F_SETOWN, getpid())))
		wrong("a file cannot be marked");
	return fcntl(fd, F_GETSIG);
}

void note(int fd, const struct drm_amdgpu_gem_va *done)
{
	struct drm_amdgpu_gem_va lie = *done;
	uint64_t key = amd_addresses_file(getpid(), mark(fd)) << 32 | done->handle;

	addresses_note(&addresses, key, done);
	lie.va_address += 1ULL << 40;
	if (with & LIES)
		addresses_note(&addresses, key, &lie);
	addresses_publish(&addresses);
}
