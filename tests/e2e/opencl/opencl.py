# SPDX-License-Identifier: Apache-2.0
"""OpenCL's memory under a tenant's quota, through the loader and through a loader of one's own, against
the simulator's own count. Skipped where pocl, of which the simulated driver is made, is not there."""

import functools
import json
import os
import shutil
import signal
import subprocess
import unittest

from cli_lib import ALLOT, GIB, MIB, Case, main, wait_for

GUEST = os.environ["ALLOT_OPENCL_GUEST"]
LIBS = os.environ["ALLOT_SIM_LIBS"]
TOTAL = 4 * GIB
QUOTA = 256 * MIB
PIECE = 64 << 10
REFUSED = "-4"  # CL_MEM_OBJECT_ALLOCATION_FAILURE
NOT_FOUND = -1
HOST_FLAGS = {"CL_MEM_ALLOC_HOST_PTR": 1 << 4, "none": 0}
POCL = "/etc/OpenCL/vendors/pocl.icd"
WAYS = ("loader", "own")


def each_way(test):
    """A test for each way in."""
    @functools.wraps(test)
    def every(case):
        for way in WAYS:
            with case.subTest(way=way):
                test(case, way)
    return every


class Guest:
    """A running guest.c."""

    def __init__(self, process):
        self.process = process

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise AssertionError(f"the guest died of: {command}")
        return answer.strip()

    def tell(self, *commands):
        for command in commands:
            answer = self.ask(command)
            if answer != "0":
                raise AssertionError(f"{command}: {answer}")
        return self

    def count(self, what):
        return int(self.ask(what))

    def devices(self):
        return tuple(map(int, self.ask("devices").split()))


