# SPDX-License-Identifier: Apache-2.0
"""allot bench says what it measured, in two forms, and leaves no tenants behind. How exact shares
are is for the tests of shares."""

import json
import os
import signal

import cli_lib
from cli_lib import ALLOT


class Bench(cli_lib.Case):
    def test_forms(self):
        out = self.ok("sim", "--", ALLOT, "bench", "--only", "pairs", "--json", self.path("json"))
        self.assertIn("25 + 75 within 2, 97 together", out)
        with open(self.path("json"), encoding="utf-8") as file:
            found = json.load(file)
        self.assertEqual([p["second_weight"] for p in found["pairs"]], [0, 1, 3, 9, 1, 3, 9])
        for pair in found["pairs"]:
            self.assertGreater(pair["first_share"] + pair["second_share"], 0)
        for other in ("solo", "tokens", "token_pairs", "requests", "launches"):
            self.assertEqual(found[other], [], other)
        self.assertIn("no tenants", self.ok("ps"))

    def test_tokens(self):
        out = self.ok("sim", "--", ALLOT, "bench", "--only", "tokens", "--quick",
                      "--json", self.path("json"))
        for row in (r"alone +\d+\.\d+ ms", r"--compute 25 +25 +\d", r"--compute 75 +75 +\d",
                    r"no tenants +\d+\.\d \+ \d", r"weights 1:3 +25 \+ 75 +\d+\.\d \+ \d"):
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
        self.assertEqual([(p["first_weight"], p["second_weight"]) for p in found["token_pairs"]],
                         [(0, 0), (1, 1), (1, 3)])
        for pair in found["token_pairs"]:
            self.assertGreater(min(pair["first_share"], pair["second_share"]), 0)
        self.assertEqual(found["pairs"], [])
        self.assertIn("no tenants", self.ok("ps"))

    def test_stopped(self):
        process = self.start(ALLOT, "sim", "--", ALLOT, "bench", "--only", "caps")
        self.assertIn("GPU 0", process.stdout.readline())
        cli_lib.wait_for(lambda: "bench-" in self.ok("ps"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 125)
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
