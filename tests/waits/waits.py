#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each word of the program `waits` in tenants on simulated devices, in every mode. What a word
waits for comes with a launch that follows, on another thread, process or tenant. The simulator's
own count judges:

    - the word ends within 3 times what its share asks, and 50 ms: what it takes natively, and for
      each device work x (1 / share - 1);
    - its tenant is billed what the device did for it meanwhile, within 5 % and 2 ms;
    - a rival that always has work gets 95 % of its part of the device meanwhile;
    - no call fails.

Natively it has to end, and no call fails.

    waits.py --only 'cold*' --mode cap-50 --verbose
    ALLOT=.../src/cli/allot waits.py        another build, on this build's simulator
"""

import argparse
import fnmatch
import json
import math
import os
import select
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("BUILD", os.path.join(HERE, "..", "..", "build"))
# For those who run this by hand; meson says where they are.
for variable, path in (("ALLOT", "src/cli/allot"), ("ALLOT_LOAD", "src/tools/allot-load"),
                       ("AUDIT_TRUTH", "tests/audit/audit-truth"), ("WAITS", "tests/waits/waits"),
                       ("SIM", "sim")):
    os.environ.setdefault(variable, os.path.abspath(os.path.join(BUILD, path)))
for folder in (("..", "audit"), ("..", "e2e", "compute")):
    sys.path.insert(0, os.path.join(HERE, *folder))
from audit_lib import Canary  # noqa: E402
from compute_lib import Load, Machine, Program  # noqa: E402

MS = 1e6  # in ns
KINDS = ("closed_ns", "switch_ns", "own_switch_ns")
GPUS = 2
TIMES, MORE_MS = 3, 50
BILL_PART, BILL_MS = 0.05, 2
RIVAL_PART = 0.95
# A tenant keeps the device in pauses that are shorter than handing it over is worth: those of a
# word take half of the time of its work.
KEEPS = 1.5
# A turn may have begun just before, and its work may be counted just after.
SLICE_MS = 12
FLOOR = 0.05  # POLICY_FLOOR_PERMILLE
ATTEMPTS = 3
# What is wrong by less than this many times what a sleeper was late is the machine's.
EXCUSED = 2
# A word that is not done after this many times its limit hangs. One that hung twice is not tried
# again.
HANGS, HANGS_LEAST_S, HANGS_MOST_S = 10, 2, 10
HANGS_IN_ANY_CASE = 1.5  # of what may be: who is slow does not hang
STARTS_S = 20
# The figures of a tenant are complete by then.
SETTLES_S = 0.06
RIVAL_STARTS_S = 0.4
RIVAL_RUNS_S = 100
STAGE_LASTS_S = 60


@dataclass
class Tenant:
    """`run`: options of `allot run`, None natively. `share`: of each device, 1 at most."""
    run: list | None = None
    share: tuple = (1, 1)


@dataclass
class Mode:
    """`rests_s`: until the warm-up is paid for. `billed`: False if nothing is metered. `rival`: the
    options of a tenant that always has work on device 0. It has at least `part` of the device while
    the word runs, and at most `most`."""
    name: str
    tenants: list
    words: str = ""  # separated by commas; all of one tenant if there are none
    rests_s: float = 0.06
    billed: bool = True
    rival: list | None = None
    part: float = 0
    most: float = 1

    def has(self, name):
        if self.words:
            return name in self.words.split(",")
        return name.startswith("rank-") == (len(self.tenants) > 1)


def equal(share):
    return (share, share)


def caps(*percents):
    return Tenant(["--compute", ",".join(map(str, percents))],
                  tuple(percent / 100 for percent in percents * (GPUS // len(percents))))


WEIGHT, HIGH, LOW = ["--weight", "1"], ["--priority", "high"], ["--priority", "low"]
NATIVE = Mode("native", [Tenant()], rests_s=0, billed=False)
MODES = [
    NATIVE,
    Mode("memory", [Tenant(["--memory", "4GiB"])], rests_s=0, billed=False),
    *(Mode(f"cap-{percent}", [caps(percent)], rests_s=0.15 if percent < 20 else 0.06)
      for percent in (10, 50, 90)),
    Mode("cap-50-49", [caps(50, 49)], "devices,procdevs"),
    Mode("cap-50-10", [caps(50, 10)], "devices,procdevs", rests_s=0.15),
    Mode("cap-rival", [caps(50)], "blocked", rival=["--compute", "50"], part=0.5, most=0.5),
    Mode("weight", [Tenant(WEIGHT, (0.5, 1))], rival=WEIGHT, part=0.5),
    Mode("high", [Tenant(HIGH)], rival=LOW, part=FLOOR),
    Mode("low", [Tenant(LOW, (FLOOR, 1))], rival=HIGH, part=1 - FLOOR),
    # The others of these want nothing while one works, whatever their priority.
    Mode("ranks-weight", [Tenant(WEIGHT, equal(1 / 2))] * 2),
    Mode("ranks-caps", [caps(50)] * 2),
    Mode("ranks-priority", [Tenant(HIGH), Tenant(LOW)]),
    Mode("ranks-3", [Tenant(WEIGHT, equal(1 / 3))] * 3),
]
# What is still wrong, and why: it is said, but does not fail. What hangs does.
KNOWN = [
    ("procdevs", "*", "what a rank spins for a launch that is held elsewhere is not billed"),
    ("*behind", "weight", "what was launched behind a wait is not ended by the end of a turn"),
    ("*behind", "low", "the same: the end of a lift"),
    ("graphhold", "weight", "the same behind a graph's wait"),
    ("graphhold", "low", "the same"),
    ("cbthread", "weight", "that a wait is over is seen up to a millisecond later, by each turn"),
    ("procs", "weight", "what spins over the end of a turn has the device beside the rival"),
    ("procs", "low", "the same, over the end of a lift"),
    ("graphowned", "low", "its first lift was the warm-up's, and the next one is longer than it needs"),
    *((word, "high", "a rival's kernel that the device left in its middle is billed to who goes first, too")
      for word in ("mutex", "contexts", "pair", "words")),
    ("rank-queued", "ranks-3", "a hand-over takes 6 ms where all steps are queued"),
]
RANKS = ["rank-queued", "rank-synced"]  # a tenant each
BY_HAND = ["rank-met"]


class Off(Exception):
    """Something is not as it must be: in words, and by how many ms."""

    def __init__(self, words, by_ms=math.inf):
        super().__init__(words)
        self.by_ms = by_ms


class Hangs(Off):
    """Something did not happen at all."""


class Word(Program):
    """A program that is spoken with, line by line, and never for longer than is said."""

    def __init__(self, machine, words, run=None):
        super().__init__(machine, [os.environ["WAITS"], *words], run)
        self.lines, self.rest = [], b""
        self.pids = []

    def read_line(self, until):
        """Returns a line without its end, or None when it is too late."""
        fd = self.process.stdout.fileno()
        while b"\n" not in self.rest:
            if not select.select([fd], [], [], max(0, until - time.monotonic()))[0]:
                return None
            data = os.read(fd, 65536)
            if not data:
                said = " / ".join(self.lines[-2:]) or "nothing"
                raise Off(f"ended with status {self.process.wait()}, and said {said}")
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        self.lines.append(line.decode(errors="replace"))
        return self.lines[-1]

    def said(self, keys, until):
        """Returns the next object with one of these keys, or None when it is too late."""
        while True:
            line = self.read_line(until)
            if line is None:
                return None
            if line.startswith("{"):
                found = json.loads(line)
                if any(key in found for key in keys):
                    return found

    def await_ready(self, until):
        found = self.said(["ready"], until)
        if found is None:
            raise Hangs(f"not ready after {STARTS_S} s, last said {self.lines[-1:]}")
        self.pids = found["pids"]

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def leave(self):
        """Ends it as it ends by itself, or else by force."""
        try:
            self.process.stdin.close()
            self.process.wait(1)
        except (OSError, subprocess.TimeoutExpired):
            self.process.terminate()
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()


class Stage:
    """Devices, and perhaps a rival, for runs one after the other."""

    def __init__(self, mode):
        self.machine = Machine(GPUS)
        self.env = {**self.machine.env, "ALLOT_SIM_DIR": self.machine.devices}
        self.began, self.runs, self.rival = time.monotonic(), 0, None
        if mode.rival:
            self.rival = Load(self.machine, "-s", str(RIVAL_RUNS_S), "-k", "1000",
                              run=["--name", "rival", *mode.rival])
            self.machine.loads.append(self.rival)
            self.rival.ready()
            self.rival.start(0)
            time.sleep(RIVAL_STARTS_S)

    def truth(self):
        """Returns the time, and for each kind what each process had of each device, in ms."""
        said = subprocess.run([os.environ["AUDIT_TRUTH"]], env=self.env, text=True, check=True,
                              stdout=subprocess.PIPE, timeout=STARTS_S)
        truth = json.loads(said.stdout)
        return truth["now_ns"] / MS, {kind: {
            (process["pid"], device["device"]): device[kind] / MS
            for process in truth["processes"] for device in process["devices"]} for kind in KINDS}

    def bills(self):
        """Returns what this run's tenants were billed for each device, in ms."""
        tenants = json.loads(self.machine.allot("ps", "--json"))["tenants"]
        return {(int(tenant["name"].rsplit("-", 1)[1]), i):
                (device["compute"].get("busy_ns") or 0) / MS
                for tenant in tenants if tenant["name"].startswith(f"tenant-{self.runs}-")
                for i, device in enumerate(tenant["devices"])}

    def rival_ms(self, truth):
        pids = self.rival.pids if self.rival else ()
        return sum(truth["closed_ns"].get((pid, 0), 0) for pid in pids)

    def close(self):
        self.machine.close()


