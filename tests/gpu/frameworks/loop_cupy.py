# SPDX-License-Identifier: Apache-2.0
"""CuPy's loop for loop.py: brief kernels, one long one, and a figure for the host."""
import cupy

SIDE, LONG = 2048, 1 << 26


def arrays():
    a = cupy.random.rand(SIDE, SIDE, dtype=cupy.float32)
    b = cupy.random.rand(SIDE, SIDE, dtype=cupy.float32)
    x = cupy.random.rand(LONG, dtype=cupy.float32)

    def step():
        c = a @ b
        for _ in range(10):
            c = cupy.tanh(c) + 0.5
        float((cupy.sqrt(x) * 2 + x).sum() + c[0, 0])

    return {"cupy": step}, cupy.cuda.runtime.deviceSynchronize
