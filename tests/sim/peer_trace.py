# SPDX-License-Identifier: Apache-2.0
"""What the emulated KFD is asked by ROCm's own library and by ours for one script.

    peer_trace.py ALLOT PEER_SCRIPT

The same ioctls in the same order, of the same GPUs, with the same sizes, flags and results. One
thing differs by the version of ROCm's library: newer ones list a GPU's peers with itself first, as
we do, the one that Debian has by number. So the GPUs of a list are compared as a set, and as a list
where both orders are one; that ours begins with the owner is looked at apart.
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


def as_set(line):
    return re.sub(r"gpus=[\d,]+", "gpus=" + ",".join(sorted(gpus_of(line))), line)


def compare(gpus, device):
    theirs, ours = trace(gpus, "hsakmt", device), trace(gpus, "allot", device)
    if device:
        by_number, first = list(map(as_set, theirs)), list(map(as_set, ours))
    else:
        by_number, first = theirs, ours
    for i, (a, b) in enumerate(zip(by_number, first)):
        if a != b:
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
