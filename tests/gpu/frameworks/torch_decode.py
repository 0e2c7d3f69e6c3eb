# SPDX-License-Identifier: Apache-2.0
"""The token loop of loop_tokens.py as a sequence that can be compared: torch_decode.py TOKENS. Each
line that it is told makes one of so many tokens for each of four prompts, from the same start, by
one CUDA graph for a step; all while it says how far it is. At the end of each it says the tokens,
and sums over keys and values and over all weights, which one wrong bit would change."""
import os
import sys

from hold import say

import torch

from loop_tokens import Decoder, captured

BATCH, SAID = 4, 50  # tokens, behind which it says where it is


def total(tensor):
    """Of its bits, as whole numbers."""
    return int(tensor.view(torch.int16).sum(dtype=torch.int64))


@torch.no_grad()
def main():
    count = int(sys.argv[1])
    decoder = Decoder(36, 3072, 8192, 256)
    state = decoder.state(BATCH)
    graph = captured(lambda: decoder.step(state))
    weights = [decoder.embedding, decoder.head, *(w for layer in decoder.layers for w in layer)]
    caches = [cache for pair in state["caches"] for cache in pair]
    prompts = torch.arange(1, BATCH + 1, device="cuda") * 1009
    say("ready", pid=os.getpid(), held=torch.cuda.memory_reserved())
    for _ in sys.stdin:
        for cache in caches:
            cache.zero_()
        state["tokens"].copy_(prompts)
        state["at"].zero_()
        tokens = []
        for i in range(count):
            graph.replay()
            tokens.append(state["tokens"].tolist())
            if (i + 1) % SAID == 0:
                say("decoding", tokens=i + 1)
        say("decoded", tokens=tokens, caches=[total(cache) for cache in caches],
            weights=[total(w) for w in weights])


main()
