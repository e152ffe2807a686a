"""Pairs as numbers, and their batches: of similar source length, and of whatever target length comes with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.tasks.translation.data import Corpus, Pair
from ostinato.text.bucket import POOL, Places, cut, padded


class Batch(NamedTuple):
    """What `Describer.loss` reads."""

    sources: Tensor  # [B, S], or [B, S, ...] of numbers
    lengths: Tensor  # [B]
    inputs: Tensor  # [B, T], the start symbol first
    targets: Tensor  # [B, T], the stop symbol last
    weight: Tensor  # [B, T]


class Encoded:
    """Pairs as numbers, one for each target of a source; every target ends with the stop symbol.

    A source of which the normaliser leaves nothing is left out.
    """

    def __init__(self, corpus: Corpus, pairs: Sequence[Pair]):
        self.vocabulary: Vocabulary = corpus.target.vocabulary
        stop = np.array([self.vocabulary.stop])
        self.sources: list[Ids] = []
        self.targets: list[Ids] = []
        for pair in pairs:
            source = corpus.source.ids(pair.source)
            for target in pair.targets if len(source) else ():
                self.sources.append(source)
                self.targets.append(np.concatenate([corpus.target.ids(target), stop]))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Numbers of source and target [N, 2]."""
        sizes = [(len(source), len(target)) for source, target in zip(self.sources, self.targets, strict=True)]
        return np.array(sizes, np.int64).reshape(-1, 2)

    def batch(self, rows: Places, device: torch.device) -> Batch:
        """Some of the pairs as tensors, those with the longest targets first."""
        rows = longest_first(rows, self.targets)
        sources, lengths = padded([self.sources[row] for row in rows], 0)
        arrays = sources, lengths, *taught([self.targets[row] for row in rows], self.vocabulary.start)
        return Batch(*(torch.from_numpy(array).to(device) for array in arrays))


def longest_first(rows: Places, targets: Sequence[Ids]) -> Places:
    """Places of targets, the longest ones first, which `Describer.loss` is quick with."""
    sizes = np.array([len(targets[row]) for row in rows.tolist()])
    return rows[np.argsort(-sizes, kind="stable")]


def taught(targets: list[Ids], start: int) -> tuple[Ids, Ids, NDArray[np.float32]]:
    """Teacher forcing as arrays [B, T]: inputs, which begin with `start`; targets; 1 where there is one."""
    goals, ends = padded(targets, 0)
    inputs = np.hstack([np.full((len(goals), 1), start), goals[:, :-1]])
    return inputs, goals, (np.arange(goals.shape[1]) < ends[:, None]).astype(np.float32)


def batches_by_source(
    lengths: NDArray[np.int64], rows: int, tokens: int, order: Places, pool: int | None = POOL
) -> list[Places]:
    """Pairs with lengths [N, 2] in batches of at most `rows` of them and `tokens` pieces of either side with padding.

    order: which, in the order they are taken before they are sorted in pools of so many batches; None: all together.
    Sorted by the source alone, pairs of one length as they come: batches of one target length would tell the decoder
    when to stop, and its answers would grow too long.
    """
    size = lengths.max(axis=1)
    mean = max(1, int(size[order].mean())) if len(order) else 1
    step = len(order) if pool is None else pool * max(1, min(rows, tokens // mean))
    batches: list[Places] = []
    for begin in range(0, len(order), max(1, step)):
        part = order[begin : begin + step]
        batches += cut(part[np.argsort(lengths[part, 0], kind="stable")], size, rows, tokens)
    return batches
