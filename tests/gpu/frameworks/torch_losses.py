# SPDX-License-Identifier: Apache-2.0
"""A language model's training as people run it, every loss of which is looked at: torch_losses.py
SECONDS. GPT-2's shape, autocast to bf16, a fused AdamW, and batches that forked workers make, which
a thread of PyTorch's copies to pinned memory. Says "ready", and after a line on its input "losses":
the loss of each step, how many of the batches were not what the worker made, and which parameters
are not finite at the end. It waits for the device after each fourth step alone."""
import sys
import time

from hold import say

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel

WORDS, LENGTH, BATCH, WARM = 50257, 512, 16, 8


class Batches(Dataset):
    """Row i is the same in every run; its last word is the sum of the others."""

    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        row = torch.randint(WORDS, (LENGTH,), generator=torch.Generator().manual_seed(i))
        row[-1] = row[:-1].sum() % WORDS
        return row


def main():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config()).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    batches = iter(DataLoader(Batches(), batch_size=BATCH, num_workers=2, pin_memory=True))
    losses, wrong = [], torch.zeros((), dtype=torch.int64, device="cuda")

    def step():
        x = next(batches).cuda(non_blocking=True)
        wrong.add_((x[:, :-1].sum(1) % WORDS != x[:, -1]).sum())
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x, labels=x).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())

    for _ in range(WARM):
        step()
    torch.cuda.synchronize()
    say("ready")
    sys.stdin.readline()
    until = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < until:
        step()
        if len(losses) % 4 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    say("losses", losses=[loss.item() for loss in losses], wrong=wrong.item(),
        unfinite=[name for name, p in model.named_parameters() if not p.isfinite().all().item()])
    sys.stdin.readline()


if __name__ == "__main__":
    main()
