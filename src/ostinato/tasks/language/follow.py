"""Text followed as it arrives: every token is answered at once, for one stream or thousands side by side."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ostinato.core.arrays import open_arrays
from ostinato.core.errors import ConfigError
from ostinato.core.state import State
from ostinato.core.vocabulary import STOP, LogProbs
from ostinato.stream.model import StreamModel
from ostinato.stream.session import Session, Sessions, packed, top_k, unpacked
from ostinato.tasks.language.load import Loaded
from ostinato.text.incremental import Reader, before_last_word

TOGETHER = 256  # streams stepped at once: bounds the memory of their log-probs


@dataclass(frozen=True)
class Answer:
    """What the model says of one token: its log-prob (nats) before it came, and what may come next, best first."""

    stream: str
    token: str
    log_prob: float
    next: tuple[tuple[str, float], ...]

    @property
    def surprise(self) -> float:
        """-log2 of the probability, in bits."""
        return -self.log_prob / math.log(2)

    def to_json(self) -> dict[str, Any]:
        """Plain values: `token`, `log_prob`, `surprise`, and `next`, pairs of token and log-prob."""
        return {"token": self.token, "log_prob": self.log_prob, "surprise": self.surprise, "next": self.next}


class Follower:
    """Streams of one model by name; each begins when its name is first heard.

    A stream begins with the start symbol. Where the model reads sentence by sentence, a stop symbol begins the
    next line afresh, as in scoring. next_tokens: how many of the tokens that may come next are told, 0 for none.
    kept: whether streams can be saved; it costs a copy of the state a token.
    """

    def __init__(self, loaded: Loaded, next_tokens: int = 5, kept: bool = False):
        if next_tokens < 0:
            raise ConfigError(f"--top-k {next_tokens}: a number of tokens cannot be negative; 0 is none")
        self.model, self.vocabulary, self.next_tokens, self.kept = loaded.model, loaded.vocabulary, next_tokens, kept
        self.fresh_lines = loaded.regime == "sentence"
        self.fingerprint = fingerprint(loaded)
        self.sessions = Sessions(self.model, self.fingerprint)
        self._begin = Session(self.model.init_state(1), (self.vocabulary.start,))
        self._start = self._read(self._begin)
        self._numbers: dict[str, int] = {}
        self._expected: dict[str, LogProbs] = {}  # the log-probs [V] of each stream's next token
        self._before: dict[str, Session] = {}
        self._loaded: dict[str, Session] = {}  # saved ones that are read once they are heard
        self._arrived: dict[str, deque[int]] = {}  # what is not answered yet; never empty

    def __contains__(self, name: str) -> bool:
        """Whether a stream of that name is open."""
        return name in self._numbers or name in self._loaded

    def read(self, arrived: Mapping[str, Iterable[int]]) -> Iterator[Answer]:
        """An answer for every id that arrived, in the order of each stream; streams are read side by side.

        What is left when it is stopped is answered first the next time.
        """
        for name, ids in arrived.items():
            if came := deque(ids):
                self._arrived.setdefault(name, deque()).extend(came)
        while names := list(self._arrived):
            for begin in range(0, len(names), TOGETHER):
                some = names[begin : begin + TOGETHER]
                yield from self._step(some, [self._next_id(name) for name in some])

    def _next_id(self, name: str) -> int:
        token = self._arrived[name].popleft()
        if not self._arrived[name]:
            del self._arrived[name]
        return token

    def open(self, name: str) -> None:
        """Begin a stream, or read the saved one of that name, unless it is open."""
        if name in self._numbers:
            return
        if (session := self._loaded.pop(name, None)) is not None:
            self._place(name, self._read(session), session)
        else:
            self._place(name, self._start, self._begin)

    def _step(self, names: Sequence[str], ids: Sequence[int]) -> list[Answer]:
        for name in names:
            self.open(name)
        log_probs = [float(self._expected[name][token]) for name, token in zip(names, ids, strict=True)]
        ends = [self.fresh_lines and token == self.vocabulary.stop for token in ids]
        going = [(name, token) for name, token, end in zip(names, ids, ends, strict=True) if not end]
        for name, token in going if self.kept else ():
            self._before[name] = Session(self.sessions.state(self._numbers[name]), (token,))
        if going:
            numbers, tokens = [self._numbers[name] for name, _ in going], np.array([token for _, token in going])
            rows = self.sessions.step(numbers, tokens)
            self._expected.update((name, row) for (name, _), row in zip(going, rows, strict=True))
        for name, end in zip(names, ends, strict=True):
            if end:
                self._forget(name)
                self._place(name, self._start, self._begin)
        pieces = self.vocabulary.pieces
        nexts = self._nexts(names)
        return [
            Answer(name, pieces[token], log_prob, told)
            for name, token, log_prob, told in zip(names, ids, log_probs, nexts, strict=True)
        ]

    def _nexts(self, names: Sequence[str]) -> list[tuple[tuple[str, float], ...]]:
        """The likeliest tokens of these streams."""
        if not self.next_tokens:
            return [()] * len(names)
        rows, pieces = np.stack([self._expected[name] for name in names]), self.vocabulary.pieces
        best = top_k(rows, self.next_tokens)
        values = np.take_along_axis(rows, best, axis=1).tolist()
        return [
            tuple((pieces[token], value) for token, value in zip(ids, own, strict=True))
            for ids, own in zip(best.tolist(), values, strict=True)
        ]

    def close(self, name: str) -> None:
        """Forget a stream; its name begins anew when it is heard again. Nothing happens if it is not open."""
        self._arrived.pop(name, None)
        self._loaded.pop(name, None)
        if name in self._numbers:
            self._forget(name)

    def _forget(self, name: str) -> None:
        """Close a stream that goes on with what arrived."""
        self.sessions.close(self._numbers.pop(name))
        del self._expected[name]
        self._before.pop(name, None)

    def save(self, name: str, unread: bytes = b"") -> bytes:
        """A stream as bytes, for `load`: its state before the last token, that token, and what is not answered yet.

        unread: bytes that came after all that and are no whole token yet.
        """
        assert self.kept
        came = tuple(self._arrived.get(name, ()))
        session = self._before.get(name) or self._loaded.get(name, self._begin)
        return replace(session, unanswered=came, unread=unread).to_bytes(self.fingerprint)

    def load(self, name: str, data: bytes) -> bytes:
        """Let a stream go on where a saved one was; return its unread bytes. Raises FormatError, MismatchError.

        What was not answered is answered by the next `read`.
        """
        session = Session.from_bytes(data, self.fingerprint, self._begin.state)
        self.close(name)
        self._loaded[name] = session
        if session.unanswered:
            self._arrived[name] = deque(session.unanswered)
        return session.unread

    def save_all(self) -> bytes:
        """All open streams with their names as bytes, for `load_all`."""
        return packed({name: self.save(name) for name in [*self._numbers, *self._loaded]})

    def load_all(self, data: bytes) -> None:
        """Let every stream go on that `save_all` saved. Raises FormatError, MismatchError."""
        for name, saved in unpacked(data).items():
            self.load(name, saved)

    def _place(self, name: str, reached: tuple[LogProbs, State], session: Session) -> None:
        self._expected[name] = reached[0]
        self._numbers[name] = self.sessions.open(reached[1])
        self._before[name] = session

    def _read(self, session: Session) -> tuple[LogProbs, State]:
        """The log-probs [V] of what comes next, and the state, once all that waits was read; something must wait."""
        state = session.state
        for token in session.waiting or (self.vocabulary.start,):
            log_probs, state = self.model.step(state, np.array([token]))
        return log_probs[0], state


def text_reader(loaded: Loaded, tokens: bool) -> Reader:
    """A reader of bytes as they come: raw text, whose line ends are `</s>`, or tokens with white space between."""
    return Reader(before_last_word, str.split) if tokens else loaded.pipeline.reader()


def ids_of(loaded: Loaded, pieces: Sequence[str]) -> list[int]:
    """The ids of pieces; `</s>` is the stop symbol, what is not in the vocabulary the unknown piece."""
    ids = loaded.vocabulary.ids(pieces)
    ids[[piece == STOP for piece in pieces]] = loaded.vocabulary.stop
    found: list[int] = ids.tolist()
    return found


def follow_text(
    loaded: Loaded, follower: Follower, reader: Reader, parts: Iterable[bytes], ends: bool
) -> Iterator[Answer]:
    """The answers to one text that comes in parts; ends: whether its last word is whole when they end."""
    for data in parts:
        yield from follower.read({"": ids_of(loaded, reader.feed(data))})
    if ends:
        yield from follower.read({"": ids_of(loaded, reader.end())})


def read_lines(
    loaded: Loaded,
    follower: Follower,
    lines: Sequence[bytes],
    before: int,
    tokens: bool,
    refused: Callable[[str], None],
) -> Iterator[Answer]:
    """The answers to lines `NAME<TAB>text`, each for the stream of that name; NAME alone ends its stream.

    A line of raw text ends in `</s>`, one of tokens only with the tokens it names. before: how many lines came
    earlier. refused: told of a line that is not UTF-8, or is no name of an open stream and has no tab, once those
    before it are answered; the others go on.
    """
    arrived: dict[str, list[int]] = {}
    for number, line in enumerate(lines, before + 1):
        try:
            name, text = named_line(line)
        except UnicodeDecodeError:
            yield from follower.read(arrived)
            arrived = {}
            refused(f"line {number} of standard input is not UTF-8; send UTF-8 text")
            continue
        if text is None:
            yield from follower.read(arrived)
            arrived = {}
            if name in follower:
                follower.close(name)
            else:
                refused(
                    f"line {number} of standard input has no tab, and {name[:40]!r} is no open stream; "
                    "write NAME, a tab and the text, or the name of an open stream alone to end it"
                )
        else:
            follower.open(name)
            pieces = text.split() if tokens else [*loaded.pipeline.pieces(text), STOP]
            arrived.setdefault(name, []).extend(ids_of(loaded, pieces))
    yield from follower.read(arrived)


def named_line(line: bytes) -> tuple[str, str | None]:
    """The stream that a line `NAME<TAB>text` is for and its text; None for a name alone. Raises UnicodeDecodeError."""
    name, tab, text = line.decode().rstrip("\r").partition("\t")
    return name, text if tab else None


def fingerprint(loaded: Loaded) -> str:
    """What says which weights a model has: the digest of its files, or what is known of a file without one."""
    if isinstance(loaded.model, StreamModel):
        return loaded.model.fingerprint
    folder = loaded.run.path
    headers = [open_arrays(path)[1] for path in sorted(folder.rglob("model.safetensors"))] if folder.is_dir() else []
    digests = [str(header["digest"]) for header in headers if "digest" in header]
    if "digest" in loaded.about and not digests:
        digests = [str(loaded.about["digest"])]
    facts = digests or [loaded.vocabulary.fingerprint, str(loaded.parameters), str(loaded.run.model_bytes)]
    return hashlib.sha256(" ".join(facts).encode()).hexdigest()
