#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tenants of random sizes that take turns on memory, in an order that follows from a seed: they are asked
to look at every word of what they hold, and want more; are suspended, resumed, stopped, killed at any
time and at fault points, and started again by the same name, and so are the commands. In the end each of
them answers, and nothing is left on the devices.

    turns.py --from 1 --count 2                 as in `make check`
    turns.py --from 1 --count 100 --seconds 20  by hand; BUILD says where the programs are
"""

import argparse
import contextlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "..", "build"))
# For who runs this by hand; meson says where they are.
for variable, place in (("ALLOT", "src/cli/allot"), ("SWAP_GUEST", "tests/e2e/swap/swap_guest"),
                        ("SWAP_TRUTH", "tests/e2e/swap/swap_truth"), ("LD_LIBRARY_PATH", "sim")):
    os.environ.setdefault(variable, os.path.abspath(os.path.join(BUILD, place)))
ALLOT, GUEST, TRUTH = (os.environ[name] for name in ("ALLOT", "SWAP_GUEST", "SWAP_TRUTH"))

MIB = 1 << 20
TOO_LONG_S = 240
STOPPED_S = (0.2, 0.9)  # less than after which somebody counts as stopped
FAULTS = [f"GUEST_SWAP_{step}" for step in ("SHUT", "COPIED", "HALF_OUT", "OUT", "HALF_IN", "IN")] + [
    f"RESIDENCY_{step}" for step in ("TAKEN", "LEAVES", "OUT", "COMES", "RUNS")] + [
    "GUEST_ROOM_WISHED", "GUEST_RESERVED", "GUEST_DRIVER_GAVE", "SWAP_ASKED"]


class Wrong(Exception):
    pass


class Guest:
    """One process, the only one of its tenant."""

    def __init__(self, storm, name, fault):
        pick = storm.random
        self.name, self.fault, self.killed = name, fault, False
        self.ready, self.asked, self.said = False, False, b""
        self.goes_on_s = None
        holds = pick.randrange(3, storm.most_mib + 1)
        self.quota = min(storm.memory_mib, holds + storm.context_mib + 8 + pick.randrange(12))
        what = pick.choice(["serve"] * 4 + ["spread"] * (storm.devices > 1))
        options = ["--overcommit", "--memory", f"{self.quota}MiB",
                   "--priority", pick.choice(["low", "normal", "normal", "high"])]
        storm.started += 1
        self.words = [name, what, str(holds), *options[3:], *([fault] if fault else [])]
        # The life of a file that is read when it has died.
        self.errors = tempfile.TemporaryFile(dir=storm.tmp)  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            [ALLOT, "run", "--name", name, *options, "--", GUEST, what, str(holds),
             str(storm.started * 10000)],
            env={**storm.env, **({"ALLOT_FAULT": fault} if fault else {})}, bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def write(self, word):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(word + b"\n")

    def ask(self, word=b""):
        if self.ready and not self.asked:
            self.asked = True
            self.write(word)

    def stop(self, seconds):
        self.goes_on_s = time.monotonic() + seconds
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.goes_on_s = None
        self.process.send_signal(signal.SIGCONT)

    def hear(self):
        """Whether it lives."""
        while select.select([self.process.stdout], [], [], 0)[0]:
            part = os.read(self.process.stdout.fileno(), 4096)
            if not part:
                self.process.wait()
                return False
            *lines, self.said = (self.said + part).split(b"\n")
            for line in lines:
                self.ready = True
                self.asked = self.asked and line not in (b"served", b"refused")
        return True

    def must_have_died(self):
        """It may have found no room for what it began with."""
        self.errors.seek(0)
        said = self.errors.read().decode()
        if self.process.returncode == -signal.SIGKILL and (self.killed or self.fault):
            return
        if self.ready or self.process.returncode != 1 or "error 2" not in said:
            raise Wrong(f"{self.words}: {self.process.returncode}, {said}")

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            self.go_on()
        self.process.kill()
        self.process.communicate()
        self.errors.close()


class Storm:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.devices = self.random.choice([1, 1, 1, 2, 3])
        self.memory_mib = self.random.choice([64, 80, 128, 200])
        self.context_mib = self.random.choice([1, 2])
        names = self.random.choice([3, 4, 5, 8])
        # Contexts and code of all, which stay; the largest one fits beside them.
        self.most_mib = min((self.memory_mib - names * (self.context_mib + 2)) * 4 // 5, 60)
        self.started = 0
        self.tmp = tempfile.mkdtemp(prefix="allot-turns-", dir="/dev/shm")
        self.env = {**os.environ, "ALLOT_RUNTIME_DIR": self.tmp + "/run",
                    "ALLOT_SIM_DIR": self.tmp + "/sim", "ALLOT_SIM_GPUS": str(self.devices),
                    "ALLOT_SIM_MEMORY": f"{self.memory_mib}MiB",
                    "ALLOT_SIM_CONTEXT": str(self.context_mib * MIB)}
        self.truth = subprocess.Popen([TRUTH], env=self.env, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        self.used()
        self.guests = {f"t{i}": Guest(self, f"t{i}", None) for i in range(names)}

    def used(self):
        self.truth.stdin.write("\n")
        self.truth.stdin.flush()
        return json.loads(self.truth.stdout.readline())["used"]

    def allot(self, *words, fault=None):
        subprocess.run([ALLOT, *words], env={**self.env, **({"ALLOT_FAULT": fault} if fault else {})},
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TOO_LONG_S,
                       stdin=subprocess.DEVNULL, check=False)

    def look(self):
        """The dead are replaced, at once."""
        for name, guest in self.guests.items():
            if guest.goes_on_s and time.monotonic() > guest.goes_on_s:
                guest.go_on()
            if guest.hear():
                continue
            guest.must_have_died()
            guest.end()
            fault = None
            if self.random.random() < 0.5:
                fault = self.random.choice(FAULTS) + self.random.choice(["", ":2", ":5"])
            self.guests[name] = Guest(self, name, fault)
        if max(self.used()) > self.memory_mib * MIB:
            raise Wrong(f"{self.used()} on devices of {self.memory_mib} MiB")

    def act(self):
        guest = self.random.choice(list(self.guests.values()))
        stopped = any(g.goes_on_s for g in self.guests.values())
        what = self.random.random()
        if what < 0.9 or stopped or not guest.ready:
            more = b"%d" % self.random.randrange(8) if self.random.random() < 0.2 else b""
            guest.ask(more)
        elif what < 0.94:
            fault = f"SWAP_ASKED:{self.random.randrange(1, 4)}" if self.random.random() < 0.4 else None
            self.allot(self.random.choice(["suspend", "resume"]), guest.name, fault=fault)
        elif what < 0.96:
            self.allot("set", guest.name, "--memory",
                       f"{guest.quota + self.random.choice([-8, 0, 5])}MiB")
        elif what < 0.98:
            guest.stop(self.random.uniform(*STOPPED_S))
        else:
            guest.killed = True
            guest.process.kill()

    def settle(self):
        """All that live answer once more, whatever was done to them."""
        for guest in self.guests.values():
            guest.go_on()
            self.allot("set", guest.name, "--memory", f"{guest.quota}MiB")
        end = time.monotonic() + TOO_LONG_S
        to_ask = set(self.guests)
        while to_ask or any(g.asked for g in self.guests.values()):
            self.look()
            for guest in self.guests.values():
                if guest.name in to_ask and guest.ready and not guest.asked:
                    guest.ask()
                    to_ask.discard(guest.name)
            if time.monotonic() > end:
                raise Wrong(f"{[g.words for g in self.guests.values() if not g.ready or g.asked]} wait")
            time.sleep(0.01)

    def quit(self):
        for guest in self.guests.values():
            guest.write(b"q")
        for guest in self.guests.values():
            out, _ = guest.process.communicate(timeout=TOO_LONG_S)
            if guest.process.returncode or not out.endswith(b"good\n"):
                guest.must_have_died()
        end = time.monotonic() + 5
        while any(self.used()) and time.monotonic() < end:
            time.sleep(0.02)
        if any(self.used()):
            raise Wrong(f"{self.used()} is left")

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            self.act()
            time.sleep(0.003)
        self.settle()
        self.quit()

    def end(self):
        for guest in self.guests.values():
            guest.end()
        self.truth.kill()
        self.truth.communicate()
        shutil.rmtree(self.tmp, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    args = parser.parse_args()
    failed = 0
    for seed in range(args.first, args.first + args.count):
        storm = Storm(seed)
        try:
            storm.run(args.seconds)
        except (Wrong, subprocess.TimeoutExpired) as wrong:
            failed += 1
            print(f"seed {seed}: {wrong}", flush=True)
        finally:
            storm.end()
    print(f"{args.count} storms, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
