"""Vocabularies made from counts, from a tokeniser's inventory, or from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError, FormatError
from ostinato.core.vocabulary import Vocabulary
from ostinato.text.incremental import SPECIALS
from ostinato.text.read import read_lines


def from_counts(
    pieces: Sequence[str], counts: NDArray[np.int64], min_count: int = 1, limit: int | None = None
) -> Vocabulary:
    """The pieces seen at least `min_count` times, the most frequent first; of equals, the first seen first.

    pieces: in the order they were first seen. counts: [len(pieces)]; a piece never seen is left out.
    limit: no more than that many, specials aside.
    Raises DataError if fewer than two are left, ConfigError if the limit is larger than the distinct pieces.
    """
    order = np.argsort(-counts, kind="stable")
    places = order[: np.count_nonzero(counts > 0)].tolist()
    seen = [piece for piece in map(pieces.__getitem__, places) if piece not in SPECIALS]
    frequent = places[: np.count_nonzero(counts >= max(min_count, 1))]
    often = [piece for piece in map(pieces.__getitem__, frequent) if piece not in SPECIALS]
    if limit is not None and limit > len(seen):
        raise ConfigError(
            f"the vocabulary limit is {limit:,}, but the training text has only {len(seen):,} distinct pieces; "
            "lower the limit or leave it out"
        )
    if limit is not None and limit < 2:
        raise ConfigError(f"a vocabulary needs at least two pieces, got the limit {limit}; raise it or leave it out")
    if len(often) < 2:
        raise DataError(_too_few(seen, often, min_count))
    return Vocabulary(often[:limit])


def _too_few(seen: list[str], often: list[str], min_count: int) -> str:
    if len(seen) >= 2:
        return (
            f"{len(often)} of {len(seen):,} pieces occur at least {min_count} times, and a vocabulary needs two; "
            "lower min_count or give more text"
        )
    shown = repr(seen[0]) if seen else "nothing"
    return f"the training text holds only one piece over and over ({shown}), so there is nothing to learn; give another"


def from_inventory(inventory: Sequence[str]) -> Vocabulary:
    """The vocabulary of a tokeniser that knows all its pieces, in the tokeniser's order, seen or not."""
    return Vocabulary(inventory)


def from_file(path: str | Path) -> Vocabulary:
    """The vocabulary in a run's `vocabulary.json`, or in a text file with one piece a line, in that order.

    White space around a piece is not part of it, unless the line is nothing else. Special symbols listed in
    a text file (`<unk>`, `<s>` ...) are passed over: every vocabulary has them.
    Raises DataError with the line for a piece listed twice, or if fewer than two are listed.
    """
    if str(path).endswith(".json"):
        try:
            return Vocabulary.load(Path(path))
        except OSError as fault:
            raise DataError(f"{path}: cannot be read ({fault.strerror})") from None
        except FormatError as fault:
            if not Path(path).exists():
                raise DataError(f"{path}: no such file") from None
            raise fault
    lines: dict[str, int] = {}
    for number, line in enumerate(read_lines(path, empty_lines="keep"), 1):
        piece = line.strip() or line
        if not piece or piece in SPECIALS:
            continue
        if piece in lines:
            raise DataError(f"{path}:{number}: {piece!r} stands in line {lines[piece]} too; remove one of them")
        lines[piece] = number
    if len(lines) < 2:
        raise DataError(f"{path}: a vocabulary needs at least two pieces, this file lists {len(lines)}; add more")
    return Vocabulary(lines)
