# SPDX-License-Identifier: Apache-2.0
"""PyTorch's programs for loop.py."""
import itertools

import torch
from torch.nn import functional

import steps

ATTENTION = (128, 512, 2048, 8192, 16384)


def under_way():
    """What loop.py waits for some steps later, as a program does that prints its loss now and
    then."""
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event.synchronize


def matmul():
    """Products without an end, of which some are always queued."""
    a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)

    def step():
        for _ in range(8):
            torch.mm(a, b, out=out)
        return under_way()

    return {"matmul": step}, torch.cuda.synchronize


def train():
    step = steps.transformer(128)

    def one():
        step()
        return under_way()

    return {"train": one}, torch.cuda.synchronize


def encoder(layers, width):
    layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
    return torch.nn.Sequential(
        torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False),
        torch.nn.Linear(width, width)).cuda()


def amp():
    """Eager training in mixed precision; the scaler asks for a figure in each step."""
    torch.manual_seed(0)
    model = encoder(4, 512)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda")
    x, y = (torch.randn(128, 256, 512, device="cuda") for _ in range(2))

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = functional.mse_loss(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        loss.item()

    return {"amp": step}, torch.cuda.synchronize


def compiled():
    """A step of training whose kernels torch.compile wrote."""
    torch.manual_seed(0)
    width = 1024
    model = torch.nn.Sequential(*itertools.chain.from_iterable(
        (torch.nn.LayerNorm(width), torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
         torch.nn.Linear(4 * width, width)) for _ in range(4))).cuda().to(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=True)
    fast = torch.compile(model)
    x, y = (torch.randn(16384, width, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = functional.mse_loss(fast(x), y)
        loss.backward()
        optimizer.step()
        return under_way()

    return {"compile": step}, torch.cuda.synchronize


def sdpa():
    """Attention over short and long sequences by turns: one function, and a thousandfold length."""
    inputs = [tuple(torch.randn(1, 16, length, 64, device="cuda", dtype=torch.bfloat16)
                    for _ in range(3)) for length in ATTENTION]

    def step():
        for q, k, v in inputs:
            functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            functional.scaled_dot_product_attention(*inputs[0], is_causal=True)
        torch.cuda.synchronize()

    return {"sdpa": step}, torch.cuda.synchronize


def small():
    """A request to a small model, about 0.14 ms: a graph, and a synchronization."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*itertools.chain.from_iterable(
        (torch.nn.Linear(1024, 1024), torch.nn.ReLU()) for _ in range(16)))
    model = model.to(device="cuda", dtype=torch.float16).eval()
    x = torch.randn(64, 1024, device="cuda", dtype=torch.float16)
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.no_grad():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(x)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            model(x)

    def step():
        graph.replay()
        torch.cuda.synchronize()

    return {"small": step}, torch.cuda.synchronize
