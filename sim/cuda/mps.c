/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/mps.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sim/cuda/sim.h"

/* A part is of whole pairs of SMs, and of four pairs at least: an H200's, bench/results. */
#define SMS_IN_TPC 2u
#define SMS_LEAST  8u

static bool enabled;
static double part = 1; /* of the SMs */

void sim_mps_begin(void)
{
	const char *dir = getenv("CUDA_MPS_PIPE_DIRECTORY");
	const char *percent = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, n;

	if (!dir)
		return;
	n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", dir);
	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		return;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	enabled = fd >= 0 &&
		  !connect(fd, (const struct sockaddr *)&address, sizeof(address));
	if (fd >= 0)
		close(fd);
	sim.region->row[sim.row].under_mps = enabled;
	if (enabled && percent && atof(percent) > 0 && atof(percent) < 100)
		part = atof(percent) / 100;
}

bool sim_mps_enabled(void)
{
	return enabled;
}

uint32_t sim_mps_sms(uint32_t sms)
{
	uint32_t n = (uint32_t)(sms * part) / SMS_IN_TPC * SMS_IN_TPC;

	if (part == 1)
		return sms;
	return n < SMS_LEAST ? SMS_LEAST : n;
}
