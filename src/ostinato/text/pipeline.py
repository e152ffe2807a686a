"""A normaliser and a tokeniser together: everything between a line of text and its pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ostinato.core.errors import ConfigError, FormatError
from ostinato.core.files import check_format, read_json, write_json
from ostinato.text.incremental import Reader, Writer, before_last_word
from ostinato.text.normalise import Normaliser
from ostinato.text.tokenise import Blank, Tokeniser, tokeniser_from_json

FORMAT = 2
"""Format 2 has what trained normalisers have learnt; a pipeline without them is still written in format 1."""


@dataclass(frozen=True)
class Pipeline:
    """Text to pieces and back; what the normaliser changed stays changed."""

    normaliser: Normaliser
    tokeniser: Tokeniser

    def normalise(self, line: str) -> str:
        """The line as it is counted and cut into pieces."""
        return self.normaliser(line)

    def pieces(self, line: str) -> list[str]:
        """The pieces of a line (or text: a line end becomes `</s>`)."""
        return self.tokeniser.pieces(self.normaliser(line))

    def text(self, pieces: list[str]) -> str:
        """The text of these pieces; `</s>` is a line end, other specials are spelled out."""
        return self.tokeniser.text(pieces)

    def reader(self) -> Reader:
        """A reader of bytes that gives the same pieces as `pieces`, wherever they are cut.

        With a normaliser it holds the last word back, since what follows may change it.
        """
        certain = before_last_word if self.normaliser.names else self.tokeniser.certain
        return Reader(certain, self.pieces)

    def writer(self) -> Writer:
        """A writer of text from pieces, as soon as it is certain."""
        return self.tokeniser.writer()

    @property
    def plain(self) -> bool:
        """Whether text is only cut at white space, after changes that can be made to many lines as one."""
        return isinstance(self.tokeniser, Blank) and self.normaliser.by_letter

    @property
    def unit(self) -> str:
        """What a piece is in a score: word, piece, char or byte."""
        return self.tokeniser.unit

    @property
    def signature(self) -> str:
        """What two scores must share to be comparable, as `word+nfc+lower`."""
        return "+".join((self.tokeniser.signature, *self.normaliser.names))

    def to_json(self) -> dict[str, Any]:
        """The pipeline as plain values, for `from_json`."""
        content = {"format": 1, "normalise": list(self.normaliser.names), "tokeniser": self.tokeniser.to_json()}
        stored = self.normaliser.stored
        return {**content, "format": FORMAT, "stored": stored} if stored else content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Pipeline:
        """The pipeline that `to_json` described. Raises FormatError if that is damaged."""
        try:
            normaliser = Normaliser(content["normalise"], content.get("stored", {}))
            return cls(normaliser, tokeniser_from_json(content["tokeniser"]))
        except (KeyError, TypeError, AttributeError, ConfigError) as fault:
            raise FormatError(f"not a text pipeline of ours ({fault}); restore it or train again") from None

    def save(self, path: Path) -> None:
        """Write it as one JSON file, atomically."""
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: Path) -> Pipeline:
        """The pipeline that `save` wrote. Raises FormatError if the file is damaged or newer."""
        content = read_json(path)
        try:
            check_format(path, content, FORMAT)
            return cls.from_json(content)
        except TypeError as fault:
            raise FormatError(f"{path}: not a text pipeline of ours ({fault}); restore it or train again") from None
        except FormatError as fault:
            raise FormatError(str(fault) if str(path) in str(fault) else f"{path}: {fault}") from None
