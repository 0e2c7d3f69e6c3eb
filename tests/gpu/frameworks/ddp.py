# SPDX-License-Identifier: Apache-2.0
"""PyTorch on two devices as a load: ddp.py SECONDS. Two ranks, a process and a device each, train
one model whose gradients NCCL sums. Says the same words as torch_load.py; a bin has the steps that
were done in it, a second."""
import json
import socket
import subprocess
import sys
import time
from datetime import timedelta

import steps
import torch
import torch.distributed as dist

RANKS = 2
CHUNK_S = 0.02
WIDTH, BATCH = 4096, 2048


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def training(rank):
    torch.manual_seed(rank)
    layers = [module for _ in range(4)
              for module in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers).to(rank, torch.bfloat16), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(BATCH, WIDTH, device=rank, dtype=torch.bfloat16)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    return step


def agree(value, group):
    """Rank 0's number, at all."""
    box = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(box, 0, group=group)
    return box.item()


def hear_start(chunk):
    print(json.dumps({"stage": "ready", "chunk": chunk}), flush=True)
    return int(sys.stdin.readline()) / 1e9


def work(step, rank, group, seconds):
    """Chunks of steps, one in flight while the next is launched; rank 0 says when it is enough.
    Answers when chunks were done, and steps of one."""
    chunk = max(1, int(agree(CHUNK_S / steps.measure(step), group)))
    start = agree(hear_start(chunk) if rank == 0 else 0, group)
    time.sleep(max(0, start - time.monotonic()))
    stamps, previous = [], None
    while agree(time.monotonic() < start + seconds, group):
        for _ in range(chunk):
            step()
        event = torch.cuda.Event(blocking=True)
        event.record()
        if previous:
            previous.synchronize()
            stamps.append(time.monotonic() - start)
        previous = event
    torch.cuda.synchronize()
    return stamps, chunk


def run(rank, port, seconds):
    torch.cuda.set_device(rank)
    limit = timedelta(seconds=60)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                            world_size=RANKS, timeout=limit)
    group = dist.new_group(backend="gloo", timeout=limit)
    cpu = time.process_time()
    stamps, chunk = work(training(rank), rank, group, seconds)
    if rank == 0:
        print(json.dumps({"stage": "load", "steps": chunk * len(stamps), "bin_ms": 100,
                          "cpu_seconds": time.process_time() - cpu,
                          "bins": steps.spread(stamps, chunk, seconds)}), flush=True)
    dist.destroy_process_group()


def main():
    """This process is rank 0, and starts the other."""
    seconds = sys.argv[1]
    if len(sys.argv) > 2:
        run(1, int(sys.argv[2]), float(seconds))
        return
    port = free_port()
    with subprocess.Popen([sys.executable, __file__, seconds, str(port)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL):
        run(0, port, float(seconds))


main()
