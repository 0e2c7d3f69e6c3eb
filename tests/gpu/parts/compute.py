# SPDX-License-Identifier: Apache-2.0
"""Shares of the device's time. One load runs through several limits, which `allot set` changes while
it runs, so that most of the time measures and little starts programs. What the same load had without
a limit, first thing in the same process, is what all parts are parts of."""
import statistics
import subprocess
import sys
import time

from harness import HERE, Child, Trouble, have, run

CAPS = (10, 25, 50, 75, 90)
POINTS = 2.0
KERNELS_MS = (0.05, 0.1, 1, 10, 100)
# form: words for allot-load. A graph's kernels count one by one.
FORMS = {
    "plain": (),
    "graph50": ("--form", "graph", "--nodes", 50),
    "cooperative": ("--form", "cooperative"),
    "ex": ("--form", "ex"),
    "streams4": ("--form", "streams"),
    "processes4": ("--processes", 4),
    "sync": ("--form", "sync"),
}
ALONE_S = 1.5
ALONE_SETTLE_S = 0.5
MEMORY = "16GiB"
TORCH = ("matmul", "train", "train-graph")


def spin(bench, words, us=1000, seconds=5.0, warm=0.5):
    command = [bench.build / "src/load/allot-load", "--wait", "--canary", "--kernel-us", us,
               "--seconds", f"{seconds:g}", "--warm-up", f"{warm:g}", *words]
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


def sleep_until(at):
    time.sleep(max(0, at - time.monotonic()))


def change(bench, tenant, *options):
    status, _, err = run([bench.allot, "set", tenant, *options], 30)
    if status:
        raise Trouble(f"allot set: {err}")


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


def phase_s(bench, kernel_ms):
    """So long that a kernel more or less does not matter."""
    return max(bench.compute_seconds, kernel_ms / 10)


def settle_s(seconds):
    return min(2.0, seconds / 5)


def through(bench, tenant, phases, seconds):
    """Changes the limit as the phases come; for go()."""
    def play(start):
        for i, options in enumerate(phases):
            sleep_until(start + ALONE_S + i * seconds)
            change(bench, tenant, *options)
    return play


def judge_caps(bench, name, said, caps, seconds, points=POINTS):
    """`points` None: another controller's figures, for comparison."""
    bins = Bins(said)
    alone = bins.mean(ALONE_SETTLE_S, ALONE_S)
    if not alone:
        raise Trouble("nothing was done without a limit")
    rows = []
    for i, cap in enumerate(caps):
        begin, end = ALONE_S + i * seconds + settle_s(seconds), ALONE_S + (i + 1) * seconds
        got = 100 * bins.mean(begin, end) / alone
        worst = bins.worst(begin, end, cap / 100 * alone)
        rows.append({"cap": cap, "got": got, "from_s": begin, "to_s": end,
                     "worst_second": None if worst is None else 100 * worst / alone})
    bench.results.figure("compute", name, {
        "alone": alone, "rows": rows, "cpu_seconds": [s["cpu_seconds"] for s in said],
        "late_ms": [s.get("late_ms") for s in said], "bin_s": bins.width,
        "bins": [v / alone for v in bins.values]})
    got, asked = " ".join(f"{row['got']:.1f}" for row in rows), "/".join(map(str, caps))
    if points is None:
        bench.results.note(f"{name}: {got} of {asked}")
    else:
        good = all(abs(row["got"] - row["cap"]) <= points for row in rows)
        bench.results.check("compute", name, good, got, f"{asked} ±{points:g}")
    return rows


def solo(bench, name, form, kernel_ms, caps=CAPS, controller=None, seconds=None):
    """A tenant alone through the caps."""
    seconds = seconds or phase_s(bench, kernel_ms)
    total, tenant = ALONE_S + len(caps) * seconds, bench.tenant()
    processes = 4 if form == "processes4" else 1
    extra = ("--controller", controller) if controller else ()
    phases = [("--compute", cap, "--policy", "cap", *(extra if i == 0 else ()))
              for i, cap in enumerate(caps)]
    command = spin(bench, FORMS[form], kernel_ms * 1e3, total)
    with bench.start(tenant, MEMORY, command) as child:
        (said,) = go([child], total, processes, through(bench, tenant, phases, seconds))
    return judge_caps(bench, name, said, caps, seconds,
                      None if controller in ("bucket", "pid") else POINTS)


