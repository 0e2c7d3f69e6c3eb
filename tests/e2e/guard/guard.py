# SPDX-License-Identifier: Apache-2.0
"""allot run --guard: memory of emulated AMD GPUs, taken by a program that no library reaches."""

import errno
import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import cli_lib
from cli_lib import ALLOT, MIB, wait_for

BARE, COUNTED, PEAK = (os.environ[name] for name in ("GUARD_BARE", "GUARD_COUNTED", "GUARD_PEAK"))
GPU, OTHER = 10111, 10222
LIMIT = 64 * MIB
PAGE = 4096
ALLOC, FREE, SVM, DBG_TRAP = 0xc0284b16, 0x40084b17, 0xc0184b20, 0xc0204b26
VRAM, GTT, AQL = 1, 2, 1 << 27
SIM = ("sim", "--amd", "2", "--memory", "1GiB")
RUN = ("run", "--guard", "--name", "a", "--memory", "64MiB")


class Bare:
    """A bare program that can be talked to."""

    def __init__(self, process):
        self.process = process
        self.pid = int(self.line().split()[1])

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("the program is gone")
        return line

    def __call__(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return int(self.line())


class Guard(cli_lib.Case):
    def setUp(self):
        super().setUp()
        done = self.allot(*SIM, "--", ALLOT, "run", "--guard", "--", "true")
        if "seccomp user notification" in done.stderr:
            self.skipTest(done.stderr)

    def guarded(self, *command, run=RUN):
        return self.start(ALLOT, *SIM, "--", ALLOT, *run, "--", *(command or (BARE,)))

    def bare(self, **kwargs):
        return Bare(self.guarded(**kwargs))

    def tenant(self):
        return json.loads(self.ok("ps", "--json", "a"))["tenants"][0]

    def used(self):
        """Bytes of both devices."""
        return sum(device["used_bytes"] for device in self.tenant()["devices"])

    def comes_to(self, used):
        wait_for(lambda: self.used() == used)

    def test_quota(self):
        bare = self.bare()
        handle = bare("take", GPU, LIMIT)
        self.assertGreater(handle, 0)
        self.assertEqual(bare("take", GPU, PAGE), -errno.ENOMEM)
        tenant = self.tenant()
        self.assertEqual(self.used(), LIMIT)
        self.assertEqual(len(tenant["processes"]), 1)
        self.assertEqual(tenant["processes"][0]["name"], "allot-guard")
        self.assertIn("run --guard", tenant["processes"][0]["command"])
        self.assertEqual(sum(device["refusals"] for device in tenant["devices"]), 1)
        # It was asked for the refusal.
        self.assertEqual(sum(device["driver_bytes"] for device in tenant["devices"]), LIMIT)
        other = bare("take", OTHER, LIMIT)  # each device has its own limit
        self.assertGreater(other, 0)
        self.assertEqual(self.used(), 2 * LIMIT)
        self.assertEqual(bare("give", handle), 0)
        self.assertGreater(bare("take", GPU, LIMIT), 0)  # at once
        self.assertEqual(bare("give", other), 0)
        self.comes_to(LIMIT)
        self.assertEqual(bare("take", GPU, 1 << 61), -errno.ENOMEM)
        self.assertEqual(bare("take", 1, PAGE), -errno.EINVAL)  # as the kernel does

    def test_limit_changes(self):
        bare = self.bare()
        self.assertGreater(bare("take", GPU, LIMIT), 0)
        self.ok("set", "a", "--memory", "128MiB")
        self.assertGreater(bare("take", GPU, LIMIT), 0)
        self.ok("set", "a", "--memory", "32MiB")
        self.assertEqual(bare("take", GPU, PAGE), -errno.ENOMEM)

    def test_kinds(self):
        bare = self.bare()
        ring = bare("flags", GPU, 2 * LIMIT, VRAM | AQL)  # half of it is memory
        self.assertGreater(ring, 0)
        self.assertEqual(bare("take", GPU, PAGE), -errno.ENOMEM)
        self.assertEqual(bare("give", ring), 0)
        self.assertGreater(bare("flags", GPU, 2 * LIMIT, GTT), 0)  # the machine's
        self.comes_to(0)
        self.assertGreater(bare("take", GPU, LIMIT), 0)

    def test_bypass_without(self):
        """A known one (docs/threat-model.md): nobody is asked, and nothing is counted."""
        run = [word for word in RUN if word != "--guard"]
        self.fails(125, *SIM, "--", ALLOT, *run, "--", BARE, says=("statically linked",))
        process = self.start(ALLOT, *SIM, "--", ALLOT, *run, "--allow-escape", "--", BARE,
                             stderr=subprocess.DEVNULL)
        bare = Bare(process)
        # Above the limit it gets to the kernel, which has a plain file there.
        self.assertEqual(bare("take", GPU, 2 * LIMIT), -errno.ENOTTY)
        self.assertEqual(self.tenant()["processes"], [])
        self.assertEqual(self.used(), 0)

    def test_refusals(self):
        bare = self.bare()
        self.assertEqual(bare("xnack"), -errno.EPERM)
        self.assertEqual(bare("ioctl", -1, DBG_TRAP), -errno.ENOTTY)
        self.assertEqual(bare("flags", GPU, PAGE, 0), -errno.EINVAL)
        for address in (0, 1, 0xffffffffffff, 1 << 63):
            for request in (ALLOC, FREE, SVM):
                self.assertEqual(bare("wild", request, address), -errno.EFAULT)
        self.assertEqual(bare("ioctl", 99, ALLOC), -errno.EBADF)
        # The number alone says what it is, for a device; for other files it is theirs.
        self.assertEqual(bare("ioctl", -1, 0x5426), -errno.ENOTTY)
        self.assertEqual(bare("ioctl", 0, 0x5416), -errno.ENOTTY)
        self.assertEqual(self.used(), 0)

    def test_render_node(self):
        """The emulator plays it no further: within the limit a plain file answers."""
        bare = self.bare()
        self.assertEqual(bare("render", 129), 0)
        self.assertEqual(bare("create", LIMIT), -errno.ENOTTY)
        self.assertEqual(bare("create", LIMIT + 1), -errno.ENOMEM)
        self.assertEqual(bare("create", LIMIT), -errno.ENOTTY)  # what failed is not kept
        self.assertEqual(bare("place"), -errno.ENOMEM)  # who knows how large it is
        self.assertEqual(bare("ioctl", -1, 0xc0406456), -errno.EINVAL)  # USERQ

    def test_card(self):
        """A display node is the GPU's, too."""
        bare = self.bare()
        self.assertEqual(bare("card", 1), 0)
        self.assertEqual(bare("create", LIMIT), -errno.ENOTTY)
        self.assertEqual(bare("create", LIMIT + 1), -errno.ENOMEM)
        self.assertEqual(bare("ioctl", -1, 0xc02064b2), -errno.EINVAL)  # CREATE_DUMB: in no row

    def test_card_of_a_partition(self):
        """A display node of a partition has no PCI address of its own."""
        sim = ("sim", "--amd", "1,partitions=3", "--model", "gfx942", "--memory", "1GiB")
        bare = Bare(self.start(ALLOT, *sim, "--", ALLOT, *RUN, "--", BARE))
        for card in range(3):
            self.assertEqual(bare("card", card), 0)
            self.assertEqual(bare("create", LIMIT), -errno.ENOTTY)
            self.assertEqual(bare("create", LIMIT + 1), -errno.ENOMEM)

    def test_kept_file(self):
        """What the kernel keeps for a process, which has closed it, the guard can still look at."""
        bare = self.bare()
        self.assertGreater(bare("take", GPU, PAGE), 0)
        with open(f"/proc/{bare.pid}/status", encoding="utf-8") as status:
            guard = re.search(r"PPid:\t(\d+)", status.read())[1]

        def kept():
            names = (os.readlink(f"/proc/{guard}/fd/{fd}") for fd in os.listdir(f"/proc/{guard}/fd"))
            return sum(name.endswith("/renderD129") for name in names)

        self.assertEqual(kept(), 0)
        # The emulator plays it no further.
        self.assertEqual(bare("acquire", 129, GPU), -errno.ENOTTY)
        self.assertEqual(kept(), 1)
        self.assertEqual(bare("take", GPU, LIMIT), -errno.ENOMEM)
        self.assertEqual(kept(), 1)

    def test_newer_kernel(self):
        """One line says that there may be ioctls which are refused because nobody knows them."""
        run = (*SIM, "--", ALLOT, *RUN, "--", "true")
        self.assertEqual(self.allot(*run).stderr, "")
        self.assertEqual(self.allot(*run, env={"ALLOT_SIM_AMD_VERSION": "1.23"}).stderr, "")
        self.assertRegex(self.allot(*run, env={"ALLOT_SIM_AMD_VERSION": "1.24"}).stderr,
                         r"\Aallot run: --guard: .*1\.24.*1\.23.*\n\Z")

    def test_ranges(self):
        bare = self.bare()
        self.assertEqual(bare("svm", GPU, LIMIT), -errno.ENOTTY)  # not played, either
        self.assertEqual(bare("svm", GPU, LIMIT + PAGE), -errno.ENOMEM)

    def test_other_gpus(self):
        """As for one that is not there."""
        run = ("run", "--guard", "--name", "a", "--gpu", "0", "--memory", "64MiB")
        bare = self.bare(run=run)
        self.assertEqual(bare("take", OTHER, PAGE), -errno.EINVAL)
        self.assertGreater(bare("take", GPU, PAGE), 0)
        self.assertEqual(bare("render", 130), 0)
        self.assertEqual(bare("create", PAGE), -errno.ENODEV)

    def test_left_behind(self):
        """What goes on after the command has no guard, and takes nothing."""
        place = self.path("devices")
        os.mkdir(place)
        process = self.start(ALLOT, *SIM, "--dir", place, "--", ALLOT, *RUN, "--", "sh", "-c",
                             'exec 3<&0; "$0" <&3 & exit 5', BARE)
        bare = Bare(process)
        self.assertEqual(process.wait(100), 5)
        self.assertEqual(bare("take", GPU, PAGE), -errno.ENOSYS)

    @unittest.skipUnless(os.uname().machine == "x86_64", "no other numbering on this processor")
    def test_other_numbering(self):
        alone = subprocess.run([BARE], input="arch\n", text=True, capture_output=True)
        if alone.returncode == -signal.SIGSEGV:
            self.skipTest("this kernel is built without system calls of 32 bits")
        self.assertEqual(self.bare()("arch"), -errno.ENOSYS)

    def test_threads(self):
        bare = self.bare()
        self.assertEqual(bare("threads", 4, GPU, LIMIT // 2), 2)
        self.assertEqual(self.used(), LIMIT)
        self.assertEqual(bare("threads", 32, OTHER, LIMIT // 8), 8)
        self.assertEqual(self.used(), 2 * LIMIT)

    def test_signals_in_between(self):
        bare = self.bare()
        self.assertEqual(bare("timer"), 0)
        self.assertEqual(bare("loop", 2000, GPU, LIMIT), 2000)
        self.comes_to(0)

    @unittest.skipUnless(shutil.which("rocminfo"), "rocminfo is not installed (Debian: rocminfo)")
    def test_rocminfo(self):
        bare = self.ok(*SIM, "--", ALLOT, "run", "--memory", "64MiB", "--", "rocminfo")
        self.assertEqual(self.ok(*SIM, "--", ALLOT, *RUN, "--", "rocminfo"), bare)

    def test_fork_and_exec(self):
        bare = self.bare()
        parent = bare.pid
        self.assertGreater(bare("take", GPU, LIMIT // 2), 0)
        self.assertNotEqual(bare("fork"), parent)
        self.assertEqual(bare("take", GPU, LIMIT // 2 + PAGE), -errno.ENOMEM)
        self.assertGreater(bare("take", GPU, LIMIT // 2), 0)
        self.assertEqual(self.used(), LIMIT)
        bare.process.stdin.write("exec\n")
        bare.process.stdin.flush()
        self.assertRegex(bare.line(), r"pid \d+")
        self.assertEqual(bare("take", GPU, PAGE), -errno.ENOMEM)

    def test_block_that_changes(self):
        """What is gotten so is counted afterwards, and then everything is refused."""
        bare = self.bare()
        bare("race", 40, GPU, 16 * MIB)
        with open(os.path.join(self.sim_dir(bare), "amd/sys/devices/virtual/kfd/kfd/proc",
                               str(bare.pid), f"vram_{GPU}"), encoding="ascii"):
            pass
        wait_for(lambda: self.used() % PAGE == 0 and self.used() == self.figure(bare))
        if self.used() >= LIMIT:
            self.assertEqual(bare("take", GPU, PAGE), -errno.ENOMEM)

    def sim_dir(self, bare):
        with open(f"/proc/{bare.pid}/environ", encoding="utf-8") as file:
            return re.search(r"ALLOT_SIM_DIR=([^\0]+)", file.read())[1]

    def figure(self, bare):
        """The emulator's own."""
        done = subprocess.run([PEAK, os.path.join(self.sim_dir(bare), "amd")], text=True,
                              capture_output=True, check=True)
        return int(done.stdout.split()[1])

    def test_kill(self):
        """Eight processes without end, four of them killed: never above, and 0 in the end."""
        script = 'for i in 1 2 3 4 5 6 7 8; do (echo "$1"; cat) | "$0" & done; wait; read x'
        place = self.path("devices")
        os.mkdir(place)
        process = self.start(ALLOT, *SIM, "--dir", place, "--", ALLOT, *RUN, "--",
                             "sh", "-c", script, BARE, f"loop 300 {GPU} {LIMIT // 4}")
        pids, counts, killed = [], [], 0
        while len(pids) < 8 or len(counts) < 8 - killed:
            line = process.stdout.readline().split()
            if line[0] == "pid":
                pids.append(int(line[1]))
            else:
                counts.append(int(line[0]))
            if len(pids) == 8 and not killed:
                time.sleep(random.uniform(0, 0.1))
                for pid in random.sample(pids, 4):
                    os.kill(pid, signal.SIGKILL)
                killed = 4
        self.comes_to(0)
        self.assertGreater(sum(counts), 0)
        done = subprocess.run([PEAK, os.path.join(place, "amd")], text=True, capture_output=True,
                              check=True)
        peak, left = map(int, done.stdout.split())
        self.assertLessEqual(peak, LIMIT)
        self.assertEqual(left, 0)

    def test_killed_with_all_it_had(self):
        process = self.guarded("sh", "-c", '"$0"; read x', BARE)
        bare = Bare(process)
        self.assertGreater(bare("take", GPU, LIMIT), 0)
        os.kill(bare.pid, signal.SIGKILL)
        self.comes_to(0)

    def test_counts_for_itself(self):
        self.ok(*SIM, "--", ALLOT, *RUN, "--", COUNTED)

    def test_supervisor_killed(self):
        """Closed, not open."""
        bare = self.bare()
        with open(f"/proc/{bare.pid}/status", encoding="ascii") as file:
            guard = int(re.search(r"PPid:\t(\d+)", file.read())[1])
        os.kill(guard, signal.SIGKILL)
        wait_for(lambda: bare("take", GPU, PAGE) == -errno.ENOSYS)
        self.assertEqual(self.used(), 0)

    def test_kept_waiting(self):
        """By a process that is left behind: the command's end is the end all the same."""
        def copies():
            for task in os.listdir(f"/proc/{guard}/task"):
                with open(f"/proc/{guard}/task/{task}/syscall", encoding="ascii") as file:
                    if file.read().split()[0] in ("270", "310"):  # process_vm_readv
                        return True
            return False

        bare = self.bare()
        with open(f"/proc/{bare.pid}/status", encoding="ascii") as file:
            guard = int(re.search(r"PPid:\t(\d+)", file.read())[1])
        if bare("stall") < 0:
            self.skipTest("no userfaultfd for faults of the kernel's")
        wait_for(copies)
        bare.process.stdin.close()
        self.assertEqual(bare.process.wait(30), 0)  # in 2

    def test_transparent(self):
        """Exit status, signals, terminal: the command's own."""
        def run(*command):
            return self.allot(*SIM, "--", ALLOT, "run", "--guard", "--memory", "1GiB", "--",
                              *command)

        self.assertEqual(run("sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(run("sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)
        self.assertEqual(run("/nonexistent").returncode, 127)
        self.assertEqual(run("sh", "-c", "echo $((6 * 7)) | cat").stdout, "42\n")
        self.assertEqual(json.loads(self.ok("ps", "--json"))["tenants"], [])
        process = self.guarded("sh", "-c", 'trap "exit 9" TERM; echo ready; while :; do read x; '
                                           "done")
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.terminate()
        self.assertEqual(process.wait(100), 9)

    def test_terminal(self):
        """tcdrain() has a number of the guard's, FIONBIO one as well."""
        script = ("import os, socket, subprocess, termios, threading;"
                  "termios.tcdrain(1); a, b = socket.socketpair(); a.setblocking(False);"
                  "termios.tcsetattr(0, termios.TCSADRAIN, termios.tcgetattr(0));"
                  "t = threading.Thread(target=termios.tcdrain, args=(1,)); t.start(); t.join();"
                  "subprocess.run(['stty', '-a'], check=True, stdout=subprocess.DEVNULL);"
                  "print(os.get_terminal_size().columns >= 0, 'fine')")
        try:
            ours, theirs = pty.openpty()
        except OSError as error:
            self.skipTest(f"no terminal to be had: {error}")
        with subprocess.Popen([ALLOT, *SIM, "--", ALLOT, *RUN, "--", sys.executable, "-c", script],
                              env=self.env, stdin=theirs, stdout=theirs) as process:
            os.close(theirs)
            text = b""
            try:
                while True:
                    text += os.read(ours, 4096)
            except OSError:  # all have closed it
                os.close(ours)
            self.assertEqual(process.wait(100), 0, text)
        self.assertIn(b"True fine", text)

    def test_errors(self):
        self.fails(125, *SIM, "--", ALLOT, *RUN, "--", ALLOT, "run", "--guard", "--allow-escape",
                   "--", "true", says=("--guard", "one only"))
        if not os.path.exists("/dev/kfd"):
            self.fails(125, "run", "--guard", "--name", "b", "--", "true",
                       says=("--guard", "no AMD GPU"))
            self.assertFalse(os.path.exists(os.path.join(self.runtime, "b")))


if __name__ == "__main__":
    cli_lib.main()
