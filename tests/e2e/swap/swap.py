# SPDX-License-Identifier: Apache-2.0
"""Tenants whose memory leaves the (simulated) device and comes back: `allot run --swappable`,
`allot suspend`, `allot resume`. What is on the device is the simulator's own count."""

import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from refusal import status_of

ALLOT = os.environ["ALLOT"]
GUEST = os.environ["SWAP_GUEST"]
TRUTH = os.environ["SWAP_TRUTH"]
LONG = 300  # seconds, for a hang
MIB = 1 << 20
CONTEXT = 16 * MIB
STAYS = CONTEXT + 2 * MIB  # and the program's code
# What the program at rest holds, in granules: 400 B and 280 kB share one with its counter.
IDLE = (2 + 4 + 20 + 30) * MIB
LARGE = (2 + 4 + 64 + 130) * MIB  # likewise, of the large one


class Case(unittest.TestCase):
    MEMORY, GPUS, CONTEXT = "2GiB", "1", CONTEXT

    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="allot-swap-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.env = {**os.environ, "ALLOT_RUNTIME_DIR": self.tmp + "/run",
                    "ALLOT_SIM_DIR": self.tmp + "/sim", "ALLOT_SIM_GPUS": self.GPUS,
                    "ALLOT_SIM_MEMORY": self.MEMORY, "ALLOT_SIM_CONTEXT": str(self.CONTEXT)}
        self.env.pop("ALLOT_FAULT", None)
        self.truth = subprocess.Popen([TRUTH], env=self.env, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, self.truth)
        self.used()

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def used(self):
        return self.all_used()[0]

    def all_used(self):
        self.truth.stdin.write("\n")
        self.truth.stdin.flush()
        return json.loads(self.truth.stdout.readline())["used"]

    def allot(self, *args, env=None):
        return subprocess.run([ALLOT, *args], env={**self.env, **(env or {})}, text=True,
                              capture_output=True, timeout=LONG, stdin=subprocess.DEVNULL,
                              check=False)

    def must(self, *args):
        done = self.allot(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def guest(self, *what, options=("--swappable",), env=None, name="t", fds=()):
        process = subprocess.Popen([ALLOT, "run", "--name", name, *options, "--", GUEST, *what],
                                   env={**self.env, **(env or {})}, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   pass_fds=fds)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n",
                         None if process.poll() is None else process.stderr.read())
        return process

    def good(self, process):
        """It is told to look at what it holds, and finds all of it."""
        out, err = process.communicate("\n", timeout=LONG)
        self.assertEqual((out, process.returncode), ("good\n", 0), err)

    def until(self, what):
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            if what():
                return
            time.sleep(0.1)
        self.fail(str(self.tenant()))

    def comes_to(self, want):
        """On the device, and in what is charged."""
        self.until(lambda: (self.used(), self.device()["used_bytes"]) == (want, want))

    def charged(self, want):
        self.assertEqual(self.used(), want)
        self.assertEqual(self.device()["used_bytes"], want)

    def told(self, guest):
        """It goes on, to where it waits again."""
        guest.stdin.write("\n")
        guest.stdin.flush()
        self.assertEqual(guest.stdout.readline(), "ready\n", guest.poll() and guest.stderr.read())

    def tenant(self):
        tenant, = json.loads(self.must("ps", "--json", "t"))["tenants"]
        return tenant

    def device(self):
        device, = self.tenant()["devices"]
        return device

    @staticmethod
    def anonymous(guest):
        """Of what a process has on the host, what is no file's."""
        with open(f"/proc/{guest.pid}/status", encoding="ascii") as status:
            line, = [line for line in status if line.startswith("RssAnon:")]
        return int(line.split()[1]) << 10

    def until_given_back(self, guest, most):
        end = time.monotonic() + 100
        while self.anonymous(guest) > most:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def refused(self, *args, env=None):
        """What it says; the status is that of the reason which it gives."""
        done = self.allot(*args, env=env)
        self.assertEqual(done.returncode, status_of(done.stderr), done.stderr)
        return done.stderr


    @staticmethod
    def host_memory(pid):
        """Where a process has host memory for what leaves, and how much of that."""
        smaps = pathlib.Path(f"/proc/{pid}/smaps").read_text(encoding="ascii")
        return {at: 1024 * int(kib) for at, kib, flags in
                re.findall(r"^(\w+)-\w+ .*(?:\n.*)*?\nRss: +(\d+) kB(?:\n.*)*?\nVmFlags: (.*)",
                           smaps, re.M) if {"dc", "hg"} <= set(flags.split())}


