# SPDX-License-Identifier: Apache-2.0
"""What the tests of compute shares share: loads in tenants on simulated devices, started together,
and a measurement that is taken again when the processor was not there to be measured with."""

import fcntl
import glob
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ALLOT, LOAD = os.environ["ALLOT"], os.environ["ALLOT_LOAD"]
OWN = ("ALLOT_TENANT_DIR", "ALLOT_SIM_DIR", "ALLOT_SIM_GPUS", "ALLOT_SIM_MEMORY", "ALLOT_LIBRARY",
       "ALLOT_SIM_CONTEXT", "LD_PRELOAD", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES",
       "CUDA_DEVICE_ORDER", "XDG_RUNTIME_DIR")
SHM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
# A thread that only sleeps was late by this part of the time, or once by so much: whatever was
# measured meanwhile is the machine's, not ours.
LATE_PART, LATEST_MS = 0.01, 15
# So much of a processor went to programs that are not ours. A sleeper does not see that: the kernel
# wakes it at once, and what works has to wait.
OTHERS_PART = 0.25
ATTEMPTS = 3
LIFE_AT = (1 << 41) + 1024  # LEDGER_LOCK_LIFE of src/ledger/layout.h


class Program:
    """A program on the machine's devices that is spoken with, line by line: in a tenant (options of
    `allot run`) or in none. `env`: what its environment has beside the machine's; `inside`: what
    the program itself has of it, and `allot sim` has not; `before`: a command that starts it."""

    def __init__(self, machine, command, run=None, env=(), inside=(), before=()):
        command = [*map(str, command)]
        if run is not None:
            command = [ALLOT, "run", *map(str, run), "--", *command]
        if inside:
            command = ["env", *(f"{key}={value}" for key, value in inside.items()), *command]
        self.process = subprocess.Popen(
            [*before, ALLOT, "sim", "--gpus", str(machine.gpus), "--dir", machine.devices, "--",
             *command], env={**machine.env, **dict(env)}, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Load(Program):
    """A load that waits for its start."""

    def __init__(self, machine, *words, **kwargs):
        super().__init__(machine, [LOAD, "--canary", "--wait", "--loops-per-us", "1", *words],
                         **kwargs)
        self.pids, self.results = [], []

    def ready(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"a load ended before it was ready: {self.process.wait()}")
        self.pids = json.loads(line)["pids"]

    def start(self, at_ns):
        self.process.stdin.write(f"{at_ns}\n")
        self.process.stdin.flush()

    def finish(self):
        self.results = [json.loads(line) for line in self.process.stdout]
        self.process.wait()
        return self

    @property
    def share(self):
        return sum(r["share"] for r in self.results)

    def bins(self, from_s, to_s):
        """The mean share of the whole bins between two instants, in seconds from the start."""
        width = self.results[0]["bin_ms"] / 1e3
        first, last = int(from_s / width + 0.999), int(to_s / width + 1e-6)
        return sum(sum(r["bins"][first:last]) for r in self.results) / (last - first)

    def stretches(self, from_s, to_s, busy):
        """The lengths, in seconds, of runs of bins in which next to nothing was done; or `busy`:
        something."""
        width = self.results[0]["bin_ms"] / 1e3
        found, length = [], 0
        for i in range(int(from_s / width + 0.999), int(to_s / width + 1e-6)):
            if (sum(r["bins"][i] for r in self.results) >= 0.02) == busy:
                length += 1
            elif length:
                found.append(length * width)
                length = 0
        return found + [length * width] if length else found


class Machine:
    """Simulated devices and a place for tenants, of a test's own."""

    def __init__(self, gpus=1):
        self.gpus = gpus
        # In memory: an overlay, as /tmp is in a container, does not keep locks with mappings.
        self.tmp = tempfile.mkdtemp(prefix="allot-test-", dir=SHM)
        self.devices = os.path.join(self.tmp, "devices")
        self.env = {k: v for k, v in os.environ.items() if k not in OWN}
        self.env["ALLOT_RUNTIME_DIR"] = os.path.join(self.tmp, "run")
        self.loads, self.held = [], {}

    def hold(self):
        """Keeps the tenants that there are, with their figures, until the machine is closed."""
        lock = struct.pack("hhqqixxxx", fcntl.F_RDLCK, os.SEEK_SET, LIFE_AT, 1, 0)
        for ledger in glob.glob(os.path.join(self.env["ALLOT_RUNTIME_DIR"], "*", "ledger")):
            if ledger not in self.held:
                self.held[ledger] = os.open(ledger, os.O_RDONLY | os.O_CLOEXEC)
                fcntl.fcntl(self.held[ledger], fcntl.F_OFD_SETLK, lock)

    def load(self, *words, **kwargs):
        self.loads.append(Load(self, *words, **kwargs))
        return self.loads[-1]

    def allot(self, *words):
        done = subprocess.run([ALLOT, *map(str, words)], env=self.env, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode:
            raise AssertionError(f"allot {words}: {done.stderr}")
        return done.stdout

    def start(self):
        """All loads at one instant, which is answered as time.monotonic() says it."""
        for load in self.loads:
            if not load.pids:
                load.ready()
        at_ns = time.monotonic_ns() + 50_000_000
        for load in self.loads:
            load.start(at_ns)
        return at_ns / 1e9

    def finish(self):
        for load in self.loads:
            load.finish()

    def close(self):
        for load in self.loads:
            load.end()
        for fd in self.held.values():
            os.close(fd)
        shutil.rmtree(self.tmp, ignore_errors=True)


class Others:
    """How much of a processor went elsewhere since: to the machine's other programs, or away from
    it. What ours had is known of children that were waited for."""

    def __init__(self):
        self.began, self.elsewhere_s = time.monotonic(), self.count()

    @staticmethod
    def count():
        try:
            with open("/proc/stat", encoding="ascii") as file:
                user, nice, system, _, _, *irq_and_steal = map(int, file.readline().split()[1:9])
        except (OSError, ValueError):
            return 0  # then sleepers alone are asked
        ours = sum(usage.ru_utime + usage.ru_stime for usage in
                   map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
        return sum((user, nice, system, *irq_and_steal)) / os.sysconf("SC_CLK_TCK") - ours

    def words(self):
        """Where it was too much to measure anything; else None."""
        part = (self.count() - self.elsewhere_s) / (time.monotonic() - self.began)
        return f"others had {part:.1f} processors" if part > OTHERS_PART else None


class Case(unittest.TestCase):
    crowded = False  # by the test itself, so that others having the processor excuses nothing

    def measure(self, gpus, play, judge):
        """play(machine) starts loads and waits for their end, judge(machine, played) answers what
        is wrong, in words. What is wrong while the processor was elsewhere is measured again; the
        bounds stay. What is wrong on time is wrong when it is so twice. Where the processor is
        elsewhere each time nothing can be measured, and the test is skipped, which meson shows."""
        on_time = 0
        for _ in range(ATTEMPTS):
            machine, others = Machine(gpus), Others()
            try:
                wrong = judge(machine, play(machine))
                late = self.late(machine)
            finally:
                machine.close()
            if not wrong:
                return
            late = late or (None if self.crowded else others.words())
            print(f"{self.id()}: {wrong}; " +
                  (f"the processor was elsewhere: {late}" if late else "on time"), flush=True)
            on_time += not late
            if on_time == 2:
                self.fail(wrong)
        self.skipTest(f"the processor was elsewhere, at last: {wrong}")

    @staticmethod
    def late(machine):
        """In words, when the processor was too late to measure anything; else None."""
        worst = None
        for load in machine.loads:
            for r in load.results:
                if r["late_ms"] > LATE_PART * r["seconds"] * 1e3 or r["latest_ms"] > LATEST_MS:
                    if worst is None or r["late_ms"] > worst[0]:
                        worst = (r["late_ms"], r["latest_ms"])
        return worst and f"a sleeper was late by {worst[0]} ms in all, {worst[1]} ms at once"


def sleep_until(at):
    time.sleep(max(0, at - time.monotonic()))


def main():
    result = unittest.main(argv=[sys.argv[0], "-v"], exit=False).result
    for _, why in result.skipped:
        print(why, file=sys.stderr)
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
