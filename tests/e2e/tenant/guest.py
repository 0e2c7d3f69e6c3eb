# SPDX-License-Identifier: Apache-2.0
"""A program that asks what its tenant is, and uses a GPU: a command a line, an answer a line."""
import ctypes
import json
import signal
import sys
import threading

import allot_tenant


class Guest:
    def __init__(self):
        self.tenant = allot_tenant.Tenant()
        self.cuda = None
        self.held = []

    def print(self, *words):
        """One write a line: threads do so at once."""
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()

    def init(self):
        """What a program of CUDA's driver API does first."""
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        return (self.cuda.cuInit(0) or self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
                or self.cuda.cuCtxSetCurrent(context))

    def alloc(self, mib):
        at = ctypes.c_uint64()
        error = self.cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(int(mib) << 20))
        self.held += [] if error else [at]
        return error

    def free(self):
        return self.cuda.cuMemFree_v2(self.held.pop())

    def get(self):
        state = self.tenant.get()
        return {**{key: value for key, value in vars(state).items() if key != "devices"},
                "suspended": state.suspended, "repr": repr(state),
                "devices": [{**vars(device), "free_bytes": device.free_bytes}
                            for device in state.devices]}

    def wait(self, timeout):
        return self.tenant.wait(None if timeout == "-" else float(timeout))

    def close_in_wait(self, by):
        """Closes while a wait is under way: the wait ends with ValueError, and reads nothing freed."""
        tenant = allot_tenant.Tenant()
        if by == "signal":
            signal.signal(signal.SIGALRM, lambda *_: tenant.close())
            signal.setitimer(signal.ITIMER_REAL, .05)
        else:
            threading.Timer(.05, tenant.close).start()
        try:
            tenant.wait()
        except ValueError:
            return "closed"
        return "changed"

    def listen(self):
        return self.tenant.listen()

    def ready(self):
        return self.tenant.ready()

    def write(self):
        """Content that is not one repeated word."""
        words = bytes(range(256)) * ((64 << 20) // 256)
        return self.cuda.cuMemcpyHtoD_v2(self.held[0], words, ctypes.c_size_t(len(words)))

    def empty(self):
        return self.cuda.cuMemsetD32_v2(self.held[0], 0, ctypes.c_size_t(16 << 20))

    def anonymous(self):
        """Bytes that the process has on the host, but for files'."""
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) << 10 for line in status
                        if line.startswith("RssAnon:"))

    def watch(self):
        """Frees what it holds before it is suspended, and says each change."""
        def change(state, what):
            if state.notice_ns and self.held:
                self.free()
            self.print("told", int(what), int(bool(state.notice_ns)))
        allot_tenant.watch(change, notice=True)
        return 0


def main():
    guest = Guest()
    for line in sys.stdin:
        name, *arguments = line.split()
        guest.print("answer", json.dumps(getattr(guest, name)(*arguments)))


if __name__ == "__main__":
    main()