class Rest(Case):
    """A process that makes no call meanwhile."""

    def test_out_and_back(self):
        guest = self.guest("idle")
        held = self.device()["used_bytes"]
        self.assertEqual(self.used(), held)
        self.assertEqual(held, STAYS + IDLE)
        self.assertEqual(self.tenant()["state"], "running")
        self.assertRegex(self.must("suspend", "t"), r"^t: 56 MiB of 1 process left in ")
        device = self.device()
        self.assertEqual(device["used_bytes"], STAYS)
        self.assertEqual(self.used(), STAYS)
        self.assertEqual(device["suspended_bytes"], IDLE)
        tenant = self.tenant()
        self.assertEqual(tenant["state"], "suspended")
        process, = tenant["processes"]
        self.assertEqual(process["state"], "suspended")
        self.assertEqual(process["devices"][0]["suspended_bytes"], IDLE)
        self.assertRegex(self.must("ps", "t"), r"t +suspended +0 .* 56 MiB")
        self.assertRegex(self.must("resume", "t"), r"^t: 56 MiB of 1 process came back in ")
        self.assertEqual(self.used(), held)
        self.assertEqual(self.device()["used_bytes"], held)
        self.assertEqual(self.device()["suspended_bytes"], 0)
        self.assertEqual(self.tenant()["state"], "running")
        self.good(guest)

    def test_takes_no_more_of_the_host(self):
        """... than what left: buffers for the copies are there for these alone."""
        guest = self.guest("idle")
        for _ in range(2):
            self.must("suspend", "t")
            self.assertLess(sum(self.host_memory(guest.pid).values()), IDLE + 2 * MIB)
            self.must("resume", "t")
        self.good(guest)

    def test_launch_is_held(self):
        """For a debt of half a minute: it waits outside of the gate, and not for each other."""
        guest = self.guest("held launches", options=("--swappable", "--compute", "1"))
        self.until(lambda: (self.device()["compute"]["debt_ns"] or 0) > 0)
        for _ in range(3):
            self.must("suspend", "t", "--timeout", "5s")
            self.assertEqual(self.used(), STAYS)
            self.must("resume", "t")
        self.good(guest)

    def test_waits_while_it_is_away(self):
        guest = self.guest("idle")
        self.must("suspend", "t")
        guest.stdin.write("\n")
        guest.stdin.flush()
        with self.assertRaises(subprocess.TimeoutExpired):
            guest.wait(0.5)
        self.assertEqual(self.used(), STAYS)
        self.must("resume", "t")
        self.good(guest)

    def test_two_processes(self):
        guests = [self.guest("idle"), self.guest("idle", options=())]
        self.assertRegex(self.must("suspend", "t"), r"^t: 112 MiB of 2 processes left in ")
        self.assertEqual(self.used(), 2 * STAYS)
        late = subprocess.Popen([ALLOT, "run", "--name", "t", "--", GUEST, "idle"], env=self.env,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, late)
        with self.assertRaises(subprocess.TimeoutExpired):
            late.wait(0.5)
        self.must("resume", "t")
        self.assertEqual(late.stdout.readline(), "ready\n")
        self.good(late)
        for guest in guests:
            self.good(guest)

    def test_quota_was_lowered(self):
        guest = self.guest("idle", options=("--swappable", "--memory", "1GiB"))
        self.must("suspend", "t")
        self.must("set", "t", "--memory", "60MiB")
        self.assertIn("the quota of tenant \"t\" has no room for its 56 MiB; raise it",
                      self.refused("resume", "t"))
        self.assertEqual(self.used(), STAYS)
        self.must("set", "t", "--memory", "1GiB")
        self.must("resume", "t")
        self.good(guest)

    def test_twice_is_once(self):
        guest = self.guest("idle")
        self.must("suspend", "t")
        self.assertIn("is suspended already", self.allot("suspend", "t").stderr)
        self.assertEqual(self.used(), STAYS)
        self.must("resume", "t")
        self.assertIn("is not suspended", self.allot("resume", "t").stderr)
        self.good(guest)