@dataclass
class Seen:
    """One run of a word, from its go to its end. By tenant and device: `work_ms` until all were
    done, `true_ms`, `switch_ms` and `billed_ms` until the bill was complete."""
    done_ms: list
    more: list  # what each tenant's program said
    work_ms: dict
    true_ms: dict = field(default_factory=dict)
    switch_ms: dict = field(default_factory=dict)
    billed_ms: dict = field(default_factory=dict)
    rival_ms: float = 0
    wall_ms: float = 0  # in which the rival had that

    def device_ms(self, tenant):
        return [self.work_ms.get((tenant, device), 0) for device in range(GPUS)]


def words_of(name, stage, rank, ranks):
    """The words of the command line for a tenant."""
    if not name.startswith("rank-"):
        return [name]
    return ["rank", rank, ranks, os.path.join(stage.machine.tmp, f"words-{stage.runs}"),
            name.removeprefix("rank-")]


def sums(truth, programs, kind="closed_ns"):
    """By tenant and device, of all its processes."""
    return {(t, device): sum(truth[kind].get((pid, device), 0) for pid in program.pids)
            for t, program in enumerate(programs) for device in range(GPUS)}


def switches(truth, programs):
    """What the device took on its way between contexts of one tenant, by tenant and device. It is
    not asked whether it came from another tenant where one has several processes."""
    one, several = (sums(truth, programs, kind) for kind in ("own_switch_ns", "switch_ns"))
    return {(t, device): (several if len(programs[t].pids) > 1 else one)[t, device]
            for t, device in one}


