# SPDX-License-Identifier: Apache-2.0
"""Mode space: tenants that run at the same time under MPS, each on its part of the SMs. On the
simulated device, which has no server, as far as that goes."""
import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

from harness import GIB, GRANULE, MIB, ROOT, SLACK, Child, Trouble, mib, run, size
from parts import families

REFUSED = "CUDA_ERROR_OUT_OF_MEMORY"
CONNECTION_FAILED = 805
PARTS = (25, 75)
POINTS = 2.0
TOGETHER = 98.0
# Two blocks fill an SM (2048 threads), and a kernel has WAVES times as many as fill the device, so
# that it measures SMs: a kernel's last wave fills its part only by chance, and what is idle then is
# at most one wave of those that the part takes, of which a smaller part takes more. Of a hundred on
# the whole device it is less than a percent of any part. A wave is as short as it can be beside
# what starting a block takes, which is about a microsecond.
THREADS, WAVES, WAVE_US = 1024, 100, 24
SECONDS = 4


def options(percent):
    return "--mode", "space", "--compute", str(percent)


def native_sms(bench):
    with Child([bench.program("sms")]) as child:
        sms = child.hear("ready", 60)["sms"]
        child.end()
    return sms


def sms(bench):
    """The attribute that programs size their grids by."""
    whole = native_sms(bench)
    for percent in PARTS:
        with bench.start(bench.tenant(), "4GiB", [bench.program("sms")], options(percent)) as child:
            said = child.hear("ready", 60)
            child.say("try")
            tried = child.hear("tried", 30)
            child.end()
        bench.results.figure("space", f"{percent} %", {"whole": whole, **said, **tried})
        bench.results.check("space", f"{percent} %: SMs", said["mps"] == 1 and not tried["code"]
                            and abs(said["sms"] - whole * percent / 100) <= 1,
                            f"{said['sms']} of {whole}, MPS {said['mps']}",
                            f"{whole * percent / 100:g} ±1, under MPS")


def load(bench, words, tenant=None):
    """One that is ready; of a kernel's speed it has measured what it was not told."""
    command = [bench.load, "--threads", THREADS, "--wait", "--seconds",
               SECONDS, "--warm-up", 1, *words]
    child = (Child(command) if tenant is None
             else bench.start(bench.tenant(), "8GiB", command, options(tenant)))
    child.hear("ready", 90)
    return child


def end(children):
    """In order: the server takes it ill of a client that is killed with work on the device, and so
    do those who come after it."""
    for child in children:
        child.end()


def go(children):
    """All from the same instant; what each said at its end."""
    at = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 200_000_000
    for child in children:
        child.say(str(at))
    return [child.hear("load", SECONDS + 30) for child in children]


def saturating(bench):
    """Two that want the device all the time: each has its part of the work that one alone does."""
    blocks = native_sms(bench) * 2048 // THREADS * WAVES
    words = ["--blocks", blocks, "--kernel-us", WAVES * WAVE_US]
    children = [load(bench, words)]
    try:
        (alone,) = go(children)
        words += ["--loops-per-us", alone["loops_per_us"]]
        children += [load(bench, words, percent) for percent in PARTS]
        shares = [said["share"] for said in go(children[1:])]
        children += [load(bench, words, PARTS[0])]
        (single,) = go(children[-1:])
    finally:
        end(children)
    bench.results.figure("space", "saturating", {"blocks": blocks, "alone": alone["share"],
                                                 "together": shares, "25 % alone": single["share"]})
    parts = [100 * share / alone["share"] for share in (*shares, single["share"])]
    bench.results.check("space", "25 and 75 %, both saturating",
                        all(abs(got - p) <= POINTS for got, p in zip(parts, PARTS)),
                        " and ".join(f"{got:.1f}" for got in parts[:2]), f"25 and 75 % ±{POINTS:g}",
                        f"percent of what one has natively: {alone['share']:.1%}")
    bench.results.check("space", "25 and 75 %, together", sum(parts[:2]) >= TOGETHER,
                        f"{sum(parts[:2]):.1f} %", f"{TOGETHER:g} %")
    bench.results.check("space", "25 %, nobody else there", abs(parts[2] - 25) <= POINTS,
                        f"{parts[2]:.1f} %", f"25 % ±{POINTS:g}")


