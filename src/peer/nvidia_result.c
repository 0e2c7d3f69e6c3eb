/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of NVIDIA's driver, as errors and as words. */
#include <errno.h>

#include "peer/complain.h"
#include "peer/nvidia.h"

int nvidia_errno(CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_DEVICE:
	case CUDA_ERROR_INVALID_HANDLE:
		return -EINVAL;
	case CUDA_ERROR_NO_DEVICE:
		return -ENODEV;
	case CUDA_ERROR_NOT_SUPPORTED:
		return -ENOTSUP;
	case CUDA_ERROR_NOT_PERMITTED:
		return -EPERM;
	default:
		return -EIO;
	}
}

const char *nvidia_words(CUresult result)
{
	const char *name = NULL;

	cuda_real.cuGetErrorName(result, &name);
	return name ? name : "an error of the driver's without a name";
}

int nvidia_complain(CUresult result, const char *what, const char *on)
{
	return complain(nvidia_errno(result), "%s: %s: %s", what, on, nvidia_words(result));
}
