# SPDX-License-Identifier: Apache-2.0
"""allot sim --report: what programs allocated, what they left, and which of their calls failed."""

import os
import re
import sys
from xml.etree import ElementTree

import cli_lib

BEGIN = """
import ctypes, os, signal, subprocess, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer, stream = ctypes.c_void_p(), ctypes.c_uint64(), None
def size(mib): return ctypes.c_size_t(mib << 20)
def alloc(mib):
    assert not cuda.cuMemAlloc_v2(ctypes.byref(pointer), size(mib))
    return ctypes.c_uint64(pointer.value)
def begin():
    assert not cuda.cuInit(0) and not cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
"""
WITH_CONTEXT = BEGIN + "begin()\n"
CLEAN = r"report: of 1 process 0 left memory, and 0 had calls that did not succeed\n$"


class Report(cli_lib.Case):
    def report(self, program, *options, status=0, words=()):
        done = self.allot("sim", "--report", *options, "--", sys.executable, "-c", program, *words)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertTrue(all(line.startswith("allot sim: ") for line in done.stderr.splitlines()))
        return done.stderr.replace("allot sim: ", "")

    def test_left(self):
        said = self.report(WITH_CONTEXT + "alloc(100); cuda.cuMemFree_v2(alloc(50)); alloc(20); alloc(1)")
        self.assertRegex(said, r"process \d+ \(.*\): 4 allocations\n")
        # The context is of the device's memory, too.
        self.assertIn("  GPU 0: peak 670 MiB\n", said)
        self.assertIn("  GPU 0: 3 allocations of cuMemAlloc, 121 MiB, never freed\n", said)
        self.assertTrue(said.endswith("of 1 process 1 left memory, and 0 had calls that did not succeed\n"))

    def test_each_kind(self):
        said = self.report(WITH_CONTEXT + """
class Prop(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("at", ctypes.c_int * 2), ("rest", ctypes.c_char * 16)]
class Array(ctypes.Structure):
    _fields_ = [("w", ctypes.c_size_t), ("h", ctypes.c_size_t), ("format", ctypes.c_int), ("n", ctypes.c_uint)]
array = Array(1024, 1024, 0x20, 1)
prop = Prop(1, 0, (1, 0))
where = ctypes.byref(pointer)
for r in (cuda.cuMemAllocAsync(where, size(2), None), cuda.cuMemAllocManaged(where, size(2), 1),
          cuda.cuMemCreate(where, size(4), ctypes.byref(prop), ctypes.c_ulonglong(0)),
          cuda.cuMemHostAlloc(where, size(1), 0), cuda.cuArrayCreate_v2(where, ctypes.byref(array))):
    assert not r, r
""")
        for call, words in (("cuMemAllocAsync", "2 MiB"), ("cuMemAllocManaged", "2 MiB"),
                            ("cuMemCreate", "4 MiB"), ("cuMemHostAlloc", "1 MiB"),
                            ("cuArrayCreate", "4 MiB")):
            self.assertIn(f"  GPU 0: 1 allocation of {call}, {words}, never freed\n", said)

    def test_freed(self):
        """By itself, with its context, and on its way through a stream as the program ends."""
        for end in ("cuda.cuMemFree_v2(alloc(9))", "alloc(9); cuda.cuCtxDestroy_v2(context)",
                    "cuda.cuMemFreeAsync(alloc(9), None)",
                    "cuda.cuMemAllocAsync(ctypes.byref(pointer), size(2), None); "
                    "cuda.cuMemFreeAsync(pointer, None)"):
            self.assertRegex(self.report(WITH_CONTEXT + end), CLEAN)

    def test_calls(self):
        """Those that did not succeed; answers that are none of the program's faults are left out."""
        said = self.report(WITH_CONTEXT + """
for _ in range(3):
    cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 50))
cuda.cuMemFree_v2(ctypes.c_uint64(4711))
assert cuda.cuPointerGetAttribute(ctypes.byref(ctypes.c_int()), 2, ctypes.c_uint64(id(None)))
""")
        self.assertIn("  cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY, 3 times\n", said)
        self.assertIn("  cuMemFree_v2: CUDA_ERROR_INVALID_VALUE, 1 time\n", said)
        self.assertNotIn("Pointer", said)
        self.assertTrue(said.endswith("0 left memory, and 1 had calls that did not succeed\n"))

    def test_what_is_not_simulated(self):
        said = self.report(WITH_CONTEXT + "cuda.cuTexRefCreate(ctypes.byref(pointer))")
        if "cuTexRefCreate" in said:
            self.assertIn("(the simulator does not have it)", said)
        self.assertRegex(said, CLEAN)

    def test_ends(self):
        """What is held by a process that is killed, or still runs, was not left by it."""
        for end in ("os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)"):
            status = -9 if "KILL" in end else 0
            said = self.report(WITH_CONTEXT + f"alloc(7); {end}", status=status)
            self.assertIn("1 allocation of cuMemAlloc, 7 MiB, held when it was killed", said)
            self.assertRegex(said, CLEAN)

    def test_children(self):
        """A fork's has its own; a program that exec() put in its place, too."""
        said = self.report(BEGIN + """
if os.fork():
    os.wait(); begin(); alloc(3); sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
begin(); alloc(5)
""", words=(WITH_CONTEXT + "alloc(11)",))
        self.assertIn("cuMemAlloc, 5 MiB, never freed", said)
        self.assertIn("cuMemAlloc, 11 MiB, never freed", said)
        self.assertIn("cuMemAlloc, 3 MiB, held when", said)
        self.assertIn("of 3 processes 2 left memory", said)

    def test_nobody(self):
        self.assertEqual(self.report("pass"), "report: no process began to use CUDA (cuInit)\n")

    def test_status(self):
        """The command's own, unless another one is asked for."""
        leak = WITH_CONTEXT + "alloc(1)"
        self.report(leak)
        self.report(leak, "--error-exitcode", "7", status=7)
        self.report(leak + "; sys.exit(3)", "--error-exitcode", "7", status=3)
        self.report(WITH_CONTEXT, "--error-exitcode", "7")
        self.report(WITH_CONTEXT + "cuda.cuMemFree_v2(ctypes.c_uint64(1))", "--error-exitcode", "7", status=7)
        self.fails(125, "sim", "--error-exitcode", "7", "--", "true", says=("add --report",))
        for wrong in ("0", "256", "x"):
            self.fails(125, "sim", "--report", "--error-exitcode", wrong, "--", "true",
                       says=("from 1 to 255", f'"{wrong}"'))
        self.fails(125, "sim", "--report", "--amd", "1", "--", "true", says=("--gpus 1",))

    def test_xml(self):
        path = self.path("report.xml")
        for options in ((path,), (f"--report={path}",)):
            self.report("'<&>\"';" + WITH_CONTEXT.lstrip() + "alloc(1); cuda.cuMemFree_v2(ctypes.c_uint64(1))", *options)
            suite = ElementTree.parse(path).getroot().find("testsuite")
            self.assertEqual((suite.get("tests"), suite.get("failures")), ("2", "2"))
            self.assertEqual([case.find("failure").get("message") for case in suite.iter("testcase")],
                             ["GPU 0: 1 allocation of cuMemAlloc, 1 MiB, never freed",
                              "cuMemFree_v2: CUDA_ERROR_INVALID_VALUE, 1 time"])
            self.assertTrue(all(case.get("classname").startswith(sys.executable)
                                for case in suite.iter("testcase")))
            (peak,) = [p.get("value") for p in suite.iter("property") if p.get("name").startswith("peak")]
            self.assertEqual(int(peak), 522 << 20)
            os.unlink(path)
        self.report(WITH_CONTEXT, path)
        suite = ElementTree.parse(path).getroot().find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures"), list(suite.iter("failure"))),
                         ("2", "0", []))

    def test_document(self):
        """The workflow's line in docs/ci.md, and what the page shows of a report."""
        with open(os.path.join(os.environ["ALLOT_SOURCE"], "docs/ci.md"), encoding="utf-8") as page:
            text = page.read()
        (line,) = re.findall(r"- run: allot (.* -- )\./tests\n", text)
        program = WITH_CONTEXT + "alloc(100); cuda.cuMemFree_v2(alloc(100)); alloc(0.1); " \
                                 "cuda.cuMemFree_v2(pointer); cuda.cuMemFree_v2(ctypes.c_uint64(1))"
        program = program.replace("mib << 20", "int(mib * (1 << 20))")
        done = self.allot(*line.split(), sys.executable, "-c", program, cwd=self.tmp)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(os.path.exists(self.path("report.xml")))
        shown = re.findall(r"(?m)^    (allot sim: .*)$", text)
        self.assertEqual(done.stderr.splitlines()[2:], shown[2:])
        for said, words in zip(done.stderr.splitlines(), shown):
            self.assertEqual(re.sub(r"process .*:", "", said).replace("722", "720"), re.sub(r"process .*:", "", words))

    def test_xml_that_cannot_be_written(self):
        self.fails(125, "sim", "--report", self.path("none/report.xml"), "--", "touch", self.path("ran"),
                   says=("none/report.xml", "No such file or directory", "another file"))
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_nothing_is_left(self):
        directory = self.path("devices")
        self.allot("sim", "--report", "--dir", directory, "--", sys.executable, "-c", WITH_CONTEXT)
        self.assertEqual([name for name in os.listdir(directory) if re.match("report", name)], [])


if __name__ == "__main__":
    cli_lib.main()
