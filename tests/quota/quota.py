#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each scenario of quota_guest in a tenant on a simulated device, in every mode of a tenant. The
simulator's own count judges:

    - never more than the quota is held;
    - when the program is quiet, as much is charged as is held, within 10 s;
    - the program was refused nothing that it must get, and its exit status is 0.

With --accounting driver there is no account, so the second line is left out.

    quota.py --only 'heap-*' --mode plain --verbose
    ALLOT=.../src/cli/allot quota.py        another build, on this build's simulator
"""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("BUILD", os.path.join(HERE, "..", "..", "build"))
# For those who run this by hand; meson says where they are.
for variable, path in (("ALLOT", "src/cli/allot"), ("QUOTA_GUEST", "tests/quota/quota_guest"),
                       ("STORM_TRUTH", "tests/storm/storm-truth"), ("SIM", "sim")):
    os.environ.setdefault(variable, os.path.abspath(os.path.join(BUILD, path)))

MIB = 1 << 20
MODES = {"plain": [], "swappable": ["--swappable"], "overcommit": ["--overcommit"],
         "driver": ["--accounting", "driver"]}
SETTLES_S = 60  # the account, once the program is quiet
TOO_LONG_S = 300  # for a hang


def in_mib(figures):
    return ", ".join(f"{figure / MIB:.1f}" for figure in figures)


class Simulation:
    """A simulated device and a runtime directory for one run."""

    def __init__(self, scenario):
        shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.tmp = tempfile.mkdtemp(prefix="allot-quota-", dir=shm)
        runtime = os.path.join(self.tmp, "run")
        os.mkdir(runtime, 0o700)
        self.env = {**os.environ, "ALLOT_RUNTIME_DIR": runtime, "ALLOT_SIM_DIR": self.tmp,
                    "ALLOT_SIM_GPUS": "2", "ALLOT_SIM_MEMORY": "24GiB",
                    "ALLOT_SIM_CONTEXT": f"{scenario['context_mib']}MiB",
                    "LD_LIBRARY_PATH": os.environ["SIM"]}
        for name in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING",
                     "ALLOT_SIM_FIGURE_LATE_US"):
            self.env.pop(name, None)
        if scenario["environment"]:
            self.env.update([scenario["environment"].split("=", 1)])
        self.truth = subprocess.Popen([os.environ["STORM_TRUTH"]], env=self.env, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def figures(self):
        self.truth.stdin.write("\n")
        self.truth.stdin.flush()
        return json.loads(self.truth.stdout.readline())

    def charged(self):
        """By device, as the figures have them."""
        said = subprocess.run([os.environ["ALLOT"], "ps", "--json"], env=self.env, text=True,
                              stdout=subprocess.PIPE, check=True, timeout=TOO_LONG_S)
        tenant, = (t for t in json.loads(said.stdout)["tenants"] if t["name"] == "quota")
        used = {device["uuid"]: device["used_bytes"] for device in tenant["devices"]}
        return [used.get(uuid, 0) for uuid in self.figures()["uuid"]]

    def __enter__(self):
        self.figures()  # makes the device
        return self

    def __exit__(self, *_):
        self.truth.communicate()
        shutil.rmtree(self.tmp, ignore_errors=True)


class Run:
    """One scenario in one mode. `wrong` has a line for each failure."""

    def __init__(self, scenario, mode, verbose):
        self.scenario, self.mode, self.verbose = scenario, mode, verbose
        self.wrong, self.quiets = [], 0

    def settle(self, simulation):
        """Waits until as much is charged as is held."""
        self.quiets += 1
        if self.mode == "driver" or self.wrong:
            return
        until = time.monotonic() + SETTLES_S
        while True:
            charged, held = simulation.charged(), simulation.figures()["used"]
            if charged == held:
                return
            if time.monotonic() > until:
                break
            time.sleep(0.05)
        self.wrong.append(f"quiet for the {self.quiets}. time: {in_mib(charged)} MiB charged, "
                          f"{in_mib(held)} MiB held after {SETTLES_S} s")

    def watch(self, simulation, program):
        for line in program.stdout:
            if line == "quiet\n":
                self.settle(simulation)
                program.stdin.write("\n")
                program.stdin.flush()
            if self.verbose:
                print(f"    {line}", end="", flush=True)

    def go(self):
        quota = self.scenario["quota_mib"]
        begun = time.monotonic()
        with Simulation(self.scenario) as simulation, tempfile.TemporaryFile("w+") as errors:
            program = subprocess.Popen(
                [os.environ["ALLOT"], "run", "--name", "quota", "--memory", f"{quota}MiB",
                 *MODES[self.mode], "--", os.environ["QUOTA_GUEST"], self.scenario["name"]],
                env=simulation.env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, start_new_session=True)
            watch = threading.Timer(TOO_LONG_S, os.killpg, (program.pid, signal.SIGKILL))
            watch.start()
            try:
                self.watch(simulation, program)
                status = program.wait()
            finally:
                watch.cancel()
            if time.monotonic() - begun >= TOO_LONG_S:
                self.wrong.append(f"it did not come to its end in {TOO_LONG_S} s")
            elif status:
                errors.seek(0)
                said = "; ".join(errors.read().strip()[-1000:].splitlines())
                self.wrong.append(f"status {status}, 0 allowed: {said}")
            peak = simulation.figures()["peak"]
            if max(peak) > quota * MIB:
                self.wrong.append(f"{in_mib(peak)} MiB held at most, {quota} MiB allowed")
            if self.verbose:
                print(f"    peak {in_mib(peak)} of {quota} MiB, "
                      f"{time.monotonic() - begun:.1f} s", flush=True)
        return self


def scenarios():
    said = subprocess.run([os.environ["QUOTA_GUEST"], "--list"], text=True, check=True,
                          stdout=subprocess.PIPE,
                          env={**os.environ, "LD_LIBRARY_PATH": os.environ["SIM"]})
    return [json.loads(line) for line in said.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", metavar="NAME", default="*", help="a name or a pattern")
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="one at a time, and what each says")
    args = parser.parse_args()
    runs = [Run(scenario, mode, args.verbose) for scenario in scenarios()
            if fnmatch.fnmatch(scenario["name"], args.only)
            for mode in scenario["modes"] if args.mode in (None, mode)]
    if not runs:
        parser.error(f"no scenario {args.only} in that mode; quota_guest --list shows all")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(1 if args.verbose else args.jobs) as pool:
        for run in pool.map(Run.go, runs):
            failed += bool(run.wrong)
            if args.verbose:
                print(f"{run.scenario['name']}, {run.mode}", flush=True)
            for line in run.wrong:
                print(f"{run.scenario['name']}, {run.mode}: {line}", flush=True)
    print(f"{len(runs)} runs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