@unittest.skipUnless(os.path.exists(POCL), "pocl-opencl-icd is not installed")
class OpenCL(Case):
    def setUp(self):
        super().setUp()
        self.env.update({"ALLOT_SIM_DIR": self.path("sim"), "ALLOT_SIM_GPUS": "2",
                         "ALLOT_SIM_MEMORY": str(TOTAL), "ALLOT_SIM_CONTEXT": str(MIB), "LD_LIBRARY_PATH": LIBS,
                         "OCL_ICD_VENDORS": os.path.join(LIBS, "opencl"),
                         "POCL_CACHE_DIR": self.path("pocl")})
        os.mkdir(self.env["ALLOT_SIM_DIR"])
        self.outside = Guest(self.start(GUEST, "truth"))

    def tenant(self, way, *options, memory=QUOTA):
        return Guest(self.start(ALLOT, "run", "--memory", str(memory), *options, "--", GUEST, way))

    def charged(self):
        tenant, = json.loads(self.ok("ps", "--json"))["tenants"]
        return tenant["devices"][0]["used_bytes"]

    @each_way
    def test_without_a_tenant_there_is_no_limit(self, way):
        """The test can fail."""
        guest = Guest(self.start(GUEST, way))
        self.assertEqual(guest.devices(), (0, 1, TOTAL, TOTAL // 4))
        guest.tell("open", f"buffer {2 * QUOTA}")
        self.assertEqual(guest.count("held"), 2 * QUOTA)

    def fill(self, guest, make, undo, size):
        """Up to the quota and not beyond it; all that is freed is there again, and nothing else."""
        for again in range(2):
            n = QUOTA // size
            for i in range(n):
                self.assertEqual(guest.ask(make), "0", (make, again, i))
            self.assertEqual(guest.count("held"), n * size)
            self.assertEqual(self.charged(), n * size)
            self.assertNotEqual(guest.ask(make), "0")
            self.assertEqual(guest.count("held"), n * size)
            guest.tell(*[undo] * n)
            self.assertEqual(guest.count("held"), 0)
            self.assertEqual(self.charged(), 0)

    @each_way
    def test_fills_to_the_quota(self, way):
        guest = self.tenant(way).tell("open")
        size = 16 * MIB
        for flags in HOST_FLAGS.values():
            self.fill(guest, f"buffer {size} {flags}", "free", size)
        self.fill(guest, f"buffer {size - 1}", "free", size)
        self.fill(guest, f"properties {size}", "free", size)
        self.fill(guest, "image 1024 1024", "free", size)
        self.fill(guest, "image2d 1024 1024", "free", size)
        self.fill(guest, f"svm {size}", "svmfree", size)
        self.fill(guest, f"svm {size}", "svmqueue", size)
        self.fill(guest, f"named {size}", "free", size)
        self.assertEqual(guest.ask(f"buffer {QUOTA + 1}"), REFUSED)
        self.assertEqual(guest.ask(f"image 2048 {QUOTA >> 14}"), REFUSED)
        guest.tell("close")
        guest.process.stdin.close()
        self.assertEqual(guest.process.wait(), 0)

    @each_way
    def test_a_part_keeps_its_parent(self, way):
        guest = self.tenant(way).tell("open", f"buffer {QUOTA}", "sub")
        self.assertEqual((guest.count("held"), self.charged()), (QUOTA, QUOTA))
        self.assertEqual(guest.ask("buffer 1"), REFUSED)
        guest.tell("free", f"buffer {QUOTA}")
        guest.process.stdin.close()
        guest.process.wait()

    @each_way
    def test_view(self, way):
        self.assertEqual(self.tenant(way).devices(), (0, 1, QUOTA, QUOTA))
        self.assertEqual(self.tenant(way, memory=2 * GIB).devices(), (0, 1, 2 * GIB, GIB))

    @each_way
    def test_devices_of_others(self, way):
        guest = self.tenant(way, "--gpu", "1")
        self.assertEqual(guest.devices()[:2], (NOT_FOUND, 0))
        self.assertEqual(guest.ask("open"), str(NOT_FOUND))

    def test_other_drivers_are_untouched(self):
        """pocl as it is: a processor, of which no tenant has a part."""
        self.env["OCL_ICD_VENDORS"] = os.path.dirname(POCL)
        without = Guest(self.start(GUEST, "loader")).devices()
        self.assertEqual(without[0], 0)
        guest = self.tenant("loader")
        self.assertEqual(guest.devices(), without)
        guest.tell("open cpu", f"buffer {2 * QUOTA}", f"svm {2 * QUOTA}", "svmfree", "free", "close")

    @each_way
    def test_by_the_drivers_figure(self, way):
        """Where that decides: at most the quota, and all of it."""
        guest = self.tenant(way, "--accounting", "driver").tell("open")
        for _ in range(2):
            for _ in range(16):
                guest.tell(f"buffer {16 * MIB}")
            self.assertEqual(guest.ask("buffer 1"), REFUSED)
            self.assertEqual(guest.count("held"), QUOTA)
            guest.tell(*["free"] * 16)

    @each_way
    def test_unusable_tenant(self, way):
        """No GPU, rather than one without a limit."""
        self.env["ALLOT_TENANT_DIR"] = self.path("nowhere")
        self.env["LD_PRELOAD"] = os.environ["ALLOT_LIBRARY"]
        guest = Guest(self.start(GUEST, way))
        self.assertEqual(guest.devices()[:2], (NOT_FOUND, 0))

    @each_way
    def test_two_processes_and_cuda(self, way):
        """One quota, whichever API the bytes are of, and one line in the list of processes."""
        total = 1536 * MIB  # the size of a context is not known: 1 GiB is asked for the first one
        first = self.tenant(way, "--name", "both-" + way, memory=total)
        first.tell("open", f"buffer {300 * MIB}")
        second = Guest(self.start(ALLOT, "run", "--name", "both-" + way, "--", GUEST, way))
        second.tell("open", f"cuda {100 * MIB}", f"buffer {64 * MIB}")
        first.tell(f"buffer {512 * MIB}")
        left = total - self.charged()
        self.assertLess(left, total - 976 * MIB)
        for guest in (first, second):
            self.assertEqual(guest.ask(f"buffer {left + PIECE}"), REFUSED)
        self.assertEqual(len(self.listed()), 2)
        first.tell(f"buffer {left - 4 * MIB}")
        self.assertEqual(self.outside.count("used"), first.count("held") + second.count("held"))
        self.assertLessEqual(self.outside.count("used"), total)
        for guest in (first, second):
            guest.process.stdin.close()
            guest.process.wait()

    @each_way
    def test_steps(self, way):
        """2,000 steps at random: after each 100 the program's, the simulator's and allot's counts are one.
        A process that is killed in the middle leaves nothing."""
        guest = self.tenant(way, "--name", "steps-" + way).tell("open")
        held = guest.count("steps 0 7")
        for _ in range(20):
            held = guest.count("steps 100")
            self.assertEqual((guest.count("held"), self.charged()), (held, held))
        self.assertGreater(held, 0)
        guest.process.stdin.write("steps 1000000\n")
        guest.process.stdin.flush()
        guest.process.send_signal(signal.SIGKILL)
        guest.process.wait()
        self.assertEqual(self.outside.count("used"), 0)
        again = self.tenant(way, "--name", "again-" + way).tell("open", f"buffer {QUOTA}")
        again.process.stdin.close()
        again.process.wait()
        wait_for(lambda: not self.outside.count("used"))

    @unittest.skipUnless(shutil.which("clinfo"), "clinfo is not installed")
    def test_clinfo(self):
        """Under `allot sim` and `allot run` as a user types them."""
        for name in ("ALLOT_SIM_DIR", "OCL_ICD_VENDORS", "LD_LIBRARY_PATH"):
            del self.env[name]
        told = self.ok("sim", "--memory", "4GiB", "--", ALLOT, "run", "--memory", "1GiB", "--", "clinfo")
        self.assertRegex(told, r"Global memory size +1073741824 ")
        told = self.ok("sim", "--memory", "4GiB", "--", "clinfo")
        self.assertRegex(told, r"Global memory size +4294967296 ")

    def listed(self):
        """{pid: MiB} of nvidia-smi's list of compute processes, seen from outside."""
        told = subprocess.run([os.path.join(LIBS, "smi", "nvidia-smi"), "--format=csv,noheader,nounits",
                               "--query-compute-apps=pid,used_memory"], env=self.env, text=True,
                              stdout=subprocess.PIPE, check=True, timeout=100).stdout
        return dict(tuple(map(int, line.split(","))) for line in told.splitlines())

    def test_listed_as_compute(self):
        guest = self.tenant("loader").tell("open", f"buffer {32 * MIB}")
        self.assertEqual(self.listed(), {guest.process.pid: 32})
        guest.tell("free", "close")
        self.assertEqual(self.listed(), {})


if __name__ == "__main__":
    main()
