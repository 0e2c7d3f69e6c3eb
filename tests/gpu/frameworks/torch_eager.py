# SPDX-License-Identifier: Apache-2.0
"""PyTorch, eager; its allocator is chosen by PYTORCH_CUDA_ALLOC_CONF."""
from hold import main
from torch_common import STEPS, allocate, is_oom, operations, see, warm

main(warm, see, allocate, STEPS, is_oom, operations)