def await_done(stage, programs, before, hangs_s):
    """Returns what each program says at its end."""
    until = time.monotonic() + hangs_s
    done = [program.said(["done_ms"], until) for program in programs]
    if None in done:
        after = sums(stage.truth()[1], programs)
        late = [str(t) for t, said in enumerate(done) if said is None]
        whose = f" of tenant {', '.join(late)}" if len(programs) > 1 else ""
        worked = sum(after.values()) - sum(before.values())
        said = programs[done.index(None)].lines[-1]
        raise Hangs(f"hangs{whose}: not done after {hangs_s:.1f} s, in which {worked:.0f} ms of "
                    f"work were done; last said {said}")
    return done


def difference(after, before):
    return {key: value - before.get(key, 0) for key, value in after.items()}


def begin(stage, name, mode):
    """Returns a program for each tenant, ready to go."""
    stage.runs += 1
    programs, count = [], len(mode.tenants)
    try:
        for t, tenant in enumerate(mode.tenants):
            run = tenant.run and ["--name", f"tenant-{stage.runs}-{t}", *tenant.run]
            programs.append(Word(stage.machine, words_of(name, stage, t, count), run))
        until = time.monotonic() + STARTS_S
        for program in programs:
            program.await_ready(until)
    except Off:
        leave(programs)
        raise
    return programs


def leave(programs):
    for program in programs:
        program.leave()


def watch(stage, mode, programs, hangs_s):
    """From the go to the end of all programs."""
    billed = stage.bills() if mode.billed else {}
    from_ms, truth = stage.truth()
    before, switched = sums(truth, programs), switches(truth, programs)
    rival_ms = stage.rival_ms(truth)
    for program in programs:
        program.go()
    done = await_done(stage, programs, before, hangs_s)
    to_ms, truth = stage.truth()
    seen = Seen([said["done_ms"] for said in done], done, difference(sums(truth, programs), before),
                rival_ms=stage.rival_ms(truth) - rival_ms, wall_ms=to_ms - from_ms)
    if mode.billed:
        time.sleep(SETTLES_S)
        truth = stage.truth()[1]
        seen.true_ms = difference(sums(truth, programs), before)
        seen.switch_ms = difference(switches(truth, programs), switched)
        seen.billed_ms = difference(stage.bills(), billed)
    return seen


