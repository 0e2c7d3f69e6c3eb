# SPDX-License-Identifier: Apache-2.0
"""PyTorch with a CUDA graph, captured before the device is full and replayed when it was."""
import torch

from hold import main
from torch_common import STEPS, allocate, is_oom, see, warm

captured = {}


def capture():
    warm()
    a = torch.ones(512, 512, device="cuda")
    b = torch.full((512, 512), 0.5, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            (a @ b).relu().sum()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = (a @ b).relu().sum()
    captured.update(graph=graph, a=a, result=result)


def replay():
    for scale in (1.0, 2.0):
        captured["a"].fill_(scale)
        captured["graph"].replay()
        torch.cuda.synchronize()
        if captured["result"].item() != 512 * 512 * 512 * 0.5 * scale:
            return False
    return True


main(capture, see, allocate, STEPS, is_oom, replay)
