# SPDX-License-Identifier: Apache-2.0
"""Steps of PyTorch's work as a load: what one takes, and how many were done when."""
import time

import torch

BIN_S = 0.1


def measure(step):
    """Seconds that a step takes where steps follow each other."""
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    began = time.monotonic()
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    return (time.monotonic() - began) / 20


def transformer(batch, wrap=lambda model: model):
    """A step of training of a small transformer on the current device. `wrap` is given the model."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    model = wrap(torch.nn.Sequential(
        torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False),
        torch.nn.Linear(512, 512)).cuda())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    x, y = (torch.randn(batch, 256, 512, device="cuda") for _ in range(2))

    def step():
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    return step


def spread(stamps, steps, seconds):
    """Steps a second in each tenth of a second. `stamps`: when each further `steps` of them were
    done, in seconds from the start: they were done all through the time since the stamp before."""
    bins, last = [0.0] * int(seconds / BIN_S + 0.5), 0.0
    for stamp in stamps:
        rate = steps / max(stamp - last, 1e-9)
        for i in range(int(last / BIN_S), min(int(stamp / BIN_S) + 1, len(bins))):
            inside = min(stamp, (i + 1) * BIN_S) - max(last, i * BIN_S)
            bins[i] += rate * inside / BIN_S
        last = stamp
    return bins