def play(stage, name, mode, hangs_s):
    """Runs the word once."""
    programs = begin(stage, name, mode)
    try:
        time.sleep(mode.rests_s)
        return watch(stage, mode, programs, hangs_s)
    finally:
        leave(programs)


class Judge:
    """What must hold of a run, by what the same word did natively."""

    def __init__(self, mode, native):
        self.mode, self.native = mode, native

    def limit_ms(self, tenant):
        share = self.mode.tenants[tenant].share
        asked = max(ms * (1 / share[device] - 1)
                    for device, ms in enumerate(self.native.device_ms(tenant)))
        return TIMES * (max(self.native.done_ms) + asked) + MORE_MS

    @property
    def longest_ms(self):
        return max(map(self.limit_ms, range(len(self.mode.tenants))))

    @property
    def hangs_s(self):
        longest_s = self.longest_ms / 1e3
        return max(min(max(HANGS * longest_s, HANGS_LEAST_S), HANGS_MOST_S), HANGS_IN_ANY_CASE * longest_s)

    def rival_least_ms(self, seen):
        """What the word's tenant does not use is the rival's, and its part is in any case."""
        took_ms, work_ms = seen.done_ms[0], seen.work_ms[0, 0]
        left_ms = min(took_ms - KEEPS * work_ms, self.mode.most * took_ms)
        beside_ms = self.mode.most * (seen.wall_ms - took_ms)
        return RIVAL_PART * (max(self.mode.part * took_ms, left_ms) + beside_ms) - SLICE_MS

    @staticmethod
    def bill(seen, tenant, whose):
        """Yields figures. What the device takes on its way from one of the tenant's contexts to
        another may be billed, as in the audit."""
        for device in range(GPUS):
            billed, true, switch = (ms.get((tenant, device), 0) for ms in
                                    (seen.billed_ms, seen.true_ms, seen.switch_ms))
            least = true * (1 - BILL_PART) - BILL_MS
            most = (true + switch) * (1 + BILL_PART) + BILL_MS
            if billed or true:
                yield (max(least - billed, billed - most), f"{whose}billed {billed:.1f} ms of true "
                       f"{true:.1f}{f' and {switch:.1f}' if switch else ''} on device {device}")

    def figures(self, seen):
        """Yields a pair for each figure: by how many ms it is wrong (it is right up to 0), and what
        it is."""
        for t, ms in enumerate(seen.done_ms):
            whose = f"tenant {t} " if len(seen.done_ms) > 1 else ""
            most = self.limit_ms(t)
            yield ms - most, f"{whose}took {ms:.0f} ms of at most {most:.0f}"
            if seen.more[t].get("refused"):
                yield math.inf, f"{seen.more[t]['refused']} failed: {seen.more[t]['first']}"
            yield from self.bill(seen, t, whose)
        if self.mode.rival:
            least = max(0, self.rival_least_ms(seen))
            yield (least - seen.rival_ms, f"the rival had {seen.rival_ms:.0f} of "
                   f"{seen.wall_ms:.0f} ms, at least {least:.0f} are its")


@dataclass
class Verdict:
    name: str
    mode: str
    what: str  # ok, FAILED, known, or unmeasured: the processor was elsewhere each time
    words: str

    def __str__(self):
        return f"{self.name}, {self.mode}: {self.what}: {self.words}"


def known(name, mode):
    """Why the word is wrong in this mode; None if it is not to be."""
    return next((why for word, modes, why in KNOWN
                 if fnmatch.fnmatch(name, word) and fnmatch.fnmatch(mode.name, modes)), None)


