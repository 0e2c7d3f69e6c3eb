# SPDX-License-Identifier: Apache-2.0
"""Unmodified PyTorch under a share of compute: on one device, and on two that must meet."""
import contextlib
import os
import statistics
import sys
import time

from harness import HERE, Child, Trouble
from parts.compute_load import Bins, go, go_and_end, settle_s, sleep_until
from parts.compute_solo import busy, judge, plan, through

MODES = ("matmul", "matmul-zeros", "train", "train-large", "train-graph")
CAPS = (50, 25)
POINTS = 1.0
MEMORY = "32GiB"
START_S = 7  # import, context, kernels
ALONE = (1.0, 3.0)  # what is measured without a limit: clocks fall in the first second of work
LEAST_S = 4.0

WHOLE_MODES = ("matmul-zeros", "train")
WHOLE_PERCENT = 0.5
WHOLE_S = 3.0
WHOLE_ORDER = ("native", "100 %", "100 %", "native", "native", "100 %")

DDP_MODELS = ("transformer", "wide")
DDP_CAP = 50
DDP_POINTS = 3.0


def command(mode, seconds):
    return [sys.executable, HERE / "frameworks/torch_load.py", mode, f"{seconds:g}"]


class Clocks:
    """Samples while it is open."""

    def __init__(self, uuid):
        self.child = Child([sys.executable, HERE / "clocks.py", uuid])
        self.child.hear("clock", 30)
        self.samples = []

    def close(self):
        """The answers stay."""
        self.child.end()
        with contextlib.suppress(Trouble):
            while True:
                self.samples.append(self.child.hear("clock", 1))

    def over(self, from_s, to_s):
        """Mean clock and power between two instants of CLOCK_MONOTONIC, and the part of samples in
        which power held the clock down."""
        picked = [s for s in self.samples if from_s <= s["at_s"] <= to_s]
        if len(picked) < 2 or any(s["mhz"] is None or s["energy_mj"] is None for s in picked):
            return None
        span = picked[-1]["at_s"] - picked[0]["at_s"]
        return {"mhz": statistics.fmean(s["mhz"] for s in picked),
                "watts": (picked[-1]["energy_mj"] - picked[0]["energy_mj"]) / 1e3 / span,
                "power_capped": statistics.fmean(bool(s["power_capped"]) for s in picked)}


def clock_words(clock):
    return "clock and power not known" if clock is None else (
        f"{clock['mhz']:.0f} MHz, {clock['watts']:.0f} W"
        + (f", held by power {clock['power_capped']:.0%} of the time" if clock["power_capped"]
           else ""))


def caps_plan(bench):
    return plan(bench, CAPS, alone_s=ALONE[1], least_s=LEAST_S)


def caps_seconds(bench, _):
    return START_S + caps_plan(bench)[-1].to_s


def caps(bench, name, mode):
    """The part of the work, the part of the time, and the clock at which it was done: a device that
    its power limits works faster in a part of the time."""
    phases, tenant, billed, began = caps_plan(bench), bench.tenant(), [], []
    play = through(bench, tenant, phases, (), billed)

    def watched(start):
        began.append(start)
        play(start)

    with bench.start(tenant, MEMORY, command(mode, phases[-1].to_s)) as child:
        clocks = Clocks(bench.figures.devices[0]["uuid"])
        try:
            (said,) = go([child], phases[-1].to_s, 1, watched)
        finally:
            clocks.close()
    rows = judge(bench, name, said, phases, billed, POINTS, ALONE)
    (start,) = began
    free = clocks.over(start + ALONE[0], start + ALONE[1])
    held = [clocks.over(start + p.from_s, start + p.to_s) for p in phases]
    bench.results.figure("compute", f"{name}, clocks", {"alone": free, "caps": held,
                                                        "samples": clocks.samples})
    bench.results.note(f"alone: {clock_words(free)}")
    for row, clock in zip(rows, held):
        time_words = "?" if row["billed"] is None else f"{row['billed']:.1f}"
        same = ("" if not (free and clock and clock["mhz"]) else
                f"; at the clock it had alone {row['got'] * free['mhz'] / clock['mhz']:.1f} %")
        bench.results.note(f"{row['cap']} %: {row['got']:.1f} % of the work in {time_words} % of "
                           f"the time, {clock_words(clock)}{same}")


def whole_seconds(_, __):
    return START_S + 5 + len(WHOLE_ORDER) * WHOLE_S


