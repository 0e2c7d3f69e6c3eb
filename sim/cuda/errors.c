/* SPDX-License-Identifier: Apache-2.0 */
/* Names of results, as the driver gives them: "CUDA_ERROR_OUT_OF_MEMORY", "out of memory". */
#include <stdbool.h>

#include "sim/cuda/api.h"

static const struct {
	CUresult code;
	const char *name, *text;
} results[] = {
#define RESULT(code, text) {CUDA_##code, "CUDA_" #code, text}
	RESULT(SUCCESS, "no error"),
	RESULT(ERROR_INVALID_VALUE, "invalid argument"),
	RESULT(ERROR_OUT_OF_MEMORY, "out of memory"),
	RESULT(ERROR_NOT_INITIALIZED, "initialization error"),
	RESULT(ERROR_DEINITIALIZED, "deinitialized"),
	RESULT(ERROR_PROFILER_DISABLED, "profiler disabled"),
	RESULT(ERROR_PROFILER_NOT_INITIALIZED, "profiler not initialized"),
	RESULT(ERROR_PROFILER_ALREADY_STARTED, "profiler already started"),
	RESULT(ERROR_PROFILER_ALREADY_STOPPED, "profiler already stopped"),
	RESULT(ERROR_STUB_LIBRARY, "stub library"),
	RESULT(ERROR_CALL_REQUIRES_NEWER_DRIVER, "call requires newer driver"),
	RESULT(ERROR_DEVICE_UNAVAILABLE, "device unavailable"),
	RESULT(ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
	RESULT(ERROR_INVALID_DEVICE, "invalid device ordinal"),
	RESULT(ERROR_DEVICE_NOT_LICENSED, "device not licensed"),
	RESULT(ERROR_INVALID_IMAGE, "invalid image"),
	RESULT(ERROR_INVALID_CONTEXT, "invalid device context"),
	RESULT(ERROR_CONTEXT_ALREADY_CURRENT, "context already current"),
	RESULT(ERROR_MAP_FAILED, "map failed"),
	RESULT(ERROR_UNMAP_FAILED, "unmap failed"),
	RESULT(ERROR_ARRAY_IS_MAPPED, "array is mapped"),
	RESULT(ERROR_ALREADY_MAPPED, "already mapped"),
	RESULT(ERROR_NO_BINARY_FOR_GPU, "no binary for gpu"),
	RESULT(ERROR_ALREADY_ACQUIRED, "already acquired"),
	RESULT(ERROR_NOT_MAPPED, "not mapped"),
	RESULT(ERROR_NOT_MAPPED_AS_ARRAY, "not mapped as array"),
	RESULT(ERROR_NOT_MAPPED_AS_POINTER, "not mapped as pointer"),
	RESULT(ERROR_ECC_UNCORRECTABLE, "ecc uncorrectable"),
	RESULT(ERROR_UNSUPPORTED_LIMIT, "unsupported limit"),
	RESULT(ERROR_CONTEXT_ALREADY_IN_USE, "context already in use"),
	RESULT(ERROR_PEER_ACCESS_UNSUPPORTED, "peer access unsupported"),
	RESULT(ERROR_INVALID_PTX, "invalid ptx"),
	RESULT(ERROR_INVALID_GRAPHICS_CONTEXT, "invalid graphics context"),
	RESULT(ERROR_NVLINK_UNCORRECTABLE, "nvlink uncorrectable"),
	RESULT(ERROR_JIT_COMPILER_NOT_FOUND, "jit compiler not found"),
	RESULT(ERROR_UNSUPPORTED_PTX_VERSION, "unsupported ptx version"),
	RESULT(ERROR_JIT_COMPILATION_DISABLED, "jit compilation disabled"),
	RESULT(ERROR_UNSUPPORTED_EXEC_AFFINITY, "unsupported exec affinity"),
	RESULT(ERROR_UNSUPPORTED_DEVSIDE_SYNC, "unsupported devside sync"),
	RESULT(ERROR_CONTAINED, "contained"),
	RESULT(ERROR_INVALID_SOURCE, "invalid source"),
	RESULT(ERROR_FILE_NOT_FOUND, "file not found"),
	RESULT(ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
	RESULT(ERROR_SHARED_OBJECT_INIT_FAILED, "shared object init failed"),
	RESULT(ERROR_OPERATING_SYSTEM, "operating system"),
	RESULT(ERROR_INVALID_HANDLE, "invalid handle"),
	RESULT(ERROR_ILLEGAL_STATE, "illegal state"),
	RESULT(ERROR_LOSSY_QUERY, "lossy query"),
	RESULT(ERROR_NOT_FOUND, "not found"),
	RESULT(ERROR_NOT_READY, "not ready"),
	RESULT(ERROR_ILLEGAL_ADDRESS, "illegal address"),
	RESULT(ERROR_LAUNCH_OUT_OF_RESOURCES, "launch out of resources"),
	RESULT(ERROR_LAUNCH_TIMEOUT, "launch timeout"),
	RESULT(ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, "launch incompatible texturing"),
	RESULT(ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access already enabled"),
	RESULT(ERROR_PEER_ACCESS_NOT_ENABLED, "peer access not enabled"),
	RESULT(ERROR_PRIMARY_CONTEXT_ACTIVE, "primary context active"),
	RESULT(ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
	RESULT(ERROR_ASSERT, "assert"),
	RESULT(ERROR_TOO_MANY_PEERS, "too many peers"),
	RESULT(ERROR_HOST_MEMORY_ALREADY_REGISTERED, "host memory already registered"),
	RESULT(ERROR_HOST_MEMORY_NOT_REGISTERED, "host memory not registered"),
	RESULT(ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
	RESULT(ERROR_ILLEGAL_INSTRUCTION, "illegal instruction"),
	RESULT(ERROR_MISALIGNED_ADDRESS, "misaligned address"),
	RESULT(ERROR_INVALID_ADDRESS_SPACE, "invalid address space"),
	RESULT(ERROR_INVALID_PC, "invalid pc"),
	RESULT(ERROR_LAUNCH_FAILED, "launch failed"),
	RESULT(ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "cooperative launch too large"),
	RESULT(ERROR_TENSOR_MEMORY_LEAK, "tensor memory leak"),
	RESULT(ERROR_NOT_PERMITTED, "not permitted"),
	RESULT(ERROR_NOT_SUPPORTED, "operation not supported"),
	RESULT(ERROR_SYSTEM_NOT_READY, "system not ready"),
	RESULT(ERROR_SYSTEM_DRIVER_MISMATCH, "system driver mismatch"),
	RESULT(ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "compat not supported on device"),
	RESULT(ERROR_MPS_CONNECTION_FAILED, "mps connection failed"),
	RESULT(ERROR_MPS_RPC_FAILURE, "mps rpc failure"),
	RESULT(ERROR_MPS_SERVER_NOT_READY, "mps server not ready"),
	RESULT(ERROR_MPS_MAX_CLIENTS_REACHED, "mps max clients reached"),
	RESULT(ERROR_MPS_MAX_CONNECTIONS_REACHED, "mps max connections reached"),
	RESULT(ERROR_MPS_CLIENT_TERMINATED, "mps client terminated"),
	RESULT(ERROR_CDP_NOT_SUPPORTED, "cdp not supported"),
	RESULT(ERROR_CDP_VERSION_MISMATCH, "cdp version mismatch"),
	RESULT(ERROR_STREAM_CAPTURE_UNSUPPORTED, "stream capture unsupported"),
	RESULT(ERROR_STREAM_CAPTURE_INVALIDATED, "stream capture invalidated"),
	RESULT(ERROR_STREAM_CAPTURE_MERGE, "stream capture merge"),
	RESULT(ERROR_STREAM_CAPTURE_UNMATCHED, "stream capture unmatched"),
	RESULT(ERROR_STREAM_CAPTURE_UNJOINED, "stream capture unjoined"),
	RESULT(ERROR_STREAM_CAPTURE_ISOLATION, "stream capture isolation"),
	RESULT(ERROR_STREAM_CAPTURE_IMPLICIT, "stream capture implicit"),
	RESULT(ERROR_CAPTURED_EVENT, "captured event"),
	RESULT(ERROR_STREAM_CAPTURE_WRONG_THREAD, "stream capture wrong thread"),
	RESULT(ERROR_TIMEOUT, "timeout"),
	RESULT(ERROR_GRAPH_EXEC_UPDATE_FAILURE, "graph exec update failure"),
	RESULT(ERROR_EXTERNAL_DEVICE, "external device"),
	RESULT(ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size"),
	RESULT(ERROR_FUNCTION_NOT_LOADED, "function not loaded"),
	RESULT(ERROR_INVALID_RESOURCE_TYPE, "invalid resource type"),
	RESULT(ERROR_INVALID_RESOURCE_CONFIGURATION, "invalid resource configuration"),
	RESULT(ERROR_KEY_ROTATION, "key rotation"),
	RESULT(ERROR_UNKNOWN, "unknown"),
};

#define N (sizeof(results) / sizeof(results[0]))

static CUresult errors_find_row(CUresult error, bool name, const char **ret)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = NULL;
	for (unsigned int i = 0; i < N; i++)
		if (results[i].code == error) {
			*ret = name ? results[i].name : results[i].text;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
	return errors_find_row(error, true, pStr);
}

CUresult cuGetErrorString(CUresult error, const char **pStr)
{
	return errors_find_row(error, false, pStr);
}
