# SPDX-License-Identifier: Apache-2.0
"""allotd decides whose turn it is, and may be killed at any time."""

import contextlib
import os
import signal
import socket
import subprocess
import time
import unittest
import urllib.request

import cli_lib
import compute_lib
from compute_lib import ALLOT, sleep_until

ALLOTD = os.environ["ALLOTD"]
SECONDS = 6
WEIGHTS = (3, 1)


class Daemon:
    """allotd on a machine. It has the role when it says so."""

    def __init__(self, machine):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.process = subprocess.Popen([ALLOTD, "--listen", f"127.0.0.1:{self.port}"],
                                        env=machine.env, stderr=subprocess.DEVNULL)

    def has_role(self):
        with contextlib.suppress(OSError):
            page = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10)
            return "\nallot_arbiter 1\n" in page.read().decode()
        return False

    def wait(self):
        for _ in range(500):
            if self.has_role():
                return self
            time.sleep(0.01)
        self.end(signal.SIGKILL)
        raise AssertionError("allotd did not get the arbiter's role within 5 s")

    def end(self, sig):
        self.process.send_signal(sig)
        self.process.wait()


class Daemons(compute_lib.Case):
    def ended(self, sig):
        """Twice under load: it takes the role, ends by `sig`, and a tenant goes on."""
        def play(machine):
            for name, weight in zip("ab", WEIGHTS):
                machine.load("--seconds", SECONDS,
                             run=("--name", name, "--policy", "share", "--weight", weight))
            start = machine.start()
            for at in (1, 3):
                sleep_until(start + at)
                daemon = Daemon(machine).wait()
                sleep_until(start + at + 1)
                daemon.end(sig)
            machine.finish()

        def judge(machine, _):
            heavy, light = machine.loads
            wrong = []
            for at in range(1, SECONDS - 1):
                of_one = heavy.bins(at, at + 1)
                both = of_one + light.bins(at, at + 1)
                if abs(of_one / both - 0.75) > 0.02 or both < 0.9:
                    wrong.append(f"{at} s: {of_one:.1%} of {both:.1%}")
            for load in machine.loads:
                if load.process.returncode:
                    wrong.append(f"a load ended: {load.process.returncode}")
            return ", ".join(wrong)

        self.measure(1, play, judge)

    @staticmethod
    def open_to_all(tenant):
        """As `allot cdi hook` does it."""
        for name, mode in (("policy", 0o444), ("ledger", 0o666), ("", 0o1755)):
            os.chmod(os.path.join(tenant, name), mode)

    def test_killed(self):
        self.ended(signal.SIGKILL)

    def test_ended(self):
        self.ended(signal.SIGTERM)

    def test_from_the_start(self):
        """Tenants that come where a daemon is that rests."""
        self.come()

    def test_in_containers(self):
        """Those whose files are open to all have none that others have, too."""
        self.come(apart=True)

    @unittest.skipIf(cli_lib.NO_USERS, cli_lib.NO_USERS)
    def test_of_two_users(self):
        """In one place, which allotd keeps: today each had half."""
        def play(machine):
            self.share_devices(machine)
            daemon = Daemon(machine).wait()
            try:
                for uid, weight in zip((12345, 65534), WEIGHTS):
                    machine.load("--seconds", 2.5, run=("--weight", weight),
                                 before=("setpriv", f"--reuid={uid}", f"--regid={uid}",
                                         "--clear-groups"))
                machine.start()
                machine.finish()
            finally:
                daemon.end(signal.SIGTERM)

        def judge(machine, _):
            return self.shares_wrong(machine)

        self.measure(1, play, judge)

    @staticmethod
    def share_devices(machine):
        """Made by us, for all users."""
        os.chmod(machine.tmp, 0o755)
        machine.allot("sim", "--shared", "--gpus", machine.gpus, "--dir", machine.devices, "--",
                      "true")

    @staticmethod
    def shares_wrong(machine):
        heavy, light = machine.loads
        of_one, both = heavy.bins(0.5, 2.4), heavy.bins(0.5, 2.4) + light.bins(0.5, 2.4)
        if abs(of_one / both - 0.75) > 0.02 or both < 0.9:
            return f"{of_one:.1%} of {both:.1%}"
        return None

    def come(self, apart=False):
        def play(machine):
            daemon = Daemon(machine).wait()
            try:
                time.sleep(1.5)  # it rests by now, and is woken by who works
                for name, weight in zip("ab", WEIGHTS):
                    options = ("--name", name, "--policy", "share", "--weight", weight)
                    if apart:
                        machine.allot("run", "--print-env", *options)
                        self.open_to_all(os.path.join(machine.env["ALLOT_RUNTIME_DIR"], name))
                    machine.load("--seconds", 2.5, run=options)
                    machine.loads[-1].ready()
                if apart:  # it hears that they are there, and rests again
                    machine.allot("set", "b", "--weight", WEIGHTS[1])
                    time.sleep(1.5)
                machine.start()
                machine.finish()
                return daemon.has_role()
            finally:
                daemon.end(signal.SIGTERM)

        def judge(machine, held):
            return self.shares_wrong(machine) if held else "the daemon lost the role"

        self.measure(1, play, judge)


if __name__ == "__main__":
    compute_lib.main()
