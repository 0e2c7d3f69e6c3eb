# SPDX-License-Identifier: Apache-2.0
"""allotd beside tenants: it decides whose turn it is, is killed again and again under load, sees who
goes around, and says what nvidia-smi says. Where a machine has no libmicrohttpd, a daemon that was
built elsewhere is named with --allotd."""
import contextlib
import re
import signal
import socket
import subprocess
import time
import urllib.request

from harness import MIB, Absent, Child, Trouble
from parts.compute_load import SHARE, begin, calibrate, go, go_and_end, sleep_until, spin
from parts.loops import Items

KILLS, QUICK_KILLS = 100, 8
EACH_S = 0.5
WEIGHTS = (3, 1)
POINTS = 2.0
TOGETHER = 98.0
LATENCY_MS = 2.3  # of a request of 1 ms beside kernels of 1 ms: as without a daemon
SEEN_S, PATIENCE_S = 2.0, 30.0
BINS_S = 1.0


class Daemon:
    """Ready when this is there: it has the role."""

    def __init__(self, bench):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{s.getsockname()[1]}"
        self.process = subprocess.Popen([bench.allotd, "--listen", self.address],
                                        stderr=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while "\nallot_arbiter 1\n" not in self.page():
            if time.monotonic() > until or self.process.poll() is not None:
                self.end(signal.SIGKILL)
                raise Trouble("allotd did not get the arbiter's role within 10 s")
            time.sleep(0.01)

    def page(self):
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10).read().decode()
        return ""

    def end(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def of_bins(said, from_s, to_s):
    width = said["bin_ms"] / 1e3
    return sum(said["bins"][round(from_s / width):round(to_s / width)]) * width / (to_s - from_s)


def turns(bench):
    """The same figures as without it."""
    with Daemon(bench):
        alone, = go_and_end([begin(bench, spin(bench, (), seconds=3), SHARE)], 4)
        pair = go_and_end([begin(bench, spin(bench, (), seconds=4), SHARE) for _ in range(2)], 5)
        high = (*SHARE, "--priority", "high")
        request, _ = go_and_end([begin(bench, spin(bench, ("--form", "request"), seconds=4), high),
                                 begin(bench, spin(bench, (), seconds=4), SHARE)], 5)
    got = [100 * said["share"] / alone["share"] for said in pair]
    p99 = request["latency_us"]["p99"] / 1e3
    bench.results.check("daemon", "two by turns of allotd",
                        sum(got) >= TOGETHER and abs(got[0] - got[1]) <= POINTS,
                        f"{got[0]:.1f} + {got[1]:.1f} %",
                        f"{TOGETHER:g} % of one alone, {POINTS:g} points apart")
    bench.results.check("daemon", "a request of high priority", p99 <= LATENCY_MS,
                        f"p50 {request['latency_us']['p50'] / 1e3:.2f}, p99 {p99:.2f} ms",
                        f"p99 {LATENCY_MS:g} ms")


def kills(bench):
    """A tenant goes on at once, with what each had."""
    n = QUICK_KILLS if bench.quick or bench.sim else KILLS
    seconds = n * EACH_S + 4
    children = [begin(bench, spin(bench, (), seconds=seconds, warm=0),
                      ("--policy", "share", "--weight", w)) for w in WEIGHTS]

    def play(start):
        for i in range(n):
            sleep_until(start + 1 + i * EACH_S)
            daemon = Daemon(bench)
            sleep_until(start + 1 + (i + 0.5) * EACH_S)
            daemon.end(signal.SIGKILL)

    try:
        heavy, light = [said for (said,) in go(children, seconds, 1, play)]
    finally:
        for child in children:
            child.kill()
    rows = []
    for second in range(1, int(seconds) - 1):
        a, b = (of_bins(said, second, second + BINS_S) for said in (heavy, light))
        rows.append((100 * a / (a + b), 100 * (a + b)))
    worst = max(abs(part - 75) for part, _ in rows)
    mean = sum(both for _, both in rows) / len(rows)
    bench.results.figure("daemon", "kills", {"n": n, "by_second": rows})
    said = f"{worst:.1f} points in the worst second, {mean:.1f} % used, {n} kills"
    if bench.sim:
        bench.results.skip("daemon", "killed under load", f"{said}, simulated")
    else:
        bench.results.check("daemon", "killed under load", worst <= POINTS, said,
                            f"{POINTS:g} points of 75 : 25, all launches done")


def outside(bench, name, start):
    """What goes around is seen, by the figure that nvidia-smi has."""
    pattern = re.compile(r'^allot_outside_memory_bytes\{.*pid="(\d+)".*\} (\d+)$', re.M)
    with Daemon(bench) as daemon, start() as child:
        pid = child.hear("held", 120)["pid"]
        began, took, found, figure = time.monotonic(), 0, None, None
        while took < PATIENCE_S and (not found or found != figure):
            found = {int(pid): int(held) for pid, held in pattern.findall(daemon.page())}.get(pid)
            took, figure = time.monotonic() - began, bench.figures.of(pid)
            time.sleep(0.02)
    bench.results.check("daemon", name,
                        found and found == figure and (bench.sim or took <= SEEN_S),
                        f"{(found or 0) // MIB} MiB, NVML {figure // MIB} MiB, {took:.2f} s",
                        f"the same, within {SEEN_S:g} s")


def outside_cuda(bench):
    outside(bench, "a program outside of tenants",
            lambda: Child([bench.program("swap"), "brief", 512]))


def in_tenant(bench, name, memory, command, options=()):
    """Where that quota does not reach it."""
    outside(bench, name, lambda: bench.start(bench.tenant(), memory, command, options))


def outside_static(bench):
    if not bench.program("own_loader").exists():
        raise Absent("no static libc to link with")
    in_tenant(bench, "a static program in a tenant", "256MiB",
              [bench.program("own_loader"), bench.program("swap"), "brief", 512],
              ["--allow-escape"])


def outside_opencl(bench):
    if bench.sim:
        raise Absent("simulated: no OpenCL")
    in_tenant(bench, "OpenCL in a tenant", "1GiB", [bench.program("opencl"), 2048])


def outside_vulkan(bench):
    if bench.sim:
        raise Absent("simulated: no Vulkan")
    in_tenant(bench, "Vulkan in a tenant", "1GiB",
              [bench.program("vulkan"), 2048, bench.figures.devices[0]["uuid"]])


ITEMS = {"turns": turns, "kills": kills, "outside-cuda": outside_cuda,
         "outside-static": outside_static, "outside-opencl": outside_opencl,
         "outside-vulkan": outside_vulkan}


def part(bench):
    items = Items(bench, "daemon")
    if not bench.allotd.exists():
        bench.results.skip("daemon", "all of it", f"no {bench.allotd}")
        return
    items.run("calibrate", calibrate, bench)
    if getattr(bench, "loops_per_us", None):
        for name in bench.chosen("daemon", ITEMS):
            items.run(name, ITEMS[name], bench)
