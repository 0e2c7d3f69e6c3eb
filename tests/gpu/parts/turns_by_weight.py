# SPDX-License-Identifier: Apache-2.0
"""The device's time that tenants get by turns on memory (`allot run --overcommit --weight`), over ten
rounds. All of them have work all the time. A tenant that holds nothing, but is promised nearly all of the
device, leaves them a small one: so a turn is short, and ten rounds of all sets take four minutes on an
H200."""
import bisect
import json
import time

from harness import MIB, Trouble, run

ROUNDS, WARM = 10, 1
MOST = 1.10
LOOK_S = 0.03
# What a tenant holds is counted in these parts of the device, of which residency keeps two free
# where several tenants are on it (TUNING_RESIDENCY_SPARE_PART), and of which so many are left to them.
PART, ROOM = 128, 10.5
# Each tenant's parts and weight.
SETS = {
    "three equal ones of which two fit": [(4, 1), (4, 1), (4, 1)],
    "a large one and two small ones": [(8, 1), (4, 1), (4, 1)],
    "two, 3 : 1": [(6, 3), (6, 1)],
    "three, 1 : 2 : 3": [(4, 1), (4, 2), (4, 3)],
}
# A set must have had its rounds by then: 14 s each where the lightest has a sixth.
SET_S = 240


class Tenant:
    def __init__(self, bench, holds, weight):
        total = bench.figures.devices[0]["memory"] // MIB
        self.name, self.holds, self.weight = bench.tenant(), holds * total // PART, weight
        self.child = bench.start(self.name, f"{total}MiB", [bench.program("swap"), "brief", self.holds],
                                 options=["--overcommit", "--meter", "on", "--weight", weight])
        self.busy = []  # when looked at, and what allot had counted by then
        self.state, self.came = "running", []
        self.notes = []

    def see(self, now, said):
        self.busy.append((now, said["devices"][0]["compute"]["busy_ns"] or 0))
        if said["state"] == "running" and self.state != "running":
            self.came.append(now)
        self.state = said["state"]


def at(points, when):
    """Of points in time with what had been counted by then, by a straight line between them."""
    i = bisect.bisect(points, (when,))
    if i in (0, len(points)):
        return points[min(i, len(points) - 1)][1]
    (t, a), (u, b) = points[i - 1], points[i]
    return a + (b - a) * (when - t) / (u - t)


def small_device(bench, n):
    """What is promised to somebody else, so that ROOM is left to n tenants, beside what of each cannot
    leave."""
    total, probe = bench.figures.devices[0]["memory"] // MIB, Tenant(bench, 1, 1)
    try:
        probe.child.hear("held", 120)
        stays = bench.ps(probe.name)["used_bytes"] // MIB - probe.holds
    finally:
        probe.child.end()
    return int(total - n * stays - ROOM * total / PART)


def look(bench, tenants):
    status, out, err = run([bench.allot, "ps", "--json"], 20)
    if status:
        raise Trouble(f"allot ps: {err}")
    now, said = time.monotonic(), {t["name"]: t for t in json.loads(out)["tenants"]}
    for t in tenants:
        t.see(now, said[t.name])


def rounds(bench, tenants):
    """From a coming of the lightest tenant to that ten rounds later."""
    least = min(tenants, key=lambda t: t.weight)
    until = time.monotonic() + SET_S
    while len(least.came) <= WARM + ROUNDS:
        if time.monotonic() > until:
            raise Trouble(f"came {[len(t.came) for t in tenants]} times in {SET_S} s")
        look(bench, tenants)
        time.sleep(LOOK_S)
    return least.came[WARM], least.came[WARM + ROUNDS]


def spread(tenants, of, begin, end):
    """Each one's by weight, as parts of their mean, and most : least."""
    had = [(at(of(t), end) - at(of(t), begin)) / t.weight for t in tenants]
    mean = sum(had) / len(had)
    return [round(h / mean, 3) for h in had], max(had) / min(had) if min(had) > 0 else float("inf")


def judge(bench, name, tenants, begin, end):
    device, ratio = spread(tenants, lambda t: t.busy, begin, end)
    work, work_ratio = spread(tenants, lambda t: t.notes, begin, end)
    bench.results.figure("turns-by-weight", name, {
        "holds_mib": [t.holds for t in tenants], "weights": [t.weight for t in tenants],
        "device_time": device, "ratio": round(ratio, 3), "work": work, "work_ratio": round(work_ratio, 3),
        "round_s": round((end - begin) / ROUNDS, 3), "came": [len(t.came) for t in tenants]})
    said = (f"{ratio:.2f} {device}, work {work_ratio:.2f} {work}, a round "
            f"{(end - begin) / ROUNDS:.2f} s")
    if bench.sim:
        bench.results.skip("turns-by-weight", name, f"{said}, simulated")
    else:
        bench.results.check("turns-by-weight", name, max(ratio, work_ratio) <= MOST, said,
                            f"most : least by weight at most {MOST:.2f}")


def measure(bench, name, wanted):
    tenants, promised = [], small_device(bench, len(wanted))
    other = bench.start(bench.tenant(), f"{promised}MiB", ["sleep", "600"])
    try:
        for holds, weight in wanted:
            tenants.append(Tenant(bench, holds, weight))
            tenants[-1].child.hear("held", 120)
        for t in tenants:
            t.child.say("fill")
        begin, end = rounds(bench, tenants)
        for t in tenants:
            t.child.say("enough")
        for t in tenants:
            t.notes = [tuple(note) for note in t.child.hear("filled", 120)["notes"]]
        judge(bench, name, tenants, begin, end)
    finally:
        for child in [other, *(t.child for t in tenants)]:
            child.kill()


def part(bench):
    if bench.simulates_more_than(4096 * MIB, "turns-by-weight", "turns by weight"):
        return
    for name in bench.chosen("turns-by-weight", SETS):
        measure(bench, name, SETS[name])
