# SPDX-License-Identifier: Apache-2.0
"""allot sim --amd: unmodified ROCm programs on emulated devices, and what the options say."""

import ctypes.util
import json
import os
import re
import resource
import shutil
import unittest

import cli_lib
from cli_lib import ALLOT

needs_rocminfo = unittest.skipUnless(shutil.which("rocminfo"),
                                     "rocminfo is not installed (Debian: rocminfo)")
HSAKMT = os.environ["ALLOT_HSAKMT"]  # a program with that library
needs_hsakmt = unittest.skipUnless(ctypes.util.find_library("hsakmt"),
                                   "libhsakmt is not installed (Debian: libhsakmt1)")
needs_rocm_smi = unittest.skipUnless(shutil.which("rocm-smi"),
                                     "rocm-smi is not installed (Debian: rocm-smi)")


def gpus_of(out):
    """What rocminfo says of each GPU."""
    return [agent for agent in re.split(r"(?m)^Agent \d+ *$", out)[1:]
            if re.search(r"Device Type: +GPU", agent)]


def pools(out):
    """[KiB of its pools of memory] of the GPUs that rocminfo shows: all pools of one are its whole
    memory, and newer versions show more of them."""
    sizes = [re.findall(r"Segment: +GLOBAL.*\n +Size: +(\d+)\(", gpu) for gpu in gpus_of(out)]
    return [int(pools.pop()) if len(pools := set(of_one)) == 1 else of_one for of_one in sizes]


def agents(out):
    """[(name, KiB of its memory)] of the GPUs that rocminfo shows."""
    return [(re.search(r"Name: +(\S+)", gpu)[1], size)
            for gpu, size in zip(gpus_of(out), pools(out))]


