/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/dmabuf.h"

#include <errno.h>
#include <sys/stat.h>

#include "guest/lend/entry.h"

int dmabuf_name(int fd, struct dmabuf_name *ret)
{
	uint64_t name[2];
	struct stat st;
	int saved = errno, r;

	guest_depth++;
	r = fstat(fd, &st);
	guest_depth--;
	errno = saved;
	if (r < 0)
		return -EBADF;
	name[0] = st.st_dev;
	name[1] = st.st_ino;
	*ret = (struct dmabuf_name){entry_key(name, sizeof(name)), st.st_ino};
	return 0;
}
