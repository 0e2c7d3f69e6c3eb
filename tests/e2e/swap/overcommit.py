# SPDX-License-Identifier: Apache-2.0
"""Tenants whose quotas together exceed the (simulated) device, and which take turns on its memory:
`allot run --overcommit`. Every word that they hold is looked at in each round. What is on the device
is the simulator's own count."""

import contextlib
import ctypes
import fcntl
import mmap
import os
import pathlib
import platform
import re
import select
import signal
import struct
import subprocess
import threading
import time
import unittest
import unittest.mock

import swap
from swap import ALLOT, GUEST, MIB, Case
from taking_turns import Turning

DEVICE = 80
CONTEXT = 4 * MIB
STAYS = CONTEXT + 2 * MIB
QUOTA = "60%"
HOLDS = 33  # MiB: 36 in granules, and with STAYS 42 of a quota of 48

# Linux's, which Python does not name: who has a lock by an open file; and a wake-up of all.
OFD_GETLK, FLOCK = 36, "hh4xqqi4x"
FUTEX, FUTEX_WAKE, ALL = {"x86_64": 202, "aarch64": 98}, 1, (1 << 31) - 1

# A context, and code of so many bytes; prints what was answered.
LOADS = """
import ctypes, sys
cuda, made, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
text = b"allot-sim-module bytes=%d\\n" % int(sys.argv[1])
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not cuda.cuCtxSetCurrent(context)
if int(sys.argv[2]):
    print(cuda.cuLibraryLoadData(ctypes.byref(made), text, None, None, 0, None, None, 0) or
          cuda.cuLibraryGetKernel(ctypes.byref(context), made, b"any") or
          cuda.cuKernelGetFunction(ctypes.byref(made), context))
else:
    print(cuda.cuModuleLoadData(ctypes.byref(made), text))
"""


class Turns(Turning, Case):
    MEMORY, CONTEXT, QUOTA, HOLDS = f"{DEVICE}MiB", CONTEXT, QUOTA, HOLDS

    def starts(self, name, *what, options):
        """It may wait before it is ready."""
        process = subprocess.Popen([swap.ALLOT, "run", "--name", name, *options, "--", GUEST, *what],
                                   env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    def not_overfull(self):
        """The driver would have refused it."""
        self.assertLessEqual(self.used(), DEVICE * MIB)

    def host(self, name):
        """Where its process has host memory for what leaves, and how much of that."""
        pid, = (p["pid"] for p in self.tenants()[name]["processes"])
        return self.host_memory(pid)

    @staticmethod
    def is_stopped(process):
        return os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)[0]

    @staticmethod
    def says(process, seconds):
        return select.select([process.stdout], [], [], seconds)[0]

    def ahead(self, name):
        """So much, while nothing of it is away."""
        return sum(self.host(name).values())


class Load(Turns):
    def test_two(self):
        guests = [self.compute(n, i * 1000, options=("--weight", w)) for i, (n, w) in
                  enumerate(("a1", "b3"))]
        self.changes("ab", 6)
        self.until(lambda: [t["devices"][0]["compute"]["target_permille"]
                            for t in self.tenants().values()] == [250, 750])
        for guest in guests:
            self.good(guest)
        self.assertEqual(self.used(), 0)

    def test_three(self):
        guests = [self.compute(n, i * 1000) for i, n in enumerate("abc")]
        self.changes("abc", 5)
        for guest in guests:
            self.good(guest)
        self.assertEqual(self.used(), 0)

    def test_started_again(self):
        """One that ends and is there again at once, by the same name, is another tenant to who
        decides: it takes turns, and nothing of the one before is waited for."""
        guests = {n: self.compute(n, i * 1000) for i, n in enumerate("ab")}
        for again in range(3):
            guests["c"] = self.compute("c", 5000 + again * 1000)
            self.changes("abc", 1)
            guests["c"].kill()
            guests["c"].wait()
        guests["c"] = self.compute("c", 15000)
        self.changes("abc", 1)
        for guest in guests.values():
            self.good(guest)

    def test_beside_others(self):
        """A fourth that does not overcommit gets all of its quota, at once, and keeps it."""
        guests = [self.serve(n, i * 1000) for i, n in enumerate("ab")]
        fourth = subprocess.Popen([ALLOT, "run", "--name", "d", "--memory", "30MiB", "--", GUEST,
                                   "serve", "14", "7"], env=self.env, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, fourth)
        self.assertEqual(fourth.stdout.readline(), "ready\n",
                         None if fourth.poll() is None else fourth.stderr.read())
        # 80 MiB less 30, two contexts and code: one of them at a time, just so.
        for _ in range(3):
            for guest in guests:
                self.assertEqual(self.ask(guest), "served")
                self.assertEqual(self.ask(fourth), "served")
                self.assertEqual(self.tenants()["d"]["state"], "running")
        for guest in (*guests, fourth):
            self.quit(guest)


