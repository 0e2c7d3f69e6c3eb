# SPDX-License-Identifier: Apache-2.0
"""Several processes in one tenant, several tenants on one device, several devices; and a process
that is killed while it holds everything."""
import os
import time

from harness import GIB, GRANULE, MIB, SLACK, Trouble, mib, run, size

REFUSED = "CUDA_ERROR_OUT_OF_MEMORY"


def filler(bench, tenant, quota, options=()):
    return bench.start(tenant, quota, [bench.program("families"), "alloc-large", str(64 * GIB),
                                       "quiet"], options)


def fill(children):
    """All at the same time; answers what each said."""
    for child in children:
        child.hear("ready", 90)
    for child in children:
        child.say("fill")
    return [child.hear("full", 90) for child in children]


def figures_of(bench, children):
    figures = bench.figures.all()[bench.figures.devices[0]["uuid"]]
    return [figures.get(child.pid, 0) for child in children]


def end(children):
    for child in children:
        child.kill()


def race(bench, accounting):
    """Four processes of one tenant, each taking all that it can get."""
    quota, name = "8GiB", f"four processes, {accounting}"
    tenant, options = bench.tenant(), ("--accounting", accounting)
    children = [filler(bench, tenant, quota, options) for _ in range(4)]
    try:
        said = fill(children)
        figures = figures_of(bench, children)
        total, limit = sum(figures), size(quota)
        bench.results.figure("tenants", name, {"quota": limit, "figures": figures, "said": said})
        bench.results.check("tenants", f"{name}: sum of figures",
                            limit - 8 * MIB <= total <= limit + SLACK
                            and all(s["refused"] == REFUSED for s in said),
                            f"{mib(total)} of {mib(limit)}", f"-8 MiB +{mib(SLACK)}, all refused")
        if accounting == "ledger":
            kill_one(bench, tenant, children, figures)
    finally:
        end(children)


def kill_one(bench, tenant, children, figures):
    """kill -9 of the process that holds most: a neighbour has its memory within a second."""
    most = figures.index(max(figures))
    victim, others = children[most], [c for c in children if c is not children[most]]
    freed, neighbour = figures[most], others[0]
    neighbour.say("fill")
    had = neighbour.hear("full", 30)["bytes"]
    os.kill(victim.pid, 9)
    began = time.monotonic()
    while time.monotonic() - began < 5:
        neighbour.say("fill")
        gained = neighbour.hear("full", 30)["bytes"] - had
        if gained >= freed - SLACK:
            break
    took = time.monotonic() - began
    victim.kill()
    total, limit = sum(figures_of(bench, others)), bench.ps(tenant)["quota_bytes"]
    bench.results.figure("tenants", "kill -9", {"freed": freed, "gained": gained, "seconds": took,
                                                "figures_after": total})
    bench.results.check("tenants", "kill -9: neighbour has its memory",
                        took < 1 and total <= limit + SLACK,
                        f"{mib(gained)} of {mib(freed)} in {took:.3f} s, sum {mib(total)}",
                        "in 1 s, quota kept")


def idle_neighbours(bench):
    """Two processes that loaded code while there was plenty, and then sleep: what that took is the
    tenant's use all the same, though they had no reason to look it up."""
    quota, tenant = "8GiB", bench.tenant()
    idle = [bench.start(tenant, quota,
                        [bench.program("families"), "module", str(384 * MIB), "quiet"])
            for _ in range(2)]
    try:
        for child in idle:
            child.hear("ready", 60)
            child.say("fill")
            child.hear("full", 60)
        idle.append(bench.start(tenant, quota, [bench.program("families"), "alloc-large",
                                                str(64 * GIB), "quiet"]))
        fill(idle[2:])
        figures = figures_of(bench, idle)
        total, limit = sum(figures), size(quota)
        bench.results.figure("tenants", "idle neighbours", {"quota": limit, "figures": figures})
        bench.results.check("tenants", "idle neighbours' code: sum of figures",
                            limit - 8 * MIB <= total <= limit + SLACK,
                            f"{mib(total)} of {mib(limit)}", f"-8 MiB +{mib(SLACK)}")
    finally:
        end(idle)


