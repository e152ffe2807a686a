"""Sessions: many streams of one model, each a row of one slab of states, stepped together.

A session is a value: it can be saved to bytes, carried to another process, and goes on exactly there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core import state as states
from ostinato.core.errors import ConfigError, FormatError, MismatchError, ShapeError
from ostinato.core.model import LanguageModel
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs

FORMAT = 1
"""Version of saved sessions; a newer one is refused."""

ROWS = 16  # sessions a new slab has room for; it doubles when they are used up


@dataclass(frozen=True)
class Session:
    """One stream: its state (one row), and what came but was not read yet.

    waiting: ids that were answered. unanswered: the ids after them. unread: the bytes after these, which are no whole
    piece yet.
    """

    state: State
    waiting: tuple[int, ...] = ()
    unanswered: tuple[int, ...] = ()
    unread: bytes = b""

    def to_bytes(self, model: str) -> bytes:
        """The session as bytes; model: the fingerprint of the model it belongs to."""
        body = states.to_bytes(self.state)
        came = {"waiting": self.waiting, "unanswered": self.unanswered, "unread": self.unread.hex()}
        digest = _digest(json.dumps(list(came.values())), body)
        header = {"ostinato": "session", "format": FORMAT, "model": model, "digest": digest}
        return json.dumps(header | came).encode() + b"\n" + body

    @classmethod
    def from_bytes(cls, data: bytes, model: str, like: State) -> Session:
        """The session that `to_bytes` wrote; like: any state of the model.

        Raises FormatError for bytes that are damaged or no session, MismatchError for one of another model.
        """
        header, body = _header(data, "session"), data.partition(b"\n")[2]
        if header.get("model") != model:
            raise MismatchError(
                f"the session belongs to model {str(header.get('model'))[:12]}, this one is {model[:12]}; "
                "step it with the model it was made with, or begin a new one"
            )
        came: list[Any] = [header.get(name) for name in ("waiting", "unanswered", "unread")]
        if _digest(json.dumps(came), body) != header["digest"]:
            raise FormatError("the session was cut short or changed after saving; begin a new one")
        waiting, unanswered, unread = came
        return cls(states.from_bytes(body, like), tuple(waiting), tuple(unanswered), bytes.fromhex(unread))


def packed(sessions: Mapping[str, bytes]) -> bytes:
    """Saved sessions with their names as one value, for `unpacked`."""
    names, body = json.dumps([[name, len(saved)] for name, saved in sessions.items()]), b"".join(sessions.values())
    header = {"ostinato": "sessions", "format": FORMAT, "digest": _digest(names, body)}
    return json.dumps(header).encode() + b"\n" + names.encode() + b"\n" + body


def unpacked(data: bytes) -> dict[str, bytes]:
    """The saved sessions, not looked into, by the names that `packed` was given. Raises FormatError."""
    header = _header(data, "sessions")
    _, names, body = data.split(b"\n", 2) if data.count(b"\n") > 1 else (b"", b"", b"")
    if _digest(names.decode("utf8", "replace"), body) != header["digest"]:
        raise FormatError("the sessions were cut short or changed after saving; begin new ones")
    sizes = dict(json.loads(names))
    ends = accumulate(sizes.values())
    return {name: body[end - size : end] for (name, size), end in zip(sizes.items(), ends, strict=True)}


def _header(data: bytes, kind: str) -> dict[str, Any]:
    """The first line of what was saved, with a digest in it. Raises FormatError."""
    try:
        header = json.loads(data.partition(b"\n")[0])
        found, newest, _ = header["ostinato"], int(header["format"]), header["digest"]
    except (ValueError, TypeError, KeyError):
        raise FormatError(f"these {len(data)} bytes are not a saved session; begin a new one") from None
    if newest > FORMAT:
        raise FormatError(f"a session of format {newest}, this version reads up to {FORMAT}; upgrade Ostinato")
    if found != kind:
        holds = {"session": "one stream", "sessions": "streams with names"}
        raise FormatError(f"{holds.get(found, found)} was saved here, not {holds[kind]}; go on as it was begun")
    assert isinstance(header, dict)
    return header


def _digest(came: str, body: bytes) -> str:
    """What says whether something was changed after saving."""
    return hashlib.sha256(came.encode() + body).hexdigest()[:16]


class Sessions:
    """Open streams of a model under numbers that are never used twice.

    fingerprint: of the model, for `save`; a model from a stream file knows its own.
    """

    def __init__(self, model: LanguageModel, fingerprint: str | None = None):
        self.model = model
        self.fingerprint = fingerprint or str(getattr(model, "fingerprint", "")) or model.vocabulary.fingerprint
        self._fresh = model.init_state(1)
        self._slab = model.init_state(ROWS)
        self._free = list(range(ROWS))
        self._rows: dict[int, int] = {}
        self._next = 0

    def __len__(self) -> int:
        """How many are open."""
        return len(self._rows)

    def __contains__(self, number: int) -> bool:
        return number in self._rows

    @property
    def state_bytes(self) -> int:
        """Bytes that one session occupies."""
        return states.nbytes(self._fresh)

    def open(self, state: State | None = None) -> int:
        """The number of a new session that has read nothing, or goes on from a state of one row. Raises ShapeError."""
        if state is not None and states.batch_size(state) != 1:
            raise ShapeError(f"a session is one row, not {states.batch_size(state)}; `take` one of them")
        row = self._new_row()
        self._put(np.array([row]), self._fresh if state is None else state)
        number, self._next = self._next, self._next + 1
        self._rows[number] = row
        return number

    def step(self, numbers: Sequence[int] | Ids, tokens: Ids) -> LogProbs:
        """Let each of these sessions read one token, [n]; return the log-probs [n, outputs] of the next, in nats.

        Raises ConfigError for a session that is not open, ShapeError for one named twice or tokens of another shape.
        """
        rows = self._rows_of(numbers)
        tokens = np.asarray(tokens, np.int64)
        if tokens.shape != rows.shape:
            raise ShapeError(f"{len(rows)} sessions with tokens of shape {tokens.shape}; give each session one token")
        log_probs, after = self.model.step(states.take(self._slab, rows), tokens)
        self._put(rows, after)
        return log_probs

    def state(self, number: int) -> State:
        """The state of a session, one row, as a value of its own."""
        return states.take(self._slab, self._rows_of([number]))

    def close(self, number: int) -> None:
        """Forget a session and free its place. Raises ConfigError if it is not open."""
        self._rows_of([number])
        self._free.append(self._rows.pop(number))

    def save(self, number: int) -> bytes:
        """The session as bytes, for `load` here or in another process."""
        return Session(self.state(number)).to_bytes(self.fingerprint)

    def load(self, data: bytes) -> int:
        """The number of a new session that goes on where a saved one was. Raises as `Session.from_bytes` does."""
        session = Session.from_bytes(data, self.fingerprint, self._fresh)
        if session.waiting or session.unanswered or session.unread:
            raise FormatError("text waits in this session; go on with it by `ostinato stream --session`")
        return self.open(session.state)

    def _rows_of(self, numbers: Sequence[int] | Ids) -> Ids:
        try:
            rows = [self._rows[number] for number in np.asarray(numbers, np.int64).tolist()]
        except KeyError as fault:
            raise ConfigError(f"session {fault} is not open; `open` or `load` gives the numbers to use") from None
        if len(set(rows)) != len(rows):
            raise ShapeError("a session is named twice; it reads one token a step")
        return np.array(rows, np.int64)

    def _new_row(self) -> int:
        if not self._free:
            used = states.batch_size(self._slab)
            self._slab = states.stack([self._slab, self.model.init_state(used)])
            self._free = list(range(used, 2 * used))
        return self._free.pop()

    def _put(self, rows: Ids, state: State) -> None:
        """Write the rows of a state into the slab, which nobody else sees."""
        for kept, new in zip(states.leaves(self._slab), states.leaves(state), strict=True):
            kept[rows] = new


def top_k(log_probs: LogProbs, k: int) -> Ids:
    """The ids [..., k] of the k most probable of log_probs [..., V], best first, of equals the lower id first.

    Fewer if V is smaller. Raises ConfigError for k below 1.
    """
    if k < 1:
        raise ConfigError(f"k must be at least 1, got {k}")
    k = min(k, log_probs.shape[-1])
    rows = np.fmax(log_probs, -np.inf).reshape(-1, log_probs.shape[-1])  # what is no number is the least
    least = np.partition(rows, -k, axis=-1)[:, -k]
    best = np.empty((len(rows), k), np.int64)
    for row, bound, found in zip(rows, least, best, strict=True):
        near = np.flatnonzero(row >= bound)
        found[:] = near[np.argsort(-row[near], kind="stable")[:k]]
    return best.reshape(*log_probs.shape[:-1], k)


def surprise(log_probs: LogProbs, tokens: Ids) -> NDArray[np.float32]:
    """-log2 p of tokens [...] under log_probs [..., V], in bits."""
    picked = np.take_along_axis(log_probs, tokens[..., None], axis=-1)[..., 0]
    bits: NDArray[np.float32] = picked / np.float32(-np.log(2))
    return bits