class Free(Turns):
    """What is free is what can be had, by one's turn: so much is given, and a granule more is not."""
    GRANULE, STAYS = 2, STAYS // MIB

    def tells_the_truth(self, guest, least=GRANULE):
        for _ in range(3):
            told = int(self.ask(guest, "i"))
            self.assertGreaterEqual(told, least)
            self.assertEqual(self.ask(guest, str(told)), "served", told)
            self.assertEqual(self.ask(guest, str(told + self.GRANULE)), "refused", told)
            self.assertEqual(int(self.ask(guest, "i")), told)

    def test_alone(self):
        guest = self.serve("a", 1, holds=20)
        self.tells_the_truth(guest, 48 - 22 - self.STAYS - self.GRANULE)
        self.quit(guest)

    def test_beside_one_that_is_here(self):
        """... and fills the device, whether it works or not."""
        for what in ("serve", "compute"):
            a = self.serve("a", 1, holds=8)
            b = self.run_one("b", what, "33", "1000")
            self.tells_the_truth(a, 48 - 10 - self.STAYS - self.GRANULE)
            (self.good if what == "compute" else self.quit)(b)
            self.quit(a)

    def test_away(self):
        """What is away is held, too."""
        a = self.serve("a", 1)
        told = int(self.ask(a, "i"))
        b = self.serve("b", 1000)
        self.assertEqual(self.places()["a"], "suspended")
        self.assertEqual(int(self.ask(a, "i")), told)
        self.assertEqual(self.places()["a"], "suspended")
        self.tells_the_truth(a, told)
        self.tells_the_truth(b)
        for guest in (a, b):
            self.quit(guest)

    def test_less_than_the_quota(self):
        """A device has no more than others leave, which is less than the quota says; and that others
        have what they were promised."""
        a, b = self.serve("a", 1, holds=8, quota="100%"), self.serve("b", 1000)
        self.tells_the_truth(a)
        c = self.guest("serve", "8", "7", name="c", options=("--memory", "30MiB"))
        told = int(self.ask(a, "i"))
        self.assertLessEqual(told, DEVICE - 30 - 10 - 2 * self.STAYS)
        self.tells_the_truth(a, told)
        self.assertGreaterEqual(int(self.ask(c, "i")), 30 - 10 - self.STAYS - self.GRANULE)
        self.tells_the_truth(c)
        for guest in (a, b, c):
            self.quit(guest)


    def test_host_memory_of_another(self):
        """What another one holds is free only if the host may take that, in its own figure or not."""
        a = self.serve("a", 1, holds=8, options=("--host-memory", "4MiB"))
        for host, is_free in (("4MiB", False), ("64MiB", True)):
            b = self.serve("b", 1000, options=("--host-memory", host))
            left = 48 - 10 - self.STAYS
            told = int(self.ask(a, "i"))
            if is_free:
                self.assertGreaterEqual(told, left - self.GRANULE)
            else:
                self.assertLessEqual(told, DEVICE - 10 - 36 - 2 * self.STAYS)
            self.tells_the_truth(a)
            self.assertEqual(self.ask(b), "served")
            self.quit(b)
        self.quit(a)


