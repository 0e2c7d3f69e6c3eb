# SPDX-License-Identifier: Apache-2.0
"""How many calls into the driver a pair of cuMemAlloc and cuMemFree makes in a tenant whose memory
can leave, before a driver that only counts them."""

import json
import os
import subprocess
import tempfile
import unittest


class Calls(unittest.TestCase):
    def calls(self, *options):
        with tempfile.TemporaryDirectory(prefix="allot-swap-") as runtime:
            done = subprocess.run([os.environ["ALLOT"], "run", "--memory", "1GiB", *options, "--",
                                   os.environ["SWAP_HOOKS"]],
                                  env={**os.environ, "ALLOT_RUNTIME_DIR": runtime}, timeout=60,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_pairs(self):
        """As many as where memory stays: a granule and less, and 64 MiB."""
        stays, leaves = self.calls(), self.calls("--swappable")
        for item in "alloc_free_small", "alloc_free_granule", "alloc_free":
            self.assertEqual(leaves[item], stays[item])


unittest.main()
