/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that link the simulated driver: devices of their own, results by name, children. */
#ifndef ALLOT_TESTS_SIM_TEST_H
#define ALLOT_TESTS_SIM_TEST_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/cuda/api.h"
#include "sim/truth.h"
#include "tests/check.h"
#include "tests/sim/message.h"

#define MIB (1ull << 20)

/* The call must answer so; what it answered is shown by name. */
#define GIVES(want, call)                                                                    \
	do {                                                                                 \
		CUresult got_ = (call);                                                      \
		const char *name_ = NULL;                                                    \
		if (got_ != (want)) {                                                        \
			cuGetErrorName(got_, &name_);                                        \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, name_); \
			exit(1);                                                             \
		}                                                                            \
	} while (0)
#define OK(call) GIVES(CUDA_SUCCESS, call)

static struct sim_truth *truth;
static char sim_dir[64] = "/dev/shm/allot-test-sim-XXXXXX";
static pid_t sim_owner;

static inline void sim_remove(void)
{
	char path[128];

	if (getpid() != sim_owner)
		return;
	snprintf(path, sizeof(path), "%s/region", sim_dir);
	unlink(path);
	rmdir(sim_dir);
}

/* Simulated devices for this program and its children alone; contexts take 64 MiB. */
static inline void sim_begin(const char *gpus, const char *memory)
{
	CHECK(mkdtemp(sim_dir));
	sim_owner = getpid();
	atexit(sim_remove);
	setenv("ALLOT_SIM_DIR", sim_dir, 1);
	setenv("ALLOT_SIM_GPUS", gpus, 1);
	setenv("ALLOT_SIM_MEMORY", memory, 1);
	setenv("ALLOT_SIM_CONTEXT", "64MiB", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_MODULE_LOADING");
	CHECK_EQ(sim_truth_create(sim_dir, &truth), 0);
}

static inline CUcontext sim_context(CUdevice device)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, device));
	OK(cuCtxSetCurrent(ctx));
	return ctx;
}

static inline uint64_t used(int device)
{
	return sim_truth_used(truth, device);
}

/*
 * A child that runs fn(fd) and exits, before the parent has initialised; `fd` is its socket. It
 * ends with the thread that made it, so that a test that fails is not waited for.
 */
static inline pid_t sim_child(void (*fn)(int fd), int *ret_fd)
{
	int pair[2];
	pid_t pid, parent = getpid();

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		close(pair[0]);
		/* The truth's mapping is not inherited. */
		sim_truth_close(truth);
		CHECK_EQ(sim_truth_open(sim_dir, &truth), 0);
		fn(pair[1]);
		exit(0);
	}
	close(pair[1]);
	*ret_fd = pair[0];
	return pid;
}

/*
 * Kills it, and waits until nothing of it is left on the device. Who reads its /proc/PID/fdinfo at
 * that moment keeps its file, and so its lock on the region, a little longer than itself.
 */
static inline void sim_kill(pid_t pid, int device)
{
	CHECK(!kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	for (int i = 0; i < 1000 && sim_truth_process(truth, pid, device); i++)
		usleep(10000);
	CHECK_EQ(sim_truth_process(truth, pid, device), 0);
}

static inline void sim_reap(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

/* One message, with the descriptor `fd` unless that is -1. */
static inline void sim_send(int socket, const void *data, size_t len, int fd)
{
	CHECK_EQ(message_send(socket, data, len, fd), (ssize_t)len);
}

/* A message of that length. Answers its descriptor, or -1. */
static inline int sim_receive(int socket, void *data, size_t len)
{
	int fd;

	CHECK_EQ(message_receive(socket, data, len, &fd), (ssize_t)len);
	return fd;
}

/* Take turns: tell the other side to go on, wait to be told. */
static inline void sim_tell(int socket)
{
	sim_send(socket, "", 1, -1);
}

static inline void sim_wait(int socket)
{
	char c;

	sim_receive(socket, &c, 1);
}

#endif
