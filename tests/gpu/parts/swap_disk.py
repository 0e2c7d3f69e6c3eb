# SPDX-License-Identifier: Apache-2.0
"""Two processes that share memory, to a disk and back as other processes, with CRIU. No pipe may
connect them with us, so they read from a FIFO and write to a file."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from harness import MIB, Trouble, mib, run

HELD = 64  # MiB
CRIU_MAJOR = 4
TIMEOUT_S = 50


class Apart:
    """As harness.Child, but nothing of it ends when we do, except that a watchdog ends it."""

    def __init__(self, bench, name, command):
        place = bench.tmp / f"apart-{time.monotonic_ns()}"
        os.mkfifo(f"{place}.in")
        self.out, self.seen, self.program = Path(f"{place}.out"), 0, str(command[0])
        self.input = os.open(f"{place}.in", os.O_RDWR | os.O_CLOEXEC)
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen(
                [str(w) for w in bench.command(name, "4GiB", command, ["--swappable"])],
                env={**os.environ, "CHILD_OUTLIVES": "1"}, stdin=self.input, stdout=out,
                stderr=out, start_new_session=True)
        self.pid = self.process.pid

    def hear(self, stage, timeout):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            text = self.out.read_bytes()[self.seen:]
            line, newline, _ = text.partition(b"\n")
            if not newline:
                time.sleep(0.01)
                continue
            self.seen += len(line) + 1
            if not line.startswith(b"{"):  # what `allot run` says
                continue
            said = json.loads(line)
            if said["stage"] != stage:
                raise Trouble(f"said {said} instead of \"{stage}\"")
            return said
        raise Trouble(f"no word in {timeout} s, waiting for \"{stage}\"")

    def say(self, word):
        os.write(self.input, word.encode() + b"\n")

    def gone(self, timeout=10):
        """Ended as by kill -9, and nobody's zombie: its pid is free."""
        try:
            return self.process.wait(timeout) == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            return False

    def kill(self):
        """Also who came back under the same pid, and is not our child."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            if self.program.encode() in Path(f"/proc/{self.pid}/cmdline").read_bytes():
                os.kill(self.pid, signal.SIGKILL)
        os.close(self.input)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def lacks():
    """What this machine has not got for it, or None."""
    if os.geteuid():
        return "it takes root"
    try:
        _, out, _ = run(["criu", "--version"], 10)
    except OSError:
        return "no criu in PATH"
    version = re.search(r"Version: (\d+)", out)
    if not version or int(version[1]) < CRIU_MAJOR:
        return f"criu in PATH is not of version {CRIU_MAJOR} or later: {out.strip()[:60]}"
    return None


def exchange(lender, borrower, value):
    """The borrower finds what was there last, and the lender what the borrower wrote."""
    wrong = []
    for child, sees in ((borrower, value), (lender, value + 1)):
        child.say(str(sees))
        wrong.append(child.hear("looked", 30)["wrong"])
    return wrong


def allot(bench, *words):
    begin = time.monotonic()
    status, out, err = run([bench.allot, *words], TIMEOUT_S)
    if status == 0:
        return time.monotonic() - begin
    raise Trouble(f"allot {words[0]}: {status} {(out + err)[-400:]}")


def restore(bench, folder):
    """When the pids are free, which is when whoever ended was reaped."""
    for _ in range(100):
        try:
            return allot(bench, "restore", folder)
        except Trouble as trouble:
            if "must have again" not in str(trouble):
                raise
            time.sleep(0.05)
    raise Trouble("the pids do not become free")


def disk(bench):
    why = lacks()
    if why:
        bench.results.skip("swap-programs", "disk", why)
        return
    name, folder, program = bench.tenant(), bench.tmp / "disk", bench.program("shared")
    with Apart(bench, name, [program, "lend", HELD]) as lender:
        handle = lender.hear("lent", 60)["handle"]
        with Apart(bench, name, [program, "borrow", handle, HELD]) as borrower:
            borrower.hear("borrowed", 60)
            wrong, pids = exchange(lender, borrower, 0), [lender.pid, borrower.pid]
            to_s = allot(bench, "checkpoint", name, "--to", folder)
            gone = all([child.gone() for child in (lender, borrower)])
            left = sum(bench.figures.of(pid) for pid in pids)
            size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
            back_s = restore(bench, folder)
            held = sum(bench.figures.of(pid) for pid in pids)
            for value in (1, 2):
                wrong += exchange(lender, borrower, value)
            moves = [allot(bench, word, name) for word in ("suspend", "resume")]
            wrong += exchange(lender, borrower, 3)
    bench.results.figure("swap-programs", "disk", {
        "to_s": to_s, "back_s": back_s, "bytes": size, "held": held, "then": moves})
    bench.results.check(
        "swap-programs", "two that share, to a disk and back",
        gone and not left and not any(wrong) and held >= HELD * MIB,
        f"{sum(wrong)} wrong words; {'ended' if gone else 'not ended'}, {mib(left)} left",
        "none wrong, ended, nothing left",
        f"{size / MIB:.1f} MiB in {to_s:.2f} s, back in {back_s:.2f} s with {mib(held)}")
