# SPDX-License-Identifier: Apache-2.0
"""A training whose every figure is the same each time: torch_train.py STEPS. Says "ready", and
after a line on its input the loss of each step, bit by bit, and at its end a digest of all
parameters and of what the optimizer holds."""
import hashlib
import os
import sys

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

from hold import say  # noqa: E402

import torch  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

WORDS, WIDTH, LENGTH, BATCH = 8192, 512, 256, 32


def main():
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.1, batch_first=True)
    model = torch.nn.Sequential(
        torch.nn.Embedding(WORDS, WIDTH),
        torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False),
        torch.nn.Linear(WIDTH, WIDTH)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    x = torch.randint(WORDS, (BATCH, LENGTH), device="cuda")
    y = torch.randn(BATCH, LENGTH, WIDTH, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with sdpa_kernel(SDPBackend.MATH), torch.autocast("cuda", dtype=torch.bfloat16):
            loss = functional.mse_loss(model(x).float(), y)
        loss.backward()
        optimizer.step()
        return loss

    step().item()
    say("ready", pid=os.getpid())
    sys.stdin.readline()
    for i in range(int(sys.argv[1])):
        say("step", step=i, loss=step().item().hex())
    digest = hashlib.sha256()
    for parameter in model.parameters():
        for tensor in (parameter, *optimizer.state[parameter].values()):
            digest.update(tensor.detach().cpu().numpy().tobytes())
    say("trained", digest=digest.hexdigest(), held=torch.cuda.memory_reserved())
    sys.stdin.readline()


main()
