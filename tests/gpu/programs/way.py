# SPDX-License-Identifier: Apache-2.0
"""The same as way.c from Python, as small scripts do it: ctypes and the plain names."""
import ctypes
import json
import signal
import sys

signal.alarm(60)
cu = ctypes.CDLL("libcuda.so.1")
context, device, count = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
free, total, device_total = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
for result in (cu.cuInit(0), cu.cuDeviceGet(ctypes.byref(device), 0),
               cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
               cu.cuCtxSetCurrent(context),
               cu.cuDeviceTotalMem_v2(ctypes.byref(device_total), device),
               cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))):
    if result:
        sys.exit(1)
got, refused, piece = 0, 0, 64 << 20
while piece >= 2 << 20:
    pointer = ctypes.c_uint64()
    refused = cu.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(piece))
    if refused:
        piece //= 2
    else:
        got += piece
print(json.dumps({"stage": "full", "total": total.value, "device_total": device_total.value,
                  "bytes": got, "refused": refused}), flush=True)
sys.stdin.read()
