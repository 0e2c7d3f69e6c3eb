/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to launch a kernel. */
#include "sim/cuda/kernel.h"
#include "sim/cuda/rows.h"
#include "sim/cuda/stream.h"

static CUresult kernel_api_launch(const CUlaunchConfig *config, CUfunction f, void **params,
				  void **extra, bool per_thread)
{
	struct sim_work work = {.kind = WORK_KERNEL};
	struct sim_stream *stream;
	CUresult error;

	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	error = stream_resolve(config->hStream, per_thread, &stream);
	if (!error)
		error = kernel_describe(&work.launch, config, f, params, extra);
	if (!error && !stream_is_capturing(stream))
		error = sim_function_launch(f);
	return error ? error : work_submit(stream, &work);
}

ROWS(cuLaunchKernelEx, _ptsz, kernel_api_launch,
     (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra), config, f,
     kernelParams, extra)

#define CONFIG                                                                                     \
	(&(const CUlaunchConfig){gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,    \
				 sharedMemBytes, hStream, NULL, 0})

ROWS(cuLaunchKernel, _ptsz, kernel_api_launch,
     (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
      unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra),
     CONFIG, f, kernelParams, extra)
ROWS(cuLaunchCooperativeKernel, _ptsz, kernel_api_launch,
     (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
      unsigned int sharedMemBytes, CUstream hStream, void **kernelParams),
     CONFIG, f, kernelParams, NULL)

CUresult CUDAAPI cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
						      unsigned int numDevices, unsigned int flags)
{
	CUresult error = CUDA_SUCCESS;

	if (!launchParamsList || !numDevices)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < numDevices && !error; i++) {
		const CUDA_LAUNCH_PARAMS *p = &launchParamsList[i];

		error = cuLaunchKernel(p->function, p->gridDimX, p->gridDimY, p->gridDimZ,
				       p->blockDimX, p->blockDimY, p->blockDimZ, p->sharedMemBytes,
				       p->hStream, p->kernelParams, NULL);
	}
	return error;
}

/* The launches of CUDA 3: parameters come by cuParamSet*, which is not simulated. */
CUresult CUDAAPI cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
	const CUlaunchConfig config = {(unsigned int)grid_width,
				       (unsigned int)grid_height,
				       1,
				       1,
				       1,
				       1,
				       0,
				       hStream,
				       NULL,
				       0};
	void *no_parameters[SIM_KERNEL_ARGS] = {NULL};

	if (grid_width <= 0 || grid_height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	return kernel_api_launch(&config, f, no_parameters, NULL, false);
}

CUresult CUDAAPI cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
	return cuLaunchGridAsync(f, grid_width, grid_height, NULL);
}

CUresult CUDAAPI cuLaunch(CUfunction f)
{
	return cuLaunchGridAsync(f, 1, 1, NULL);
}
