# SPDX-License-Identifier: Apache-2.0
"""Energy of tenants, by allotd, against the driver's own counter: of one alone, of two that take turns,
each held against what the same work took alone, and the sum of all and rest against the counter.
Work is counted by the programs. Where a machine has no libmicrohttpd, see --allotd."""
import ctypes
import json
import sys
import threading
import time

from harness import HERE, Trouble, run
from parts.daemon import Daemon

SETTLE_S, ALONE_S, TOGETHER_S = 6, 8, 24
QUICK_S = 12
PAIRS = {f"{a} beside {b}": (a, b) for a, b in (("copy", "single"), ("cached", "single"),
                                                ("copy", "cached"), ("copy", "half"))}
# bf16 products alone are at the card's power limit: beside others they draw more, and do more.
LIMITED = ("half",)
OFF, SUM_OFF = 3.0, 1.0
SHARE = ("--policy", "share", "--weight", "1")


class Counter:
    """The driver's, which moves ten times a second: read just when it does."""

    def __init__(self):
        self.nvml, self.device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        self.nvml.nvmlInit_v2()
        self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))

    def read(self):
        mj = ctypes.c_ulonglong()
        if self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(mj)):
            raise Trouble("the device does not tell its energy")
        return mj.value / 1e3

    def edge(self):
        was = now = self.read()
        while now == was:
            time.sleep(0.002)
            now = self.read()
        return time.monotonic(), now


class Watch:
    """What `allot ps` says of tenants' energy, each time that it has changed."""

    def __init__(self, bench, names):
        self.bench, self.end, self.said = bench, False, {name: [] for name in names}
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.end:
            _, out, _ = run([self.bench.allot, "ps", "--json"], 20)
            at = time.monotonic()
            for tenant in json.loads(out)["tenants"]:
                said = self.said.get(tenant["name"])
                joules = sum((d["energy_uj"] or 0) / 1e6 for d in tenant["devices"])
                if said is not None and (not said or said[-1][1] != joules):
                    said.append((at, joules))
            time.sleep(0.05)

    def stop(self):
        self.end = True
        self.thread.join()


def at(marks, when):
    """In a row of (time, value) that grows."""
    for (t0, v0), (t1, v1) in zip(marks, marks[1:]):
        if t0 <= when <= t1:
            return v0 + (v1 - v0) * (when - t0) / (t1 - t0)
    raise Trouble(f"nothing is known of {when:.1f}: {marks[:1]} to {marks[-1:]}")


def measure(bench, counter, kinds, seconds):
    """(joules of all by the counter, its seconds, watts at rest, [(joules by allot, work done)])."""
    names = [bench.tenant() for _ in kinds]
    children = [bench.start(name, "8GiB", [sys.executable, HERE / "frameworks/torch_power.py", kind],
                            SHARE) for name, kind in zip(names, kinds)]
    watch = Watch(bench, names)
    try:
        for child in children:
            child.hear("ready", 120)
        time.sleep(1)
        rest = counter.edge()
        time.sleep(1.5)
        rested = counter.edge()
        for child in children:
            child.say("go")
        time.sleep(SETTLE_S)
        first = counter.edge()
        time.sleep(seconds)
        last = counter.edge()
        time.sleep(2.5)
        watch.stop()
        for child in children:
            child.say("end")
        done = [child.hear("done", 30)["marks"] for child in children]
    finally:
        watch.stop()
        for child in children:
            child.kill()
    had = [(at(watch.said[name], last[0]) - at(watch.said[name], first[0]),
            at(marks, last[0]) - at(marks, first[0])) for name, marks in zip(names, done)]
    return (last[1] - first[1], last[0] - first[0],
            (rested[1] - rest[1]) / (rested[0] - rest[0]), had)


def percent(value, of):
    return 100 * (value / of - 1)


def alone(bench, counter, kind):
    joules, seconds, rest, ((said, work),) = measure(bench, counter, [kind], ALONE_S)
    own = joules - rest * seconds
    bench.results.figure("energy", f"alone: {kind}", {
        "watts": joules / seconds, "rest_watts": rest, "said_j": said, "own_j": own, "work": work})
    bench.results.check("energy", f"alone: {kind}", abs(percent(said, own)) <= OFF,
                        f"{said / seconds:.1f} W of {joules / seconds:.1f} W, rest {rest:.1f} W: "
                        f"{percent(said, own):+.1f} %", f"the counter's, within {OFF:g} %")
    return own / work


def pair(bench, counter, name, each):
    joules, seconds, rest, had = measure(bench, counter, PAIRS[name],
                                         QUICK_S if bench.quick else TOGETHER_S)
    total = sum(said for said, _ in had) + rest * seconds
    bench.results.figure("energy", name, {
        "watts": joules / seconds, "rest_watts": rest, "had": had, "seconds": seconds,
        "alone_j_per_work": {kind: each[kind] for kind in PAIRS[name]}})
    off = [percent(said / work, each[kind]) for kind, (said, work) in zip(PAIRS[name], had)]
    words = ", ".join(f"{kind} {said / seconds:.1f} W {x:+.1f} %"
                      for kind, (said, _), x in zip(PAIRS[name], had, off))
    if any(kind in LIMITED for kind in PAIRS[name]):
        bench.results.note(f"{name}: joules for the same work, beside alone: {words}")
    else:
        bench.results.check("energy", f"{name}: joules for the same work", max(map(abs, off)) <= OFF,
                            words, f"as alone, within {OFF:g} %")
    bench.results.check("energy", f"{name}: sum with rest", abs(percent(total, joules)) <= SUM_OFF,
                        f"{total:.1f} J of {joules:.1f} J: {percent(total, joules):+.2f} %",
                        f"the counter's, within {SUM_OFF:g} %")


def part(bench):
    names = bench.chosen("energy", PAIRS)
    counter = Counter()
    with Daemon(bench):
        kinds = dict.fromkeys(kind for name in names for kind in PAIRS[name])
        each = {kind: alone(bench, counter, kind) for kind in kinds}
        for name in names:
            pair(bench, counter, name, each)
