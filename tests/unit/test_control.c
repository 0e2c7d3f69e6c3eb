/* SPDX-License-Identifier: Apache-2.0 */
/* Between two daemons the socket is there: who finds none begins without allotd. */
#include "daemon/users/control.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/ask.h"
#include "tests/unit/tenant_fixture.h"

static char path[PATH_MAX];
static bool expected;

static bool is_there(void)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

int __real_bind(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len);

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len)
{
	CHECK(is_there() || !expected);
	return __real_bind(fd, address, len);
}

int __real_listen(int fd, int n);
int __wrap_listen(int fd, int n);

int __wrap_listen(int fd, int n)
{
	CHECK(is_there() || !expected);
	return __real_listen(fd, n);
}

int main(void)
{
	char runtime[PATH_MAX + 8];
	struct site_rule rule = {.who = SITE_DEFAULT};
	struct site site = {.rules = &rule};
	const struct requests requests = {.runtime = runtime, .site = &site};
	struct control *control;
	struct loop *loop;

	snprintf(runtime, sizeof(runtime), "%s/run", fixture_runtime_dir());
	CHECK_EQ(control_socket_path(runtime, path), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(loop_open(&loop), 0);
		CHECK_EQ(control_open(loop, &requests, &control), 0);
		CHECK(is_there());
		control_close(control);
		loop_close(loop);
		CHECK(is_there()); /* its site bounds users */
		expected = true;
	}
	return 0;
}