def two_tenants(bench):
    quotas = ("3GiB", "6GiB")
    children = [filler(bench, bench.tenant(), quota) for quota in quotas]
    try:
        said = fill(children)
        figures = figures_of(bench, children)
        bench.results.figure("tenants", "two tenants", {"figures": figures, "said": said})
        for quota, figure, s in zip(quotas, figures, said):
            limit = size(quota)
            bench.results.check("tenants", f"two tenants, one device: {quota}",
                                limit - GRANULE <= figure <= limit + SLACK
                                and s["refused"] == REFUSED, f"{mib(figure)}", f"{mib(limit)}")
    finally:
        end(children)


# How the user numbers two devices, and which of the two quotas each of its ordinals then has.
VISIBLE = {
    "--gpu 0,1": ({}, ("--gpu", "0,1"), (), ((0, "4GiB"), (1, "6GiB"))),
    "CUDA_VISIBLE_DEVICES=1,0 inside": ({}, ("--gpu", "0,1"),
                                        ("env", "CUDA_VISIBLE_DEVICES=1,0"),
                                        ((1, "6GiB"), (0, "4GiB"))),
    "CUDA_VISIBLE_DEVICES=1,0 outside": ({"CUDA_VISIBLE_DEVICES": "1,0"}, (), (),
                                         ((1, "4GiB"), (0, "6GiB"))),
    "both": ({"CUDA_VISIBLE_DEVICES": "1,0"}, ("--gpu", "0,1"), (),
             ((0, "4GiB"), (1, "6GiB"))),
}


def two_devices(bench, name):
    env, options, prefix, expected = VISIBLE[name]
    tenant = bench.tenant()
    with bench.start(tenant, "4GiB,6GiB", [*prefix, bench.program("devices")], options, env) as c:
        said = c.hear("full", 90)["devices"]
        figures = bench.figures.all()
        c.end()
    uuids = [d["uuid"] for d in bench.figures.devices]
    bench.results.figure("tenants", f"two devices, {name}", {"said": said, "figures": {
        uuid: of.get(c.pid, 0) for uuid, of in figures.items()}})
    good, shown = len(said) == 2, []
    for ordinal, (index, quota) in enumerate(expected):
        if len(said) != 2:
            break
        limit, figure = size(quota), figures[uuids[index]].get(c.pid, 0)
        here = said[ordinal]
        good = (good and uuids[index] == f"GPU-{here['uuid']}" and here["total"] == limit
                and here["refused"] == REFUSED and limit - GRANULE <= figure <= limit + SLACK)
        shown.append(f"{ordinal}: {mib(here['total'])}, {mib(figure)}")
    bench.results.check("tenants", f"two devices: {name}", good, "; ".join(shown),
                        "; ".join(f"{i}: GPU {g} {q}" for i, (g, q) in enumerate(expected)))


def smi(bench):
    """nvidia-smi tells the tenant's story; each device shows the quota."""
    status, _, _ = run(["nvidia-smi", "-L"], 30) if not bench.sim else (1, "", "")
    if status:
        bench.results.skip("tenants", "nvidia-smi", "not here")
        return
    name = bench.tenant()
    _, query, err = run(bench.command(name, "8GiB", ["nvidia-smi", "--query-gpu=memory.total",
                                                     "--format=csv,noheader"]), 60)
    _, table, _ = run(bench.command(name, "8GiB", ["nvidia-smi"]), 60)
    bench.results.figure("tenants", "nvidia-smi", {"query": query, "table": table})
    lines = query.split("\n")[:-1]
    count = len(bench.figures.devices)
    bench.results.check("tenants", "nvidia-smi", lines == ["8192 MiB"] * count
                        and table.count("8192MiB") == count, ", ".join(lines) or err[:200],
                        "8192 MiB")


def attempt(bench, name, function, *args):
    try:
        function(bench, *args)
    except (Trouble, TypeError, OSError) as trouble:
        bench.results.check("tenants", name, False, str(trouble)[:400], "runs to its end")


ITEMS = {
    "nvidia-smi": (smi,),
    "four processes, kill -9": (race, "ledger"),
    "idle neighbours": (idle_neighbours,),
    "two tenants": (two_tenants,),
    "four processes by the driver's figure": (race, "driver"),
    **{f"two devices: {name}": (two_devices, name) for name in VISIBLE},
}
SLOW = ("four processes by the driver's figure",)


def part(bench):
    for name in bench.chosen("tenants", ITEMS):
        if bench.quick and name in SLOW:
            continue
        if name.startswith("two devices") and len(bench.figures.devices) < 2:
            bench.results.skip("tenants", name, "one device here")
        else:
            attempt(bench, name, *ITEMS[name])