class Kept(Case):
    """Host memory that is kept for the next way out."""

    def test_not_given_back_at_the_end(self):
        """The driver may be at its end, so it is told nothing of host memory any more."""
        guest = self.guest("idle, and lingers")
        self.must("suspend", "t")
        self.must("resume", "t")
        guest.stdin.write("\n")
        guest.stdin.flush()
        self.assertEqual([guest.stdout.readline() for _ in range(2)], ["good\n", "ready\n"])
        self.assertGreater(self.anonymous(guest), IDLE)
        self.must("resume", "t")
        time.sleep(0.5)
        self.assertGreater(self.anonymous(guest), IDLE)
        out, err = guest.communicate("\n", timeout=LONG)
        self.assertEqual((out, guest.returncode), ("", 0), err)

    def test_given_back_in_a_capture(self):
        """What the program captures meanwhile is not spoiled by it."""
        guest = self.guest("capture behind", options=("--swappable", "--look", "off"))
        before = self.anonymous(guest)
        self.must("suspend", "t")
        self.assertGreater(self.anonymous(guest), before + 60 * MIB)
        self.must("resume", "t")
        self.told(guest)
        self.must("resume", "t")
        self.until_given_back(guest, before + 30 * MIB)
        self.good(guest)


class Cgroup(Case):
    """Its memory cgroup allows so much, as a process finds it: the kernel would end who takes more."""

    def setUp(self):
        super().setUp()
        done = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/sys/fs/cgroup"],
                              capture_output=True, check=False)
        with open("/proc/self/cgroup", encoding="ascii") as groups:
            if done.returncode or "0::/" not in groups.read():
                self.skipTest("nothing can be mounted here, or there are no cgroups of version 2")

    def limited(self, most):
        files = "/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)"
        script = (f"mount -t tmpfs none /sys/fs/cgroup && mkdir -p {files} && "
                  f"echo {most} >{files}/memory.max && echo 0 >{files}/memory.current && exec \"$@\"")
        process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script, "-", ALLOT, "run", "--name",
                                    "t", "--swappable", "--", GUEST, "idle, large"], env=self.env,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_content_and_buffers(self):
        guest = self.limited(400 * MIB)
        before = self.anonymous(guest)
        for _ in range(2):
            self.must("suspend", "t")
            self.assertLess(self.anonymous(guest) - before, 360 * MIB)
            self.must("resume", "t")
        self.good(guest)

    def test_no_room_for_buffers(self):
        guest = self.limited(300 * MIB)
        self.assertIn("memory cgroup does not allow it", self.refused("suspend", "t"))
        self.good(guest)

    def test_two_processes(self):
        """One of them has room in it, and both do not."""
        guests = [self.limited(600 * MIB) for _ in range(2)]
        self.assertIn("memory cgroup does not allow it", self.refused("suspend", "t"))
        self.assertEqual(self.used(), 2 * (STAYS + LARGE))
        self.good(guests.pop())
        self.must("suspend", "t")
        self.must("resume", "t")
        self.good(guests.pop())

    def test_room_for_two(self):
        guests = [self.limited(800 * MIB) for _ in range(2)]
        for _ in range(3):
            self.must("suspend", "t")
            self.must("resume", "t")
        for guest in guests:
            self.good(guest)


