"""What models cost, by formula. No torch here: the command line and the lab print these; a test counts real modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
"""Products of the input and of the hidden state in each kind of cell."""

Recurrent: TypeAlias = Literal["rnn", "gru", "lstm"]
Directions: TypeAlias = Literal[1, 2]
FLOAT, ID = 4, 8  # bytes


@dataclass(frozen=True)
class Sizes:
    """What is counted for: |V| words, embeddings of d, h hidden units in each layer, a text of T tokens, order n."""

    vocabulary: int = 248_320
    embedding: int = 512
    hidden: int = 512
    layers: int = 1
    length: int = 100
    order: int = 5


@dataclass(frozen=True)
class Cost:
    """What one model costs.

    formula: of `core`, for one layer; _ lowers and ^ raises.
    parameters: numbers that are learnt, of these `core` between the embedding and the output layer.
    state_bytes: what a stream keeps from token to token, ids of 8 bytes and numbers of 4.
    serial_steps: how many steps must wait for one another to read T tokens, however many processors there are.
    longest_path: steps between the output and the farthest token that it can see, `reach` tokens back.
    multiply_adds: of matrix products for one token, the last of T.
    Source: serial steps, paths and multiply-adds as in [Vaswani2017] table 1.
    """

    name: str
    formula: str
    parameters: int
    core: int
    state_bytes: int
    serial_steps: int
    longest_path: int
    reach: int
    multiply_adds: int


def ngram(sizes: Sizes, order: int) -> Cost:
    """A full table of the probabilities of n words in a row: |V|^n. Real tables keep only what was seen."""
    entries: int = sizes.vocabulary**order
    return Cost(f"{order}-gram", f"|V|^{order}", entries, entries, ID * (order - 1), 1, 1, order - 1, 0)


def nplm(sizes: Sizes) -> Cost:
    """The feed-forward model: h tanh units on n - 1 embeddings. Source: [Bengio2003] without direct connections."""
    window = sizes.order - 1
    weights = window * sizes.embedding * sizes.hidden
    core = weights + sizes.hidden
    whole = core + outside(sizes, sizes.hidden)
    products = weights + sizes.hidden * sizes.vocabulary
    return Cost("nplm", "((n − 1)·d + 1)·h", whole, core, ID * window, 1, 1, window, products)


def cell(kind: Recurrent, read: int, hidden: int, biases: Literal[0, 1, 2] = 1) -> int:
    """One recurrent cell: g (h d + h^2 + b h), g = 1, 3 or 4, with b biases to a gate; torch.nn has 2."""
    return GATES[kind] * (hidden * read + hidden * hidden + biases * hidden)


def stack(kind: Recurrent, sizes: Sizes, biases: Literal[0, 1, 2] = 1, directions: Directions = 1) -> int:
    """The cells of all layers; without biases it is the multiply-adds of a token too."""
    reads = [sizes.embedding] + [directions * sizes.hidden] * (sizes.layers - 1)
    return directions * sum(cell(kind, read, sizes.hidden, biases) for read in reads)


def recurrent(name: str, kind: Recurrent, sizes: Sizes, biases: Literal[1, 2] = 1, directions: Directions = 1) -> Cost:
    """Embedding, stack and output layer. In both directions every layer waits for the whole one below."""
    core, width = stack(kind, sizes, biases, directions), directions * sizes.hidden
    kept = (2 if kind == "lstm" else 1) * sizes.layers * width * FLOAT
    steps = sizes.length + sizes.layers - 1 if directions == 1 else sizes.length * sizes.layers
    products = stack(kind, sizes, 0, directions) + width * sizes.vocabulary
    times = GATES[kind] * directions
    inner = f"h·d + h^2 + {'h' if biases == 1 else '2·h'}"
    formula = inner if times == 1 else f"{times}·({inner})"
    return Cost(name, formula, core + outside(sizes, width), core, kept, steps, steps, sizes.length, products)


def self_attention(sizes: Sizes) -> Cost:
    """Layers of self-attention as wide as the embedding, and nothing else: 4 d^2 + 4 d each. It keeps all it read."""
    d, layers, length = sizes.embedding, sizes.layers, sizes.length
    core = layers * (4 * d * d + 4 * d)
    products = layers * (4 * d * d + 2 * length * d) + d * sizes.vocabulary
    kept = layers * 2 * length * d * FLOAT
    whole = core + outside(sizes, d)
    return Cost("self-attention", "4·d^2 + 4·d", whole, core, kept, layers, layers, length, products)


def outside(sizes: Sizes, width: int) -> int:
    """Embedding and output layer, not tied: |V| words come out; a start symbol and padding can be read too."""
    return (sizes.vocabulary + 2) * sizes.embedding + (width + 1) * sizes.vocabulary


def attentions(query: int, value: int, size: int) -> dict[str, int]:
    """Attention from a decoder to an encoder, by kind: additive W, U, b, v; scaled-dot W, U; general W; dot none."""
    return {
        "additive": query * size + value * size + size + size,
        "scaled-dot": query * size + value * size,
        "general": query * value,
        "dot": 0,
    }


def costs(sizes: Sizes) -> list[Cost]:
    """All models, the tables first."""
    return [
        *(ngram(sizes, order) for order in sorted({2, 3, 5, sizes.order})),
        nplm(sizes),
        recurrent("rnn", "rnn", sizes),
        recurrent("gru", "gru", sizes),
        recurrent("gru-two-biases", "gru", sizes, 2),
        recurrent("lstm", "lstm", sizes),
        recurrent("lstm-two-biases", "lstm", sizes, 2),
        recurrent("lstm-both-ways", "lstm", sizes, 1, 2),
        self_attention(sizes),
    ]
