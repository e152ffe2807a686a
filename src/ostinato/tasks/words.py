"""Word vectors at the start of a task's network: which words it knows, and the rows they begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from pydantic import model_validator
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.core.progress import Watch, unwatched
from ostinato.core.vocabulary import Vocabulary
from ostinato.text.tokenise import JOINER

if TYPE_CHECKING:
    from ostinato.embed.vectors import Vectors

DEFAULT_SPREAD = 0.1
"""Standard deviation of a drawn row where no found row says better."""


@dataclass(frozen=True, config=STRICT)
class WordOptions:
    """What a network knows of words before it is trained."""

    vectors: str | None = None
    """Word vectors to begin with: a run of `ostinato vectors train`, a folder of ours, word2vec's, GloVe's or
    fastText's files. model.embedding is taken from them."""
    more_words: Annotated[int, Ge(0)] = 0
    """Words of the vectors, the first ones, that are known too where the training text lacks them; quick with frozen,
    since otherwise every update passes over their rows."""
    frozen: bool = False
    """Leave the word vectors as they begin."""

    @model_validator(mode="after")
    def _has_words(self) -> Self:
        if self.more_words and not self.vectors:
            raise ValueError("more_words are words of vectors; give vectors or leave more_words out")
        check_frozen(self.frozen, self.vectors or getattr(self, "from_run", None))
        return self


def check_frozen(frozen: bool, begins_with: str | None, tied: bool = False) -> None:
    """Raise ValueError where nothing is there to be frozen, or more would be. tied: whether they are the output too."""
    if frozen and not begins_with:
        raise ValueError("frozen holds word vectors that were trained before, and there are none; leave it out")
    if frozen and tied:
        raise ValueError("frozen would hold the output layer too, which tied makes of the word vectors; leave one out")


@plain_dataclass(frozen=True)
class Beginning:
    """Rows [words, D] for every id of a vocabulary, and how many of its pieces were found among the vectors."""

    rows: NDArray[np.float32]
    found: int
    pieces: int
    source: str

    def __str__(self) -> str:
        """The coverage in words."""
        share = self.found / max(1, self.pieces)
        return f"{self.source}: vectors for {self.found:,} of {self.pieces:,} known words ({share:.1%})"


def open_vectors(path: str, watch: Watch = unwatched) -> Vectors:
    """Word vectors in any form: a run, a folder of ours, or a file. Raises DataError, FormatError."""
    from ostinato.embed.files import read_vectors
    from ostinato.embed.folder import folder_in
    from ostinato.embed.vectors import Vectors

    folder = folder_in(Path(path))
    return read_vectors(path, watch=watch) if folder is None else Vectors.load(folder)


def bare(piece: str) -> str:
    """A piece without the sign that it touches the one before."""
    return piece.removeprefix(JOINER) or piece


def spellings(piece: str) -> tuple[str, ...]:
    """How a piece may stand among vectors: as it is, without the joiner, and both in lower case."""
    return piece, bare(piece), piece.lower(), bare(piece).lower()


def extended(vocabulary: Vocabulary, vectors: Vectors, more: int) -> Vocabulary:
    """The vocabulary with the first `more` words of the vectors that it lacks behind its own."""
    if not more:
        return vocabulary
    known, taken = vocabulary.pieces[2:-2], frozenset(vocabulary.pieces)
    new = (word for word in vectors.words if word not in taken)
    return Vocabulary((*known, *islice(new, more)))


def begin_with(vectors: Vectors, vocabulary: Vocabulary, source: str, seed: int) -> Beginning:
    """A row for every id: a word's own vector where there is one under any of its `spellings`, others are drawn.

    Drawn rows are normal with the spread of those found, so that no word stands out because it was not [Kim2014].
    """
    random = np.random.default_rng(seed)
    pieces: Sequence[str] = vocabulary.pieces[2:-2]
    rows = random.standard_normal((len(vocabulary), vectors.dimensions), np.float32)
    places, taken = [], []
    for place, piece in enumerate(pieces, 2):
        row = next((row for row in map(vectors.get, spellings(piece)) if row is not None), None)
        if row is not None:
            places.append(place)
            taken.append(row)
    spread = float(np.std(taken)) if taken else DEFAULT_SPREAD
    rows *= np.float32(spread)
    if taken:
        rows[places] = np.stack(taken)
    return Beginning(rows, len(taken), len(pieces), source)
