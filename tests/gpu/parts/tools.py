# SPDX-License-Identifier: Apache-2.0
"""The vendor's tools on a program under a share: they must say of it what they say without
allot."""
import glob
import json
import os
import re
import shutil
import sys

from harness import HERE, Trouble, have, run
from parts.loops import Items
from parts.overheads import new_tenant, preload

SHARE = ("--compute", "50")
MEMORY = "16GiB"
# What allot run answers when it does not let a command in: a launcher may be linked statically.
REFUSED = (125, 126)
FORMS = ("tail", "query", "events")
METRIC = "sm__cycles_elapsed.max"
PLACES = ("/usr/local/cuda*/bin", "/usr/local/cuda*/compute-sanitizer",
          "/usr/local/cuda*/nsight-compute*", "/opt/nvidia/nsight-compute/*", "/opt/nvidia/*")


def tool(name):
    """Its path, or None."""
    return shutil.which(name) or next(
        (path for place in PLACES for path in sorted(glob.glob(f"{place}/{name}"))
         if os.access(path, os.X_OK)), None)


def both(bench, command, timeout):
    """{side: (status, out, err)}; the tenant's by the environment alone where allot run does not
    let the tool itself in."""
    found = {"bare": run(command, timeout)}
    tenant = new_tenant(bench, MEMORY, SHARE)
    found["share"] = run(bench.command(tenant, MEMORY, command, SHARE), timeout)
    if found["share"][0] in REFUSED:
        bench.results.note(f"allot run: {found['share'][2].strip()[-200:]}; by LD_PRELOAD instead")
        found["share"] = run(command, timeout, env=preload(bench, tenant))
    return found


def errors_of(said):
    status, out, err = said
    counts = re.findall(r"ERROR SUMMARY: (\d+) error", out + err)
    if not counts:
        raise Trouble(f"no summary, exit {status}: {(out + err)[-300:]}")
    return sum(map(int, counts))


def sanitizer(bench):
    """A program that waits, one that asks too early whether it is done, one with two streams."""
    program, counts, said = tool("compute-sanitizer"), {}, {}
    for form in FORMS:
        found = both(bench, [program, "--tool", "memcheck", "--print-limit", "5",
                             bench.program("patterns"), "once", form], 90)
        said[form] = {side: {"status": s, "text": (out + err)[-1500:]}
                      for side, (s, out, err) in found.items()}
        bench.results.figure("tools", "compute-sanitizer", said)
        counts[form] = {side: errors_of(found[side]) for side in found}
    bench.results.figure("tools", "compute-sanitizer, errors", counts)
    # Who asks an event himself asks as often as there is time for.
    bench.results.check(
        "tools", "compute-sanitizer: errors", all(
            c["share"] <= c["bare"] or (form == "query" and c["bare"])
            for form, c in counts.items())
        and all(s["share"]["status"] == s["bare"]["status"] for s in said.values()),
        ", ".join(f"{form} {c['bare']} and {c['share']}" for form, c in counts.items()),
        "none that it does not say without allot")


def rows_of(said):
    return len(re.findall(rf"^\s*{re.escape(METRIC)}\s", said[1], re.M))


def ncu(bench):
    found = both(bench, [tool("ncu"), "--clock-control", "none", "--metrics", METRIC,
                         "--launch-count", "5", bench.program("patterns"), "once", "tail"], 120)
    rows = {side: rows_of(said) for side, said in found.items()}
    bench.results.figure("tools", "ncu", {
        side: {"status": s, "rows": rows[side], "text": (out + err)[-1500:]}
        for side, (s, out, err) in found.items()})
    bench.results.check(
        "tools", "ncu: kernels with their counter", rows["share"] == rows["bare"] > 0
        and found["share"][0] == found["bare"][0],
        f"{rows['bare']} and {rows['share']}, exits {found['bare'][0]} and {found['share'][0]}",
        "as many as without allot")


def profiler(bench):
    found = both(bench, [sys.executable, HERE / "frameworks/profiled.py"], 120)
    said = {}
    for side, (status, out, err) in found.items():
        line = next((text for text in out.splitlines() if text.startswith('{"stage"')), None)
        if status or not line:
            raise Trouble(f"{side}: exit {status}: {err[-300:]}")
        said[side] = json.loads(line)
    bench.results.figure("tools", "profiler", said)
    bench.results.check(
        "tools", "PyTorch's profiler: kernels",
        said["bare"]["kernels"] == said["share"]["kernels"] > 0
        and said["bare"]["names"] == said["share"]["names"],
        f"{said['bare']['kernels']} in {said['bare']['us']:.0f} us and {said['share']['kernels']} "
        f"in {said['share']['us']:.0f}", "the same as without allot")


ITEMS = {"compute-sanitizer": sanitizer, "ncu": ncu, "profiler": profiler}


def part(bench):
    items = Items(bench, "tools")
    for name in bench.chosen("tools", ITEMS):
        if bench.sim:
            bench.results.skip("tools", name, "needs a real driver")
            continue
        missing = not have("torch") if name == "profiler" else not tool(name)
        if missing:
            bench.results.skip("tools", name, "not here")
        else:
            items.run(name, ITEMS[name], bench)
