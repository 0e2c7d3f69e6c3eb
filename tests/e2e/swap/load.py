# SPDX-License-Identifier: Apache-2.0
"""Tenants that work while their memory leaves the device and comes back, over and over."""

import time
import unittest

from swap import STAYS, Case

CYCLES = 40


class Load(Case):
    """Programs with several threads and streams, which allocate, free, copy and launch graphs that
    were captured before, and look at every word that they hold."""

    def leave_and_come_back(self, guests, times):
        for cycle in range(times):
            self.must("suspend", "t", "--timeout", "60s")
            self.assertEqual(self.used(), len(guests) * STAYS, f"cycle {cycle}")
            self.must("resume", "t")
            time.sleep(0.02 * (cycle % 3))
        for guest in guests:
            self.good(guest)

    def test_cycles(self):
        guests = [self.guest("churn", str(seed)) for seed in (11, 12)]
        self.leave_and_come_back(guests, CYCLES)

    def test_pools(self):
        """Taken and freed in the order of streams, by threads that use each other's free memory."""
        guests = [self.guest("churn pools", str(seed)) for seed in (21, 22)]
        self.leave_and_come_back(guests, CYCLES // 10)

    def test_metered(self):
        """The same beside a limit of compute, whose gate is another one."""
        guest = self.guest("churn", "5", options=("--swappable", "--compute", "50"))
        for _ in range(10):
            self.must("suspend", "t", "--timeout", "60s")
            self.assertEqual(self.used(), STAYS)
            self.must("resume", "t")
        self.good(guest)


if __name__ == "__main__":
    unittest.main()
