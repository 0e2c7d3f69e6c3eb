# SPDX-License-Identifier: Apache-2.0
"""Tenants whose quotas together exceed the device (`allot run --overcommit`): two jobs beside one after
the other, and model servers of which not all are resident, with the time to a request's answer."""
import functools
import json
import random
import time

from harness import MIB, run

# Of the device, for each of two jobs; as of 100 GB on 141 GB.
JOB_PART = 0.66
# A phase of work, and the pause behind it: several times what moving takes on an H200.
PHASE_MS, QUICK_MS, SIM_MS = 6000, 1500, 60
MAKESPAN, MAKESPAN_MOST = 0.85, 1.05
SERVERS, SERVER_GIB, ANSWER_S = 6, 30, 1.0
# Between requests, as to idle servers: who leaves next finds host memory by then; and of the first ones.
CALM_S, CLOSE_S, CLOSE = 10, 1, 4
QUICK_PART = 0.3  # of the device, for each server of a quick run
TURNS = 14  # two of three requests are for one that is away
# What is switched off in turn in a build for that (tests/gpu/run --trials), and what it does; the same
# requests each time.
MECHANISMS = {
    "none": "nothing is switched off",
    "first-part": "a small part leaves first, as a whole, and the rest piece by piece",
    "ahead": "the tenant that leaves next prepares host memory before it is asked to",
    "keep": "host memory is kept for a while after a way back",
}
TRIAL_TURNS, TRIAL_CALM_S, TRIAL_SEED = 10, 7, 1


def hold(bench, name, held, env=None):
    total = bench.figures.devices[0]["memory"] // MIB
    return bench.start(name, f"{min(held + 1024, total)}MiB",
                       [bench.program("swap"), "brief", held], options=["--overcommit"], env=env)


def content(bench, name, children):
    wrong = 0
    for child in children:
        child.say("sample")
        wrong += child.hear("looked", 240)["wrong"]
    bench.results.check("swap-turns", name, wrong == 0, f"{wrong} wrong words", "none")


def together(bench, held, ms, n):
    """From the word to work to the last one's end, with n at once; and what they hold is looked at."""
    names = [bench.tenant() for _ in range(n)]
    children = [hold(bench, name, held) for name in names]
    try:
        for child in children:
            child.hear("held", 240)
        begin = time.monotonic()
        for child in children:
            child.say(f"work{ms}")
        for child in children:
            child.hear("worked", 280)
        took = time.monotonic() - begin
        content(bench, f"content of {n} job{'s' if n > 1 else ''}", children)
    finally:
        for child in children:
            child.end()
    return took


def jobs(bench, total):
    held = int(total / MIB * JOB_PART)
    ms = SIM_MS if bench.sim else QUICK_MS if bench.quick else PHASE_MS
    if bench.quick and not bench.sim:
        held = int(total / MIB * 0.55)
    alone = together(bench, held, ms, 1)
    both = together(bench, held, ms, 2)
    ratio = both / (2 * alone)
    bench.results.figure("swap-turns", "two jobs", {"held_mib": held, "alone_s": round(alone, 3),
                                              "both_s": round(both, 3), "ratio": round(ratio, 3)})
    said = f"{both:.2f} s, alone {alone:.2f} s: {ratio:.2f}"
    if bench.sim:
        bench.results.skip("swap-turns", "two jobs that exceed the device", f"{said}, simulated")
        return
    most = MAKESPAN_MOST if bench.quick else MAKESPAN
    bench.results.check("swap-turns", "two jobs that exceed the device", ratio <= most, said,
                        f"at most {most} of one after the other")


def away_of(bench, names):
    """Which of them are."""
    status, out, _ = run([bench.allot, "ps", "--json"], 20)
    said = {} if status else {t["name"]: t["state"] for t in json.loads(out)["tenants"]}
    return [i for i, name in enumerate(names) if said.get(name) == "suspended"]


def request(child):
    """One, and how long its answer takes."""
    begin = time.monotonic()
    child.say("graph")
    wrong = child.hear("launched", 120)["wrong"]
    return time.monotonic() - begin, wrong


def judge_answers(bench, held, took, resident):
    """The first answers of servers that were away."""
    most = ANSWER_S * held / (SERVER_GIB * 1024)
    for name, seconds in took.items():
        said = f"{max(seconds, default=0):.3f} s at most, resident {resident or 0:.4f} s"
        if bench.sim or not seconds:
            bench.results.skip("swap-turns", name, f"{said}, simulated" if seconds else "none was away")
        else:
            bench.results.check("swap-turns", name, max(seconds) <= most, said,
                                f"at most {most:.2f} s for {held} MiB")


