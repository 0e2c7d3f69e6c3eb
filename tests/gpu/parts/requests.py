# SPDX-License-Identifier: Apache-2.0
"""Two programs that answer brief requests one after the other, a synchronization each: neither ever
has work queued, so the device is idle whenever the one that has its turn is not there at once."""
from harness import have
from parts.compute_load import calibrate
from parts.loops import Items, Loop, alone, end_all, framework, ms, pattern, percent, together

TOGETHER = 92.0
P99_MS = 5.0
SHARE = ("--policy", "share", "--weight", 1)
POINTS = 3.0
# name: the module it needs, and its command
FORMS = {"one kernel": (None, "request"), "ten kernels": (None, "request10"),
         "torch graph": ("torch", "small")}


def commands(bench, name):
    module, word = FORMS[name]
    return framework(word) if module else pattern(bench, word)


def measure(bench, name, table):
    command, seconds = commands(bench, name), 3.0 if bench.quick else 4.0
    loops = [Loop(bench, command, options) for options in (None, None, SHARE, SHARE)]
    try:
        for loop in loops:
            loop.ready()
        native, rounds = loops[0], {}
        rounds["alone, without allot"] = [alone(native, 2.5, 0.5)]
        rounds["two, without allot"] = together([(l, None, {}) for l in loops[:2]], seconds, 1.0)
        rounds["alone, under a share"] = [alone(loops[2], 2.5, 0.5)]
        rounds["two, 1:1"] = together([(l, None, {}) for l in loops[2:]], seconds, 1.0)
        for loop, weight in zip(loops[2:], (1, 3)):
            loop.set("--weight", weight)
        rounds["two, 1:3"] = together([(l, None, {}) for l in loops[2:]], seconds, 1.0)
        rounds["alone again, without allot"] = [alone(native, 2.0, 0.5)]
    finally:
        end_all(loops)
    base = rounds["alone, without allot"][0]["rate"]
    got = {side: [100 * s["rate"] / base for s in said] for side, said in rounds.items()}
    for side, said in rounds.items():
        table.append((f"{name}: {side}", " + ".join(f"{g:.1f}" for g in got[side]),
                      f"{sum(got[side]):.1f}", "/".join(percent(s["billed"]) for s in said),
                      "/".join(ms(s["p50_us"]) for s in said),
                      "/".join(ms(s["p99_us"]) for s in said)))
    bench.results.figure("requests", name, {
        side: [{k: s[k] for k in ("rate", "n", "p50_us", "p99_us", "max_us", "billed", "bins")}
               for s in said] for side, said in rounds.items()})
    pair = rounds["two, 1:1"]
    worst = max(s["p99_us"] for s in pair) / 1e3
    bench.results.check(
        "requests", f"{name}: two together", sum(got["two, 1:1"]) >= TOGETHER
        and abs(got["two, 1:1"][0] - got["two, 1:1"][1]) <= 2 * POINTS and worst <= P99_MS,
        f"{' + '.join(f'{g:.1f}' for g in got['two, 1:1'])} = {sum(got['two, 1:1']):.1f} %, p99 "
        f"{worst:.2f} ms", f"{TOGETHER:g} % of one alone, {P99_MS:g} ms",
        f"without allot {sum(got['two, without allot']):.1f} %, p99 "
        f"{max(s['p99_us'] for s in rounds['two, without allot']) / 1e3:.2f} ms; a request takes "
        f"{rounds['alone, without allot'][0]['p50_us']:.0f} us alone, "
        f"{rounds['alone, under a share'][0]['p50_us']:.0f} under a share")
    parts = [100 * g / sum(got["two, 1:3"]) for g in got["two, 1:3"]]
    bench.results.check("requests", f"{name}: 1:3", abs(parts[0] - 25) <= POINTS,
                        f"{parts[0]:.1f} : {parts[1]:.1f}", f"25 : 75 ±{POINTS:g}")


def part(bench):
    items, table = Items(bench, "requests"), []
    items.run("calibrate", calibrate, bench)
    if not getattr(bench, "loops_per_us", None):
        return
    for name in bench.chosen("requests", FORMS):
        module = FORMS[name][0]
        if module and (bench.sim or not have(module)):
            bench.results.skip("requests", name, f"no {module} here")
        else:
            items.run(name, measure, bench, name, table)
    bench.results.table("requests", ("what", "% of one alone", "sum", "billed %", "p50 ms",
                                     "p99 ms"), table)
