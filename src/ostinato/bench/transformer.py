"""A small transformer decoder with a cache of keys and values, called eagerly by PyTorch, for streaming beside it.

`python -m ostinato.bench.transformer SPEC`, driven as serve.py says; `context`: how many words it has read before.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ostinato.bench.serve import Channel, time_steps


@dataclass(frozen=True)
class TransformerCase:
    """Sizes; the feed-forward blocks are four times as wide."""

    width: int = 448
    heads: int = 7
    layers: int = 2
    vocabulary: int = 10_000

    @property
    def parameters(self) -> int:
        """Numbers learnt, with tied embeddings."""
        layer = 12 * self.width**2 + 13 * self.width  # four square matrices, two of four times that; biases, two norms
        return self.vocabulary * (self.width + 1) + self.layers * layer + 2 * self.width

    def cache_bytes(self, context: int, size: int) -> int:
        """Of one session that has read so many words, numbers of `size` bytes."""
        return 2 * self.layers * self.width * context * size


class Layer(nn.Module):
    """x + attention(norm(x)), then x + W2 gelu(W1 norm(x)) [Vaswani2017], norms before as is usual today."""

    def __init__(self, case: TransformerCase):
        super().__init__()
        width, self.heads = case.width, case.heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.read, self.write = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, cache: Tensor, position: int) -> Tensor:
        """Read x [D] at its position; cache [2, heads, T, D / heads] gets its key and value."""
        query, key, value = self.read(self.before(x)).view(3, self.heads, 1, -1)
        cache[0, :, position : position + 1] = key
        cache[1, :, position : position + 1] = value
        known = cache[:, None, :, : position + 1]
        seen = nn.functional.scaled_dot_product_attention(query[None], known[0], known[1])
        x = x + self.write(seen.reshape(-1))
        inner: Tensor = nn.functional.gelu(self.inner(self.between(x)))
        outer: Tensor = self.outer(inner)
        return x + outer


class Transformer(nn.Module):
    """Word vectors and sinusoids, layers, a norm, and a softmax over the same vectors."""

    def __init__(self, case: TransformerCase, longest: int):
        super().__init__()
        self.embedding = nn.Embedding(case.vocabulary, case.width)
        self.bias = nn.Parameter(torch.zeros(case.vocabulary))
        self.layers = nn.ModuleList(Layer(case) for _ in range(case.layers))
        self.norm = nn.LayerNorm(case.width)
        angles = torch.arange(longest)[:, None] * 10_000 ** (-torch.arange(0, case.width, 2) / case.width)
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], dim=1), persistent=False)

    def forward(self, word: Tensor, caches: list[Tensor], position: int) -> Tensor:
        """Log-probs [V] after a word at its position."""
        x = self.embedding(word) + self.get_buffer("positions")[position]
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache, position)
        return torch.log_softmax(nn.functional.linear(self.norm(x), self.embedding.weight, self.bias).float(), dim=-1)


def serve(case: TransformerCase, precision: str, threads: int, longest: int) -> None:
    """Step in blocks, always with a context of the asked length."""
    channel = Channel()
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    model = Transformer(case, longest).eval().to(kind)
    caches = [torch.randn(2, case.heads, longest, case.width // case.heads).to(kind) for _ in range(case.layers)]
    words = torch.randint(case.vocabulary, (4096,))
    facts = {"parameters": sum(parameter.numel() for parameter in model.parameters())}
    for request in channel.requests():
        position = request["context"] - 1

        def step(number: int, position: int = position) -> Any:
            return model(words[number % len(words)], caches, position)

        channel.say(time_steps(step, request["seconds"]) | facts)


if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    serve(TransformerCase(**spec["case"]), spec["engine"], spec["threads"], spec["longest"])
