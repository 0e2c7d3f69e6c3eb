#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cache in GPU memory that keeps to its tenant's quota while that changes, and that is given back
before the tenant is suspended.

    allot run --swappable --memory 2GiB --name cache -- examples/cache.py &
    allot set cache --memory 1GiB
    allot suspend --notice 5s cache

Without a GPU: `allot sim -- allot run ...`. It works without a tenant, too: then nothing is limited."""
import argparse
import ctypes
import time

import allot_tenant

BLOCK = 16 << 20


class Cache:
    """Blocks of device memory, by CUDA's driver API. A program with PyTorch would drop tensors, and
    call torch.cuda.empty_cache()."""

    def __init__(self):
        self.cuda, self.blocks = ctypes.CDLL("libcuda.so.1"), []
        context = ctypes.c_void_p()
        if self.cuda.cuInit(0) or self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) \
                or self.cuda.cuCtxSetCurrent(context):
            raise SystemExit("no GPU")

    def fill(self, most):
        block = ctypes.c_uint64()
        while len(self.blocks) * BLOCK + BLOCK <= most:
            if self.cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(BLOCK)):
                break
            self.blocks.append(block.value)

    def shrink(self, most):
        while len(self.blocks) * BLOCK > most:
            self.cuda.cuMemFree_v2(ctypes.c_uint64(self.blocks.pop()))


def room(state):
    """Half of the quota is for the cache, or 256 MiB, where there is none. A device's own quota is
    known from its first use on."""
    quota = state.devices[0].limit_bytes if state.devices else state.limit_bytes
    return quota // 2 or 256 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="default: without end")
    end = time.monotonic() + parser.parse_args().seconds
    cache = Cache()
    with allot_tenant.Tenant() as tenant:
        tenant.listen()
        while time.monotonic() < end:
            state = tenant.get()
            if state.notice_ns:
                cache.shrink(0)
                print("given back", flush=True)
                tenant.ready()
            elif not state.suspended:
                cache.shrink(room(state))
                cache.fill(room(state))
                print(f"{len(cache.blocks) * BLOCK >> 20} MiB", flush=True)
            tenant.wait(min(3600, max(0, end - time.monotonic())))


if __name__ == "__main__":
    main()
