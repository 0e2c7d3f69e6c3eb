# SPDX-License-Identifier: Apache-2.0
"""A token loop in PyTorch, as inference servers run it: first kernel by kernel, then for each token
one CUDA graph of some milliseconds and a small copy to the host. All parts are of what the program
has alone, without allot, in the same run."""
import shutil

from harness import have, run
from parts.loops import Items, Loop, alone, end_all, framework, ms, percent, together

BATCHES = (4, 16)
CAPS = (50, 25, 75)
CAP_POINTS = 1.0
# weights: points, and how much together at least.
WEIGHTS = {(1, 1): (2.0, 98.0), (1, 3): (3.0, None)}
# Two at 1:1 by default: the 99th percentile of a step; and the turns of those that ask for long ones.
PAIR_P99_MS, PAIR_TOGETHER, PAIR_SLICE = 20.0, 98.0, "48ms"
PRIORITY_STEPS, PRIORITY_P99 = 90.0, 1.3
SHARE = ("--policy", "share", "--weight", 1)
EAGER_S, SETTLE_S = 1.0, 1.0
# Two at the same time, each on half of the SMs: the sum, in percent of one alone.
SPACE = ("--mode", "space", "--compute", 50)
SPACE_TOGETHER = {"batch4": 125.0, "batch16": 119.0}


def keys(loop, what):
    """The neighbour knows one thing only."""
    return {"what": what} if what in loop.said["steps"] else {}


class Tokens:
    """The programs, all of which are there from the start, and what the one without a tenant has
    alone."""

    def __init__(self, bench):
        self.bench, self.had, self.rows = bench, {}, []
        self.seconds = 4.0 if bench.quick else 5.0
        self.native = Loop(bench, framework("tokens"))
        self.tenants = [Loop(bench, framework("tokens"), SHARE) for _ in range(2)]
        self.neighbour = Loop(bench, framework("matmul"), SHARE)
        self.native_neighbour = Loop(bench, framework("matmul"))
        self.all = [self.native, *self.tenants, self.neighbour, self.native_neighbour]
        try:
            for loop in self.all:
                loop.ready()
        except BaseException:
            end_all(self.all)
            raise

    def measure(self, loops, what, eager=True):
        """At the same time; first kernel by kernel, as a program is before it has its graph."""
        if eager:
            first = what.replace("batch", "eager")
            together([(loop, None, keys(loop, first)) for loop in loops], EAGER_S, 0)
        return together([(loop, None, keys(loop, what)) for loop in loops], self.seconds, SETTLE_S)

    def of_alone(self, said, what):
        return 100 * said["rate"] / self.had[what]["rate"]

    def row(self, name, what, said):
        self.rows.append((name, what, f"{said['rate']:.1f}",
                          percent(self.of_alone(said, what)), percent(said["billed"]),
                          ms(said["p50_us"]), ms(said["p99_us"])))


def short(said):
    return {key: said[key] for key in ("rate", "n", "p50_us", "p99_us", "max_us", "billed",
                                       "billed_ns", "wall_s", "bins")}


def measure_alone(t, what):
    """Without allot, before everything else."""
    (said,) = t.measure([t.native], what)
    t.had[what] = said
    t.bench.results.figure("tokens", f"{what}, alone", short(said))
    t.row("alone, without allot", what, said)


def free(t, what):
    """Under allot without a limit, and measured but alone."""
    found = {}
    for side, options in (("no limit", ("--compute", "off")), ("share, alone", SHARE)):
        t.tenants[0].set(*options)
        (said,) = t.measure([t.tenants[0]], what, eager=False)
        found[side] = said
        t.row(side, what, said)
        t.bench.results.figure("tokens", f"{what}, {side}", short(said))
    got = t.of_alone(found["share, alone"], what)
    t.bench.results.check("tokens", f"{what}: a share, nobody else there", got >= 98.0,
                          f"{got:.1f} %, billed {percent(found['share, alone']['billed'])} %",
                          "98 %")


def caps(t, what):
    found = {}
    for cap in CAPS:
        t.tenants[0].set("--policy", "cap", "--compute", cap)
        (said,) = t.measure([t.tenants[0]], what)
        found[cap] = t.of_alone(said, what)
        t.row(f"cap {cap}", what, said)
        t.bench.results.figure("tokens", f"{what}, cap {cap}", short(said))
    again = again_alone(t, what)
    t.bench.results.check(
        "tokens", f"{what}: caps", all(abs(found[cap] - cap) <= CAP_POINTS for cap in CAPS),
        " ".join(f"{found[cap]:.1f}" for cap in CAPS),
        f"{'/'.join(map(str, CAPS))} ±{CAP_POINTS:g}", f"alone again: {again:.1f} %")


def again_alone(t, what):
    said = alone(t.native, 2.0, 0.5, what=what)
    return t.of_alone(said, what)


def weights(t, what):
    for parts, (points, least) in WEIGHTS.items():
        for loop, weight in zip(t.tenants, parts):
            loop.set("--policy", "share", "--weight", weight)
        said = t.measure(t.tenants, what)
        got = [t.of_alone(s, what) for s in said]
        wanted = [100 * weight / sum(parts) for weight in parts]
        name = ":".join(map(str, parts))
        for s, weight in zip(said, parts):
            t.row(f"{name}, weight {weight}", what, s)
        t.bench.results.figure("tokens", f"{what}, {name}", [short(s) for s in said])
        billed = [s["billed"] for s in said]
        t.bench.results.check(
            "tokens", f"{what}: {name}",
            all(abs(g - w) <= points for g, w in zip(got, wanted)) and sum(got) >= (least or 0),
            " + ".join(f"{g:.1f}" for g in got) + f" = {sum(got):.1f} %",
            "/".join(f"{w:g}" for w in wanted) + f" ±{points:g}"
            + (f", together {least:g} %" if least else ""),
            "billed " + " + ".join(percent(b) for b in billed) + " % of the time")


