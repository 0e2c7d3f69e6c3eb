# SPDX-License-Identifier: Apache-2.0
"""CuPy; "async" as argument: with the stream-ordered pool."""
import sys

import cupy

from hold import MIB, main

if sys.argv[1:] == ["async"]:
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)


def compute():
    x = cupy.arange(4096, dtype=cupy.float32).reshape(64, 64)
    y = (x @ x).sum() + cupy.sqrt(x).mean()
    return bool(cupy.isfinite(y).item()) and int(cupy.arange(1000).sum()) == 499500


def warm():
    compute()
    compute()


def is_oom(error):
    return (isinstance(error, cupy.cuda.memory.OutOfMemoryError)
            or "cudaErrorMemoryAllocation" in str(error))


main(warm, cupy.cuda.runtime.memGetInfo, lambda count: cupy.empty(count, dtype=cupy.uint8),
     (64 * MIB, 8 * MIB, 2 * MIB), is_oom, compute)
