# SPDX-License-Identifier: Apache-2.0
"""nvidia-smi of allot sim: what scripts ask it first, over the simulated NVML."""

import json
import os
import sys

import cli_lib
from cli_lib import ALLOT

# Takes a context and memory, and has nvidia-smi say what it sees of that.
PROGRAM = r"""
import ctypes, os, subprocess, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert not cuda.cuInit(0) and not cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
assert not cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(100 << 20))
print(os.getpid(), flush=True)
for words in sys.argv[1:]:
    subprocess.run(["nvidia-smi", *words.split()], check=True)
"""


class Smi(cli_lib.Case):
    def sim(self, *words, options=("--gpus", "2", "--memory", "8GiB"), tenant=()):
        return self.allot("sim", *options, "--dir", self.path("devices"), "--", *tenant, *words)

    def smi(self, *words):
        done = self.sim("nvidia-smi", *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def seen(self, *questions, tenant=()):
        """(pid, lines) of what nvidia-smi says to a program that has 100 MiB."""
        done = self.sim(sys.executable, "-c", PROGRAM, *questions, tenant=tenant)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        pid, *lines = done.stdout.splitlines()
        return pid, lines

    def uuids(self):
        return [device["id"] for device in json.loads(self.sim(ALLOT, "topo", "--json").stdout)["devices"]]

    def test_list(self):
        self.assertEqual(self.smi("-L"), [f"GPU {i}: allot simulated GPU (UUID: {uuid})"
                                          for i, uuid in enumerate(self.uuids())])
        first, second = self.uuids()
        for words in (("-i", "1"), (f"--id={second}",), ("-i", f"7,{second}")):
            self.assertEqual(len(self.smi("-L", *words)), 1)
            self.assertIn(second, self.smi("--list-gpus", *words)[0])
        self.assertNotEqual(first, second)

    def test_query(self):
        fields = "--query-gpu=index,gpu_name, memory.total,utilization.gpu,driver_version,clocks.sm,fan.speed"
        head, *lines = self.smi(fields, "--format=csv")
        self.assertEqual(head, "index, name, memory.total [MiB], utilization.gpu [%], driver_version, "
                               "clocks.current.sm [MHz], fan.speed [%]")
        version = lines[0].split(", ")[4]
        self.assertEqual(lines, [f"{i}, allot simulated GPU, 8192 MiB, 0 %, {version}, 1980 MHz, [N/A]"
                                 for i in range(2)])
        self.assertEqual(self.smi("--query-gpu=memory.total,compute_cap", "-i", "0",
                                  "--format=csv,noheader,nounits"), ["8192, 9.0"])
        self.assertEqual(self.smi("--query-compute-apps=pid,used_memory", "--format=csv"),
                         ["pid, used_gpu_memory [MiB]"])

    def test_every_field(self):
        """Each has a value, or says that there is none."""
        with open(os.path.join(os.environ["ALLOT_SOURCE"], "sim/smi/fields.c"), encoding="utf-8") as file:
            text = file.read()
        tables = text.split("fields_gpu[] = {")[1].split("fields_apps[] = {")
        for question, table in zip(("--query-gpu", "--query-compute-apps"), tables):
            names = [line.split('"')[1] for line in table.split("};")[0].splitlines()
                     if line.startswith('\t{"')]
            self.assertGreater(len(names), 7)
            _, lines = self.seen(f"{question}={','.join(names)} --format=csv,noheader -i 0")
            self.assertEqual([len(line.split(", ")) for line in lines], [len(names)])
            self.assertNotIn("", lines[0].split(", "))

    def test_use(self):
        """A process, and the memory that it has."""
        pid, lines = self.seen("--query-gpu=memory.used,memory.free --format=csv,noheader,nounits",
                               "--query-compute-apps=pid,name,used_memory,gpu_uuid --format=csv,noheader",
                               "", "-q -i 0")
        self.assertEqual(lines[:2], ["620, 7572", "0, 8192"])
        self.assertEqual(lines[2], f"{pid}, {sys.executable}, 620 MiB, {self.uuids()[0]}")
        table, said = lines[3:], "\n".join(lines)
        self.assertIn("620MiB / 8192MiB", said)
        self.assertRegex(said, rf"[|]    0   N/A  N/A +{pid}      C   \S+ +620MiB [|]")
        self.assertRegex(said, rf"Process ID +: {pid}\n")
        self.assertEqual({len(line) for line in table if line[:1] in ("|", "+")}, {91})

    def test_tenant(self):
        """A tenant's has the tenant's view."""
        _, lines = self.seen("--query-gpu=memory.total,memory.used --format=csv,noheader,nounits",
                             tenant=(ALLOT, "run", "--gpu", "0", "--memory", "2GiB", "--"))
        self.assertEqual(lines[0], "2048, 620")

    def test_refusals(self):
        """As the real program has them, for scripts; what is not simulated is said."""
        for words, status, out, error in (
                (("--query-gpu=name,nosuch", "--format=csv"), 2,
                 'Field "nosuch" is not a valid field to query.', ""),
                (("--query-gpu=name",), 2, '"--format=" switch is missing', ""),
                (("-i", "9"), 6, "No devices were found", ""),
                (("--query-gpu=name", "--format=xml"), 2, "", '"xml": not a format'),
                (("topo", "-m"), 2, "", '"topo": not simulated; "nvidia-smi --help"'),
                (("-x", "-q"), 2, "", '"-x": not simulated'),
                (("-l", "0"), 2, "", '"0": not a time')):
            done = self.sim("nvidia-smi", *words)
            self.assertEqual(done.returncode, status, words)
            self.assertIn(out, done.stdout)
            self.assertIn(error, done.stderr)
        done = self.sim("env", "LD_LIBRARY_PATH=/", "nvidia-smi")
        self.assertEqual(done.returncode, 9)
        self.assertIn("couldn't communicate", done.stdout)

    def test_where(self):
        """First in PATH, and only where there are NVIDIA's devices."""
        path = self.ok("sim", "--", "sh", "-c", "command -v nvidia-smi").strip()
        self.assertTrue(os.access(path, os.X_OK))
        done = self.allot("sim", "--amd", "1", "--", "sh", "-c", "echo $PATH")
        self.assertNotIn(os.path.dirname(path), done.stdout)
        self.assertEqual(self.ok("sim", "--", "env", "-u", "PATH", ALLOT, "sim", "--", "/bin/sh", "-c",
                                 "env | grep ^PATH || true"), "")

    def test_again(self):
        """-lms goes on until its reader ends."""
        process = self.start(ALLOT, "sim", "--", "nvidia-smi", "--query-gpu=index", "--format=csv",
                             "-lms", "10")
        self.assertEqual([process.stdout.readline() for _ in range(4)], ["index\n"] + ["0\n"] * 3)
        process.stdout.close()
        self.assertNotEqual(process.wait(60), 0)


if __name__ == "__main__":
    cli_lib.main()
