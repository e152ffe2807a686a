"""Text that is only cut at white space, read by kernels: to provisional ids, or to those of a vocabulary.

What comes out is what text/read.py and the tokeniser `blank` give, many times faster. Whatever is not plain
UTF-8 in lines of a usual length is left to them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import FormatError
from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.text import read

BLOCK = 1 << 20
"""Bytes of text that are numbered together; threads share them."""

LINES = 1 << 19
"""Bytes of text that are encoded together: they and what they become stay in a processor's cache."""

SCRATCH = 1 << 11
"""Words that are looked up together."""

SMALL = 1 << 20
"""Bytes of text up to which Python alone reads: the compiler takes longer to load than that takes."""

SHARE = 1 << 16
"""Bytes that a thread is worth."""

_BEFORE, _AFTER = 3, 64  # what kernels want around a text
_SLACK = 8  # what they want after the bytes of the words

Table = NDArray[np.uint64]


class Words:
    """Distinct words, numbered from 1 on as they come; 0 ends a line."""

    def __init__(self, slots: int = 1 << 12):
        self.slots: Table = np.zeros((slots, 2), np.uint64)
        self.offsets = np.zeros(slots, np.int64)
        self.offsets[1] = 1
        self.blob = np.full(1 << 16, ord("\n"), np.uint8)
        self.count = 1

    @property
    def room(self) -> int:
        """How many words the slots may hold, so that a search is short."""
        return len(self.slots) // 4 * 3

    def widen(self, words: int) -> None:
        """Have slots for so many words more."""
        from ostinato.kernels import scan as kernels

        size = len(self.slots)
        while size // 4 * 3 < self.count + words:
            size *= 2
        if size > len(self.slots):
            slots = np.zeros((size, 2), np.uint64)
            kernels.rehash(self.slots, slots)
            self.slots = slots

    def reserve(self, words: int, size: int) -> None:
        """Have room to write so many words more, of so many bytes with the end of each."""
        used = int(self.offsets[self.count])
        self.offsets = _longer(self.offsets, self.count + 1, self.count + 1 + words)
        self.blob = _longer(self.blob, used, used + size + _SLACK)

    def adopt(self, offsets: Ids, blob: NDArray[np.uint8], first: int, last: int) -> NDArray[np.uint32]:
        """Add the words `first` to before `last` of another table; the numbers they have here."""
        from ostinato.kernels import scan as kernels

        self.widen(last - first)
        self.reserve(last - first, int(offsets[last] - offsets[first]))
        numbers = np.empty(last, np.uint32)
        self.count = kernels.adopt(offsets, blob, first, last, self.slots, self.offsets, self.blob, self.count, numbers)
        return numbers[first:]

    def add(self, words: Sequence[str]) -> None:
        """Add words that are not there yet; one that no text can hold (with a NUL or a line feed) is never found."""
        if not words:
            return
        joined = "\n".join(words)
        if "\0" in joined or joined.count("\n") >= len(words):
            joined = "\n".join("" if "\0" in word or "\n" in word else word for word in words)
        blob = np.frombuffer(bytearray(joined.encode("utf8", "surrogatepass") + b"\n" * (1 + _SLACK)), np.uint8)
        ends = np.flatnonzero(blob[: len(blob) - _SLACK] == ord("\n")) + 1
        self.adopt(np.concatenate([np.zeros(1, np.int64), ends]), blob, 0, len(words))

    def spelled(self, first: int) -> list[str]:
        """The words from number `first` on."""
        if first >= self.count:
            return []
        begin, end = self.offsets[first], self.offsets[self.count]
        return self.blob[begin : end - 1].tobytes().decode().split("\n")

    def spelled_each(self, numbers: Ids) -> list[str]:
        """The words of these numbers."""
        blob = self.blob[: self.offsets[self.count]].tobytes()
        places = zip(self.offsets[numbers].tolist(), (self.offsets[numbers + 1] - 1).tolist(), strict=True)
        return [blob[begin:end].decode() for begin, end in places]


