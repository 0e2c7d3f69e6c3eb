# SPDX-License-Identifier: Apache-2.0
"""Ranks of one tenant on several devices, which wait for each other in collectives."""

import os
import subprocess
import time

import compute_lib

GUEST = os.environ["COLLECTIVE_GUEST"]
SECONDS = 3
STEP_S = 1.88e-3  # of the device's time


class Collective(compute_lib.Case):
    def steps(self, machine, *words, run=()):
        """How many were done, beside a load on a device of its own that says whether the processor
        was there."""
        canary = machine.load("--device", 2, "--form", "request", "--kernel-us", 10,
                              "--seconds", SECONDS, "--warm-up", 0.1)
        canary.ready()
        canary.start(time.monotonic_ns())
        command = [compute_lib.ALLOT, "sim", "--gpus", machine.gpus, "--dir", machine.devices, "--"]
        if run:
            command += [compute_lib.ALLOT, "run", *run, "--"]
        done = subprocess.run([*map(str, command), GUEST, str(SECONDS), *words], env=machine.env,
                              text=True, timeout=60, stdin=subprocess.DEVNULL, capture_output=True,
                              check=False)
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


compute_lib.main()
