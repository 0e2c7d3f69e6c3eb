# SPDX-License-Identifier: Apache-2.0
"""What it costs to be swappable while nobody is moved: the work that whole programs get done, and
allocations, against the same tenant without --swappable, by turns in the same run."""
import contextlib
import random
import statistics

from harness import MIB, Trouble, have, mib
from parts.loops import Loop, end_all, framework
from parts.overheads import spread

PART = "swap-programs"
SWAPPABLE = ("--swappable",)
SIDES = {"plain": (), "swappable": SWAPPABLE}
# name: (module, kind of loop.py, which of its steps)
LOOPS = {
    "PyTorch": ("torch", "train", "train"),
    "tokens": ("torch", "tokens", "batch4"),
    "JAX": ("jax", "jax", "jax"),
    "CuPy": ("cupy", "cupy", "cupy"),
    "Triton": ("triton", "triton", "triton"),
}
PERCENT = 99.0
ROUNDS, ROUND_S, SETTLE_S, WARM_S = 3, 2.0, 0.3, 0.6
PAIRS = {(1, ""): 200, (2, ""): 200, (64, ""): 60, (1, "async"): 2000,
         (64, "async"): 2000}  # MiB, how: pairs in a block
BLOCKS = 15
TURNS, KEPT_MIB, SLACK_MIB = 30, 64, 4  # as much as is kept at most, and as a context changes by


class Programs:
    """All programs with both sides, there from the start; each is only told to work alone."""

    def __init__(self, bench, names):
        self.loops, self.rows = {}, []
        for name in names:
            module, kind, _ = LOOPS[name]
            if bench.sim or not have(module):
                bench.results.skip(PART, f"speed {name}", "needs a real driver"
                                   if bench.sim else f"no {module} here")
                continue
            self.loops[name] = {side: Loop(bench, framework(kind), options)
                                for side, options in SIDES.items()}

    def ready(self):
        """All of them, before one is measured: who is not says so when its turn has come."""
        for sides in self.loops.values():
            for loop in sides.values():
                with contextlib.suppress(Trouble):
                    loop.ready(120)

    def end(self):
        end_all(loop for sides in self.loops.values() for loop in sides.values())


def work(loop, seconds, settle, what):
    """Steps a second from now on. Not as loops.alone: nothing is billed here."""
    loop.child.say(f"0 {seconds:g} {settle:g} - what={what}")
    return loop.child.hear("load", seconds + 30)["rate"]


def speed(bench, programs, name):
    sides, what = programs.loops[name], LOOPS[name][2]
    for loop in sides.values():
        loop.ready(1)
    for loop in sides.values():
        work(loop, WARM_S, 0, what)
    rates = {side: [] for side in sides}
    for turn in range(1 if bench.quick else ROUNDS):
        for side in (sides if turn % 2 == 0 else reversed(sides)):
            rates[side].append(work(sides[side], ROUND_S, SETTLE_S, what))
    end_all(sides.values())
    plain, swappable = (statistics.median(rates[side]) for side in SIDES)
    percent = 100 * swappable / plain
    apart = 100 * (max(rates["plain"]) - min(rates["plain"])) / plain
    bench.results.figure(PART, f"speed {name}", rates)
    programs.rows.append((name, f"{plain:.2f}", f"{swappable:.2f}", f"{percent:.2f}",
                          f"{apart:.2f}"))
    bench.results.check(PART, f"speed {name}", percent >= PERCENT,
                        f"{percent:.2f} %, {plain:.2f} to {swappable:.2f} steps/s",
                        f"{PERCENT:g} %", f"rounds of the plain one are {apart:.2f} % apart")


def block(child, size, pairs):
    megabytes, how = size
    child.say(f"{megabytes} {pairs} {how}")
    return child.hear("pairs", 60)["ns"]


