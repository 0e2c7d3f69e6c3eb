# SPDX-License-Identifier: Apache-2.0
"""Frameworks as programs whose share is measured: loop.py KIND. Says "ready"; then for each line
"AT SECONDS SETTLE FILE [KEY=VALUE ...]" on its input starts at that instant (CLOCK_MONOTONIC, ns),
repeats a step for so long, and says what was done after the time to settle: the words of
programs/patterns.c. FILE ("-": none) is where the library that CUDA_INJECTION64_PATH names writes
what it saw. Keys: `what`, which of the kind's steps; `rate` and `seed`, requests a second that come
by chance (Poisson) and are answered in their order, else as fast as it goes.

A kind is a function of one of the modules loop_*.py that answers {what: step}, and how to wait for
all of it. A step ends with its work done, or answers how to wait for it: then so many steps are
under way as IN_FLIGHT."""
import ctypes
import importlib
import json
import os
import random
import signal
import sys
import time
from collections import deque

KINDS = {  # module and function
    "tokens": ("loop_tokens", "tokens"), "serve": ("loop_tokens", "serve"),
    "matmul": ("loop_torch", "matmul"), "train": ("loop_torch", "train"),
    "amp": ("loop_torch", "amp"), "sdpa": ("loop_torch", "sdpa"),
    "compile": ("loop_torch", "compiled"), "small": ("loop_torch", "small"),
    "triton": ("loop_triton", "product_loop"), "jax": ("loop_jax", "training"),
    "cupy": ("loop_cupy", "arrays"),
}
IN_FLIGHT = 4
BIN_S = 0.1


def say(stage, **what):
    print(json.dumps({"stage": stage, **what}), flush=True)


def quantile(values, part):
    """Of sorted values; None of none."""
    return values[min(len(values) - 1, int(part * len(values)))] if values else None


def spread(stamps, seconds):
    """Steps a second in each tenth of a second, each step over the time since the one before."""
    bins, last = [0.0] * int(seconds / BIN_S + 0.5), 0.0
    for stamp in stamps:
        rate = 1 / max(stamp - last, 1e-9)
        for i in range(int(last / BIN_S), min(int(stamp / BIN_S) + 1, len(bins))):
            inside = min(stamp, (i + 1) * BIN_S) - max(last, i * BIN_S)
            bins[i] += rate * max(0.0, inside) / BIN_S
        last = stamp
    return bins


def sleep_until(at):
    """The last of it awake, because a sleep ends late."""
    time.sleep(max(0.0, at - time.monotonic() - 0.0003))
    while time.monotonic() < at:
        pass


def endless(step, start, seconds):
    """When steps were done, from the start on."""
    stamps, flight, limit = [], deque(), start + seconds
    while time.monotonic() < limit:
        handle = step()
        if handle is not None:
            flight.append(handle)
            if len(flight) < IN_FLIGHT:
                continue
            flight.popleft()()
        stamps.append(time.monotonic() - start)
    while flight:
        flight.popleft()()
        stamps.append(time.monotonic() - start)
    return stamps


def requests(step, start, seconds, rate, seed):
    """(stamps, how long each took from the instant at which it came)"""
    chance, at, stamps, took = random.Random(seed), 0.0, [], []
    while True:
        at += chance.expovariate(rate)
        if at >= seconds:
            return stamps, took
        sleep_until(start + at)
        wait = step()
        if wait is not None:
            wait()
        stamps.append(time.monotonic() - start)
        took.append((at, stamps[-1] - at))


def write_truth(path):
    injected = os.environ.get("CUDA_INJECTION64_PATH")
    if injected and path != "-":
        ctypes.CDLL(injected).cupti_truth_write(path.encode())


def one(steps, synchronize, line):
    words = line.split()
    start, seconds, settle = int(words[0]) / 1e9, float(words[1]), float(words[2])
    start = start or time.monotonic()
    keys = dict(word.split("=", 1) for word in words[4:])
    step = steps[keys.get("what", next(iter(steps)))]
    time.sleep(max(0.0, start - time.monotonic()))
    cpu = time.process_time()
    if "rate" in keys:
        stamps, came = requests(step, start, seconds, float(keys["rate"]), keys.get("seed", "1"))
        took = [t for at, t in came if at >= settle]
    else:
        stamps = endless(step, start, seconds)
        took = [b - a for a, b in zip(stamps, stamps[1:]) if a >= settle]
    synchronize()
    wall = time.monotonic() - start
    cpu = time.process_time() - cpu
    write_truth(words[3] if len(words) > 3 else "-")
    bins, took = spread(stamps, seconds), sorted(took)
    kept = bins[round(settle / BIN_S):]
    say("load", rate=sum(kept) / max(1, len(kept)), n=len(took), wall_s=wall, cpu_seconds=cpu,
        bin_ms=1e3 * BIN_S, bins=[round(b, 3) for b in bins],
        **{name: None if not took else 1e6 * quantile(took, part)
           for name, part in (("p50_us", .5), ("p90_us", .9), ("p99_us", .99), ("max_us", 1.0))})


def main():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    signal.alarm(560)
    kind, began = sys.argv[1], time.monotonic()
    module, function = KINDS[kind]
    steps, synchronize = getattr(importlib.import_module(module), function)()
    for step in steps.values():  # what is loaded, compiled and chosen by trying
        for _ in range(3):
            wait = step()
            if wait is not None:
                wait()
    synchronize()
    say("ready", kind=kind, steps=list(steps), seconds=round(time.monotonic() - began, 2))
    for line in sys.stdin:
        if line.strip():
            one(steps, synchronize, line)
    synchronize()
    os._exit(0)  # what a framework does at its end is not what this measures


if __name__ == "__main__":
    main()
