# SPDX-License-Identifier: Apache-2.0
"""Memory that has not changed since it last left is not copied again: the code that finds
that, on the device, beside its formula; a program that leaves again, as it was and changed; and one that
uses little of what it took."""
from harness import Child
from parts.swap import QUOTA_MORE, content, moved

PART = "looked"
GIB, SIM_GIB = 30, 0.25
HASH_MIB, SIM_HASH_MIB = 8192, 64
LEAST_GB_S = 2000
AGAIN_S = 0.08  # of 30 GiB that have not changed; the rest in proportion
USED_GIB, SIM_USED_GIB = 1, 0.02  # of GIB that are taken
SPARSE_S = 0.12  # each way of these


def code(bench):
    with Child([bench.program("look"), SIM_HASH_MIB if bench.sim else HASH_MIB]) as child:
        said = child.hear("looked", 280)
    check = bench.results.check
    check(PART, "hashes", not said["wrong"], f"{said['wrong']} granules are not as the formula says", "none")
    check(PART, "one changed bit", not said["missed"], f"{said['missed']} granules are wrong", "none")
    if bench.sim:
        bench.results.skip(PART, "speed", f"{said['gb_s']} GB/s, simulated")
    else:
        check(PART, "speed", said["gb_s"] >= LEAST_GB_S, f"{said['gb_s']} GB/s", f"at least {LEAST_GB_S}")


def cycles(bench, look):
    held, name = int((SIM_GIB if bench.sim else GIB) * 1024), bench.tenant()
    rows, wrong = [], 0
    with bench.start(name, QUOTA_MORE % (held + 2048), [bench.program("swap"), "brief", held],
                     options=["--swappable", "--look", look]) as child:
        child.hear("held", 240)
        for what in ("first", "as it was", "once more", "all written anew", "as it was"):
            if what == "all written anew":
                child.say("churn")
            out = moved(bench, "suspend", name)
            back = moved(bench, "resume", name)
            rows.append([what, out["way_s"], back["way_s"]])
            if what == "all written anew":
                child.say("look")
                child.hear("churned", 60)
                wrong += child.hear("looked", 120)["wrong"]
        content(bench, child, f"--look {look}")
    bench.results.check(PART, "content while it changes", not wrong, f"{wrong} wrong words", "none")
    return held, rows


def sparse(bench):
    held, used = (int(gib * 1024) for gib in ((SIM_GIB, SIM_USED_GIB) if bench.sim else (GIB, USED_GIB)))
    name, rows = bench.tenant(), []
    with bench.start(name, QUOTA_MORE % (held + 2048), [bench.program("swap"), "sparse", held, used],
                     options=["--swappable"]) as child:
        child.hear("held", 240)
        for what in ("first", "again"):
            out, back = (moved(bench, word, name)["way_s"] for word in ("suspend", "resume"))
            rows.append([what, out, back])
            if bench.sim:
                bench.results.skip(PART, f"little used, {what}", f"out {out} s, back {back} s, simulated")
            else:
                bench.results.check(PART, f"little used, {what}", max(out, back) <= SPARSE_S,
                                    f"out {out:.3f} s, back {back:.3f} s", f"each at most {SPARSE_S} s")
        content(bench, child, "little used")
    bench.results.table(PART, [f"s, {used} of {held} MiB used", "out", "back"], rows)


def part(bench):
    code(bench)
    sparse(bench)
    _, without = cycles(bench, "off")
    held, rows = cycles(bench, "hash")
    bench.results.table(PART, ["s", "out", "back", "out, all copied", "back"],
                        [[*row, *other[1:]] for row, other in zip(rows, without)])
    if bench.sim:
        bench.results.skip(PART, "out, unchanged", f"{rows[1][1]} s, simulated")
    else:
        most = AGAIN_S * held / (GIB * 1024)
        bench.results.check(PART, "out, unchanged", rows[1][1] <= most, f"{rows[1][1]:.3f} s",
                            f"at most {most:.3f} s")
