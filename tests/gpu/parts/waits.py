# SPDX-License-Identifier: Apache-2.0
"""Programs whose progress on the device depends on launches that come later (programs/waits.cu):
natively, under caps, and as a tenant beside a rival that always has work. They must not hang, must
take no longer than 3 times what their share asks, and must not be billed for their waits."""
import contextlib
import sys
import time
from collections import namedtuple
from dataclasses import dataclass

from harness import HERE, Trouble, have
from parts.compute_load import Bins, begin, calibrate, go_and_end, sleep_until, spin
from parts.loops import CLOSED_S, Items, Loop
from parts.ways import PROGRAMS, compiled, nvcc

PART = "waits"
MEMORY = "16GiB"
SHARE = ("--policy", "share", "--weight", 1)

TIMES, MORE_MS = 3, 50  # of what a share asks
BILL_PART, BILL_MS = 0.05, 2.0
READY_S, ANSWER_S = 60, 20
HANGS = 2  # modes of an item without an answer; the others are not tried
RIVAL_S, RIVAL_STARTS_S = 200, 0.5

PAIR_S, PAIR_MS, PAUSE_MS = 3.0, 20.0, 30.0  # a pair has 20 ms beyond its pause
IN_FLIGHT = 4  # pairs of a round
COLD_NEXT_MS = 100.0
COUNTS, WAYS, ROUNDS = (10, 100, 300), ("word", "host"), 2
BLOCKED_S, ALONE_S, SETTLE_S, RIVAL_PERCENT = 4.0, 2.0, 0.5, 95.0
NCCL_S, NCCL_READY_S, SUMS_AT_ONCE = 2.0, 90, 16
TORCH_READY_S = 90

# `options` of `allot run`, None: without a tenant. `rival`: None, "busy" or "idle".
Mode = namedtuple("Mode", "options share rival", defaults=(1.0, None))


def cap(*percents):
    return Mode(("--compute", ",".join(map(str, percents))), min(percents) / 100)


MODES = {"native": Mode(None), "memory": Mode(()), "cap 100": cap(100), "cap 90": cap(90),
         "cap 50": cap(50), "cap 25": cap(25), "cap 10": cap(10), "cap 50,50": cap(50, 50),
         "cap 50,25": cap(50, 25), "weight": Mode(SHARE, 0.5, "busy"),
         "idle rival": Mode(SHARE, 1.0, "idle")}


@dataclass
class At:
    """One item in one mode. `native`: what the item answered natively."""
    bench: object
    item: str
    name: str
    native: object
    table: dict

    @property
    def mode(self):
        return MODES[self.name]

    def check(self, what, ok, value, target, remark=None):
        self.bench.results.check(PART, f"{self.item}, {self.name}: {what}", ok, value, target,
                                 remark)

    def cell(self, row, text):
        self.table.setdefault(f"{self.item}: {row}", {})[self.name] = text

    def natively(self):
        if self.native is None:
            raise Trouble("there is nothing to compare with: it was not measured natively")
        return self.native

    def limit_ms(self, native_ms):
        """Natively the device is busy for all of this time."""
        return TIMES * native_ms / self.mode.share + MORE_MS

    def check_bill(self, what, billed_ms, true_ms):
        """Nothing is billed without a tenant."""
        if billed_ms is not None:
            self.check(what, bill_off(billed_ms, true_ms) <= 0,
                       f"{billed_ms:.1f} of true {true_ms:.1f} ms",
                       f"±{100 * BILL_PART:g} %, {BILL_MS:g} ms")


def bill_off(billed_ms, true_ms):
    """By how many ms a bill is wrong beyond what it may be."""
    return abs(billed_ms - true_ms) - BILL_PART * true_ms - BILL_MS


def words(bench, *args):
    return [bench.waits, args[0], f"{bench.waits_speed['loops_per_us']:.6f}", *args[1:]]


@contextlib.contextmanager
def beside(bench, rival):
    """A rival tenant on device 0, of the same weight."""
    if not rival:
        yield
        return
    command = spin(bench, (), seconds=RIVAL_S, canary=False)
    with bench.start(bench.tenant(), MEMORY, command, SHARE) as child:
        child.hear("ready", READY_S)
        if rival == "busy":
            child.say("0")
            time.sleep(RIVAL_STARTS_S)
        yield


