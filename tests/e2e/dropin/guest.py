# SPDX-License-Identifier: Apache-2.0
"""A CUDA program: says what it sees and gets, as one line of JSON.

guest.py <ordinal> <bytes to take first> [hold]: then fills the device, unless it is to hold: then
it waits for its input to end.
"""

import ctypes
import json
import sys

MIB = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")


def name(result):
    text = ctypes.c_char_p()
    cuda.cuGetErrorName(result, ctypes.byref(text))
    return text.value.decode() if text.value else str(result)


def nvml_answer():
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    device, memory = ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
    nvml.nvmlInit_v2()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
    return [nvml.nvmlDeviceGetMemoryInfo(device, memory), *memory]


def take(size):
    pointer = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))


def main():
    said = {"nvml_before": nvml_answer(), "init": name(cuda.cuInit(0)),
            "again": name(cuda.cuInit(0))}
    count, total, free = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
    context = ctypes.c_void_p()
    said["alloc"] = name(take(MIB))
    if said["init"] == "CUDA_SUCCESS":
        cuda.cuDeviceGetCount(ctypes.byref(count))
        said["totals"] = []
        for i in range(count.value):
            cuda.cuDeviceTotalMem_v2(ctypes.byref(total), i)
            said["totals"].append(total.value)
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), int(sys.argv[1]))
        cuda.cuCtxSetCurrent(context)
        said["first"] = name(take(int(sys.argv[2])))
        cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        said["free"], said["total"] = free.value, total.value
        said["nvml_after"] = nvml_answer()
    else:
        said["retain"] = name(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    if sys.argv[3:] == ["hold"]:
        print(json.dumps(said), flush=True)
        sys.stdin.read()
        return
    if said["init"] == "CUDA_SUCCESS":
        size, filled = 64 * MIB, 0
        while size >= 2 * MIB:
            while not (result := take(size)):
                filled += size
            size //= 2
        said["filled"], said["refused"] = filled, name(result)
    print(json.dumps(said))


main()
