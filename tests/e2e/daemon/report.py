# SPDX-License-Identifier: Apache-2.0
"""allot report: what tenants had of devices, over ends, restarts and kills of allotd, held against what
the simulated device did for their processes; and who is told what."""

import csv
import glob
import io
import json
import os
import signal
import subprocess

import cli_lib
import users_lib
from users_lib import ALICE, BOB, user

LOAD = os.environ["ALLOT_LOAD"]
SHAPES = cli_lib.documented()
SLACK_NS, PART = 40_000_000, 0.1  # of a bill, as the audit has it for bursts that end open


class Report(users_lib.Case):
    def setUp(self):
        super().setUp()
        self.env["ALLOT_SIM_MEMORY"] = "4GiB"
        self.history = os.path.join(self.tmp, "state", "history")
        self.conf = self.path("conf", f"history = {self.history}\n", 0o644)
        self.pids = {}
        self.share_devices()

    def begin(self):
        return self.daemon(options=("--config", self.conf))

    def work(self, name, seconds, uid=0):
        """A tenant that keeps the device busy, to its end, which is noticed."""
        before = user(uid) if uid else ()
        done = subprocess.run(
            [*before, cli_lib.ALLOT, "run", "--name", name, "--memory", "1GiB", "--", LOAD,
             "--warm-up", "0", "--seconds", str(seconds)],
            env=self.env, text=True, capture_output=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = f"{name}@{uid}" if uid else name
        self.pids.setdefault(whole, []).append(json.loads(done.stdout.splitlines()[0])["pids"][0])
        self.ok("ps")

    def truth(self, name):
        """The least and the most that the device was busy for the tenant's processes."""
        said = json.loads(subprocess.run([os.environ["AUDIT_TRUTH"]], env=self.env, text=True,
                                         capture_output=True, check=True, timeout=60).stdout)
        had = [device for process in said["processes"] if process["pid"] in self.pids[name]
               for device in process["devices"]]
        least = sum(device["closed_least_ns"] for device in had)
        most = sum(device["closed_most_ns"] + device["own_switch_ns"] for device in had)
        self.assertGreater(least, 100_000_000)
        return least * (1 - PART) - SLACK_NS, most * (1 + PART) + SLACK_NS

    def report(self, *options, uid=0):
        words = ("report", "--json", *options)
        said = json.loads(self.user_ok(uid, *words) if uid else self.ok(*words))
        self.check_shape(said, "report", {"report": SHAPES["report"]})
        for line in said["sums"]:
            self.assertLessEqual(set(line) - {said["by"]}, set(SHAPES["sum"]))
        return {line[said["by"]]: line for line in said["sums"]}

    def are_true(self, sums):
        self.assertEqual(set(sums), set(self.pids))
        for name, line in sums.items():
            least, most = self.truth(name)
            self.assertLessEqual(least, line["busy_ns"], name)
            self.assertLessEqual(line["busy_ns"], most, name)
            self.assertEqual(line["tenants"], len(self.pids[name]))
            # Times on disk are in seconds.
            self.assertLessEqual(line["busy_ns"], line["allotted_ns"] + 1e9 * line["tenants"])
            self.assertGreater(line["peak_bytes"], 0)

    def test_sums(self):
        daemon = self.begin()
        self.work("a", 0.8)
        self.work("a", 0.5)
        self.work("u", 0.6, ALICE)
        self.end(daemon)
        sums = self.report()
        self.are_true(sums)

        # Nothing is counted twice by one that begins again, or was killed.
        daemon = self.begin()
        self.work("b", 0.4)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        self.end(self.begin())
        self.assertEqual({name: line for name, line in self.report().items() if name != "b"}, sums)
        sums = self.report()
        self.are_true(sums)
        self.are_told(sums)

    def are_told(self, sums):
        """Everybody the own tenants, in each of the forms."""
        alice = f"u@{ALICE}"
        self.assertEqual(self.report(uid=ALICE), {alice: sums[alice]})
        self.assertEqual(self.report(uid=BOB), {})
        self.assertEqual(self.user_ok(BOB, "report"),
                         "no use of a device is recorded for that time\n")
        for path in glob.glob(f"{self.history}/*/*"):
            self.assertEqual(self.can(ALICE, path), f"/{ALICE}/" in path)
            self.assertFalse(self.can(BOB, path))
            self.assertEqual((os.stat(path).st_uid, os.stat(path).st_mode & 0o777), (0, 0o644))
        users = self.report("--by", "user")
        self.assertEqual({line["uid"]: line["tenants"] for line in users.values()},
                         {0: 3, ALICE: 1})
        days = self.report("--by", "day", "--since", "12h")
        self.assertEqual(sum(line["tenants"] for line in days.values()), 4)
        rows = list(csv.DictReader(io.StringIO(self.ok("report", "--csv"))))
        self.assertEqual([row["name"] for row in rows], sorted(sums))
        for row in rows:
            self.assertAlmostEqual(float(row["busy_hours"]) * 3600e9,
                                   sums[row["name"]]["busy_ns"], delta=4e6)
        self.assertRegex(self.ok("report"), rf"(?m)^TENANT +TENANTS +BUSY H.*\n(.*\n)*u@{ALICE} +1 ")
        self.assertEqual(self.report("--since", "2999-01-01"), {})

    def can(self, uid, path):
        return subprocess.run([*user(uid), "cat", path], capture_output=True, check=False,
                              timeout=60).returncode == 0

    def test_living(self):
        """What a living tenant had is written when allotd stops, and the rest by the next one."""
        daemon = self.begin()
        guest = self.start(cli_lib.ALLOT, "run", "--name", "a", "--memory", "1GiB", "--", "sh", "-c",
                           f"{LOAD} --warm-up 0 --seconds 0.5 >/dev/null; echo done; read x")
        self.assertEqual(guest.stdout.readline(), "done\n")
        self.end(daemon)
        first = self.report()["a"]
        self.assertGreater(first["busy_ns"], 0)
        guest.communicate("\n")
        self.ok("ps")
        self.end(self.begin())
        self.assertEqual(self.report()["a"]["busy_ns"], first["busy_ns"])
        self.assertEqual(self.report()["a"]["tenants"], 1)

    def test_stopped(self):
        """The journal ends where allotd stopped, which is said; a folder that is gone is none."""
        daemon = self.begin()
        self.work("a", 0.3)
        self.assertEqual(self.allot("report").stderr, "")
        self.end(daemon)
        self.assertIn("no allotd answers", self.allot("report").stderr)
        os.rename(self.history, self.history + ".away")
        done = self.allot("report", "--since", "0001-01-01")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no allotd keeps", done.stderr)

    def test_without_allotd(self):
        self.work("a", 0.3)
        done = self.allot("report")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"(?m)^a +1 ")
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("no allotd keeps", done.stderr)

    def test_not_kept(self):
        self.put_conf("history = off\n")
        self.end(self.begin())
        self.assertFalse(os.path.exists(self.history))
        self.put_conf("history = /proc/nothing\n")
        self.end(self.begin())
        self.assertRegex(self.log(), "is not kept for allot report: /proc/nothing: .*; name another")

    def put_conf(self, text):
        with open(self.conf, "w", encoding="utf-8") as conf:
            conf.write(text)

    def test_wrong(self):
        for words, says in ((("--since", "yesterday"), "2026-11-30"), (("--since", "0d"), "7d"),
                            (("--since", "-1h"), "12h"), (("--by", "pod"), "user, name or day")):
            done = self.allot("report", *words)
            self.assertEqual(done.returncode, 125)
            self.assertIn(says, done.stderr)
        self.end(self.begin())
        os.chmod(self.history, 0o777)
        self.fails(125, "report", says=(self.history, "journalctl -u allotd"))


if __name__ == "__main__":
    cli_lib.main()
