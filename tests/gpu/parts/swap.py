# SPDX-License-Identifier: Apache-2.0
"""What a tenant holds out of the device and back, every byte compared, beside PCIe alone and the
driver's own way of doing it (cuCheckpointProcess*) in the same run. What it maps itself, and what its
processes share."""
import re
import sys
import time

from harness import HERE, MIB, SLACK, Child, Trouble, have, mib, run

GIB_HELD, QUICK_GIB, SIM_GIB = 16, 4, 0.25
QUOTA_MORE = "%dMiB"
CYCLES = 3
# Of 16 GiB, in seconds: the first time out, later ones, and back; the rest in proportion.
COLD_S, WARM_S, BACK_S = 0.6, 0.35, 0.4
CONTEXT = 700 * MIB  # more than a context, code and a graph keep on an H200


def held_mib(bench):
    return int((SIM_GIB if bench.sim else QUICK_GIB if bench.quick else GIB_HELD) * 1024)


def moved(bench, word, name, *options):
    """`allot suspend` or `resume`: how long the command took, and how long it says the way was of
    memory, and of contexts."""
    begin = time.monotonic()
    status, out, err = run([bench.allot, word, *options, name], 120)
    took = time.monotonic() - begin
    if status != 0:
        raise Trouble(f"allot {word} {' '.join(options)}: {status} {err}")
    ways = [round(float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit], 6)
            for number, unit in re.findall(r" in ([\d.]+) (us|ms|s)(?:$|, )", out, re.M)]
    return {"command_s": round(took, 4), "way_s": ways[0] if ways else None,
            "contexts_s": ways[1] if len(ways) > 1 else None}


def judge(bench, name, seconds, target, held):
    target *= held / (GIB_HELD * 1024)
    if bench.sim:
        bench.results.skip("swap", name, f"{seconds:.3f} s, simulated")
    else:
        bench.results.check("swap", name, seconds <= target, f"{seconds:.3f} s",
                            f"at most {target:.3f} s")


def native(bench, held):
    """Without allot: PCIe, and the driver's checkpoint of a process that holds the same."""
    with Child([bench.program("swap"), "hold", held]) as child:
        said = child.hear("held", 120)
        with Child([bench.program("swap"), "checkpoint", said["pid"]]) as other:
            driver = other.hear("checkpointed", 240)
        child.say("look")
        wrong = child.hear("looked", 120)["wrong"]
    bench.results.figure("swap", "pcie", said)
    bench.results.figure("swap", "driver's checkpoint", {**driver, "wrong": wrong})
    return said, driver


def content(bench, child, name):
    child.say("look")
    wrong = child.hear("looked", 120)["wrong"]
    bench.results.check("swap", f"content {name}", wrong == 0, f"{wrong} wrong words", "none")
    child.say("graph")
    wrong = child.hear("launched", 60)["wrong"]
    bench.results.check("swap", f"graph of before {name}", wrong == 0, f"{wrong} wrong words",
                        "none")


def away(bench, pid, before, held):
    """What is left on the device, by the driver's figure and by the ledger."""
    left = bench.figures.of(pid)
    bench.results.check("swap", "left on the device", left <= min(CONTEXT, before - held * MIB + SLACK),
                        mib(left), f"at most {mib(CONTEXT)}, and {held} MiB less than before")


def out_and_back(bench, name, pids, held):
    """Twice; answers whether the device had so much less meanwhile, by the driver's figure."""
    left = True
    for _ in range(2):
        before = sum(bench.figures.of(pid) for pid in pids)
        moved(bench, "suspend", name)
        left &= before - sum(bench.figures.of(pid) for pid in pids) >= held - SLACK
        moved(bench, "resume", name)
    return left


def own_handles(bench):
    """cuMemCreate, mapped twice, and read alone in one of the two places."""
    name, program = bench.tenant(), bench.program("shared")
    with bench.start(name, "2GiB", [program, "own"], options=["--swappable"]) as child:
        pid = child.hear("mapped", 60)["pid"]
        child.say("look")
        before = child.hear("looked", 60)
        left = out_and_back(bench, name, [pid], 64 * MIB)
        child.say("look")
        after = child.hear("looked", 60)
    good = left and before == after and not after["wrong"] and after["same"]
    bench.results.check("swap", "handles of its own", good,
                        f"{after if left else 'not gone meanwhile'}", f"as before: {before}")


