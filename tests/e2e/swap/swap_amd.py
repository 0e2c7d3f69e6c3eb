# SPDX-License-Identifier: Apache-2.0
"""Memory of emulated AMD GPUs that leaves them and comes back: `allot run --swappable`, `allot
suspend`, `allot resume`. What is on the GPUs is the emulator's own count."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from find_disk import find_disk
from refusal import status_of

ALLOT = os.environ["ALLOT"]
GUEST = os.environ["SWAP_GUEST"]
HSA = os.environ["SWAP_HSA"]
LINKS = os.environ["SWAP_LINKS"]
KIB, MIB = 1 << 10, 1 << 20
CYCLES = 40
# What the program at rest holds, by GPU.
IDLE = [4 * KIB + 3 * MIB + 7 * MIB + 4 * KIB, 5 * MIB + 12 * KIB + 64 * KIB + 2 * MIB,
        8 * KIB + 4 * MIB]


class Case(unittest.TestCase):
    MEMORY, GPUS, LINKS = "256MiB", "3", LINKS

    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="allot-swap-amd-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.env = {**os.environ, "ALLOT_RUNTIME_DIR": self.tmp + "/run"}
        self.env.pop("ALLOT_FAULT", None)
        self.sim = [ALLOT, "sim", "--amd", self.GPUS, "--memory", self.MEMORY, "--links", self.LINKS, "--dir",
                    self.tmp + "/sim", "--"]

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def used(self):
        done = subprocess.run([*self.sim, GUEST, "used"], env=self.env, text=True,
                              capture_output=True, timeout=300, check=True)
        return [int(line) for line in done.stdout.split()]

    def allot(self, *args, env=None):
        return subprocess.run([*self.sim, ALLOT, *args], env={**self.env, **(env or {})}, text=True,
                              capture_output=True, timeout=300, stdin=subprocess.DEVNULL,
                              check=False)

    def must(self, *args):
        done = self.allot(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, *args, env=None):
        done = self.allot(*args, env=env)
        self.assertEqual(done.returncode, status_of(done.stderr), done.stderr)
        return done.stderr

    def guest(self, *what, options=("--swappable",), env=None, name="t", program=GUEST):
        process = subprocess.Popen([*self.sim, ALLOT, "run", "--name", name, *options, "--",
                                    program, *what], env={**self.env, **(env or {})},
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        said = process.stdout.readline()
        if process.poll() == 77:
            self.skipTest(process.stderr.read())
        self.assertEqual(said, "ready\n",
                         None if process.poll() is None else process.stderr.read())
        return process

    def good(self, process):
        """It is told to look at what it holds, and finds all of it."""
        out, err = process.communicate("\n", timeout=300)
        self.assertEqual((out, process.returncode), ("good\n", 0), err)

    def tenant(self):
        tenant, = json.loads(self.must("ps", "--json", "t"))["tenants"]
        return tenant

    def suspended(self):
        return [device.get("suspended_bytes", 0) for device in self.tenant()["devices"]]

    def charged(self):
        return [device["used_bytes"] for device in self.tenant()["devices"]]


class Rest(Case):
    """A process that makes no call meanwhile."""

    def test_out_and_back(self):
        guest = self.guest("idle")
        self.assertEqual(self.used(), IDLE)
        self.assertEqual(self.charged(), IDLE)
        for _ in range(3):
            self.assertRegex(self.must("suspend", "t"), r"^t: 21 MiB of 1 process left in ")
            self.assertEqual(self.used(), [0, 0, 0])
            self.assertEqual(self.charged(), [0, 0, 0])
            self.assertEqual(self.suspended(), IDLE)
            self.assertEqual(self.tenant()["state"], "suspended")
            self.assertRegex(self.must("resume", "t"), r"^t: 21 MiB of 1 process came back in ")
            self.assertEqual(self.used(), IDLE)
            self.assertEqual(self.charged(), IDLE)
            self.assertEqual(self.suspended(), [0, 0, 0])
        self.good(guest)

    def test_has_no_contexts(self):
        guest = self.guest("idle")
        self.assertIn("is on an AMD GPU", self.refused("suspend", "--contexts", "t"))
        self.assertEqual(self.used(), IDLE)
        self.good(guest)

    def test_waits_while_it_is_away(self):
        guest = self.guest("idle")
        self.must("suspend", "t")
        guest.stdin.write("\n")
        guest.stdin.flush()
        with self.assertRaises(subprocess.TimeoutExpired):
            guest.wait(0.5)
        self.assertEqual(self.used(), [0, 0, 0])
        self.must("resume", "t")
        self.good(guest)

    def test_two_processes(self):
        guests = [self.guest("idle"), self.guest("idle", options=())]
        self.must("suspend", "t")
        self.assertEqual(self.used(), [0, 0, 0])
        self.must("resume", "t")
        for guest in guests:
            self.good(guest)

    def test_quota_was_lowered(self):
        guest = self.guest("idle", options=("--swappable", "--memory", "64MiB"))
        self.must("suspend", "t")
        self.must("set", "t", "--memory", "6MiB")
        self.assertIn("the quota of tenant \"t\" has no room for its 21", self.refused("resume", "t"))
        self.assertEqual(self.used(), [0, 0, 0])
        self.assertEqual(self.charged(), [0, 0, 0])
        self.must("set", "t", "--memory", "64MiB")
        self.must("resume", "t")
        self.assertEqual(self.charged(), IDLE)
        self.good(guest)


class Crowd(Case):
    MEMORY = "28MiB"  # of which KFD may give 20

    def test_others_get_the_memory(self):
        """Two tenants that do not fit on the GPUs together."""
        guest = self.guest("idle")
        self.must("suspend", "t")
        other = self.guest("idle", name="u")
        self.assertIn("the device has no room for its 21", self.refused("resume", "t"))
        self.assertEqual(self.used(), IDLE)
        self.must("suspend", "u")
        self.must("resume", "t")
        self.good(guest)
        self.must("resume", "u")
        self.good(other)


class Load(Case):
    """Programs that allocate, free, map and copy all the time, and look at every word."""

    def test_cycles(self):
        guests = [self.guest("churn", str(seed)) for seed in (11, 12)]
        for cycle in range(CYCLES):
            self.must("suspend", "t", "--timeout", "60s")
            if cycle % 10 == 0:
                self.assertEqual(self.used(), [0, 0, 0], f"cycle {cycle}")
            self.must("resume", "t")
            time.sleep(0.02 * (cycle % 3))
        for guest in guests:
            self.good(guest)

    def test_metered(self):
        """The same beside a share of compute, for which queues are taken off, too."""
        guest = self.guest("churn", "5", options=("--swappable", "--compute", "50"))
        for _ in range(10):
            self.must("suspend", "t", "--timeout", "60s")
            self.assertEqual(self.used(), [0, 0, 0])
            self.must("resume", "t")
        self.good(guest)


class Runtime(Case):
    """ROCm's runtime, as it is installed, which maps all that it allocates."""
    MEMORY, GPUS, LINKS = "1GiB", "2", "xgmi"

    def test_copies(self):
        guest = self.guest(program=HSA)
        held = self.charged()
        left = []
        for cycle in range(10):
            self.must("suspend", "t")
            left.append(self.suspended())
            self.must("resume", "t")
            self.assertEqual(self.charged(), held)
            time.sleep(0.013 * (cycle % 5))
        for gpu in zip(*left):
            self.assertGreaterEqual(min(gpu), 32 * MIB)
        self.good(guest)