def controllers(bench, name):
    """All of them with the same load: how far off on average, in the worst second, and how much of
    what was allowed was had."""
    table = {}
    for controller in ("deficit", "bucket", "pid"):
        rows = solo(bench, f"controller {controller}", "plain", 1, (25, 50, 75), controller,
                    max(8.0, bench.compute_seconds))
        table[controller] = {
            "mean_off": statistics.fmean(abs(r["got"] - r["cap"]) for r in rows),
            "worst_second_off": max(abs((r["worst_second"] or r["got"]) - r["cap"]) for r in rows),
            "kept": statistics.fmean(min(1, r["got"] / r["cap"]) for r in rows)}
    bench.results.figure("compute", name, table)
    for controller, row in table.items():
        bench.results.note(f"{controller:<8} off {row['mean_off']:5.2f}, worst second "
                           f"{row['worst_second_off']:5.1f} points, kept {row['kept']:.1%}")


def torch(bench, name, mode):
    """An unmodified PyTorch loop."""
    caps, seconds, tenant = (25, 50), max(6.0, bench.compute_seconds), bench.tenant()
    total = ALONE_S + len(caps) * seconds
    phases = [("--compute", cap, "--policy", "cap") for cap in caps]
    command = [sys.executable, HERE / "frameworks/torch_load.py", mode, f"{total:g}"]
    with bench.start(tenant, "32GiB", command) as child:
        (said,) = go([child], total, 1, through(bench, tenant, phases, seconds))
    judge_caps(bench, name, said, caps, seconds)


def weights(bench, name, kernel_ms):
    """Two tenants that always want the device, 1:1, then 1:3, then 1:9."""
    ratios, seconds = (1, 3, 9), bench.compute_seconds
    tenants, total = [bench.tenant() for _ in range(2)], seconds * len(ratios)
    children = [bench.start(t, MEMORY, spin(bench, (), kernel_ms * 1e3, total),
                            ("--policy", "share", "--weight", 1)) for t in tenants]

    def play(start):
        for i, ratio in enumerate(ratios[1:], 1):
            sleep_until(start + i * seconds)
            change(bench, tenants[1], "--weight", ratio)

    try:
        bins = [Bins(said) for said in go(children, total, 1, play)]
    finally:
        for child in children:
            child.kill()
    rows, good = [], True
    for i, ratio in enumerate(ratios):
        begin, end = i * seconds + settle_s(seconds), (i + 1) * seconds
        a, b = (100 * side.mean(begin, end) for side in bins)
        rows.append({"weights": f"1:{ratio}", "first": a, "second": b, "together": a + b})
        good = good and abs(100 * a / (a + b) - 100 / (1 + ratio)) <= 3 and a + b >= 95
    bench.results.figure("compute", name, {"rows": rows, "bins": [b.values for b in bins]})
    bench.results.check("compute", name, good, "; ".join(
        f"{r['weights']} {r['first']:.1f}+{r['second']:.1f}" for r in rows),
        "by weight ±3, together 95 %")


def native(bench, name):
    """Two that always want the device, without allot: what the driver makes of them."""
    children = [Child(spin(bench, (), 1000, 3)) for _ in range(2)]
    try:
        shares = [100 * said[0]["share"] for said in go(children, 3)]
    finally:
        for child in children:
            child.kill()
    bench.results.figure("compute", name, shares)
    bench.results.note(f"the driver alone: {shares[0]:.1f} + {shares[1]:.1f}")


