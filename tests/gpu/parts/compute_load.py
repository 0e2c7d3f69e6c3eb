# SPDX-License-Identifier: Apache-2.0
"""What the measurements of compute share: loads that start at one instant, limits that change while
they run, and what was done when."""
import statistics
import time

from harness import Child, Trouble

ALONE_S = 2.0
ALONE_SETTLE_S = 0.5
START_S = 0.7  # from a program's start to its "ready"
MEMORY = "16GiB"
SHARE = ("--policy", "share", "--weight", 1)


def spin(bench, words, us=1000, seconds=5.0, warm=0.5, canary=True):
    command = [bench.load, "--wait", "--kernel-us", us,
               "--seconds", f"{seconds:g}", "--warm-up", f"{warm:g}", *words]
    if canary:
        command += ["--canary"]
    if getattr(bench, "loops_per_us", None):
        command += ["--loops-per-us", f"{bench.loops_per_us:.9g}"]
    return command


def calibrate(bench):
    """The kernel's speed, once, while nobody disturbs."""
    if getattr(bench, "loops_per_us", None):
        return
    with Child(spin(bench, (), seconds=1)) as child:
        bench.loops_per_us = go([child], 1)[0][0]["loops_per_us"]
    bench.results.figure("compute", "loops_per_us", bench.loops_per_us)


def begin(bench, command, options):
    """`options` of `allot run`; None: without a tenant."""
    return (Child(command) if options is None
            else bench.start(bench.tenant(), MEMORY, command, options))


def go(children, seconds, processes=1, play=lambda start: None):
    """Starts all at one instant, plays, and answers for each child what its processes said."""
    for child in children:
        child.hear("ready", 120)
    start = time.monotonic_ns() + 100_000_000
    for child in children:
        child.say(str(start))
    play(start / 1e9)
    said = [[child.hear("load", seconds + 60) for _ in range(processes)] for child in children]
    late = max(s.get("late_ms", 0) for of in said for s in of)
    if late > 10 * seconds:
        print(f"       doubtful: the processor was late by {late:.0f} ms in {seconds:g} s")
    return said


def go_and_end(children, seconds, play=lambda start: None):
    """The same with children of one process each, which are gone afterwards."""
    try:
        return [said for (said,) in go(children, seconds, 1, play)]
    finally:
        for child in children:
            child.kill()


def sleep_until(at):
    time.sleep(max(0, at - time.monotonic()))


def settle_s(bench):
    """Before what is measured: 2 s where the measurement is as long as what is promised."""
    return min(2.0, bench.compute_seconds / 4)


class Bins:
    """Shares over time, of all processes together."""

    def __init__(self, said):
        self.width = said[0]["bin_ms"] / 1e3
        self.values = [sum(column) for column in zip(*(s["bins"] for s in said))]

    def mean(self, from_s, to_s):
        picked = self.values[round(from_s / self.width):round(to_s / self.width)]
        return statistics.fmean(picked) if picked else 0

    def worst(self, from_s, to_s, target):
        """Of all whole seconds in between, the share that is furthest from the target."""
        starts = range(round(from_s / self.width), round((to_s - 1) / self.width) + 1)
        shares = [self.mean(i * self.width, i * self.width + 1) for i in starts]
        return max(shares, key=lambda share: abs(share - target), default=None)
