/* SPDX-License-Identifier: Apache-2.0 */
#include "nvidia/checkpoint.h"

#include <dlfcn.h>
#include <errno.h>

#include "nvidia/cuda_api.h"

static int checkpoint_errno(CUresult e)
{
	switch (e) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_NOT_PERMITTED:
		return -EPERM;
	case CUDA_ERROR_NOT_SUPPORTED:
		return -ENOTSUP;
	case CUDA_ERROR_INVALID_VALUE:
		return -ESRCH;
	case CUDA_ERROR_NOT_READY:
		return -ETIMEDOUT;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_ERROR_ILLEGAL_STATE:
		return -EBUSY;
	default:
		return -EIO;
	}
}

int checkpoint_open(void)
{
	void *handle;

	if (!cuda_driver_bound()) {
		handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
		if (!handle)
			return -ENOENT;
		cuda_driver_bind(handle, dlsym);
	}
	if (!cuda_real_address(CUDA_FN_cuCheckpointProcessLock))
		return -ENOTSUP;
	return cuda_real.cuInit(0) ? -ENODEV : 0;
}

int checkpoint_state(pid_t pid, CUprocessState *ret)
{
	return checkpoint_errno(cuda_real.cuCheckpointProcessGetState(pid, ret));
}

int checkpoint_lock(pid_t pid, unsigned int timeout_ms)
{
	CUcheckpointLockArgs args = {.timeoutMs = timeout_ms};

	return checkpoint_errno(cuda_real.cuCheckpointProcessLock(pid, &args));
}

int checkpoint_take(pid_t pid)
{
	return checkpoint_errno(cuda_real.cuCheckpointProcessCheckpoint(pid, NULL));
}

int checkpoint_return(pid_t pid)
{
	return checkpoint_errno(cuda_real.cuCheckpointProcessRestore(pid, NULL));
}

int checkpoint_unlock(pid_t pid)
{
	return checkpoint_errno(cuda_real.cuCheckpointProcessUnlock(pid, NULL));
}
