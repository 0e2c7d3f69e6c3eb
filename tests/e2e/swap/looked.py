# SPDX-License-Identifier: Apache-2.0
"""What has not changed since it last left is not copied again (ALLOT_LOOK)."""

import json
import unittest

import load
from swap import IDLE, MIB, STAYS, Case

CYCLES = 25


class Looked(Case):
    def setUp(self):
        super().setUp()
        self.env["ALLOT_LOOK"] = "1"

    def looked(self):
        """Of each time that memory left: how much, and how much of that had not changed."""
        events = json.loads(self.must("trace", "t", "--json"))["traceEvents"]
        return [(e["args"]["bytes"], e["args"]["unchanged_bytes"]) for e in events
                if e["name"] == "swap_looked"]

    def leave_and_return(self):
        self.must("suspend", "t")
        self.must("resume", "t")

    def test_at_rest(self):
        guest = self.guest("idle", options=("--swappable", "--trace"))
        for _ in range(3):
            self.leave_and_return()
        self.assertEqual(self.looked(), [(IDLE, 0), (IDLE, IDLE), (IDLE, IDLE)])
        self.good(guest)

    def test_a_full_quota(self):
        """It has no room for the code: all is copied, and nothing is refused."""
        guest = self.guest("idle", options=("--swappable", "--trace", "--memory",
                                            f"{(IDLE + STAYS) // MIB}MiB"))
        for _ in range(2):
            self.leave_and_return()
        self.assertEqual(self.looked(), [])
        self.assertEqual(self.device()["refusals"], 0)
        self.good(guest)

    def test_nobody_asked(self):
        del self.env["ALLOT_LOOK"]
        guest = self.guest("idle", options=("--swappable", "--trace"))
        for _ in range(2):
            self.leave_and_return()
        self.assertEqual(self.looked(), [])
        self.good(guest)


class Works(Looked, load.Load):
    """Threads write, free and take memory all the time: no change is missed."""

    def test_cycles(self):
        guests = [self.guest("churn", str(seed), options=("--swappable", "--trace"))
                  for seed in (11, 12)]
        self.leave_and_come_back(guests, CYCLES)

    def test_what_changes(self):
        guest = self.guest("churn", "13", options=("--swappable", "--trace"))
        for _ in range(CYCLES):
            self.leave_and_return()
        looked = self.looked()
        self.assertEqual(looked[0][1], 0)
        self.assertTrue(any(unchanged < all_ for all_, unchanged in looked[1:]), looked)
        self.assertTrue(any(unchanged for _, unchanged in looked), looked)
        self.good(guest)


if __name__ == "__main__":
    unittest.main(argv=[__file__, "Looked", "Works.test_cycles", "Works.test_pools",
                        "Works.test_what_changes"])