def four(bench, name):
    seconds, want = bench.compute_seconds, (1, 2, 3, 4)
    children = [bench.start(bench.tenant(), MEMORY, spin(bench, (), 1000, seconds, settle_s(seconds)),
                            ("--policy", "share", "--weight", w)) for w in want]
    try:
        shares = [100 * Bins(said).mean(settle_s(seconds), seconds) for said in go(children, seconds)]
    finally:
        for child in children:
            child.kill()
    total = sum(shares)
    bench.results.figure("compute", name, shares)
    bench.results.check("compute", name, total >= 95 and all(
        abs(100 * s / total - 10 * w) <= 3 for s, w in zip(shares, want)),
        " ".join(f"{s:.1f}" for s in shares) + f" = {total:.1f}", "10/20/30/40 ±3, together 95 %")


def idle(bench, name):
    """One of two pauses for two seconds: how soon the other has all of the device, and how soon each
    its half again."""
    children = [bench.start(bench.tenant(), MEMORY,
                            spin(bench, (*words, "--bin-ms", 10), 1000, 6),
                            ("--policy", "share", "--weight", 1))
                for words in (("--idle", "2:4"), ())]
    try:
        pausing, other = (Bins(said) for said in go(children, 6))
    finally:
        for child in children:
            child.kill()

    def first(side, from_s, enough):
        """When, in ms from then on, a tenth of a second begins in which the share is enough."""
        for i in range(100):
            if side.mean(from_s + i / 100, from_s + i / 100 + 0.1) >= enough:
                return 10 * i
        return None

    took, back = first(other, 2, 0.95), first(pausing, 4, 0.45)
    alone = 100 * other.mean(2.3, 4)
    bench.results.figure("compute", name, {"others_ms": took, "back_ms": back, "alone": alone,
                                           "bins": [pausing.values, other.values]})
    bench.results.check("compute", name, took is not None and back is not None and took <= 100
                        and back <= 100 and alone >= 97,
                        f"all of it after {took} ms ({alone:.1f} %), half again after {back} ms",
                        "100 ms, 97 %, 100 ms")


def request_beside(bench, us, options):
    """A request of 1 ms each 10 ms, and a neighbour; `options`: of each in a tenant, or None."""
    seconds = max(4.0, bench.compute_seconds)
    commands = [spin(bench, ("--form", "request"), 1000, seconds)]
    if us:
        commands.append(spin(bench, (), us, seconds))
    children = [Child(command) if options is None else
                bench.start(bench.tenant(), MEMORY, command, options[i])
                for i, command in enumerate(commands)]
    try:
        said = go(children, seconds)
    finally:
        for child in children:
            child.kill()
    return {"p50_ms": said[0][0]["latency_us"]["p50"] / 1e3,
            "p99_ms": said[0][0]["latency_us"]["p99"] / 1e3,
            "neighbour": 100 * said[1][0]["share"] if us else None}


def priority(bench, name, us):
    share = ("--policy", "share", "--weight", 1)
    sides = {"alone": request_beside(bench, None, None), "driver": request_beside(bench, us, None),
             "high": request_beside(bench, us, ((*share, "--priority", "high"), share)),
             "same": request_beside(bench, us, (share, share))}
    bench.results.figure("compute", name, sides)
    for side, s in sides.items():
        bench.results.note(f"{side:<7} p50 {s['p50_ms']:.2f}, p99 {s['p99_ms']:.2f} ms" + (
            f", neighbour {s['neighbour']:.1f} %" if s["neighbour"] is not None else ""))
    high, driver = sides["high"], sides["driver"]
    bench.results.check("compute", name, high["p99_ms"] < driver["p99_ms"]
                        and high["neighbour"] >= 80,
                        f"p99 {high['p99_ms']:.2f} ms, neighbour {high['neighbour']:.1f} %",
                        f"p99 below the driver's {driver['p99_ms']:.2f} ms, neighbour 80 %")