class Views(Case):
    """GPU memory that the CPU has mapped."""

    def test_writers(self):
        """Threads that write all the time lose no write, and read no other."""
        guest = self.guest("write")
        for _ in range(30):
            self.must("suspend", "t")
            self.assertEqual(self.used(), [0, 0, 0])
            self.must("resume", "t")
        self.good(guest)

    def test_changes(self):
        guest = self.guest("change")
        self.must("suspend", "t")
        guest.stdin.write("\n")
        guest.stdin.flush()
        self.assertEqual(guest.stdout.readline(), "changed\n")
        self.must("resume", "t")
        self.good(guest)


class Nodes(Case):
    """Memory by handles of render nodes."""

    def test_out_and_back(self):
        guest = self.guest("nodes")
        self.assertEqual(self.used(), [24 * MIB, 0, 0])
        for _ in range(3):
            self.assertRegex(self.must("suspend", "t"), r"^t: 24 MiB of 1 process left in ")
            self.assertEqual(self.used(), [0, 0, 0])
            self.assertEqual(self.charged(), [0, 0, 0])
            self.must("resume", "t")
            self.assertEqual(self.used(), [24 * MIB, 0, 0])
            self.assertEqual(self.charged(), [24 * MIB, 0, 0])
        self.good(guest)

    def test_is_killed(self):
        for point in ("COPIED", "HALF_OUT", "OUT", "HALF_IN", "IN"):
            guest = self.guest("nodes")
            victim = self.guest("nodes", options=(), env={"ALLOT_FAULT": f"GUEST_SWAP_{point}"})
            self.must("suspend", "t")
            self.must("resume", "t")
            self.assertEqual(victim.wait(10), -signal.SIGKILL, point)
            self.assertEqual(self.used(), [24 * MIB, 0, 0], point)
            self.good(guest)