@contextlib.contextmanager
def program(at, command, ready_s=READY_S):
    """The program in this mode, once it is ready."""
    with beside(at.bench, at.mode.rival):
        loop = Loop(at.bench, command, at.mode.options, memory=MEMORY)
        try:
            yield loop.ready(ready_s)
        finally:
            loop.kill()


def told(loop, stage, line="go", timeout=ANSWER_S):
    """Has a program go on. Answers what it says, with `billed_ms` of device 0, None natively."""
    before = loop.busy_ns() or 0
    loop.child.say(line)
    said = loop.child.hear(stage, timeout)
    said["billed_ms"] = None
    if loop.tenant:
        time.sleep(CLOSED_S)
        said["billed_ms"] = ((loop.busy_ns() or 0) - before) / 1e6
    return said


def spread(values):
    return "/".join(f"{value:.2f}" if value < 10 else f"{value:.0f}" for value in values)


# --- Kernels that wait for kernels ----------------------------------------------------------------

def pair(at):
    with program(at, words(at.bench, "pair", f"{PAIR_S:g}")) as loop:
        said = told(loop, "paired")
    round_ms = IN_FLIGHT * PAIR_MS
    # The waiter itself is held until what spun before is paid for.
    limit = TIMES * (PAUSE_MS + PAIR_MS) / at.mode.share + MORE_MS
    at.check("each pair", said["spun_ms"][2] <= PAIR_MS and not said["gave_up"],
             f"median, p99, slowest {spread(said['spun_ms'])} ms"
             + (", gave up" if said["gave_up"] else ""),
             f"{PAIR_MS:g} ms beyond the pause",
             f"{said['pairs']} pairs; slowest without pause {said['no_pause_ms'][2]:.2f}, of 3 ms "
             f"{said['short_pause_ms'][2]:.2f}, of 30 ms {said['long_pause_ms'][2]:.2f} ms; to the "
             f"host {spread(said['whole_ms'])} ms, of which the waiter's launch is "
             f"{spread(said['held_ms'])}")
    at.check("to the host", said["whole_ms"][2] <= limit,
             f"median, p99, slowest {spread(said['whole_ms'])} ms", f"{limit:.0f} ms")
    at.check(f"{IN_FLIGHT} in flight", said["rounds"] and said["round_spun_ms"][2] <= round_ms
             and not said["gave_up"], f"median, p99, slowest {spread(said['round_spun_ms'])} ms",
             f"{round_ms:g} ms a round",
             f"{said['rounds']} rounds; to the host {spread(said['round_whole_ms'])} ms")
    at.cell("slowest ms", f"{said['spun_ms'][2]:.1f}")
    at.cell("slowest round ms", f"{said['round_spun_ms'][2]:.1f}")
    return said


def procs(at):
    with program(at, words(at.bench, "procs")) as loop:
        most_s = 0 if at.name == "native" else at.limit_ms(at.natively()["total_ms"]) / 1e3
        said = told(loop, "met", timeout=ANSWER_S + most_s)
    limit = at.limit_ms(at.native["total_ms"] if at.native else said["total_ms"])
    at.check("all steps", said["total_ms"] <= limit and not said["gave_up"],
             f"{said['steps']} in {said['total_ms']:.0f} ms"
             + (", gave up" if said["gave_up"] else ""), f"{limit:.0f} ms",
             f"a step's median, p99, slowest {spread(said['step_ms'])} ms")
    at.cell("ms", f"{said['total_ms']:.0f}")
    return said


def nccl(at):
    command = [sys.executable, HERE / "frameworks/nccl.py"]
    with program(at, command, NCCL_READY_S) as loop:
        said = told(loop, "summed", f"{NCCL_S:g}", NCCL_S + ANSWER_S)
    said["ms"] = 1e3 / said["rate"]
    native_ms = said["ms"] if at.name == "native" else at.natively()["ms"]
    limit = at.limit_ms(SUMS_AT_ONCE * native_ms) / SUMS_AT_ONCE
    at.check("each sum", said["ms"] <= limit and not said["wrong"],
             f"{said['ms']:.2f} ms, {said['wrong']} wrong words", f"{limit:.2f} ms, none")
    at.cell("ms a sum", f"{said['ms']:.2f}")
    return said


