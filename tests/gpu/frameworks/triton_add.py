# SPDX-License-Identifier: Apache-2.0
"""A Triton kernel on PyTorch's tensors."""
import torch
import triton
import triton.language as tl

from hold import main
from torch_common import STEPS, allocate, is_oom, see


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def compute():
    n = 100_003
    x, y = torch.arange(n, device="cuda"), torch.ones(n, device="cuda", dtype=torch.int64)
    out = torch.empty_like(x)
    add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return bool((out == x + 1).all().item())


main(compute, see, allocate, STEPS, is_oom, compute)
