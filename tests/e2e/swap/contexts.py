# SPDX-License-Identifier: Apache-2.0
"""`allot suspend --contexts`: on top of our suspend the driver's own checkpoint of every process of
the tenant, and back by `allot resume`. The simulated driver's checkpoint does, and loses, what the
H200's did."""

import json
import signal
import time
import unittest

from swap import IDLE, MIB, STAYS, Case, Sharing

# Of a process that was checkpointed, as on an H200.
LEFT = 4 * MIB


class Shared(Sharing):
    def test_shared(self):
        """What the driver's checkpoint would lose is not shared when it comes to that."""
        lender, borrower = self.lend(7), self.borrow(7)
        for _ in range(2):
            self.must("suspend", "--contexts", "t")
            self.assertEqual(self.used(), 2 * LEFT)
            self.must("resume", "t")
            self.charged(2 * STAYS + self.LENT)
        self.good(borrower)
        self.good(lender)


class Out(Case):
    def test_out_and_back(self):
        guest = self.guest("idle")
        held = self.used()
        said = self.must("suspend", "--contexts", "t")
        self.assertRegex(said, r"^t: 56 MiB of 1 process left in .*\nt: contexts left in ")
        self.assertEqual(self.used(), LEFT)
        self.assertEqual(self.tenant()["state"], "suspended")
        guest.stdin.write("\n")
        guest.stdin.flush()
        time.sleep(0.3)
        self.assertEqual(self.used(), LEFT)
        self.must("resume", "t")
        self.good(guest)
        self.assertEqual(held, STAYS + IDLE)

    def test_several_times(self):
        guests = [self.guest("idle"), self.guest("idle", options=())]
        held = self.used()
        for _ in range(3):
            self.must("suspend", "t", "--contexts")
            self.assertEqual(self.used(), 2 * LEFT)
            self.must("resume", "t")
            self.assertEqual(self.used(), held)
        for guest in guests:
            self.good(guest)

    def test_suspended_before(self):
        """First the memory, then the contexts; asked twice it is done once."""
        guest = self.guest("idle")
        self.must("suspend", "t")
        self.assertEqual(self.used(), STAYS)
        self.must("suspend", "--contexts", "t")
        self.assertEqual(self.used(), LEFT)
        self.assertIn("is suspended already", self.allot("suspend", "--contexts", "t").stderr)
        self.assertIn("is suspended already", self.allot("suspend", "t").stderr)
        self.assertEqual(self.used(), LEFT)
        self.must("resume", "t")
        self.good(guest)

    def test_under_load(self):
        guest = self.guest("churn", "3")
        for _ in range(5):
            self.must("suspend", "--contexts", "t", "--timeout", "60s")
            self.assertEqual(self.used(), LEFT)
            self.must("resume", "t")
        self.good(guest)

    def test_pools(self):
        guest = self.guest("idle pooled")
        for _ in range(2):
            self.must("suspend", "--contexts", "t")
            self.assertEqual(self.used(), LEFT)
            self.must("resume", "t")
        self.good(guest)

    def test_what_we_cannot_move(self):
        """Arrays, and memory in use of pools that can be exported, go by the driver's checkpoint,
        and by that alone."""
        for what in ("array", "pool"):
            guest = self.guest(what)
            self.refused("suspend", "t")
            self.must("suspend", "--contexts", "t")
            self.assertEqual(self.used(), LEFT, what)
            self.must("resume", "t")
            self.good(guest)


class Refusals(Case):
    def refuse(self, guest, why, state="running", env=None):
        before = self.used()
        said = self.refused("suspend", "--contexts", "t", env=env)
        self.assertRegex(said, why)
        self.assertEqual(self.used(), before)
        self.assertEqual(self.tenant()["state"], state)
        if state == "running":
            self.good(guest)

    def test_managed(self):
        self.refuse(self.guest("managed"), "holds 4 MiB of managed memory")

    def test_denied(self):
        """Only the driver knows, and only when it is asked: all that had left comes back."""
        said = r"(?s)the driver's checkpoint: it is not allowed to you; .*goes on as it was"
        self.refuse(self.guest("idle"), said, env={"ALLOT_SIM_CHECKPOINT": "denied"})

    def test_unsupported(self):
        said = r"(?s)the driver's checkpoint: not of this process.*goes on as it was"
        self.refuse(self.guest("idle"), said, env={"ALLOT_SIM_CHECKPOINT": "unsupported"})

    def test_no_driver(self):
        self.refuse(self.guest("idle"), "libcuda.so.1 is not found", env={"LD_LIBRARY_PATH": ""})

    def test_denied_when_suspended(self):
        guest = self.guest("idle")
        self.must("suspend", "t")
        self.refuse(guest, "stays suspended, with its contexts on the device", "suspended",
                    env={"ALLOT_SIM_CHECKPOINT": "denied"})
        self.must("resume", "t")
        self.good(guest)


