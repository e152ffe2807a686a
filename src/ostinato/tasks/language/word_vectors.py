"""Word vectors that the embedding of a language model begins with; a run keeps those of its own words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError
from ostinato.core.progress import Watch, unwatched
from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.runs import load_arrays, save_arrays
from ostinato.tasks.options import ModelOptions
from ostinato.tasks.words import open_vectors, spellings

if TYPE_CHECKING:
    from ostinato.embed.vectors import Vectors
    from ostinato.nn.networks import Network

FILE = "vectors.safetensors"
"""In the data folder of a run."""


@dataclass(frozen=True, eq=False)
class Known:
    """The ids [K] of a vocabulary whose words have a vector, and these vectors [K, D], float32.

    words: ordinary words of the vocabulary. source: what the vectors were named.
    """

    ids: Ids
    rows: NDArray[np.float32]
    words: int
    source: str

    @classmethod
    def among(cls, vectors: Vectors, vocabulary: Vocabulary, source: str) -> Known:
        """Those that have a vector as they stand or in lower case, or from their n-grams. Raises DataError for none."""
        pieces = vocabulary.pieces[2:-2]
        found = {
            place: row
            for place, piece in enumerate(pieces, 2)
            if (row := next((row for row in map(vectors.get, spellings(piece)) if row is not None), None)) is not None
        }
        if not found:
            raise DataError(
                f"{source}: none of the {len(pieces):,} words of the vocabulary has a vector there; are they of "
                "another language, or is the text not cut into words?"
            )
        return cls(np.fromiter(found, np.int64), np.stack(list(found.values())), len(pieces), source)

    def coverage(self, counts: NDArray[np.int64], stop: int) -> str:
        """How much of the vocabulary and of the text has a vector; counts: [outputs], of the text with its stops."""
        running = counts.sum() - counts[stop]
        return (
            f"{self.source}: vectors for {len(self.ids):,} of {self.words:,} words of the vocabulary "
            f"({len(self.ids) / self.words:.1%}), {counts[self.ids].sum() / max(1, running):.1%} of the training text"
        )

    def put_into(self, network: Network, hold: bool) -> None:
        """Let the embedding of a network begin with them; hold: they stay so."""
        import torch

        device = network.embedding.weight.device
        network.begin_with(torch.from_numpy(self.ids).to(device), torch.from_numpy(self.rows).to(device), hold)

    def save(self, folder: Path) -> None:
        """Keep them in a folder, so that the run needs the file no more. Raises StorageError."""
        about = {"source": self.source, "words": self.words}
        save_arrays(folder / FILE, {"ids": self.ids, "rows": self.rows}, about)

    @classmethod
    def load(cls, folder: Path) -> Known:
        """What `save` wrote. Raises FormatError if it is missing or damaged."""
        arrays, about = load_arrays(folder / FILE)
        return cls(arrays["ids"], arrays["rows"], about["words"], about["source"])


def opened(model: ModelOptions, watch: Watch = unwatched) -> Vectors | None:
    """The word vectors that are named, None if there are none. Raises DataError or FormatError for what is none."""
    return None if model.vectors is None else open_vectors(model.vectors, watch)


def sized(model: ModelOptions, vectors: Vectors | None) -> ModelOptions:
    """The model with the size of the vectors. Raises ConfigError if it was given another."""
    if vectors is None:
        return model
    if model.embedding not in (None, vectors.dimensions):
        raise ConfigError(
            f"{model.vectors}: its vectors have {vectors.dimensions} numbers, but model.embedding is "
            f"{model.embedding}; leave model.embedding out, or take vectors of {model.embedding}"
        )
    return replace(model, embedding=vectors.dimensions)
