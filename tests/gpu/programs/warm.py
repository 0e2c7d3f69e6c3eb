# SPDX-License-Identifier: Apache-2.0
"""warm.py MIB: touches so much host memory once and gives it back. A virtual machine may get its
memory only when it is first used, which takes longer than what is measured then."""
import ctypes
import json
import mmap
import signal
import sys
import threading
import time

MIB, STEP, THREADS = 1 << 20, 256, 2
MAP_NORESERVE, MADV_POPULATE_WRITE = 0x4000, 23

libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
total, began, failed = int(sys.argv[1]), time.monotonic(), []
memory = mmap.mmap(-1, total * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
steps = iter(range(0, total, STEP))
lock = threading.Lock()


def touch():
    while not failed:
        with lock:
            at = next(steps, None)
        if at is None:
            return
        size = min(STEP, total - at) * MIB
        if libc.madvise(ctypes.c_void_p(address + at * MIB), ctypes.c_size_t(size),
                        MADV_POPULATE_WRITE):
            failed.append(ctypes.get_errno())


threads = [threading.Thread(target=touch) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps({"stage": "warmed", "seconds": round(time.monotonic() - began, 2),
                  "failed": failed}), flush=True)