class Spare(Case):
    """What is freed may be kept for the next allocation, charged; until others could want it."""

    def test_spare(self):
        guest = self.guest("spare", options=("--swappable", "--memory", "200MiB"))
        self.charged(STAYS)  # with the context that it was of
        self.told(guest)
        self.charged(STAYS + 66 * MIB)
        self.must("suspend", "t")
        self.charged(STAYS)
        self.must("resume", "t")
        self.charged(STAYS)
        self.told(guest)
        for _ in range(10):
            self.must("suspend", "t", "--timeout", "60s")
            self.charged(STAYS)
            self.must("resume", "t")
        self.told(guest)
        self.charged(STAYS + 64 * MIB)

    # What a process has that keeps all that it may.
    KEEPS = STAYS + 66 * MIB

    def keeps(self, *options, env=None):
        return self.guest("keep", options=options, env=env)

    def takes(self, what, mib, env=None):
        return self.guest(what, str(mib), options=(), env=env)

    def refused(self, what, mib, env=None):
        with self.assertRaises(AssertionError):
            self.takes(what, mib, env)

    def test_others_have_it(self):
        """Who has room only without what is spare is not refused, whoever comes first."""
        guest = self.keeps("--swappable", "--memory", "200MiB")
        for what in "take", "take array":
            self.charged(self.KEEPS)
            other = self.takes(what, 130)
            self.charged(2 * STAYS + 130 * MIB)
            self.end(other)
            self.told(guest)

    def fill(self, left):
        """By another tenant, so that the quota of ours leaves room for what the device has not."""
        self.guest("take", str(2048 - 18 - left), name="u", options=())
        return self.used()

    def test_device_is_full(self):
        held = self.fill(212)
        guest = self.keeps("--swappable", "--memory", "260MiB")
        for what in "take", "take array":
            self.assertEqual(self.used(), held + self.KEEPS)
            other = self.takes(what, 130)
            self.assertEqual(self.used(), held + 2 * STAYS + 130 * MIB)
            self.end(other)
            self.told(guest)

    def test_device_is_full_for_code(self):
        held = self.fill(106)
        other = self.guest("load", options=("--swappable", "--memory", "260MiB"))
        self.keeps()
        self.told(other)
        self.assertEqual(self.used(), held + 2 * STAYS + 8 * MIB)

    def test_code_has_it(self):
        """Which is there before it is charged."""
        other = self.guest("load", options=("--swappable", "--memory", "103MiB"))
        self.keeps()
        self.charged(STAYS + self.KEEPS)
        self.told(other)
        self.charged(2 * STAYS + 8 * MIB)

    def test_both_keep(self):
        guest = self.keeps("--swappable", "--memory", "200MiB")
        other = self.keeps()
        self.told(guest)
        self.told(other)
        self.charged(2 * self.KEEPS)
        self.takes("take", 140)
        self.charged(3 * STAYS + 140 * MIB)

    def test_crowd(self):
        """Together they have room for what they hold, and for nothing that any of them keeps."""
        quota = 6 * (STAYS + 60 * MIB)
        crowd = [self.guest("crowd", "60", options=() if i else ("--swappable", "--memory", str(quota)))
                 for i in range(6)]
        for guest in crowd:
            guest.stdin.write("\n")
            guest.stdin.flush()
        for guest in crowd:
            self.assertEqual(guest.stdout.readline(), "ready\n")

    def test_killed(self):
        """Who keeps, or asks, just when it has said so."""
        guest = self.keeps("--swappable", "--memory", "200MiB")
        self.refused("take", 130, env={"ALLOT_FAULT": "SPARE_ASKED"})
        self.told(guest)
        self.charged(self.KEEPS)
        with self.assertRaises(AssertionError):
            self.keeps(env={"ALLOT_FAULT": "SPARE_KEPT"})
        self.takes("take", 130)
        self.charged(2 * STAYS + 130 * MIB)

    def test_stopped(self):
        """It gives up nothing: who asks is refused in the end, and has it when that one goes on."""
        guest = self.keeps("--swappable", "--memory", "200MiB")
        guest.send_signal(signal.SIGSTOP)
        self.refused("take", 130)
        guest.send_signal(signal.SIGCONT)
        self.takes("take", 130)
        self.charged(2 * STAYS + 130 * MIB)


class Mappings(Case):
    """What a program maps by itself: at the same addresses, by the same handles, as it may."""

    BYTES = 8 * 4 * MIB

    def test_out_and_back(self):
        guest = self.guest("mappings")
        held = self.used()
        self.assertEqual(held, STAYS + self.BYTES)
        for _ in range(3):
            self.assertRegex(self.must("suspend", "t"), r"^t: 32 MiB of 1 process left in ")
            self.assertEqual(self.used(), STAYS)
            self.assertEqual(self.device()["suspended_bytes"], self.BYTES)
            self.must("resume", "t")
            self.assertEqual(self.used(), held)
            self.assertEqual(self.device()["used_bytes"], held)
        self.told(guest)
        self.charged(STAYS)
        self.good(guest)


class Sharing(Case):
    LENT = (4 + 2) * MIB

    def lend(self, seed=0, **more):
        return self.guest("lend", self.tmp + "/handles", str(seed), **more)

    def borrow(self, seed=0, **more):
        return self.guest("borrow", self.tmp + "/handles", str(seed), **more)


