# SPDX-License-Identifier: Apache-2.0
"""numba's CUDA target."""
import numpy

if not hasattr(numpy, "row_stack"): # numba 0.6x names what numpy 2.5 dropped
    numpy.row_stack = numpy.vstack
from numba import cuda  # noqa: E402

from hold import MIB, main


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


def compute():
    x = cuda.to_device(numpy.arange(1024, dtype=numpy.float32))
    double[4, 256](x)
    return bool((x.copy_to_host() == 2 * numpy.arange(1024, dtype=numpy.float32)).all())


def see():
    info = cuda.current_context().get_memory_info()
    return int(info[0]), int(info[1])


def is_oom(error):
    return "OUT_OF_MEMORY" in str(error)


main(compute, see, lambda count: cuda.device_array(count, dtype=numpy.uint8),
     (64 * MIB, 8 * MIB, 2 * MIB), is_oom, compute)