def latency(bench):
    """A request of 1 ms every 10 ms beside a neighbour that has the rest of the SMs: as soon as
    under MPS without allot (2.07 ms on an H200), without taking much from the neighbour."""
    children = [load(bench, ["--form", "request", "--kernel-us", 1000], 25)]
    try:
        children += [load(bench, ["--kernel-us", 1000], 75)]
        request, neighbour = go(children)
    finally:
        end(children)
    figure = request["latency_us"]
    bench.results.figure("space", "latency", {"request": request, "neighbour": neighbour["share"]})
    bench.results.check("space", "1 ms request beside a saturating neighbour", figure["p99"] <= 2070
                        and neighbour["share"] >= 0.9,
                        f"p50 {figure['p50'] / 1000:.2f}, p99 {figure['p99'] / 1000:.2f} ms, "
                        f"neighbour {neighbour['share']:.0%} of its part",
                        "p99 2.07 ms, neighbour 90 %")


def accounts(bench):
    """One tenant's ledger against the driver's figure."""
    families.one(bench, "space", "alloc-large", "4GiB", GRANULE, options(25))


def stack(bench):
    """A deeper stack, which the driver backs for all threads that the device, or the part, has."""
    families.one(bench, "space", "stack", "4GiB", 8 * MIB, options(25))


def quota(bench):
    """Memory is limited as ever: two tenants that take all they can get."""
    quotas = ("3GiB", "6GiB")
    children = [bench.start(bench.tenant(), quota, [bench.program("families"), "alloc-large",
                                                    str(64 * GIB), "quiet"], options(percent))
                for quota, percent in zip(quotas, PARTS)]
    try:
        for child in children:
            child.hear("ready", 90)
            child.say("fill")
        said = [child.hear("full", 90) for child in children]
        figures = [bench.figures.of(child.pid) for child in children]
    finally:
        end(children)
    bench.results.figure("space", "quota", {"quotas": quotas, "figures": figures, "said": said})
    for quota, figure, s in zip(quotas, figures, said):
        limit = size(quota)
        bench.results.check("space", f"quota of {quota}", limit - GRANULE <= figure <= limit + SLACK
                            and s["refused"] == REFUSED, f"{mib(figure)}, got {mib(s['bytes'])}",
                            f"{mib(limit)} -{mib(GRANULE)} +{mib(SLACK)}")


def control(bench, word):
    """What the MPS daemon of the runtime directory answers."""
    env = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(bench.runtime / ".mps/pipe")}
    program = os.environ.get("ALLOT_MPS_CONTROL", "nvidia-cuda-mps-control")
    return run(["sh", "-c", f'echo {word} | "{program}"'], 20, env)


def proc(pid, name):
    """Empty for a process that is gone, or a zombie."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def daemon_pid(bench):
    """By its environment, which has the pipe directory."""
    pipe = str(bench.runtime / ".mps/pipe").encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if b"nvidia-cuda-mps-control" in proc(pid, "cmdline") and pipe in proc(pid, "environ"):
            return int(pid)
    raise Trouble("no MPS daemon among the processes")


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while proc(pid, "cmdline"):
        if time.monotonic() > end:
            raise Trouble(f"process {pid} does not die")
        time.sleep(0.05)


def server_killed(bench):
    """Who works under it is told by the driver; who comes then gets a new one."""
    tenant = bench.tenant()
    with bench.start(tenant, "4GiB", [bench.program("sms")], options(25)) as child:
        child.hear("ready", 60)
        _, servers, _ = control(bench, "get_server_list")
        for pid in servers.split():
            kill(int(pid))
        child.say("lose")
        tried = child.hear("tried", 60)
    with bench.start(tenant, "4GiB", [bench.program("sms")], options(25)) as child:
        again = child.hear("ready", 60)
    bench.results.figure("space", "server killed",
                         {"tried": tried, "servers": servers, "then": again})
    bench.results.check("space", "server killed: its client",
                        tried["code"] != 0 and servers.split(),
                        f"{tried['result']} of {tried['call'] or 'none'} after "
                        f"{tried['ms'] / 1000:.2f} s", "an error within 10 s")
    bench.results.check("space", "server killed: the next program", again["mps"] == 1,
                        f"{again['sms']} SMs, MPS {again['mps']}", "under MPS again")


def await_failure(bench):
    """Until a server says that it failed; whether one does."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        _, servers, _ = control(bench, "get_server_list")
        if any("FAULT" in control(bench, f"get_server_status {pid}")[1] for pid in servers.split()):
            return True
        time.sleep(0.05)
    return False