class Shared(Sharing):
    """What processes of a tenant share by cuIpcGetMemHandle, charged once."""

    def test_shared(self):
        lender = self.lend(9)
        self.charged(STAYS + self.LENT)
        borrower = self.borrow(9)
        self.charged(2 * STAYS + self.LENT)
        self.good(borrower)
        self.charged(STAYS + self.LENT)
        self.good(lender)

    def test_of_a_tenant_of_its_own(self):
        lender = self.lend()
        foreign = self.guest("borrow nothing", self.tmp + "/handles", name="u")
        self.good(foreign)
        self.good(lender)

    def test_exporter_ends_first(self):
        """What is open stays, charged to who has it; a name of it is good for nothing."""
        lender, late = self.lend(), self.guest("borrow nothing", self.tmp + "/handles")
        borrower = self.borrow(3)
        self.good(lender)
        self.charged(2 * STAYS + self.LENT)
        self.good(late)
        said = self.refused("suspend", "t")
        self.assertRegex(said, "has imported memory .2 times. of another tenant, of another API, or "
                               "of a process that ended or freed it, which cannot leave")
        self.good(borrower)

    def test_exporter_is_killed(self):
        lender, late = self.lend(), self.guest("borrow nothing", self.tmp + "/handles")
        borrower = self.borrow(3)
        lender.kill()
        lender.wait()
        self.charged(2 * STAYS + self.LENT)
        self.good(late)
        self.good(borrower)

    def test_child_of_the_exporter(self):
        """It has the socket, and nothing to answer with."""
        lender = self.lend(env={"SWAP_GUEST_FORKS": "1"})
        late = self.guest("borrow nothing", self.tmp + "/handles")
        begin = time.monotonic()
        lender.kill()
        self.good(late)
        self.assertLess(time.monotonic() - begin, 4)


class SharedAway(Sharing):
    """The same, out and back: it leaves once, and is shared again."""

    def test_out_and_back(self):
        lender, borrowers = self.lend(7), [self.borrow(), self.borrow(7)]
        for _ in range(3):
            self.assertRegex(self.must("suspend", "t"), r"^t: 6 MiB of 1 process left in ")
            self.charged(3 * STAYS)
            self.must("resume", "t")
            self.charged(3 * STAYS + self.LENT)
        for process in borrowers + [lender]:
            self.good(process)

    def test_kills_of_an_importer(self):
        # It asks 16 times for what there is not, and for two pieces: then, whether they are copied.
        for point in ("SWAP_SHUT", "SWAP_COPIED", "SWAP_OUT", "SWAP_IN", "SHARE_ASKED:19",
                      "SHARE_ASKED:21"):
            lender, other = self.lend(7), self.borrow(7)
            victim = self.borrow(env={"ALLOT_FAULT": f"GUEST_{point}"})
            self.must("suspend", "t")
            self.must("resume", "t")
            self.assertEqual(victim.wait(100), -signal.SIGKILL, point)
            self.charged(2 * STAYS + self.LENT)
            self.good(other)
            self.good(lender)
            os.unlink(self.tmp + "/handles")

    def outlives(self, process):
        """Whether the tenant is there again, without who shared something. If not it says why."""
        done = self.allot("suspend", "t")
        if not done.returncode:
            done = self.allot("resume", "t")
        if not done.returncode or self.tenant()["state"] == "running":
            self.good(process)
            return True
        self.assertRegex(done.stderr, "shares memory of another process, which ended or could not")
        self.assertEqual(self.tenant()["state"], "suspended")
        self.end(process)
        return False

    def test_kills_of_the_exporter(self):
        """Until it has copied, the others have lost nothing; behind that, they are told."""
        for point, outlived in (("SWAP_SHUT", True), ("SWAP_COPIED", True), ("SWAP_OUT", None),
                                ("SWAP_HALF_IN", False), ("SHARE_SERVED:3", None)):
            lender = self.lend(7, env={"ALLOT_FAULT": f"GUEST_{point}"})
            other = self.borrow(7)
            self.assertIn(self.outlives(other), (True, False) if outlived is None else (outlived,),
                          point)
            self.assertEqual(lender.wait(100), -signal.SIGKILL, point)
            os.unlink(self.tmp + "/handles")

    def test_exporter_that_borrows(self):
        """It could not come back, for want of another one's: who borrows from it is told, also if it
        had all already."""
        first = self.lend()
        between = self.guest("relay", self.tmp + "/handles", self.tmp + "/relayed")
        last = self.guest("borrow", self.tmp + "/relayed", "0")
        self.must("suspend", "t")
        first.send_signal(signal.SIGSTOP)
        resume = subprocess.Popen([ALLOT, "resume", "t"], env=self.env, stderr=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, text=True)
        self.addCleanup(self.end, resume)
        for _ in range(1000):
            if self.used() > 3 * STAYS:
                break
            time.sleep(0.01)
        self.assertEqual(self.used(), 3 * STAYS + self.LENT)
        time.sleep(0.3)  # the last one has asked for it
        first.kill()
        _, said = resume.communicate(timeout=LONG)
        self.assertIn('tenant "t" stays suspended', said)
        self.assertEqual({p["state"] for p in self.tenant()["processes"]}, {"suspended"})
        self.assertEqual(self.used(), 2 * STAYS)
        for process in (between, last):
            self.end(process)

    def test_no_room_for_the_exporter(self):
        lender = self.lend(7, options=("--swappable", "--memory", "1GiB"))
        borrower = self.borrow(7)
        self.must("suspend", "t")
        self.must("set", "t", "--memory", "40MiB")
        said = self.refused("resume", "t")
        self.assertIn("has no room for its 6 MiB", said)
        self.assertIn("shares memory of another process", said)
        self.must("set", "t", "--memory", "1GiB")
        self.must("resume", "t")
        self.good(borrower)
        self.good(lender)

    def test_refused_behind_the_copy(self):
        """Back for all, and nobody has lost what is shared."""
        lender, borrower = self.lend(7), self.borrow(7)
        done = self.allot("suspend", "t", env={"ALLOT_FAULT": "SWAP_ASKED:2"})
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.must("resume", "t")
        self.good(borrower)
        self.good(lender)


