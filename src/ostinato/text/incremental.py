"""Reading and writing as bytes and pieces arrive: nothing is given out before it is certain."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Protocol

from ostinato.core.errors import DataError
from ostinato.core.vocabulary import PAD, START, STOP, UNKNOWN

SPECIALS = frozenset((UNKNOWN, STOP, START, PAD))


class Reader:
    """Pieces from bytes that may be cut anywhere, also inside a character; a line end becomes `</s>`.

    certain: how much of a text (as a length) can be cut off and read alone. pieces: reads such a text.
    """

    def __init__(self, certain: Callable[[str], int], pieces: Callable[[str], list[str]]):
        self._certain, self._pieces = certain, pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._pending = ""
        self._bytes = 0

    def feed(self, data: bytes) -> list[str]:
        """The pieces that are certain once these bytes have come. Raises DataError if they are not UTF-8."""
        self._pending += self._decoded(data, False)
        cut = self._certain(self._pending)
        ready, self._pending = self._pending[:cut], self._pending[cut:]
        return self._pieces(ready)

    def end(self) -> list[str]:
        """The pieces still held back. Raises DataError if the last character is not whole."""
        ready, self._pending = self._pending + self._decoded(b"", True), ""
        return self._pieces(ready)

    @property
    def unread(self) -> bytes:
        """The bytes still held back: fed to another reader, they and what follows give the same pieces."""
        return self._pending.encode() + self._decoder.getstate()[0]

    def _decoded(self, data: bytes, final: bool) -> str:
        held = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(data, final)
        except UnicodeDecodeError as fault:
            self._decoder.reset()  # no later text can mend the character
            raise DataError(
                f"byte {self._bytes - held + fault.start + 1:,} of this text is not UTF-8; send UTF-8 text"
            ) from None
        self._bytes += len(data)
        return text


def before_last_word(text: str) -> int:
    """Where the last word begins, with the blank before it: no tokeniser looks across that place.

    The beginning of the last line counts too. Only U+0020 is trusted, since tokenisers differ in what
    else they call white space.
    """
    line = text.rfind("\n") + 1
    at = text.rfind(" ", line)
    while at > line and text[at - 1].isspace():
        at = text.rfind(" ", line, at)
    return max(at, line)


def everything(text: str) -> int:
    """The whole text: each character is read alone."""
    return len(text)


class Writer(Protocol):
    """Text from pieces, as soon as it is certain; `</s>` is a line end, other specials are spelled out."""

    def feed(self, piece: str) -> str:
        """The text that is certain once this piece has come."""

    def end(self) -> str:
        """The text still held back."""


class WordWriter:
    """Words with one blank between; `touches` says whether a piece joins the one before, and how it is spelled."""

    def __init__(self, touches: Callable[[str], tuple[bool, str]]):
        self._touches = touches
        self._line_start = True

    def feed(self, piece: str) -> str:
        if piece == STOP:
            self._line_start = True
            return "\n"
        touching, spelled = self._touches(piece)
        blank = "" if touching or self._line_start else " "
        self._line_start = False
        return blank + spelled

    def end(self) -> str:
        return ""


class CharWriter:
    """Characters, one after another."""

    def feed(self, piece: str) -> str:
        return "\n" if piece == STOP else piece

    def end(self) -> str:
        return ""


class ByteWriter:
    """Characters from pieces that are bytes; a byte that cannot be UTF-8 is written as U+FFFD.

    to_bytes: the bytes of an ordinary piece.
    """

    def __init__(self, to_bytes: Callable[[str], bytes]):
        self._to_bytes = to_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: str) -> str:
        if piece in SPECIALS:
            return self.end() + ("\n" if piece == STOP else piece)
        return self._decoder.decode(self._to_bytes(piece))

    def end(self) -> str:
        rest = self._decoder.decode(b"", True)
        self._decoder.reset()
        return rest
