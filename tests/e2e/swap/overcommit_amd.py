# SPDX-License-Identifier: Apache-2.0
"""Tenants on emulated AMD GPUs whose quotas together exceed a GPU, and which take turns on its
memory: `allot run --overcommit`. Their work begins by doorbells, and they make no call that would
tell of it. Every word that they hold is looked at in each round; what is on the GPUs is the
emulator's own count."""

import signal
import subprocess
import time
import unittest

from swap_amd import ALLOT, GUEST, MIB, Case
from taking_turns import Turning

DEVICE = 80
QUOTA = "60%"
HOLDS = 44  # MiB: one at a time


class Turns(Turning, Case):
    MEMORY, QUOTA, HOLDS = f"{DEVICE + 8}MiB", QUOTA, HOLDS  # KFD may give all but 8

    def peak(self):
        done = subprocess.run([*self.sim, GUEST, "peak"], env=self.env, text=True,
                              capture_output=True, timeout=60, check=True)
        return [int(line) for line in done.stdout.split()]


class Load(Turns):
    def test_two(self):
        guests = [self.compute(n, i * 1000) for i, n in enumerate("ab")]
        self.changes("ab", 3)
        for guest in guests:
            self.good(guest)
        self.assertEqual(self.used(), [0, 0, 0])
        self.assertLessEqual(self.peak()[0], DEVICE * MIB)

    def test_three(self):
        guests = [self.compute(n, i * 1000) for i, n in enumerate("abc")]
        self.changes("abc", 2)
        for guest in guests:
            self.good(guest)
        self.assertEqual(self.used(), [0, 0, 0])

    def test_processes_of_one(self):
        """Those of a tenant go and come together."""
        guests = [self.compute("a", 1, holds=22), self.compute("b", 1000)]
        guests.append(self.guest("compute", "22", "2", name="a", options=()))
        self.changes("ab", 3)
        for guest in guests:
            self.good(guest)

    def test_shared(self):
        """What processes of a tenant have of each other leaves and comes back with it."""
        lender = self.run_one("a", "lend", self.tmp + "/socket")
        borrower = self.guest("borrow", self.tmp + "/socket", name="a", options=())
        other = self.run_one("b", "serve", "72", "1", quota="90%")
        for n in range(6):
            self.assertEqual(self.ask((lender, borrower)[n % 2], f"f {10 * n}"), "done")
            self.assertEqual(self.ask(other), "served")
            self.assertEqual(self.places(), {"a": "suspended", "b": "running"})
            for process in (lender, borrower):
                self.assertEqual(self.ask(process, f"l {10 * n}"), "done")
        for process in (borrower, lender, other):
            self.quit(process)
        self.assertEqual(self.used(), [0, 0, 0])

    def test_is_killed(self):
        """The others go on, whatever it was at."""
        guests = {n: self.compute(n, i * 1000) for i, n in enumerate("abc")}
        self.changes("abc", 1)
        self.end(guests.pop("c"))
        self.changes("ab", 2)
        for guest in guests.values():
            self.good(guest)
        self.assertEqual(self.used(), [0, 0, 0])

    def test_beside_others(self):
        """One that does not overcommit gets all of its quota, and keeps it."""
        guests = [self.serve(n, i * 1000) for i, n in enumerate("ab")]
        fourth = self.guest("serve", "14", "7", name="d", options=("--memory", "30MiB"))
        for _ in range(3):
            for guest in guests:
                self.assertEqual(self.ask(guest), "served")
                self.assertEqual(self.ask(fourth), "served")
                self.assertEqual(self.tenants()["d"]["state"], "running")
        self.assertEqual(self.ask(fourth, "16"), "served")
        for guest in (*guests, fourth):
            self.quit(guest)


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
        self.assertEqual(self.ask(b), "served")
        self.assertEqual(self.places(), {"a": "suspended", "b": "running"})
        self.must("set", "a", "--memory", "20MiB")
        self.assertEqual(self.ask(a), "served")
        self.assertEqual(self.ask(b), "served")
        for guest in (a, b):
            self.quit(guest)

    def test_who_is_idle_leaves(self):
        """... before one that works, though that came first."""
        worker, idle = self.compute("a", 1, holds=36), self.serve("b", 1000, holds=36)
        self.assertEqual(self.places(), {"a": "running", "b": "running"})
        other = self.serve("c", 2000, holds=36)
        self.assertEqual(self.places()["b"], "suspended")
        self.assertEqual(self.ask(idle), "served")
        self.quit(idle)
        self.quit(other)
        self.good(worker)

    def test_after_a_suspend(self):
        guest = self.serve("a", 5)
        self.must("suspend", "a")
        self.assertEqual(self.used(), [0, 0, 0])
        self.assertEqual(self.places(), {"a": "suspended"})
        self.assertEqual(self.ask(guest), "served")
        self.assertEqual(self.places(), {"a": "running"})
        self.must("suspend", "a")
        self.must("resume", "a")
        self.quit(guest)

    def test_more(self):
        """An allocation within the quota finds the GPU full: another one leaves for it."""
        a, b = self.serve("a", 1, holds=22), self.serve("b", 1000, holds=44)
        self.assertEqual(self.places(), {"a": "running", "b": "running"})
        self.assertEqual(self.ask(a, "24"), "served")
        self.assertEqual(self.places(), {"a": "running", "b": "suspended"})
        self.assertEqual(self.ask(b), "served")
        for guest in (a, b):
            self.quit(guest)

    def test_refusals(self):
        """More than there is with all others gone, and more than a quota has."""
        guest = self.guest("serve", "8", "1", name="c", options=("--memory", "52MiB"))
        one = self.serve("a", 1, holds=8)
        self.assertEqual(self.ask(one, "34"), "refused")
        self.quit(one)
        one = self.serve("a", 1, holds=8)
        self.assertEqual(self.ask(one, "24"), "served")
        # The rest of its quota is there for the first one.
        self.assertEqual(self.ask(guest, "32"), "served")
        for process in (guest, one):
            self.quit(process)

    def test_at_start(self):
        said = self.refused("run", "--name", "a", "--overcommit", "--memory", "89MiB", "--", GUEST)
        self.assertIn("a quota of 89 MiB is more than any device has (88 MiB)", said)
        self.assertEqual(self.places(), {})

    def test_is_shown(self):
        a, b = self.serve("a", 1), self.serve("b", 1000)
        shown = self.must("ps")
        self.assertRegex(shown, r"a +turns +suspended +0 +44 MiB")
        self.assertRegex(shown, r"b +turns +running +44 MiB +0 ")
        for guest in (a, b):
            self.quit(guest)


