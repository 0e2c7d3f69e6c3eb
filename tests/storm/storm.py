#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Never above the quota, and exact at the end: programs that take memory by every family, in
threads and processes, with pools, graphs, exports, contexts that are reset and processes that are
killed, in an order that follows from a seed. The count is the simulator's own.

    storm.py --from 1 --count 1000      each hole that was found, then seeds, one after the other
    storm.py --jobs 2 ...               so many at a time
    storm.py --seed 17 --verbose        one, and what it does
    storm.py --suspends ...             of what can leave, which does so all the time
"""

import argparse
import concurrent.futures
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("BUILD", os.path.join(HERE, "..", "..", "build"))
# For who runs this by hand; meson says where they are.
for name, path in (("ALLOT", "src/cli/allot"), ("STORM", "tests/storm/storm"),
                   ("STORM_TRUTH", "tests/storm/storm-truth"), ("SIM", "sim")):
    os.environ.setdefault(name, os.path.abspath(os.path.join(BUILD, path)))

MIB = 1 << 20
# Of seeds in turn: small, so that there are many; and what a real one takes, far above a pool's step.
CONTEXT_MIB = (8, 520)
# A pool's room may be in pieces: docs/threat-model.md says by how much that may be seen.
POOL_STEP = 32 * MIB
TOO_LONG_S = 60
# Of every third seed: so long NVML shows what was freed. The ledger has it right in a while.
LATE_US, LATE_S = 300000, 10
# Found by seeds on a device, where a context is large: (seed, families), by what was wrong.
HOLES = {f"{what}, {seed}": (seed, families) for what, families in {
    "contexts in threads": ("context",),
    "contexts beside pools": ("context", "pool"),
    "contexts beside frees in streams": ("context", "mixed"),
}.items() for seed in range(1, 9)}
# Of the tenant, besides.
OPTIONS = []
# Out and back meanwhile: of what can leave.
LEAVING = ("large", "small", "pitch", "async", "mixed", "pool", "handle", "sent", "sent-ipc",
           "received")
LEAVING_MIB = 16
SUSPENDS = threading.Event()
# The kernel drops a dead process's locks a moment after it was waited for.
GONE_S = 5


class Scenario:
    """What a seed stands for: the tenant's quota, and the words of its program."""

    def __init__(self, seed, most_mib=None, managed=True, context_mib=None, devices=2):
        rng = random.Random(seed)
        self.seed = seed
        self.context_mib = context_mib = context_mib or CONTEXT_MIB[seed % len(CONTEXT_MIB)]
        self.late_us = 0 if seed % 3 else LATE_US
        self.devices = min(rng.choice((1, 1, 2)), devices)
        self.processes = rng.randint(1, 4)
        self.threads = rng.randint(1, 4)
        self.most_mib = most_mib or rng.choice((16, 64, 256))
        contexts = self.processes * (1 + self.threads) * context_mib
        # Enough for the contexts, and for a part of what they want.
        self.quota_mib = contexts + self.most_mib * rng.randint(2, 6)
        self.steps = rng.choice((100, 200, 400))
        self.words = ["--seed", seed, "--processes", self.processes, "--threads", self.threads,
                      "--devices", self.devices, "--steps", self.steps, "--most", self.most_mib]
        if managed:
            self.words.append("--managed")
        if rng.random() < 0.7:
            self.words.append("--share")
        if self.processes > 1 and rng.random() < 0.3:
            self.words.append("--resets")
        if self.processes > 2 and rng.random() < 0.4 and not SUSPENDS.is_set():
            self.words.append("--kills")
        if SUSPENDS.is_set():
            self.words += [word for family in LEAVING for word in ("--family", family)]

    @classmethod
    def hole(cls, name):
        """Three threads, and a quota of nearly five contexts."""
        made = cls(1, context_mib=520, devices=1)
        made.seed, (seed, families) = name, HOLES[name]
        made.quota_mib = 2560
        made.words = ["--seed", seed, "--processes", 1, "--threads", 3, "--steps", 200,
                      "--most", 128, *(word for f in families for word in ("--family", f))]
        return made

    def command(self, storm):
        return [os.environ["ALLOT"], "run", "--name", "storm", "--memory",
                f"{self.quota_mib}MiB", *OPTIONS, "--", storm, *map(str, self.words)]


def process_of(process):
    """What is charged to one, in brief."""
    return [process["pid"], *({c: n for c, n in {**d["used_by_category"], "driver": d["driver_bytes"]}.items() if n}
                              for d in process["devices"])]


def judge(scenario, truth, tenant):
    """What is wrong when all is quiet, as a list of lines."""
    wrong, quota = [], scenario.quota_mib * MIB
    most = quota + POOL_STEP
    # What a process that is just dying has imported is in no figure of the driver's, so it may be
    # given to others a few milliseconds before the device has it.
    if "--kills" in scenario.words:
        most += scenario.most_mib * MIB
    devices = {d["uuid"]: d for d in tenant["devices"]}
    for i, (used, peak) in enumerate(zip(truth["used"], truth["peak"])):
        if peak > most:
            wrong.append(f"device {i}: {peak / MIB:.1f} MiB held, {scenario.quota_mib} allowed")
    charged = sorted(d["used_bytes"] for d in devices.values())
    if sum(charged) != sum(truth["used"]) or [c for c in charged if c] != [
            u for u in sorted(truth["used"]) if u]:
        wrong.append(f"at the end {charged} charged, {truth['used']} held: "
                     f"{[process_of(p) for p in tenant['processes']]}")
    return wrong


