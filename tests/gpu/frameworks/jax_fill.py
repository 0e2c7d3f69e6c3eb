# SPDX-License-Identifier: Apache-2.0
"""JAX; what it takes at its start is chosen by XLA_PYTHON_CLIENT_PREALLOCATE and _MEM_FRACTION.
What the device has is asked of the driver, since JAX tells only what its own pool has."""
import ctypes

import jax
import jax.numpy as jnp
import numpy

from hold import MIB, main

pieces = {}


@jax.jit
def step(x):
    return jnp.tanh(x @ x).sum() + jnp.sort(x, axis=0)[0, 0]


def compute():
    x = jnp.ones((256, 256), dtype=jnp.float32)
    return bool(numpy.isfinite(float(step(x))))


def warm():
    compute()
    compute()


def see():
    driver, free, total = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t(), ctypes.c_size_t()
    context = ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxPushCurrent_v2(context)
    driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    driver.cuDevicePrimaryCtxRelease_v2(0)
    return free.value, total.value


def allocate(count):
    """A copy from the host: no kernel to compile for each size."""
    if count not in pieces:
        pieces[count] = numpy.zeros(count, dtype=numpy.uint8)
    return jax.device_put(pieces[count]).block_until_ready()


def is_oom(error):
    return "RESOURCE_EXHAUSTED" in str(error)


main(warm, see, allocate, (64 * MIB, 8 * MIB, 2 * MIB), is_oom, compute)
