# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program that asks what its tenant is (examples/train_cached.py): it keeps to a quota that is
lowered while it trains, by the driver's own figure, and gives its cache back before it is suspended."""
import os
import queue
import re
import sys
import time

from harness import GIB, ROOT, Trouble, have, mib, run

PROGRAM = ROOT / "examples/train_cached.py"
FIRST, LOWER = 8, 3  # GiB
FOLLOWS_S, PATIENCE_S = 2.0, 60
SAID = re.compile(r"(\d+) steps, loss ([\d.]+), (\d+) MiB cached")


def said(child):
    """What it printed since the last call: [(steps, loss, MiB cached)]."""
    lines = []
    while True:
        try:
            line = child.lines.get_nowait()
        except queue.Empty:
            return lines
        if line is None:
            raise Trouble(f"the program ended with {child.process.wait()}")
        if match := SAID.match(line):
            lines.append((int(match[1]), float(match[2]), int(match[3])))


def until(what, patience=PATIENCE_S):
    """Seconds until that is so."""
    began = time.monotonic()
    while not what():
        if time.monotonic() > began + patience:
            raise Trouble("the program does not follow")
        time.sleep(0.02)
    return time.monotonic() - began


def part(bench):
    if bench.sim or not have("torch"):
        bench.results.skip("asks", "a training with a cache", "PyTorch on a real GPU is needed")
        return
    env = {"PYTHONPATH": str(ROOT / "python"), "LD_LIBRARY_PATH": ":".join(
        [str(bench.build / "src/tenant"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])}
    tenant = bench.tenant()
    with bench.start(tenant, f"{FIRST}GiB", [sys.executable, PROGRAM], ("--swappable",), env) as child:
        figure = lambda: bench.figures.of(child.pid)  # noqa: E731
        until(lambda: figure() > FIRST / 2 * GIB)
        time.sleep(3)
        first, most = said(child), figure()
        bench.set(tenant, "--memory", f"{LOWER}GiB")
        took = until(lambda: figure() <= LOWER * GIB)
        time.sleep(3)
        lower, held = said(child), figure()
        bench.set(tenant, "--memory", f"{FIRST}GiB")
        again = until(lambda: figure() > FIRST / 2 * GIB)
        said(child)
        status, _, err = run([bench.allot, "suspend", "--notice", "5s", tenant], 60)
        away = figure()
        if status:
            raise Trouble(f"allot suspend: {err}")
        status, _, err = run([bench.allot, "resume", tenant], 60)
        time.sleep(3)
        last = said(child)
        refused = bench.ps(tenant)["refusals"]
    bench.results.figure("asks", "a training with a cache", {
        "first": first, "lower": lower, "last": last, "figures": [most, held, away]})
    bench.results.check("asks", "the quota is lowered while it trains",
                        took <= FOLLOWS_S and held <= LOWER * GIB,
                        f"{mib(most)} to {mib(held)}, in {took:.2f} s, {refused} refused",
                        f"below {LOWER} GiB within {FOLLOWS_S:g} s")
    bench.results.check("asks", "it trains on", len(lower) >= 2 and lower[-1][0] > lower[0][0]
                        and last[-1][0] > last[0][0] and last[-1][1] < first[0][1],
                        f"{last[-1][0]} steps, loss {first[0][1]:.6f} to {last[-1][1]:.6f}",
                        "steps go on, the loss falls")
    bench.results.check("asks", "notice before a suspend", not status and away < GIB,
                        f"{mib(away)} left on the device, cache {last[0][2]} MiB at the return, "
                        f"full again after {again:.1f} s", "less than 1024 MiB, and it goes on")
