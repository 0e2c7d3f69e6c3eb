# SPDX-License-Identifier: Apache-2.0
"""allot trace: nothing where it is off; holds and bills that agree with the ledger; refusals, moves and
turns; on and off while a program runs; a killed one; the picture."""

import json
import os
import signal
import sys
import time

import cli_lib
import live
from cli_lib import ALLOT, GIB, MIB

OVERLAP_US = 10
ROLES = 0  # the process number of what a role holder wrote
# A program with a load that ends, in a tenant that does not.
LOAD = '"$0" --seconds {} --loops-per-us 1 >/dev/null; echo done; read x'


class Trace(cli_lib.Case):
    def setUp(self):
        super().setUp()
        self.directory = self.path("devices")

    def load(self, seconds, *options):
        """A tenant "a" in which a load runs for so long, and then nothing."""
        return self.start(ALLOT, "sim", "--dir", self.directory, "--", ALLOT, "run", "--name", "a",
                          *options, "--", "sh", "-c", LOAD.format(seconds), cli_lib.LOAD)

    def endless(self, name, *options):
        """A tenant that is a load, until the test ends."""
        load = self.start(ALLOT, "sim", "--dir", self.directory, "--", ALLOT, "run", "--name", name,
                          *options, "--", cli_lib.LOAD, "--seconds", "60", "--loops-per-us", "1")
        self.addCleanup(load.wait)
        self.addCleanup(load.terminate)  # which allot sim passes on
        self.assertIn("ready", load.stdout.readline())

    def program(self, name, *options, memory="8GiB"):
        process = self.start(ALLOT, "sim", "--memory", memory, "--context", "2MiB", "--dir",
                             self.directory, "--", ALLOT, "run", "--name", name, *options, "--",
                             sys.executable, "-c", live.PROGRAM)
        self.assertEqual(process.stdout.readline(), "up\n")

        def ask(*words):
            process.stdin.write(" ".join(map(str, words)) + "\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        return process, ask

    def files(self, tenant="a"):
        return [name for name in sorted(os.listdir(os.path.join(self.runtime, tenant)))
                if name.startswith("trace")]

    def compute(self):
        (tenant,) = json.loads(self.ok("ps", "--json", "a"))["tenants"]
        return tenant["devices"][0]["compute"]

    def events(self, tenant="a"):
        return json.loads(self.ok("trace", tenant, "--json"))["traceEvents"]

    def named(self, name, tenant="a"):
        return [event for event in self.events(tenant) if event["name"] == name]

    def check_picture(self, events):
        """The Trace Event Format, as chrome://tracing and Perfetto read it."""
        lanes = {}
        for event in events:
            self.assertIn(event["ph"], ("X", "i", "M"), event)
            self.assertTrue(isinstance(event["pid"], int) and isinstance(event["tid"], int), event)
            self.assertIsInstance(event["args"], dict)
            if event["ph"] == "M":
                self.assertEqual(event["name"], "thread_name")
                continue
            self.assertIn(event["cat"], ("launch", "meter", "memory", "swap", "turns", "residency"))
            self.assertTrue(event["ts"] > 0 and event["args"]["device"] in (None, 0), event)
            if event["ph"] == "i":
                self.assertEqual(event["s"], "t")
                continue
            self.assertGreaterEqual(event["dur"], 0)
            # A role holder's spans end where they are written, which a busy machine puts off.
            if event["pid"] == ROLES:
                continue
            lanes.setdefault((event["pid"], event["tid"]), []).append(
                (event["ts"], event["ts"] + event["dur"]))
        # The driver tells when work began and ended, each with an error of some us.
        for lane, spans in lanes.items():
            ends = []
            for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
                while ends and ends[-1] <= begin + OVERLAP_US:
                    ends.pop()
                self.assertTrue(not ends or end <= ends[-1] + OVERLAP_US, (lane, begin, end, ends))
                ends.append(end)

    def test_off(self):
        """No file, and words that say how."""
        load = self.load(1, "--compute", "50")
        self.assertEqual(load.stdout.readline(), "done\n")
        self.assertEqual(self.files(), [])
        self.fails(125, "trace", "a", says=("records nothing", "allot set a --trace on"))
        self.fails(125, "trace", says=("allot trace",))
        self.fails(125, "trace", "b", says=('no tenant "b"',))
        self.fails(125, "trace", "../b", says=("../b",))
        self.fails(125, "set", "a", "--trace", "maybe", says=("--trace on",))
        self.fails(125, "run", "--name", "a", "--trace", "--", "true",
                   says=("trace off (asked: on)", "allot set a --trace on"))

    def test_share(self):
        """What was held and billed is what the ledger has, to the nanosecond."""
        load = self.load(1, "--compute", "25", "--trace")
        self.assertEqual(load.stdout.readline(), "done\n")
        self.assertIn("trace.0", self.files())
        compute, events = self.compute(), self.events()
        self.check_picture(events)

        def total(name, number):
            return sum(e["args"][number] for e in events if e["name"] == name)

        self.assertEqual(total("bill", "busy_ns"), compute["busy_ns"])
        self.assertEqual(total("launched", "held_ns") + total("stalled", "wait_ns"),
                         compute["throttled_ns"])
        self.assertGreater(compute["throttles"], 0)
        whys = {e["args"]["why"] for e in events if e["name"] == "held"}
        self.assertIn("for its share", whys)
        launches = [e["args"]["launches"] for e in events if e["name"] == "bill"]
        self.assertLessEqual(max(launches), compute["launches"])
        words = self.ok("trace", "a")
        self.assertRegex(words, r"(?m)^# device 0: GPU-[-0-9a-f]{36}$")
        self.assertRegex(words, r"(?m)^ +\d+\.\d{6} +\d+/\d+ +0  a launch is held for its share: ")
        self.assertEqual(len([line for line in words.splitlines() if line[0] != "#"]),
                         len([e for e in events if e["ph"] != "M"]))
        # The tenant goes, and its record with it.
        load.stdin.write("\n")
        load.stdin.flush()
        load.wait()
        self.assertIn("no tenants", self.ok("ps"))
        self.assertFalse(os.path.exists(os.path.join(self.runtime, "a")))

    def test_turns(self):
        """Two that want one device: each is told of its own turns."""
        for name in ("a", "b"):
            self.endless(name, "--weight", "1", "--trace")
        for name in ("a", "b"):
            cli_lib.wait_for(lambda: len(self.named("turn_begun", name)) > 3 and
                             self.named("turn_ended", name) and self.named("held", name))
            self.check_picture(self.events(name))
            self.assertIn("trace.roles", self.files(name))
            self.assertIn(("turn_begun", 0), {(e["name"], e["pid"]) for e in self.events(name)})

    def test_while_it_runs(self):
        self.endless("a", "--compute", "25")
        cli_lib.wait_for(lambda: self.compute()["throttles"] > 1)
        self.assertEqual(self.files(), [])
        self.assertEqual(self.ok("set", "a", "--trace", "on"), "a: trace off -> on\n")
        cli_lib.wait_for(lambda: len(self.named("bill")) > 5)
        self.assertEqual(self.ok("set", "a", "--trace", "off"), "a: trace on -> off\n")

        def rests():
            """It hears of that when it next looks."""
            before = self.named("bill")
            time.sleep(0.2)
            return before == self.named("bill")

        cli_lib.wait_for(rests)
        before = len(self.named("bill"))
        self.ok("set", "a", "--trace", "on")
        cli_lib.wait_for(lambda: len(self.named("bill")) > before + 5)

    def test_follow(self):
        self.endless("a", "--compute", "25", "--trace")
        follow = self.start(ALLOT, "trace", "a", "--follow")
        lines = [follow.stdout.readline() for _ in range(300)]
        seconds = [float(line.split()[0]) for line in lines if line[0] != "#"]
        self.assertEqual(seconds, sorted(seconds))
        self.assertEqual(len(seconds), len(lines) - 3)
        follow = self.start(ALLOT, "trace", "a", "--follow", "--json")
        self.assertEqual(follow.stdout.readline(), "[\n")
        for _ in range(100):
            json.loads(follow.stdout.readline().rstrip(",\n"))

    def test_killed(self):
        load = self.load(60, "--compute", "25", "--trace")
        cli_lib.wait_for(lambda: os.path.exists(os.path.join(self.runtime, "a", "trace.0")) and
                         len(self.named("launched")) > 2)
        (pid,) = {e["pid"] for e in self.events() if e["name"] == "bill"}
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(load.stdout.readline(), "done\n")
        self.check_picture(self.events())
        self.assertEqual({e["pid"] for e in self.named("bill")}, {pid})

    def test_refused(self):
        _, ask = self.program("a", "--memory", "1GiB", "--trace")
        self.assertEqual(ask("alloc", 512 * MIB), 0)
        self.assertEqual(ask("alloc", 768 * MIB), 2)
        (refused,) = self.named("refused")
        self.assertEqual(refused["args"]["bytes"], 768 * MIB)
        self.assertEqual(refused["args"]["quota_bytes"], GIB)
        self.assertGreaterEqual(refused["args"]["used_bytes"], 512 * MIB)
        self.assertIn("768 MiB of memory are refused: ", self.ok("trace", "a"))
        # Without a thread of ours that would look: it is heard at the next refusal.
        self.ok("set", "a", "--trace", "off")
        self.assertEqual(ask("alloc", 768 * MIB), 2)
        self.assertEqual(len(self.named("refused")), 1)

    def test_moves(self):
        _, ask = self.program("a", "--swappable", "--trace")
        self.assertEqual(ask("alloc", 64 * MIB), 0)
        self.ok("suspend", "a")
        self.ok("resume", "a")
        events = self.events()
        self.check_picture(events)
        asked = [e["args"] for e in events if e["name"] == "swap_asked"]
        self.assertTrue({"prepare", "out", "back", "run"} <= {a["phase"] for a in asked}, asked)
        self.assertTrue(all(a["by_command"] for a in asked if a["phase"] in ("prepare", "back")))
        out, back = [e["args"] for e in events if e["name"] == "swap_moved"]
        self.assertEqual((out["away_bytes"], back["away_bytes"]), (out["bytes"], 0))
        self.assertGreaterEqual(out["bytes"], 64 * MIB)
        self.assertIn("suspended", {e["args"]["state"] for e in events if e["name"] == "swap_said"})

    def test_makes_room(self):
        """One leaves for another one's allocation: both say so, and who decided does."""
        options = ("--overcommit", "--memory", "75%", "--trace")
        programs = [self.program(name, *options, memory="512MiB") for name in ("a", "b")]
        for _, ask in programs:
            self.assertEqual(ask("alloc", 300 * MIB), 0)
        self.assertIn(("leaves", 0), {(e["name"], e["pid"]) for e in self.events("a")})
        self.assertIn(False, {e["args"]["by_command"] for e in self.named("swap_asked", "a")})
        self.assertTrue(self.named("swap_moved", "a"))
        self.assertEqual(self.named("room_asked", "b")[0]["args"]["bytes"], 300 * MIB)
        for name in ("a", "b"):
            self.check_picture(self.events(name))
        # They end while their tenants' directories are there: one waits for its memory to do so.
        for process, _ in programs:
            process.stdin.close()
        for process, _ in programs:
            process.wait(timeout=60)

    def test_forged(self):
        """Words for what is no record, and no harm."""
        self.program("a", "--trace")
        path = os.path.join(self.runtime, "a", "trace.0")
        self.assertTrue(os.path.exists(path))
        for content in (b"\xff" * os.path.getsize(path), b"", b"\xff" * 100):
            with open(path, "wb") as file:
                file.write(content)
            done = self.allot("trace", "a")
            self.assertIn("a trace in", done.stderr)
            self.assertEqual(json.loads(self.allot("trace", "a", "--json").stdout)["traceEvents"], [])
            os.unlink(path)


if __name__ == "__main__":
    cli_lib.main()
