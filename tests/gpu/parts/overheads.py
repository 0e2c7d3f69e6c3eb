# SPDX-License-Identifier: Apache-2.0
"""What allot costs. Two kinds of figures: the hooks' own cost, against a driver that returns at
once; and on the real device, where the difference of paired runs must lie inside their noise or
below the target. Medians throughout; a ratio stands beside each difference."""
import importlib.machinery
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

from harness import GIB, ROOT, Trouble, have, run

PAIRS = 15
START_MS = 2.0
SHARE_START_MS = 5.0
TORCH_PAIRS = 7
SYNC_NS = 2000
MANY = 100
MANY_RATIO = 1.05
WORDS = {"launch": "a launch", "launch, limited": "a launch, limited",
         "launch, metered": "a launch, metered",
         "alloc_free": "cuMemAlloc + cuMemFree, 1 MiB",
         "alloc_free_async": "cuMemAllocAsync + cuMemFreeAsync", "mem_get_info": "cuMemGetInfo"}
median = statistics.median


def load_run_hooks():
    loader = importlib.machinery.SourceFileLoader("run_hooks", str(ROOT / "bench/run-hooks"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_hooks", loader))
    loader.exec_module(module)
    return module


run_hooks = load_run_hooks()
TARGETS = {**run_hooks.TARGETS, "mem_get_info": 1000}  # ns
QUOTA_TARGETS = {item: ns for item, ns in TARGETS.items() if not item.startswith("launch, ")}


def spread(values):
    """Half of the middle 90 %: how far one value may be from the truth by chance."""
    ordered = sorted(values)
    cut = len(ordered) // 20
    kept = ordered[cut:len(ordered) - cut]
    return (kept[-1] - kept[0]) / 2


def judge(bench, name, unit, native, added, noise, target):
    bench.results.figure("overheads", name, {"unit": unit, "native": native, "added": added,
                                             "ratio": 1 + added / native if native else None,
                                             "noise": noise, "target": target})
    bench.results.check("overheads", name, added < target or abs(added) <= noise,
                        f"{added:+.1f} {unit} on {native:.1f} (x{1 + added / native:.4f}), "
                        f"noise {noise:.1f}", f"< {target} {unit} or in the noise")


def hooks(bench):
    rows = run_hooks.measure_all(bench.build, rounds=3 if bench.quick else 7,
                                 batches=50 if bench.quick else 150)
    for item, (bare, limited, added) in rows.items():
        bench.results.figure("overheads", f"hook alone: {item}",
                             {"bare_ns": bare, "with_ns": limited, "added_ns": added})
        if item in TARGETS:
            bench.results.check("overheads", f"hook alone: {WORDS[item]}", added < TARGETS[item],
                                f"{added:.1f} ns ({bare:.1f} to {limited:.1f})",
                                f"< {TARGETS[item]} ns")


def preload(bench, tenant):
    """The environment in which `allot run` starts a process of that tenant."""
    return {**os.environ, "LD_PRELOAD": str(bench.library),
            "ALLOT_TENANT_DIR": str(bench.runtime / tenant)}


def new_tenant(bench, memory, options=()):
    """A tenant that further processes join by their environment alone."""
    tenant = bench.tenant()
    status, _, err = run([bench.allot, "run", "--print-env", "--name", tenant, "--memory", memory,
                          *options], 30)
    if status:
        raise Trouble(f"no tenant: {err}")
    return tenant


def within(bench):
    """Blocks of calls by the driver's entry points and by the hooks, alternating in a process:
    under a quota, and then launches under a share that hardly ever holds one."""
    count = 60 if bench.quick else 400
    for options, items, kind in (((), QUOTA_TARGETS, ""), (run_hooks.SHARE, ("launch",), ", limited"),
                                 (("--meter", "on"), ("launch",), ", metered")):
        tenant = new_tenant(bench, "16GiB", options)
        status, out, err = run([bench.build / "bench/pairs", count], 120,
                               env=preload(bench, tenant))
        if status:
            raise Trouble(f"pairs: {status} {err[-300:]}")
        said = json.loads(out)
        if not said["hooked"]:
            raise Trouble("pairs: the hooks were not there")
        for item in items:
            native = [(a + c) / 2 for a, _, c in said[item]]
            added = [b - n for (_, b, _), n in zip(said[item], native)]
            noise = spread([a - c for a, _, c in said[item]])
            key = item + kind
            judge(bench, f"in one process: {WORDS[key]}", "ns", median(native), median(added),
                  noise, TARGETS[key])


def between(bench):
    """The same between processes, one with and one without in turns."""
    rounds = 3 if bench.quick else PAIRS
    sides = {"bare": dict(os.environ), "with": preload(bench, new_tenant(bench, "16GiB")),
             "limited": preload(bench, new_tenant(bench, "16GiB", run_hooks.SHARE))}
    found = {side: {item: [] for item in QUOTA_TARGETS} for side in sides}
    for turn in range(rounds):
        for side in (sides if turn % 2 == 0 else reversed(sides)):
            status, out, err = run([bench.build / "bench/pairs", 20], 60, env=sides[side])
            if status:
                raise Trouble(f"pairs: {status} {err[-300:]}")
            for item, blocks in json.loads(out).items():
                if item in QUOTA_TARGETS:
                    found[side][item].append(median(b for _, b, _ in blocks))
    for item in QUOTA_TARGETS:
        bench.results.figure("overheads", f"processes: {item}",
                             {side: found[side][item] for side in sides})
        compare(bench, f"{rounds} pairs of processes: {WORDS[item]}", found["bare"][item],
                found["with"][item], QUOTA_TARGETS[item])
    compare(bench, f"{rounds} pairs of processes: {WORDS['launch, limited']}",
            found["bare"]["launch"], found["limited"]["launch"], TARGETS["launch, limited"])


def compare(bench, name, bare, limited, target):
    noise = spread([a - b for a, b in zip(bare, bare[1:])])
    judge(bench, name, "ns", median(bare), median(w - b for w, b in zip(limited, bare)), noise,
          target)


def timed(command, env):
    began = time.perf_counter()
    status, _, err = run(command, 60, env=env)
    if status:
        raise Trouble(f"{command[-1]}: {status} {err[-300:]}")
    return (time.perf_counter() - began) * 1e3


def start(bench):
    """A program that makes a context and ends: bare, preloaded, and by `allot run`."""
    rounds = 3 if bench.quick else PAIRS
    tenant, program = new_tenant(bench, "16GiB"), [bench.program("start")]
    env = dict(os.environ)
    sides = {"bare": (program, env), "preloaded": (program, preload(bench, tenant)),
             "allot run": (bench.command(tenant, "16GiB", program), env),
             "bare again": (program, env)}
    found = {side: [] for side in sides}
    timed(program, env)
    for turn in range(rounds):
        for side in (sides if turn % 2 == 0 else reversed(sides)):
            found[side].append(timed(*sides[side]))
    noise = spread([b - a for a, b in zip(found["bare"], found["bare again"])])
    bench.results.figure("overheads", "process start, ms", found)
    for side in ("preloaded", "allot run"):
        native = [(a + b) / 2 for a, b in zip(found["bare"], found["bare again"])]
        judge(bench, f"process start, {side}", "ms", median(native),
              median(w - n for w, n in zip(found[side], native)), noise, START_MS)


def synchronization(bench):
    """A launch of no length and a wait for it, in each of the ways to wait, between processes: what
    a share that never holds adds. A wait is where what was launched is measured."""
    rounds = 3 if bench.quick else 9
    sides = {"bare": dict(os.environ),
             "share": preload(bench, new_tenant(bench, "16GiB", ("--policy", "share",
                                                                 "--weight", "1"))),
             "cap 90": preload(bench, new_tenant(bench, "16GiB", ("--compute", "90")))}
    found = {side: {} for side in sides}
    for turn in range(rounds):
        for side in (sides if turn % 2 == 0 else reversed(sides)):
            status, out, err = run([bench.program("sync"), 200], 60, env=sides[side])
            if status:
                raise Trouble(f"sync: {status} {out[-200:]} {err[-300:]}")
            for way, took in json.loads(out).items():
                if way != "stage":
                    found[side].setdefault(way, []).append(took)
    bench.results.figure("overheads", "synchronization, ns", found)
    for way, bare in found["bare"].items():
        for side in ("share", "cap 90"):
            compare(bench, f"launch and wait by {way}, {side}", bare, found[side][way], SYNC_NS)


TORCH_STEPS = ("init", "memory", "first kernel", "wait")
TORCH_START = """
import json, time, torch
steps = (torch.cuda.init, lambda: torch.empty(1, device="cuda"),
         lambda: torch.ones(1, device="cuda"), torch.cuda.synchronize)
marks = [time.perf_counter()]
for step in steps:
    step()
    marks.append(time.perf_counter())
print(json.dumps([1e3 * (b - a) for a, b in zip(marks, marks[1:])]))
"""


def share_start(bench):
    """A program that makes a context and ends, by allot run under a share; and Python that imports
    PyTorch and puts one figure on the device, of which the part from the import on is judged, too:
    importing takes seconds, and never the same."""
    tenants = {"share": new_tenant(bench, "16GiB", ("--compute", "50")),
               "memory": new_tenant(bench, "16GiB")}

    def context_start(side):
        words = [bench.program("start")]
        return timed(words if side == "bare" else bench.command(tenants[side], "16GiB", words),
                     dict(os.environ))

    starts(bench, "context, share", 3 if bench.quick else PAIRS, context_start, tenants)
    if not have("torch"):
        bench.results.skip("overheads", "process start, torch", "no torch here")
        return
    command, inside = [sys.executable, "-c", TORCH_START], {}

    def torch_start(side):
        words = command if side == "bare" else bench.command(tenants[side], "16GiB", command)
        began = time.perf_counter()
        status, out, err = run(words, 120)
        whole = (time.perf_counter() - began) * 1e3
        if status:
            raise Trouble(f"torch: {status} {err[-300:]}")
        inside.setdefault(side, []).append(json.loads(out.splitlines()[-1]))
        return whole

    torch_start("bare")
    inside.clear()
    starts(bench, "torch, share", 3 if bench.quick else TORCH_PAIRS, torch_start,
           {"share": tenants["share"]})
    bench.results.figure("overheads", "process start, torch from the import on, ms", inside)
    took = [[median(steps[i] for steps in inside[side]) for side in ("bare", "share")]
            for i in range(len(TORCH_STEPS))]
    bench.results.note("ms without and with a share: " + ", ".join(
        f"{step} {bare:.1f} {share:.1f}" for step, (bare, share) in zip(TORCH_STEPS, took)))
    judge_start(bench, "torch from the import on, share",
                *([sum(steps) for steps in inside[side]] for side in ("bare", "share")))


def starts(bench, name, pairs, once, tenants):
    """In turns, the first of each pair by turns."""
    found = {side: [] for side in ("bare", *tenants)}
    once("bare")
    for turn in range(pairs):
        for side in (found if turn % 2 == 0 else reversed(found)):
            found[side].append(once(side))
    bench.results.figure("overheads", f"process start, {name}, ms", found)
    for side in tenants:
        judge_start(bench, name if side == "share" else f"{name.split(',')[0]}, {side}",
                    found["bare"], found[side])


def judge_start(bench, name, bare, limited):
    """Noise: how far the median of so many differences may be off, by how far they are apart."""
    apart = [abs(b - a) for a, b in zip(bare, bare[1:])]
    noise = 2 * 1.05 * median(apart) / len(bare) ** 0.5
    judge(bench, f"process start, {name}", "ms", median(bare),
          median(w - b for w, b in zip(limited, bare)), noise, SHARE_START_MS)


def idle(bench):
    """A process that never uses the GPU, which pays for loading the library alone."""
    rounds = 10 if bench.quick else 40
    tenant = new_tenant(bench, "1GiB")
    sides = {"bare": dict(os.environ), "with": preload(bench, tenant)}
    found = {side: [timed(["true"], env) for _ in range(rounds)] for side, env in sides.items()}
    added = median(found["with"]) - median(found["bare"])
    judge(bench, "process start, no GPU used", "ms", median(found["bare"]), added, 0, 1.0)


def crowd(bench, env, count):
    """Wall time of that many processes that all start now."""
    began = time.perf_counter()
    command = [str(bench.program("start")), str(1 << 20)]
    crowd_of = [subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, start_new_session=True)
                for _ in range(count)]
    try:
        bad = sum(p.wait(timeout=max(1, 110 - (time.perf_counter() - began))) != 0
                  for p in crowd_of)
    except subprocess.TimeoutExpired:
        raise Trouble(f"{count} processes did not end in 110 s") from None
    finally:
        for p in crowd_of:
            if p.poll() is None:
                p.kill()
                p.wait()
    if bad:
        raise Trouble(f"{bad} of {count} processes failed")
    return time.perf_counter() - began


def many(bench):
    """A hundred processes of one tenant at once, all of whose contexts fit."""
    room = bench.figures.devices[0]["memory"]
    count = min(MANY, room * 9 // 10 // (640 << 20))
    if bench.quick:
        count = min(count, 10)
    tenant = new_tenant(bench, f"{room // GIB}GiB")
    sides = {"bare": dict(os.environ), "with": preload(bench, tenant)}
    found, began, rounds = {side: [] for side in sides}, time.monotonic(), 3
    crowd(bench, sides["bare"], min(count, 8))
    for turn in range(rounds):
        for side in (sides if turn % 2 == 0 else reversed(sides)):
            found[side].append(crowd(bench, sides[side], count))
        if time.monotonic() - began > 100:
            break
    ratio = median(w / b for w, b in zip(found["with"], found["bare"]))
    bench.results.figure("overheads", "many at once, s", {"count": count, **found, "ratio": ratio})
    bench.results.check("overheads", f"{count} processes at once", ratio <= MANY_RATIO,
                        f"{median(found['bare']):.2f} s to {median(found['with']):.2f} s, "
                        f"x{ratio:.3f}", f"x{MANY_RATIO}, all end well")


STEPS = {"hook alone": hooks, "in one process": within, "pairs of processes": between,
         "process start": start, "process start, no GPU used": idle, "many at once": many,
         "synchronization": synchronization, "share start": share_start}


# What takes a minute, most of it for importing.
BY_NAME = ("share start",)
# Without a GPU the others would measure the simulator.
SIM_STEPS = ("hook alone", "process start, no GPU used")


def part(bench):
    for name in bench.chosen("overheads", STEPS):
        if name in BY_NAME and not bench.words.get("overheads"):
            continue
        if bench.sim and name not in SIM_STEPS:
            bench.results.skip("overheads", name, "needs a real driver")
            continue
        try:
            STEPS[name](bench)
        except (Trouble, OSError, subprocess.SubprocessError, ValueError, KeyError) as trouble:
            bench.results.check("overheads", name, False, str(trouble)[:400], "runs to its end")


