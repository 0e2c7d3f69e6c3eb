# SPDX-License-Identifier: Apache-2.0
"""Energy of tenants that draw different power in turns, held against the simulated device's truth: the time
that it worked for each, times the watts that its processes were told to draw. Over a restart of allotd, to
the report, and without allotd."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import cli_lib
import daemon_lib

LOAD = os.environ["ALLOT_LOAD"]
WATTS = {"a": 500, "b": 200}
# Of the energy. Bills may be off by as much, and processors that have other work to do add to it.
PART = 0.2
LONG = 120
# Of the first device_time in a ledger (ledger/layout.h), its busy_ns.
BUSY_AT = 466944 + 64


class Energy(daemon_lib.Case):
    def setUp(self):
        super().setUp()
        self.env.update(ALLOT_SIM_DIR=os.path.join(self.tmp, "sim"), ALLOT_SIM_MEMORY="4GiB",
                        LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])
        self.conf = os.path.join(self.tmp, "conf")
        with open(self.conf, "w", encoding="utf-8") as conf:
            conf.write(f"history = {self.tmp}/state/history\n")

    def begin(self):
        return self.daemon(options=("--config", self.conf))

    def work(self, name, seconds, watts, *options):
        return self.start(cli_lib.ALLOT, "run", "--name", name, "--memory", "1GiB", *options, "--", "env",
                          f"ALLOT_SIM_WATTS={watts}", LOAD, "--warm-up", "0", "--seconds", str(seconds))

    def said(self):
        return {t["name"]: t["devices"][0] for t in json.loads(self.ok("ps", "--json"))["tenants"]
                if t["devices"]}

    def until(self, what):
        end = time.monotonic() + LONG
        while not what():
            self.assertLess(time.monotonic(), end, self.said())
            time.sleep(0.2)

    def truth(self):
        """Joules by pid."""
        said = json.loads(subprocess.run([os.environ["AUDIT_TRUTH"]], env=self.env, text=True,
                                         capture_output=True, check=True, timeout=60).stdout)
        return {p["pid"]: sum(d["busy_ns"] for d in p["devices"]) / 1e9 for p in said["processes"]}

    def test_turns(self):
        daemon = self.begin()
        share = ("--policy", "share", "--weight", "1")
        guests = {name: self.work(name, 12, watts, *share) for name, watts in WATTS.items()}
        self.until(lambda: sum(bool(d["energy_uj"]) for d in self.said().values()) == 2)
        self.assertRegex(self.ok("ps"), r"POWER +ENERGY")
        _, _, page = self.get("/metrics")
        for name in WATTS:
            self.assertRegex(page, rf'allot_energy_joules_total{{tenant="{name}",device="GPU-.*"}} \d+\.\d{{6}}\n')
            self.assertRegex(page, rf'allot_power_watts{{tenant="{name}",device="GPU-.*"}} \d+\.\d{{3}}\n')
        before = self.said()
        # Another one goes on where this one was killed.
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        daemon = self.begin()
        pids = {name: json.loads(guest.communicate()[0].splitlines()[0])["pids"][0]
                for name, guest in guests.items()}
        self.until(lambda: not self.said())
        self.end(daemon)
        ended = {e["name"]: e for e in json.loads(self.ok("ps", "--ended", "--json"))["ended"]}
        truth = self.truth()
        for name, watts in WATTS.items():
            self.assertGreaterEqual(ended[name]["energy_uj"], before[name]["energy_uj"], name)
            # What was done while nobody looked, and at the end, is nobody's.
            joules, most = ended[name]["energy_uj"] / 1e6, truth[pids[name]] * watts
            self.assertLess(joules, most * (1 + PART), name)
            self.assertGreater(joules, most * 0.3, name)
        each = {name: before[name]["energy_uj"] / 1e3 / before[name]["compute"]["busy_ns"] * 1e6
                for name in WATTS}
        # One of both may have been given its energy up to a second later than the other.
        self.assertGreater(each["a"], 1.3 * each["b"], each)

        sums = json.loads(self.ok("report", "--json"))["sums"]
        self.assertEqual({line["name"]: line["energy_uj"] for line in sums},
                         {name: ended[name]["energy_uj"] for name in WATTS})
        self.assertRegex(self.ok("report"), r"(?m)^TENANT .* WH .*\na .* \d+\.\d ")

    def test_alone(self):
        """Exactly: nobody is there to be confused with, and the last second is waited for."""
        daemon = self.begin()
        guest = self.start(cli_lib.ALLOT, "run", "--name", "a", "--memory", "1GiB", "--meter", "on", "--", "sh", "-c",
                           f"{LOAD} --warm-up 0 --seconds 0.1; sleep 4; "
                           f"ALLOT_SIM_WATTS=300 {LOAD} --warm-up 0 --seconds 4; read x")
        # The device rests between both, so that its power at rest is known.
        begun = (json.loads(line).get("pids") for line in guest.stdout)
        pid = [pids[0] for pids in itertools.islice(filter(None, begun), 2)][1]
        self.until(lambda: self.said()["a"]["compute"]["busy_ns"] > 2e9)
        # Its program has ended, and all that it had is given.
        self.until(lambda: not self.said()["a"]["used_bytes"] and self.said()["a"]["energy_uj"] and
                   not self.said()["a"]["power_mw"])
        had = self.truth()[pid] * 300
        self.assertAlmostEqual(self.said()["a"]["energy_uj"] / 1e6, had, delta=had * PART)
        guest.communicate("\n")
        self.end(daemon)

    def test_forged(self):
        """A bill that no device ever worked for takes nothing from the others."""
        daemon = self.begin()
        share = ("--policy", "share", "--weight", "1")
        guests = {name: self.work(name, 120, watts, *share) for name, watts in WATTS.items()}
        self.until(lambda: sum(bool(d["energy_uj"]) for d in self.said().values()) == 2)
        busy = self.said()["b"]["compute"]["busy_ns"]
        with open(os.path.join(self.runtime, "b", "ledger"), "r+b") as ledger:
            ledger.seek(BUSY_AT)
            self.assertGreaterEqual(int.from_bytes(ledger.read(8), sys.byteorder), busy)
            ledger.seek(BUSY_AT)
            ledger.write((1 << 60).to_bytes(8, sys.byteorder))
        time.sleep(3)
        before, began = self.said(), time.monotonic()
        time.sleep(8)
        after, seconds = self.said(), time.monotonic() - began
        joules = {name: (after[name]["energy_uj"] - before[name]["energy_uj"]) / 1e6 for name in WATTS}
        busy = (after["a"]["compute"]["busy_ns"] - before["a"]["compute"]["busy_ns"]) / 1e9
        # Energy is up to a second older than the bill, in both.
        self.assertGreater(joules["a"], WATTS["a"] * max(0, busy - 2) * (1 - PART))
        # Its own is what it draws, for no longer than there was time; of both, what is learnt is not exact.
        self.assertLess(joules["b"], 2 * WATTS["b"] * (seconds + 3))
        for guest in guests.values():
            guest.kill()
        self.end(daemon)

    def test_nobody_looks(self):
        guest = self.work("a", 2, 300, "--meter", "on")
        self.until(lambda: self.said().get("a", {"compute": {"busy_ns": 0}})["compute"]["busy_ns"])
        device = self.said()["a"]
        self.assertEqual((device["energy_uj"], device["power_mw"]), (None, None))
        self.assertNotIn("ENERGY", self.ok("ps"))
        guest.communicate()


if __name__ == "__main__":
    cli_lib.main()
