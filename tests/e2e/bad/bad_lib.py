# SPDX-License-Identifier: Apache-2.0
"""What the tests of bad days share: a tenant, devices, and programs with the library preloaded."""

import ctypes
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import cli_lib
from cli_lib import ALLOT, GIB, MIB, wait_for  # noqa: F401

GUEST = os.environ["BAD_GUEST"]
BUILD = os.environ["ALLOT_BUILD"]
OK, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, OPERATING_SYSTEM = 0, 1, 2, 3, 304
CONTEXT, LIMIT = 2, 256  # MiB

# The simulator's own count: the device's, of all processes.
TRUTH = """
import ctypes
nvml, device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]
memory = Memory()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0
print(memory.used >> 20)
"""


class Case(cli_lib.Case):
    runtime_parent = None

    def setUp(self):
        super().setUp()
        self.make_tenant()

    def make_tenant(self):
        self.env.update({"ALLOT_SIM_DIR": self.path("devices"), "ALLOT_SIM_MEMORY": "4GiB",
                         "ALLOT_SIM_CONTEXT": f"{CONTEXT}MiB",
                         "LD_LIBRARY_PATH": os.path.join(BUILD, "sim")})
        subprocess.run([GUEST, "init"], env=self.env, check=True, capture_output=True)
        self.ok("run", "--print-env", "--name", "a", "--memory", f"{LIMIT}MiB")
        self.tenant = os.path.join(self.runtime, "a")
        self.guest_env = {"ALLOT_TENANT_DIR": self.tenant,
                          "LD_PRELOAD": os.environ["LIBALLOT"]}

    def guest(self, words, status=0, prefix=(), env=None):
        """Runs the words to their end: the results by line, and what was said on stderr."""
        done = subprocess.run([*prefix, GUEST, *map(str, words.split())],
                              env={**self.env, **self.guest_env, **(env or {})}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=100)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout.splitlines(), done.stderr

    def live(self, words, prefix=()):
        """A program that is at its (first) "wait"; what it said before that."""
        process = subprocess.Popen([*prefix, GUEST, *words.split()],
                                   env={**self.env, **self.guest_env},
                                   text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def end():
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

        self.addCleanup(end)
        return process, self.until_waiting(process)

    def until_waiting(self, process):
        said = []
        for line in process.stdout:
            if line == "waiting 0\n":
                return said
            said.append(line.strip())
        self.fail(f"it ended: {said}")
        return said

    def go_on(self, process):
        process.stdin.write("\n")
        process.stdin.flush()

    def finish(self, process):
        """Lets it go on to its end; what it said."""
        self.go_on(process)
        said = process.stdout.read().splitlines()
        self.assertEqual(process.wait(100), 0)
        return said

    def truth(self):
        """MiB in use by the simulator's count."""
        return int(subprocess.run([sys.executable, "-c", TRUTH], env=self.env, check=True,
                                  text=True, capture_output=True, timeout=100).stdout)

    def used(self):
        """MiB in use by the ledger."""
        (tenant,) = json.loads(self.ok("ps", "--json", "a"))["tenants"]
        return sum(device["used_bytes"] for device in tenant["devices"]) // MIB

    def check_empty(self):
        """No ghosts: the whole quota can be had at once, and not more."""
        self.assertEqual((self.truth(), self.used()), (0, 0))
        said, _ = self.guest(f"init alloc {LIMIT - CONTEXT} alloc 1")
        self.assertEqual(said, ["init 0", "alloc 0", "alloc 2"])


main = cli_lib.main