class SharedHandles(Sharing):
    """By cuMemExportToShareableHandle: what a descriptor names is as what a legacy handle names."""

    LENT = 2 * 4 * MIB

    def setUp(self):
        super().setUp()
        self.box = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in self.box:
            self.addCleanup(end.close)

    def lend(self, seed=0, **more):
        return self.posted(0, "lend handle", str(seed), **more)

    def borrow(self, seed=0, **more):
        return self.posted(1, "borrow handle", str(seed), **more)

    def posted(self, end, *what, env=None, **more):
        fd = self.box[end].fileno()
        return self.guest(*what, env={"SWAP_GUEST_SOCKET": str(fd), **(env or {})}, fds=(fd,), **more)

    def test_out_and_back(self):
        lender, borrowers = self.lend(7), [self.borrow(), self.borrow(7)]
        for _ in range(3):
            self.charged(3 * STAYS + self.LENT)
            self.assertRegex(self.must("suspend", "t"), r"^t: 8 MiB of 1 process left in ")
            self.charged(3 * STAYS)
            self.must("resume", "t")
        for process in borrowers:
            self.good(process)
        self.charged(STAYS + self.LENT)
        self.good(lender)

    def test_exporter_ends_first(self):
        lender, borrower = self.lend(), self.borrow(3)
        self.good(lender)
        self.charged(STAYS + self.LENT)
        self.assertIn("of a process that ended or freed it", self.refused("suspend", "t"))
        self.good(borrower)

    def test_contexts(self):
        lender, borrower = self.lend(7), self.borrow(7)
        self.must("suspend", "--contexts", "t")
        self.must("resume", "t")
        self.good(borrower)
        self.good(lender)


class Pools(Case):
    """Stream-ordered allocation: what pools hold leaves, and they are what programs expect."""

    def out_and_back(self, mib):
        held = self.used()
        self.assertEqual(held, STAYS + mib * MIB)
        self.assertEqual(self.device()["used_bytes"], held)
        self.assertEqual(self.device()["used_by_category"]["pool"], mib * MIB)
        for _ in range(3):
            self.assertRegex(self.must("suspend", "t"), f"^t: {mib} MiB of 1 process left in ")
            self.assertEqual(self.used(), STAYS)
            self.assertEqual(self.device()["suspended_bytes"], mib * MIB)
            self.must("resume", "t")
            self.assertEqual(self.device()["used_by_category"]["pool"], mib * MIB)
            self.assertEqual(self.used(), held)
            self.assertEqual(self.device()["used_bytes"], held)

    def test_out_and_back(self):
        guest = self.guest("pools")
        self.out_and_back(32 + 32 + 64)
        self.told(guest)
        self.out_and_back(32)  # of a pool that is destroyed
        self.told(guest)
        self.assertEqual(self.used(), STAYS)
        self.good(guest)



