# SPDX-License-Identifier: Apache-2.0
"""PyTorch as a load: torch_load.py MODE SECONDS. Says "ready", starts at the instant
(CLOCK_MONOTONIC, ns) that a line on its input names, and says how many iterations were done in each
tenth of a second, as parts of what one iteration takes here: the same words as allot-load's."""
import json
import queue
import sys
import threading
import time

import steps
import torch

IN_FLIGHT = 8


def product(make):
    a, b = (make(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)


def matmul():
    return product(torch.randn)


def matmul_zeros():
    """The same work for less power: bits that do not change take little."""
    return product(torch.zeros)


def training(batch=128):
    """The device takes 15 ms for a step of the smaller batch, and the host of some machines hardly
    less to launch it, so that it does not get ahead again after a pause. With the larger one the
    device is the slower side by far."""
    return steps.transformer(batch)


def captured():
    step = training()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


MODES = {"matmul": matmul, "matmul-zeros": matmul_zeros, "train": training,
         "train-large": lambda: training(256), "train-graph": captured}


def watch(events, room, stamps):
    """Notes when iterations were done, while the one that launches may be held."""
    while (event := events.get()) is not None:
        event.synchronize()
        stamps.append(time.monotonic())
        room.release()


def main():
    mode, seconds = sys.argv[1], float(sys.argv[2])
    step = MODES[mode]()
    took = steps.measure(step)
    print(json.dumps({"stage": "ready", "iteration_ms": 1e3 * took}), flush=True)
    start = int(sys.stdin.readline()) / 1e9
    stamps, events, room = [], queue.Queue(), threading.Semaphore(IN_FLIGHT)
    watcher = threading.Thread(target=watch, args=(events, room, stamps))
    watcher.start()
    time.sleep(max(0, start - time.monotonic()))
    cpu = time.process_time()
    while time.monotonic() < start + seconds:
        room.acquire()
        step()
        event = torch.cuda.Event(blocking=True)
        event.record()
        events.put(event)
    cpu = time.process_time() - cpu
    events.put(None)
    watcher.join()
    bins = [round(rate * took, 5)
            for rate in steps.spread([stamp - start for stamp in stamps], 1, seconds)]
    print(json.dumps({"stage": "load", "mode": mode, "iteration_ms": 1e3 * took, "bin_ms": 100,
                      "cpu_seconds": cpu, "bins": bins}), flush=True)


main()
