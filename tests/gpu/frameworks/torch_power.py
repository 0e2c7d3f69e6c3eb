# SPDX-License-Identifier: Apache-2.0
"""python torch_power.py KIND: does the same thing again and again from "go" to the end of its input, and
says when how much of it was done."""
import json
import select
import sys
import time

import torch

kind = sys.argv[1]
if kind == "copy":
    a = torch.empty(1 << 29, device="cuda", dtype=torch.uint8)
    b = torch.empty_like(a)
    once = [lambda: b.copy_(a)] * 16
elif kind == "single":
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randn(2048, 2048, device="cuda") for _ in range(2))
    out = torch.empty_like(a)
    once = [lambda: torch.mm(a, b, out=out)] * 12
elif kind == "cached":
    a = torch.randn(1 << 20, device="cuda")
    once = [lambda: torch.sin_(a)] * 200
else:
    a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    once = [lambda: torch.mm(a, b, out=out)] * 20

for step in once:
    step()
torch.cuda.synchronize()
print(json.dumps({"stage": "ready"}), flush=True)
sys.stdin.readline()
done, marks = 0, []
while not select.select([sys.stdin], [], [], 0)[0]:
    for step in once:
        step()
    torch.cuda.synchronize()
    done += len(once)
    marks.append((time.monotonic(), done))
print(json.dumps({"stage": "done", "marks": marks}), flush=True)
