# SPDX-License-Identifier: Apache-2.0
"""A tensor that two processes have, by torch.multiprocessing. For each line that it is told, both
look at all of it, and the one that got it adds 1, which the other one is to see."""
import os
import sys

from hold import MIB, say

import torch
import torch.multiprocessing as mp

BYTES = 256 * MIB


def other(queue, pipe):
    tensor = queue.get()
    pipe.send(os.getpid())
    for step in iter(pipe.recv, None):
        good = bool((tensor == step).all().item())
        tensor.add_(1)
        torch.cuda.synchronize()
        pipe.send(good)
    del tensor


def main():
    context = mp.get_context("spawn")
    queue, (pipe, end) = context.Queue(), context.Pipe()
    process = context.Process(target=other, args=(queue, end))
    process.start()
    tensor = torch.zeros(BYTES // 4, dtype=torch.int32, device="cuda")
    queue.put(tensor)
    say("shared", pids=[os.getpid(), pipe.recv()], bytes=BYTES)
    for step, _ in enumerate(sys.stdin):
        pipe.send(step)
        theirs = pipe.recv()
        say("looked", wrong=int(not theirs) + int(not bool((tensor == step + 1).all().item())))
    pipe.send(None)
    process.join(20)


if __name__ == "__main__":
    main()
