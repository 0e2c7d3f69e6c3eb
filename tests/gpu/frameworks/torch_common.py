# SPDX-License-Identifier: Apache-2.0
"""What the PyTorch programs share."""
import torch

from hold import MIB

# 20 MiB and less are cut from segments of 20 MiB, a MiB and less from segments of 2 MiB: so these
# three reach into every corner.
STEPS = (64 * MIB, 12 * MIB, MIB)


def operations():
    """A step of training: products (cuBLAS), convolution (cuDNN), reductions, random numbers."""
    torch.manual_seed(0)
    x = torch.randn(256, 256, device="cuda", requires_grad=True)
    image = torch.randn(4, 3, 32, 32, device="cuda")
    y = torch.nn.functional.conv2d(image, torch.randn(8, 3, 3, 3, device="cuda")).relu()
    loss = (x @ x).softmax(dim=1).sum() + y.mean()
    loss.backward()
    torch.cuda.synchronize()
    return bool(torch.isfinite(loss.detach()).item()) and bool((x.grad == x.grad).all().item())


def see():
    free, total = torch.cuda.mem_get_info()
    assert torch.cuda.get_device_properties(0).total_memory == total
    return free, total


def allocate(count):
    return torch.empty(count, dtype=torch.uint8, device="cuda")


def is_oom(error):
    return isinstance(error, torch.cuda.OutOfMemoryError)


def warm():
    """Twice: cuDNN and cuBLAS choose and load on the first call."""
    operations()
    operations()
    torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    torch.cuda.empty_cache()
