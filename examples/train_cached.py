#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a network with PyTorch whose examples stay in GPU memory as far as there is room: half of the
tenant's quota, also when that changes, and nothing while the tenant is suspended.

    allot run --swappable --memory 8GiB --name train -- examples/train_cached.py &
    allot set train --memory 3GiB
    allot suspend --notice 5s train
    allot resume train
"""
import argparse
import threading
import time

import allot_tenant
import torch

ROWS, COLUMNS, BLOCKS = 4096, 1024, 1024  # 16 MiB a block, 16 GiB in all


SIZE = ROWS * COLUMNS * 4


class Cache:
    """Blocks of examples on the device, as many as there is room for: all are used in turn, so those that
    came first stay."""

    def __init__(self):
        self.blocks, self.limit, self.lock = {}, 256 << 20, threading.Lock()

    def get(self, i):
        with self.lock:
            block = self.blocks.get(i)
        if block is None:
            made = torch.Generator().manual_seed(i)
            block = torch.rand(ROWS, COLUMNS, generator=made).cuda()
            with self.lock:
                if len(self.blocks) * SIZE + SIZE <= self.limit:
                    self.blocks[i] = block
        return block

    def shrink(self, limit):
        """Returns true if a block was dropped. One that is in use goes with its last use."""
        with self.lock:
            before = len(self.blocks)
            while self.blocks and len(self.blocks) * SIZE > limit:
                self.blocks.popitem()
            return len(self.blocks) < before

    def follow(self, state, _):
        """Called in a thread of its own at the start, and when the tenant's limits or place change."""
        self.limit = 0 if state.notice_ns else state.limit_bytes // 2 or 256 << 20
        if self.shrink(self.limit):
            torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="default: without end")
    end = time.monotonic() + parser.parse_args().seconds
    cache = Cache()
    allot_tenant.watch(cache.follow, notice=True)
    model = torch.nn.Sequential(torch.nn.Linear(COLUMNS, 2048), torch.nn.ReLU(),
                                torch.nn.Linear(2048, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    steps, said = 0, time.monotonic()
    while time.monotonic() < end:
        x = cache.get(steps % BLOCKS)
        loss = torch.nn.functional.mse_loss(model(x), x.mean(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        if time.monotonic() >= said + 1:
            said += 1
            print(f"{steps} steps, loss {loss.item():.6f}, {len(cache.blocks) * SIZE >> 20} MiB cached", flush=True)


if __name__ == "__main__":
    main()
