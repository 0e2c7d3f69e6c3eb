# SPDX-License-Identifier: Apache-2.0
"""What the measurements with whole programs share: programs that are there from the start, and
answer one round after the other (frameworks/loop.py, programs/patterns.c), alone or some of them
at once, each a tenant whose limits `allot set` changes between rounds, or none."""
import contextlib
import os
import signal
import subprocess
import sys
import time

from harness import HERE, Absent, Child, OutOfTime, Trouble
from parts.compute_solo import busy

LEAD_S = 0.15
# Until what a program did is in the ledger, after it waited for all of it.
CLOSED_S = 0.25
TROUBLES = (Trouble, OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError,
            ZeroDivisionError)


def framework(kind):
    return [sys.executable, HERE / "frameworks/loop.py", kind]


def pattern(bench, form):
    return [bench.program("patterns"), form, f"{bench.loops_per_us:.9g}"]


class Loop:
    """One program. `options` of `allot run`; None: without a tenant."""

    def __init__(self, bench, command, options=None, env=None, memory="40GiB"):
        self.bench, self.tenant, self.said, self.broken = bench, None, None, None
        if options is None:
            self.child = Child(command, env={**os.environ, **env} if env else None)
        else:
            self.tenant = bench.tenant()
            self.child = bench.start(self.tenant, memory, command, options, env)

    def ready(self, timeout=200):
        """Once; then it does nothing until it is told."""
        if self.broken:
            raise Trouble(self.broken)
        if self.said is None:
            try:
                self.said = self.child.hear("ready", timeout)
            except Trouble as trouble:
                self.broken = str(trouble)
                raise
        return self

    def set(self, *options):
        self.bench.set(self.tenant, *options)
        return self

    def busy_ns(self):
        return busy(self.bench, self.tenant)[0] if self.tenant else None

    def end(self, timeout=20):
        """In order, as a client of MPS must: with nothing on the device."""
        self.child.end(timeout)

    def kill(self):
        self.child.kill()


def together(rounds, seconds, settle):
    """All at one instant: `rounds` is [(loop, file or None, {key: value})]. Answers for each what
    it said, with what the ledger billed beside it: `billed_ns`, all of the round's, and
    `billed`, as a part of the time until its last work was done, in percent."""
    before = [loop.busy_ns() for loop, _, _ in rounds]
    at = time.monotonic_ns() + int(LEAD_S * 1e9)
    for loop, path, keys in rounds:
        loop.child.say(" ".join([str(at), f"{seconds:g}", f"{settle:g}", str(path or "-"),
                                 *(f"{key}={value}" for key, value in keys.items())]))
    said = [loop.child.hear("load", seconds + 60) for loop, _, _ in rounds]
    if any(loop.tenant for loop, _, _ in rounds):
        time.sleep(CLOSED_S)
    for (loop, _, _), s, first in zip(rounds, said, before):
        s["at_ns"], s["settle"], s["asked_s"] = at, settle, seconds
        last = loop.busy_ns()
        s["billed_ns"] = None if None in (first, last) else last - first
        s["billed"] = None if s["billed_ns"] is None else s["billed_ns"] / s["wall_s"] / 1e7
    return said


def alone(loop, seconds, settle, path=None, **keys):
    return together([(loop, path, keys)], seconds, settle)[0]


def end_all(loops):
    for loop in loops:
        loop.kill()


def percent(value):
    return "?" if value is None else f"{value:.1f}"


def ms(us):
    return "?" if us is None else f"{us / 1e3:.2f}"


@contextlib.contextmanager
def limited(bench, seconds):
    """An alarm inside of the whole run's, for what is in trouble when it takes longer."""
    def late(*_):
        raise Trouble(f"not done within {seconds} s")

    if seconds >= bench.until - time.monotonic():
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        signal.alarm(max(1, int(bench.until - time.monotonic())))


class Items:
    """Runs a part's items, one that breaks without the others, and says what each took."""

    def __init__(self, bench, part):
        self.bench, self.part = bench, part

    def run(self, name, function, *args, limit=3600):
        began = time.monotonic()
        left = self.bench.until - began
        if left < 15:
            self.bench.results.skip(self.part, name, f"{left:.0f} s are left")
            return None
        try:
            with limited(self.bench, limit):
                return function(*args)
        except OutOfTime:
            raise
        except Absent as absent:
            self.bench.results.skip(self.part, name, str(absent))
            return None
        except TROUBLES as trouble:
            self.bench.results.check(self.part, name, False,
                                     f"{type(trouble).__name__}: {trouble}"[:600],
                                     "runs to its end")
            return None
        finally:
            took = time.monotonic() - began
            self.bench.results.figure("seconds", f"{self.part}, {name}", round(took, 1))
            if took >= 1:
                self.bench.results.note(f"({name}: {took:.0f} s)")
