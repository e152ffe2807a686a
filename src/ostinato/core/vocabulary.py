"""The vocabulary: pieces and their ids.

Ids `0 .. outputs-1` are the pieces a model can predict: the unknown piece, the stop symbol, then the
others. Two ids above them can only be read: the start symbol and the padding. So a distribution over
`outputs` holds everything that may come next and nothing that may not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, FormatError, MismatchError
from ostinato.core.files import read_json, write_text

Ids: TypeAlias = NDArray[np.int64]
LogProbs: TypeAlias = NDArray[np.float32]
"""Natural logarithms of probabilities (nats)."""

UNKNOWN, STOP, START, PAD = "<unk>", "</s>", "<s>", "<pad>"


class Vocabulary:
    """An immutable list of pieces with the special ids as fields.

    `pieces` are the ordinary pieces in id order, without the specials. A word of the text that is spelled
    like a special is unknown: `<unk>` by definition, the others because they never stand for themselves.
    Raises ConfigError for a repeated piece.
    """

    unknown: int
    stop: int
    start: int
    pad: int
    outputs: int
    _read: Callable[[], Iterable[str]]

    def __init__(self, pieces: Iterable[str]):
        ordinary = tuple(pieces)
        self._number(len(ordinary))
        self.pieces = (UNKNOWN, STOP, *ordinary, START, PAD)
        if len(self._ids) != len(ordinary) or self._ids.keys() & {UNKNOWN, STOP, START, PAD}:
            raise ConfigError("a vocabulary lists a piece twice or lists a special symbol")

    def _number(self, ordinary: int) -> None:
        self.unknown, self.stop = 0, 1
        self.outputs = ordinary + 2
        self.start, self.pad = self.outputs, self.outputs + 1

    @classmethod
    def later(cls, ordinary: int, fingerprint: str, read: Callable[[], Iterable[str]]) -> Vocabulary:
        """A vocabulary whose pieces are read when they are first asked for, so that opening a model takes no time.

        ordinary: how many there are. What is read must have that number and that fingerprint, or it raises
        FormatError then.
        """
        vocabulary = cls.__new__(cls)
        vocabulary._number(ordinary)
        vocabulary.__dict__["fingerprint"] = fingerprint
        vocabulary._read = read
        return vocabulary

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """All pieces in id order, specials included."""
        found = Vocabulary(self._read())
        if found.outputs != self.outputs or found.fingerprint != self.fingerprint:
            raise FormatError("the pieces of the vocabulary were changed after saving; restore the file or train again")
        return found.pieces

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: place for place, piece in enumerate(self.pieces[2:-2], 2)}

    def __len__(self) -> int:
        """How many ids can be read: `outputs` and the two input-only ones."""
        return self.outputs + 2

    def __contains__(self, piece: str) -> bool:
        return piece in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Vocabulary({self.outputs:,} outputs, {self.fingerprint})"

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that change whenever a piece or its place does."""
        packed = json.dumps(self.pieces, ensure_ascii=False).encode("utf8", "surrogatepass")
        return hashlib.sha256(packed).hexdigest()[:12]

    def ids(self, pieces: Iterable[str]) -> Ids:
        """Ids [T] of ordinary pieces; those outside the vocabulary become `unknown`."""
        get, unknown = self._ids.get, self.unknown
        return np.array([get(piece, unknown) for piece in pieces], np.int64)

    def pieces_of(self, ids: Iterable[int]) -> list[str]:
        """The piece of each id, specials spelled out.

        Raises MismatchError for an id outside the vocabulary.
        """
        numbers = [int(number) for number in ids]
        for number in numbers:
            if not 0 <= number < len(self.pieces):
                raise MismatchError(f"id {number} is outside {self!r}; it belongs to another vocabulary")
        return [self.pieces[number] for number in numbers]

    def check(self, ids: Ids, what: str = "ids") -> None:
        """Raise MismatchError unless every id can be read by a model of this vocabulary."""
        if ids.size and not (0 <= int(ids.min()) and int(ids.max()) < len(self)):
            raise MismatchError(
                f"{what} reach from {int(ids.min())} to {int(ids.max())}, but {self!r} has ids 0 to "
                f"{len(self) - 1}; encode the text with this model's vocabulary"
            )

    def save(self, path: Path) -> None:
        """Write the ordinary pieces as JSON, atomically."""
        content = {"format": 1, "fingerprint": self.fingerprint, "pieces": self.pieces[2:-2]}
        write_text(path, json.dumps(content, ensure_ascii=False, indent=0) + "\n")

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """The vocabulary that `save` wrote.

        Raises FormatError if the file is damaged or was edited by hand.
        """
        content = read_json(path)
        try:
            vocabulary = cls(content["pieces"])
            stated = content["fingerprint"]
        except (KeyError, TypeError, ConfigError) as fault:
            raise FormatError(f"{path}: not a vocabulary of ours ({fault}); restore it or train again") from None
        if stated != vocabulary.fingerprint:
            raise FormatError(
                f"{path}: the pieces do not match the fingerprint {stated}, so the file was edited; "
                "restore it or train again"
            )
        return vocabulary


def spelled(vocabulary: Vocabulary) -> NDArray[np.uint8]:
    """The ordinary pieces as the bytes of an array file, a line feed between them."""
    return np.frombuffer("\n".join(vocabulary.pieces[2:-2]).encode("utf8", "surrogatepass"), np.uint8)


def pieces_in(blob: NDArray[np.uint8]) -> list[str]:
    """The ordinary pieces that `spelled` wrote."""
    return bytes(blob).decode("utf8", "surrogatepass").split("\n") if blob.size else []