class Suite:
    """Runs of words, one after the other. Natively each is measured once. Runs of a mode share a
    stage until something is wrong there."""

    def __init__(self, verbose):
        self.verbose = verbose
        self.stages = {}  # of this mode, and the one without tenants
        self.natives = {}

    def stage(self, mode):
        found = self.stages.get(mode.name)
        if found and time.monotonic() - found.began < STAGE_LASTS_S:
            return found
        for name in {*self.stages} - {"native"} | {mode.name}:
            self.drop(name)
        self.stages[mode.name] = Stage(mode)
        return self.stages[mode.name]

    def drop(self, name):
        if name in self.stages:
            self.stages.pop(name).close()

    def close(self):
        for name in [*self.stages]:
            self.drop(name)

    def native(self, name, mode):
        """As many programs as the mode has tenants, in none."""
        key = name, len(mode.tenants)
        if key not in self.natives:
            natively = replace(NATIVE, tenants=[Tenant()] * len(mode.tenants))
            try:
                self.natives[key] = play(self.stage(NATIVE), name, natively, HANGS_MOST_S)
            except Off as off:
                self.drop(NATIVE.name)
                raise type(off)(f"natively: {off}") from off
        return self.natives[key]

    def attempt(self, name, mode):
        """Returns what was seen, in words. Raises Off for what is not as it must be."""
        judge = Judge(mode, self.native(name, mode))
        seen = (judge.native if mode is NATIVE else
                play(self.stage(mode), name, mode, judge.hangs_s))
        figures = list(judge.figures(seen))
        wrong = [(by_ms, words) for by_ms, words in figures if by_ms > 0]
        if wrong:
            raise Off("; ".join(words for _, words in wrong), max(by_ms for by_ms, _ in wrong))
        return "; ".join(words for _, words in figures)

    def run(self, name, mode):
        hung, excuses, before = 0, [], ""
        for _ in range(ATTEMPTS):
            canary = Canary()
            try:
                return Verdict(name, mode.name, "ok", self.attempt(name, mode) + before)
            except Off as wrong:
                off = wrong
            finally:
                canary.end()
            late = canary.words() or ""
            excuses.append(late and off.by_ms < EXCUSED * canary.late_ns / MS)
            if self.verbose:
                print(f"    {name}, {mode.name}: {off}; {late or 'on time'}", flush=True)
            self.drop(mode.name)
            before += f"; before that: {off}"
            hung += isinstance(off, Hangs)
            if hung == 2:
                break
            if not isinstance(off, Hangs) and known(name, mode):
                return Verdict(name, mode.name, "known", f"{off} ({known(name, mode)})")
        if all(excuses):
            return Verdict(name, mode.name, "unmeasured", f"{off}; {late}")
        return Verdict(name, mode.name, "FAILED", str(off))


def list_words():
    env = {**os.environ, "LD_LIBRARY_PATH": os.environ["SIM"]}
    said = subprocess.run([os.environ["WAITS"], "--list"], text=True, check=True, env=env,
                          stdout=subprocess.PIPE)
    return [word for word in said.stdout.split() if word != "rank"] + RANKS


def cases(only, modes):
    """Yields names and modes. A pattern without a joker names a word that is run by hand, too."""
    names = list_words()
    if only not in names and only in BY_HAND:
        names = [only]
    for mode in MODES:
        if not any(fnmatch.fnmatch(mode.name, pattern) for pattern in modes):
            continue
        for name in names:
            if fnmatch.fnmatch(name, only) and mode.has(name):
                yield name, mode


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", metavar="WORD", default="*", help="a word or a pattern")
    parser.add_argument("--mode", metavar="MODE", default="*",
                        help="a mode or a pattern, or several, separated by commas")
    parser.add_argument("--jobs", type=int, default=1, help="more than 1 disturb each other")
    parser.add_argument("--verbose", action="store_true", help="each attempt, not only the last")
    parser.add_argument("--list", action="store_true", help="show all words and modes")
    args = parser.parse_args()
    todo = list(cases(args.only, args.mode.split(",")))
    if args.list:
        for mode in dict.fromkeys(mode.name for _, mode in todo):
            print(f"{mode}: {' '.join(name for name, of in todo if of.name == mode)}")
        return 0
    if not todo:
        parser.error(f"no word {args.only} in a mode {args.mode}; --list shows all")
    return run_all(todo, args)


def run_all(todo, args):
    suites = [Suite(args.verbose) for _ in range(args.jobs)]

    def work(suite, part):
        try:
            for case in part:
                verdict = suite.run(*case)
                print(verdict, flush=True)
                yield verdict.what
        finally:
            suite.close()

    with ThreadPoolExecutor(args.jobs) as pool:
        parts = pool.map(lambda i: list(work(suites[i], todo[i::args.jobs])), range(args.jobs))
        whats = [what for part in parts for what in part]
    count = {what: whats.count(what) for what in ("FAILED", "known", "unmeasured")}
    print(f"{len(whats)} runs, {count['FAILED']} failed, {count['known']} known to be wrong, "
          f"{count['unmeasured']} unmeasured")
    return 1 if count["FAILED"] else 77 if count["unmeasured"] else 0


if __name__ == "__main__":
    sys.exit(main())
