# SPDX-License-Identifier: Apache-2.0
"""Tenants that take turns on memory, where allotd decides which of them has its memory on the
(simulated) device; it may come, be killed or stopped, and end at any time."""

import collections
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import unittest
import urllib.request

from overcommit import Turns

ALLOTD = os.environ["ALLOTD"]


class Daemon(Turns):
    def starts_daemon(self, **env):
        """And answers what tells if it has claimed the role."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        daemon = subprocess.Popen([ALLOTD, "--foreground", "--listen", f"127.0.0.1:{port}"],
                                  env={**self.env, **env}, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, daemon)

        def claimed():
            with contextlib.suppress(OSError), \
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
                return "\nallot_residency 1\n" in page.read().decode()
            return False
        return daemon, claimed

    def daemon(self, **env):
        daemon, claimed = self.starts_daemon(**env)
        self.until(claimed)
        return daemon

    @staticmethod
    def mappings(pid):
        """The file once; once more, if the process has claimed the role, and if it holds it."""
        return pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").count("/.residency\n")

    def decides(self, daemon):
        return self.mappings(daemon.pid) == 3

    def tenant_decides(self):
        return any(self.mappings(p["pid"]) == 2
                   for t in self.tenants().values() for p in t["processes"])

    def only_daemon_decides(self, daemon):
        self.until(lambda: self.decides(daemon))
        self.until(lambda: not self.tenant_decides())

    def compute_two(self, env=None):
        return [self.compute(n, i * 1000, env=env) for i, n in enumerate("ab")]

    def end_all(self, guests):
        for guest in guests:
            self.good(guest)
        self.assertEqual(self.used(), 0)

    def test_decides_alone(self):
        """A tenant's process that took the role would die."""
        daemon = self.daemon()
        guests = self.compute_two(env={"ALLOT_FAULT": "RESIDENCY_TAKEN"})
        self.changes("ab", 3)
        self.assertTrue(self.decides(daemon))
        self.end_all(guests)

    def test_nobody_waits(self):
        """It holds nothing of any tenant then, for turns on memory."""
        daemon = self.daemon()
        other = self.guest("serve", "2", "9", options=("--memory", "16MiB"), name="o")
        guests = [self.serve(n, i) for i, n in enumerate("ab")]
        for _ in range(2):
            for guest in guests:
                self.assertEqual(self.ask(guest), "served")
        self.until(lambda: self.mappings(daemon.pid) == 2)
        maps = pathlib.Path(f"/proc/{daemon.pid}/maps").read_text(encoding="utf-8")
        # Its measurement of energy has two files of each tenant, as long as that lives.
        self.assertLessEqual(collections.Counter(re.findall("/run/a/(.*)$", maps, re.M)),
                             collections.Counter(["policy", "ledger"]))
        for guest in guests:
            self.assertEqual(self.ask(guest), "served")
            self.quit(guest)
        self.quit(other)

    def test_idle(self):
        """A tenant's process that took the role would die."""
        daemon = self.daemon()
        guest = self.serve("a", 1, env={"ALLOT_FAULT": "RESIDENCY_TAKEN"},
                           options=("--idle-suspend", "1s"))
        for _ in range(2):
            self.until(lambda: self.places()["a"] == "suspended")
            self.assertEqual(self.ask(guest), "served")
        self.quit(guest)
        self.until(lambda: self.mappings(daemon.pid) == 2)

    def test_comes_later(self):
        guests = self.compute_two()
        self.changes("ab", 1)
        self.assertTrue(self.tenant_decides())
        daemon = self.daemon()
        self.only_daemon_decides(daemon)
        self.changes("ab", 2)
        self.assertTrue(self.decides(daemon))
        self.end_all(guests)

    def test_ends(self):
        for sig in (signal.SIGKILL, signal.SIGTERM):
            daemon = self.daemon()
            guests = self.compute_two()
            self.only_daemon_decides(daemon)
            self.changes("ab", 1)
            daemon.send_signal(sig)
            self.assertEqual(daemon.wait(60), 0 if sig == signal.SIGTERM else -sig)
            self.until(self.tenant_decides)
            self.changes("ab", 2)
            self.end_all(guests)

    def test_killed_at_each_step(self):
        for point in ("TAKEN", "DECIDED", "LEAVES", "OUT", "COMES", "RUNS"):
            daemon = self.daemon(ALLOT_FAULT=f"RESIDENCY_{point}")
            guests = self.compute_two()
            self.assertEqual(daemon.wait(60), -signal.SIGKILL, point)
            self.changes("ab", 1)
            self.end_all(guests)

    def test_stopped_at_each_step(self):
        for point in ("TAKEN", "LEAVES", "COMES"):
            daemon = self.daemon(ALLOT_FAULT=f"RESIDENCY_{point}/STOP")
            guests = self.compute_two()
            self.until(lambda: self.is_stopped(daemon))
            self.changes("ab", 1)
            daemon.send_signal(signal.SIGCONT)
            self.only_daemon_decides(daemon)
            self.end_all(guests)
            self.end(daemon)

    def test_stopped(self):
        daemon = self.daemon()
        guests = self.compute_two()
        self.only_daemon_decides(daemon)
        daemon.send_signal(signal.SIGSTOP)
        self.until(self.tenant_decides)
        self.changes("ab", 2)
        daemon.send_signal(signal.SIGCONT)
        self.only_daemon_decides(daemon)
        self.changes("ab", 2)
        self.end_all(guests)

    def test_cut_ledger(self):
        """A tenant like a container's cuts its ledger, which the role holder has mapped."""
        daemon = self.daemon()
        guests = self.compute_two()
        other = self.guest("serve", "2", "9", options=("--memory", "16MiB"), name="o")
        run = pathlib.Path(self.tmp, "run", "o")
        run.chmod(0o1711)
        self.only_daemon_decides(daemon)
        self.changes("ab", 1)
        other.send_signal(signal.SIGSTOP)
        os.truncate(run / "ledger", 4096)
        self.changes("ab", 2)
        self.assertTrue(self.decides(daemon))
        for guest in guests:
            self.good(guest)

    def test_second(self):
        """It waits for the first one's end."""
        first = self.daemon()
        guests = self.compute_two()
        self.only_daemon_decides(first)
        second, claimed = self.starts_daemon()
        self.changes("ab", 1)
        self.assertFalse(claimed())
        first.kill()
        first.wait()
        self.only_daemon_decides(second)
        self.changes("ab", 1)
        self.end_all(guests)


if __name__ == "__main__":
    unittest.main()
