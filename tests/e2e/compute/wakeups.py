# SPDX-License-Identifier: Apache-2.0
"""What a limit takes of the processor is mostly wake-ups, so they are counted: of the thread that
launches and of the one that is ours. The simulator's own do not count. A processor that is slow or
elsewhere makes them fewer."""

import os
import time
import unittest

import compute_lib

SECONDS = 1.5


def switches(pid):
    """{thread: how often it went to sleep}, of the launching thread and the keeper."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8") as status:
            says = dict(line.split(":", 1) for line in status if ":" in line)
        name = says["Name"].strip()
        if name == "allot-monitor" or int(tid) == pid:
            found["keeper" if name == "allot-monitor" else "launching"] = int(
                says["voluntary_ctxt_switches"])
    return found


class WakeUps(unittest.TestCase):
    def measured(self, kernel_us, cap):
        """Wake-ups a second, of each."""
        machine = compute_lib.Machine()
        self.addCleanup(machine.close)
        load = machine.load("--lean", "--kernel-us", kernel_us, "--seconds", 60,
                            run=("--name", "a", "--compute", cap))
        compute_lib.sleep_until(machine.start() + 0.5)
        before, began = switches(load.pids[0]), time.monotonic()
        time.sleep(SECONDS)
        after, took = switches(load.pids[0]), time.monotonic() - began
        self.assertEqual(sorted(after), ["keeper", "launching"])
        return {thread: (after[thread] - before[thread]) / took for thread in after}

    def test_wake_ups(self):
        """Kernels of 1 ms: fewer than one for each launch, and the keeper's 100 a second. Of
        shorter ones one for many."""
        for kernel_us, cap, most in (1000, 25, 250), (1000, 90, 800), (100, 90, 800):
            with self.subTest(kernel_us=kernel_us, cap=cap):
                found = self.measured(kernel_us, cap)
                self.assertLess(found["launching"], most)
                self.assertLess(found["keeper"], 180)


if __name__ == "__main__":
    compute_lib.main()
