# SPDX-License-Identifier: Apache-2.0
"""Ranks of one tenant on several devices, which wait for each other in collectives."""

import os
import subprocess

import compute_lib

GUEST = os.environ["COLLECTIVE_GUEST"]
SECONDS = 3
POINTS = 0.04


class Collective(compute_lib.Case):
    def steps(self, machine, *run):
        command = [compute_lib.ALLOT, "sim", "--gpus", "2", "--dir", machine.devices, "--"]
        if run:
            command += [compute_lib.ALLOT, "run", *map(str, run), "--"]
        done = subprocess.run([*command, GUEST, str(SECONDS)], env=machine.env, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout)

    def share(self, cap):
        def play(machine):
            alone = self.steps(machine)
            return self.steps(machine, "--compute", cap) / alone

        def judge(_, share):
            return None if abs(share - cap / 100) <= POINTS else f"{share:.1%} instead of {cap} %"

        self.measure(2, play, judge)

    def test_half(self):
        self.share(50)

    def test_quarter(self):
        self.share(25)


compute_lib.main()