def launch(bench, name):
    """Launches that nothing holds, each waited for: what the call takes, in turns with and without."""
    sides = {"native": None, "no limit": (), "90 %": ("--compute", 90)}
    found = {side: [] for side in sides}
    for _ in range(3):
        for side, options in sides.items():
            command = spin(bench, ("--form", "sync"), 1, 1, 0.2)
            with (Child(command) if options is None else
                  bench.start(bench.tenant(), MEMORY, command, options)) as child:
                found[side].append(1e3 * go([child], 1)[0][0]["launch_us"]["p50"])
    medians = {side: statistics.median(values) for side, values in found.items()}
    bench.results.figure("compute", name, found)
    added = medians["90 %"] - medians["native"]
    bench.results.check("compute", name, added < 1000, ", ".join(
        f"{side} {value:.0f} ns" for side, value in medians.items()), "less than 1 us added")


def processor(bench, name):
    """What a limited process takes of a processor, beside what it takes without a limit."""
    found = {}
    for side, options in {"native": None, "no limit": (), "25 %": ("--compute", 25)}.items():
        command = spin(bench, (), 1000, 4)
        with (Child(command) if options is None else
              bench.start(bench.tenant(), MEMORY, command, options)) as child:
            found[side] = 100 * go([child], 4)[0][0]["cpu_seconds"] / 4
    bench.results.figure("compute", name, found)
    bench.results.check("compute", name, found["25 %"] <= found["native"] + 5, ", ".join(
        f"{side} {value:.1f} %" for side, value in found.items()),
        "5 % of a processor more than without")


def kernel_words(kernel_ms):
    return f"{kernel_ms:g} ms"


def all_items():
    """What there is, in the order of worth: {name: (function, its arguments)}"""
    items = {}
    for kernel_ms in (1, 0.1, 10, 0.05, 100):
        items[f"caps plain {kernel_words(kernel_ms)}"] = (solo, "plain", kernel_ms)
    items["weights 1 ms"] = (weights, 1)
    items["weights 0.1 ms"] = (weights, 0.1)
    items["weights native"] = (native,)
    items["weights four"] = (four,)
    items["idle and back"] = (idle,)
    items["priority beside 1 ms"] = (priority, 1000)
    items["priority beside 0.2 ms"] = (priority, 200)
    items["launch added"] = (launch,)
    items["processor"] = (processor,)
    for mode in TORCH:
        items[f"torch {mode}"] = (torch, mode)
    items["controllers"] = (controllers,)
    for kernel_ms in (1, 0.1, 0.05, 10, 100):
        for form in FORMS:
            # A graph of so long kernels is one unit of seconds.
            if form != "plain" and not (form == "graph50" and kernel_ms > 10):
                items[f"caps {form} {kernel_words(kernel_ms)}"] = (solo, form, kernel_ms)
    return items


# --only compute is both of these, of which each takes 6 to 7 minutes at the usual 5 s for each limit;
# --only compute:first or compute:second is one. The rest is there by name.
SECOND = [name for name in all_items() if name == "controllers" or (
    name.startswith("caps ") and "plain" not in name and name.endswith((" 1 ms", " 0.1 ms")))]
FIRST = [name for name in all_items()
         if name not in SECOND and (not name.startswith("caps ") or "plain" in name)]
# Beside other parts.
QUICK = ["caps plain 1 ms", "weights 1 ms", "idle and back", "priority beside 1 ms", "processor"]


def choose(bench, items):
    words = bench.words.get("compute")
    if words is None or bench.quick:
        return QUICK
    if not words:
        return FIRST + SECOND
    groups = {"first": FIRST, "second": SECOND}
    picked = [name for word in words for name in groups.get(word, ())]
    bench.words["compute"] = [word for word in words if word not in groups]
    picked += bench.chosen("compute", items) if bench.words["compute"] else []
    return list(dict.fromkeys(picked))


def part(bench):
    items = all_items()
    chosen = choose(bench, items)
    calibrate(bench)
    for name in chosen:
        function, *args = items[name]
        if function is torch and (bench.sim or not have("torch")):
            bench.results.skip("compute", name, "no torch here")
            continue
        try:
            function(bench, name, *args)
        except (Trouble, OSError, subprocess.SubprocessError, ValueError, KeyError,
                ZeroDivisionError) as trouble:
            bench.results.check("compute", name, False, str(trouble)[:400], "runs to its end")