class Servers(Turns):
    def test_comes_back_by_itself(self):
        guests = [self.serve(n, i * 1000) for i, n in enumerate("abcd")]
        self.assertGreater(4 * HOLDS, DEVICE)
        for turn in range(12):
            self.assertEqual(self.ask(guests[turn * 7 % 4]), "served", turn)
        for guest in guests:
            self.quit(guest)

    def test_quota_was_lowered(self):
        """It comes back to what it held, as one that never left goes on with that."""
        a, b = self.serve("a", 1), self.serve("b", 1000)
        self.assertEqual(self.ask(a), "served")
        self.assertEqual(self.ask(b), "served")
        self.must("set", "a", "--memory", "20MiB")
        a.stdin.write("\n")
        a.stdin.flush()
        self.assertTrue(self.says(a, 20))
        self.assertEqual(a.stdout.readline(), "served\n")
        self.assertEqual(self.ask(a, "1"), "refused")
        self.assertEqual(self.ask(b), "served")
        for guest in (a, b):
            self.quit(guest)

    def test_after_a_suspend(self):
        guest = self.serve("a", 5)
        self.must("suspend", "a")
        self.assertEqual(self.used(), STAYS)
        self.assertEqual(self.places(), {"a": "suspended"})
        self.assertEqual(self.ask(guest), "served")
        self.assertEqual(self.places(), {"a": "running"})
        self.must("suspend", "a")
        self.must("resume", "a")
        self.quit(guest)

    def test_resumed_where_others_are(self):
        """They leave for it, as for its next launch; if they cannot, it is said who is in the way."""
        a, b = self.serve("a", 5), self.serve("b", 1000)
        self.assertEqual(self.places(), {"a": "suspended", "b": "running"})
        self.assertRegex(self.must("resume", "a"), r"^a: \d+ MiB came back in")
        self.assertEqual(self.places(), {"a": "running", "b": "suspended"})
        self.must("suspend", "a")
        c = self.guest("serve", "40", "9", name="c", options=("--memory", "60MiB"))
        said = self.refused("resume", "a", "--timeout", "300ms")
        self.assertIn('tenant "a" stays suspended: others', said)
        self.quit(c)
        for guest in (a, b):
            self.assertEqual(self.ask(guest), "served")
            self.quit(guest)

    def test_suspend_that_wakes_nobody(self):
        """Who suspends it once more is killed when that is written, and before anybody was woken."""
        guest = self.serve("a", 5)
        self.must("suspend", "a")
        done = self.allot("suspend", "a", env={"ALLOT_FAULT": "SWAP_ASKED"})
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.assertEqual(self.ask(guest), "served")
        self.quit(guest)

    def test_suspend_of_a_part(self):
        """What is there still follows, if the host has room for all of it."""
        a, b = self.serve("a", 1), self.serve("b", 1000)
        there = self.tenants()["a"]["swap"]
        self.assertGreater(there["resident_bytes"], 0)
        self.assertIn("--host-memory is 30 MiB",
                      self.refused("suspend", "a", "--host-memory", "30MiB"))
        self.assertEqual(self.tenants()["a"]["swap"], there)
        self.assertRegex(self.must("suspend", "a"), "^a: 36 MiB of 1 process left in ")
        self.assertEqual(self.tenants()["a"]["swap"]["resident_bytes"], 0)
        for guest in (a, b):
            self.quit(guest)

    def serve_pooled(self, name, seed):
        """In stream-ordered pools, of which two do not fit."""
        return self.guest("serve pooled", "40", str(seed), name=name,
                          options=("--overcommit", "--memory", "80%"))

    def test_pools(self):
        """Pools' memory leaves for others, too."""
        guests = [self.serve_pooled(n, i * 1000) for i, n in enumerate("ab")]
        for guest in (*guests, *guests):
            self.assertEqual(self.ask(guest), "served")
        for guest in guests:
            self.quit(guest)

    def test_suspend_of_a_part_of_pools(self):
        a, b = self.serve_pooled("a", 1), self.serve("b", 1000)
        there = self.tenants()["a"]["swap"]
        self.assertGreater(there["host_bytes"], 0)
        self.assertGreater(there["resident_bytes"], 2 * MIB)
        self.assertIn("--host-memory is 40 MiB",
                      self.refused("suspend", "a", "--host-memory", "40MiB"))
        self.assertEqual(self.tenants()["a"]["swap"], there)
        self.assertRegex(self.must("suspend", "a"), "^a: 52 MiB of 1 process left in ")
        for guest in (a, b):
            self.quit(guest)

    def test_is_shown(self):
        a, b = self.serve("a", 1), self.serve("b", 1000, options=("--host-memory", "64MiB"))
        a_, b_ = self.tenants()["a"], self.tenants()["b"]
        self.assertEqual((a_["overcommit"], a_["host_memory_bytes"], b_["host_memory_bytes"]),
                         (True, None, 64 * MIB))
        # As much has left as the other one needs.
        left, there = a_["swap"]["host_bytes"], a_["swap"]["resident_bytes"]
        self.assertEqual((left + there, a_["swap"]["waiting"]), (b_["swap"]["resident_bytes"], 0))
        self.assertGreater(there, 0)
        self.assertGreaterEqual(left, 2 * (STAYS + 36 * MIB) - DEVICE * MIB)
        self.assertGreater(a_["swap"]["out_ns"], 0)
        self.assertEqual(a_["swap"]["back_ns"], a_["swap"]["out_ns"])  # until it was back
        self.assertIsNone(b_["swap"]["back_ns"])
        # The other one runs as soon as it has room, which is a moment before this one says that it is done.
        self.until(lambda: re.search(r"a +turns +suspended +\d+ MiB +\d+ MiB +[\d.]+ m?s +[\d.]+ m?s",
                                     self.must("ps")))
        self.assertRegex(self.must("ps"), r"b +turns +running +36 MiB +0 +- +-")
        self.assertRegex(self.must("top", "--once"), r" AWAY\n(.*\n)*  a .* \d+ MiB\n")
        self.assertRegex(self.must("top", "--once", "a"), r"\naway    \d+ MiB, back in [\d.]+ ")
        for guest in (a, b):
            self.quit(guest)

    def test_who_leaves_next_has_host_memory(self):
        """Ahead of time, for as much as would leave, and for as long as somebody is away."""
        a, b = self.serve("a", 1), self.serve("b", 1000)
        away = self.tenants()["a"]["swap"]["host_bytes"]
        self.assertGreater(away, 0)
        self.until(lambda: self.ahead("b") >= away)
        self.assertEqual(self.places(), {"a": "suspended", "b": "running"})
        self.assertEqual(self.ask(b), "served")
        self.assertEqual(self.ask(a), "served")
        self.until(lambda: self.ahead("a") >= away)
        # Nobody is away any more.
        b.kill()
        self.until(lambda: not self.ahead("a"), 20)
        self.assertEqual(self.ask(a), "served")
        self.quit(a)

    def test_ahead_within_host_memory(self):
        """What may never leave takes no more of the host than it would be allowed to."""
        a, b = self.serve("a", 1), self.serve("b", 1000, options=("--host-memory", "20MiB"))
        self.assertEqual(self.places(), {"a": "suspended", "b": "running"})
        time.sleep(0.5)
        self.assertLessEqual(self.ahead("b"), 20 * MIB)
        for guest in (a, b):
            self.quit(guest)

    def test_ahead_of_one_that_grows(self):
        """What was found is not given back for each few MiB more."""
        a, b = self.serve("a", 1), self.serve("b", 1000, quota="60MiB")
        self.assertEqual(self.places(), {"a": "suspended", "b": "running"})
        places = set()
        for _ in range(5):
            self.until(lambda: self.ahead("b") > 0)
            places |= set(self.host("b"))
            self.assertEqual(self.ask(b, "2k"), "served")
            time.sleep(1)
        self.assertLessEqual(len(places), 2)
        for guest in (a, b):
            self.quit(guest)

    def test_an_idle_one_stays_where_there_is_room(self):
        guests = [self.serve(n, i * 1000, holds=9) for i, n in enumerate("ab")]
        for _ in range(5):
            for guest in guests:
                self.assertEqual(self.ask(guest), "served")
            self.assertEqual(self.places(), {"a": "running", "b": "running"})
        for guest in guests:
            self.quit(guest)

    def test_more(self):
        """An allocation within the quota finds the device full: another one leaves for it."""
        a, b = self.serve("a", 1, holds=20), self.serve("b", 1000)
        self.assertEqual(self.places(), {"a": "running", "b": "running"})
        self.assertEqual(self.ask(a, "14"), "served")
        self.assertEqual(self.places(), {"a": "running", "b": "suspended"})
        self.assertEqual(self.ask(b), "served")
        for guest in (a, b):
            self.quit(guest)

    def test_refusals(self):
        """More than there is with all others gone, and more than a quota has."""
        guest = self.guest("serve", "8", "1", name="c", options=("--memory", "44MiB"))
        one = self.serve("a", 1, holds=8)
        self.assertEqual(self.ask(one, "30"), "refused")
        self.assertEqual(self.ask(one, "50"), "refused")
        self.assertEqual(self.ask(one, "16"), "served")
        # The rest of its quota is there for the first one.
        self.assertEqual(self.ask(guest, "24"), "served")
        for process in (guest, one):
            self.quit(process)

    def test_code(self):
        """Others leave for it as for an allocation, although nobody tells how much it takes."""
        one = self.serve("a", 1)
        for library in (False, True):
            loads = subprocess.run([swap.ALLOT, "run", "--overcommit", "--memory", self.QUOTA, "--",
                                    "python3", "-c", LOADS, str(36 * MIB), str(int(library))],
                                   env=self.env, text=True, capture_output=True, timeout=60,
                                   check=False)
            self.assertEqual(loads.stdout, "0\n", loads.stderr)
            self.assertEqual(self.ask(one, "1"), "served")
        self.quit(one)

    def test_context_of_unknown_size(self):
        """A tenant's first context: all of its quota is reserved for it, which is more than the device has
        beside the contexts of others. They leave for what it takes."""
        guests = [self.serve(n, i * 1000, holds=h, quota="100%")
                  for i, (n, h) in enumerate((("a", HOLDS), ("b", 27), ("c", 8)))]
        for guest in guests:
            self.assertEqual(self.ask(guest), "served")
            self.quit(guest)

    def test_context_beside_an_outsider(self):
        """It is waited for that the program ends, as an allocation does."""
        outsider = self.outsider("70")
        threading.Timer(2, outsider.kill).start()
        one = self.serve("a", 1, holds=8, quota="100%")
        self.quit(one)

    def told(self):
        """How often who decides about memory was told that there is something to decide."""
        return int.from_bytes(pathlib.Path(self.tmp, "run/.residency").read_bytes()[4:8], "little")

    def test_refused_at_once_without_others(self):
        """Nobody is waited for who would leave, since nobody overcommits any more."""
        self.quit(self.serve("a", 1, holds=8))
        other = self.outsider()
        for options in ((), ("--swappable",)):
            guest = self.guest("serve", "8", "1", name="c", options=("--memory", "78MiB", *options))
            told = self.told()
            self.assertEqual(self.ask(guest, "40"), "refused")
            self.assertEqual(self.told(), told)
            self.quit(guest)
        self.quit(other)

    def test_refused_where_nobody_can_leave(self):
        """One that overcommits has next to nothing there. Who waits does so for a second, but for
        the first time."""
        one, other = self.serve("a", 1, holds=1), self.outsider()
        guest = self.guest("serve", "8", "1", name="c", options=("--memory", "72MiB",))
        took = []
        for _ in range(6):
            began = time.monotonic()
            self.assertEqual(self.ask(guest, "40"), "refused")
            took.append(time.monotonic() - began)
        self.assertLess(min(took[1:]), 0.7)
        for process in (guest, one, other):
            self.quit(process)

    def outsider(self, holds="40"):
        """A program that is no tenant's: what it has is in no ledger."""
        process = subprocess.Popen([GUEST, "serve", holds, "9"], env=self.env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_an_outsider_ends(self):
        """An allocation waits for a while before it is refused."""
        other, one = self.outsider(), self.serve("a", 1, holds=8)
        threading.Timer(2, other.kill).start()
        self.assertEqual(self.ask(one, "30"), "served")
        self.quit(one)

    def test_an_outsider_stays(self):
        other, one = self.outsider(), self.serve("a", 1, holds=8)
        self.assertEqual(self.ask(one, "30"), "refused")
        self.assertEqual(self.ask(one, "16"), "served")
        for process in (other, one):
            self.quit(process)

    @staticmethod
    def pipes(thread):
        count = 0
        for fd in os.listdir(thread / "fd"):
            with contextlib.suppress(FileNotFoundError):  # open for a moment
                count += os.readlink(thread / "fd" / fd).startswith("pipe:")
        return count

    @unittest.skipIf(tuple(map(int, re.findall(r"\d+", platform.release())[:2])) < (5, 9),
                     "the kernel has no descriptors for one thread alone")
    def test_descriptors_of_who_decides(self):
        """It has none in common with the program, so no child of that inherits a lock."""
        guest = self.serve("a", 1, holds=8)
        threads = {path.joinpath("comm").read_text(encoding="ascii").strip(): path
                   for path in pathlib.Path(f"/proc/{guest.pid}/task").iterdir()}
        self.assertEqual(self.pipes(threads["allot-swap"]), 3)
        self.assertEqual(self.pipes(threads["allot-residency"]), 0)
        self.quit(guest)

    def test_refused_while_it_is_away(self):
        """It waits for more than there is when its turn ends, and leaves for another one: then it comes
        back without that, and is told."""
        a = self.guest("serve", str(HOLDS), "1", name="a",
                       options=("--overcommit", "--memory", f"{DEVICE}MiB"))
        b = self.compute("b", 1000)
        for _ in range(3):
            self.assertEqual(self.ask(a, "35"), "refused")
        self.quit(a)
        self.good(b)

    def test_at_start(self):
        said = self.refused("run", "--name", "a", "--overcommit", "--memory", "81MiB", "--", GUEST)
        self.assertIn("a quota of 81 MiB is more than any device has (80 MiB)", said)
        self.assertEqual(self.places(), {})
        self.assertIn("leave --accounting driver out",
                      self.refused("run", "--overcommit", "--accounting", "driver", "--", GUEST))
        self.assertIn("write --swappable or --overcommit",
                      self.refused("run", "--host-memory", "1GiB", "--", GUEST))

    def test_host_memory(self):
        """Who has no room on the host does not leave; the other one is refused, or waits."""
        a = self.serve("a", 1, options=("--host-memory", "4MiB"))
        b = self.serve("b", 1000, holds=8)
        self.assertIn("--host-memory is 4 MiB; nothing was moved", self.refused("suspend", "a"))
        self.assertEqual(self.ask(b, "30"), "refused")
        self.assertEqual(self.places(), {"a": "running", "b": "running"})
        for guest in (a, b):
            self.quit(guest)


    def serve_where_free(self, mib, name, seed, holds, **env):
        """On a machine that has so much free, as the process finds it."""
        fake = pathlib.Path(self.tmp, "meminfo")
        fake.write_text(f"MemTotal: {mib << 10} kB\nMemAvailable: {mib << 10} kB\n", encoding="ascii")
        script = f'mount --bind {fake} /proc/meminfo && exec "$@"'
        process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script, "-", ALLOT, "run", "--name",
                                    name, "--overcommit", "--memory", "80%", "--", GUEST, "serve",
                                    str(holds), str(seed)], env={**self.env, **env},
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    @unittest.skipIf(subprocess.run(["unshare", "--mount", "true"], check=False).returncode,
                     "nothing can be mounted here")
    def test_host_has_room_for_one(self):
        """Two are to leave for a third one, and the host has room for either: the second one does not
        begin before the first one has taken what it was let have."""
        stops = {"ALLOT_FAULT": "GUEST_SWAP_COPIED/STOP"}
        guests = {"a": self.serve_where_free(34, "a", 1, 20, **stops),
                  "b": self.serve_where_free(34, "b", 1000, 20, **stops)}
        c = self.serve_where_free(34, "c", 2000, 8)
        c.stdin.write("44\n")
        c.stdin.flush()
        # Whose host memory is prepared already goes first.
        stopped = []
        self.until(lambda: stopped.extend(n for n, g in guests.items() if self.is_stopped(g)) or stopped)
        first, = stopped
        second, = guests.keys() - stopped
        for _ in range(5):
            time.sleep(0.3)
            self.assertEqual(self.tenants()[second]["swap"]["host_bytes"], 0, first)
        guests[first].send_signal(signal.SIGCONT)
        self.until(lambda: self.is_stopped(guests[second]))
        guests[second].send_signal(signal.SIGCONT)
        self.assertEqual(c.stdout.readline(), "served\n")
        for guest in (*guests.values(), c):
            self.quit(guest)

    def test_host_memory_for_a_part(self):
        """The part that is needed would find room, and the piece that it is in does not."""
        a = self.serve("a", 1, options=("--host-memory", "12MiB"))
        b = self.serve("b", 1000, holds=8)
        self.assertEqual(self.ask(b, "28"), "refused")
        self.assertEqual(self.places(), {"a": "running", "b": "running"})
        self.assertEqual(self.ask(a), "served")
        for guest in (a, b):
            self.quit(guest)


