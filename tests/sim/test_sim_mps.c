/* SPDX-License-Identifier: Apache-2.0 */
/* What a program sees of MPS: its part of the SMs where a daemon takes connections, else all. */
#include <sys/un.h>

#include "tests/sim/sim_test.h"

static int attribute(CUdevice_attribute which)
{
	int value = -1;

	OK(cuDeviceGetAttribute(&value, which, 0));
	return value;
}

/* In a process of its own, which has not initialised. */
static void check_child(const char *percent, int enabled, int sms)
{
	pid_t child = fork();
	int status;

	if (!child) {
		if (percent)
			setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent, 1);
		OK(cuInit(0));
		CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_MPS_ENABLED), enabled);
		CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), sms);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

int main(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	unsetenv("CUDA_MPS_PIPE_DIRECTORY");
	unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	sim_begin("1", "1GiB");
	check_child("25", 0, 132);
	setenv("CUDA_MPS_PIPE_DIRECTORY", sim_dir, 1);
	check_child("25", 0, 132);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", sim_dir);
	CHECK_EQ(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(listen(fd, 16), 0);
	check_child(NULL, 1, 132);
	check_child("25", 1, 32);
	check_child("40", 1, 52);
	check_child("98", 1, 128);
	check_child("0.1", 1, 8);
	close(fd);
	check_child("25", 0, 132);
	unlink(address.sun_path);
	return 0;
}