def children_s():
    """What all that were waited for have had of processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class SimAmd(cli_lib.Case):
    def trace(self, *args):
        """Lines of the trace without their pid."""
        path = self.path("trace")
        self.env["ALLOT_SIM_AMD_TRACE"] = path
        self.ok("sim", *args)
        with open(path, encoding="ascii") as file:
            return [line.rstrip("\n").split(" ", 1)[1] for line in file]

    @needs_rocminfo
    def test_rocminfo(self):
        for gpus in (1, 2, 8):
            out = self.ok("sim", "--amd", str(gpus), "--memory", "64GiB", "--", "rocminfo")
            self.assertIn("ROCk module is loaded", out)
            self.assertEqual(agents(out), [("gfx90a", 64 << 20)] * gpus)

    @needs_rocminfo
    def test_time(self):
        """In processor time, which a busy machine leaves as it is; once in a few tries, its caches, too."""
        for tenant in [], [ALLOT, "run", "--memory", "64MiB", "--"]:
            took = []
            for _ in range(5):
                begin = children_s()
                self.ok("sim", "--amd", "8", "--", *tenant, "rocminfo")
                took.append(children_s() - begin)
            # Where system calls take several times as long it is 1.6 s.
            self.assertLess(min(took), 4, took)

    @needs_rocminfo
    def test_rocminfo_with_other_machines(self):
        out = self.ok("sim", "--amd", "2", "--model", "gfx1030", "--memory", "1GiB", "--",
                      "rocminfo")
        self.assertEqual(agents(out), [("gfx1030", 1 << 20)] * 2)
        for links in ("xgmi", "pcie", self.path("links", "1 -> 2 xgmi\n"), self.path("none", "")):
            out = self.ok("sim", "--amd", "3", "--links", links, "--", "rocminfo")
            self.assertEqual(len(agents(out)), 3)

    @needs_rocminfo
    def test_rocminfo_in_a_tenant(self):
        """Every pool of every GPU is as large as the quota."""
        for gpus in (1, 2, 8):
            out = self.ok("sim", "--amd", str(gpus), "--memory", "64GiB", "--",
                          ALLOT, "run", "--memory", "64MiB", "--", "rocminfo")
            self.assertEqual(pools(out), [64 << 10] * gpus)
        out = self.ok("sim", "--amd", "1", "--memory", "1GiB", "--",
                      ALLOT, "run", "--memory", "64GiB", "--", "rocminfo")
        self.assertEqual(agents(out), [("gfx90a", 1 << 20)])

    def chosen(self, *command):
        """A command in a tenant that has two of three GPUs; ROCm is not told so by variables."""
        return self.ok("sim", "--amd", "3", "--memory", "1GiB", "--", ALLOT, "run", "--gpu", "1,2",
                       "--memory", "64MiB,32MiB", "--", "env", "-u", "ROCR_VISIBLE_DEVICES",
                       *command)

    @needs_rocminfo
    def test_rocminfo_with_hidden_devices(self):
        out = self.chosen("rocminfo")
        self.assertEqual(pools(out), [64 << 10, 32 << 10])
        self.assertEqual(re.findall(r"Uuid: +(GPU-\S+)", out),
                         ["GPU-1234567890abcd02", "GPU-1234567890abcd03"])
        self.assertEqual([re.search(r"Node: +(\d+)", gpu)[1] for gpu in gpus_of(out)], ["1", "2"])

    @needs_rocminfo
    def test_trace(self):
        lines = self.trace("--amd", "2", "--", "rocminfo")
        self.assertEqual(lines[0], "GET_VERSION = 0")
        self.assertEqual([line.split()[0] for line in lines].count("ACQUIRE_VM"), 2)
        self.assertIn(" done=2/2 gpus=10111,10222 = 0",
                      next(line for line in lines if line.startswith("MAP_")))
        allocated = [line for line in lines if line.startswith("ALLOC_MEMORY_OF_GPU gpu=10111 ")]
        self.assertTrue(allocated)
        for line in allocated:
            self.assertRegex(line, r" size=\d+ flags=0x[0-9a-f]+ handle=0x277f[0-9a-f]{8} = 0\Z")

    def first(self, failure):
        """The first line of a program's trace that is to have a failure."""
        self.env["ALLOT_SIM_AMD_FAIL"] = failure
        self.env["ALLOT_SIM_AMD_TRACE"] = self.path("trace", "")
        self.allot("sim", "--amd", "1", "--memory", "64MiB", "--", HSAKMT)
        with open(self.env["ALLOT_SIM_AMD_TRACE"], encoding="ascii") as file:
            return file.readline().rstrip("\n").split(" ", 1)[1]

    @needs_hsakmt
    def test_failures(self):
        for failure, answer in (
                ("GET_VERSION:ENOMEM", "ENOMEM"), ("GET_VERSION:EIO:0", "EIO"),
                ("GET_VERSION:EIO:1", "0"), ("GET_VERSION:EIO:0:1", "EIO"),
                ("GET_VERSION:EIO:0:0", "EINVAL"), ("GET_VERSION:EIO:0:x", "EINVAL"),
                ("ACQUIRE_VM:EIO", "0"), ("", "0"),
                ("NO_SUCH:EIO", "EINVAL"), ("GET_VERSION", "EINVAL"),
                ("GET_VERSION:EVERY", "EINVAL"), ("GET_VERSION:EIO:x", "EINVAL")):
            with self.subTest(failure=failure):
                self.assertEqual(self.first(failure), f"GET_VERSION = {answer}")

    @needs_hsakmt
    def test_mapping_fails_halfway(self):
        """What was mapped stays mapped; ROCm's library neither goes on nor takes it back."""
        self.env["ALLOT_SIM_AMD_FAIL"] = "MAP_MEMORY_TO_GPU:EIO:2"
        self.env["ALLOT_SIM_AMD_TRACE"] = self.path("trace")
        self.assertNotEqual(self.allot("sim", "--amd", "4", "--memory", "64MiB", "--",
                                       HSAKMT).returncode, 0)
        with open(self.env["ALLOT_SIM_AMD_TRACE"], encoding="ascii") as file:
            self.assertRegex(file.read(),
                             r"MAP_MEMORY_TO_GPU handle=\w+ done=2/4 gpus=\S+ = EIO\n")

    @needs_rocm_smi
    def test_rocm_smi(self):
        out = self.ok("sim", "--amd", "2", "--memory", "3GiB", "--", "rocm-smi", "--showmeminfo",
                      "vram", "--showbus", "--json")
        self.assertEqual(json.loads(out.splitlines()[-1]), {
            f"card{i}": {"VRAM Total Memory (B)": str(3 << 30), "VRAM Total Used Memory (B)": "0",
                         "PCI Bus": f"0000:0{i + 1}:00.0"} for i in (0, 1)})

    @needs_rocm_smi
    def test_rocm_smi_at_a_glance(self):
        """Sensors, without which it aborts with a mutex that all its runs share."""
        done = self.allot("sim", "--amd", "2", "--memory", "1GiB", "--", "rocm-smi")
        self.assertEqual(done.returncode, 2, done.stderr)  # there is no fan
        for gpu in range(2):
            self.assertRegex(done.stdout, rf"(?m)^{gpu} +35\.0c +90\.0W +500Mhz +1600Mhz ")

    @needs_rocm_smi
    def test_rocm_smi_in_a_tenant(self):
        out = self.chosen("rocm-smi", "--showmeminfo", "vram", "--showbus", "--json")
        self.assertEqual(json.loads(out.splitlines()[-1]), {
            f"card{i}": {"VRAM Total Memory (B)": str(mib << 20), "VRAM Total Used Memory (B)": "0",
                         "PCI Bus": f"0000:0{i + 2}:00.0"} for i, mib in ((0, 64), (1, 32))})

    def test_kernel_without_svm(self):
        """What a kernel does not have it does not show."""
        shows = "grep -h '^capability ' /sys/class/kfd/kfd/topology/nodes/1/properties"
        self.assertEqual(self.ok("sim", "--amd", "1", "--", "sh", "-c", shows),
                         f"capability {2 << 12 | 1 << 27}\n")
        self.env["ALLOT_SIM_AMD_WITHOUT"] = "EXPORT_DMABUF,SVM"
        self.assertEqual(self.ok("sim", "--amd", "1", "--", "sh", "-c", shows),
                         f"capability {2 << 12}\n")

    def test_topo(self):
        out = self.ok("sim", "--amd", "8", "--memory", "3GiB", "--", ALLOT, "topo")
        self.assertRegex(out, r"(?m)^amd8 +aldebaran gfx90a +3 GiB .* all others$")
        self.assertEqual(out.count("xGMI"), 28)
        # Nothing of NVIDIA's is there to be measured.
        self.assertEqual(out, self.ok("sim", "--amd", "8", "--memory", "3GiB", "--", ALLOT, "topo",
                                      "--measure"))
        out = self.ok("sim", "--amd", "2", "--model", "gfx942", "--links", "pcie", "--", ALLOT,
                      "topo")
        self.assertIn(" 24 GiB ", out)
        self.assertRegex(out, r"(?m)^amd1 <-> amd2 +PCIe ")
        self.assertIn("gfx942", out)
        out = self.ok("sim", "--amd", "3", "--links",
                      self.path("links", "1 <-> 2 xgmi\n2 -> 3 pcie\n"), "--", ALLOT, "topo")
        for line in (r"amd1 .* amd2", r"amd2 .* all others", r"amd3 .* none",
                     r"amd1 <-> amd2 +xGMI .*", r"amd2 -> amd3 +PCIe .*"):
            self.assertRegex(out, rf"(?m)^{line}$")

    def test_vendors(self):
        """AMD's devices alone, unless NVIDIA's are asked for too."""
        script = "echo ${LD_LIBRARY_PATH:-none}"
        self.assertEqual(self.ok("sim", "--amd", "1", "--", "sh", "-c", script), "none\n")
        self.assertNotEqual(self.ok("sim", "--amd", "1", "--gpus", "1", "--", "sh", "-c", script),
                            "none\n")
        self.assertNotIn("amd", self.ok("sim", "--gpus", "1", "--", "sh", "-c",
                                        "echo $LD_PRELOAD"))

    def test_directory(self):
        """The first command decides what is in a directory that stays."""
        where = self.path("devices")
        for gpus in ("2", "5"):
            out = self.ok("sim", "--amd", gpus, "--dir", where, "--", "python3", "-c",
                          "import os; print(*sorted(os.listdir('/dev/dri')))")
            self.assertEqual(out, "card0 card1 renderD129 renderD130\n")
        self.assertEqual(os.listdir(where), ["amd"])
        directory = self.ok("sim", "--amd", "1", "--", "sh", "-c", "echo $ALLOT_SIM_DIR").strip()
        self.assertFalse(os.path.exists(directory))

    def test_directory_of_another_version(self):
        """No device is better than one without memory."""
        spoil = ("cd $ALLOT_SIM_DIR/amd && mkdir memory && echo >memory/table && "
                 "cat /dev/kfd /dev/dri/renderD129")
        done = self.allot("sim", "--amd", "1", "--", "sh", "-c", spoil)
        self.assertEqual(done.returncode, 1)
        for line in ("of another version: use another directory", "cat: /dev/kfd: ",
                     "cat: /dev/dri/renderD129: "):
            self.assertIn(line, done.stderr)

    def test_bad_arguments(self):
        for args, says in (
                (("--amd", "0"), ("--amd", '"0"', "from 1 to 32", "--amd 8")),
                (("--amd", "33"), ('"33"',)),
                (("--amd", "5,partitions=8"), ('"5,partitions=8"', "with all partitions")),
                (("--amd", "1,partitions=9"), ('"1,partitions=9"', "partitions=N, from 2 to 8")),
                (("--amd", "1,linux=5.19"), ('"1,linux=5.19"', "linux=VERSION, from 6.1 to")),
                (("--amd", "1,linux=6"), ('"1,linux=6"',)),
                (("--amd", "1,linux=8.0"), ("from 6.1 to 7.2",)),
                (("--amd", "1,partitions=2"), ("gfx90a", "no partitions; gfx942")),
                (("--amd", "x"), ('"x"',)),
                (("--amd", "1", "--model", "gfx9"), ("--model", '"gfx9"', "gfx90a, gfx942")),
                (("--model", "gfx90a"), ("--amd",)),
                (("--links", "xgmi"), ("--amd",)),
                (("--amd", "1", "--memory", "1x"), ("--memory", '"1x"')),
                (("--amd", "2", "--links", "/nowhere"), ('"/nowhere"', "No such file")),
                (("--amd", "2", "--links", self.path("links", "\n1 to 2 xgmi\n")),
                 ("line 2", "neither -> nor <->"))):
            with self.subTest(args=args):
                self.fails(125, "sim", *args, "--", "true", says=says)


if __name__ == "__main__":
    cli_lib.main()
