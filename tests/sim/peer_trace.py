# SPDX-License-Identifier: Apache-2.0
"""What the emulated KFD is asked by ROCm's own library and by ours for one script.

    peer_trace.py ALLOT PEER_SCRIPT

The same ioctls in the same order, of the same GPUs, with the same sizes, flags and results. One
thing differs by the version of ROCm's library: newer ones list a GPU's peers with itself first, as
we do for its memory but not for its registers, that of Debian 12 by number. Any other order is a
difference; that ours of memory begins with the owner is looked at apart.
"""
import os
import re
import subprocess
import sys
import tempfile

ALLOT, SCRIPT = sys.argv[1:]


def trace(gpus, who, device):
    """The lines, without the pid that each begins with."""
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "trace")
        done = subprocess.run([ALLOT, "sim", "--amd", str(gpus), "--memory", "1GiB", "--", SCRIPT,
                               who, str(device)],
                              env={**os.environ, "ALLOT_SIM_AMD_TRACE": path}, check=False)
        if done.returncode:
            sys.exit(done.returncode)
        with open(path, encoding="ascii") as file:
            return [line.rstrip("\n").split(" ", 1)[1] for line in file]


def gpus_of(line):
    found = re.search(r"gpus=([\d,]+)", line)
    return found[1].split(",") if found else []


def by_number(line):
    """With its GPUs by number, where they are that but for the first."""
    gpus = gpus_of(line)
    if gpus[1:] != sorted(gpus[1:]):
        return line
    return re.sub(r"gpus=[\d,]+", "gpus=" + ",".join(sorted(gpus)), line)


def compare(gpus, device):
    theirs, ours = trace(gpus, "hsakmt", device), trace(gpus, "allot", device)
    for i, (a, b) in enumerate(zip(theirs, ours)):
        if by_number(a) != by_number(b):
            sys.exit(f"{gpus} GPUs, memory of {device}, call {i}:\nROCm:  {a}\nallot: {b}")
    if len(theirs) != len(ours):
        sys.exit(f"{gpus} GPUs, memory of {device}: {len(theirs)} calls, and ours {len(ours)}")
    alloc = [i for i, line in enumerate(ours) if line.startswith("ALLOC") and "size=16777216" in line]
    owner = re.search(r"gpu=(\d+)", ours[alloc[0]])[1]
    mapped = gpus_of(ours[alloc[0] + 1])
    if mapped[0] != owner or len(mapped) != gpus:
        sys.exit(f"{gpus} GPUs, memory of {device}: mapped to {mapped}, not to all from {owner} on")


for n in (1, 2, 8):
    compare(n, 0)
    compare(n, n - 1)
