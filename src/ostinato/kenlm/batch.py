"""Many sentences at once: several times as fast as one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ostinato.kenlm.opening import Desk
from ostinato.ngram.threads import in_threads

BLOCK = 1 << 18
"""Bytes of text that a thread scores at a time; they and what they become stay in a processor's cache."""

AROUND = 64
"""Bytes that kernels may read after a text."""

SCRATCH = 1 << 11
"""Words that are looked up together."""

IN_NO_WORD = b"\xff"
"""A byte that no UTF-8 has; it takes the place of a zero byte, which ends words in tables of them."""


def as_bytes(text: object) -> bytes:
    """A string as UTF-8. Raises TypeError for anything but str and bytes, as KenLM does."""
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes):
        return text
    raise TypeError(f"Cannot convert {type(text)} to string")


def joined(sentences: Sequence[str | bytes]) -> bytes:
    """The sentences as lines of one text, the last one ended too; a line feed inside one is white space."""
    text = b"\n".join(map(as_bytes, sentences)) + b"\n" if sentences else b""
    if text.count(b"\n") != len(sentences):
        text = b"".join(as_bytes(sentence).replace(b"\n", b" ") + b"\n" for sentence in sentences)
    return text.replace(b"\0", IN_NO_WORD) if b"\0" in text else text


def blocks(text: bytes) -> Iterator[tuple[int, int]]:
    """Where blocks of whole lines begin and end."""
    begin = 0
    while begin < len(text):
        end = text.rfind(b"\n", begin, begin + BLOCK) + 1 or text.index(b"\n", begin) + 1
        yield begin, end
        begin = end


def score_lines(desk: Desk, start: int, stop_state: int, text: bytes, threads: int | None) -> NDArray[np.float64]:
    """The log10 probability of every line, read from the state `stop_state` on; start: the id of `<s>`.

    Minus infinity for a line with something of probability zero in it.
    """
    totals: dict[int, NDArray[np.float64]] = {}

    def work(places: Iterator[tuple[int, int]]) -> None:
        for begin, end in places:
            totals[begin] = score_block(desk, start, stop_state, text[begin:end])

    in_threads(work, blocks(text), threads)
    return np.concatenate([np.empty(0), *(totals[begin] for begin in sorted(totals))])


def score_block(desk: Desk, start: int, stop_state: int, text: bytes) -> NDArray[np.float64]:
    """The same for a few lines."""
    from ostinato.kernels import backoff, single

    size = len(text)
    data = np.empty(size + AROUND, np.uint8)
    data[:size] = np.frombuffer(text, np.uint8)
    data[size:] = ord("\n")
    ids, ends = np.empty(size, np.int32), np.empty(text.count(b"\n"), np.int64)
    tokens, _ = single.encode(data, 0, size, desk.words, start, np.empty((3, SCRATCH), np.int64), ids, ends)
    log_probs, totals = np.empty(tokens, np.float32), np.empty(len(ends))
    backoff.score_lines(desk.rows, stop_state, ids[:tokens], ends, log_probs)
    single.add_lines(log_probs, ends, totals)
    return totals


def score_all(
    desk: Desk, start: int, state: int, sentences: Iterable[str | bytes], threads: int | None
) -> NDArray[np.float64]:
    """The log10 probability of every sentence with its end, read from `state` on; see `score_lines`."""
    from ostinato.kernels import single

    lines = list(sentences)
    totals = score_lines(desk, start, state, joined(lines), threads)
    for place in np.flatnonzero(np.isneginf(totals)).tolist():
        totals[place] = single.score(desk.address, as_bytes(lines[place]), state, 1)
    return totals
