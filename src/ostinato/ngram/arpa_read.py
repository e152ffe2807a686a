"""Reading ARPA files, as they are found: packed, with text before the n-grams, with blanks for tabs, in any order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.vocabulary import START, Vocabulary
from ostinato.ngram.arpa_source import Source
from ostinato.ngram.arpa_words import FIRST_ROOM, Words, enlarged, faulty, read_words, shown
from ostinato.ngram.levels import Keys, Level, add_contexts, assemble
from ostinato.ngram.table import BackoffTable
from ostinato.ngram.trie import LIMIT, Nodes

SECTION = re.compile(rb"\\(\d{1,4})-grams:")
NUMBER = re.compile(rb"ngram[ \t]+(\d{1,4})[ \t]*=[ \t]*(\d{1,18})")


class Read(NamedTuple):
    """What a file of another program holds: a table, its vocabulary, and what the user should know."""

    table: BackoffTable
    vocabulary: Vocabulary
    notes: tuple[str, ...]


def read_arpa(path: str | Path, watch: Watch = unwatched) -> Read:
    """The table of an ARPA file, its vocabulary (words in the order of the file), and notes, which the table has too.

    Unpacks gzip, bzip2, xz and zstd. Forgiven, with a note: numbers in the header that are wrong; a missing
    `<unk>` or `</s>` (log10 probability -100) or `<s>`; `<UNK>` for `<unk>`; n-grams without their context (it is
    added, with the probability it backs off to) or with `<s>` inside (left out: nothing predicts it); log-probs
    above 0. -99 and -inf are a probability of zero.
    Raises DataError with file and line for anything else, a repeated n-gram and a missing `\\end\\` among it.
    Source: ngram-format(5) of SRILM [Stolcke2002]. Differs: back-offs of the highest order are ignored.
    """
    words, levels = read_levels(Path(path), watch)
    notes = words.notes
    if len(levels) > 1 and np.any(levels[-1].log_backoff):
        notes.append(f"the back-offs of the {len(levels)}-grams were ignored: nothing is longer")
    table = assemble(levels, notes, "arpa", words.vocabulary.stop)
    return Read(table, words.vocabulary, table.notes)


def read_levels(path: Path, watch: Watch) -> tuple[Words, list[Level]]:
    """The words of a file, with its notes, and the n-grams of each order. Raises DataError."""
    with Source(path) as source:
        stated = read_header(source)
        words = read_words(source, watch)
        levels = [words.level]
        compare(words.notes, stated, 1, len(words.spelled))
        while (order := next_section(source, len(levels), stated)) > 0:
            section = Section(words, levels, order)
            section.read(source, watch)
            compare(words.notes, stated, order, section.rows + section.unused)
            section.finish(path, words.notes)
            if sum(map(len, levels)) > LIMIT:
                raise DataError(f"{path}: more n-grams than one table can hold; prune the model")
    return words, levels


def is_arpa(path: str | Path) -> bool:
    """Whether a file, packed or not, has a line `\\data\\` among its first ones."""
    try:
        with Source(Path(path)) as source:
            return bool(source.more()) and b"\\data\\" in source.first_lines()
    except DataError:
        return False


def read_header(source: Source) -> list[int]:
    """How many n-grams of each order the header states; read up to the words. The last line `\\data\\` counts."""
    stated: list[int] = []
    begun, strange = False, ""
    while (line := source.next_line()) is not None:
        if line == b"\\data\\":
            stated, begun, strange = [], True, ""
        elif begun and (found := NUMBER.match(line)) and int(found[1]) == len(stated) + 1:
            stated.append(int(found[2]))
        elif begun and line == b"\\1-grams:":
            if stated and not strange:
                return stated
            strange = strange or f"{source.path}:{source.line - 1}: \\1-grams: without lines `ngram 1=...` before it"
        elif begun and line:
            strange = strange or f"{source.path}:{source.line - 1}: not a line of a header: {shown(line)}"
    if strange:
        raise DataError(f"{strange}; \\data\\ must be followed by the number of n-grams of each order")
    what = (
        "ends before \\1-grams:; it is cut short, copy it again" if begun else "not an ARPA file: no line is \\data\\"
    )
    raise DataError(f"{source.path}:{source.line - 1}: {what}")


def next_section(source: Source, done: int, stated: Sequence[int]) -> int:
    """The order that begins, 0 at the end of the file."""
    while (line := source.next_line()) == b"":
        pass
    where = f"{source.path}:{source.line - 1}"
    if line is None:
        raise DataError(f"{where}: the file ends without \\end\\; it is cut short, copy or pack it again")
    if line == b"\\end\\":
        if any(stated[done:]):
            raise DataError(f"{where}: the {done + 1}-grams that the header states are missing; make the file again")
        return 0
    found = SECTION.fullmatch(line)
    if found is None or int(found[1]) != done + 1:
        raise DataError(f"{where}: \\{done + 1}-grams: or \\end\\ should be here, not {shown(line)}")
    return done + 1


def compare(notes: list[str], stated: Sequence[int], order: int, found: int) -> None:
    """Note a number of n-grams that is not the header's."""
    said = stated[order - 1] if order <= len(stated) else None
    if said != found:
        notes.append(f"the header states {'no' if said is None else f'{said:,}'} {order}-grams, there are {found:,}")


