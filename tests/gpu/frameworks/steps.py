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
