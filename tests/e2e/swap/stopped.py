# SPDX-License-Identifier: Apache-2.0
"""Tenants of which a process is stopped, by a signal or by a debugger, while their memory leaves the
(simulated) device or comes back."""

import os
import signal
import struct
import subprocess
import time
import unittest

from swap import ALLOT, STAYS, IDLE, Case, Sharing


class Stopped(Case):
    """A process is stopped in the middle of it: the others are as they were, after a bounded time, and
    it follows them when it goes on."""

    TIMEOUT = ("--timeout", "2s")

    def names(self, said, process):
        self.assertRegex(said, rf"process {process.pid} \(.*\) is stopped, by a signal or by a "
                               rf"debugger; have it go on: kill -CONT {process.pid}, or")

    def victim(self, point):
        return self.guest("idle", options=(), env={"ALLOT_FAULT": f"GUEST_SWAP_{point}/STOP"})

    def test_before(self):
        guest, victim = self.guest("idle"), self.guest("idle", options=())
        victim.send_signal(signal.SIGSTOP)
        said = self.refused("suspend", "t", *self.TIMEOUT)
        self.names(said, victim)
        self.assertIn('tenant "t" goes on as it was', said)
        self.assertEqual(self.used(), 2 * (STAYS + IDLE))
        self.good(guest)
        victim.send_signal(signal.SIGCONT)
        self.good(victim)

    def test_on_the_way_out(self):
        for point in ("COPIED", "HALF_OUT", "OUT"):
            guest = self.guest("idle")
            victim = self.victim(point)
            said = self.refused("suspend", "t", *self.TIMEOUT)
            self.names(said, victim)
            self.assertIn('tenant "t" goes on as it was: what had left is back', said)
            self.assertGreaterEqual(self.used(), 2 * STAYS + IDLE)
            if point == "COPIED":
                self.assertEqual(self.used(), 2 * (STAYS + IDLE))
            self.good(guest)
            victim.send_signal(signal.SIGCONT)
            self.comes_to(STAYS + IDLE)
            self.good(victim)

    def test_has_to_wait_for_room(self):
        """What it had is somebody else's by then: it follows when there is room."""
        guest = self.guest("idle", options=("--swappable", "--memory", "200MiB"))
        victim = self.victim("OUT")
        self.refused("suspend", "t", *self.TIMEOUT)
        self.must("set", "t", "--memory", "120MiB")
        victim.send_signal(signal.SIGCONT)
        self.until(lambda: {p["pid"]: p["state"] for p in self.tenant()["processes"]}
                   [victim.pid] == "suspended")
        self.must("set", "t", "--memory", "200MiB")
        self.comes_to(2 * (STAYS + IDLE))
        self.good(guest)
        self.good(victim)

    def test_on_the_way_back(self):
        for point in ("HALF_IN", "IN"):
            guest = self.guest("idle")
            victim = self.victim(point)
            self.must("suspend", "t")
            for _ in range(2):
                said = self.refused("resume", "t", *self.TIMEOUT)
                self.names(said, victim)
                self.assertIn('tenant "t" stays suspended', said)
            victim.send_signal(signal.SIGCONT)
            self.comes_to(2 * STAYS)
            self.must("resume", "t")
            self.good(guest)
            self.good(victim)

    def test_asked_once_more(self):
        """It goes on while it is waited for."""
        guest, victim = self.guest("idle"), self.victim("COPIED")
        suspend = subprocess.Popen([ALLOT, "suspend", "t"], env=self.env,
                                   stdout=subprocess.DEVNULL)
        self.addCleanup(self.end, suspend)
        self.assertEqual(os.waitpid(victim.pid, os.WUNTRACED)[1] & 0xff, 0x7f)
        victim.send_signal(signal.SIGCONT)
        self.assertEqual(suspend.wait(100), 0)
        self.assertEqual(self.used(), 2 * STAYS)
        self.must("resume", "t")
        self.good(guest)
        self.good(victim)


