#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Never above the quota, and exact at the end: programs that take memory by every family, in
threads and processes, with pools, graphs, exports, contexts that are reset and processes that are
killed, in an order that follows from a seed. The count is the simulator's own.

    storm.py --from 1 --count 1000      each hole that was found, then seeds, one after the other
    storm.py --jobs 2 ...               two at a time
    storm.py --seed 17 --verbose        one, and what it does
    storm.py --seed 17 --family graph   the same with less: of memory, of draws, in another mode
    storm.py --suspends ...             memory that can leave, which does so all the time

A seed decides about each thing by itself, so that one more thing changes none of the others.
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
# Defaults for a run by hand; meson names the programs.
for name, path in (("ALLOT", "src/cli/allot"), ("STORM", "tests/storm/storm"),
                   ("STORM_TRUTH", "tests/storm/storm-truth"), ("SIM", "sim")):
    os.environ.setdefault(name, os.path.abspath(os.path.join(BUILD, path)))

MIB = 1 << 20
# A small context leaves room for many; a large one is far above a pool's step.
SMALL_CONTEXT_MIB, CONTEXT_MIB = 8, (100, 900)
# Excess over the quota that docs/threat-model.md allows. A pool's room may be in pieces.
POOL_STEP = 32 * MIB
# Code and green contexts, whose size nobody tells beforehand, are undone where they break the
# quota: one at a time of each thread. storm_code.c has the size of code.
UNTOLD = {"module": 8 * MIB, "library": 8 * MIB, "green": 6 * MIB}
TOO_LONG_S = 300  # for a hang
# At rest a program gets all that the quota has left, but for a granule.
FITS_STEP = 2 * MIB
# How long NVML may still show what was freed, in half of the seeds.
LATE_US = 400000
# How long the ledger may differ from the devices at rest, and where figures are late.
REST_S, LATE_REST_S = 30, 40
# Found by seeds on a device, where a context is large: (seed, families), by what was wrong.
HOLES = {f"{what}, {seed}": (seed, families) for what, families in {
    "contexts in threads": ("context",),
    "contexts beside pools": ("context", "pool"),
    "contexts beside frees in streams": ("context", "mixed"),
}.items() for seed in range(1, 9)}
# Families of memory: those of every seed, and those that a part of the seeds has.
FAMILIES = ("large", "small", "pitch", "async", "mixed", "pool", "array", "handle", "graph",
            "context", "sent", "sent-ipc", "received", "managed")
FURTHER = {"external": 0.3, "sent-pool": 0.4, "graph-kept": 0.4, "array-deep": 0.3,
           "mipmap": 0.3, "sparse": 0.4, "retain": 0.5, "limit": 0.4,
           "green": 0.3, "module": 0.4, "library": 0.4, "program": 0.2,
           "program-further": 0.2, "program-green": 0.1, "forked": 0.2, "multicast": 0.1}
# A swappable tenant's descriptors are good for no other interface (allot-suspend(1)).
NOT_SWAPPABLE = ("external",)
# Ways to use them, each in a part of the seeds.
DRAWS = {"slow": 0.4, "crossed": 0.5, "twice": 0.5, "filled": 0.5, "orphans": 0.3}
# Options of the tenant, and how many of ten seeds have them.
MODES = {"plain": (5, []), "swappable": (2, ["--swappable"]), "overcommit": (1, ["--overcommit"]),
         "driver": (2, ["--accounting", "driver"])}
# Memory that can leave its devices meanwhile.
LEAVING = ("large", "small", "pitch", "async", "mixed", "pool", "handle", "sent", "sent-ipc",
           "received")
LEAVING_MIB = 16
# The kernel drops a dead process's locks a moment after it was waited for.
GONE_S = 60


class Wish:
    """The command line's word on every seed; None: the seed decides."""

    def __init__(self, mode=None, families=None, draws=None, without=(),
                 suspends=False):
        self.mode = "swappable" if suspends and not mode else mode
        self.suspends = suspends
        self.families = families or (list(LEAVING) if suspends else None)
        self.draws, self.without = draws, without


# Quotas that are set while the program runs: the first and the last pause before that.
SET_S = (0.05, 0.5)
# How long what was admitted before a quota was lowered may still be on its way to the driver.
ADMITTED_S = 0.5
SET_PAUSE_US = 20000