class PoolsFull(Case):
    MEMORY = "300MiB"

    def full(self, *options):
        guest = self.guest("pools full", options=("--swappable", *options))
        self.assertRegex(self.must("suspend", "t"), "^t: 160 MiB of 1 process left in ")
        self.assertEqual(self.used(), STAYS)
        self.must("resume", "t")
        self.good(guest)

    def test_device_is_full(self):
        self.full()

    def test_quota_is_full(self):
        self.full("--memory", "290MiB")


class PoolsOfTwo(Case):
    GPUS = "2"

    def test_reached_by_another_device(self):
        guest = self.guest("pools of two")
        held = self.all_used()
        for _ in range(2):
            self.assertRegex(self.must("suspend", "t"), r"^t: 96 MiB of 1 process left in ")
            self.must("resume", "t")
            self.assertEqual(self.all_used(), held)
        self.good(guest)


class Crowd(Case):
    MEMORY = "220MiB"

    def test_others_get_the_memory(self):
        """Two tenants that do not fit on the device together; the first stays away for want of
        room until the other one leaves."""
        guests = [self.guest("idle") for _ in range(2)]
        self.must("suspend", "t")
        more = [self.guest("idle", name="u") for _ in range(2)]
        said = self.refused("resume", "t")
        self.assertIn("the device has no room for its 56 MiB; end or suspend another", said)
        self.assertIn('tenant "t" stays suspended: all of it is in host memory', said)
        self.assertEqual(self.tenant()["state"], "suspended")
        self.must("suspend", "u")
        self.must("resume", "t")
        for guest in guests:
            self.good(guest)
        self.must("resume", "u")
        for guest in more:
            self.good(guest)


