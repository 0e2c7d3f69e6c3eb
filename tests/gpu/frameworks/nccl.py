# SPDX-License-Identifier: Apache-2.0
"""Sums over two devices by NCCL, a process each. For each line, of how many seconds, all sums that
were done in it, a second, and whether the last one is right."""
import os
import socket
import subprocess
import sys
import time
from datetime import timedelta

from hold import MIB, say

import torch
import torch.distributed as dist

RANKS, BYTES, AT_ONCE = 2, 64 * MIB, 16


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def sums(rank, group, seconds):
    """Rank 0's clock counts."""
    tensor = torch.empty(BYTES // 4, device="cuda")
    go_on, n, begin = torch.ones(1), 0, time.monotonic()
    while go_on.item():
        for _ in range(AT_ONCE):
            tensor.fill_(rank + 1)
            dist.all_reduce(tensor)
        torch.cuda.synchronize()
        n += AT_ONCE
        go_on[0] = time.monotonic() < begin + seconds
        dist.broadcast(go_on, 0, group=group)
    return n / (time.monotonic() - begin), int((tensor != sum(range(1, RANKS + 1))).sum().item())


def run(rank, port):
    torch.cuda.set_device(rank)
    limit = timedelta(seconds=120)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                            world_size=RANKS, timeout=limit)
    group = dist.new_group(backend="gloo", timeout=limit)
    rate, wrong = sums(rank, group, 0.2)
    if rank == 0:
        say("ready", wrong=wrong)
    told = torch.zeros(1)
    while True:
        if rank == 0:
            told[0] = float(sys.stdin.readline() or 0)
        dist.broadcast(told, 0, group=group)
        if not told.item():
            break
        rate, wrong = sums(rank, group, told.item())
        all_wrong = torch.tensor([float(wrong)])
        dist.all_reduce(all_wrong, group=group)
        if rank == 0:
            say("summed", rate=rate, wrong=int(all_wrong.item()))
    dist.destroy_process_group()


def main():
    if len(sys.argv) == 3:
        run(int(sys.argv[1]), sys.argv[2])
        return
    os.environ["NCCL_NVLS_ENABLE"] = "0"  # its memory is bound to a multicast object
    port = str(free_port())
    with subprocess.Popen([sys.executable, __file__, "1", port], stdin=subprocess.DEVNULL) as other:
        run(0, port)
        other.wait(30)


if __name__ == "__main__":
    main()