# --- Captures -------------------------------------------------------------------------------------

def capture(at):
    with program(at, words(at.bench, "capture")) as loop:
        said = told(loop, "captured")
    most = 0 if at.name == "native" else at.natively()["refused"]
    at.check("captures beside waits", said["refused"] <= most,
             f"{said['captures']} in {said['ms']:.0f} ms, {said['refused']} calls refused",
             f"{most} refused", said["first"] and f"first refused: {said['first']}")
    at.cell("calls refused", said["refused"])
    return said


# --- Waits for the host ---------------------------------------------------------------------------

def cold(at):
    with program(at, words(at.bench, "cold")) as loop:
        said = told(loop, "done")
    said["true_ms"] = said["kernels"] * at.bench.waits_speed["kernel_us"] / 1e3
    at.check("the next kernel", said["next_ms"] < COLD_NEXT_MS, f"{said['next_ms']:.1f} ms",
             f"< {COLD_NEXT_MS:g} ms", f"behind {said['waited_ms']:.0f} ms of a wait")
    at.check_bill("billed", said["billed_ms"], said["true_ms"])
    at.cell("next ms", f"{said['next_ms']:.1f}")
    if said["billed_ms"] is not None:
        at.cell("billed ms", f"{said['billed_ms']:.1f} of {said['true_ms']:.1f}")
    return said


def graph(at):
    """Graphs that wait in their middle."""
    found = {}
    with program(at, words(at.bench, "graph")) as loop:
        for kind in ("event", "host"):
            said = found[kind] = told(loop, kind)
            true_ms = said["kernels"] * at.bench.waits_speed["kernel_us"] / 1e3
            base = found if at.name == "native" else at.natively()
            limit = TIMES * (base[kind]["ms"] + true_ms * (1 / at.mode.share - 1)) + MORE_MS
            at.check(f"{kind}, all rounds", said["ms"] <= limit, f"{said['ms']:.0f} ms",
                     f"{limit:.0f} ms")
            at.check_bill(f"{kind}, billed", said["billed_ms"], true_ms)
            if said["billed_ms"] is not None:
                at.cell(f"{kind}, billed ms", f"{said['billed_ms']:.1f} of {true_ms:.1f}")
    return found


def behind(at):
    """Answers for each way and count what each round said."""
    found, native = {}, at.name == "native"
    with program(at, words(at.bench, "behind")) as loop:
        for way in WAYS:
            for count in COUNTS:
                rounds = found[f"{way} {count}"] = []
                for _ in range(ROUNDS):
                    rounds.append(told(loop, "round", f"{way} {count} {int(native)}"))
                    time.sleep(count * at.bench.waits_speed["kernel_us"] / 1e6 / at.mode.share)
                if min(r["launched"] for r in rounds) < count:
                    break  # launches were held for seconds: more of them would take minutes
    base = found if native else at.natively()
    for way in WAYS:
        behind_judge(at, way, [Count(n, found[f"{way} {n}"], base[f"{way} {n}"])
                               for n in COUNTS if f"{way} {n}" in found])
    return found


class Count:
    """Rounds of so many launches, the worst of them, and what they were natively."""

    def __init__(self, count, rounds, native):
        self.count, self.complete = count, min(r["launched"] for r in rounds) == count
        self.launch_ms, self.done_ms = (max(r[k] for r in rounds) for k in ("launch_ms", "done_ms"))
        self.native_launch_ms, self.native_done_ms = (
            max(r[k] for r in native) for k in ("launch_ms", "done_ms"))
        self.true_ms = min(r["device_ms"] for r in native)
        bills = [r["billed_ms"] for r in rounds if r["billed_ms"] is not None]
        self.billed_ms = max(bills, key=lambda bill: bill_off(bill, self.true_ms), default=None)