class Host(Turns):
    """A machine that has TOTAL of memory, as far as the tenants' processes can see."""

    TOTAL = 1 << 30

    def setUp(self):
        super().setUp()
        self.file = pathlib.Path(self.tmp, "meminfo")
        self.free(self.TOTAL)
        binds = self.binds()
        if subprocess.run(["unshare", "--mount", "sh", "-c", binds], capture_output=True,
                          check=False).returncode:
            self.skipTest("nothing can be mounted here")
        script = pathlib.Path(self.tmp, "allot")
        script.write_text(f"#!/bin/sh\nexec unshare --mount sh -c '{binds} && exec {ALLOT} \"$@\"' - \"$@\"\n")
        script.chmod(0o700)
        patched = unittest.mock.patch("swap.ALLOT", str(script))
        patched.start()
        self.addCleanup(patched.stop)

    def binds(self):
        return f"mount --bind {self.file} /proc/meminfo"

    @staticmethod
    def write(path, text):
        """In place: who reads it meanwhile finds it whole."""
        with open(path, "r+" if path.exists() else "w", encoding="ascii") as file:
            file.write(text)

    def free(self, bytes_):
        self.write(self.file, f"MemTotal: {self.TOTAL >> 10:12} kB\n"
                              f"MemAvailable: {bytes_ >> 10:12} kB\n")


    def given_back(self):
        """What was found ahead, and is missed, is not found at once by whoever gave it back."""
        a, b = self.serve("a", 1), self.serve("b", 1000)
        self.until(lambda: self.ahead("b") > 0)
        self.free(self.TOTAL // 8)
        self.until(lambda: not self.ahead("b"))
        self.free(self.TOTAL)
        time.sleep(1.5)
        self.assertEqual(self.ahead("b"), 0)
        for guest in (a, b):
            self.quit(guest)


class Scarce(Host):
    """Where the machine's memory is scarce."""

    def test_given_back(self):
        self.given_back()

    def test_full_is_said(self):
        """Who waits for one that the host has no room for waits on, and people are told why."""
        a, b = self.serve("a", 1), self.serve("b", 1000)
        self.free(MIB)
        self.until(lambda: not self.ahead("b"))
        a.stdin.write("\n")
        a.stdin.flush()
        self.until(lambda: self.tenants()["a"]["swap"]["host_full"])
        self.assertFalse(self.tenants()["b"]["swap"]["host_full"])
        self.assertIn("the host has no room for what is to leave", self.allot("ps").stdout)
        self.free(self.TOTAL)
        self.assertEqual(a.stdout.readline(), "served\n")
        self.assertFalse(self.tenants()["a"]["swap"]["host_full"])
        self.assertNotIn("no room", self.allot("ps").stdout)
        for guest in (a, b):
            self.quit(guest)

    def test_free_as_the_host_has_room(self):
        """What another one holds is not free while the host has no room for that, and is when it has."""
        a, b = self.serve("a", 1, holds=8), self.serve("b", 1000)
        left = 48 - 10 - STAYS // MIB
        most = DEVICE - 10 - 36 - 2 * STAYS // MIB
        for free in (20 * MIB, self.TOTAL, 20 * MIB):
            self.free(free)
            self.until(lambda: not self.ahead("b"))
            # Who asks waits 5 ms at most for who decides, and is else told what was so up to a second ago.
            self.until(lambda: (int(self.ask(a, "i")) > most) == (free == self.TOTAL))
            told = int(self.ask(a, "i"))
            if free == self.TOTAL:
                self.assertGreaterEqual(told, left - 2)
            else:
                self.assertLessEqual(told, most)
            self.assertEqual(self.ask(a, str(told)), "served")
            self.assertEqual(self.ask(b), "served")
        for guest in (a, b):
            self.quit(guest)


class ScarceCgroup(Host):
    """Where a memory cgroup allows little of it."""

    def binds(self):
        return f"{super().binds()} && mount --bind {self.tmp}/cgroup /sys/fs/cgroup"

    def free(self, bytes_):
        super().free(self.TOTAL)
        groups = pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii")
        path, = re.findall(r"^0::(/.*)", groups, re.M) or self.skipTest("no cgroup of version 2")
        group = pathlib.Path(f"{self.tmp}/cgroup{path}")
        group.mkdir(parents=True, exist_ok=True)
        self.write(group / "memory.max", f"{self.TOTAL:12}\n")
        self.write(group / "memory.current", f"{self.TOTAL - bytes_:12}\n")

    def test_given_back(self):
        self.given_back()


class Large(Host):
    """Of more than is on its way at a time, most of which leaves, and of which nothing is found ahead."""

    MEMORY, QUOTA, TOTAL = "480MiB", "90%", 16 << 30

    def begin(self, **env):
        """One that has not left before: beside one that is not idle yet it may have to, to grow."""
        self.free(self.TOTAL // 8)
        while True:
            comer = self.serve("a", 1, holds=300)
            leaver = self.serve("v", 5000, holds=400, env=env)
            if self.tenants()["v"]["swap"]["out_ns"] is None:
                break
            for guest in (leaver, comer):
                self.quit(guest)
        before = self.tenants()["v"]["swap"]["resident_bytes"]
        comer.stdin.write("\n")
        comer.stdin.flush()
        return comer, leaver, before

    def go_on(self, comer, leaver):
        self.assertEqual(comer.stdout.readline(), "served\n")
        for guest in (leaver, comer):
            self.assertEqual(self.ask(guest), "served")
            self.quit(guest)
        self.assertEqual(self.used(), 0)

    def test_rest_leaves_as_it_is_copied(self):
        """Who stops when the last of what follows is copied, and not let go of, has left but for that."""
        comer, leaver, before = self.begin(ALLOT_FAULT="GUEST_SWAP_COPIED:2/STOP")
        self.until(lambda: self.is_stopped(leaver))
        self.assertLess(self.tenants()["v"]["swap"]["resident_bytes"], before - 80 * MIB)
        leaver.send_signal(signal.SIGCONT)
        self.go_on(comer, leaver)

    def test_what_had_left_stays_away(self):
        """Host memory that was there when it was looked for is not, in the middle of what follows."""
        mark = pathlib.Path(self.tmp, "mark")
        mark.touch()
        comer, leaver, _ = self.begin(LD_PRELOAD=os.environ["SWAP_FULL"],
                                      SWAP_FULL_ERROR="madvise=12", SWAP_FULL_AT=str(200 * MIB),
                                      SWAP_FULL_MARK=str(mark))
        self.until(lambda: not mark.exists())
        self.assertGreater(self.tenants()["v"]["swap"]["host_bytes"], 40 * MIB)
        self.go_on(comer, leaver)


class Debugger:
    """Has the thread that moves a process's memory, which has stopped there."""

    SEIZE, DETACH, ALL = 0x4206, 17, 0x40000000

    def __init__(self, process):
        os.waitpid(process.pid, os.WUNTRACED)
        threads = {path.joinpath("comm").read_text(encoding="ascii").strip(): int(path.name)
                   for path in pathlib.Path(f"/proc/{process.pid}/task").iterdir()}
        self.thread = threads["allot-swap"]
        self.call(self.SEIZE)
        os.waitpid(self.thread, self.ALL)
        process.send_signal(signal.SIGCONT)

    def call(self, what):
        call = ctypes.CDLL(None, use_errno=True).ptrace
        if call(what, self.thread, None, None):
            raise OSError(ctypes.get_errno(), "ptrace")

    def detach(self):
        self.call(self.DETACH)


class Stopped(Turns):
    """One of whom the thread that moves its memory is stopped: others go on without it, and it is what
    it was when it goes on."""

    SMALL = 20

    def begin(self, point):
        """A third one needs the memory of one of two, and that of the first is longest idle."""
        victim = self.serve("v", 1, holds=self.SMALL,
                            env={"ALLOT_FAULT": f"GUEST_SWAP_{point}/STOP"})
        other = self.serve("b", 1000, holds=self.SMALL)
        for guest in (victim, other):
            self.assertEqual(self.ask(guest), "served")
        time.sleep(0.3)
        third = self.starts("c", "serve", str(HOLDS), "5000",
                            options=("--overcommit", "--memory", QUOTA))
        return victim, other, third

    def go_on(self, debugger, guests):
        debugger.detach()
        for _ in range(2):
            for guest in guests:
                self.assertEqual(self.ask(guest), "served")
        for guest in guests:
            self.quit(guest)
        self.assertEqual(self.used(), 0)

    def test_on_the_way_out(self):
        for point in ("COPIED", "HALF_OUT", "OUT"):
            victim, other, third = self.begin(point)
            debugger = Debugger(victim)
            self.assertEqual(third.stdout.readline(), "ready\n")
            self.assertEqual(self.ask(third), "served", point)
            self.assertEqual(self.ask(other), "served", point)
            self.go_on(debugger, (victim, other, third))

    def test_on_the_way_back(self):
        for point in ("HALF_IN", "IN"):
            victim, other, third = self.begin(point)
            self.assertEqual(third.stdout.readline(), "ready\n")
            for guest in (other, third):
                self.assertEqual(self.ask(guest), "served")
            victim.stdin.write("\n")
            victim.stdin.flush()
            debugger = Debugger(victim)
            for guest in (other, third):
                self.assertEqual(self.ask(guest), "served", point)
            debugger.detach()
            self.assertEqual(victim.stdout.readline().strip(), "served")
            for guest in (victim, other, third):
                self.quit(guest)


class StoppedRole(Turns):
    """Who decides is stopped, and another one does in its place. When it goes on it decides nothing any
    more, also not what it had in hand."""

    def request(self, name):
        """What its processes were asked for last: `swap` of struct policy_file."""
        policy = pathlib.Path(self.tmp, "run", name, "policy").read_bytes()
        return int.from_bytes(policy[76:80], "little")

    @contextlib.contextmanager
    def words(self, *path):
        """Of a file that all have mapped, to be forged."""
        file = pathlib.Path(self.tmp, "run", *path)
        file.chmod(0o600)
        with open(file, "r+b") as opened, mmap.mmap(opened.fileno(), 4096) as content:
            with memoryview(content) as view, view.cast("I") as words:
                yield words

    def role_is_held(self):
        """By any process: the lock of the term, see role_file.h."""
        with self.words(".residency") as words:
            at = (1 << 40) + words[2]
        with open(pathlib.Path(self.tmp, "run", ".residency"), "rb+") as file:
            said = fcntl.fcntl(file, OFD_GETLK, struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, at, 1, 0))
        return struct.unpack(FLOCK, said)[0] != fcntl.F_UNLCK

    @contextlib.contextmanager
    def alone(self, victim, others):
        """Nobody has the role, and meanwhile only one of all can take it."""
        self.until(lambda: not self.role_is_held())
        with contextlib.ExitStack() as stack:
            for other in others:
                other.send_signal(signal.SIGSTOP)
                stack.callback(other.send_signal, signal.SIGCONT)
            yield
            self.assertIsNone(victim.poll())

    def ring(self):
        """As a process does that waits."""
        with self.words(".residency") as words:
            words[0] += 1
            at = ctypes.addressof(ctypes.c_uint32.from_buffer(words))
            ctypes.CDLL(None).syscall(FUTEX[platform.machine()], ctypes.c_void_p(at),
                                      FUTEX_WAKE, ALL, None, None, 0)

    def let_decide(self, victim, others):
        """It has the role for a second."""
        with self.alone(victim, others):
            self.ring()
            self.until(self.role_is_held)

    def starts_beside(self, guests, victim):
        """One that takes no turns comes, when nobody decides, and waits. Whether the victim was stopped."""
        stopped = False
        with self.alone(victim, [guest for guest in guests if guest is not victim]):
            guests.append(self.starts("d", "serve", str(HOLDS), "7", options=("--memory", "45MiB")))
            while not stopped and not self.says(guests[-1], 0.005):
                stopped = self.is_stopped(victim)
        return stopped

    def stop(self, point):
        victim = self.serve("v", 5000, holds=2, env={"ALLOT_FAULT": f"RESIDENCY_{point}/STOP"})
        others = [self.serve(n, i * 1000) for i, n in enumerate("ab")]
        for turn in range(40):
            stopped = self.is_stopped(victim)
            if not stopped:
                self.let_decide(victim, others)
            self.assertEqual(self.ask(others[turn % 2]), "served", point)
            if stopped or self.is_stopped(victim):
                return victim, others
        self.fail(f"{point}: it never decided")

    def others_decide(self, point):
        victim, others = self.stop(point)
        for guest in (*others, *others):
            self.assertEqual(self.ask(guest), "served", point)
        self.until(lambda: not self.role_is_held())
        asked = [self.request(name) for name in "ab"]
        victim.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        self.assertEqual([self.request(name) for name in "ab"], asked, point)
        for guest in (victim, *others, *others):
            self.assertEqual(self.ask(guest), "served", point)
        self.must("suspend", "a")
        for guest in (victim, *others):
            self.quit(guest)
        self.assertEqual(self.used(), 0, point)

    def test_before_it_has_begun(self):
        for point in ("TAKEN:2", "DECIDED"):
            self.others_decide(point)

    def test_while_one_leaves(self):
        for point in ("LEAVES", "OUT"):
            self.others_decide(point)

    def test_while_one_comes(self):
        for point in ("COMES", "RUNS"):
            self.others_decide(point)

    def test_stopped_behind_a_step(self):
        """That it has made since somebody rang, who does not overcommit and waits."""
        for _ in range(40):
            guests = [self.serve("v", 1, holds=20, env={"ALLOT_FAULT": "RESIDENCY_LEAVES/STOP"}),
                      self.serve("a", 1000, holds=20)]
            stopped = self.starts_beside(guests, guests[0])
            if stopped:
                time.sleep(1)
                with self.words(".residency") as words:
                    words[3] += 1  # `beats`
            self.assertEqual(guests[2].stdout.readline(), "ready\n")
            guests[0].send_signal(signal.SIGCONT)
            for guest in guests:
                self.assertEqual(self.ask(guest), "served")
                self.quit(guest)
            if stopped:
                return
        self.fail("it never decided")

    def test_killed_while_one_that_does_not_overcommit_waits(self):
        """Nobody decides then, until it rings again."""
        for victim in 13 * [0, 1, 2]:
            guests = [self.serve(n, i * 1000, holds=2 if i == victim else 20, env={
                "ALLOT_FAULT": "RESIDENCY_LEAVES/STOP"} if i == victim else None)
                      for i, n in enumerate("abc")]
            stopped = self.starts_beside(guests, guests[victim])
            if stopped:
                time.sleep(2.2)  # it waits, and the others do not look yet
                guests.pop(victim).kill()
            self.assertEqual(guests[-1].stdout.readline(), "ready\n")
            for guest in guests:
                self.assertEqual(self.ask(guest), "served")
                self.quit(guest)
            if stopped:
                return
        self.fail("it never decided")

    def test_who_does_not_overcommit_waits(self):
        """Whoever decides next was not waiting itself."""
        victim, others = self.stop("LEAVES")
        fourth = self.guest("serve", "14", "7", name="d", options=("--memory", "30MiB"))
        self.assertEqual(self.ask(fourth), "served")
        victim.send_signal(signal.SIGCONT)
        for guest in (victim, *others, fourth):
            self.assertEqual(self.ask(guest), "served")
            self.quit(guest)


class StoppedProcess(Turns):
    """A whole process is stopped: it can neither leave nor come until it goes on."""

    def ask(self, process, word=""):
        process.stdin.write(word + "\n")
        process.stdin.flush()
        self.assertTrue(self.says(process, 100), word)
        return process.stdout.readline().strip()

    def free(self, guest):
        return int(self.ask(guest, "i"))

    def test_an_allocation_is_refused(self):
        """... and what is free for it is told without the memory of the stopped one, for as long as that
        is stopped."""
        for what in ("serve", "compute"):
            one, other = self.serve("a", 1, holds=8), self.run_one("b", what, str(HOLDS), "1000")
            free = self.free(one)
            other.send_signal(signal.SIGSTOP)
            for _ in range(2):
                self.assertEqual(self.ask(one, "30"), "refused", what)
                self.assertLessEqual(self.free(one), DEVICE - 10 - 36 - 2 * STAYS // MIB)
            other.send_signal(signal.SIGCONT)
            self.until(lambda: self.free(one) >= free)  # pylint: disable=cell-var-from-loop
            self.assertEqual(self.ask(one, "30"), "served", what)
            (self.good if what == "compute" else self.quit)(other)
            self.quit(one)
        self.assertEqual(self.used(), 0)

    def test_stopped_again_and_again(self):
        """It goes on for moments, which are too short to leave in: no allocation waits for it for ever."""
        one, other = self.serve("a", 1, holds=8), self.run_one("b", "compute", str(HOLDS), "1000")
        ends = threading.Event()

        def stop_and_go():
            while not ends.wait(0.002):
                other.send_signal(signal.SIGSTOP)
                ends.wait(2)
                other.send_signal(signal.SIGCONT)

        thread = threading.Thread(target=stop_and_go)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(ends.set)
        for _ in range(2):
            self.assertEqual(self.ask(one, "30"), "refused")
        ends.set()
        thread.join()
        self.until(lambda: self.ask(one, "30") == "served")
        self.good(other)
        self.quit(one)

    def test_a_launch_waits(self):
        one, other = self.serve("a", 1), self.serve("b", 1000)
        self.assertEqual(self.places(), {"a": "suspended", "b": "running"})
        other.send_signal(signal.SIGSTOP)
        one.stdin.write("\n")
        one.stdin.flush()
        self.assertFalse(self.says(one, 7))
        other.send_signal(signal.SIGCONT)
        self.assertTrue(self.says(one, 100))
        self.assertEqual(one.stdout.readline(), "served\n")
        for guest in (other, one):
            self.assertEqual(self.ask(guest), "served")
            self.quit(guest)

    def test_others_leave_in_its_place(self):
        one, other, third = (self.serve(n, i * 1000, holds=h)
                             for i, (n, h) in enumerate((("a", 8), ("b", 14), ("c", 14))))
        other.send_signal(signal.SIGSTOP)
        self.assertEqual(self.ask(one, "26"), "served")
        self.assertEqual(self.places()["c"], "suspended")
        other.send_signal(signal.SIGCONT)
        for guest in (third, other, one):
            self.assertEqual(self.ask(guest), "served")
            self.quit(guest)


class Kills(Turns):
    """kill -9 at each step of a tenant that leaves, comes, waits or decides. The others go on, with
    all of their memory, and what the dead one had is theirs."""

    def die(self, point):
        victim = self.serve("v", 5000, env={"ALLOT_FAULT": point})
        other = self.serve("a", 1)
        for turn in range(60):
            if not self.ask(victim) and victim.wait(10):
                break
            self.assertEqual(self.ask(other), "served", point)
            if turn % 4 == 3:
                time.sleep(1.2)  # the role is given up, and somebody else may have it next
        self.assertEqual(victim.wait(10), -signal.SIGKILL, point)
        self.assertEqual(self.ask(other), "served", point)
        again = self.serve("v", 9000)
        for process in (again, other):
            self.assertEqual(self.ask(process), "served", point)
        for process in (again, other):
            self.quit(process)
        self.assertEqual(self.used(), 0, point)

    def test_of_one_who_leaves(self):
        for point in ("SHUT", "COPIED", "HALF_OUT", "OUT"):
            self.die(f"GUEST_SWAP_{point}")

    def test_of_one_who_comes(self):
        for point in ("HALF_IN", "IN"):
            self.die(f"GUEST_SWAP_{point}")

    def test_of_one_who_decides(self):
        for point in ("TAKEN", "LEAVES", "OUT", "COMES", "RUNS"):
            self.die(f"RESIDENCY_{point}:2" if point == "TAKEN" else f"RESIDENCY_{point}")

    def test_of_one_who_waits(self):
        """For its memory, and for room."""
        guests = {n: self.compute(n, i * 1000) for i, n in enumerate("ab")}
        self.changes("ab", 1)
        for name in "ab":
            self.until(lambda: self.places()[name] == "suspended")
            guests[name].kill()
            guests[name].wait()
            if name == "a":
                guests["a"] = self.compute("a", 9000)
                self.changes("ab", 1)
        self.good(guests["a"])
        self.assertEqual(self.used(), 0)

    def test_of_one_who_wants_more(self):
        a = self.serve("a", 1)
        victim = self.guest("serve", "20", "2", name="v", env={"ALLOT_FAULT": "GUEST_ROOM_WISHED"},
                            options=("--overcommit", "--memory", QUOTA))
        self.assertEqual(self.ask(victim, "14"), "")
        self.assertEqual(victim.wait(10), -signal.SIGKILL)
        self.assertEqual(self.ask(a), "served")
        self.quit(a)


if __name__ == "__main__":
    unittest.main()
