# SPDX-License-Identifier: Apache-2.0
"""Memory that has not changed since it last left is not copied again (`allot run --look`)."""

import json
import shutil
import tempfile
import unittest

from find_disk import find_disk
from swap import IDLE, MIB, STAYS, Case

CYCLES = 12


class Looking(Case):
    def looked(self):
        """Of each time that memory left: how much, and how much of that had not changed."""
        events = json.loads(self.must("trace", "t", "--json"))["traceEvents"]
        return [(e["args"]["bytes"], e["args"]["unchanged_bytes"]) for e in events
                if e["name"] == "swap_looked"]

    def leave_and_return(self):
        self.must("suspend", "t")
        self.must("resume", "t")


class Looked(Looking):
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

    def all_is_copied(self, *options, look="hash", env=None):
        """Nothing is looked at, and nothing is refused or lost for that."""
        guest = self.guest("idle", options=("--swappable", "--trace", *options), env=env)
        for _ in range(2):
            self.leave_and_return()
        self.assertEqual(self.looked(), [])
        self.assertEqual(self.device()["refusals"], 0)
        self.assertEqual(self.tenant()["look"], look)
        self.good(guest)

    def test_off(self):
        self.all_is_copied("--look", "off", look="off")

    def test_no_compiler(self):
        """The code is PTX: a driver that may compile none refuses it."""
        self.all_is_copied(env={"CUDA_DISABLE_PTX_JIT": "1"})

    def test_bytes(self):
        """Without hashes nothing is known of what left before."""
        guest = self.guest("idle", options=("--swappable", "--trace", "--look", "bytes"))
        for _ in range(2):
            self.leave_and_return()
        self.assertEqual([unchanged for _, unchanged in self.looked()], [0, 0])
        self.assertEqual(self.tenant()["look"], "bytes")
        self.good(guest)

    def test_what_is_asked(self):
        said = self.refused("run", "--look", "often", "--swappable", "--", "true")
        self.assertIn('--look "often": write --look hash, --look bytes or --look off', said)
        self.assertIn("--look: it is about copies of what is swappable",
                      self.refused("run", "--look", "off", "--", "true"))
        self.guest("idle", options=("--swappable", "--look", "off"))
        self.assertIn("look off (asked: bytes)",
                      self.refused("run", "--name", "t", "--look", "bytes", "--swappable", "--", "true"))
        self.assertEqual(self.tenant()["look"], "off")


class Empty(Looking):
    HOLDS, SPARSE, TURNS = 60 * MIB, 48 * MIB, 6

    def empty(self):
        return [e["args"]["empty_bytes"] for e in json.loads(self.must("trace", "t", "--json"))["traceEvents"]
                if e["name"] == "swap_looked"]

    def test_takes_no_host_memory(self):
        for name, word in (("t", "0"), ("u", "0x3f800000")):
            guest = self.guest("empty", word, options=("--swappable", "--trace"), name=name)
            before = self.anonymous(guest)
            self.must("suspend", name)
            self.assertEqual(self.used(), STAYS)
            self.assertLess(self.anonymous(guest), before + 24 * MIB)
            self.must("resume", name)
            self.good(guest)
            self.until(lambda: self.used() == 0)
        guest = self.guest("empty", "0", options=("--swappable", "--trace"))
        self.leave_and_return()
        self.assertEqual(self.empty(), [self.HOLDS - 2 * MIB])
        self.good(guest)

    def turns(self, *options):
        """It leaves and comes back, and every second time once more as it is."""
        guest = self.guest("sparse", str(self.TURNS), options=("--swappable", "--trace", *options))
        for turn in range(self.TURNS):
            for _ in range(1 + turn % 2):
                self.leave_and_return()
            if turn < self.TURNS - 1:
                self.told(guest)
        self.assertEqual(len([empty for empty in self.empty() if 0 < empty < self.SPARSE]),
                         self.TURNS + self.TURNS // 2)
        self.good(guest)

    def test_turns(self):
        self.turns()
        self.assertTrue(any(unchanged for _, unchanged in self.looked()))

    def test_by_bytes(self):
        self.turns("--look", "bytes")
        self.assertFalse(any(unchanged for _, unchanged in self.looked()))

    def test_to_a_file(self):
        disk = tempfile.mkdtemp(prefix="allot-swap-dir-", dir=find_disk())
        self.addCleanup(shutil.rmtree, disk, ignore_errors=True)
        self.turns("--swap-dir", disk, "--host-memory", "32MiB")


class Works(Looking):
    """Threads write, free and take memory all the time. load.py has more of it."""

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
    unittest.main()
