# SPDX-License-Identifier: Apache-2.0
"""Whole programs that leave the device while they work: what they compute is what they compute
undisturbed, bit by bit. And what being swappable costs (swap_speed.py), a disk (swap_disk.py), as
much memory as one tenant can hold, and a file that it leaves for."""
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time

from harness import HERE, MIB, SLACK, Child, Trouble, have, mib
from parts.loops import Items
from parts.swap import BACK_S, COLD_S, GIB_HELD, QUOTA_MORE, moved
from parts.swap_disk import HELD, disk, exchange
from parts.swap_speed import LOOPS, SWAPPABLE, Programs, asked, pairs, speed

PART = "swap-programs"
CONTEXTS = ("--contexts",)
# As many that a program is not at its end before the driver has begun, of which `allot suspend
# --contexts` asks, each time.
STEPS, TRAINING = 240, "24GiB"
ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
TOKENS, SAID, DECODING = 1600, 50, "24GiB"
CHURN_MIB, SIM_MIB = 1024, 64
# The most that one tenant holds here, and what the machine must have for it.
HUNDRED_MIB, HUNDRED_QUOTA, HUNDRED_HOST = 100 << 10, "110GiB", "115GiB"
FILE_MIB, FILE_MOST = 8 << 10, 1.5
HUNDRED_S = 75  # left of the run, or it is not begun
LEFT = SLACK  # of a process without its contexts


def program(name, *args):
    return [sys.executable, HERE / "frameworks" / name, *args]


