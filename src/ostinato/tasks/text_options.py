"""How the text of a task becomes pieces. No torch here: the command line reads this for its help."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

from annotated_types import Ge
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.core.errors import ConfigError
from ostinato.text.options import TokeniserName


@dataclass(frozen=True, config=STRICT)
class PieceOptions:
    """Text to pieces and their vocabulary. None: the default, or what the run has that a network starts from."""

    normalise: tuple[str, ...] | None = None
    """nfc: changes made to every text, in order: nfc, nfkc, lower, casefold, stem:LANGUAGE, lemma:LANGUAGE, or none."""
    tokeniser: TokeniserName | None = None
    """word: how a text is cut: blank (at white space), word, char, byte, or bpe (learned)."""
    bpe_pieces: Annotated[int, Ge(257)] | None = None
    """4000: how many pieces the tokeniser bpe learns."""
    min_count: Annotated[int, Ge(1)] | None = None
    """2: pieces seen less often in training are unknown (not for byte and bpe, which know all)."""
    limit: Annotated[int, Ge(2)] | None = None
    """Keep only that many pieces, the most frequent ones."""

    def refuse_pieces(self, source: str) -> None:
        """Raise ConfigError if any of these was given, since all of them come from `source`."""
        for field in fields(PieceOptions):
            if getattr(self, field.name) is not None:
                raise ConfigError(
                    f"data.{field.name} is taken from {source}, which the network starts from; leave it out"
                )

    def check_pieces(self) -> None:
        """Raise ConfigError for an option that has no use."""
        learned = self.tokeniser in ("byte", "bpe")
        for name in ("min_count", "limit"):
            if learned and getattr(self, name) is not None:
                raise ConfigError(f"data.{name} has no use, since the tokeniser {self.tokeniser} knows its pieces")
        if self.bpe_pieces is not None and self.tokeniser != "bpe":
            raise ConfigError("data.bpe_pieces is for the tokeniser bpe; set data.tokeniser, or leave it out")