def pooled(bench):
    """What was allocated in the order of a stream, at rest and at work."""
    name, held = bench.tenant(), 256 if bench.sim else 1024
    with bench.start(name, QUOTA_MORE % (held + 2048), [bench.program("swap"), "pooled", held],
                     options=["--swappable"]) as child:
        pid = child.hear("held", 60)["pid"]
        left = out_and_back(bench, name, [pid], held * MIB)
        child.say("churn")
        left &= out_and_back(bench, name, [pid], held * MIB)
        child.say("look")
        child.hear("churned", 60)
        wrong = child.hear("looked", 60)["wrong"]
    bench.results.check("swap", "stream-ordered pools", left and not wrong,
                        f"{wrong} wrong words, {'gone' if left else 'not gone'} meanwhile",
                        "none, and gone")


def shared(bench):
    """A legacy IPC handle: it leaves once, and both see what the other one writes."""
    name, program, held = bench.tenant(), bench.program("shared"), 64
    options = ["--swappable"]
    with bench.start(name, "4GiB", [program, "lend", held], options=options) as lender:
        lent = lender.hear("lent", 60)
        command = [program, "borrow", lent["handle"], held]
        with bench.start(name, "4GiB", command, options=options) as borrower:
            pids, wrong = [lent["pid"], borrower.hear("borrowed", 60)["pid"]], []
            left = out_and_back(bench, name, pids, held * MIB)
            for value in range(2):
                for child, sees in ((borrower, value), (lender, value + 1)):
                    child.say(str(sees))
                    wrong.append(child.hear("looked", 60)["wrong"])
    bench.results.check("swap", "shared by cuIpcGetMemHandle", left and not any(wrong),
                        f"{sum(wrong)} wrong words, {'gone' if left else 'not gone'} meanwhile",
                        "none, and gone")


def torch_shared(bench, title, env):
    """torch.multiprocessing, whose consumer writes and whose producer reads."""
    if bench.sim or not have("torch"):
        bench.results.skip("swap", title, "no torch here")
        return
    name = bench.tenant()
    with bench.start(name, "8GiB", [sys.executable, HERE / "frameworks/torch_shared.py"],
                     options=["--swappable"], env=env) as child:
        said, wrong = child.hear("shared", 180), []
        for cycle in range(3):
            child.say("look")
            wrong.append(child.hear("looked", 60)["wrong"])
            left = cycle == 2 or out_and_back(bench, name, said["pids"], said["bytes"])
            if not left:
                wrong.append("not gone meanwhile")
    bench.results.check("swap", title, not any(wrong), wrong, "none wrong, gone meanwhile")


def part(bench):
    own_handles(bench)
    pooled(bench)
    shared(bench)
    torch_shared(bench, "torch.multiprocessing", {})
    torch_shared(bench, "torch.multiprocessing, expandable segments",
                 {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    held, name = held_mib(bench), bench.tenant()
    pcie, driver = native(bench, held)
    rows, quota = [], QUOTA_MORE % (held + 2048)
    with bench.start(name, quota, [bench.program("swap"), "hold", held],
                     options=["--swappable"]) as child:
        said = child.hear("held", 120)
        before = bench.figures.of(said["pid"])
        for cycle in range(CYCLES):
            out = moved(bench, "suspend", name)
            if not cycle:
                away(bench, said["pid"], before, held)
            back = moved(bench, "resume", name)
            rows.append([f"cycle {cycle + 1}", out["way_s"], out["command_s"], back["way_s"],
                         back["command_s"]])
        content(bench, child, f"after {CYCLES} cycles")
        used = (bench.ps(name) or {}).get("used_bytes", 0)
        bench.results.check("swap", "ledger after the return", abs(used - before) <= SLACK,
                            mib(used), f"{mib(before)}, as before")
    bench.results.table("swap", ["s", "out", "command", "back", "command"], [
        *rows, ["PCIe alone", pcie["pcie_out_s"], "", pcie["pcie_back_s"], ""],
        ["driver's checkpoint", driver["failed"] or driver["out_s"], "", driver["back_s"], ""]])
    judge(bench, "out, cold", rows[0][1], COLD_S, held)
    judge(bench, "out, warm", rows[-1][1], WARM_S, held)
    judge(bench, "back", rows[-1][3], BACK_S, held)
