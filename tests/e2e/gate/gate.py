# SPDX-License-Identifier: Apache-2.0
"""What metering and holding launches must not disturb, and what must be counted all the same."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

ALLOT = os.environ["ALLOT"]
GUEST = os.environ["GATE_GUEST"]


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="allot-gate-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.env = {**os.environ, "ALLOT_RUNTIME_DIR": self.tmp + "/run",
                    "ALLOT_SIM_DIR": self.tmp + "/sim", "ALLOT_SIM_GPUS": "1"}
        self.options = None

    def guest(self, hazard, *options, times=1):
        """Its output, and what the ledger says of the device afterwards."""
        said = ""
        self.prepare(options)
        for _ in range(times):
            done = self.allot("run", "--name", "t", "--", GUEST, hazard)
            self.assertEqual(done.returncode, 0, hazard)
            self.assertRegex(done.stderr, r"^allot run: joined tenant t: .*\n$", hazard)
            said += done.stdout
        return said

    def allot(self, *args):
        return subprocess.run([ALLOT, *args], env=self.env, text=True, capture_output=True,
                              timeout=60, stdin=subprocess.DEVNULL, check=False)

    def prepare(self, options):
        """The tenant stays, with its figures, when its programs have ended."""
        if options == self.options:
            return
        self.allot("rm", "t")
        done = self.allot("run", "--print-env", "--name", "t", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.options = options

    def counted_by_device(self):
        done = self.allot("ps", "--json")
        tenant, = json.loads(done.stdout)["tenants"]
        return [device["compute"] for device in tenant["devices"]]

    def counted(self):
        compute, = self.counted_by_device()
        return compute


class Undisturbed(Case):
    def test_capture(self):
        """Captured by one thread in global mode while another launches and is metered."""
        self.guest("capture", "--compute", "50")

    def test_crossed(self):
        """Work in flight that waits for what comes later: held for a while, not for ever."""
        self.guest("crossed", "--compute", "50")

    def test_shorter_than_expected(self):
        """A ninth of a second is owed for the first launch; the others take what they take."""
        self.assertLess(int(self.guest("shorter", "--compute", "90")), 900)

    def test_fork(self):
        self.guest("forked", "--compute", "50")
        self.guest("forked beside", "--compute", "90")

    def test_signal(self):
        """Taken by a thread that is held, and not put off until it may launch."""
        self.guest("signalled", "--compute", "1")

    def test_exit(self):
        self.guest("ended", "--compute", "50", times=20)

    def test_exit_by_a_thread(self):
        self.guest("ended by a thread", "--compute", "90", times=20)

    def test_pause_of_the_device(self):
        self.guest("ahead", "--compute", "10")
        self.assertGreater(self.counted()["throttled_ns"], 10_000_000)

    def test_end_in_a_pause_of_the_device(self):
        self.guest("gone in a pause", "--compute", "10", times=5)

    def test_contexts_come_and_go(self):
        self.guest("contexts", "--compute", "90")

    def test_green_contexts(self):
        self.guest("green", "--compute", "90")

    def test_keeper(self):
        """One thread where compute is limited, none where it is not."""
        limited = self.guest("keeper", "--compute", "50").split()
        plain = subprocess.run([GUEST, "keeper"], env=self.env, text=True, capture_output=True,
                               check=True, timeout=60).stdout.split()
        self.assertEqual(int(limited[1]), int(plain[1]))
        self.assertEqual(int(limited[3]), int(plain[3]) + 1)

    def test_no_keeper(self):
        """Far from the limit, where a thread opens NVML and looks once, and stays no longer."""
        said = self.guest("keeper", "--memory", "16GiB").split()
        plain = subprocess.run([GUEST, "keeper"], env=self.env, text=True, capture_output=True,
                               check=True, timeout=60).stdout.split()
        self.assertEqual(said, plain)


    def test_an_arbiter_of_before_the_boot(self):
        for policy in (("--compute", "50"), ("--weight", "1")):
            with self.subTest(policy=policy):
                self.guest("before the boot", *policy)

    def test_damaged_words(self):
        """600 launches of 0.2 ms: none waits for an instant that is not believable."""
        for policy in (("--compute", "90"), ("--weight", "1")):
            with self.subTest(policy=policy):
                self.assertLess(int(self.guest("damaged", *policy)), 1000)


class Held(Case):
    def test_policy_destroyed(self):
        """100 ms of work at a fifth, whose policy cannot be read when it begins."""
        self.assertGreater(int(self.guest("destroyed", "--compute", "20")), 300)

    def test_no_thread_for_a_keeper(self):
        self.assertGreater(int(self.guest("unkept", "--compute", "20")), 300)

    def test_no_arbiter(self):
        """Where its file cannot be made a cap is kept, and who has no cap is not held."""
        os.makedirs(self.tmp + "/run/.arbiter", mode=0o700)
        os.chmod(self.tmp + "/run", 0o700)
        self.assertGreater(int(self.guest("worked", "--compute", "20")), 300)
        self.assertLess(int(self.guest("worked", "--weight", "1", "--policy", "share")), 5000)

    def test_tenant_removed(self):
        self.assertGreater(int(self.guest("removed", "--compute", "20")), 300)
        self.assertLess(int(self.guest("removed", "--weight", "1")), 5000)


class Counted(Case):
    def test_captured(self):
        """Launches into a capture are none; refused ones neither."""
        self.guest("captured", "--compute", "50")
        self.assertEqual(self.counted()["launches"], 8 + 100)

    def test_handles_of_contexts(self):
        """One that ends leaves its handle to another device's."""
        self.env.update(ALLOT_SIM_GPUS="2", ALLOT_SIM_HANDLES="reuse")
        self.assertEqual(self.guest("handles", "--compute", "90"), "19\n")
        self.assertEqual([device["launches"] for device in self.counted_by_device()], [30, 30])

    def test_exec(self):
        self.guest("executed", "--compute", "50")
        self.assertEqual(self.counted()["launches"], 10 + 108)

    def test_a_context_released_by_others(self):
        """120 ms of work, and releases that end nothing."""
        self.guest("released", "--compute", "90")
        self.assertGreater(self.counted()["busy_ns"], 100e6)

    def test_work_and_its_context_end(self):
        """200 ms of work in contexts that end with it."""
        self.guest("in contexts", "--compute", "90")
        self.assertGreater(self.counted()["busy_ns"], 130e6)

    def test_first_launches_after_pauses(self):
        """60 ms of work, and 400 ms between one launch and the next."""
        self.guest("first launches", "--compute", "90")
        self.assertGreater(self.counted()["busy_ns"], 50e6)
        self.assertLess(self.counted()["busy_ns"], 120e6)

    def test_bursts(self):
        """40 ms of work, of launches that let each other through."""
        self.guest("bursts", "--compute", "90")
        self.assertEqual(self.counted()["launches"], 2000)
        self.assertGreater(self.counted()["busy_ns"], 30e6)

    def test_many_streams_in_line(self):
        """100 ms of work, one short kernel in each of more streams than there are lanes."""
        self.guest("many streams", "--compute", "90")
        self.assertGreater(self.counted()["busy_ns"], 50e6)

    def test_ended_at_once(self):
        """Four programs that end as soon as their 50 ms of work are done."""
        self.guest("once", "--compute", "50", times=4)
        self.assertGreater(self.counted()["busy_ns"], 140e6)

    def test_streams_renewed(self):
        """Streams of the same address one after the other: no work took longer than all of it."""
        self.guest("renewed", "--compute", "90")
        self.assertLess(self.counted()["longest_ns"], 160e6)

    def test_threads(self):
        self.guest("threads", "--compute", "90")
        self.assertEqual(self.counted()["launches"], 800)

    def test_streams(self):
        self.guest("streams", "--compute", "90")
        self.assertEqual(self.counted()["launches"], 1000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