class StoppedSharing(Sharing):
    """The same of processes that share memory: none runs without the others."""

    def stops(self, **who):
        lender = self.lend(7, **{k: v for k, v in who.items() if k == "env"})
        borrowers = [self.borrow(), self.borrow(7, env=who.get("other"))]
        self.assertIn('tenant "t" stays suspended', self.refused("suspend", "t", "--timeout", "2s"))
        self.assertIn('tenant "t" stays suspended', self.refused("resume", "t", "--timeout", "2s"))
        for process in (lender, *borrowers):
            process.send_signal(signal.SIGCONT)
        self.comes_to(3 * STAYS)
        self.must("resume", "t")
        self.charged(3 * STAYS + self.LENT)
        for process in (*borrowers, lender):
            self.good(process)
        os.unlink(self.tmp + "/handles")

    def test_exporter(self):
        for point in ("COPIED", "OUT"):
            self.stops(env={"ALLOT_FAULT": f"GUEST_SWAP_{point}/STOP"})

    def test_importer(self):
        # It asks 16 times for what there is not, and for two pieces: then, whether they are copied.
        for point in ("SWAP_COPIED", "SHARE_ASKED:19", "SWAP_OUT"):
            self.stops(other={"ALLOT_FAULT": f"GUEST_{point}/STOP"})

    def test_called_off_at_once(self):
        """Who asked is killed, and it is to come back while it is on its way out: who does not know
        whether the others leave has the memory that they have."""
        lender = self.lend(7, env={"ALLOT_FAULT": "GUEST_SWAP_COPIED/STOP"})
        borrowers = [self.borrow(), self.borrow(7)]
        done = self.allot("suspend", "t", env={"ALLOT_FAULT": "SWAP_ASKED:2"})
        self.assertEqual(done.returncode, -signal.SIGKILL)
        os.waitpid(lender.pid, os.WUNTRACED)
        resume = subprocess.Popen([ALLOT, "resume", "t"], env=self.env, stdout=subprocess.DEVNULL)
        self.addCleanup(self.end, resume)
        time.sleep(0.5)  # the others have heard of it
        lender.send_signal(signal.SIGCONT)
        self.assertEqual(resume.wait(60), 0)
        for process in (*borrowers, lender):
            self.good(process)

    def is_ready(self, process):
        """To leave, by its own word, which stands in its slot of the ledger (SWAP_READY)."""
        with open(self.tmp + "/run/t/ledger", "rb") as ledger:
            ledger.seek(8192)
            slots = [ledger.read(256) for _ in range(16)]
        return any(struct.unpack_from("<I", slot, 8) == (process.pid,) and
                   struct.unpack_from("<H", slot, 194) == (3,) for slot in slots)

    def test_hears_of_nothing(self):
        """One is stopped while it is ready to leave, until whose memory it has left and is to come back:
        it has that process's memory, not what was there before."""
        lender, borrower = self.lend(7), self.borrow(7)
        state = lambda of: {p["pid"]: p["state"] for p in self.tenant()["processes"]}[of.pid]
        lender.send_signal(signal.SIGSTOP)
        suspend = subprocess.Popen([ALLOT, "suspend", "t"], stderr=subprocess.DEVNULL,
                                   env={**self.env, "ALLOT_FAULT": "SWAP_ASKED:2"})
        self.addCleanup(self.end, suspend)
        self.until(lambda: self.is_ready(borrower))
        borrower.send_signal(signal.SIGSTOP)
        lender.send_signal(signal.SIGCONT)
        self.assertEqual(suspend.wait(100), -signal.SIGKILL)
        self.until(lambda: state(lender) == "suspended")
        resume = subprocess.Popen([ALLOT, "resume", "t"], env=self.env, stdout=subprocess.DEVNULL)
        self.addCleanup(self.end, resume)
        self.until(lambda: state(lender) == "resuming" or self.used() > 2 * STAYS)
        borrower.send_signal(signal.SIGCONT)
        self.assertEqual(resume.wait(60), 0)
        for process in (borrower, lender):
            self.good(process)


class Asker(Case):
    """Ctrl-Z of the command: it stops when the tenant needs nobody, and is in no other one's way."""

    def begin(self, *args):
        # A group of its own: one whose shell is gone is stopped by no terminal.
        command = subprocess.Popen([ALLOT, *args], env=self.env, stdout=subprocess.DEVNULL,
                                   process_group=0)
        self.addCleanup(self.end, command)
        return command

    def states(self):
        return {p["pid"]: p["state"] for p in self.tenant()["processes"]}

    def stops(self, command, victim, state):
        command.send_signal(signal.SIGTSTP)
        victim.send_signal(signal.SIGCONT)
        self.until(lambda: set(self.states().values()) == {state})
        status = os.waitpid(command.pid, os.WUNTRACED)[1]
        self.assertTrue(os.WIFSTOPPED(status))
        self.assertEqual(os.WSTOPSIG(status), signal.SIGTSTP)

    def goes_on(self, command):
        command.send_signal(signal.SIGCONT)
        self.assertEqual(command.wait(100), 0)

    def test_suspend(self):
        guest, victim = self.guest("idle"), self.guest("idle", options=())
        victim.send_signal(signal.SIGSTOP)
        suspend = self.begin("suspend", "t")
        self.until(lambda: self.states()[guest.pid] == "suspending")
        self.stops(suspend, victim, "suspended")
        self.must("resume", "t")
        self.goes_on(suspend)
        for process in (guest, victim):
            self.good(process)

    def test_resume(self):
        guest = self.guest("idle")
        victim = self.guest("idle", options=(), env={"ALLOT_FAULT": "GUEST_SWAP_HALF_IN/STOP"})
        self.must("suspend", "t")
        resume = self.begin("resume", "t")
        os.waitpid(victim.pid, os.WUNTRACED)
        self.stops(resume, victim, "running")
        self.must("suspend", "t")
        self.goes_on(resume)
        self.must("resume", "t")
        for process in (guest, victim):
            self.good(process)


if __name__ == "__main__":
    unittest.main()