def servers(bench, total):
    n, held = SERVERS, SERVER_GIB * 1024
    if bench.sim or bench.quick:
        n, held = 4, int(total / MIB * QUICK_PART)
    names, chance = [bench.tenant() for _ in range(n)], random.Random()
    children, away, close, resident, wrong = [], [], [], [], 0
    try:
        for name in names:
            children.append(hold(bench, name, held))
            children[-1].hear("held", 240)
        for turn in range(TURNS):
            gone = away_of(bench, names)
            here = [i for i in range(n) if i not in gone]
            wants_gone = bool(gone) and turn % 3 < 2
            took, missed = request(children[chance.choice(gone if wants_gone else here)])
            (resident if not wants_gone else close if turn < CLOSE else away).append(took)
            wrong += missed
            calm = turn + 1 == CLOSE or (wants_gone and turn >= CLOSE)
            time.sleep(0.3 if bench.sim else CALM_S if calm else CLOSE_S)
        content(bench, f"content of {n} servers", children)
    finally:
        for child in children:
            child.end()
    bench.results.check("swap-turns", "answers of servers", not wrong and bool(away),
                        f"{wrong} wrong words, {len(away) + len(close)} of {TURNS} were away",
                        "none wrong, some away")
    at = sorted(resident)[len(resident) // 2] if resident else None
    bench.results.figure("swap-turns", "servers", {
        "n": n, "held_mib": held, "away_s": [round(s, 4) for s in away],
        "close_s": [round(s, 4) for s in close],
        "resident_p50_s": at and round(at, 5)})
    judge_answers(bench, held, {"first answer after being away": away,
                                "... soon behind another": close}, at)


def ask_away(bench, names, children):
    """Requests for servers that are away, each second one soon behind another; (calm, soon, wrong)."""
    chance, calm, soon, wrong = random.Random(TRIAL_SEED), [], [], 0
    for turn in range(TRIAL_TURNS):
        time.sleep(0.3 if bench.sim else CLOSE_S if turn % 2 else TRIAL_CALM_S)
        gone = away_of(bench, names)
        if not gone:
            continue
        took, missed = request(children[chance.choice(gone)])
        (soon if turn % 2 else calm).append(took)
        wrong += missed
    return calm, soon, wrong


def without(bench, total, mechanism):
    """The first answers of servers that were away, with a mechanism switched off."""
    n, held = SERVERS, SERVER_GIB * 1024
    if bench.sim or bench.quick:
        n, held = 4, int(total / MIB * QUICK_PART)
    names, children = [bench.tenant() for _ in range(n)], []
    try:
        for name in names:
            children.append(hold(bench, name, held, {"ALLOT_WITHOUT": mechanism}))
            children[-1].hear("held", 240)
        calm, soon, wrong = ask_away(bench, names, children)
        content(bench, f"content without {mechanism}", children)
    finally:
        for child in children:
            child.end()
    bench.results.check("swap-turns", f"answers without {mechanism}", not wrong and bool(calm + soon),
                        f"{wrong} wrong words, {len(calm + soon)} were away", "none wrong, some away")
    bench.results.figure("swap-turns", f"without {mechanism}", {
        "what": MECHANISMS[mechanism], "n": n, "held_mib": held,
        "calm_s": [round(s, 4) for s in calm], "soon_s": [round(s, 4) for s in soon]})
    table_of_trials(bench)


def median(values):
    return sorted(values)[len(values) // 2] if values else None


def table_of_trials(bench):
    """What has been measured by now; and how much more the median is than with all there."""
    figures, rows = bench.results.figures["swap-turns"], []
    whole = figures.get("without none", {})
    for mechanism in MECHANISMS:
        found = figures.get(f"without {mechanism}")
        if not found:
            continue
        row = [mechanism]
        for kind in ("calm_s", "soon_s"):
            at, of = median(found[kind]), median(whole.get(kind, []))
            row += ["-" if at is None else f"{at:.3f}", "-" if at is None else f"{max(found[kind]):.3f}",
                    f"{100 * (at / of - 1):+.0f} %" if at and of else "-"]
        rows.append(row)
    head = ["without", "calm p50 s", "most", "more", "soon p50 s", "most", "more"]
    bench.results.table("swap-turns", head, rows)


ITEMS = {"jobs": jobs, "servers": servers}
TRIALS = {f"without {mechanism}": functools.partial(without, mechanism=mechanism)
          for mechanism in MECHANISMS}


def part(bench):
    total = bench.figures.devices[0]["memory"]
    if bench.simulates_more_than(4096 * MIB, "swap-turns", "turns on memory"):
        return
    items = {**ITEMS, **TRIALS} if bench.trials else ITEMS
    for item in bench.chosen("swap-turns", items):
        items[item](bench, total)
