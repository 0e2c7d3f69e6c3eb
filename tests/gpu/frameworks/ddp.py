# SPDX-License-Identifier: Apache-2.0
"""PyTorch on two devices as a load: ddp.py MODEL SECONDS. Two ranks, a process and a device each,
train one model whose gradients NCCL sums. Says the same words as torch_load.py; a bin has the steps
that were done in it, a second."""
import json
import socket
import subprocess
import sys
import time
from collections import deque
from datetime import timedelta

import steps
import torch
import torch.distributed as dist

RANKS = 2
CHUNK_S = 0.02
IN_FLIGHT = 4  # chunks: the host launches ahead of the device, as programs do


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def parallel(model):
    return torch.nn.parallel.DistributedDataParallel(model,
                                                     device_ids=[torch.cuda.current_device()])


def wide(width=4096, batch=8192):
    """Nothing but large products: as much power as the device can draw."""
    torch.manual_seed(dist.get_rank())
    layers = [module for _ in range(4)
              for module in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    model = parallel(torch.nn.Sequential(*layers).to("cuda", torch.bfloat16))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(batch, width, device="cuda", dtype=torch.bfloat16)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    return step


MODELS = {"transformer": lambda: steps.transformer(256, parallel), "wide": wide}


def agree(value, group):
    """Rank 0's number, at all."""
    box = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(box, 0, group=group)
    return box.item()


def hear_start(chunk):
    print(json.dumps({"stage": "ready", "chunk": chunk}), flush=True)
    return int(sys.stdin.readline()) / 1e9


def work(step, rank, group, seconds):
    """Chunks of steps, some in flight; rank 0 says when it is enough. Answers when chunks were done,
    and steps of one."""
    chunk = max(1, int(agree(CHUNK_S / steps.measure(step), group)))
    start = agree(hear_start(chunk) if rank == 0 else 0, group)
    time.sleep(max(0, start - time.monotonic()))
    stamps, events = [], deque()
    while agree(time.monotonic() < start + seconds, group):
        for _ in range(chunk):
            step()
        events.append(torch.cuda.Event(blocking=True))
        events[-1].record()
        if len(events) == IN_FLIGHT:
            events.popleft().synchronize()
            stamps.append(time.monotonic() - start)
    torch.cuda.synchronize()
    return stamps, chunk


def run(model, seconds, rank, port):
    torch.cuda.set_device(rank)
    limit = timedelta(seconds=60)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                            world_size=RANKS, timeout=limit)
    group = dist.new_group(backend="gloo", timeout=limit)
    cpu = time.process_time()
    stamps, chunk = work(MODELS[model](), rank, group, seconds)
    if rank == 0:
        print(json.dumps({"stage": "load", "steps": chunk * len(stamps), "bin_ms": 100,
                          "cpu_seconds": time.process_time() - cpu,
                          "bins": steps.spread(stamps, chunk, seconds)}), flush=True)
    dist.destroy_process_group()


def main():
    """This process is rank 0, and starts the other."""
    model, seconds = sys.argv[1:3]
    if len(sys.argv) > 3:
        run(model, float(seconds), 1, int(sys.argv[3]))
        return
    port = free_port()
    with subprocess.Popen([sys.executable, __file__, model, seconds, str(port)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL):
        run(model, float(seconds), 0, port)


main()
