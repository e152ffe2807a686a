"""What a user can say about the text; apart from the rest so that a command's help opens nothing heavy."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.text.read import EmptyLines

TokeniserName = Literal["blank", "word", "char", "byte", "bpe"]
Regime = Literal["sentence", "stream"]


@dataclass(frozen=True, config=STRICT)
class DataOptions:
    """What to train on, and how the text becomes pieces."""

    text: tuple[str, ...] = ()
    """Training text, a sentence or paragraph a line: .txt, .gz, .zst, - (standard input). None: the embedded corpus."""
    valid: tuple[str, ...] = ()
    """Validation text. None: the last part of the training text."""
    test: tuple[str, ...] = ()
    """Test text. None, and no validation text either: the last part of the training text."""
    normalise: tuple[str, ...] = ("nfc",)
    """Changes made to every line, in order: nfc, nfkc, lower, casefold, stem:LANGUAGE, lemma:LANGUAGE,
    lemma:FILE (of `ostinato lemma train`), or none."""
    tokeniser: TokeniserName = "word"
    """How a line is cut: blank (at white space), word, char, byte, or bpe (learned)."""
    bpe_pieces: Annotated[int, Field(ge=257)] = 4000
    """How many pieces the tokeniser bpe learns."""
    min_count: Annotated[int, Field(ge=1)] = 2
    """Pieces seen less often in the training text are unknown (not for byte and bpe, which know all)."""
    limit: Annotated[int, Field(ge=2)] | None = None
    """Keep only that many pieces, the most frequent ones."""
    vocabulary: str | None = None
    """A vocabulary to use instead of counting one: a file with a piece a line, or a run's vocabulary.json."""
    regime: Regime = "sentence"
    """sentence: every line begins with a new state; stream: state is carried from line to line of a document."""
    empty_lines: EmptyLines = "skip"
    """Leave lines without text out, or keep them as sentences of no words."""
    holdout: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """The share of the lines held out for validation, and as much again for the test, where neither is given."""
