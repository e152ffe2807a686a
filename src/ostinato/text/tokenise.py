"""Tokenisers: a text as pieces, and pieces as a text.

| name    | unit  | a piece is                                            | text(pieces(t))          |
|---------|-------|-------------------------------------------------------|--------------------------|
| `blank` | word  | what stands between blanks                            | t with white space folded |
| `word`  | word  | a Unicode word, number, ideograph or sign of punctuation | t with white space folded |
| `char`  | char  | a code point                                          | t                        |
| `byte`  | byte  | a UTF-8 byte                                          | t                        |
| `bpe`   | piece | a byte sequence that was frequent in training         | t                        |

White space folded: one blank between words, none at the ends of a line. A line end is the piece `</s>`.
`<unk>` between blanks stays one piece in `blank` and `word`, so a corpus whose rare words were already
replaced can be read.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, ClassVar

from ostinato.core.errors import ConfigError, FormatError, MismatchError
from ostinato.core.registry import Registry
from ostinato.core.vocabulary import STOP, UNKNOWN
from ostinato.text.incremental import (
    ByteWriter,
    CharWriter,
    Reader,
    WordWriter,
    Writer,
    before_last_word,
    everything,
)
from ostinato.text.letters import SINGLE, marks

JOINER = "\uffed"
"""Stands before a piece that touches the one before it: "so," is `so`, `￭,`."""


class Tokeniser(ABC):
    """Text to pieces and back, at once or as it arrives. Two tokenisers are equal if their JSON is."""

    name: ClassVar[str]
    unit: ClassVar[str]
    """What a piece is in a score: one of core.score.UNITS."""

    @abstractmethod
    def line(self, text: str) -> list[str]:
        """The pieces of a text that has no line end in it."""

    @abstractmethod
    def writer(self) -> Writer:
        """A writer that has written nothing."""

    @property
    def inventory(self) -> tuple[str, ...] | None:
        """Every piece there can be, in a fixed order; None if that depends on the text."""
        return None

    @property
    def signature(self) -> str:
        """The name, with what else two equal ones must share."""
        return self.name

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text; a line end becomes `</s>`."""
        first, *others = text.split("\n")
        found = self.line(first)
        for other in others:
            found.append(STOP)
            found += self.line(other)
        return found

    def text(self, pieces: Iterable[str]) -> str:
        """The text of these pieces; `</s>` is a line end, other specials are spelled out.

        Raises MismatchError for a piece this tokeniser never makes (`byte` and `bpe`).
        """
        writer = self.writer()
        written = [writer.feed(piece) for piece in pieces]
        return "".join(written) + writer.end()

    def certain(self, text: str) -> int:
        """The length of the beginning of a text whose pieces no later text can change."""
        return before_last_word(text)

    def reader(self) -> Reader:
        """A reader that has read nothing."""
        return Reader(self.certain, self.pieces)

    def to_json(self) -> dict[str, Any]:
        """The tokeniser as plain values, for `tokeniser_from_json`."""
        return {"name": self.name}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Tokeniser:
        """The tokeniser of this kind that `to_json` described. Raises FormatError if that is damaged."""
        return cls()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokeniser) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.signature)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


tokenisers: Registry[type[Tokeniser]] = Registry("tokeniser")


@tokenisers.register("blank")
class Blank(Tokeniser):
    """Splits at white space and nowhere else, for text that was tokenised before.

    A word spelled `</s>` is written as a line end.
    """

    name, unit = "blank", "word"

    def line(self, text: str) -> list[str]:
        return text.split()

    def writer(self) -> Writer:
        return WordWriter(lambda piece: (False, piece))


