"""What an answer looked at in its source, word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.tasks.translation.answers import Looked
from ostinato.tasks.translation.sides import Side, words_of
from ostinato.tasks.words import bare


@dataclass(frozen=True)
class Alignment:
    """weights: [target, source], rows of sum 1."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: NDArray[np.float32]

    def __str__(self) -> str:
        """`source-target` for each word of the target, from 0, with the word of the source it looked at most."""
        return " ".join(f"{place}-{row}" for row, place in enumerate(self.weights.argmax(axis=1).tolist()))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "source": self.source,
            "target": self.target,
            "weights": [[round(one, 4) for one in row] for row in self.weights.tolist()],
        }


def aligned(source: Side, target: Side, given: Sequence[str], said: Sequence[str], looked: Looked) -> Alignment:
    """The alignment of the pieces of an answer with those of its source.

    Where pieces are parts of words, their words are aligned: weights are summed over the parts of a word that was
    looked at, and their mean is taken over the parts of one that was said.
    """
    across = grouped(source, given)
    weights = looked.weights[: len(said)].astype(np.float64)
    columns = np.add.reduceat(weights, [first for _, first in across], axis=1) if len(said) else weights
    return averaged(target, said, [word for word, _ in across], columns[:, : len(across)])


def averaged(target: Side, said: Sequence[str], across: Sequence[str], weights: NDArray[Any]) -> Alignment:
    """The alignment of the words of an answer with what stands across; weights: [pieces of `said`, across]."""
    down = grouped(target, said)
    rows = np.add.reduceat(weights, [first for _, first in down], axis=0) if len(said) else weights
    sizes = np.diff([first for _, first in down] + [len(said)])
    means = (rows / sizes[:, None]).astype(np.float32) if len(said) else np.zeros((0, len(across)), np.float32)
    return Alignment(tuple(across), tuple(word for word, _ in down), means)


def grouped(side: Side, pieces: Sequence[str]) -> list[tuple[str, int]]:
    """Words and where the pieces of each begin."""
    if side.pipeline.unit != "piece":
        return [(bare(piece), place) for place, piece in enumerate(pieces)]
    writer = side.pipeline.writer()
    written = [writer.feed(piece) for piece in pieces]
    text = "".join(written) + writer.end()
    ends = _word_ends(text)
    begins = np.cumsum([0, *map(len, written)])[:-1]
    numbers = [int(np.searchsorted(ends, _first_letter(text, begin), side="right")) for begin in begins.tolist()]
    found = []
    for _, places in groupby(range(len(pieces)), key=numbers.__getitem__):
        first, *_, last = [*(run := list(places)), run[-1]]
        end = begins[last + 1] if last + 1 < len(pieces) else len(text)
        found.append((text[begins[first] : end].strip(), first))
    return found


def _word_ends(text: str) -> list[int]:
    """Where each word of a text ends."""
    ends, at = [], 0
    for word in words_of(text):
        at = text.index(word, at) + len(word)
        ends.append(at)
    return ends


def _first_letter(text: str, begin: int) -> int:
    """The first place from `begin` on that is no blank."""
    return begin + len(text[begin:]) - len(text[begin:].lstrip())
