# SPDX-License-Identifier: Apache-2.0
"""A CUDA graph of PyTorch with a host function in its middle ("waits"), and the same without it
("plain"). For each line, which names one of them, the program replays it and says how long that
took, by its own clock and by events."""
import ctypes
import sys
import time

from hold import say

import torch

REPLAYS, NAP_US, SIZE, PRODUCTS = 50, 5000, 4096, 5


def nap(stream, driver=ctypes.CDLL("libcuda.so.1"), libc=ctypes.CDLL(None)):
    """Has the stream wait for a function of the host, libc's usleep: Python's lock is not in it."""
    launch = driver.cuLaunchHostFunc
    launch.argtypes = [ctypes.c_void_p] * 3
    error = launch(stream.cuda_stream, ctypes.cast(libc.usleep, ctypes.c_void_p), NAP_US)
    if error:
        raise RuntimeError(f"cuLaunchHostFunc: {error}")


def capture(a, b, out, waits):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for half in range(2):
            if half and waits:
                nap(torch.cuda.current_stream())
            for _ in range(PRODUCTS):
                torch.mm(a, b, out=out)
    return graph


def replayed(graph):
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    began = time.monotonic()
    events[0].record()
    for _ in range(REPLAYS):
        graph.replay()
    events[1].record()
    torch.cuda.synchronize()
    took = time.monotonic() - began
    say("replayed", replays=REPLAYS, ms=1e3 * took, device_ms=events[0].elapsed_time(events[1]),
        nap_ms=REPLAYS * NAP_US / 1e3)


def main():
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # cuBLAS makes what it needs before the capture
        for _ in range(3):
            torch.mm(a, b, out=out)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graphs = {word: capture(a, b, out, word == "waits") for word in ("plain", "waits")}
    for graph in graphs.values():
        for _ in range(5):
            graph.replay()
    torch.cuda.synchronize()
    say("ready")
    for line in sys.stdin:
        replayed(graphs[line.strip()])


if __name__ == "__main__":
    main()