def whole(bench, name, mode):
    """--compute 100 beside native: programs that are all there, and work one after the other."""
    children = [Child(command(mode, WHOLE_S)) if side == "native" else
                bench.start(bench.tenant(), MEMORY, command(mode, WHOLE_S), ("--compute", 100))
                for side in WHOLE_ORDER]
    found = {side: [] for side in WHOLE_ORDER}
    try:
        stage = [child.hear("ready", 120) for child in children]
        # Measured beside the others that were starting: each brings a unit of its own.
        units = [said["iteration_ms"] for said in stage]
        for side, child, unit in zip(WHOLE_ORDER, children, units):
            child.say(str(time.monotonic_ns() + 100_000_000))
            bins = Bins([child.hear("load", WHOLE_S + 60)])
            found[side].append(1e3 * bins.mean(1.0, WHOLE_S) / unit)
    finally:
        for child in children:
            child.kill()
    bench.results.figure("compute", name, found)
    native, limited = (statistics.fmean(found[side]) for side in ("native", "100 %"))
    apart = 100 * (max(found["native"]) - min(found["native"])) / native
    off = 100 * (limited - native) / native
    bench.results.check("compute", name, off >= -WHOLE_PERCENT,
                        f"{limited:.1f} of {native:.1f} iterations/s ({off:+.2f} %)",
                        f"-{WHOLE_PERCENT:g} %", f"native runs are {apart:.2f} % apart")


def ddp_words(model, seconds):
    return [sys.executable, HERE / "frameworks/ddp.py", model, f"{seconds:g}"]


def ddp_spans(bench):
    """Seconds from the start: when the limit is measured, and then --compute 100."""
    held_s, whole_s = settle_s(bench), max(LEAST_S, bench.compute_seconds)
    return (held_s, held_s + whole_s), (held_s + whole_s + 1, held_s + whole_s + 1 + WHOLE_S)


def ddp_seconds(bench, _):
    held, whole = ddp_spans(bench)
    return 3 * 2 * START_S + 2 * held[1] + whole[1]


class Ddp:
    """A run without a tenant, or of one under a limit that is lifted after a while."""

    def __init__(self, bench, model, seconds, tenant=None):
        # Multicast over NVLink needs a fabric manager that not every host lends.
        env, words = {"NCCL_NVLS_ENABLE": "0"}, ddp_words(model, seconds)
        # Under the limit from its start: the ranks meet for the first time in it.
        self.child = (Child(words, env={**os.environ, **env}) if tenant is None else
                      bench.start(tenant, MEMORY, words, ("--compute", DDP_CAP), env))
        self.clocks = [Clocks(device["uuid"]) for device in bench.figures.devices[:2]]
        self.seconds = seconds

    def go(self, play=lambda start: None):
        def watched(start):
            self.start = start
            play(start)

        try:
            (said,) = go_and_end([self.child], self.seconds, watched)
        finally:
            for clocks in self.clocks:
                clocks.close()
        self.bins, self.cpu_seconds = Bins([said]), said["cpu_seconds"]

    def over(self, from_s, to_s):
        """Steps a second, and each device's clock."""
        return self.bins.mean(from_s, to_s), [
            clocks.over(self.start + from_s, self.start + to_s) for clocks in self.clocks]


def ddp(bench, name, model):
    """Two ranks on two devices in one tenant, whose gradients meet in an all-reduce: a rank that is
    held while the other spins in the collective must not hold it for ever. What it is a part of is
    measured before and after it."""
    (held, whole), tenant, billed = ddp_spans(bench), bench.tenant(), []

    def play(start):
        sleep_until(start + held[0])
        first = [busy(bench, tenant, device) for device in (0, 1)]
        sleep_until(start + held[1] - 0.2)
        last = [busy(bench, tenant, device) for device in (0, 1)]
        billed.extend(100 * (b - a) / (b_at - a_at) for (a, a_at), (b, b_at) in zip(first, last))
        sleep_until(start + held[1])
        bench.set(tenant, "--compute", 100)

    figure, rows = {}, {}
    for word, seconds, of in (("before", held[1], None), ("limited", whole[1], tenant),
                              ("after", held[1], None)):
        one = Ddp(bench, model, seconds, of)
        one.go(play if of else lambda start: None)
        rows[word] = one.over(*held)
        if of:
            rows["at 100 %"] = one.over(*whole)
        figure[word] = {"bins": one.bins.values, "cpu_seconds": one.cpu_seconds}
    native = statistics.fmean(rows[word][0] for word in ("before", "after"))
    bench.results.figure("compute", name, {"rows": rows, "billed": billed, **figure})
    got = 100 * rows["limited"][0] / native
    apart = 100 * abs(rows["before"][0] - rows["after"][0]) / native
    for word, (rate, clocks) in rows.items():
        bench.results.note(f"{word}: {rate:.1f} steps/s, "
                           + "; ".join(clock_words(clock) for clock in clocks))
    bench.results.check(
        "compute", name, abs(got - DDP_CAP) <= DDP_POINTS,
        f"{got:.1f} % of native, {100 * rows['at 100 %'][0] / native:.1f} % at 100 %",
        f"no deadlock, {DDP_CAP} ±{DDP_POINTS:g} %", "by the ledger "
        + " ".join(f"{part:.1f}" for part in billed) + f"; native runs are {apart:.1f} % apart")
