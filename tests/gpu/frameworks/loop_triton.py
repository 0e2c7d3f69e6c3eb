# SPDX-License-Identifier: Apache-2.0
"""Triton's persistent matrix product for loop.py: as many programs as the device has
multiprocessors, whatever there is to do, so that one function and one grid is brief and long by
turns."""
import torch
import triton
import triton.language as tl

ROWS = (256, 8192, 1024, 4096)
INNER, COLUMNS = 2048, 8192
BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64


@triton.jit
def product(a, b, c, m, n, k, programs: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr):
    across = n // BN
    tiles = (m // BM) * across
    for tile in range(tl.program_id(0), tiles, programs):
        row = (tile // across) * BM + tl.arange(0, BM)
        column = (tile % across) * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(0, k // BK):
            inner = step * BK + tl.arange(0, BK)
            left = tl.load(a + row[:, None] * k + inner[None, :])
            right = tl.load(b + inner[:, None] * n + column[None, :])
            total = tl.dot(left, right, total)
        tl.store(c + row[:, None] * n + column[None, :], total.to(tl.bfloat16))


def product_loop():
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    b = torch.randn(INNER, COLUMNS, device="cuda", dtype=torch.bfloat16)
    pairs = [(torch.randn(rows, INNER, device="cuda", dtype=torch.bfloat16),
              torch.empty(rows, COLUMNS, device="cuda", dtype=torch.bfloat16)) for rows in ROWS]

    def step():
        for a, c in pairs:
            product[(programs,)](a, b, c, a.shape[0], COLUMNS, INNER, programs, BLOCK_M, BLOCK_N,
                                 BLOCK_K, num_warps=8, num_stages=3)
        torch.cuda.synchronize()

    return {"triton": step}, torch.cuda.synchronize
