"""Texts as numbers: ids of pieces, and for a network that reads them, the character n-grams of each distinct piece."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.embed.subwords import Subwords
from ostinato.nn.classifier import Grams
from ostinato.tasks.words import bare
from ostinato.text.bucket import Places, padded
from ostinato.text.pipeline import Pipeline


class Batch(NamedTuple):
    """What `Classifier.forward` reads."""

    ids: Tensor  # [B, T]
    lengths: Tensor  # [B]
    grams: Grams | None


@dataclass(frozen=True)
class Table:
    """The n-grams of distinct words: `buckets` [N], each word's from `begins` [W + 1] on. Word 0 has none."""

    begins: Ids
    buckets: Ids

    def of(self, words: Ids) -> tuple[Ids, Ids]:
        """The buckets [N] of some words, one after another, and where each begins."""
        sizes = np.diff(self.begins)[words]
        begins = np.cumsum(sizes) - sizes
        steps = np.arange(sizes.sum()) - np.repeat(begins, sizes)
        return self.buckets[np.repeat(self.begins[words], sizes) + steps], begins


@dataclass(frozen=True)
class Encoded:
    """Texts as ids, the start symbol first, so never nothing; words: the same as numbers of distinct words."""

    ids: list[Ids]
    pad: int
    words: list[Ids] = field(default_factory=list)
    table: Table | None = None

    @property
    def lengths(self) -> Ids:
        """Ids of each."""
        return np.array([len(text) for text in self.ids], np.int64)

    def batch(self, rows: Places, device: torch.device) -> Batch:
        """Some of the texts as tensors, every distinct word of them spelled once."""
        array, lengths = padded([self.ids[row] for row in rows], self.pad)
        grams = None
        if self.table is not None:
            distinct, places = np.unique(padded([self.words[row] for row in rows], 0)[0], return_inverse=True)
            arrays = (places.reshape(array.shape), *self.table.of(distinct))
            grams = Grams(*(torch.from_numpy(part).to(device) for part in arrays))
        return Batch(torch.from_numpy(array).to(device), torch.from_numpy(lengths).to(device), grams)


@dataclass(frozen=True)
class Encoder:
    """How texts become numbers; subwords: which n-grams are read, None for none."""

    pipeline: Pipeline
    vocabulary: Vocabulary
    subwords: Subwords | None

    def texts(self, texts: Iterable[str]) -> Encoded:
        """Texts as numbers."""
        return self.pieces([pieces_of(self.pipeline, text) for text in texts])

    def pieces(self, texts: Sequence[Sequence[str]], begun: bool = False) -> Encoded:
        """Texts that are cut into pieces; begun: the start symbol was read before."""
        start = [] if begun else [self.vocabulary.start]
        ids = [np.concatenate([np.array(start, np.int64), self.vocabulary.ids(pieces)]) for pieces in texts]
        if self.subwords is None:
            return Encoded(ids, self.vocabulary.pad)
        index: dict[str, int] = {}
        words = [[0] * len(start) + [index.setdefault(piece, len(index) + 1) for piece in pieces] for pieces in texts]
        begins, buckets = self.subwords.table([bare(piece) for piece in index])
        table = Table(np.concatenate([[0], begins]), buckets.astype(np.int64))
        return Encoded(ids, self.vocabulary.pad, [np.array(numbers, np.int64) for numbers in words], table)


def pieces_of(pipeline: Pipeline, text: str) -> list[str]:
    """The pieces of a text; a line end inside it is a blank."""
    return pipeline.pieces(text.replace("\n", " "))