class Crowd(Case):
    MEMORY = "220MiB"

    def test_no_room_for_contexts(self):
        """Others have the device; the tenant stays away until they leave."""
        guest = self.guest("idle")
        self.must("suspend", "--contexts", "t")
        other = self.guest("idle", name="u")
        third = self.guest("full", name="v", options=("--memory", "140MiB"))
        said = self.refused("resume", "t")
        self.assertRegex(said, r"(?s)the device has no room.*stays suspended")
        self.end(third)
        self.end(other)
        self.must("resume", "t")
        self.good(guest)


class Kills(Case):
    """kill -9 at each step, of the command and of a process: the tenant is suspended, or runs."""

    def states(self):
        tenant = self.tenant()
        return tenant["state"], {p["state"] for p in tenant["processes"]}

    def comes_back(self, guests, point):
        for _ in range(200):
            state = self.states()
            if state in (("running", {"running"}), ("suspended", {"suspended"})):
                break
            time.sleep(0.02)
        else:
            self.fail(f"{point}: {state}")
        self.must("resume", "t")
        self.assertEqual(self.states(), ("running", {"running"}), point)
        self.assertEqual(self.used(), len(guests) * (STAYS + IDLE), point)

    def test_of_the_command(self):
        guests = [self.guest("idle"), self.guest("idle", options=())]
        for point in ("SWAP_ASKED:1", "SWAP_ASKED:2", "SWAP_ASKED:3", "CONTEXTS_LOCKED",
                      "CONTEXTS_LOCKED:2", "CHECKPOINT_LOCKED", "CHECKPOINT_JUDGED",
                      "CHECKPOINT_TAKEN", "CONTEXTS_TAKEN", "CONTEXTS_TAKEN:2"):
            done = self.allot("suspend", "--contexts", "t", env={"ALLOT_FAULT": point})
            self.assertEqual(done.returncode, -signal.SIGKILL, point)
            self.comes_back(guests, point)
        for point in ("CHECKPOINT_RESTORED", "CONTEXTS_RETURNED", "CONTEXTS_RETURNED:2",
                      "CHECKPOINT_UNLOCKED", "CONTEXTS_UNLOCKED", "CONTEXTS_UNLOCKED:2",
                      "SWAP_ASKED:1", "SWAP_ASKED:2"):
            self.must("suspend", "--contexts", "t")
            done = self.allot("resume", "t", env={"ALLOT_FAULT": point})
            self.assertEqual(done.returncode, -signal.SIGKILL, point)
            self.comes_back(guests, point)
        for guest in guests:
            self.good(guest)

    def test_suspend_after_a_kill(self):
        guest = self.guest("idle")
        for point in ("SWAP_ASKED:3", "CONTEXTS_LOCKED", "CONTEXTS_TAKEN"):
            self.allot("suspend", "--contexts", "t", env={"ALLOT_FAULT": point})
            self.must("suspend", "--contexts", "t")
            self.assertEqual(self.used(), LEFT, point)
            self.must("resume", "t")
        self.good(guest)

    def test_of_a_process(self):
        for point in ("SHUT", "COPIED", "HALF_OUT", "OUT", "BARE", "HALF_IN", "IN"):
            guest = self.guest("idle")
            victim = self.guest("idle", options=(), env={"ALLOT_FAULT": f"GUEST_SWAP_{point}"})
            self.must("suspend", "--contexts", "t")
            self.must("resume", "t")
            self.assertEqual(victim.wait(100), -signal.SIGKILL, point)
            self.assertEqual(self.used(), STAYS + IDLE, point)
            self.good(guest)

    def test_of_one_that_is_away(self):
        guests = [self.guest("idle"), self.guest("idle", options=())]
        self.must("suspend", "--contexts", "t")
        guests[1].kill()
        guests[1].wait()
        self.must("resume", "t")
        self.assertEqual(self.used(), STAYS + IDLE)
        self.good(guests[0])

    def test_of_one_that_ends_just_now(self):
        guest = self.guest("idle")
        self.guest("ending", options=())
        self.must("suspend", "--contexts", "t")
        self.assertEqual(self.used(), LEFT)
        self.must("resume", "t")
        self.good(guest)


class Json(Case):
    def test_ps(self):
        """What left stands where it stood; contexts stay charged, for they come back unasked."""
        self.guest("idle")
        self.must("suspend", "--contexts", "t")
        device, = json.loads(self.must("ps", "--json", "t"))["tenants"][0]["devices"]
        self.assertEqual(device["suspended_bytes"], IDLE)
        self.assertEqual(device["used_bytes"], STAYS)


if __name__ == "__main__":
    unittest.main()