@tokenisers.register("word")
class Word(Tokeniser):
    """Words, numbers, ideographs and punctuation, each with the joiner if it touches the one before.

    An apostrophe stays inside a word and a point or comma inside a number; hyphens separate. A language
    written without blanks in an alphabet (Thai, Khmer) is not segmented. Source: [UAX29], simplified.

    >>> Word().pieces("Don't pay 1,000.50 — 白日依山")
    ["Don't", 'pay', '1,000.50', '—', '白', '￭日', '￭依', '￭山']
    """

    name, unit = "word", "word"

    def line(self, text: str) -> list[str]:
        found: list[str] = []
        for run in text.split():
            found += _remembered_parts(run) if len(run) <= _SHORT_RUN else _parts(run)
        return found

    def writer(self) -> Writer:
        return WordWriter(_spelling)


_SHORT_RUN = 32  # characters; longer ones rarely come again


@cache
def _word_pattern() -> re.Pattern[str]:
    """The joiner (never with anything else), an ideograph, a word or number, or any other sign."""
    accents = f"[{marks()}]"
    letter = rf"[^\W{SINGLE}]"
    word = rf"{letter}+(?:{accents}+{letter}*)*"
    inside = r"(?:['’]|(?<=\d)[.,](?=\d))"
    return re.compile(rf"{JOINER}|[{SINGLE}]{accents}*|{word}(?:{inside}{word})*|\S{accents}*")


def _parts(run: str) -> tuple[str, ...]:
    """The pieces of a run without white space: all but the first touch the one before."""
    if run == UNKNOWN:
        return (run,)
    first, *others = _word_pattern().findall(run)
    return (first, *(JOINER + other for other in others))


_remembered_parts = lru_cache(1 << 16)(_parts)


def _spelling(piece: str) -> tuple[bool, str]:
    """Whether a piece touches the one before, and what it spells; a joiner alone spells itself."""
    touching = len(piece) > 1 and piece[0] == JOINER
    return touching, piece[1:] if touching else piece


@tokenisers.register("char")
class Char(Tokeniser):
    """One piece a code point, blanks included."""

    name, unit = "char", "char"

    def line(self, text: str) -> list[str]:
        return list(text)

    def certain(self, text: str) -> int:
        return everything(text)

    def writer(self) -> Writer:
        return CharWriter()


BYTE_PIECES = tuple(chr(byte) if 0x20 < byte < 0x7F else f"<0x{byte:02X}>" for byte in range(256))
"""The piece of every byte: itself if it prints in ASCII, else `<0x..>`."""

_BYTE_OF = {piece: bytes([byte]) for byte, piece in enumerate(BYTE_PIECES)}


@tokenisers.register("byte")
class Byte(Tokeniser):
    """One piece a byte of UTF-8; the vocabulary is always the 256 of them."""

    name, unit = "byte", "byte"

    @property
    def inventory(self) -> tuple[str, ...]:
        return BYTE_PIECES

    def line(self, text: str) -> list[str]:
        return [BYTE_PIECES[byte] for byte in text.encode()]

    def certain(self, text: str) -> int:
        return everything(text)

    def writer(self) -> Writer:
        return ByteWriter(_byte_of)


def _byte_of(piece: str) -> bytes:
    if piece not in _BYTE_OF:
        raise MismatchError(f"the piece {piece!r} is not a byte; these pieces belong to another tokeniser")
    return _BYTE_OF[piece]


def make_tokeniser(name: str, lines: Iterable[str] = (), pieces: int = 4000) -> Tokeniser:
    """The tokeniser of that name; `bpe` learns that many pieces from the lines (normalised), others ignore both.

    Raises ConfigError for an unknown name, or if the text is too small for so many pieces.
    """
    from ostinato.text import bpe

    return bpe.train(lines, pieces) if name == bpe.BPE.name else tokenisers[name]()


def tokeniser_from_json(content: Mapping[str, Any]) -> Tokeniser:
    """The tokeniser that `to_json` described. Raises FormatError if it is damaged."""
    from ostinato.text import bpe

    assert bpe.BPE.name in tokenisers
    try:
        return tokenisers[content["name"]].from_json(content)
    except (KeyError, TypeError, ConfigError) as fault:
        raise FormatError(f"not a tokeniser of ours ({fault}); restore the file or train again") from None