def interrupted(bench, child, name, stage, count, ways):
    """Hears `count` times where a program is, and suspends it at instants that nobody chose, in
    these ways. Answers what it said, how often it had said it at each suspend, and the most that
    was left on the device of one whose contexts had left."""
    chance, said, at, left = random.Random(), [], [], 0
    marks = dict(zip(sorted(chance.sample(range(1, count // 4), len(ways))), ways))
    for i in range(count):
        said.append(child.hear(stage, 60))
        if i not in marks:
            continue
        time.sleep(chance.uniform(0, 0.03))
        moved(bench, "suspend", name, *marks[i])
        at.append(i + 1 + child.lines.qsize())
        left = max(left, bench.figures.of(child.pid)) if marks[i] else left
        time.sleep(chance.uniform(0, 0.2))
        moved(bench, "resume", name)
    return said, at, left


def difference(found, wanted):
    """Of two sequences, where they part, in words."""
    for i, (a, b) in enumerate(zip(found, wanted)):
        if a != b:
            return f"differs from {i} on: {a} and {b}"
    return "equal" if len(found) == len(wanted) else f"{len(found)} of {len(wanted)}"


def lacks_torch(bench, name):
    if bench.sim or not have("torch"):
        bench.results.skip(PART, name, "needs a real driver and PyTorch")
        return True
    return False


# --- Training -------------------------------------------------------------------------------------

def trained(bench, child, name, ways):
    child.say("go")
    said, at, left = interrupted(bench, child, name, "step", STEPS, ways)
    end = child.hear("trained", 60)
    return {"losses": [s["loss"] for s in said], "at": at, "left": left, **end}


def training(bench):
    """All are started at once; what they compute is all that counts. The first is not a tenant: it
    says whether the training itself is the same each time."""
    if lacks_torch(bench, "training"):
        return
    ways = {"no tenant": (), "not suspended": (), "suspended": ((), (), (), ()),
            "stream-ordered": ((), (), (), ()), "with contexts": (CONTEXTS, (), CONTEXTS)}
    command, found = program("torch_train.py", STEPS), {}
    with contextlib.ExitStack() as stack:
        children = {}
        for side in ways:
            name = None if side == "no tenant" else bench.tenant()
            env = ASYNC if side == "stream-ordered" else None
            child = (bench.start(name, TRAINING, command, SWAPPABLE, env=env) if name
                     else Child(command))
            children[side] = (stack.enter_context(child), name)
        for child, _ in children.values():
            child.hear("ready", 90)
        for side, (child, name) in children.items():
            found[side] = trained(bench, child, name, ways[side])
    bench.results.figure(PART, "training", found)
    wanted = found["no tenant"]
    for side in list(ways)[1:]:
        judge_training(bench, side, found[side], wanted, ways[side])


def judge_training(bench, side, got, wanted, ways):
    curve = difference(got["losses"], wanted["losses"])
    same = got["digest"] == wanted["digest"]
    good = curve == "equal" and same and all(n < STEPS for n in got["at"])
    remark = (f"suspended {len(ways)} times, behind steps {', '.join(map(str, got['at']))}; "
              f"{mib(got['held'])} held" if ways else None)
    bench.results.check(PART, f"training, {side}", good,
                        f"losses {curve}, parameters {'equal' if same else 'differ'}",
                        f"{STEPS} losses and all parameters equal", remark)
    if any(ways):
        judge_left(bench, f"training, {side}", [got["left"]])


def judge_left(bench, name, left):
    bench.results.check(PART, f"{name}: left", max(left) <= LEFT, mib(max(left)),
                        f"at most {mib(LEFT)} of each process")


# --- Tokens ---------------------------------------------------------------------------------------

def decoded(bench, child, name, ways=()):
    child.say("go")
    _, at, left = interrupted(bench, child, name, "decoding", TOKENS // SAID, ways)
    return child.hear("decoded", 60), at, left


def tokens(bench):
    """A sequence twice without allot, then once and once more suspended in a tenant. At the end the
    keys and values, and 8 GiB of weights, are what they were."""
    if lacks_torch(bench, "tokens"):
        return
    name, command = bench.tenant(), program("torch_decode.py", TOKENS)
    ways = ((), CONTEXTS, (), CONTEXTS)
    with Child(command) as bare, bench.start(name, DECODING, command, SWAPPABLE) as tenant:
        held = [child.hear("ready", 120)["held"] for child in (bare, tenant)][1]
        wanted, again = (decoded(bench, bare, None)[0] for _ in range(2))
        bare.kill()
        calm, _, _ = decoded(bench, tenant, name)
        got, at, left = decoded(bench, tenant, name, ways)
    bench.results.figure(PART, "tokens", {"tokens": wanted["tokens"][:20], "held": held, "at": at})
    wrong = [side for side, said in (("again without allot", again), ("not suspended", calm))
             if said != wanted]
    bench.results.check(PART, "tokens, not suspended", not wrong,
                        f"differs: {', '.join(wrong)}" if wrong else "equal",
                        "each sequence as the first")
    where = difference(got["tokens"], wanted["tokens"])
    memory = [key for key in ("caches", "weights") if got[key] != wanted[key]]
    bench.results.check(
        PART, "tokens, suspended", where == "equal" and not memory
        and all(n < TOKENS // SAID for n in at),
        f"{where}, {' and '.join(memory) + ' differ' if memory else 'all memory equal'}",
        f"{TOKENS} tokens for each of 4 equal, and keys, values, weights",
        f"suspended {len(ways)} times, behind {', '.join(str(SAID * n) for n in at)} tokens; "
        f"{mib(held)} held")
    judge_left(bench, "tokens", [left])


# --- Contexts -------------------------------------------------------------------------------------

def without_contexts(bench, name, pids):
    """Out and back with contexts: what was left of each process meanwhile, and what it took."""
    out = moved(bench, "suspend", name, *CONTEXTS)
    left = [bench.figures.of(pid) for pid in pids]
    return left, out, moved(bench, "resume", name)


def contexts(bench):
    name, shared, left, wrong = bench.tenant(), bench.program("shared"), [], []
    with bench.start(name, "4GiB", [shared, "lend", HELD], SWAPPABLE) as lender:
        lent, moves = lender.hear("lent", 60), []
        with bench.start(name, "4GiB", [shared, "borrow", lent["handle"], HELD],
                         SWAPPABLE) as borrower:
            pids = [lent["pid"], borrower.hear("borrowed", 60)["pid"]]
            for value in range(3):
                wrong += exchange(lender, borrower, value)
                if value < 2:
                    found, *way = without_contexts(bench, name, pids)
                    left += found
                    moves.append(way)
    bench.results.figure(PART, "contexts", moves)
    bench.results.check(PART, "contexts of two that share, twice", not any(wrong),
                        f"{sum(wrong)} wrong words", "none")
    judge_left(bench, "contexts of two that share", left)


def contexts_torch(bench):
    if lacks_torch(bench, "contexts torch"):
        return
    name, left, wrong = bench.tenant(), [], []
    with bench.start(name, "8GiB", program("torch_shared.py"), SWAPPABLE) as child:
        pids = child.hear("shared", 90)["pids"]
        for cycle in range(3):
            child.say("look")
            wrong.append(child.hear("looked", 60)["wrong"])
            if cycle < 2:
                left += without_contexts(bench, name, pids)[0]
    bench.results.check(PART, "contexts of torch.multiprocessing, twice", not any(wrong), wrong,
                        "none wrong")
    judge_left(bench, "contexts of torch.multiprocessing", left)


def sum_for(child, seconds):
    child.say(f"{seconds:g}")
    return child.hear("summed", seconds + 60)


def nccl(bench):
    """On two devices, beside the same tenant that cannot leave; and once more when it has left."""
    if bench.sim or not have("torch") or len(bench.figures.devices) < 2:
        bench.results.skip(PART, "nccl", "needs torch and two devices")
        return
    names, rates, wrong = [bench.tenant() for _ in range(2)], ([], []), []
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(bench.start(name, "8GiB", program("nccl.py"), options))
                    for name, options in zip(names, ((), SWAPPABLE))]
        for child in children:
            child.hear("ready", 120)
        for turn in range(4):
            for i in (0, 1) if turn % 2 else (1, 0):
                said = sum_for(children[i], 1.5)
                rates[i].append(said["rate"])
                wrong.append(said["wrong"])
        for _ in range(2):
            moved(bench, "suspend", names[1])
            moved(bench, "resume", names[1])
            wrong.append(sum_for(children[1], 0.5)["wrong"])
    plain, swappable = (statistics.median(side[1:]) for side in rates)
    bench.results.figure(PART, "nccl", rates)
    bench.results.check(PART, "sums by NCCL, and when it had left, twice", not any(wrong),
                        f"{sum(wrong)} wrong words", "none")
    percent = 100 * swappable / plain
    bench.results.check(PART, "speed NCCL", percent >= 99,
                        f"{percent:.2f} %, {plain:.1f} to {swappable:.1f} sums/s", "99 %")


# --- Many times -----------------------------------------------------------------------------------

def rush(bench, name):
    """Out and back without a rest, while it works. Answers what the ways took."""
    chance, outs, backs = random.Random(), [], []
    for _ in range(min(bench.cycles, 5) if bench.sim or bench.quick else bench.cycles):
        outs.append(moved(bench, "suspend", name)["way_s"])
        backs.append(moved(bench, "resume", name)["way_s"])
        time.sleep(chance.uniform(0, 0.02))
    return outs, backs


def judge_rush(bench, name, outs, backs, done, wrong):
    bench.results.figure(PART, name, {"out_s": outs, "back_s": backs, "done": done})
    bench.results.check(PART, f"{name}, {len(outs)} in a row", not wrong and done > len(outs),
                        f"{wrong} wrong words, {done} done meanwhile", "none wrong, more done",
                        f"out {1e3 * statistics.median(outs):.1f} ms, back "
                        f"{1e3 * statistics.median(backs):.1f} ms, at most "
                        f"{1e3 * max(outs):.1f} and {1e3 * max(backs):.1f}")


def cycles(bench):
    """Copies whose order counts; then every byte."""
    name, held = bench.tenant(), SIM_MIB if bench.sim else CHURN_MIB
    with bench.start(name, "4GiB", [bench.program("swap"), "brief", held], SWAPPABLE) as child:
        child.hear("held", 60)
        child.say("churn")
        outs, backs = rush(bench, name)
        child.say("look")
        done = child.hear("churned", 60)["exchanges"]
        judge_rush(bench, "cycles", outs, backs, done, child.hear("looked", 60)["wrong"])


def cycles_torch(bench):
    """Kernels, alone and in a graph, each of which is done once."""
    if lacks_torch(bench, "cycles torch"):
        return
    name = bench.tenant()
    with bench.start(name, "8GiB", program("torch_count.py", CHURN_MIB), SWAPPABLE) as child:
        child.hear("ready", 90)
        child.say("go")
        outs, backs = rush(bench, name)
        child.say("enough")
        said = child.hear("counted", 60)
        judge_rush(bench, "cycles torch", outs, backs, said["launched"], said["wrong"])


# --- As much as there is --------------------------------------------------------------------------

def fits(bench, held):
    """None, or why not. MemTotal of a virtual machine may be less than it can have."""
    if bench.sim:
        return None
    total, left = bench.figures.devices[0]["memory"], bench.until - time.monotonic()
    if left < HUNDRED_S:
        return f"{left:.0f} s are left"
    if total < (held + 4096) * MIB:
        return f"the device has {mib(total)}"
    return None


def warm(bench, held):
    """So that the host's memory is there, as it is on a machine that has worked before."""
    with Child([sys.executable, HERE / "programs/warm.py", held]) as child:
        try:
            said = child.hear("warmed", 70)
            child.end()
        except Trouble as trouble:  # then what follows shows how it goes without
            said = str(trouble)
    bench.results.figure(PART, "hundred, host memory", said)
    bench.results.note(f"host memory touched before: {said}")


def hundred(bench):
    held = 256 if bench.sim else HUNDRED_MIB
    why, name, wrong = fits(bench, held), bench.tenant(), []
    if why:
        bench.results.skip(PART, "hundred", why)
        return
    warm(bench, held)
    quota = QUOTA_MORE % (held + 1024) if bench.sim else HUNDRED_QUOTA
    with bench.start(name, quota, [bench.program("swap"), "brief", held], SWAPPABLE) as child:
        pid = child.hear("held", 60)["pid"]
        before = bench.figures.of(pid)
        out = moved(bench, "suspend", name, "--host-memory", HUNDRED_HOST)
        gone = before - bench.figures.of(pid)
        back = moved(bench, "resume", name)
        for word, stage in (("graph", "launched"), ("sample", "looked")):
            child.say(word)
            wrong.append(child.hear(stage, 60)["wrong"])
    bench.results.figure(PART, "hundred", {"held_mib": held, "out": out, "back": back})
    bench.results.check(PART, f"{mib(held * MIB)} out and back",
                        not any(wrong) and gone >= held * MIB - SLACK,
                        f"{sum(wrong)} wrong words, {mib(gone)} gone", "none, and all gone")
    for word, way, least in (("out", out, COLD_S), ("back", back, BACK_S)):
        most = least * held / (GIB_HELD * 1024)
        if bench.sim:
            bench.results.skip(PART, f"hundred, {word}", f"{way['way_s']} s, simulated")
        else:
            bench.results.check(PART, f"hundred, {word}", way["way_s"] <= most,
                                f"{way['way_s']:.3f} s", f"at most {most:.3f} s")


def written_s(directory, held):
    """To write that much to a file there, and have it on the disk."""
    block, begin = os.urandom(MIB) * 16, time.monotonic()
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(held // 16):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return time.monotonic() - begin


def file(bench):
    """All but 1 GiB leaves for a file, at the speed of the disk; the kernel may have it all in memory still
    when it comes back."""
    held, name = 256 if bench.sim else FILE_MIB, bench.tenant()
    directory = tempfile.mkdtemp(dir="/var/tmp")
    host = held // 8
    options = [*SWAPPABLE, "--host-memory", f"{host}MiB", "--swap-dir", directory]
    try:
        disk_s = written_s(directory, held - host)
        with bench.start(name, QUOTA_MORE % (held + 1024), [bench.program("swap"), "hold", held],
                         options=options) as child:
            child.hear("held", 60)
            ways = [moved(bench, word, name) for word in ("suspend", "resume") * 2]
            child.say("look")
            wrong = child.hear("looked", 60)["wrong"]
    finally:
        os.rmdir(directory)
    out, back = (min(way["way_s"] for way in ways[i::2]) for i in range(2))
    said = f"out {out:.2f} s, back {back:.2f} s; the disk {disk_s:.2f} s"
    bench.results.figure(PART, "file", {"held_mib": held, "host_mib": host, "ways": ways,
                                        "disk_s": round(disk_s, 3)})
    bench.results.check(PART, f"{mib(held * MIB)} to a file and back, twice", wrong == 0,
                        f"{wrong} wrong words", "none")
    if bench.sim:
        bench.results.skip(PART, "file, out", f"{said}, simulated")
    else:
        bench.results.check(PART, "file, out", out <= FILE_MOST * disk_s, said,
                            f"at most {FILE_MOST} of what the disk takes to be written")


# --- The part -------------------------------------------------------------------------------------

# In this order, what is timed first, with the most seconds that each may take.
ITEMS = {
    "pairs": (pairs, 40), "asked": (asked, 60), "training": (training, 120), "tokens": (tokens, 150),
    "contexts": (contexts, 60), "contexts torch": (contexts_torch, 120),
    "cycles": (cycles, 90), "cycles torch": (cycles_torch, 120), "disk": (disk, 130),
    "hundred": (hundred, 150), "file": (file, 90), "nccl": (nccl, 150),
}
START_S, SPEED_S = 150, 60


def speeds(bench, items, names):
    """Programs start all at once, and work one after the other."""
    programs = Programs(bench, names)
    try:
        items.run("speed, start", programs.ready, limit=START_S)
        for name in programs.loops:
            items.run(f"speed {name}", speed, bench, programs, name, limit=SPEED_S)
    finally:
        programs.end()
    bench.results.table(PART, ("speed", "plain", "swappable", "%", "apart %"), programs.rows)


def part(bench):
    names = [*(f"speed {name}" for name in LOOPS), *ITEMS]
    chosen, items = bench.chosen(PART, names), Items(bench, PART)
    measured = [name for name in LOOPS if f"speed {name}" in chosen]
    if measured:
        speeds(bench, items, measured)
    for name, (function, limit) in ITEMS.items():
        if name in chosen:
            items.run(name, function, bench, limit=limit)
