# SPDX-License-Identifier: Apache-2.0
"""A tenant alone under a cap. One load runs through several, which `allot set` changes while it
runs, so that most of the time measures and little starts programs. What the same load had without a
limit, first thing in the same processes, is what all parts are parts of."""
import math
import statistics
import threading
import time
from collections import namedtuple

from harness import Trouble
from parts.compute_load import (ALONE_S, ALONE_SETTLE_S, MEMORY, START_S, Bins, go,
                                settle_s, sleep_until, spin)

# Downwards, and what is in flight without a limit meets the widest: what was launched before a
# limit is paid for under it, ten times over at 10 %, and that would be measured instead.
CAPS = (90, 75, 50, 25, 10)
POINTS = 1.5
MEAN_POINTS = 1.0
SECOND_POINTS = 3.0
SECOND_KERNEL_MS = 10  # no promise for single seconds of longer kernels
NODES = 50
KERNELS_MS = (0.05, 0.1, 1, 10, 100)
# form: words for allot-load. A graph's kernels count one by one. Those of four streams are at work
# at once, and small enough that each takes as long as alone: else the work done in a time would
# depend on how many they are.
FORMS = {
    "plain": (),
    "graph50": ("--form", "graph", "--nodes", NODES),
    "cooperative": ("--form", "cooperative"),
    "ex": ("--form", "ex"),
    "streams4": ("--form", "streams", "--threads", 32),
    "processes4": ("--processes", 4),
    "sync": ("--form", "sync"),
}
# Launches of each process that a new limit finds in flight. Where there was none: allot-load's own
# least depth, as many again that follow before the first of them is billed, and the pause that pays
# for them; under a limit the one that runs and the one that follows.
FREE_DEPTH = 10
HELD_DEPTH = 2

# Launches of all processes that are so much work together are measured for as long as is promised,
# and so many of them alone.
LONG_S = 0.1
LONG_LEAST_S = 10.0
ALONE_UNITS = 10

# A cap, when its phase begins, and the part of it that is measured. Seconds from the start.
Phase = namedtuple("Phase", "cap at from_s to_s")


def plan(bench, caps, unit_ms=0.0, processes=1, alone_s=ALONE_S, least_s=0.0):
    """Phases for launches of so much work. Each waits until what was in flight is paid for, and
    then measures at least two rounds of all processes' launches and their pauses; of long launches
    whole seconds, so that as many of them are seen as of pauses."""
    phases, at, work_s = [], alone_s, processes * unit_ms / 1e3
    least_s = max(least_s, LONG_LEAST_S if work_s >= LONG_S else 0)
    for i, cap in enumerate(caps):
        round_s = work_s / (cap / 100)
        settle = max(settle_s(bench), round_s * (HELD_DEPTH if i else FREE_DEPTH))
        measured = max(bench.compute_seconds, least_s, 2 * round_s)
        if work_s >= LONG_S:
            measured = math.ceil(measured)
        begin = round(at + settle, 1)
        phases.append(Phase(cap, at, begin, round(begin + measured, 1)))
        at = phases[-1].to_s
    return phases


def busy(bench, tenant, device=0):
    """What the ledger says that the device worked for the tenant, in ns, and when it said so."""
    before = time.monotonic_ns()
    said = bench.ps(tenant, device)
    return (said or {}).get("compute", {}).get("busy_ns"), (before + time.monotonic_ns()) / 2


def read_billed(bench, tenant, phases, start, billed):
    """Each phase's part of the time by the ledger, in percent; None where it does not say. In a
    thread, because asking may take longer than a limit may come late."""
    for phase in phases:
        try:
            sleep_until(start + phase.from_s)
            first, first_at = busy(bench, tenant)
            sleep_until(start + phase.to_s - 0.2)
            last, last_at = busy(bench, tenant)
            billed.append(100 * (last - first) / (last_at - first_at))
        except (Trouble, OSError, TypeError, ValueError):
            billed.append(None)


def through(bench, tenant, phases, first_options, billed):
    """For go(): changes the cap as the phases come, and fills `billed`."""
    def play(start):
        reader = threading.Thread(target=read_billed, args=(bench, tenant, phases, start, billed),
                                  daemon=True)
        reader.start()
        for i, phase in enumerate(phases):
            sleep_until(start + phase.at)
            bench.set(tenant, "--compute", phase.cap, "--policy", "cap",
                   *(first_options if i == 0 else ()))
        reader.join(phases[-1].to_s + 30)
    return play


def resolution(phases, work_ms):
    """By how many points a phase may be off only because it ends within a launch or a pause.
    Several processes take turns where nothing is limited, too."""
    return max(work_ms / 10 * (1 - p.cap / 100) / (p.to_s - p.from_s) for p in phases)


