# SPDX-License-Identifier: Apache-2.0
"""Unmodified PyTorch under a share of compute: on one device, and on two that must meet."""
import contextlib
import os
import statistics
import sys
import time

from harness import HERE, Child, Trouble
from parts.compute_load import Bins, change, go, go_and_end, settle_s, sleep_until
from parts.compute_solo import judge, plan, through

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


def ddp_words(seconds):
    return [sys.executable, HERE / "frameworks/ddp.py", f"{seconds:g}"]


def ddp_seconds(bench):
    return 2 * (2 * START_S + settle_s(bench) + max(LEAST_S, bench.compute_seconds)) + 4


def ddp(bench, name):
    """Two ranks on two devices in one tenant, whose gradients meet in an all-reduce: a rank that is
    held while the other spins in the collective must not hold it for ever."""
    settle, measured = settle_s(bench), max(LEAST_S, bench.compute_seconds)
    total = settle + measured
    # Multicast over NVLink needs a fabric manager that not every host lends.
    env = {"NCCL_NVLS_ENABLE": "0"}
    (said,) = go_and_end([Child(ddp_words(total), env={**os.environ, **env})], total)
    native = Bins([said]).mean(settle, total)
    tenant, began = bench.tenant(), time.monotonic()
    # Under the limit from its start: the ranks meet for the first time in it.
    child = bench.start(tenant, MEMORY, ddp_words(total + 4), ("--compute", DDP_CAP), env)

    def play(start):
        sleep_until(start + total)
        change(bench, tenant, "--compute", 100)

    (said,) = go_and_end([child], total + 4, play)
    bins = Bins([said])
    got, free = bins.mean(settle, total), bins.mean(total + 1, total + 4)
    bench.results.figure("compute", name, {"native": native, "got": got, "at 100 %": free,
                                           "steps": said["steps"], "bins": bins.values,
                                           "seconds": time.monotonic() - began})
    part, whole_part = (100 * rate / native if native else 0 for rate in (got, free))
    bench.results.check("compute", name, abs(part - DDP_CAP) <= DDP_POINTS,
                        f"{part:.1f} % of native, {whole_part:.1f} % at 100 %",
                        f"no deadlock, {DDP_CAP} ±{DDP_POINTS:g} %")