def behind_judge(at, way, counts):
    done_most = [at.limit_ms(c.native_done_ms) for c in counts]
    launch_most = [c.native_launch_ms + MORE_MS for c in counts]
    asked = "/".join(str(c.count) for c in counts)
    at.check(f"{way}, launching", all(c.complete and c.launch_ms <= most
                                      for c, most in zip(counts, launch_most)),
             f"{spread(c.launch_ms for c in counts)} ms", f"{spread(launch_most)} ms",
             f"{asked} launches" + "".join(f"; of {c.count} some were never launched"
                                           for c in counts if not c.complete))
    at.check(f"{way}, done", all(c.complete and c.done_ms <= most
                                 for c, most in zip(counts, done_most)),
             f"{spread(c.done_ms for c in counts)} ms", f"{spread(done_most)} ms")
    at.cell(f"{way}, launching ms", spread(c.launch_ms for c in counts))
    at.cell(f"{way}, done ms", spread(c.done_ms for c in counts))
    if all(c.billed_ms is not None for c in counts):
        at.check(f"{way}, billed", all(bill_off(c.billed_ms, c.true_ms) <= 0 for c in counts),
                 f"{spread(c.billed_ms for c in counts)} ms",
                 f"{spread(c.true_ms for c in counts)} ms ±{100 * BILL_PART:g} %, {BILL_MS:g} ms")
    at.cell(f"{way}, billed ms", spread(c.true_ms if c.billed_ms is None else c.billed_ms
                                        for c in counts))


def blocked(at):
    """The rival's rate of kernels while the tenant merely waits, and before that."""
    waiter, opened = Loop(at.bench, words(at.bench, "blocked"), SHARE, memory=MEMORY), {}
    total = ALONE_S + BLOCKED_S + 0.5

    def play(start):
        sleep_until(start + ALONE_S)
        waiter.child.say("go")
        opened.update(waiter.child.hear("waiting", ANSWER_S))
        sleep_until(start + ALONE_S + BLOCKED_S)
        waiter.child.say("go")
        opened.update(waiter.child.hear("opened", ANSWER_S))

    try:
        waiter.ready(READY_S)
        before = waiter.busy_ns() or 0
        (said,) = go_and_end([begin(at.bench, spin(at.bench, (), seconds=total), SHARE)], total,
                             play)
        time.sleep(CLOSED_S)
        billed_ms = ((waiter.busy_ns() or 0) - before) / 1e6
    finally:
        waiter.kill()
    bins = Bins([said])
    alone, shared = bins.mean(SETTLE_S, ALONE_S), bins.mean(ALONE_S + 0.2, ALONE_S + BLOCKED_S)
    percent = 100 * shared / alone
    true_ms = opened["kernels"] * at.bench.waits_speed["kernel_us"] / 1e3
    limit = at.limit_ms(true_ms)
    at.check("the rival", percent >= RIVAL_PERCENT, f"{percent:.1f} % of alone",
             f"{RIVAL_PERCENT:g} %", f"alone {100 * alone:.1f} % of the device")
    at.check("from opening to done", opened["done_ms"] <= limit, f"{opened['done_ms']:.1f} ms",
             f"{limit:.0f} ms", f"launching took {opened['launch_ms']:.1f} ms")
    at.check_bill("billed", billed_ms, true_ms)
    at.cell("rival %", f"{percent:.1f}")
    return {**opened, "alone": alone, "shared": shared, "billed_ms": billed_ms, "bins": bins.values}


def torch_graph(at):
    command, said = [sys.executable, HERE / "frameworks/torch_waits.py"], {}
    with program(at, command, TORCH_READY_S) as loop:
        for graph in ("plain", "waits"):
            time.sleep(RIVAL_STARTS_S)
            said[graph] = told(loop, "replayed", graph)
    base = said if at.name == "native" else at.natively()
    true_ms, waits = base["plain"]["device_ms"], said["waits"]
    limit = TIMES * (base["waits"]["ms"] + true_ms * (1 / at.mode.share - 1)) + MORE_MS
    each, native_each = waits["ms"] / waits["replays"], base["waits"]["ms"] / waits["replays"]
    at.check("time", waits["ms"] <= limit, f"{each:.2f} ms a replay",
             f"{limit / waits['replays']:.2f} ms",
             f"natively {native_each:.2f}, of which the host's function is "
             f"{waits['nap_ms'] / waits['replays']:g} ms; without it "
             f"{true_ms / waits['replays']:.2f}")
    at.check_bill("billed without a wait", said["plain"]["billed_ms"], true_ms)
    at.check_bill("billed", waits["billed_ms"], true_ms)
    at.cell("ms a replay", f"{each:.2f}")
    if waits["billed_ms"] is not None:
        at.cell("billed ms", f"{waits['billed_ms']:.0f} of {true_ms:.0f}")
    return said