class Scenario:
    """The tenant's quota, and the words of its program, that follow from a seed."""

    def __init__(self, seed, most_mib=None, managed=True, context_mib=None, devices=3, wish=None):
        self.seed, wish = seed, wish or Wish()
        rng = random.Random(seed)
        self.devices = min(rng.choice((1, 1, 2)), devices)
        self.processes = rng.randint(1, 4)
        self.threads = rng.randint(1, 4)
        self.most_mib = most_mib or rng.choice((16, 64, 256))
        most = rng.randint(2, 6)
        self.steps = rng.choice((100, 200, 400))
        share, resets, kills = rng.random() < 0.7, rng.random() < 0.3, rng.random() < 0.4
        if self.luck("third device") < 0.2:
            self.devices = min(3, devices)
        self.context_mib = context_mib or (
            SMALL_CONTEXT_MIB if self.luck("small") < 0.3 else
            self.rng("context").randint(*CONTEXT_MIB))
        # All processes have their primary contexts, and a part of the threads one of their own.
        further = self.rng("further").randint(0, self.processes * self.threads)
        self.quota_mib = (self.processes + further) * self.context_mib + self.most_mib * most
        self.late_us = self.rng("late").randint(1, LATE_US) if self.luck("is late") < 0.5 else 0
        if wish.suspends:
            self.late_us = 0  # what was freed could be taken for the contexts that stay
        self.mode = wish.mode or self.rng("mode").choices(
            list(MODES), [weight for weight, _ in MODES.values()])[0]
        self.loading = self.rng("loading").choice(("LAZY", "EAGER"))
        self.words = ["--seed", seed, "--processes", self.processes, "--threads", self.threads,
                      "--devices", self.devices, "--steps", self.steps, "--most", self.most_mib]
        self.sets = self.luck("sets") < 0.25 and not wish.suspends
        self.words += ["--pause", SET_PAUSE_US] * self.sets
        self.words += ["--managed"] * managed + ["--share"] * share
        self.words += ["--resets"] * (self.processes > 1 and resets)
        kills = self.processes > 2 and kills and not wish.suspends
        ends = self.processes > 1 and not kills and self.luck("ends") < 0.3 and not wish.suspends
        self.words += ["--kills"] * kills + ["--ends"] * ends
        if self.processes > 1 + ("--resets" in self.words) + kills + ends:
            self.words += ["--retains"] * (self.luck("retains") < 0.3)
        for draw in self.drawn(DRAWS) if wish.draws is None else wish.draws:
            self.words += ["--draw", draw] * (draw not in wish.without)
        for family in wish.families or self.families():
            self.words += ["--family", family] * (family not in wish.without)

    def families(self):
        fixed = NOT_SWAPPABLE if self.mode in ("swappable", "overcommit") else ()
        return [f for f in (*FAMILIES, *self.drawn(FURTHER)) if f not in fixed]

    def rng(self, name):
        return random.Random(f"{self.seed} {name}")

    def luck(self, name):
        return self.rng(name).random()

    def drawn(self, things):
        return [name for name, part in things.items() if self.luck(name) < part]

    @classmethod
    def hole(cls, name, wish):
        """Three threads, and a quota of nearly five contexts."""
        made = cls(1, context_mib=520, devices=1, wish=wish)
        made.seed, (seed, families) = name, HOLES[name]
        made.quota_mib, made.late_us, made.sets = 2560, LATE_US * (seed % 2), False
        made.mode = wish.mode or "plain"
        made.words = ["--seed", seed, "--processes", 1, "--threads", 3, "--steps", 200,
                      "--most", 128, *(word for f in families for word in ("--family", f))]
        return made

    @property
    def beyond(self):
        """Bytes that may be held beyond the quota for a moment."""
        step = max([UNTOLD.get(word, 0) for word in self.words])
        beyond = POOL_STEP + self.processes * self.threads * step
        # Imports of a process that is just dying are in no figure of the driver's, so they may be
        # given to others a few milliseconds before the device has them.
        dies = "--kills" in self.words or "--ends" in self.words
        return beyond + dies * self.most_mib * MIB

    def command(self, storm):
        return [os.environ["ALLOT"], "run", "--name", "storm", "--memory",
                f"{self.quota_mib}MiB", *MODES[self.mode][1], "--", storm, *map(str, self.words)]


