# SPDX-License-Identifier: Apache-2.0
"""Tenants that leave their (simulated) device when they have not used it for long, and for nobody;
they come back with their next launch."""

import unittest

from overcommit import Turns

IDLE = ("--idle-suspend", "1s")


class Idle(Turns):
    def state(self, name="a"):
        return self.places()[name]

    def leaves(self, name="a"):
        self.until(lambda: self.state(name) == "suspended")

    def test_leaves_and_comes_back(self):
        """With its content, as often as that; and its memory is others' meanwhile."""
        guest = self.serve("a", 1, options=IDLE)
        held = self.used()
        for _ in range(3):
            self.leaves()
            self.assertLess(self.used(), held)
            self.assertEqual(self.ask(guest), "served")
            self.assertEqual(self.state(), "running")
            self.assertEqual(self.used(), held)
        self.quit(guest)

    def test_quits_while_away(self):
        guest = self.serve("a", 1, options=IDLE)
        self.leaves()
        self.quit(guest)

    def test_others_stay(self):
        """One without it leaves for nobody, whoever decides."""
        other, guest = self.serve("b", 2, holds=8, quota="64MiB"), self.serve(
            "a", 1, holds=8, quota="64MiB", options=IDLE)
        for _ in range(2):
            self.leaves()
            self.assertEqual(self.state("b"), "running")
            self.assertEqual(self.ask(guest), "served")
        self.quit(guest)
        self.quit(other)

    def test_who_decides_is_killed(self):
        """Another one finds out that nobody decides, though nobody waits."""
        guests = {name: self.serve(name, i, holds=8, quota="64MiB", options=IDLE)
                  for i, name in enumerate("abc")}
        for name in guests:
            self.leaves(name)
        for name in "ab":
            self.assertEqual(self.ask(guests["c"]), "served")
            guests[name].kill()
            guests[name].wait()
            self.leaves("c")
        self.assertEqual(self.ask(guests["c"]), "served")
        self.quit(guests["c"])

    def test_set(self):
        guest = self.serve("a", 1, options=("--idle-suspend", "600s"))
        self.assertEqual(self.must("set", "a", "--idle-suspend", "2s"),
                         "a: idle-suspend 600 s -> 2 s\n")
        self.leaves()
        self.assertEqual(self.tenants()["a"]["idle_suspend_ms"], 2000)
        self.assertIn("turns, idle 2 s", self.must("ps"))
        self.must("set", "a", "--idle-suspend", "off")
        self.assertEqual(self.state(), "suspended")
        self.assertEqual(self.ask(guest), "served")
        self.assertIsNone(self.tenants()["a"]["idle_suspend_ms"])
        self.assertIn("runs without it", self.refused("set", "a", *IDLE))
        self.quit(guest)

    def test_set_later(self):
        """Nobody knows whether all libraries in it understand that; the policy stays as it was."""
        guest = self.serve("a", 1)
        self.assertIn("older allot's library", self.refused("set", "a", *IDLE))
        self.must("set", "a", "--idle-suspend", "off")
        self.assertIsNone(self.tenants()["a"]["idle_suspend_ms"])
        self.assertEqual(self.ask(guest), "served")
        self.quit(guest)

    def test_resumed(self):
        """By a command; and it leaves again."""
        guest = self.serve("a", 1, options=IDLE)
        self.leaves()
        self.must("resume", "a")
        self.leaves()
        self.assertEqual(self.ask(guest), "served")
        self.quit(guest)

    def test_refused(self):
        for words in (("run", "--swappable", *IDLE, "--", "true"), ("run", *IDLE, "--", "true")):
            self.assertIn("write --overcommit, too", self.refused(*words))
        for time in ("999ms", "86401s", "10min", "", "0"):
            self.assertIn("not a time from 1s to 64800s",
                          self.refused("run", "--overcommit", "--idle-suspend", time, "--", "true"))
        guest = self.guest("serve", "2", "9", options=("--swappable",))
        self.assertIn("does not overcommit", self.refused("set", "t", *IDLE))
        self.must("set", "t", "--idle-suspend", "off")
        self.quit(guest)


if __name__ == "__main__":
    unittest.main(verbosity=2)
