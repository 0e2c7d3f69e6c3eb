#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is what is billed what was measured? Programs with random phases in random scenarios on simulated
devices, which know what each process had; and each program whose bill was once wrong.

    audit.py --from 1 --count 1000      seeds, one after the other
    audit.py --from 1 --count 1000 --meets      the same, also of work that waits in its middle
    audit.py --kept                     the seeds that once failed (tests/audit/seeds)
    audit.py --fixed NAME... | --list   programs that are not random; which there are
"""

import argparse
import concurrent.futures
import os
import random
import sys

import audit_lib
from audit_lib import Audit, Scenario, Tenant

SEEDS = os.path.join(audit_lib.HERE, "seeds")
SECONDS, PHASES, FIXED_SECONDS = 5.4, 6, 4.4
ATTEMPTS = 3


also = []  # words of each program


def tenant(name, *options, guests, **other):
    return Tenant(run=("--name", name, *options), guests=guests, **other)


def words(seed, **options):
    said = ["--seed", seed, "--seconds", options.pop("seconds", SECONDS), *also]
    for key, value in options.items():
        said += [f"--{key}", value]
    return said


# ---- Random ones ----

def alone(seed):
    """Of a tenant without rivals. Beside one, what follows a wait in the middle of a graph is billed
    from before the rival's kernel is done."""
    return words(seed, count=PHASES) + ["--hosts"] * ("--meets" in also)


def one_capped(rng, seed):
    cap = rng.randint(10, 90)
    return [tenant("a", "--compute", cap, guests=[alone(seed)], cap=cap)]


def processes_of_one(rng, seed):
    cap = rng.randint(10, 90)
    n = rng.randint(2, 3)
    guests = [alone(seed + 1000000 * (i + 1)) for i in range(n)]
    return [tenant("a", "--compute", cap, guests=guests, cap=cap)]


def by_weight(rng, seed):
    """Of one weight they do the same, so that each is owed as much as the other."""
    n, equal = rng.randint(2, 3), rng.random() < 0.5
    tenants = []
    for i in range(n):
        weight = 1 if equal else rng.randint(1, 4)
        own = seed if equal else seed + 1000000 * (i + 1)
        tenants.append(tenant("abc"[i], "--policy", "share", "--weight", weight,
                              guests=[words(own, count=PHASES)], weight=weight))
    rng.shuffle(tenants)
    return tenants


def beside_unlimited(rng, seed):
    tenants = one_capped(rng, seed)
    phases = ",".join(["steady"] * PHASES)
    tenants.insert(rng.randint(0, 1), Tenant(run=None, guests=[words(seed, phases=phases)]))
    return tenants


KINDS = ((one_capped, 45), (processes_of_one, 15), (by_weight, 25), (beside_unlimited, 15))


def scenario_of(seed):
    rng = random.Random(seed)
    kind, = rng.choices([k for k, _ in KINDS], [n for _, n in KINDS])
    tenants = kind(rng, seed)
    env = {"ALLOT_SIM_LOAD_US": str(rng.choice((0, 0, 100, 500, 2000))),
           "ALLOT_SIM_LAUNCH_US": str(rng.choice((0, 3, 6))),
           "ALLOT_SIM_EVENT_NS": str(rng.choice((0, 1000, 2500))),
           "ALLOT_SIM_EVENT_DEVICE_NS": str(rng.choice((0, 800, 1500)))}
    return Scenario(kind.__name__.replace("_", " "), tenants, env=env)


# ---- Fixed ones ----

# As on an H200.
DELAYS = {"ALLOT_SIM_LAUNCH_US": "5", "ALLOT_SIM_EVENT_NS": "1500",
          "ALLOT_SIM_EVENT_DEVICE_NS": "1500"}


def fixed(phase, cap=50, got=0.03, load_us=0):
    tenants = [tenant("a", "--compute", cap, cap=cap,
                      guests=[words(1, seconds=FIXED_SECONDS, phases=phase)])]
    return Scenario(phase, tenants, got=got,
                    env={**DELAYS, "ALLOT_SIM_LOAD_US": str(load_us)})


def rivals(phase, weights, names="ab"):
    """Who starts first has the arbiter's role."""
    tenants = [tenant(name, "--policy", "share", "--weight", weight, weight=weight,
                      guests=[words(1, seconds=FIXED_SECONDS, phases=phase)])
               for name, weight in zip(names, weights)]
    parts = tuple(weight / sum(weights) for weight in weights)
    return Scenario(f"{phase} of two", tenants, parts=parts, env=DELAYS,
                    parts_off=0.0125 if len(set(weights)) == 1 else 0.03)


def unlimited_neighbour():
    scenario = fixed("steady", got=None)
    scenario.tenants.append(
        Tenant(run=None, guests=[words(1, seconds=FIXED_SECONDS, phases="steady")]))
    return scenario


def devices(*caps):
    n = len(caps)
    tenants = [tenant("a", "--gpu", ",".join(map(str, range(n))),
                      "--compute", ",".join(map(str, caps)), cap=caps,
                      guests=[words(1, seconds=FIXED_SECONDS, phases="steady", devices=n)])]
    return Scenario(f"shares of {caps}", tenants, gpus=n, got=0.02, env=DELAYS)