def _longer(array: NDArray[Any], used: int, size: int) -> NDArray[Any]:
    """The array, or a copy of what is used of it in at least `size` places."""
    if size <= len(array):
        return array
    larger = np.empty(max(size, 2 * len(array)), array.dtype)
    larger[:used] = array[:used]
    return larger


class Part:
    """One thread's place to work: its own words, and arrays to write into, used again and again."""

    def __init__(self, words: Words, told: bool = True):
        self.words = words
        self.known = np.zeros(1, np.uint32)
        """The number that each of the words has in the whole text."""
        self.ids = np.empty(0, np.uint32)
        self.facts = np.empty((0, 4), np.uint32)
        """The tokens, characters, bytes and CRC-32 of each line, if it is `told`."""
        self.lines = 0
        self._told = told
        self._ids = np.empty(0, np.uint32)
        self._facts = np.empty(0, np.uint32)
        self._scratch = np.empty((3, SCRATCH), np.int64)
        self._cursor = np.zeros(4, np.int64)

    def scan(self, data: NDArray[np.uint8], begin: int, end: int, keep: bool) -> None:
        """Number the words of whole lines; nothing is said to be sound, so that must be known."""
        from ostinato.kernels import scan as kernels

        words, size = self.words, end - begin
        words.reserve(size // 2 + 1, size)
        self._ids = _longer(self._ids, 0, size)
        self._facts = _longer(self._facts, 0, 4 * size if self._told else 0)
        facts = self._facts[: len(self._facts) // 4 * 4].reshape(-1, 4)
        self._cursor[:] = (begin, 0, 0, words.count)
        while not kernels.scan(
            data, end, keep, words.slots, words.offsets, words.blob, words.room, self._scratch, _remainders(),
            self._ids, facts, self._cursor,
        ):  # fmt: skip
            words.count = int(self._cursor[kernels.WORDS])
            words.widen(1)
        words.count = int(self._cursor[kernels.WORDS])
        self.ids = self._ids[: self._cursor[kernels.TOKENS]]
        self.lines = int(self._cursor[kernels.LINES])
        self.facts = facts[: self.lines]

    def rename(self) -> None:
        """Replace the thread's own numbers by those of the whole text."""
        from ostinato.kernels import scan as kernels

        kernels.rename(self.ids, self.known)


@cache
def _remainders() -> Table:
    """[8, 256]: what a byte followed by 0 to 7 zero bytes adds to a CRC-32."""
    table = np.zeros((8, 256), np.uint64)
    table[0] = np.arange(256)
    for _ in range(8):
        table[0] = (table[0] >> np.uint64(1)) ^ (table[0] & np.uint64(1)) * np.uint64(0xEDB88320)
    for zeros in range(1, 8):
        before = table[zeros - 1]
        table[zeros] = (before >> np.uint64(8)) ^ table[0, before & np.uint64(255)]
    return table


class Scanner:
    """Text to ids in the order words are first seen, the same whatever the number of threads.

    threads: None for one a processor. told: whether to say facts about each line.
    """

    def __init__(self, threads: int | None = None, told: bool = True):
        self.words = Words()
        threads = threads or os.cpu_count() or 1
        own = [self.words] if threads == 1 else [Words() for _ in range(threads)]
        self._parts = [Part(words, told) for words in own]
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._data = np.empty(0, np.uint8)

    def scan(self, chunks: Sequence[bytes], keep: bool) -> list[Part] | None:
        """The ids and facts of these lines (each chunk without its last line end), until the next call.

        None, and nothing happened, if something is wrong in them or a line is too long.
        """
        from ostinato.kernels import scan as kernels

        size = sum(map(len, chunks)) + len(chunks)
        self._data = _longer(self._data, 0, _BEFORE + size + _AFTER)
        places = _laid_out(self._data, chunks, len(self._parts))
        checked = self._each(lambda place: kernels.sound(self._data, place[0], place[1], read.LONGEST_LINE), places)
        if not all(checked):
            return None
        parts = self._parts[: len(places)]
        self._each(lambda work: work[0].scan(self._data, *work[1], keep), zip(parts, places, strict=True))
        if self._pool is not None:
            for part in parts:
                own, before = part.words, len(part.known)
                numbers = self.words.adopt(own.offsets, own.blob, before, own.count)
                part.known = np.concatenate([part.known, numbers])
            self._each(Part.rename, parts)
        return parts

    def _each(self, work: Any, places: Iterable[Any]) -> list[Any]:
        return list(map(work, places) if self._pool is None else self._pool.map(work, places))

    def close(self) -> None:
        """Let the threads and their memory go; the words stay."""
        self._parts, self._data = [], np.empty(0, np.uint8)
        if self._pool is not None:
            self._pool.shutdown()


def _laid_out(data: NDArray[np.uint8], chunks: Sequence[bytes], parts: int) -> list[tuple[int, int]]:
    """Write whole lines where kernels can read them; returns where up to `parts` equal parts of them lie."""
    end = _BEFORE
    data[:end] = ord("\n")
    for chunk in chunks:
        data[end : end + len(chunk)] = np.frombuffer(chunk, np.uint8)
        end += len(chunk) + 1
        data[end - 1] = ord("\n")
    data[end : end + _AFTER] = ord("\n")
    return list(_shared_out(data, _BEFORE, end, parts))


def _shared_out(data: NDArray[np.uint8], begin: int, end: int, parts: int) -> Iterator[tuple[int, int]]:
    """Cut data[begin:end] behind line feeds into up to `parts` parts of similar size."""
    parts = min(parts, max(1, (end - begin) // SHARE))
    text = data.data
    for part in range(parts, 0, -1):
        middle = begin + (end - begin) // part
        after = end
        for at in range(middle, end, SHARE):
            if (feed := bytes(text[at - 1 : min(at - 1 + SHARE, end)]).find(b"\n")) >= 0:
                after = at + feed
                break
        if after > begin:
            yield begin, after
        begin = after


def gathered(chunks: Iterable[tuple[bytes, int]]) -> Iterator[list[tuple[bytes, int]]]:
    """Chunks in groups of about BLOCK bytes, each with the line ends before it."""
    group: list[tuple[bytes, int]] = []
    size = 0
    for chunk, before in chunks:
        group.append((chunk, before))
        size += len(chunk) + 1
        if size >= BLOCK:
            yield group
            group, size = [], 0
    if group:
        yield group


class Desk(threading.local):
    """Arrays that each thread uses again for block after block."""

    def __init__(self) -> None:
        self.scratch = np.empty((3, SCRATCH), np.int64)
        self.data = np.empty(0, np.uint8)
        self.ids, self.line_ends = np.empty(0, np.int32), np.empty(0, np.int64)

    def make_room(self, size: int) -> None:
        """Have room for so many bytes of text and whatever they become."""
        self.data = _longer(self.data, 0, _BEFORE + size + _AFTER)
        self.ids, self.line_ends = _longer(self.ids, 0, size), _longer(self.line_ends, 0, size)


class Encoder:
    """Lines of text to the ids of a vocabulary, cut at white space; it can be kept as arrays."""

    def __init__(self, vocabulary: Vocabulary):
        words = Words(1 << (vocabulary.outputs * 4 // 3).bit_length())
        words.add(("", *vocabulary.pieces[2 : vocabulary.outputs]))
        used = int(words.offsets[words.count])
        self._slots, self._offsets = _fixed(words.slots), _fixed(words.offsets[: words.count + 1].copy())
        blob = words.blob[: used + _SLACK].copy()
        blob[used:] = ord("\n")  # so that the same vocabulary is the same bytes
        self._blob = _fixed(blob)
        self._specials = _fixed(np.array([vocabulary.unknown, vocabulary.stop], np.int64))
        self._desk = Desk()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything it is made of, by name, not to be changed."""
        return {"slots": self._slots, "offsets": self._offsets, "blob": self._blob, "specials": self._specials}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Encoder:
        """The encoder with these arrays, which may be memory-mapped. Raises FormatError if they do not fit."""
        encoder = cls.__new__(cls)
        encoder._desk = Desk()
        try:
            encoder._slots, encoder._offsets = _fixed(arrays["slots"]), _fixed(arrays["offsets"])
            encoder._blob, encoder._specials = _fixed(arrays["blob"]), _fixed(arrays["specials"])
        except KeyError as fault:
            raise FormatError(f"an encoder's array {fault} is missing; make the model again") from None
        encoder._check()
        return encoder

    def _check(self) -> None:
        """Raise FormatError for arrays in which a search would not end or would leave them."""
        slots, offsets, blob, specials = self._slots, self._offsets, self._blob, self._specials
        kinds = [array.dtype.name for array in (slots, offsets, blob, specials)]
        good = (
            kinds == ["uint64", "int64", "uint8", "int64"]
            and slots.ndim == 2
            and slots.shape[1] == 2
            and slots.shape[0].bit_count() == 1
            and offsets.ndim == blob.ndim == 1
            and specials.shape == (2,)
            and len(offsets) > 1
            and offsets[0] == 0
            and bool((np.diff(offsets) > 0).all())
            and offsets[-1] + _SLACK <= len(blob)
            and int(slots[:, 1].max()) < len(offsets) - 1
            and not slots[:, 0].all()
        )
        if not good:
            raise FormatError("an encoder's arrays do not fit each other, so they are damaged; make the model again")

    def ids(self, text: bytes, threads: int = 1) -> tuple[NDArray[np.int32], Ids]:
        """The ids of whole lines of UTF-8, [T], each line ended by the stop id, and the tokens up to each end, [L].

        A line feed ends a line, and so does the end of the text; empty lines count. Words outside the vocabulary
        and those spelled like a special symbol are unknown.
        Raises DataError, with line and byte, for a text that is not UTF-8 or holds a NUL byte.
        """
        ids = np.empty(len(text) + 1, np.int32)  # as much as there can be; the system gives what is written to
        line_ends = [np.empty(0, np.int64)]
        tokens = 0
        work = partial(self._encoded, text, self._desk)
        with ThreadPoolExecutor(threads) as pool:
            size = BLOCK if threads == 1 else min(BLOCK, max(SHARE, len(text) // (4 * threads)))
            for found, ends in (map if threads == 1 else pool.map)(work, _blocks(text, size)):
                ids[tokens : tokens + len(found)] = found
                line_ends.append(ends + tokens)
                tokens += len(found)
        return ids[:tokens], np.concatenate(line_ends)

    def _encoded(self, text: bytes, desk: Desk, place: tuple[int, int]) -> tuple[NDArray[np.int32], Ids]:
        """The ids and line ends of a block, whose last line has no end."""
        from ostinato.kernels import scan as kernels

        begin, end = place
        size = end - begin + 1
        desk.make_room(size)
        _laid_out(desk.data, [text[begin:end]], 1)
        if not kernels.sound(desk.data, _BEFORE, _BEFORE + size, size):
            for _ in read.decoded("the text", text[begin:end], text.count(b"\n", 0, begin)):
                pass
            raise AssertionError("what is not sound has an error")
        words = self._slots, self._offsets, self._blob, *self._specials.tolist()
        tokens, lines = kernels.encode(
            desk.data, _BEFORE, _BEFORE + size, words, desk.scratch, desk.ids, desk.line_ends
        )
        return desk.ids[:tokens].copy(), desk.line_ends[:lines].copy()


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, not to be written to, as one that is memory-mapped: kernels tell them apart."""
    view = array.view()
    view.flags.writeable = False
    return view


def _blocks(text: bytes, size: int) -> Iterator[tuple[int, int]]:
    """Where blocks of whole lines lie in a text, of about that size, each without its last line end."""
    begin, last = 0, len(text) - text.endswith(b"\n")
    while begin < len(text):
        end = last
        if last - begin > LINES:
            end = text.rfind(b"\n", begin, begin + LINES)
            end = text.find(b"\n", begin) if end < 0 else end
            end = last if end < 0 else end
        yield begin, end
        begin = end + 1
