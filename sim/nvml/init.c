/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the library, and what it says of the system. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/parse.h"
#include "sim/nvml/entry.h"

#define INIT_MS_MAX 60000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int users; /* nvmlInit calls without their nvmlShutdown */
static struct sim_region *region;
static pid_t owner; /* who mapped it: the mapping is not inherited */

static int init_open_region(void)
{
	int r = sim_region_open(NULL, true, &region, NULL);

	if (r == 0)
		owner = getpid();
	return r;
}

struct sim_region *sim_nvml_region(void)
{
	struct sim_region *ret = NULL;

	pthread_mutex_lock(&lock);
	if (users && (owner == getpid() || init_open_region() == 0))
		ret = region;
	pthread_mutex_unlock(&lock);
	return ret;
}

/* Says which thread of which process opens the library, to whoever asked for that. */
static void init_note_start(const char *what)
{
	const char *path = getenv("ALLOT_SIM_NVML_STARTS");
	char line[64];
	int fd = path && *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	int n = snprintf(line, sizeof(line), "%s %ld %ld\n", what, (long)getpid(),
			 syscall(SYS_gettid));

	if (fd < 0)
		return;
	if (write(fd, line, (size_t)n) != n)
		fprintf(stderr, "allot sim: cannot write to %s\n", path);
	close(fd);
}

/*
 * As long as opening NVML takes on a real machine: 6 ms and more. No lock is held, so that a fork
 * meanwhile has none.
 */
static void init_take_time(void)
{
	const char *text = getenv("ALLOT_SIM_NVML_INIT_MS");
	uint64_t ms;

	if (text && !parse_u64(text, 1, INIT_MS_MAX, &ms))
		nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000),
					     .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	nvmlReturn_t ret = NVML_SUCCESS;
	int r = 0;

	if (flags & ~(unsigned int)(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH))
		return NVML_ERROR_INVALID_ARGUMENT;
	init_note_start("begins");
	init_take_time();
	pthread_mutex_lock(&lock);
	if (!users || owner != getpid())
		r = init_open_region();
	if (r == 0)
		users++;
	else
		ret = r == -EACCES || r == -EPERM ? NVML_ERROR_NO_PERMISSION :
						    NVML_ERROR_DRIVER_NOT_LOADED;
	pthread_mutex_unlock(&lock);
	init_note_start("done");
	return ret;
}

nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t ret = NVML_SUCCESS;

	pthread_mutex_lock(&lock);
	if (!users)
		ret = NVML_ERROR_UNINITIALIZED;
	else if (--users == 0 && owner == getpid())
		sim_region_close(region);
	pthread_mutex_unlock(&lock);
	return ret;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NO_PERMISSION:
		return "Insufficient Permissions";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case NVML_ERROR_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	case NVML_ERROR_FUNCTION_NOT_FOUND:
		return "Function Not Found";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
		return "Argument version mismatch";
	default:
		return "Unknown Error";
	}
}

nvmlReturn_t sim_nvml_text(char *out, unsigned int length, const char *text)
{
	size_t bytes = strlen(text) + 1;

	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (length < bytes)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(out, text, bytes);
	return NVML_SUCCESS;
}

static nvmlReturn_t init_say(char *out, unsigned int length, const char *text)
{
	return sim_nvml_region() ? sim_nvml_text(out, length, text) : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	return init_say(version, length, "580.159");
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	return init_say(version, length, "13.580.159");
}

/* Answered before nvmlInit too. */
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
	if (!cudaDriverVersion)
		return NVML_ERROR_INVALID_ARGUMENT;
	*cudaDriverVersion = 13000;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion)
{
	return nvmlSystemGetCudaDriverVersion_v2(cudaDriverVersion);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
	char path[64], text[4096] = "";
	FILE *f;

	if (!sim_nvml_region())
		return NVML_ERROR_UNINITIALIZED;
	if (!name || !length)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	f = fopen(path, "re");
	if (!f)
		return NVML_ERROR_NOT_FOUND;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	/* The first argument, cut to what fits. */
	snprintf(name, length, "%s", text);
	return NVML_SUCCESS;
}
