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
import time

from harness import GIB, ROOT, Trouble, run

PAIRS = 15
START_MS = 2.0
MANY = 100
MANY_RATIO = 1.05
WORDS = {"launch": "a launch", "launch, limited": "a launch, limited",
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
QUOTA_TARGETS = {item: ns for item, ns in TARGETS.items() if item != "launch, limited"}


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
    status, _, err = run(bench.command(tenant, memory, ["true"], options), 30)
    if status:
        raise Trouble(f"no tenant: {err}")
    return tenant


def within(bench):
    """Blocks of calls by the driver's entry points and by the hooks, alternating in a process:
    under a quota, and then launches under a share that hardly ever holds one."""
    count = 60 if bench.quick else 400
    for options, items in ((), QUOTA_TARGETS), (run_hooks.SHARE, ("launch",)):
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
            key = f"{item}, limited" if options else item
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
         "process start": start, "process start, no GPU used": idle, "many at once": many}


# Without a GPU the others would measure the simulator.
SIM_STEPS = ("hook alone", "process start, no GPU used")


def part(bench):
    for name in bench.chosen("overheads", STEPS):
        if bench.sim and name not in SIM_STEPS:
            bench.results.skip("overheads", name, "needs a real driver")
            continue
        try:
            STEPS[name](bench)
        except (Trouble, OSError, subprocess.SubprocessError, ValueError, KeyError) as trouble:
            bench.results.check("overheads", name, False, str(trouble)[:400], "runs to its end")