class Simulation:
    """Simulated devices and a runtime directory of one seed's own."""

    def __init__(self, scenario):
        shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.tmp = tempfile.mkdtemp(prefix="allot-storm-", dir=shm)
        runtime = os.path.join(self.tmp, "run")
        os.mkdir(runtime, 0o700)
        self.env = {**os.environ, "ALLOT_RUNTIME_DIR": runtime, "ALLOT_SIM_DIR": self.tmp,
                    "ALLOT_SIM_GPUS": str(scenario.devices), "ALLOT_SIM_MEMORY": "24GiB",
                    "ALLOT_SIM_CONTEXT": f"{scenario.context_mib}MiB",
                    "ALLOT_SIM_FIGURE_LATE_US": str(scenario.late_us),
                    "LD_LIBRARY_PATH": os.environ["SIM"]}
        for name in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES"):
            self.env.pop(name, None)
        self.truth = subprocess.Popen([os.environ["STORM_TRUTH"]], env=self.env, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def figures(self):
        self.truth.stdin.write("\n")
        self.truth.stdin.flush()
        return json.loads(self.truth.stdout.readline())

    def tenant(self):
        said = subprocess.run([os.environ["ALLOT"], "ps", "--json"], env=self.env, text=True,
                              stdout=subprocess.PIPE, check=True, timeout=TOO_LONG_S)
        return next(t for t in json.loads(said.stdout)["tenants"] if t["name"] == "storm")

    def allot(self, *words):
        return subprocess.run([os.environ["ALLOT"], *words], env=self.env, text=True, check=False,
                              capture_output=True, timeout=TOO_LONG_S)

    def __enter__(self):
        self.figures()  # the devices are there before who uses them
        return self

    def __exit__(self, *_):
        self.truth.communicate()
        shutil.rmtree(self.tmp, ignore_errors=True)


class Suspender(threading.Thread):
    """Has the tenant leave and come back, until it is stopped. It may be refused, and nothing else."""

    def __init__(self, simulation):
        super().__init__(daemon=True)
        self.simulation, self.over = simulation, threading.Event()
        self.wrong, self.cycles, self.refused = [], 0, 0

    def run(self):
        while not self.over.wait(0.01):
            done = self.simulation.allot("suspend", "storm", "--timeout", "5s")
            if done.returncode:
                self.refused += 1
                continue
            self.cycles += 1
            done = self.simulation.allot("resume", "storm")
            if done.returncode:
                self.wrong.append(f"resume: {done.stderr}")
                return

    def stop(self):
        self.over.set()
        self.join()
        return self.wrong


def judge_all(scenario, simulation):
    """Where figures are late, when they are no more."""
    until = time.monotonic() + (LATE_S if scenario.late_us else 0)
    while True:
        wrong = judge(scenario, simulation.figures(), simulation.tenant())
        if not wrong or time.monotonic() >= until:
            return wrong
        time.sleep(0.05)


def run(seed, verbose=False):
    """One seed, or hole: (seed, what was wrong)."""
    # All of what leaves is copied, by the processor.
    scenario = (Scenario.hole(seed) if seed in HOLES else
                Scenario(seed, most_mib=LEAVING_MIB if SUSPENDS.is_set() else None))
    if SUSPENDS.is_set():  # contexts alone, and late figures: what was freed may be taken for theirs
        scenario.late_us = 0
    if verbose:
        print(f"quota {scenario.quota_mib} MiB:", *scenario.words)
    with Simulation(scenario) as simulation:
        program = subprocess.Popen(scenario.command(os.environ["STORM"]), env=simulation.env,
                                   text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        watch = threading.Timer(TOO_LONG_S, os.killpg, (program.pid, signal.SIGKILL))
        watch.start()
        suspender = Suspender(simulation)
        if SUSPENDS.is_set():
            suspender.start()
        try:
            said = program.stdout.readline()
            if SUSPENDS.is_set():
                suspender.stop()
            wrong = suspender.wrong + (judge_all(scenario, simulation) if "quiet" in said
                                       else ["it did not come to its end"])
            if verbose:
                print(simulation.figures(), f"{suspender.cycles} times away, {suspender.refused} "
                      "refused")
            _, err = program.communicate()
        finally:
            watch.cancel()
        if program.returncode:
            wrong.append(f"status {program.returncode}: {err.strip()[-1500:]}")
        left, until = simulation.figures()["used"], time.monotonic() + GONE_S
        while any(left) and time.monotonic() < until:
            left = simulation.figures()["used"]
        if any(left):
            wrong.append(f"afterwards {left} held")
    return seed, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--swappable", action="store_true",
                        help="of a tenant whose memory can leave its devices")
    parser.add_argument("--suspends", action="store_true",
                        help="and which leaves and comes back meanwhile")
    args = parser.parse_args()
    if args.swappable or args.suspends:
        OPTIONS.append("--swappable")
    if args.suspends:
        SUSPENDS.set()
    seeds = ([args.seed] if args.seed is not None else
             [*([] if args.suspends else HOLES), *range(args.first, args.first + args.count)])
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for seed, wrong in pool.map(lambda s: run(s, args.verbose), seeds):
            failed += bool(wrong)
            for line in wrong:
                print(f"seed {seed}: {line}", flush=True)
    print(f"{len(seeds)} seeds and holes, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
