"""Vectors of words from how they are spelled, so that a word that was never seen has one too.

| reader | the vector of a word is                                                    |
|--------|----------------------------------------------------------------------------|
| `cnn`  | the largest value of each filter over windows of letters [Santos2014]      |
| `lstm` | the last states of an LSTM that reads the letters both ways [Ling2015]     |
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ostinato.core.registry import Registry
from ostinato.nn.networks import make_cell
from ostinato.nn.options import LSTMOptions
from ostinato.nn.pooling import Last, inside
from ostinato.nn.unroll import Stack


class Spellings(NamedTuple):
    """Words as they are spelled.

    letters: [W, L] ids, anything behind shorter words. lengths: [W], at least 1. affixes: [W, A] ids of their
    beginnings and ends. shapes: [W], how they are capitalised.
    """

    letters: Tensor
    lengths: Tensor
    affixes: Tensor
    shapes: Tensor


class Letters(nn.Module):
    """Turns letters [W, L] into vectors [W, output_size].

    letters: ids that can be read. size: of a letter's vector. hidden: filters, or hidden units of each direction.
    """

    output_size: int

    def __init__(self, letters: int, size: int, hidden: int):
        super().__init__()
        self.embedding = embedding(letters, size)

    def forward(self, letters: Tensor, lengths: Tensor) -> Tensor:
        """letters: [W, L]; lengths: [W], at least 1. What lies beyond a word's length takes no part."""
        raise NotImplementedError


readers: Registry[type[Letters]] = Registry("reader of letters")


@readers.register("cnn")
class LetterCNN(Letters):
    """Filters over windows of three letters, the largest value of each; outside of a word stand zeros.

    Source: [Santos2014] eq. 2-3; tanh as in [Chiu2016].
    """

    def __init__(self, letters: int, size: int, hidden: int):
        super().__init__(letters, size, hidden)
        self.filters = nn.Linear(3 * size, hidden)
        self.output_size = hidden

    def forward(self, letters: Tensor, lengths: Tensor) -> Tensor:
        kept, steps = inside(lengths, letters.shape[1])[:, :, None], letters.shape[1]
        around = nn.functional.pad(self.embedding(letters).masked_fill(~kept, 0), (0, 0, 1, 1))
        windows = torch.cat([around[:, at : at + steps] for at in range(3)], dim=-1)
        return torch.tanh(self.filters(windows).masked_fill(~kept, -torch.inf).amax(1))


@readers.register("lstm")
class LetterLSTM(Letters):
    """The last states of an LSTM in each direction. Source: [Ling2015] section 3."""

    def __init__(self, letters: int, size: int, hidden: int):
        super().__init__(letters, size, hidden)
        options = LSTMOptions(hidden=hidden, dropout=0.0, bidirectional=True)
        self.stack = Stack(partial(make_cell, "lstm", options), size, options)
        self.last = Last(2 * hidden, torch.arange(2 * hidden) >= hidden)
        self.output_size = 2 * hidden

    def forward(self, letters: Tensor, lengths: Tensor) -> Tensor:
        vectors: Tensor = self.last(self.stack.read(self.embedding(letters), lengths), lengths)
        return vectors


SHAPE_SIZE = 8
"""Numbers in the vector of a shape; there are few shapes."""


class Speller(nn.Module):
    """Vectors [W, output_size] of words by their letters, affixes and shape, whichever of them are read.

    reader: of letters, None for none. affixes, shapes: ids of each that can be read, 0 for none.
    """

    def __init__(self, reader: Letters | None, affixes: int, affix_size: int, shapes: int):
        super().__init__()
        self.reader = reader
        self.affixes = embedding(affixes, affix_size) if affixes else None
        self.shapes = embedding(shapes, SHAPE_SIZE) if shapes else None
        self.output_size = (reader.output_size if reader else 0) + (affix_size if affixes else 0)
        self.output_size += SHAPE_SIZE if shapes else 0

    def forward(self, words: Spellings) -> Tensor:
        """The vectors of words; each depends on nothing but its own word."""
        parts = []
        if self.reader is not None:
            parts.append(self.reader(words.letters, words.lengths))
        if self.affixes is not None:
            parts.append(self.affixes(words.affixes).sum(1))
        if self.shapes is not None:
            parts.append(self.shapes(words.shapes))
        return torch.cat(parts, dim=-1) if parts else torch.zeros(len(words.lengths), 0, device=words.lengths.device)


def embedding(count: int, size: int) -> nn.Embedding:
    """A vector for each id, small at the beginning."""
    found = nn.Embedding(count, size)
    nn.init.uniform_(found.weight, -0.1, 0.1)
    return found