def cost(at):
    """Figures alone: ns of a call behind a launch, and of that launch."""
    with program(at, words(at.bench, "cost")) as loop:
        said = told(loop, "costs")
    for call, value in said.items():
        if isinstance(value, list):
            at.cell(f"{call} ns", f"{value[0]:.0f} + {value[1]:.0f}")
    return said


# --- The part -------------------------------------------------------------------------------------

BESIDE = ("cap 10", "cap 50", "weight")
# name: function, modes, and the most seconds of one mode.
ITEMS = {
    "pair": (pair, ("native", "cap 10", "cap 25", "cap 50", "cap 90", "weight"), 75),
    "procs": (procs, ("native", *BESIDE), 75),
    "nccl": (nccl, ("native", "cap 50", "cap 50,50", "cap 50,25", "weight"), 150),
    "capture": (capture, ("native", "cap 50", "weight"), 75),
    "cold wait": (cold, ("native", *BESIDE), 75),
    "graph": (graph, ("native", "cap 10", "cap 50", "weight"), 90),
    "behind": (behind, ("native", "cap 10", "cap 50", "cap 90", "weight"), 90),
    "blocked": (blocked, ("weight",), 75),
    "torch graph": (torch_graph, ("native", "cap 50"), 150),
    "one more event": (cost, ("native", "memory", "cap 100", "cap 50", "idle rival"), 60),
}
ELSEWHERE = ("nccl", "torch graph")  # of PyTorch, not of waits.cu


def prepare(bench):
    """Compiles the program and measures its speed while nobody disturbs."""
    calibrate(bench)
    bench.waits = compiled(bench, "waits", [nvcc(), "-O2", "-std=c++17", "-arch=native",
                                            PROGRAMS / "waits.cu", "-ldl", "-lpthread"])
    with Loop(bench, [bench.waits, "calibrate"]).child as child:
        bench.waits_speed = child.hear("calibrated", READY_S)
    bench.results.figure(PART, "speed", bench.waits_speed)
    bench.results.note(f"a kernel takes {bench.waits_speed['kernel_us']:.1f} us")
    return True


def lacks(bench, name):
    """Returns what an item needs and this machine has not."""
    if bench.sim:
        return "the simulated driver has no runtime's private tables"
    if name not in ELSEWHERE:
        return None if nvcc() else "no nvcc here"
    if not have("torch"):
        return "no torch here"
    return "one device" if name == "nccl" and len(bench.figures.devices) < 2 else None


def part(bench):
    items, table, ready = Items(bench, PART), {}, None
    for name in bench.chosen(PART, ITEMS):
        why = lacks(bench, name)
        if not why and name not in ELSEWHERE:
            if ready is None:
                ready = bool(items.run("prepare", prepare, bench, limit=150))
            why = None if ready else "its program is not there"
        if why:
            bench.results.skip(PART, name, why)
            continue
        function, modes, limit = ITEMS[name]
        native, hangs = None, 0
        for mode in modes:
            if hangs == HANGS:
                bench.results.skip(PART, f"{name}, {mode}", f"{HANGS} other modes did not end")
                continue
            said = items.run(f"{name}, {mode}", function, At(bench, name, mode, native, table),
                             limit=limit)
            native = said if mode == "native" else native
            hangs += said is None
            if said:
                bench.results.figure(PART, f"{name}, {mode}", said)
    columns = [mode for mode in MODES if any(mode in row for row in table.values())]
    bench.results.table(PART, ("what", *columns),
                        [(row, *(cells.get(mode, "") for mode in columns))
                         for row, cells in table.items()])