class Taken(Case):
    """One process has left when another one finds no host memory after all, and the device's is
    somebody else's by then: nobody of the tenant goes on without the others."""

    MEMORY = "220MiB"

    def test_on_the_way_back(self):
        guest = self.guest("idle")
        other = self.guest("idle", options=())
        with open(f"/proc/{other.pid}/statm", encoding="ascii") as statm:
            mapped = int(statm.read().split()[0]) * resource.getpagesize()
        resource.prlimit(other.pid, resource.RLIMIT_AS, (mapped + 8 * MIB, resource.RLIM_INFINITY))
        taker = self.guest("grab", "300", name="u", options=())
        said = self.refused("suspend", "t")
        self.assertIn("there is not enough host memory", said)
        resource.prlimit(other.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        states = {p["state"] for p in self.tenant()["processes"]}
        if "stays suspended" in said:
            self.assertNotIn("running", states)
            self.end(taker)
            self.must("resume", "t")
        else:
            self.assertEqual(states, {"running"})
        self.good(guest)
        self.good(other)


class Two(Case):
    GPUS = "2"

    def test_devices(self):
        guest = self.guest("devices")
        held = self.all_used()
        self.assertEqual(sum(held), sum(d["used_bytes"] for d in self.tenant()["devices"]))
        for _ in range(3):
            self.assertRegex(self.must("suspend", "t"), r"^t: 34 MiB of 1 process left in ")
            self.assertEqual(sum(held) - sum(self.all_used()), 34 * MIB)
            self.must("resume", "t")
            self.assertEqual(self.all_used(), held)
        self.good(guest)


class Quota(Case):
    def test_full(self):
        """All of a quota, in granules; out, and back into just that."""
        guest = self.guest("full", options=("--swappable", "--memory", "100MiB"))
        held = self.used()
        self.assertEqual(held, 100 * MIB)
        self.assertEqual(self.device()["used_bytes"], held)
        self.must("suspend", "t")
        self.assertEqual(self.used(), STAYS)
        self.must("resume", "t")
        self.assertEqual(self.used(), held)
        self.good(guest)

    def test_full_and_back_at_once(self):
        """While NVML shows what left, for some time more."""
        self.env["ALLOT_SIM_FIGURE_LATE_US"] = "300000"
        guest = self.guest("full", options=("--swappable", "--memory", "100MiB"))
        for _ in range(3):
            self.must("suspend", "t")
            self.must("resume", "t")
        self.good(guest)


class Refusals(Case):
    def refuse(self, what, why, *options):
        guest = self.guest(what)
        before = self.used()
        said = self.refused("suspend", "t", *options)
        self.assertRegex(said, why)
        self.assertIn('tenant "t" goes on as it was', said)
        self.assertEqual(self.used(), before)
        self.assertEqual(self.tenant()["state"], "running")
        self.good(guest)

    def test_array(self):
        self.refuse("array", r"process \d+ \(.*\) holds 1 array \(cudaMallocArray, textures\), "
                             r"which cannot leave")

    def test_managed(self):
        self.refuse("managed", "holds 4 MiB of managed memory")

    def test_pool(self):
        self.refuse("pool", "of memory in use from stream-ordered pools")

    def test_graph(self):
        self.refuse("graph", "MiB of memory that graphs")

    def test_capture(self):
        self.refuse("capture", "still has work on the device, or captures a graph", "--timeout",
                    "300ms")

    def test_work(self):
        self.refuse("work", "still has work on the device, or captures a graph", "--timeout",
                    "300ms")

    def test_host_memory(self):
        self.refuse("idle", "it holds 56 MiB, and --host-memory is 20 MiB; nothing was moved",
                    "--host-memory", "20MiB")

    def test_what_may_stay(self):
        for what in ("empty pool", "freed in capture", "questions"):
            guest = self.guest(what)
            self.must("suspend", "t")
            self.assertEqual(self.used(), STAYS, what)
            self.must("resume", "t")
            self.good(guest)

    def test_nobody_to_move(self):
        """A tenant that has no process yet: what is said counts nothing."""
        self.must("run", "--print-env", "--name", "t", "--swappable")
        said = self.must("suspend", "t")
        self.assertRegex(said, r"^t: suspended; none of its processes .*\"allot resume t\"\n$")
        self.assertEqual(self.must("resume", "t"),
                         "t: resumed; none of its processes had device memory to bring back\n")

    def test_not_swappable(self):
        guest = self.guest("idle", options=())
        self.assertIn('start them with "allot run --swappable"', self.refused("suspend", "t"))
        self.assertIn("not swappable (asked: swappable)",
                      self.refused("run", "--name", "t", "--swappable", "--", "true"))
        self.good(guest)

    def test_nobody(self):
        self.assertIn('there is no tenant "t"', self.refused("suspend", "t"))
        self.assertIn('there is no tenant "t"', self.refused("resume", "t"))


class Kills(Case):
    """kill -9 at each step, of who asks and of a process that is asked."""

    def settles(self, state):
        for _ in range(200):
            tenant = self.tenant()
            if tenant["state"] == state and {p["state"] for p in tenant["processes"]} == {state}:
                return
            time.sleep(0.1)
        self.fail(f"{tenant['state']}, {[p['state'] for p in tenant['processes']]}")

    def test_of_the_command(self):
        """Before it has asked all to leave: they go on. Behind that: they leave."""
        guest = self.guest("idle")
        for passage, state in ((1, "running"), (2, "suspended")):
            done = self.allot("suspend", "t", env={"ALLOT_FAULT": f"SWAP_ASKED:{passage}"})
            self.assertEqual(done.returncode, -signal.SIGKILL)
            self.settles(state)
        for passage, state in ((1, "suspended"), (2, "running")):
            done = self.allot("resume", "t", env={"ALLOT_FAULT": f"SWAP_ASKED:{passage}"})
            self.assertEqual(done.returncode, -signal.SIGKILL)
            self.settles(state)
        self.assertEqual(self.used(), STAYS + IDLE)
        self.good(guest)

    def test_of_a_process(self):
        """The other one is not disturbed, and what the dead one had is nobody's."""
        for point in ("SHUT", "COPIED", "HALF_OUT", "OUT", "HALF_IN", "IN"):
            guest = self.guest("idle")
            victim = self.guest("idle", options=(), env={"ALLOT_FAULT": f"GUEST_SWAP_{point}"})
            self.must("suspend", "t")
            self.must("resume", "t")
            self.assertEqual(victim.wait(100), -signal.SIGKILL, point)
            self.assertEqual(self.used(), STAYS + IDLE, point)
            self.assertEqual(self.device()["used_bytes"], STAYS + IDLE, point)
            self.good(guest)

    def test_of_the_tenant(self):
        guest = self.guest("idle")
        self.must("suspend", "t")
        guest.kill()
        guest.wait()
        self.assertEqual(self.used(), 0)
        self.assertIn('there is no tenant "t"', self.refused("resume", "t"))


if __name__ == "__main__":
    unittest.main()
