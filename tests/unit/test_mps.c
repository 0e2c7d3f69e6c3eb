/* SPDX-License-Identifier: Apache-2.0 */
#include "nvidia/mps.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"

static char dir[] = "/tmp/allot-test-mps-XXXXXX";
static char path[64];

static int listen_as(int type)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path, path);
	unlink(path);
	CHECK(fd >= 0);
	CHECK_EQ(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(listen(fd, 1), 0);
	return fd;
}

/* Open is open, whatever the type; a socket whose daemon is dead is not, nor is a file. */
static void test_probe(void)
{
	static const int types[] = {SOCK_SEQPACKET, SOCK_STREAM};
	char longer[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];

	CHECK_EQ(mps_probe("/no/such/directory"), -ENOENT);
	CHECK_EQ(mps_probe(dir), -ENOENT);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		int fd = listen_as(types[i]);

		/* More often than the socket has room for connections: none is made. */
		for (int n = 0; n < 100; n++)
			CHECK_EQ(mps_probe(dir), 0);
		CHECK(accept(fd, NULL, NULL) < 0 && errno == EAGAIN);
		close(fd);
		CHECK_EQ(mps_probe(dir), -ECONNREFUSED);
	}
	unlink(path);
	CHECK_EQ(mkdir(path, 0700), 0);
	CHECK_EQ(mps_probe(dir), -ECONNREFUSED);
	CHECK_EQ(rmdir(path), 0);

	memset(longer, 'x', sizeof(longer));
	longer[0] = '/';
	longer[MPS_PIPE_MAX] = '\0';
	CHECK_EQ(mps_probe(longer), -ENOENT);
	longer[MPS_PIPE_MAX] = 'x';
	longer[MPS_PIPE_MAX + 1] = '\0';
	CHECK_EQ(mps_probe(longer), -ENAMETOOLONG);
}

static void test_part(void)
{
	CHECK(!strcmp(mps_part_text(1).s, "0.1"));
	CHECK(!strcmp(mps_part_text(125).s, "12.5"));
	CHECK(!strcmp(mps_part_text(250).s, "25"));
	CHECK(!strcmp(mps_part_text(1000).s, "100"));
}

int main(void)
{
	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/control", dir);
	test_probe();
	test_part();
	CHECK_EQ(rmdir(dir), 0);
	return 0;
}
