# SPDX-License-Identifier: Apache-2.0
"""Each allocation family by itself under a quota: filled until refused, by the driver's figure
within one granule of the quota and never beyond; given back, and the ledger is at its start."""
import time

from harness import GRANULE, MIB, POOL_GRANULE, SLACK, Trouble, mib, size

# family: quota, granule (how far below the quota the first refusal may come)
FAMILIES = {
    "alloc-4k": ("1GiB", GRANULE),
    "alloc-64k": ("4GiB", GRANULE),
    "alloc-1m": ("4GiB", GRANULE),
    "alloc-large": ("4GiB", GRANULE),
    "pitch": ("4GiB", GRANULE),
    "async": ("4GiB", POOL_GRANULE),
    "pool": ("4GiB", POOL_GRANULE),
    "vmm": ("4GiB", GRANULE),
    "array2d": ("4GiB", GRANULE),
    "array3d": ("4GiB", GRANULE),
    "mipmap": ("4GiB", GRANULE),
    "graph": ("4GiB", POOL_GRANULE),
    "module": ("4GiB", GRANULE),
    "context": ("4GiB", None),  # one context, whatever that takes here
    "stack": ("4GiB", 8 * MIB),  # 16 bytes for every thread that the device can hold
}
QUICK = ("alloc-64k", "alloc-large", "async", "vmm", "array2d")
# The driver does not take a larger stack back; the ledger then says so too.
KEPT = ("stack",)
REFUSED = "CUDA_ERROR_OUT_OF_MEMORY"


def one(bench, part, name, quota, granule, options=()):
    results, tenant, limit = bench.results, bench.tenant(), size(quota)
    by_driver = "driver" in options
    began = time.monotonic()
    with bench.start(tenant, quota, [bench.program("families"), name], options) as child:
        ready = child.hear("ready", 60)
        context, start = bench.figures.of(child.pid), bench.ps(tenant)["used_bytes"]
        child.say("fill")
        full = child.hear("full", 90)
        figure, ledger = bench.figures.of(child.pid), bench.ps(tenant)
        child.say("free")
        child.hear("free", 60)
        after, end = bench.figures.of(child.pid), bench.ps(tenant)["used_bytes"]
        child.end()
    granule = granule or context + GRANULE
    results.figure(part, name, {
        "quota": limit, "got": full["bytes"], "pieces": full["pieces"], "figure": figure,
        "ledger": ledger["used_bytes"], "by_category": ledger["used_by_category"],
        "context_figure": context, "ledger_at_start": start, "figure_after_free": after,
        "ledger_after_free": end, "total_seen": ready["total"], "free_when_full": full["free"],
        "refused": full["refused"], "seconds": round(time.monotonic() - began, 2)})
    results.check(part, f"{name}: driver's figure", limit - granule <= figure <= limit + SLACK,
                  f"{mib(figure)} ({figure - limit:+d} B), got {mib(full['bytes'])}",
                  f"{mib(limit)} -{mib(granule)} +{mib(SLACK)}")
    results.check(part, f"{name}: refusal and view",
                  full["refused"] == REFUSED and ready["total"] == limit,
                  f"{full['refused'].removeprefix('CUDA_ERROR_')}, total {mib(ready['total'])}",
                  f"OUT_OF_MEMORY, {mib(limit)}")
    if by_driver:
        return
    used, empty = ledger["used_bytes"], after if name in KEPT else context
    results.check(part, f"{name}: ledger agrees, and empties",
                  abs(used - figure) <= SLACK and abs(end - empty) <= SLACK,
                  f"full {mib(used)}, freed {mib(end)} (figure {mib(after)})",
                  f"{mib(figure)}, {mib(empty)}, ±{mib(SLACK)}")


def managed(bench, part):
    """Only a little: charged in full, though the driver's figure does not show it."""
    results, tenant, quota = bench.results, bench.tenant(), 640 * MIB
    with bench.start(tenant, "640MiB", [bench.program("families"), "managed", str(256 * MIB)]) as c:
        c.hear("ready", 60)
        before = bench.ps(tenant)["used_bytes"]
        c.say("fill")
        full = c.hear("full", 30)
        used = bench.ps(tenant)["used_bytes"]
        c.say("free")
        c.hear("free", 30)
        after = bench.ps(tenant)["used_bytes"]
        c.end()
    results.figure(part, "managed", {"quota": quota, "got": full["bytes"], "ledger": used,
                                     "ledger_at_start": before, "ledger_after_free": after,
                                     "refused": full["refused"]})
    results.check(part, "managed: charged in full, refused",
                  full["refused"] == REFUSED and quota - GRANULE <= used <= quota + SLACK
                  and full["bytes"] > 0 and after <= before + SLACK,
                  f"got {mib(full['bytes'])}, ledger {mib(used)}, freed {mib(after)}",
                  f"ledger {mib(quota)}")


def each(bench, part, families, options=()):
    for name, (quota, granule) in families.items():
        try:
            one(bench, part, name, quota, granule, options)
        except (Trouble, TypeError) as trouble:
            bench.results.check(part, name, False, str(trouble)[:400], "runs to its end")


def part(bench):
    names = bench.chosen("families", [*FAMILIES, "managed"])
    each(bench, "families", {n: FAMILIES[n] for n in names
                             if n in FAMILIES and (not bench.quick or n in QUICK)})
    if "managed" not in names:
        return
    try:
        managed(bench, "families")
    except (Trouble, TypeError) as trouble:
        bench.results.check("families", "managed", False, str(trouble)[:400], "runs to its end")


def part_driver(bench):
    """The other accounting: the driver's figure decides."""
    families = {"alloc-64k": ("1GiB", GRANULE), "alloc-large": ("4GiB", GRANULE),
                "async": ("4GiB", POOL_GRANULE)}
    if bench.quick:
        families = {"alloc-large": ("1GiB", GRANULE)}
    names = bench.chosen("accounting-driver", families)
    each(bench, "accounting-driver", {n: families[n] for n in names}, ("--accounting", "driver"))