def process_of(process):
    """The charges of a process, in brief."""
    return [process["pid"], *({category: n for category, n in
                               {**d["used_by_category"], "driver": d["driver_bytes"]}.items() if n}
                              for d in process["devices"])]


def charged_of(truth, tenant):
    """By device."""
    charged = {d["uuid"]: d["used_bytes"] for d in tenant["devices"]}
    return [charged.get(uuid, 0) for uuid in truth["uuid"]]


def judge(truth, tenant):
    """Lines that say where the ledger is wrong when all is quiet."""
    wrong = []
    charged = charged_of(truth, tenant)
    if charged != truth["used"]:
        wrong.append(f"at the end {charged} charged, {truth['used']} held: "
                     f"{[process_of(p) for p in tenant['processes']]}")
    return wrong


def judge_room(scenario, simulation, program):
    """At rest, one allocation of all that is left of the quota is not refused."""
    wrong = []
    time.sleep(scenario.late_us / 1e6)  # a figure that still has what was freed is not at rest
    for i, used in enumerate(simulation.figures()["used"]):
        room = scenario.quota_mib * MIB - used - FITS_STEP
        if room <= 0:
            continue
        program.stdin.write(f"{i} {room}\n")
        program.stdin.flush()
        answer = json.loads(program.stdout.readline() or '{"answer": -1}')["answer"]
        if answer:
            wrong.append(f"device {i}: error {answer} for {room / MIB:.1f} MiB with "
                         f"{used / MIB:.1f} of {scenario.quota_mib} held")
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
                    "CUDA_MODULE_LOADING": scenario.loading,
                    "LD_LIBRARY_PATH": os.environ["SIM"]}
        for name in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES"):
            self.env.pop(name, None)
        self.truth = subprocess.Popen([os.environ["STORM_TRUTH"]], env=self.env, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def figures(self, reset=False):
        self.truth.stdin.write("reset\n" if reset else "\n")
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
        self.figures()  # makes the devices before they are used
        return self

    def __exit__(self, *_):
        self.truth.communicate()
        shutil.rmtree(self.tmp, ignore_errors=True)


class Suspender(threading.Thread):
    """Suspends and resumes the tenant until it is stopped. A suspend may be refused, no resume."""

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


class Quotas(threading.Thread):
    """
    Judges the most that was held by the most that was allowed, device by device, and sets other
    quotas meanwhile. In a period of time, that is the larger of two: the quota, and, where it was
    lowered below what was charged, what was charged when the period began. Of that a heap, for
    one, is charged as promised, and held later.
    """

    def __init__(self, scenario, simulation):
        super().__init__(daemon=True)
        self.scenario, self.simulation = scenario, simulation
        self.over, self.rng = threading.Event(), scenario.rng("quotas")
        self.quota = scenario.quota_mib
        self.allowed = [self.quota * MIB] * scenario.devices
        self.wrong, self.sets = [], 0

    def judge(self, quota_mib=None):
        """Ends a period. The next one's quota may be a new one."""
        for i, peak in enumerate(self.simulation.figures()["peak"]):
            if peak > self.allowed[i] + self.scenario.beyond:
                self.wrong.append(f"device {i}: {peak / MIB:.1f} MiB held, "
                                  f"{self.allowed[i] / MIB:.1f} allowed, quota {self.quota}")
        if quota_mib:
            charged = charged_of(self.simulation.figures(), self.simulation.tenant())
            began = self.simulation.figures(reset=True)["peak"]
            self.allowed = [max(quota_mib * MIB, min(allowed, max(peak, c)))
                            for allowed, peak, c in zip(self.allowed, began, charged)]

    def set(self, quota_mib):
        if quota_mib > self.quota:
            self.judge(self.quota)
            self.allowed = [max(allowed, quota_mib * MIB) for allowed in self.allowed]
        done = self.simulation.allot("set", "storm", "--memory", f"{quota_mib}MiB")
        if done.returncode:
            self.wrong.append(f"set: {done.stderr}")
        self.quota, self.sets = quota_mib, self.sets + 1

    def run(self):
        try:
            self.vary()
        except (OSError, subprocess.TimeoutExpired) as trouble:
            self.wrong.append(f"set: {trouble}")

    def vary(self):
        least = self.scenario.processes * self.scenario.context_mib + self.scenario.most_mib
        while not self.over.wait(self.rng.uniform(*SET_S)):
            before = self.quota
            self.set(self.rng.randint(least, self.scenario.quota_mib * 5 // 4))
            if self.quota > before or self.over.wait(ADMITTED_S):
                continue
            # Now what is held does not grow while it is above the quota.
            for _ in range(self.rng.randint(1, 10)):
                self.judge(self.quota)
                if self.over.wait(0.05):
                    break

    def stop(self):
        """Has the first quota back, and answers what was wrong."""
        self.over.set()
        if self.is_alive():
            self.join()
            self.set(self.scenario.quota_mib)
        self.judge()
        return self.wrong


def judge_all(scenario, simulation):
    """Judges until the ledger is right, or has had the time to be."""
    until = time.monotonic() + (LATE_REST_S if scenario.late_us else REST_S)
    while True:
        wrong = judge(simulation.figures(), simulation.tenant())
        if not wrong or time.monotonic() >= until:
            return wrong
        time.sleep(0.05)


def run(seed, wish, verbose=False):
    """One seed, or hole: (seed, what was wrong)."""
    # The processor copies all memory that leaves, so there is little of it.
    scenario = (Scenario.hole(seed, wish) if seed in HOLES else
                Scenario(seed, most_mib=LEAVING_MIB if wish.suspends else None, wish=wish))
    if verbose:
        print(f"{scenario.mode}, quota {scenario.quota_mib} MiB, contexts of "
              f"{scenario.context_mib} MiB, figures {scenario.late_us / 1000:.0f} ms late, "
              f"code {scenario.loading}:",
              *scenario.words)
    with Simulation(scenario) as simulation:
        program = subprocess.Popen(scenario.command(os.environ["STORM"]), env=simulation.env,
                                   text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        watch = threading.Timer(TOO_LONG_S, os.killpg, (program.pid, signal.SIGKILL))
        watch.start()
        suspender, quotas = Suspender(simulation), Quotas(scenario, simulation)
        if wish.suspends:
            suspender.start()
        try:
            said = program.stdout.readline()
            if scenario.sets:
                quotas.start()
            said += program.stdout.readline()
            if wish.suspends:
                suspender.stop()
            wrong = suspender.wrong + quotas.stop()
            wrong += (judge_all(scenario, simulation) if "quiet" in said
                      else ["it did not come to its end"])
            if not wrong:
                wrong = judge_room(scenario, simulation, program)
            if verbose:
                print(simulation.figures(), f"{suspender.cycles} times away, {suspender.refused} "
                      f"refused, {quotas.sets} quotas set")
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
    parser.add_argument("--mode", choices=list(MODES), help="of the tenant, instead of the seed's")
    parser.add_argument("--family", action="append", metavar="NAME",
                        help="of memory, instead of the seed's: " +
                        ", ".join((*FAMILIES, *FURTHER)))
    parser.add_argument("--draw", action="append", metavar="NAME",
                        help="what is done, instead of the seed's: none, " + ", ".join(DRAWS))
    parser.add_argument("--without", action="append", default=[], metavar="NAME",
                        help="without this family or draw of the seed's")
    parser.add_argument("--suspends", action="store_true",
                        help="a swappable tenant, which leaves and comes back meanwhile")
    args = parser.parse_args()
    wish = Wish(args.mode, args.family, args.draw and [d for d in args.draw if d != "none"],
                args.without, args.suspends)
    seeds = ([args.seed] if args.seed is not None else
             [*([] if args.suspends or args.family else HOLES),
              *range(args.first, args.first + args.count)])
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for seed, wrong in pool.map(lambda s: run(s, wish, args.verbose), seeds):
            failed += bool(wrong)
            for line in wrong:
                print(f"seed {seed}: {line}", flush=True)
    print(f"{len(seeds)} seeds and holes, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