class Shared(Case):
    """What processes have of each other: by handles of /dev/kfd and of render nodes, and the
    descriptors that go around between them."""
    OWN = 3 * MIB
    LENT = 2 * 3 * MIB

    def lend(self, **more):
        return self.guest("lend", self.tmp + "/socket", **more)

    def borrow(self, **more):
        return self.guest("borrow", self.tmp + "/socket", **{"options": (), **more})

    def tell(self, process, *words):
        for word in words:
            process.stdin.write(word + "\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "done\n",
                             None if process.poll() is None else process.stderr.read())

    def quit(self, process):
        out, err = process.communicate("q\n", timeout=300)
        self.assertEqual((out, process.returncode), ("good\n", 0), err)

    def test_out_and_back(self):
        """It leaves once, and is shared again: what one writes the others read."""
        all_ = [self.lend(), self.borrow(), self.borrow()]
        held = [3 * self.OWN + self.LENT, 0, 0]
        self.assertEqual(self.used(), held)
        self.assertEqual(self.charged(), held)
        for n in range(6):
            self.tell(all_[n % 3], f"f {10 * n}")
            self.must("suspend", "t")
            self.assertEqual(self.used(), [0, 0, 0])
            self.assertEqual(self.charged(), [0, 0, 0])
            self.must("resume", "t")
            self.assertEqual(self.used(), held)
            self.assertEqual(self.charged(), held)
            for process in all_:
                self.tell(process, f"l {10 * n}")
        for process in reversed(all_):
            self.quit(process)
        self.assertEqual(self.used(), [0, 0, 0])

    def test_kills_of_an_importer(self):
        for point in ("SWAP_SHUT", "SWAP_COPIED", "SWAP_HALF_OUT", "SWAP_OUT", "SWAP_HALF_IN",
                      "SWAP_IN", "SHARE_ASKED:5", "SHARE_ASKED:7"):
            lender, other = self.lend(), self.borrow()
            victim = self.borrow(env={"ALLOT_FAULT": f"GUEST_{point}"})
            self.tell(lender, "f 5")
            self.must("suspend", "t")
            self.must("resume", "t")
            self.assertEqual(victim.wait(100), -signal.SIGKILL, point)
            self.assertEqual(self.used(), [2 * self.OWN + self.LENT, 0, 0], point)
            for process in (other, lender):
                self.tell(process, "l 5")
                self.quit(process)
            os.unlink(self.tmp + "/socket")

    def test_kills_of_an_exporter(self):
        """Either nothing has left, or what has is gone: then who shared it stays away."""
        for point in ("SWAP_SHUT", "SWAP_COPIED", "SWAP_HALF_OUT", "SWAP_OUT", "SWAP_HALF_IN",
                      "SWAP_IN"):
            lender = self.lend(env={"ALLOT_FAULT": f"GUEST_{point}"})
            other = self.borrow()
            done = self.allot("suspend", "t")
            if not done.returncode:
                done = self.allot("resume", "t")
            self.assertEqual(lender.wait(100), -signal.SIGKILL, point)
            if self.tenant()["state"] == "running":
                self.tell(other, "l 1")
                self.quit(other)
            else:
                self.assertNotEqual(done.returncode, 0, point)
                self.assertRegex(done.stderr, "shares memory of another process, which ended")
                self.end(other)
            self.assertEqual(self.used(), [0, 0, 0], point)
            os.unlink(self.tmp + "/socket")

    def test_exporter_frees_it(self):
        lender, other = self.lend(), self.borrow()
        self.tell(lender, "f 7")
        self.end(lender)
        said = self.refused("suspend", "t")
        self.assertRegex(said, "has imported memory .* of a process that ended or freed it")
        self.tell(other, "l 7")
        self.quit(other)

    def test_another_tenant(self):
        """A descriptor is good for nothing there."""
        lender = self.lend()
        other = subprocess.run([*self.sim, ALLOT, "run", "--name", "u", "--swappable", "--", GUEST,
                                "borrow", self.tmp + "/socket"], env=self.env, text=True,
                               capture_output=True, timeout=300, check=False)
        self.assertIn("GET_DMABUF_INFO", other.stderr)
        self.quit(lender)


class Refusals(Case):
    def refuse(self, what, why):
        guest = self.guest(what)
        before = self.used()
        said = self.refused("suspend", "t")
        self.assertRegex(said, why)
        self.assertIn('tenant "t" goes on as it was', said)
        self.assertEqual(self.used(), before)
        self.assertEqual(self.tenant()["state"], "running")
        self.good(guest)

    def test_svm(self):
        self.refuse("svm", r"holds 1 MiB of its own memory on AMD GPUs \(SVM\)")

    def test_own_node(self):
        self.refuse("own node", r"holds 1 MiB of memory by handles of render nodes")

    def test_address(self):
        self.refuse("address", r"holds 1 MiB of memory that has no address")


