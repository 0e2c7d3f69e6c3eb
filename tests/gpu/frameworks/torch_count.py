# SPDX-License-Identifier: Apache-2.0
"""Kernels whose every launch counts: torch_count.py MIB. After a line on its input adds 1 to each
word of so much memory again and again, by a CUDA graph and by a kernel alone in turns, until the
next line. Then all words must be what was launched: none is lost, and none was done twice."""
import os
import select
import sys

from hold import MIB, say

import torch

IN_FLIGHT = 16


def main():
    x = torch.zeros(int(sys.argv[1]) * MIB // 4, dtype=torch.int32, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.add_(1)
    torch.cuda.current_stream().wait_stream(side)
    graph, done = torch.cuda.CUDAGraph(), 1
    with torch.cuda.graph(graph):
        x.add_(1)
    say("ready", pid=os.getpid())
    sys.stdin.readline()
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(IN_FLIGHT):
            graph.replay()
            x.add_(1)
        done += 2 * IN_FLIGHT
        torch.cuda.synchronize()
    say("counted", launched=done, wrong=int((x != done).sum(dtype=torch.int64)))
    sys.stdin.readline()


main()
