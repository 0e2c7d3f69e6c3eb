# SPDX-License-Identifier: Apache-2.0
"""`allot checkpoint` to a disk and `allot restore`, by the CRIU of this machine."""
import os
import shutil
import time
from pathlib import Path

from harness import MIB, Trouble, mib

HELD = 16 * MIB


def lacks(machine):
    if machine.sim:
        return "emulated GPUs are in one process each (make check-guest has CRIU)"
    if os.geteuid():
        return "CRIU takes root"
    return None if shutil.which("criu") else "no criu"


def wait_file(path, seconds=60):
    end = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > end:
            raise Trouble(f"{path.name} did not come within {seconds} s")
        time.sleep(0.1)
    return path.read_text("ascii")


def part(machine):
    why = lacks(machine)
    if why:
        machine.results.skip("criu", "whole part", why)
        return
    quota, slack = machine.quota()
    name, said, image = machine.tenant(), machine.tmp / "said", machine.tmp / "image"
    before = machine.used()
    # No pipe and no terminal may lead out of what CRIU dumps.
    machine.must("run", "--name", name, "--gpu", machine.gpu["uuid"], "--memory", f"{quota >> 20}MiB",
                 "--swappable", "--", "sh", "-c", f"CHILD_OUTLIVES=1 setsid {machine.program('hsa')} keep {said} "
                 f"</dev/null >/dev/null 2>&1 &")
    wait_file(Path(f"{said}.ready"))
    machine.must("checkpoint", name, "--to", image, timeout=180)
    left = machine.used_comes_to(before, slack) - before
    machine.results.check("criu", "memory after the checkpoint", left <= slack, f"+{mib(left)}",
                          "none left")
    machine.must("restore", image, timeout=180)
    there = machine.used() - before
    machine.results.check("criu", "memory after the restore", there >= HELD, mib(there),
                          f"at least {mib(HELD)}")
    Path(f"{said}.go").touch()
    wrong = wait_file(said)
    machine.results.check("criu", "content", wrong == "0", f"{wrong} wrong words", "none")
