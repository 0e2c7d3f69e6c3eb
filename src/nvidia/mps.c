/* SPDX-License-Identifier: Apache-2.0 */
#include "nvidia/mps.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

/*
 * Asked with a datagram socket, which the daemon's, being of another type, refuses in the kernel
 * before anybody is woken, and only after it was found to be open. A connection that is made and
 * given up would stand in the daemon's log as a client that failed.
 */
int mps_probe(const char *pipe_dir)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	CLEANUP_CLOSE int fd = -EBADF;

	if (strlen(pipe_dir) > MPS_PIPE_MAX)
		return -ENAMETOOLONG;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", pipe_dir);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno();
	if (!connect(fd, (const struct sockaddr *)&address, sizeof(address)) || errno == EPROTOTYPE)
		return 0;
	return err_errno();
}

struct mps_text mps_part_text(uint32_t permille)
{
	struct mps_text text;

	if (permille > 1000)
		permille = 1000;
	if (permille % 10)
		snprintf(text.s, sizeof(text.s), "%u.%u", permille / 10, permille % 10);
	else
		snprintf(text.s, sizeof(text.s), "%u", permille / 10);
	return text;
}
