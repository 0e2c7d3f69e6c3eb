# SPDX-License-Identifier: Apache-2.0
"""A decoder's token loop, as inference servers run it: a step of decoding as one CUDA graph,
replayed for each token, and a small copy to the host. The weights are random; the shapes and the
kernels are those of a language model."""
import math

import torch
from torch.nn import functional

VOCABULARY = 32000
HEAD = 128


class Decoder:
    """`layers` times attention over `length` positions and a gated feed-forward, in bf16."""

    def __init__(self, layers, hidden, inner, length):
        def matrix(rows, columns):
            return torch.randn(rows, columns, device="cuda",
                               dtype=torch.bfloat16) / math.sqrt(rows)

        torch.manual_seed(0)
        self.hidden, self.length, self.heads = hidden, length, hidden // HEAD
        self.embedding = matrix(VOCABULARY, hidden)
        self.head = matrix(hidden, VOCABULARY)
        self.norm = torch.ones(hidden, device="cuda", dtype=torch.bfloat16)
        self.layers = [(matrix(hidden, 3 * hidden), matrix(hidden, hidden),
                        matrix(hidden, 2 * inner), matrix(inner, hidden)) for _ in range(layers)]
        self.places = torch.arange(length, device="cuda")

    def state(self, batch):
        """What a batch of sequences holds: tokens, where they are, keys and values."""
        def cache():
            return torch.zeros(batch, self.heads, self.length, HEAD, device="cuda",
                               dtype=torch.bfloat16)

        return {"tokens": torch.zeros(batch, device="cuda", dtype=torch.int64),
                "at": torch.zeros(1, device="cuda", dtype=torch.int64),
                "caches": [(cache(), cache()) for _ in self.layers]}

    def normal(self, x):
        return functional.rms_norm(x, (self.hidden,), self.norm)

    def step(self, state):
        batch, at = state["tokens"].shape[0], state["at"]
        seen = (self.places <= at).view(1, 1, 1, -1)
        x = functional.embedding(state["tokens"], self.embedding)
        for (project, out, inner, outer), (keys, values) in zip(self.layers, state["caches"]):
            q, k, v = (self.normal(x) @ project).view(batch, 3, self.heads, HEAD).unbind(1)
            keys.index_copy_(2, at, k.unsqueeze(2))
            values.index_copy_(2, at, v.unsqueeze(2))
            found = functional.scaled_dot_product_attention(q.unsqueeze(2), keys, values,
                                                            attn_mask=seen)
            x = x + found.reshape(batch, self.hidden) @ out
            gate, up = (self.normal(x) @ inner).chunk(2, dim=-1)
            x = x + (functional.silu(gate) * up) @ outer
        state["tokens"].copy_((self.normal(x) @ self.head).argmax(dim=-1))
        at.add_(1).remainder_(self.length)


def captured(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


@torch.no_grad()
def loops(decoder, batches):
    """{batchN: a token for each sequence, by a graph}, {eagerN: the same kernel by kernel}"""
    graphs, eager = {}, {}
    for batch in batches:
        state = decoder.state(batch)

        def plain(state=state):
            with torch.no_grad():
                decoder.step(state)
            state["tokens"].tolist()

        def replayed(state=state, graph=captured(lambda state=state: decoder.step(state))):
            graph.replay()
            state["tokens"].tolist()

        graphs[f"batch{batch}"], eager[f"eager{batch}"] = replayed, plain
    return graphs, eager


def tokens():
    """3 to 4 ms a step on an H200: 8 GiB of weights are read for each."""
    graphs, eager = loops(Decoder(36, 3072, 8192, 256), (4, 16))
    return {**graphs, **eager}, torch.cuda.synchronize


def encoder():
    """BERT's size: one request of 128 words, and its answer."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, activation="gelu",
                                             batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    model = model.to(device="cuda", dtype=torch.float16).eval()
    words = torch.randn(1, 128, 768, device="cuda", dtype=torch.float16)

    def step():
        with torch.inference_mode():
            model(words)[0, 0, :8].tolist()

    return step


def serve():
    """Requests to an encoder, and to a small decoder that answers with 8 tokens."""
    graphs, _ = loops(Decoder(16, 1536, 4096, 128), (1,))
    token = graphs["batch1"]

    def answer():
        for _ in range(8):
            token()

    return {"encoder": encoder(), "decode": answer}, torch.cuda.synchronize