def latency(t, what):
    """Two at 1:1, by default and with long turns: what they have together, and how long a step takes."""
    for name, option in (("1:1, default", "off"), (f"1:1, slice {PAIR_SLICE}", PAIR_SLICE)):
        for loop in t.tenants:
            loop.set("--policy", "share", "--weight", 1, "--slice", option)
        said = t.measure(t.tenants, what)
        for s in said:
            t.row(name, what, s)
        t.bench.results.figure("tokens", f"{what}, {name}", [short(s) for s in said])
        both = sum(t.of_alone(s, what) for s in said)
        p99 = max(s["p99_us"] for s in said) / 1e3
        t.bench.results.check(
            "tokens", f"{what}: {name}",
            both >= PAIR_TOGETHER and (option != "off" or p99 <= PAIR_P99_MS),
            f"together {both:.1f} %, p99 of a step {p99:.1f} ms",
            f"{PAIR_TOGETHER:g} %" + (f", {PAIR_P99_MS:g} ms" if option == "off" else ""),
            "alone " + ms(t.had[what]["p99_us"]) + " ms")
    for loop in t.tenants:
        loop.set("--slice", "off")


def priority(t, what):
    """Beside matrix products without an end; and what the driver makes of the two."""
    t.tenants[0].set(*SHARE, "--priority", "high")
    try:
        said, other = t.measure([t.tenants[0], t.neighbour], what)
    finally:
        t.tenants[0].set("--priority", "normal")
    native, _ = t.measure([t.native, t.native_neighbour], what, eager=False)
    t.row("high, beside matmul", what, said)
    t.row("the same without allot", what, native)
    t.bench.results.figure("tokens", f"{what}, priority",
                           {"high": short(said), "neighbour": short(other),
                            "without allot": short(native)})
    times = said["p99_us"] / t.had[what]["p99_us"]
    steps = t.of_alone(said, what)
    t.bench.results.check("tokens", f"{what}: high priority beside matmul",
                          steps >= PRIORITY_STEPS and times <= PRIORITY_P99,
                          f"{steps:.1f} % of its steps, p99 x{times:.2f}",
                          f"{PRIORITY_STEPS:g} %, x{PRIORITY_P99:g}",
                          f"without allot {t.of_alone(native, what):.1f} %, "
                          f"p99 x{native['p99_us'] / t.had[what]['p99_us']:.2f}")


def pair(t, what):
    """What the driver makes of two that nobody holds; the second is a tenant without a limit."""
    t.tenants[1].set("--compute", "off")
    said = t.measure([t.native, t.tenants[1]], what, eager=False)
    for s in said:
        t.row("two, no limit", what, s)
    t.bench.results.figure("tokens", f"{what}, two without limits", [short(s) for s in said])


def space(t):
    """Under MPS, for what two have together when neither waits for the other."""
    loops = [Loop(t.bench, framework("tokens"), SPACE) for _ in range(2)]
    try:
        for loop in loops:
            loop.ready()
        for what in t.had:
            said = t.measure(loops, what, eager=False)
            got = [t.of_alone(s, what) for s in said]
            for s in said:
                t.row("space, 50 % each", what, s)
            t.bench.results.figure("tokens", f"{what}, space", [short(s) for s in said])
            t.bench.results.check("tokens", f"{what}: two in space",
                                  sum(got) >= SPACE_TOGETHER[what],
                                  f"{got[0]:.1f} + {got[1]:.1f} = {sum(got):.1f} %",
                                  f"{SPACE_TOGETHER[what]:g} % of one alone")
        for loop in loops:
            loop.end()
    finally:
        end_all(loops)
        run([t.bench.allot, "doctor", "--sweep"], 60)


STEPS = {"free": free, "caps": caps, "weights": weights, "latency": latency,
         "priority": priority, "pair": pair}


def part(bench):
    results = bench.results
    if bench.sim or not have("torch"):
        results.skip("tokens", "all", "needs a real driver and PyTorch")
        return
    names = [*(f"batch{batch} {step}" for batch in BATCHES for step in STEPS), "space"]
    chosen, items = bench.chosen("tokens", names), Items(bench, "tokens")
    if bench.quick:
        chosen = [n for n in chosen if n.endswith(("caps", "weights", "latency"))]
    t = items.run("start", Tokens, bench)
    if t is None:
        return
    try:
        for batch in BATCHES:
            what = f"batch{batch}"
            steps = [n for n in chosen if n.split()[0] == what]
            if not steps and "space" not in chosen:
                continue
            items.run(f"{what} alone", measure_alone, t, what)
            if what not in t.had:
                continue
            for name in steps:
                items.run(name, STEPS[name.split()[1]], t, what)
        if "space" in chosen and not shutil.which("nvidia-cuda-mps-control"):
            results.skip("tokens", "space", "no nvidia-cuda-mps-control here")
        elif "space" in chosen:
            items.run("space", space, t)
    finally:
        end_all(t.all)
        results.table("tokens", ("what", "batch", "steps/s", "% of alone", "billed %", "p50 ms",
                                 "p99 ms"), t.rows)
