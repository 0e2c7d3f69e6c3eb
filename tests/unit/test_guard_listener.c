/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of a child that has the guard's filter, and answers. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/target.h"
#include "guard/filter.h"
#include "guard/listener.h"
#include "tests/check.h"

#define REQUEST _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, uint64_t)

static void child(int socket)
{
	int listener = guard_filter_install(false);

	if (listener < 0)
		_exit(77);
	CHECK_EQ(listener_hand_over(socket, listener), 0);
	close(listener);
	CHECK_EQ(ioctl(socket, REQUEST, 0x1234), -1);
	CHECK_EQ(errno, ENOMEM);
	CHECK_EQ(ioctl(socket, REQUEST, 0x1234), -1);
	CHECK_EQ(errno, ENOTTY); /* a socket's */
	ioctl(socket, REQUEST, 0x1234);
	_exit(1); /* it is killed in there */
}

static void receive(int listener, pid_t pid, struct seccomp_notif *ret)
{
	CHECK_EQ(listener_receive(listener, ret), 0);
	CHECK_EQ(ret->pid, pid);
	CHECK_EQ(ret->data.args[1], REQUEST);
	CHECK_EQ(ret->data.args[2], 0x1234);
	CHECK(listener_waits(listener, ret));
	while (!target_inside(pid, REQUEST)) /* it is about to sleep */
		usleep(1000);
}

int main(void)
{
	struct seccomp_notif asked;
	int pair[2], listener, status;
	pid_t pid;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		child(pair[1]);
	close(pair[1]);
	listener = listener_take_over(pair[0]);
	if (listener < 0) {
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(WEXITSTATUS(status), 77);
		SKIP("this kernel, or a container, makes no seccomp filters");
	}
	listener_tune(listener);
	receive(listener, pid, &asked);
	CHECK_EQ(listener_answer(listener, &asked, -ENOMEM), 0);
	receive(listener, pid, &asked);
	CHECK_EQ(listener_answer(listener, &asked, 0), 0);
	CHECK(listener_answer(listener, &asked, 0) < 0); /* once */
	receive(listener, pid, &asked);
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK(!listener_waits(listener, &asked));
	CHECK_EQ(listener_answer(listener, &asked, 0), -ENOENT);
	close(listener);
	return 0;
}
