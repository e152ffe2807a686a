"""Sources and targets as pieces and numbers, and numbers as text again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.tasks.translation.options import DataOptions
from ostinato.tasks.words import bare
from ostinato.text import vocabulary as vocabularies
from ostinato.text.bpe import BPE
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.tokenise import Tokeniser, Word, make_tokeniser


@dataclass(frozen=True)
class Side:
    """How the texts of one side become pieces and numbers."""

    pipeline: Pipeline
    vocabulary: Vocabulary

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text; a line end inside it is a blank."""
        return pieces_of(self.pipeline.tokeniser, self.pipeline.normalise(one_line(text)))

    def ids(self, text: str) -> Ids:
        """The numbers of its pieces, without start and stop symbols."""
        return self.vocabulary.ids(self.pieces(text))

    def text(self, pieces: Sequence[str]) -> str:
        """The text of pieces as a person writes it."""
        return one_line(self.pipeline.text(list(pieces)))

    def symbols(self, text: str) -> list[str]:
        """What edits are counted in: words, and where pieces are parts of words or blanks lie between them, these."""
        if self.pipeline.unit == "piece":
            return words_of(self.pipeline.normalise(one_line(text)))
        return [bare(piece) for piece in self.pieces(text)]

    @property
    def symbol(self) -> str:
        """What a symbol is."""
        return {"piece": "word", "word": "word", "char": "character", "byte": "byte"}[self.pipeline.unit]

    def save(self, folder: Path, name: str) -> None:
        """Write both, under names that begin with `name`."""
        self.pipeline.save(folder / f"{name}.json")
        self.vocabulary.save(folder / f"{name}-vocabulary.json")

    @classmethod
    def load(cls, folder: Path, name: str) -> Side:
        """What `save` wrote. Raises FormatError if it is damaged."""
        return cls(Pipeline.load(folder / f"{name}.json"), Vocabulary.load(folder / f"{name}-vocabulary.json"))


def one_line(text: str) -> str:
    """A text without blanks at its ends; a line end inside it is a blank."""
    return text.replace("\n", " ").strip()


def pieces_of(tokeniser: Tokeniser, text: str) -> list[str]:
    """The pieces of a normalised text; for BPE the first word begins with a blank as all others do."""
    if not text:
        return []
    return tokeniser.line(f" {text}" if isinstance(tokeniser, BPE) else text)


def words_of(text: str) -> list[str]:
    """Words and signs of a text, whatever the network reads: what lengths and unseen words are counted in."""
    return [bare(piece) for piece in Word().line(text)]


def made_sides(options: DataOptions, sources: Sequence[str], targets: Sequence[str]) -> tuple[Side, Side]:
    """The sides of training texts, one line each; the same object twice where they are joint.

    Raises ConfigError for more pieces than the texts yield, DataError for texts of one piece.
    """
    if options.is_joint:
        side = made_side(options, options.normalise, options.tokeniser, [*sources, *targets])
        return side, side
    first = made_side(options, options.normalise, options.tokeniser, sources)
    return first, made_side(options, options.target_changes, options.target_kind, targets)


class Cutting(Protocol):
    """Options of a vocabulary."""

    @property
    def bpe_pieces(self) -> int: ...
    @property
    def min_count(self) -> int: ...
    @property
    def limit(self) -> int | None: ...


def made_side(options: Cutting, changes: Sequence[str], tokeniser: str, texts: Sequence[str]) -> Side:
    """The side of training texts, one line each; errors as `made_sides`."""
    normaliser = Normaliser(changes)
    lines = [normaliser(text) for text in texts]
    kind = make_tokeniser(tokeniser, (f" {line}" for line in lines), options.bpe_pieces)
    pipeline = Pipeline(normaliser, kind)
    if kind.inventory is not None:
        return Side(pipeline, vocabularies.from_inventory(kind.inventory))
    counts = Counter(piece for line in lines for piece in pieces_of(kind, line))
    numbers = np.array(list(counts.values()), np.int64)
    return Side(pipeline, vocabularies.from_counts(list(counts), numbers, options.min_count, options.limit))


def vocabulary_of(texts: Iterable[str], side: Side) -> frozenset[str]:
    """The words of texts, for what is unseen."""
    return frozenset(word for text in texts for word in words_of(side.pipeline.normalise(one_line(text))))