class Queues(Turns):
    """Work of other kinds than copies."""

    def rests_away(self, name):
        """It is away, and stays so, as it has nothing to do."""
        self.until(lambda: self.places()[name] == "suspended")
        time.sleep(0.5)
        self.assertEqual(self.places()[name], "suspended")

    def test_processor(self):
        """What it has mapped is touched by it alone."""
        one = self.run_one("a", "touch", str(HOLDS))
        others = [self.serve(n, i * 1000) for i, n in enumerate("bc")]
        for _ in range(3):
            for other in others:
                self.assertEqual(self.ask(other), "served")
            self.assertEqual(self.ask(one), "served")
        for guest in (one, *others):
            self.quit(guest)

    def test_packets(self):
        """An AQL queue whose packets are done does not keep its tenant here, nor bring it back; a
        packet more does."""
        one = self.run_one("a", "barriers", str(HOLDS))
        self.assertEqual(self.ask(one), "served")
        others = [self.serve(n, i * 1000) for i, n in enumerate("bc")]
        for _ in range(3):
            for other in others:
                self.assertEqual(self.ask(other), "served")
            self.rests_away("a")
            self.assertEqual(self.ask(one), "served")
        for guest in (one, *others):
            self.quit(guest)

    def test_kernel_does_not_tell(self):
        """... of saved waves. There may be some, so it comes back, and nobody starves."""
        one = self.run_one("a", "barriers", str(HOLDS),
                           env={"ALLOT_SIM_AMD_WITHOUT": "GET_QUEUE_WAVE_STATE"})
        others = [self.serve(n, i * 1000) for i, n in enumerate("bc")]
        for _ in range(2):
            for other in others:
                self.assertEqual(self.ask(other), "served")
            self.until(lambda: self.places()["a"] == "running")
        for guest in (one, *others):
            self.assertEqual(self.ask(guest), "served")
        for guest in (one, *others):
            self.quit(guest)


class Kills(Turns):
    """kill -9 at each step of a tenant that leaves, comes, waits or decides."""

    def die(self, point):
        victim = self.serve("v", 5000, env={"ALLOT_FAULT": point})
        other = self.serve("a", 1)
        for turn in range(60):
            if not self.ask(victim) and victim.wait(100):
                break
            self.assertEqual(self.ask(other), "served", point)
            if turn % 4 == 3:
                time.sleep(1.2)  # the role is given up, and somebody else may have it next
        self.assertEqual(victim.wait(100), -signal.SIGKILL, point)
        self.assertEqual(self.ask(other), "served", point)
        again = self.serve("v", 9000)
        for process in (again, other):
            self.assertEqual(self.ask(process), "served", point)
        for process in (again, other):
            self.quit(process)
        self.assertEqual(self.used(), [0, 0, 0], point)

    def test_of_one_who_moves(self):
        for point in ("SHUT", "COPIED", "HALF_OUT", "OUT", "HALF_IN", "IN"):
            self.die(f"GUEST_SWAP_{point}")

    def test_of_one_who_decides(self):
        for point in ("TAKEN:2", "LEAVES", "OUT", "COMES", "RUNS"):
            self.die(f"RESIDENCY_{point}")


if __name__ == "__main__":
    unittest.main()