class Kills(Case):
    """kill -9 at each step, of who asks and of a process that is asked."""

    def settles(self, state):
        for _ in range(200):
            tenant = self.tenant()
            if tenant["state"] == state and {p["state"] for p in tenant["processes"]} == {state}:
                return
            time.sleep(0.02)
        self.fail(f"{tenant['state']}, {[p['state'] for p in tenant['processes']]}")

    def test_of_the_command(self):
        guest = self.guest("idle")
        for what, passage, state in (("suspend", 1, "running"), ("suspend", 2, "suspended"),
                                     ("resume", 1, "suspended"), ("resume", 2, "running")):
            self.allot(what, "t", env={"ALLOT_FAULT": f"SWAP_ASKED:{passage}"})
            self.settles(state)
        self.assertEqual(self.used(), IDLE)
        self.good(guest)

    def test_of_a_process(self):
        """The other one is not disturbed, and what the dead one had is nobody's."""
        for point in ("SHUT", "COPIED", "HALF_OUT", "OUT", "HALF_IN", "IN"):
            guest = self.guest("idle")
            victim = self.guest("idle", options=(), env={"ALLOT_FAULT": f"GUEST_SWAP_{point}"})
            self.must("suspend", "t")
            self.must("resume", "t")
            self.assertEqual(victim.wait(10), -signal.SIGKILL, point)
            self.assertEqual(self.used(), IDLE, point)
            self.assertEqual(self.charged(), IDLE, point)
            self.good(guest)


@unittest.skipUnless(find_disk(), "there is no disk here that has files without names")
class Disk(Case):
    """What has no room in host memory goes to a file."""

    def setUp(self):
        super().setUp()
        self.disk = tempfile.mkdtemp(prefix="allot-swap-dir-", dir=find_disk())
        self.addCleanup(shutil.rmtree, self.disk, ignore_errors=True)

    def options(self, host):
        return ("--swappable", "--swap-dir", self.disk, "--host-memory", host)

    def test_out_and_back(self):
        for host, there in (("16MiB", 16 * MIB), ("1MiB", 0)):
            guest = self.guest("idle", options=self.options(host))
            for _ in range(3):
                self.assertIn(f" of it to a file in {self.disk}", self.must("suspend", "t"))
                self.assertEqual(self.used(), [0, 0, 0])
                self.assertEqual(self.suspended(), IDLE)
                swap = self.tenant()["swap"]
                self.assertEqual((swap["host_bytes"], swap["file_bytes"]), (there, sum(IDLE) - there))
                self.must("resume", "t")
                self.assertEqual(self.used(), IDLE)
            self.good(guest)

    def test_no_file(self):
        guest = self.guest("idle", options=self.options("1MiB"))
        os.rename(self.disk, self.disk + "-away")
        said = self.refused("suspend", "t")
        self.assertRegex(said, "its file of 21 MiB in .*: No such file or directory")
        self.assertIn('tenant "t" goes on as it was', said)
        self.assertEqual(self.used(), IDLE)
        os.rename(self.disk + "-away", self.disk)
        self.must("suspend", "t")
        self.must("resume", "t")
        self.good(guest)

    def test_kills(self):
        for point in ("FILE", "COPIED", "HALF_OUT", "OUT", "HALF_IN", "IN"):
            guest = self.guest("idle", options=self.options("1MiB"))
            victim = self.guest("idle", options=(), env={"ALLOT_FAULT": f"GUEST_SWAP_{point}"})
            self.must("suspend", "t")
            self.must("resume", "t")
            self.assertEqual(victim.wait(10), -signal.SIGKILL, point)
            self.assertEqual(os.listdir(self.disk), [])
            self.assertEqual(self.used(), IDLE, point)
            self.good(guest)


class Beside(Case):
    """Of the same tenant a CUDA process asks another for what that one keeps, and wakes all for it."""

    def cuda(self, *what, options=()):
        emulated, self.sim = self.sim, []
        env = {"LD_LIBRARY_PATH": os.environ["SWAP_CUDA_LIBS"], "ALLOT_SIM_DIR": self.tmp + "/cuda",
               "ALLOT_SIM_GPUS": "1", "ALLOT_SIM_MEMORY": "256MiB", "ALLOT_SIM_CONTEXT": "16777216"}
        guest = self.guest(*what, options=options, env=env, program=os.environ["SWAP_CUDA_GUEST"])
        self.sim = emulated
        return guest

    def test_question(self):
        self.cuda("keep", options=("--swappable", "--memory", "200MiB"))
        guest = self.guest("idle", options=())
        self.cuda("take", "130")
        self.good(guest)


if __name__ == "__main__":
    unittest.main()
