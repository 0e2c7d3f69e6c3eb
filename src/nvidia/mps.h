/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of a program and the MPS control daemon: the variables of its environment, and the
 * socket in the pipe directory. No other file of the daemon is relied on.
 */
#ifndef ALLOT_NVIDIA_MPS_H
#define ALLOT_NVIDIA_MPS_H

#include <stdint.h>
#include <sys/un.h>

#define MPS_PIPE "CUDA_MPS_PIPE_DIRECTORY"
#define MPS_LOG	 "CUDA_MPS_LOG_DIRECTORY"
#define MPS_PART "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
/* With it the part is read again for each context, and may be another one. */
#define MPS_PART_BY_CONTEXT "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING"
/* The client's priority; without it the daemon's default, which is normal. */
#define MPS_PRIORITY	    "CUDA_MPS_CLIENT_PRIORITY"
#define MPS_PRIORITY_NORMAL "0"
#define MPS_PRIORITY_BELOW  "1"

/*
 * The length of a socket's path is limited. This leaves room for the longest name that the daemon
 * ever used.
 */
#define MPS_PIPE_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof("/control_privileged"))

/*
 * 0 when a control daemon has its socket open in the pipe directory. -ECONNREFUSED or -ENOENT when
 * none has, -EACCES when it is somebody else's, -ENAMETOOLONG, or what socket(2) says. Does not
 * wait, and the daemon does not notice.
 */
int mps_probe(const char *pipe_dir);

/* A part of the SMs as MPS reads it, in percent: "25", "12.5". */
struct mps_text {
	char s[8];
};
struct mps_text mps_part_text(uint32_t permille);

#endif