def client_killed(bench):
    """One that is killed with work on the device may take its neighbours with it: then they, and
    who comes while these are there, are told. Or its server lives, and all go on. Who comes later
    has a GPU in either case."""
    with bench.start(bench.tenant(), "4GiB", [bench.program("sms")], options(50)) as neighbour:
        neighbour.hear("ready", 60)
        child = load(bench, ["--kernel-us", 5000], 25)
        child.say("0")
        time.sleep(1)
        child.kill()
        failed = await_failure(bench)
        neighbour.say("lose")
        lost = neighbour.hear("tried", 60)
        refused, _, why = run(bench.command(bench.tenant(), "4GiB", ["true"], options(25)), 60)
        neighbour.end()
    with bench.start(bench.tenant(), "4GiB", [bench.program("sms")], options(25)) as child:
        again = child.hear("ready", 60)
    bench.results.figure("space", "client killed", {"failed": failed, "lost": lost, "why": why,
                                                    "then": again})
    wanted = ("an error", "125, and says why") if failed else ("goes on", "0")
    told = refused == 125 and "MPS server" in why if failed else refused == 0
    bench.results.note(f"the server {'failed' if failed else 'lives'}")
    bench.results.check("space", "client killed: its neighbour", failed == (lost["code"] != 0),
                        f"{lost['result']} of {lost['call'] or 'none'}", wanted[0])
    bench.results.check("space", "client killed: allot run", told, f"ended with {refused}",
                        wanted[1])
    bench.results.check("space", "client killed: when all are gone", again["mps"] == 1,
                        f"{again['sms']} SMs, MPS {again['mps']}", "under MPS again")


def daemon_killed(bench):
    """A program that the tenant starts without a daemon gets no GPU; the next allot run helps."""
    tenant = bench.tenant()
    script = f'echo \'{{"stage": "up"}}\'; read x; "{bench.program("sms")}"; exec cat'
    with bench.start(tenant, "4GiB", ["sh", "-c", script], options(25)) as child:
        child.hear("up", 30)
        _, servers, _ = control(bench, "get_server_list")
        kill(daemon_pid(bench))
        for pid in servers.split():
            with contextlib.suppress(ProcessLookupError):
                kill(int(pid))
        child.say("go")
        try:
            said = child.hear("error", 60)
        except Trouble as trouble:
            said = {"code": 0, "what": str(trouble)}
    with bench.start(tenant, "4GiB", [bench.program("sms")], options(25)) as child:
        again = child.hear("ready", 60)
    bench.results.figure("space", "daemon killed", {"said": said, "then": again})
    bench.results.check("space", "daemon killed: the tenant's next program",
                        said["code"] == CONNECTION_FAILED, f"{said['what']}: {said['code']}",
                        f"cuInit: {CONNECTION_FAILED}")
    bench.results.check("space", "daemon killed: after the next allot run", again["mps"] == 1,
                        f"{again['sms']} SMs, MPS {again['mps']}", "under MPS again")


def ended(bench):
    """The daemon goes with the tenants."""
    control(bench, "get_server_list")
    status, out, _ = run([bench.allot, "doctor", "--sweep"], 60)
    end = time.monotonic() + 20
    gone = False
    while not gone and time.monotonic() < end:
        time.sleep(0.1)
        gone = control(bench, "get_server_list")[0] != 0
    bench.results.figure("space", "ended", {"status": status, "doctor": out})
    bench.results.check("space", "daemon ends with its tenants", gone and "told to quit" in out,
                        "gone" if gone else "still there", "gone")


ITEMS = {"sms": sms, "quota": quota, "accounts": accounts, "stack": stack,
         "saturating": saturating, "latency": latency, "client killed": client_killed,
         "server killed": server_killed, "daemon killed": daemon_killed, "ended": ended}
# What the simulated device has not: SMs that work, and a server.
REAL = ("stack", "saturating", "latency", "client killed", "server killed")


def part(bench):
    if bench.sim:
        folder = bench.tmp / "mps"
        folder.mkdir()
        stand_in = ROOT / "tests/e2e/space/nvidia-cuda-mps-control"
        os.environ["ALLOT_MPS_CONTROL"] = str(shutil.copy(stand_in, folder))
        (folder / "nvidia-cuda-mps-server").write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / "nvidia-cuda-mps-server").chmod(0o755)
    elif not shutil.which("nvidia-cuda-mps-control"):
        bench.results.skip("space", "all", "no nvidia-cuda-mps-control here")
        return
    try:
        for name in bench.chosen("space", ITEMS):
            if bench.sim and name in REAL:
                continue
            try:
                ITEMS[name](bench)
            except (Trouble, OSError, KeyError) as trouble:
                bench.results.check("space", name, False, str(trouble)[:400], "runs to its end")
    finally:
        run([bench.allot, "doctor", "--sweep"], 60)
        control(bench, "quit")
