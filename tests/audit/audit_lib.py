# SPDX-License-Identifier: Apache-2.0
"""What an audit is made of: programs in tenants on simulated devices that go through their phases
together; what was billed, and what the devices know, after each phase; and what must hold between
the two."""

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("BUILD", os.path.join(HERE, "..", "..", "build"))
# For who runs this by hand; meson says where they are.
for name, path in (("ALLOT", "src/cli/allot"), ("ALLOT_LOAD", "src/tools/allot-load"),
                   ("LIBALLOT", "src/guest/liballot.so"),
                   ("AUDIT", "tests/audit/audit"), ("AUDIT_TRUTH", "tests/audit/audit-truth")):
    os.environ.setdefault(name, os.path.abspath(os.path.join(BUILD, path)))
sys.path.insert(0, os.path.join(HERE, "..", "e2e", "compute"))
from compute_lib import Machine, Others, Program  # noqa: E402

AUDIT, TRUTH = os.environ["AUDIT"], os.environ["AUDIT_TRUTH"]
MS = 1_000_000
# A bill may be off by this part of the truth, or with rivals by that ...
PART, RIVALS_PART = 0.03, 0.05
# ... and for each burst that nothing closed, each that was, and each look at the figures. After one
# that was not closed a stream's next one is, so of brief ones half is the most that can be missed.
# A burst of 20 functions that are loaded begins 20 times, some 8 us early each.
OPEN_NS, OPEN_PART, CLOSED_NS, LOOK_NS = MS, 0.5, 200_000, 2 * MS
# With rivals what one of them has queued behind a wait of its own may run in another's burst.
RIVALS_CLOSED_NS = MS
# What a tenant may have above its cap in any window of so long, and all of them of the wall.
POINTS, WINDOW_S, WALL_PART = 0.02, 2, 0.03
EQUAL_PART = 0.05
# What a program that always has work has of a device without a cap: its own waits take a little.
WHOLE = 0.95
# No scenario takes a quarter of this.
TOO_LONG_S = 45
# After a phase, until its figures are looked at: longer than anybody's next look at what was done.
SETTLE_S = 0.06
# A thread that does nothing but sleep was late by this part of the time, or once by so much: the
# machine was what was measured. It is always late by a little.
LATE_PART, LATEST_NS, ON_TIME_NS = 0.02, 30 * MS, MS


@dataclass
class Tenant:
    """`run`: options of `allot run`; None: a program without allot. `cap` in percent, for each
    device where there are several (None: no cap there), or one figure."""
    run: tuple | None
    guests: list  # of lists of words for the audit's program
    cap: object = None
    weight: int | None = None
    env: dict = field(default_factory=dict)

    def cap_of(self, device):
        return self.cap[device] if isinstance(self.cap, (list, tuple)) else self.cap


@dataclass
class Scenario:
    name: str
    tenants: list
    env: dict = field(default_factory=dict)
    gpus: int = 1
    # The least part of its cap that a tenant has to have had, for programs that always want it.
    got: float | None = None
    # Parts of the devices' time by tenant, for tenants that always want it, and by how much off.
    parts: tuple | None = None
    parts_off: float = 0.02

    @property
    def unlimited(self):
        return any(t.run is None and not t.env for t in self.tenants)

    @property
    def rivals(self):
        return len(self.tenants) > 1


class Guest(Program):
    """The audit's program, which waits for a line before each of its phases."""

    def __init__(self, machine, tenant, words, env):
        super().__init__(machine, [AUDIT, "--steps", *words], tenant.run, env, tenant.env)
        self.pid = self.said()["ready"]

    def said(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"an audited program ended: {self.process.wait()}")
        return json.loads(line)

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self):
        self.go()
        if self.process.wait():
            raise AssertionError(f"an audited program ended: {self.process.returncode}")


class Canary:
    """A thread that sleeps: how late it is says whether there was a processor."""

    def __init__(self):
        self.late_ns = self.latest_ns = 0
        self.began_ns = time.monotonic_ns()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        while not self.stop.is_set():
            until = time.monotonic_ns() + 5 * MS
            time.sleep(0.005)
            late = time.monotonic_ns() - until
            self.late_ns += late if late > ON_TIME_NS else 0
            self.latest_ns = max(self.latest_ns, late)

    def end(self):
        self.stop.set()
        self.thread.join()

    def words(self):
        """When the processor was too late to measure anything; else None."""
        wall_ns = time.monotonic_ns() - self.began_ns
        if self.late_ns > LATE_PART * wall_ns or self.latest_ns > LATEST_NS:
            return (f"a sleeper was late by {self.late_ns / MS:.0f} ms in all, "
                    f"{self.latest_ns / MS:.0f} ms at once")
        return None


