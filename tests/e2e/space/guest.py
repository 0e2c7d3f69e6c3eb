# SPDX-License-Identifier: Apache-2.0
"""In mode space a program has its part of the SMs or no GPU: a driver that finds no MPS daemon
would give it the whole device."""

import json
import os
import socket
import sys

import space_lib
from space_lib import ALLOT, GUEST, MPS_CONNECTION_FAILED

LOAD = os.environ["ALLOT_LOAD"]
SMS = """
import ctypes
cuda, sms, mps = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_int()
assert cuda.cuInit(0) == 0
assert cuda.cuDeviceGetAttribute(ctypes.byref(sms), 16, 0) == 0
assert cuda.cuDeviceGetAttribute(ctypes.byref(mps), 133, 0) == 0
print(sms.value, mps.value)
"""
REFUSED = f"init {MPS_CONNECTION_FAILED}"


class Guest(space_lib.Case):
    def refused(self, done, *says):
        """Every attempt, with one line that says why."""
        self.assertEqual(done.stdout.splitlines(), [REFUSED, REFUSED, "alloc 3"])
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("allot: the GPU is refused: "), done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)

    def guest(self, *prefix, name="a"):
        return self.space(*prefix, GUEST, "init", "init", "alloc", "1", name=name)

    def test_part(self):
        self.assertEqual(self.space(sys.executable, "-c", SMS).stdout, "32 1\n")
        self.assertEqual(self.space(sys.executable, "-c", SMS, name="b", compute="75").stdout,
                         "98 1\n")
        self.assertEqual(self.ok("run", "--name", "c", "--compute", "25", "--", sys.executable,
                                 "-c", SMS), "132 0\n")
        self.assertEqual(self.guest().stdout.splitlines(), ["init 0", "init 0", "alloc 0"])

    def test_daemon_killed(self):
        """What the tenant starts then is refused, until a daemon is there again."""
        with open(self.path("said"), "w+", encoding="utf-8") as said:
            process = self.start(ALLOT, "run", "--name", "a", "--mode", "space", "--compute", "25",
                                 "--", "sh", "-c",
                                 f'echo up; read x; "{GUEST}" init init alloc 1; read x; '
                                 f'exec "{GUEST}" init',
                                 stderr=said)
            self.assertEqual(process.stdout.readline(), "up\n")
            self.kill_daemon()
            process.stdin.write("\n")
            process.stdin.flush()
            self.assertEqual([process.stdout.readline().strip() for _ in range(3)],
                             [REFUSED, REFUSED, "alloc 3"])
            said.seek(0)
            lines = said.readlines()
            self.assertEqual(len(lines), 1, lines)
            self.assertIn("no MPS daemon answers", lines[0])
            self.assertIn(self.pipe, lines[0])
            self.assertEqual(self.ok("run", "--name", "a", "--", "echo", "again"), "again\n")
            process.stdin.write("\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "init 0\n")
            self.assertEqual(process.wait(100), 0)

    def test_changed_environment(self):
        for change, says in (("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=26", "more than"),
                             ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25.1", "more than"),
                             ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=", "no percentage"),
                             ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=1e1", "no percentage"),
                             ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25%", "no percentage"),
                             ("--unset=CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "is gone"),
                             ("CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING=1",
                              "each context"),
                             ("--unset=CUDA_MPS_PIPE_DIRECTORY", "is gone"),
                             (f"CUDA_MPS_PIPE_DIRECTORY={self.tmp}", "No such file")):
            self.refused(self.guest("env", change), says)
        done = self.guest("env", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=10")
        self.assertEqual(done.stdout.splitlines(), ["init 0", "init 0", "alloc 0"])

    def test_changed_priority(self):
        """Nobody goes before the others but who was given that; to yield is anybody's right."""
        for change, says in (("CUDA_MPS_CLIENT_PRIORITY=0", "=0 is not 1"),
                             ("CUDA_MPS_CLIENT_PRIORITY=", "= is not 1"),
                             ("CUDA_MPS_CLIENT_PRIORITY=2", "=2 is not 1"),
                             ("--unset=CUDA_MPS_CLIENT_PRIORITY", "CLIENT_PRIORITY is gone")):
            self.refused(self.guest("env", change), says)
        self.keep_space()
        self.ok("set", "a", "--priority", "high")
        for change in ("CUDA_MPS_CLIENT_PRIORITY=1", "--unset=CUDA_MPS_CLIENT_PRIORITY", "A=B"):
            out = self.ok("run", "--name", "a", "--", "env", change, GUEST, "init", "alloc", "1")
            self.assertEqual(out.splitlines(), ["init 0", "alloc 0"])

    def test_what_is_started_after_a_change(self):
        """A running program's children ask for what it was given."""
        process = self.start(ALLOT, "run", "--name", "a", "--mode", "space", "--compute", "25",
                             "--priority", "high", "--", "sh", "-c",
                             f'"{GUEST}" init; read x; "{GUEST}" init; read x; exec "{GUEST}" init')
        self.assertEqual(process.stdout.readline(), "init 0\n")
        for priority, said in (("normal", REFUSED), ("high", "init 0")):
            self.ok("set", "a", "--priority", priority)
            process.stdin.write("\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline().strip(), said)
        self.assertEqual(process.wait(100), 0)

    def test_environment_changed_by_the_program(self):
        """Between cuInit and the first context, in case the driver should read it again."""
        program = """
import ctypes, sys
libc, cuda, context = ctypes.CDLL(None), ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
libc.setenv(sys.argv[1].encode(), sys.argv[2].encode(), 1)
print(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
"""
        part, priority = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_CLIENT_PRIORITY"
        for name, value in ((part, "20"), (priority, "1")):
            done = self.space(sys.executable, "-c", program, name, value)
            self.assertEqual(done.stdout, "0\n")
        for name, value, says in ((part, "50", "=50 is more than"), (priority, "0", "is not 1")):
            done = self.space(sys.executable, "-c", program, name, value)
            self.assertEqual(done.stdout, f"{MPS_CONNECTION_FAILED}\n")
            self.assertIn(says, done.stderr)

    def test_driver_without_mps(self):
        """A daemon that the driver does not get on with is as good as none."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.bind(os.path.join(self.tmp, "control"))
            server.listen()
            done = self.guest("env", f"CUDA_MPS_PIPE_DIRECTORY={self.tmp}")
        self.assertEqual(done.stdout.splitlines(),
                         [REFUSED, REFUSED, f"alloc {MPS_CONNECTION_FAILED}"])
        self.assertIn("runs without MPS", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_not_held(self):
        """The part is the driver's to keep: no launch waits here. The simulated one keeps none, so
        more than the share is had; in turns it is not."""
        load = (LOAD, "--seconds", "2", "--warm-up", "0.5", "--loops-per-us", "1")
        done = self.space(*load)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout.splitlines()[-1])["share"], 0.35)
        turns = self.ok("run", "--name", "b", "--compute", "25", "--", *load)
        self.assertLess(json.loads(turns.splitlines()[-1])["share"], 0.35)

    def test_threads_and_children(self):
        done = self.space(GUEST, "child", "init", "alloc", "1", "end", "threads", "4", "init",
                          "alloc", "1")
        self.assertEqual(done.stdout.splitlines(),
                         ["init 0", "alloc 0", "child 0", "threads 0", "init 0", "alloc 0"])


if __name__ == "__main__":
    space_lib.main()