def drop_in(device):
    env = {"LD_PRELOAD": os.environ["LIBALLOT"], f"CUDA_DEVICE_SM_LIMIT_{device}": "20"}
    tenants = [Tenant(run=None, env=env, cap=tuple(20 if i == device else None for i in range(2)),
                      guests=[words(1, seconds=FIXED_SECONDS, phases="steady", devices=2)])]
    return Scenario("one device limited by another system's setting", tenants, gpus=2,
                    got=0.02, env=DELAYS)


FIXED = {
    "steady": lambda: fixed("steady"),
    "tokens": lambda: fixed("tokens"),
    "tokens-25": lambda: fixed("tokens", cap=25),
    # What the eager part leaves behind differs from time to time.
    "tokens-again": lambda: fixed("tokens,tokens,tokens,tokens", got=None),
    "persistent": lambda: fixed("persistent", got=0.05),
    "alternating": lambda: fixed("alternating"),
    "tail": lambda: fixed("tail"),
    "two-streams": lambda: fixed("two-streams"),
    "ten-streams": lambda: fixed("ten-streams", got=None),
    "six-contexts": lambda: fixed("six-contexts", got=0.06),
    # The simulator copies bytes for real: what it gets is the processor's affair.
    "device-copies": lambda: fixed("device-copies", got=None),
    "batches": lambda: fixed("batches", got=None),
    "host-functions": lambda: fixed("host-functions", got=None),
    "event-waits": lambda: fixed("event-waits", got=None),
    "lazy": lambda: fixed("lazy", got=None, load_us=400),
    "lazy-polled": lambda: fixed("lazy-polled", got=None, load_us=500),
    "unlimited-neighbour": unlimited_neighbour,
    "polled": lambda: fixed("polled"),
    "polled-kernel": lambda: fixed("polled-kernel"),
    "sparse": lambda: fixed("sparse", got=None),
    "rivals": lambda: rivals("tokens", (1, 1)),
    "rivals-swapped": lambda: rivals("tokens", (1, 1), "ba"),
    # By hand: both begin their chains in one moment, as if alone, and share the device until the first is done.
    "rivals-chained": lambda: rivals("steady,chained-streams", (1, 1)),
    "rivals-3-1": lambda: rivals("tokens", (3, 1)),
    "devices-20-50": lambda: devices(20, 50),
    "devices-10-90": lambda: devices(10, 90),
    "devices-three": lambda: devices(10, 90, 50),
    "devices-drop-in": lambda: drop_in(0),
    "devices-drop-in-second": lambda: drop_in(1),
}


def describe(scenario):
    said = [scenario.name]
    for t in scenario.tenants:
        who = "without allot" if t.run is None else "allot run " + " ".join(map(str, t.run))
        said.append(f"  {who}: " + "; ".join(" ".join(map(str, w)) for w in t.guests))
    settings = [f"{key}={value}" for key, value in scenario.env.items() if value != "0"]
    return "\n".join(said + (["  " + " ".join(settings)] if settings else []))


def judge(make, title, again, verbose):
    """Is it right, what to print, and what was wrong: True, False, or None where the processor was
    elsewhere each time. What is wrong on time is wrong when it is so twice: a thread of two
    processors' worth of simulated devices can lose its own for a moment that no sleeper sees."""
    on_time, said, wrong = 0, [], []
    for _ in range(ATTEMPTS):
        audit = Audit(make()).run()
        if verbose:
            said += [describe(audit.scenario), *audit.figures]
        if not audit.wrong:
            return True, [*said, f"{title}: ok ({audit.scenario.name})"], []
        said += [f"{title}: WRONG", describe(audit.scenario)]
        said += [f"  wrong: {what}" for what in audit.wrong]
        wrong += [f"{title}: {what}" for what in audit.wrong]
        on_time += audit.far or not audit.late
        if on_time == 2:
            return False, [*said, f"  again: {again}"], wrong
        said.append(f"  the processor was elsewhere: {audit.late}" if audit.late else "  once more")
    return None, said, []


def judge_all(cases, at_once):
    """Each case is the arguments of judge()."""
    answers, wrongs = [], []
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for done in concurrent.futures.as_completed([pool.submit(judge, *case) for case in cases]):
            answer, said, wrong = done.result()
            print(*said, sep="\n", flush=True)
            answers.append(answer)
            wrongs += wrong
    print(*wrongs, sep="\n", end="\n" * bool(wrongs))
    return answers


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--meets", action="store_true")
    parser.add_argument("--fixed", nargs="+", choices=FIXED, metavar="NAME")
    parser.add_argument("--at-once", type=int, default=1, metavar="N")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verbose", "-v", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(FIXED))
        return 0
    if args.meets:
        also.append("--meets")
    if args.fixed:
        cases = [(FIXED[name], name, f"{sys.argv[0]} --fixed {name} -v") for name in args.fixed]
    else:
        seeds = list(range(args.first, args.first + args.count))
        if args.kept:
            with open(SEEDS + "-meets" * args.meets, encoding="ascii") as kept:
                seeds += [int(line.split()[0]) for line in kept if line.strip()[:1].isdigit()]
        cases = [(lambda s=seed: scenario_of(s), f"seed {seed}",
                  f"{sys.argv[0]} --from {seed} --count 1 {' '.join(also)} -v") for seed in seeds]
    said = judge_all([(*case, args.verbose) for case in cases], args.at_once)
    print(f"{said.count(True)} right, {said.count(False)} wrong, "
          f"{said.count(None)} not to be measured")
    return 1 if False in said else 77 if None in said else 0


if __name__ == "__main__":
    sys.exit(main())