class Look:
    """What was billed and what was true at one moment."""

    def __init__(self, machine):
        env = {**machine.env, "ALLOT_SIM_DIR": machine.devices}
        self.at_ns = time.monotonic_ns()
        said = subprocess.run([TRUTH], env=env, text=True, capture_output=True, check=True,
                              timeout=60).stdout
        truth = json.loads(said)
        self.now_ns, self.bin_ns, self.uuids = (truth[k] for k in ("now_ns", "bin_ns", "uuids"))
        self.processes = {p["pid"]: {d["device"]: d for d in p["devices"]}
                          for p in truth["processes"]}
        self.tenants = {}
        machine.hold()
        for tenant in json.loads(machine.allot("ps", "--json"))["tenants"]:
            self.tenants[tenant["name"]] = {
                self.uuids.index(d["uuid"]): d["compute"] for d in tenant["devices"]}

    def true(self, pids, device, key):
        return sum(self.processes.get(pid, {}).get(device, {}).get(key, 0) for pid in pids)

    def billed(self, tenant, device, key="busy_ns"):
        return self.tenants.get(tenant, {}).get(device, {}).get(key) or 0

    def bins(self, pids, device, from_ns, to_ns):
        """What these processes had in each bin that lies in between."""
        first, last = -(-from_ns // self.bin_ns), to_ns // self.bin_ns
        sums = [0] * max(0, last - first)
        for pid in pids:
            had = self.processes.get(pid, {}).get(device)
            for i, ns in enumerate(had["bins"] if had else ()):
                k = had["first_bin"] + i - first
                if 0 <= k < len(sums):
                    sums[k] += ns
        return sums


class Audit:
    """One run of a scenario. `wrong` is what does not hold, in words; `figures` is all that was
    compared."""

    def __init__(self, scenario):
        self.scenario = scenario
        self.wrong, self.figures, self.phases = [], [], []
        self.far = False  # off by more than a busy machine can explain
        self.longest_ns = 0
        self.lost_ns = {}  # by tenant and device, at the last check: work that nobody measured
        self.contested = []  # what each tenant had of steps in which all of a device was wanted
        self.late = None

    def run(self):
        machine, others = Machine(self.scenario.gpus), Others()
        canary = Canary()
        watchdog = threading.Timer(TOO_LONG_S, self.end_all, (machine,))
        watchdog.start()
        try:
            self.play(machine)
        except AssertionError as error:
            self.note(str(error), True, far=True)
        finally:
            watchdog.cancel()
            canary.end()
            machine.close()
        self.late = canary.words() or others.words()
        return self

    def end_all(self, machine):
        """A program that hangs is as wrong as a bill: its end is seen by who reads from it."""
        self.note(f"not done after {TOO_LONG_S} s", True, far=True)
        for guest in machine.loads:
            guest.process.terminate()

    def play(self, machine):
        scenario = self.scenario
        self.guests = []
        for tenant in scenario.tenants:
            self.guests.append([])
            for words in tenant.guests:
                guest = Guest(machine, tenant, words, scenario.env)
                machine.loads.append(guest)
                self.guests[-1].append(guest)
        time.sleep(SETTLE_S)
        begin = before = Look(machine)
        self.names = self.find_names(begin)
        sums = ("bursts", "open", "open_streams", "open_last_ns")
        total = {**dict.fromkeys(sums, 0), "phase": "all", "detail": "and its end"}
        whole = [dict(total) for _ in scenario.tenants]
        steps = self.steps()
        for _ in range(steps):
            said = self.step()
            time.sleep(SETTLE_S)
            now = Look(machine)
            if steps > 1:
                self.check(before, now, said)
            self.check_contest(before, now)
            for t, tenant in enumerate(said):
                for key in sums:
                    whole[t][key] += sum(s[key] for s in tenant)
            before = now
        self.last_step_ns = (min(s["from_ns"] for t in said for s in t),
                             max(s["to_ns"] for t in said for s in t))
        for guest in machine.loads:
            guest.finish()
        end = Look(machine)
        self.check(begin, end, [[t] for t in whole] if steps > 1 else said)
        self.check_caps(begin, end)
        self.check_wall(begin, end, sum(t["open"] for t in whole))
        self.check_equal()
        self.check_got(end)
        self.check_parts(begin, end)

    def find_names(self, look):
        """What each tenant's ledger is called; one that another system's settings made has a name
        of its own."""
        names, made = [], sorted(look.tenants)
        for tenant in self.scenario.tenants:
            if tenant.run is not None:
                names.append(tenant.run[tenant.run.index("--name") + 1])
                made.remove(names[-1])
            else:
                names.append(made.pop(0) if tenant.env and made else None)
        return names

    def steps(self):
        words = self.scenario.tenants[0].guests[0]
        if "--phases" in words:
            return len(words[words.index("--phases") + 1].split(","))
        return words[words.index("--count") + 1] if "--count" in words else 6

    def step(self):
        for guests in self.guests:
            for guest in guests:
                guest.go()
        said = [[guest.said() for guest in guests] for guests in self.guests]
        for tenant in said:
            for s in tenant:
                self.longest_ns = max(self.longest_ns, s["longest_us"] * 1000)
                s["open_last_ns"] = s["longest_us"] * 1000 if s["open"] else 0
                self.phases.append(f"{s['phase']}: {s['detail']}")
        return said

    def pids(self, t):
        return [guest.pid for guest in self.guests[t]]

    def each(self):
        """(index, tenant, name in the ledger, device) of all that is billed."""
        for t, tenant in enumerate(self.scenario.tenants):
            for device in range(self.scenario.gpus):
                if self.names[t]:
                    yield t, tenant, self.names[t], device

    def note(self, what, wrong, far=False):
        self.figures.append("! " + what if wrong else what)
        if wrong:
            self.wrong.append(what)
            self.far = self.far or far

    def check(self, before, now, said):
        """Billed is true, within a little; and so is what is said to be unmeasured."""
        unlimited = self.scenario.unlimited
        part = RIVALS_PART if self.scenario.rivals else PART
        for t, tenant, name, device in self.each():
            def true(key):
                return (now.true(self.pids(t), device, key) -
                        before.true(self.pids(t), device, key))

            def billed(key):
                return now.billed(name, device, key) - before.billed(name, device, key)
            bursts = sum(s["bursts"] for s in said[t])
            open_bursts = sum(s["open"] for s in said[t])
            bill, truth = billed("busy_ns"), true("closed_ns")
            closed_ns = RIVALS_CLOSED_NS if self.scenario.rivals else CLOSED_NS
            slack = (LOOK_NS + min(OPEN_NS * open_bursts, OPEN_PART * truth) +
                     closed_ns * (bursts - open_bursts))
            if self.scenario.rivals:
                slack += closed_ns * open_bursts
            # On its way from one of the tenant's contexts to another the device is the tenant's.
            switch = true("switch_ns" if len(tenant.guests) > 1 else "own_switch_ns")
            # Of the last of a phase, that nobody waits for, it is not known that it was long.
            least = (true("closed_least_ns") * (1 - part) - slack -
                     sum(s["open_last_ns"] for s in said[t]))
            most = (true("closed_most_ns") + switch) * (1 + part) + slack
            # Beside a program without a limit an interval holds that one's time, too.
            if unlimited:
                most = float("inf")
            phase = ", ".join(dict.fromkeys(f"{s['phase']} ({s['detail']})" for s in said[t]))
            ratio = f"{100 * bill / truth:.1f} %" if truth else "of nothing"
            self.note(f"{name}, device {device}: billed {bill / MS:.1f} ms of true "
                      f"{truth / MS:.1f} ms, {ratio}, {least / MS:.1f} to {most / MS:.1f} allowed, "
                      f"{bursts} bursts, {open_bursts} open: {phase}",
                      not least <= bill <= most, far=bill < 0.7 * least)
            unmeasured, streams = billed("unmeasured_ns"), sum(s["open_streams"] for s in said[t])
            lost = min(truth - bill, sum(s["open_last_ns"] for s in said[t]))
            self.lost_ns[t, device] = max(lost, 0) if unmeasured else 0
            # Who has no processor for a while leaves his stream open, too.
            if unmeasured > OPEN_NS * (streams + 2) + part * truth:
                self.note(f"{name}, device {device}: {unmeasured / MS:.1f} ms unmeasured with "
                          f"{streams} streams in open bursts: {phase}", True)

    def check_caps(self, begin, end):
        """In no window of two seconds more than the cap; what is not to be interrupted, of which
        one has to begin before it is paid for, may lie in it at one end, and what nobody could
        measure is not paid for."""
        width = round(WINDOW_S * 1e9 / end.bin_ns)
        for t, tenant, name, device in self.each():
            cap = tenant.cap_of(device)
            if cap is None:
                continue
            bins = end.bins(self.pids(t), device, begin.at_ns + 2 * 10**9, end.at_ns)
            sums = [sum(bins[i:i + width]) for i in range(len(bins) - width + 1)]
            if not sums:
                continue
            had = max(sums) / (width * end.bin_ns)
            unpaid_ns = self.longest_ns * (1 - cap / 100) + self.lost_ns[t, device]
            most = cap / 100 + POINTS + unpaid_ns / (width * end.bin_ns)
            self.note(f"{name}, device {device}: at most {had:.1%} in {WINDOW_S} s under a cap of "
                      f"{cap} %, {most:.1%} allowed", had > most, far=had > 1.2 * most)

    def check_wall(self, begin, end, open_bursts):
        for device in range(self.scenario.gpus):
            bills = sum(end.billed(name, device) - begin.billed(name, device)
                        for _, _, name, d in self.each() if d == device)
            wall = end.at_ns - begin.at_ns
            most = wall * (1 + WALL_PART) + OPEN_NS * open_bursts
            self.note(f"device {device}: all bills are {bills / wall:.1%} of the wall's time",
                      bills > most)

    def check_contest(self, before, now):
        """What tenants of one weight, that do the same, had while they left nothing of the device."""
        tenants = self.scenario.tenants
        if not self.scenario.rivals or any(t.weight != tenants[0].weight or not t.weight or
                                           t.guests != tenants[0].guests for t in tenants):
            return
        had = [now.true(self.pids(t), 0, "closed_ns") - before.true(self.pids(t), 0, "closed_ns")
               for t in range(len(tenants))]
        if sum(had) > 0.85 * (now.at_ns - before.at_ns - SETTLE_S * 1e9):
            self.contested.append(had)

    def check_equal(self):
        if not self.contested:
            return
        had = [sum(step[t] for step in self.contested) for t in range(len(self.contested[0]))]
        off = EQUAL_PART * max(had) + self.longest_ns * len(self.contested)
        self.note("of one weight, while both wanted the device: " +
                  " : ".join(f"{ns / MS:.0f}" for ns in had) + " ms", max(had) - min(had) > off)

    def check_got(self, end):
        """A program that always wants the device has its cap, and not only no more."""
        if self.scenario.got is None:
            return
        begin_ns, end_ns = self.last_step_ns
        begin_ns += 10**9
        for t, tenant, name, device in self.each():
            cap = tenant.cap_of(device)
            bins = end.bins(self.pids(t), device, begin_ns, end_ns)
            had = sum(bins) / (len(bins) * end.bin_ns)
            least = cap / 100 - self.scenario.got if cap is not None else WHOLE
            most = (cap / 100 if cap is not None else 1) + POINTS
            self.note(f"{name}, device {device}: {had:.1%} with "
                      f"{'no cap' if cap is None else f'a cap of {cap} %'}, "
                      f"{least:.1%} to {most:.1%} allowed", not least <= had <= most)

    def check_parts(self, begin, end):
        if self.scenario.parts is None:
            return
        had = [end.true(self.pids(t), 0, "closed_ns") - begin.true(self.pids(t), 0, "closed_ns")
               for t in range(len(self.scenario.tenants))]
        parts = [ns / sum(had) for ns in had]
        self.note("parts of the device: " + " : ".join(f"{part:.1%}" for part in parts) +
                  f", which are {sum(had) / (end.at_ns - begin.at_ns):.1%} of the wall's time",
                  any(abs(part - want) > self.scenario.parts_off
                      for part, want in zip(parts, self.scenario.parts)))
