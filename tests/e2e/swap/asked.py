# SPDX-License-Identifier: Apache-2.0
"""A process that is asked for OUT or BARE while it runs, as one is that begins while the others of its
tenant are being asked, answers that request once: when its memory has left."""
import os
import subprocess
import unittest

from swap import Case


class Asked(Case):
    def test_out_of_run(self):
        guest = self.guest("idle")
        done = subprocess.run([os.environ["SWAP_ASK"], self.tmp + "/run/t"], env=self.env, text=True,
                              capture_output=True, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.good(guest)


if __name__ == "__main__":
    unittest.main()
