# SPDX-License-Identifier: Apache-2.0
"""Ranks of one tenant on several devices, which wait for each other in collectives."""

import contextlib
import os
import subprocess
import sys
import time

import compute_lib

GUEST = os.environ["COLLECTIVE_GUEST"]
SECONDS = 3
STEP_S = 1.88e-3  # of the device's time
# Of one second at 25 % the other rank's wait costs four tenths; half of what is left has to be done.
LATE_MS, LATE_STEPS = 100, 40
BURSTS = """
import random, time
while True:
    until = time.monotonic() + random.uniform(0, 0.04)
    while time.monotonic() < until:
        pass
    time.sleep(random.uniform(0, 0.16))
"""


@contextlib.contextmanager
def busy_processor():
    """Others want the processor, too, so that whoever wakes up may be late by some milliseconds."""
    others = [subprocess.Popen([sys.executable, "-c", BURSTS])
              for _ in range(os.cpu_count() + 1)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


class Collective(compute_lib.Case):
    def steps(self, machine, *words, seconds=SECONDS, run=()):
        """How many were done, beside a load on a device of its own that says whether the processor
        was there."""
        canary = machine.load("--device", 2, "--form", "request", "--kernel-us", 10,
                              "--seconds", seconds, "--warm-up", 0.1)
        canary.ready()
        canary.start(time.monotonic_ns())
        command = [compute_lib.ALLOT, "sim", "--gpus", machine.gpus, "--dir", machine.devices, "--"]
        if run:
            command += [compute_lib.ALLOT, "run", *run, "--"]
        command += [GUEST, seconds, *words]
        done = subprocess.run(list(map(str, command)), env=machine.env, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        canary.finish()
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout)

    def share(self, cap, points, *words):
        def play(machine):
            alone = self.steps(machine, *words)
            if alone * STEP_S < 0.9 * SECONDS:
                self.skipTest(f"{alone} steps alone: this processor launches them too slowly")
            return self.steps(machine, *words, run=("--compute", cap)) / alone

        def judge(_, share):
            return None if abs(share - cap / 100) <= points else f"{share:.1%} instead of {cap} %"

        self.measure(3, play, judge)

    def test_half(self):
        self.share(50, 0.04)

    def test_quarter(self):
        self.share(25, 0.04)

    def test_training(self):
        """After each pause the host has to get ahead again."""
        self.share(50, 0.08, "training")
        self.share(25, 0.08, "training")

    def late_rank(self, runs):
        for _ in range(runs):
            self.measure(3, lambda machine: self.steps(machine, "training", LATE_MS, seconds=1,
                                                       run=("--compute", 25)),
                         lambda _, steps: None if steps >= LATE_STEPS else f"{steps} steps")

    def test_late_rank(self):
        """What the other one waits is paid for, once: before anything was measured it looks like
        any kernel, but is not to be paid for anew when it is the pause for it that both wait for.
        How far each one came by then is chance."""
        self.late_rank(6)

    def test_late_rank_and_late_wakeups(self):
        """A pause is one and the same, also for who wakes up in it and is late."""
        self.crowded = True
        with busy_processor():
            self.late_rank(10)


compute_lib.main()
