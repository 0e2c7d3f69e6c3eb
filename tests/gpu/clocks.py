# SPDX-License-Identifier: Apache-2.0
"""A device's clock and energy over time by NVML, for parts/compute_torch.py: clocks.py UUID, a
process outside of every tenant. A line each 100 ms until its input ends; null is what this driver
does not say."""
import ctypes
import json
import select
import signal
import sys
import time

SM_CLOCK = 1
POWER_CAP = 0x4  # nvmlClocksEventReasonSwPowerCap
STEP_S = 0.1

ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
nvml = ctypes.CDLL("libnvidia-ml.so.1")


def ask(function, kind, *args):
    """The answer of a query whose last parameter is its output."""
    value = kind()
    try:
        return None if getattr(nvml, function)(*args, ctypes.byref(value)) else value.value
    except AttributeError:
        return None


def main():
    handle = ctypes.c_void_p()
    uuid = sys.argv[1].encode()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle)):
        sys.exit("clocks.py: no such NVML device")
    while True:
        reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong, handle)
        print(json.dumps({
            "stage": "clock", "at_s": time.monotonic(),
            "mhz": ask("nvmlDeviceGetClockInfo", ctypes.c_uint, handle, SM_CLOCK),
            "energy_mj": ask("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong, handle),
            "power_capped": None if reasons is None else bool(reasons & POWER_CAP)}), flush=True)
        if select.select([sys.stdin], [], [], STEP_S)[0]:
            return


main()
