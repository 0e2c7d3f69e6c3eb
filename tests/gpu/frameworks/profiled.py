# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's profiler sees of a program: how many kernels, and for how long."""
import json

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

ROUNDS = 20

a = torch.randn(1024, 1024, device="cuda")


def work():
    x = a
    for _ in range(ROUNDS):
        x = (x @ a).relu()
    torch.cuda.synchronize()


work()
work()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
    work()
kernels = [e for e in seen.events() if e.device_type == DeviceType.CUDA]
print(json.dumps({"stage": "profiled", "kernels": len(kernels),
                  "names": sorted({e.name for e in kernels})[:20],
                  "us": sum(e.time_range.elapsed_us() for e in kernels)}), flush=True)
