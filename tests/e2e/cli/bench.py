# SPDX-License-Identifier: Apache-2.0
"""allot bench says what it measured, in two forms, and leaves no tenants behind. How exact shares
are is for the tests of shares."""

import json
import os
import re
import signal
import time

import cli_lib
from cli_lib import ALLOT


class Bench(cli_lib.Case):
    def check_interval(self, found, *names):
        for name in names:
            self.assertLessEqual(found[name + "_low"], found[name], name)
            self.assertLessEqual(found[name], found[name + "_high"], name)

    def test_forms(self):
        began = time.monotonic()
        out = self.ok("sim", "--", ALLOT, "bench", "--only", "pairs", "--json", self.path("json"))
        took = time.monotonic() - began
        said = int(re.search(r"^takes about (\d+) s$", out, re.M)[1])
        self.assertTrue(20 <= said <= took * 1.2, (said, took))
        self.assertRegex(out, r"weights 1:3 +1 ms +\d+\.\d \(\d+\.\d to \d+\.\d\) ")
        self.assertIn("25 + 75 within 2, 97 together", out)
        with open(self.path("json"), encoding="utf-8") as file:
            found = json.load(file)
        self.assertEqual([p["second_weight"] for p in found["pairs"]], [0, 1, 3, 9, 1, 3, 9])
        for pair in found["pairs"]:
            self.assertGreater(pair["first_share"] + pair["second_share"], 0)
            self.check_interval(pair, "first_share", "second_share", "together")
        for other in ("solo", "tokens", "token_pairs", "requests", "launches"):
            self.assertEqual(found[other], [], other)
        self.assertIn("no tenants", self.ok("ps"))

    def test_requests(self):
        out = self.ok("sim", "--", ALLOT, "bench", "--only", "requests", "--quick",
                      "--json", self.path("json"))
        with open(self.path("json"), encoding="utf-8") as file:
            found = json.load(file)["requests"]
        self.assertEqual(len(found), 7)
        for row in found:
            self.assertRegex(out, re.escape(row["name"]) + r" +\d+\.\d+ \(.* ms +\|")
            self.assertGreaterEqual(row["p50_us"], 1000 * 0.99)
            self.assertGreaterEqual(row["p99_us"], row["p50_us"])
            self.check_interval(row, "p50_us", "p99_us")
            if row["name"] != "alone":
                self.assertGreater(row["neighbour_share"], 0)
        self.assertIn("--latency 5ms", out)

    def test_tokens(self):
        out = self.ok("sim", "--", ALLOT, "bench", "--only", "tokens", "--quick",
                      "--json", self.path("json"))
        for row in (r"alone +\d+\.\d+ \(\d+\.\d+ to \d+\.\d+\) ms",
                    r"--compute 25 +25 +\d", r"--compute 75 +75 +\d",
                    r"no tenants +\d+\.\d \(.*\) \+ \d",
                    r"weights 1:3 +25 \+ 75 +\d+\.\d \(.*\) \+ \d"):
            self.assertRegex(out, row)
        with open(self.path("json"), encoding="utf-8") as file:
            found = json.load(file)
        self.assertEqual([(t["name"], t["cap"]) for t in found["tokens"]],
                         [("alone", None), ("cap 25", 0.25), ("cap 50", 0.5), ("cap 75", 0.75)])
        for token in found["tokens"]:
            self.assertGreater(token["share"], 0)
            self.assertGreaterEqual(token["p50_us"], 4000 * 0.99)
            self.assertGreaterEqual(token["p99_us"], token["p50_us"])
            self.assertGreater(sum(token["bins"]), 0)
            self.check_interval(token, "share", "p50_us", "p99_us")
        self.assertEqual([(p["first_weight"], p["second_weight"]) for p in found["token_pairs"]],
                         [(0, 0), (1, 1), (1, 3)])
        for pair in found["token_pairs"]:
            self.assertGreater(min(pair["first_share"], pair["second_share"]), 0)
        self.assertEqual(found["pairs"], [])
        self.assertIn("no tenants", self.ok("ps"))

    def test_launches(self):
        """What a tenant adds is said as far as the rounds tell it from nothing."""
        out = self.ok("sim", "--", ALLOT, "bench", "--only", "launches", "--quick", "--json",
                      self.path("json"))
        with open(self.path("json"), encoding="utf-8") as file:
            launches = json.load(file)["launches"]
        self.assertEqual(len(launches), 4)
        for launch in launches:
            self.check_interval(launch, "p50_us", "p99_us", "added_us", "processor")
            row = next(line for line in out.splitlines() if line.startswith(launch["name"] + "  "))
            number = r"-?\d+\.\d\d"
            added = re.findall(rf"us +([+-]{number} \({number} to {number}\)|no more than {number})"
                               " us", row)
            self.assertEqual(len(added), launch is not launches[0], row)
            self.assertEqual(added != [] and added[0].startswith("no more than"),
                             added != [] and launch["added_us_low"] <= 0 <= launch["added_us_high"],
                             row)

    def test_stopped(self):
        process = self.start(ALLOT, "sim", "--", ALLOT, "bench", "--only", "caps")
        self.assertIn("GPU 0", process.stdout.readline())
        cli_lib.wait_for(lambda: "bench-" in self.ok("ps"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(100), 125)
        self.assertIn("no tenants", self.ok("ps"))

    def test_refused(self):
        self.fails(125, "bench", "--only", "x", says=("--only", '"x"', "pairs", "tokens"))
        self.fails(125, "bench", "--controller", "x", says=("--controller", '"x"', "deficit"))
        self.fails(125, "bench", env={"ALLOT_TENANT_DIR": "/a/b"}, says=("inside a tenant",))
        done = self.allot("sim", "--gpus", "2", "--", ALLOT, "bench", "--gpu", "0,1")
        self.assertEqual(done.returncode, 125)
        self.assertIn("one device", done.stderr)
        self.assertEqual(os.listdir(self.tmp), [])


if __name__ == "__main__":
    cli_lib.main()