def pairs(bench):
    """Noise: how far one block's ratio may be off, by blocks of the plain one that follow each
    other, and that of the median of so many of them."""
    command, blocks = [bench.program("allocs")], 3 if bench.sim or bench.quick else BLOCKS
    with bench.start(bench.tenant(), "16GiB", command) as plain, \
            bench.start(bench.tenant(), "16GiB", command, SWAPPABLE) as swappable:
        children = {"plain": plain, "swappable": swappable}
        for child in children.values():
            child.hear("ready", 60)
        for size, count in PAIRS.items():
            found = {side: [] for side in children}
            for turn in range(blocks):
                for side in (children if turn % 2 == 0 else reversed(children)):
                    found[side].append(block(children[side], size, count))
            judge(bench, size, found)
        for child in children.values():
            if child.end() != 0:
                raise Trouble("a program did not end well")


def asked(bench):
    """Two processes of a tenant that take turns: one keeps what it frees, and the other has room
    only without that. What they keep and want is drawn at random; what the driver takes for itself
    may still change by a little."""
    name, command, chance = bench.tenant(), [bench.program("allocs")], random.Random()
    waits, turns = [], 2 if bench.sim or bench.quick else TURNS
    refused = left = given = 0
    with bench.start(name, "16GiB", command, SWAPPABLE) as one, \
            bench.start(name, "16GiB", command, SWAPPABLE) as other:
        children = (one, other)
        for child in children:
            child.hear("ready", 60)
        held = bench.ps(name)["used_bytes"]
        figure = sum(bench.figures.of(child.pid) for child in children)
        for turn in range(turns):
            keeps, asks = children if turn % 2 == 0 else reversed(children)
            size, wants = (chance.randrange(4 * SLACK_MIB, KEPT_MIB + 1, 2) for _ in range(2))
            bench.set(name, "--memory", "16GiB")
            block(keeps, (size, ""), 1)
            if bench.ps(name)["used_bytes"] < held + (size - SLACK_MIB) * MIB:
                raise Trouble(f"{size} MiB are not kept")
            bench.set(name, "--memory", str(held + (max(size, wants) + SLACK_MIB) * MIB))
            asks.say(f"{wants} 1 hold")
            said = asks.hear("held", 60)
            refused += said["result"] != 0
            waits.append(said["ns"] / 1e3)
            left = max(left, bench.ps(name)["used_bytes"] - held - wants * MIB)
            given = max(given, sum(bench.figures.of(child.pid) for child in children)
                        - figure - wants * MIB)
            asks.say(f"{wants} 1 free")
            asks.hear("freed", 60)
    bench.results.figure(PART, "asked", {"waits_us": waits, "refused": refused, "left": left,
                                         "given": given})
    bench.results.check(PART, f"memory that another process keeps, {turns} times asked for",
                        not refused and max(left, given) <= SLACK_MIB * MIB,
                        f"{refused} refused, {mib(left)} left, {mib(given)} by the driver",
                        f"none refused, {SLACK_MIB} MiB at most",
                        f"{statistics.median(waits):.0f} us, {max(waits):.0f} at most")


def judge(bench, size, found):
    megabytes, how = size
    name = f"cuMemAlloc{how.title()} + cuMemFree{how.title()}, {megabytes} MiB"
    plain, swappable = (statistics.median(found[side]) for side in SIDES)
    ratio = statistics.median(s / p for s, p in zip(found["swappable"], found["plain"]))
    noise = (spread([b / a for a, b in zip(found["plain"], found["plain"][1:])])
             / len(found["plain"]) ** 0.5)
    said = f"x{ratio:.3f}, {plain / 1e3:.2f} to {swappable / 1e3:.2f} us, noise {noise:.3f}"
    bench.results.figure(PART, name, {**found, "ratio": ratio, "noise": noise})
    if bench.sim:
        bench.results.skip(PART, name, f"{said}, simulated")
    else:
        bench.results.check(PART, name, ratio <= 1 + noise, said, "x1, within the noise")