class Section:
    """The n-grams of one order above 1 while they are read."""

    def __init__(self, words: Words, levels: list[Level], order: int):
        self.words, self.levels, self.order, self.rows = words, levels, order, 0
        self.keys: Keys = np.empty(FIRST_ROOM, np.int64)
        self.log_prob, self.log_backoff = np.empty(FIRST_ROOM, np.float32), np.empty(FIRST_ROOM, np.float32)
        self.orphans: Nodes = np.empty((FIRST_ROOM, order), np.int32)
        self.tallies: Keys = np.zeros(2, np.int64)

    def read(self, source: Source, watch: Watch) -> None:
        """Read its lines. Raises DataError with file and line, for a repeated n-gram both."""
        from ostinato.kernels import arpa_parse as kernel

        words, outputs = self.words, self.words.vocabulary.outputs
        known = words.slots, words.text, words.starts, words.ids, outputs, *skeleton(self.levels)
        grams, scratch = np.empty((kernel.BATCH, self.order), np.int32), np.zeros((3, kernel.BATCH), np.int64)
        done = sum(map(len, self.levels))
        while source.at < len(source.block) or source.more():
            columns = self.keys, self.log_prob, self.log_backoff, self.orphans, self.tallies
            source.at, source.line, self.rows, why = kernel.parse_ngrams(
                source.block, source.at, source.line, self.rows, *known, grams, scratch, *columns
            )
            watch(Progress("reading ARPA", done + self.rows, source.share, f"order {self.order}"))
            if why == kernel.SECTION:
                break
            if why == kernel.FULL:
                self.grow()
            elif why != kernel.ENDED:
                raise faulty(source, self.order, why, set(words.spelled))

    @property
    def unused(self) -> int:
        """How many n-grams were left out."""
        from ostinato.kernels import arpa_parse as kernel

        return int(self.tallies[kernel.UNUSED])

    def grow(self) -> None:
        """Make room."""
        if self.rows == len(self.keys):
            room = 2 * self.rows
            self.keys = enlarged(self.keys, room)
            self.log_prob, self.log_backoff = enlarged(self.log_prob, room), enlarged(self.log_backoff, room)
        else:
            self.orphans = enlarged(self.orphans, 2 * len(self.orphans))

    def finish(self, path: Path, notes: list[str]) -> None:
        """Sort what was read into a level. Raises DataError for a repeated n-gram."""
        from ostinato.kernels import arpa_parse as kernel

        keys, outputs = self.keys[: self.rows], self.words.vocabulary.outputs
        lost = int(self.tallies[kernel.LOST])
        if self.unused:
            notes.append(f"{self.unused:,} {self.order}-grams with {START} after their first word were left out")
        if lost:
            keys = add_contexts(self.levels, keys, self.orphans[:lost], outputs)
            notes.append(f"the contexts of {lost:,} {self.order}-grams were missing and were added")
        log_prob, log_backoff = self.log_prob[: self.rows], self.log_backoff[: self.rows]
        if not np.all(keys[1:] > keys[:-1]):
            places = np.argsort(keys)
            keys, log_prob, log_backoff = keys[places], log_prob[places], log_backoff[places]
            if (twice := np.flatnonzero(keys[1:] == keys[:-1])).size:
                raise self.repeated(path, int(keys[twice[0]]))
        self.levels.append(Level.of_keys(keys, outputs, log_prob, log_backoff))

    def repeated(self, path: Path, key: int) -> DataError:
        """The error for an n-gram that stands in the file twice; its lines are searched anew."""
        row, word = divmod(key, self.words.vocabulary.outputs)
        ids = [word]
        for level in self.levels[:0:-1]:
            ids.append(int(level.word[row]))
            row = int(level.parent[row])
        pieces = (self.words.unknown, *self.words.vocabulary.pieces[1:])
        return repeated(path, self.order, [pieces[number].encode() for number in (row, *ids[::-1])])


def skeleton(levels: Sequence[Level]) -> tuple[NDArray[np.int64], Nodes, Nodes]:
    """The first node of each order, and the words and first children of the trie of these levels, not linked."""
    begins = np.cumsum([0, 1, *map(len, levels)])
    first_child = np.full(begins[-2] + 1, begins[-1], np.int32)
    for order, level in enumerate(levels, 1):
        fans = np.bincount(level.parent, minlength=int(begins[order] - begins[order - 1]))
        first_child[begins[order - 1] : begins[order]] = begins[order] + np.cumsum(fans) - fans
    return begins, np.concatenate([np.zeros(1, np.int32), *(level.word for level in levels)]), first_child


def repeated(path: Path, order: int, ngram: list[bytes]) -> DataError:
    """The error for an n-gram that stands in the file twice, with the lines, for which it is read again."""
    lines: list[int | str] = []
    begun = False
    with Source(path) as source:
        read_header(source)
        while (line := source.next_line()) is not None and len(lines) < 2:
            if line.startswith(b"\\"):
                begun = line == b"\\%d-grams:" % order
            elif begun and [field for field in re.split(rb"[ \t\r]+", line) if field][1 : order + 1] == ngram:
                lines.append(source.line - 1)
    first, second = (*lines, "?", "?")[:2]  # a pipe cannot be read again
    words = shown(b" ".join(ngram))
    return DataError(f"{path}:{second}: the {order}-gram {words} stands on line {first} too; remove one")
