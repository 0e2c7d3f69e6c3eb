# SPDX-License-Identifier: Apache-2.0
"""The driver's own figures by NVML, for harness.py: a process outside of every tenant. Answers each
line "figures" with the bytes of every process on every device, or on that one whose index is
given, and with what each device has given out in all."""
import ctypes
import json
import signal
import sys

ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
nvml = ctypes.CDLL("libnvidia-ml.so.1")
NOT_SUPPORTED = 3  # a device that does not draw has no such list


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_longlong),  # -1: not told
                ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


def must(result, what):
    if result:
        print(json.dumps({"stage": "error", "what": what, "code": result}), flush=True)
        sys.exit(1)


def text(function, *args):
    buffer = ctypes.create_string_buffer(96)
    return buffer.value.decode() if not function(*args, buffer, 96) else None


def devices():
    count = ctypes.c_uint()
    must(nvml.nvmlInit_v2(), "nvmlInit")
    must(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), "nvmlDeviceGetCount")
    for index in [int(sys.argv[1])] if len(sys.argv) > 1 else range(count.value):
        handle = ctypes.c_void_p()
        must(nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)), "handle")
        yield handle, {"uuid": text(nvml.nvmlDeviceGetUUID, handle),
                       "name": text(nvml.nvmlDeviceGetName, handle),
                       "memory": memory_of(handle).total,
                       "driver": text(nvml.nvmlSystemGetDriverVersion)}


def memory_of(handle):
    memory = Memory()
    must(nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)), "memory")
    return memory


def processes(handle):
    """Of those that compute and those that draw: a process that does both has one figure in both."""
    found = {}
    for ask in (nvml.nvmlDeviceGetComputeRunningProcesses_v3,
                nvml.nvmlDeviceGetGraphicsRunningProcesses_v3):
        count, infos = ctypes.c_uint(2048), (Process * 2048)()
        result = ask(handle, ctypes.byref(count), infos)
        if result != NOT_SUPPORTED:
            must(result, "processes")
            for info in infos[:count.value]:
                found[info.pid] = max(info.used, found.get(info.pid, -1))
    return found


known = list(devices())
print(json.dumps({"stage": "devices", "devices": [d for _, d in known]}), flush=True)
for _ in sys.stdin:
    print(json.dumps({"stage": "figures",
                      "figures": {d["uuid"]: processes(h) for h, d in known},
                      "used": {d["uuid"]: memory_of(h).used for h, d in known}}), flush=True)
