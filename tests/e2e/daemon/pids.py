# SPDX-License-Identifier: Apache-2.0
"""Tenants in PID namespaces of their own, as containers are: the driver lists them by numbers that they
do not know, until they have found it out, or allotd has told them."""

import json
import os
import subprocess
import sys

import cli_lib
import daemon_lib

CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
CONTEXT_MIB = 16
SLOT_DRIVER_PID = 8192 + 12 # of src/ledger/layout.h
MIB = 1 << 20
# Takes so many MiB for each line that it reads, and says what the driver answered.
PROGRAM = """
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
print(cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
      cu.cuCtxSetCurrent(context), flush=True)
while True:
    print(cu.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(int(input()) << 20)), flush=True)
"""


class Pids(daemon_lib.Case):
    def setUp(self):
        super().setUp()
        if os.geteuid() or subprocess.run([*CONTAINER, "true"], check=False,
                                          capture_output=True).returncode:
            self.skipTest("no PID namespaces to be had")
        self.env.update(ALLOT_SIM_DIR=os.path.join(self.tmp, "sim"), ALLOT_SIM_MEMORY="4GiB",
                        ALLOT_SIM_CONTEXT=f"{CONTEXT_MIB}MiB",
                        LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])
        # The device is made out here.
        subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)"],
                       env=self.env, check=True)

    def begin(self, *options, tenant="a"):
        options = options if "--memory" in options else ("--memory", "2GiB", *options)
        program = self.start(cli_lib.ALLOT, "run", "--name", tenant, *options, "--",
                             *CONTAINER, sys.executable, "-c", PROGRAM)
        self.assertEqual(program.stdout.readline(), "0 0 0\n")
        return program

    def alloc(self, program, mib=1):
        program.stdin.write(f"{mib}\n")
        program.stdin.flush()
        return int(program.stdout.readline())

    def device(self):
        tenant, *_ = json.loads(self.ok("ps", "--json"))["tenants"]
        return tenant["devices"][0]

    def contexts_mib(self):
        """As they are charged: where no driver tells what they take."""
        env = {k: v for k, v in self.env.items() if k not in ("LD_LIBRARY_PATH", "ALLOT_SIM_DIR")}
        done = subprocess.run([cli_lib.ALLOT, "ps", "--json"], env=env, capture_output=True, text=True, check=True)
        tenant, *_ = json.loads(done.stdout)["tenants"]
        return tenant["devices"][0]["used_by_category"]["context"] // MIB

    def settle(self, *programs):
        """What they are charged for contexts becomes what those take. Each looks as it allocates."""
        def settled():
            self.assertEqual([self.alloc(p) for p in programs], [0] * len(programs))
            return self.contexts_mib() == len(programs) * CONTEXT_MIB
        cli_lib.wait_for(settled)

    def driver_pid(self):
        """What the first slot says."""
        with open(os.path.join(self.runtime, "a", "ledger"), "rb") as ledger:
            ledger.seek(SLOT_DRIVER_PID)
            return int.from_bytes(ledger.read(4), sys.byteorder)

    def large(self):
        """A device of which so much is left that nobody needs the driver's figure."""
        self.env.update(ALLOT_SIM_MEMORY="64GiB", ALLOT_SIM_DIR=os.path.join(self.tmp, "large"))
        subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)"],
                       env=self.env, check=True)

    def check_driver_pid(self):
        with open(f"/proc/{self.driver_pid()}/environ", encoding="utf-8") as environ:
            self.assertIn(os.path.join(self.runtime, "a") + "\0", environ.read())

    def test_found(self):
        """Without a daemon a process finds itself in the list, beside others, when it needs to."""
        self.large()
        programs = [self.begin("--memory", "60GiB", tenant=name) for name in "ab"]
        # The simulated driver has numbers of out here once somebody here has asked for them.
        self.ok("ps")
        self.assertEqual(self.driver_pid(), 0)
        self.assertGreater(self.contexts_mib(), 500)
        for program, name in zip(programs, "ab"):
            self.ok("set", name, "--memory", "2GiB")
            self.assertEqual(self.alloc(program), 0)
        self.check_driver_pid()
        self.settle(programs[0])
        device = self.device()
        self.assertEqual(device["driver_bytes"], device["used_bytes"])

    def test_told(self):
        """A daemon tells it also where nobody needs it yet."""
        self.large()
        self.begin("--memory", "60GiB")
        self.assertEqual(self.driver_pid(), 0)
        self.daemon()
        cli_lib.wait_for(self.driver_pid)
        self.check_driver_pid()
        self.assertEqual(self.log().count("not limited"), 0)

    def test_accounting_by_the_driver(self):
        """Which refuses all that it cannot judge."""
        program = self.begin("--accounting", "driver")
        self.assertEqual(self.alloc(program), 0)
        self.assertEqual(self.alloc(program, 3000), 2)
        self.assertEqual(self.alloc(program, 1000), 0)

    def test_another_process_of_that_number(self):
        """Two containers of one tenant, in each of which the program is number 1."""
        first, second = self.begin(), self.begin()
        self.daemon()
        self.settle(first, second)
        first.kill()
        first.wait()
        cli_lib.wait_for(lambda: self.contexts_mib() == CONTEXT_MIB)
        self.settle(second, self.begin())


if __name__ == "__main__":
    cli_lib.main()