def judge(bench, name, said, phases, billed, points=POINTS, alone=(ALONE_SETTLE_S, ALONE_S),
          work_ms=0.0):
    """`points` None: another controller's figures, for comparison."""
    bins = Bins(said)
    had = bins.mean(*alone)
    if not had:
        raise Trouble("nothing was done without a limit")
    rows = []
    for i, p in enumerate(phases):
        worst = bins.worst(p.from_s, p.to_s, p.cap / 100 * had)
        rows.append({"cap": p.cap, "got": 100 * bins.mean(p.from_s, p.to_s) / had,
                     "billed": billed[i] if i < len(billed) else None, "from_s": p.from_s,
                     "to_s": p.to_s, "worst_second": None if worst is None else 100 * worst / had})
    bench.results.figure("compute", name, {
        "alone": had, "rows": rows, "cpu_seconds": [s["cpu_seconds"] for s in said],
        "late_ms": [s.get("late_ms") for s in said], "bin_s": bins.width,
        "bins": [v / had for v in bins.values]})
    got, asked = " ".join(f"{r['got']:.1f}" for r in rows), "/".join(str(r["cap"]) for r in rows)
    if points is None:
        bench.results.note(f"{name}: {got} of {asked}")
        return rows
    good = all(abs(row["got"] - row["cap"]) <= points for row in rows)
    coarse = max(resolution(phases, work_ms),
                 work_ms / 10 / (alone[1] - alone[0]) if len(said) > 1 else 0)
    billed_words = " ".join("?" if r["billed"] is None else f"{r['billed']:.1f}" for r in rows)
    bench.results.check(
        "compute", name, good, got, f"{asked} ±{points:g}", f"by the ledger {billed_words}"
        + f"; alone {100 * had:.1f} %; " + " ".join(f"{r['to_s'] - r['from_s']:g}" for r in rows)
        + " s measured" + (f", of which a launch more or less is {coarse:.1f} points"
                           if coarse >= POINTS / 3 else ""))
    return rows


def judge_seconds(bench, name, rows, kernel_ms, unit_ms):
    """Each whole second by itself."""
    if kernel_ms > SECOND_KERNEL_MS:
        return
    name = f"{name}, each second"
    if unit_ms >= 500:
        bench.results.skip("compute", name,
                           f"a launch is {unit_ms:g} ms of work: no second can show a share of it")
        return
    if any(row["worst_second"] is None for row in rows):
        bench.results.skip("compute", name, "less than a second was measured")
        return
    good = all(abs(r["worst_second"] - r["cap"]) <= SECOND_POINTS for r in rows)
    bench.results.check("compute", name, good, " ".join(f"{r['worst_second']:.1f}" for r in rows),
                        f"each ±{SECOND_POINTS:g}",
                        f"a launch more or less is {unit_ms / 10:g} points of a second"
                        if unit_ms >= 10 else None)


def shape(form, kernel_ms):
    """Work of a launch in ms, and processes."""
    return kernel_ms * (NODES if form == "graph50" else 1), 4 if form == "processes4" else 1


def alone_until_s(form, kernel_ms):
    unit_ms, processes = shape(form, kernel_ms)
    return max(ALONE_S, ALONE_SETTLE_S + ALONE_UNITS * processes * unit_ms / 1e3)


def phases_of(bench, form, kernel_ms, caps, least_s=0.0):
    unit_ms, processes = shape(form, kernel_ms)
    return plan(bench, caps, unit_ms, processes, alone_until_s(form, kernel_ms), least_s)


def solo_seconds(bench, form, kernel_ms, caps=CAPS):
    return START_S + phases_of(bench, form, kernel_ms, caps)[-1].to_s


def solo(bench, name, form, kernel_ms, caps=CAPS, controller=None, least_s=0.0):
    """A tenant alone through the caps."""
    unit_ms, processes = shape(form, kernel_ms)
    phases, tenant, billed = phases_of(bench, form, kernel_ms, caps, least_s), bench.tenant(), []
    total = phases[-1].to_s
    command = spin(bench, FORMS[form], kernel_ms * 1e3, total)
    words = ("--controller", controller) if controller else ()
    play = through(bench, tenant, phases, words, billed)
    with bench.start(tenant, MEMORY, command) as child:
        (said,) = go([child], total, processes, play)
    other = controller in ("bucket", "pid")
    rows = judge(bench, name, said, phases, billed, None if other else POINTS,
                 (ALONE_SETTLE_S, alone_until_s(form, kernel_ms)), unit_ms * processes)
    if not other:
        bench.cap_errors += [abs(row["got"] - row["cap"]) for row in rows]
        judge_seconds(bench, name, rows, kernel_ms, unit_ms)
    return rows


def mean_error(bench):
    """Over all that was measured of a tenant alone."""
    if not bench.cap_errors:
        return
    mean = statistics.fmean(bench.cap_errors)
    bench.results.check("compute", f"mean error over {len(bench.cap_errors)} measurements",
                        mean <= MEAN_POINTS, f"{mean:.2f} points", f"{MEAN_POINTS:g}")


CONTROLLER_CAPS = (75, 50, 25)
CONTROLLER_LEAST_S = 6.0


def controllers_seconds(bench):
    phases = phases_of(bench, "plain", 1, CONTROLLER_CAPS, CONTROLLER_LEAST_S)
    return 3 * (START_S + phases[-1].to_s)


def controllers(bench, name):
    """All of them with the same load: how far off on average, in the worst second, and how much of
    what was allowed was had."""
    table = {}
    for controller in ("deficit", "bucket", "pid"):
        rows = solo(bench, f"controller {controller}", "plain", 1, CONTROLLER_CAPS, controller,
                    CONTROLLER_LEAST_S)
        table[controller] = {
            "mean_off": statistics.fmean(abs(r["got"] - r["cap"]) for r in rows),
            "worst_second_off": max(abs((r["worst_second"] or r["got"]) - r["cap"]) for r in rows),
            "kept": statistics.fmean(min(1, r["got"] / r["cap"]) for r in rows)}
    bench.results.figure("compute", name, table)
    for controller, row in table.items():
        bench.results.note(f"{controller:<8} off {row['mean_off']:5.2f}, worst second "
                           f"{row['worst_second_off']:5.1f} points, kept {row['kept']:.1%}")
