# SPDX-License-Identifier: Apache-2.0
"""allot-load's token loop does the work that it says, and notes each token."""

import json
import subprocess
import time

import cli_lib
from cli_lib import ALLOT, LOAD

STEP_US = 50 * 40
EAGER_US = 85 / 13  # a brief kernel, on average


class Token(cli_lib.Case):
    def load(self, *args):
        return self.start(ALLOT, "sim", "--", LOAD, "--form", "token", "--loops-per-us", "1",
                          "--kernel-us", "40", "--seconds", "1", *args)

    def test_tokens(self):
        out, _ = self.load().communicate(timeout=60)
        ready, found = map(json.loads, out.splitlines())
        self.assertEqual((ready["stage"], found["form"]), ("ready", "token"))
        self.assertGreater(found["graphs"], 0)
        self.assertEqual(found["kernels"], found["graphs"] * 50)
        self.assertLessEqual(abs(found["latency_us"]["n"] - found["graphs"]), 1)
        # Half of them within less would be a loop that does not wait for its graphs.
        self.assertGreaterEqual(found["latency_us"]["p50"], STEP_US * 0.99)

    def test_brief_kernels_come_first(self):
        began = time.monotonic()
        process = self.load("--eager", "60000")
        process.stdout.readline()
        self.assertGreater(time.monotonic() - began, 60000 * EAGER_US / 1e6)

    def test_refused(self):
        done = subprocess.run([LOAD, "--form", "token", "--lean"], text=True, check=False,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--form token", done.stderr)


if __name__ == "__main__":
    cli_lib.main()
