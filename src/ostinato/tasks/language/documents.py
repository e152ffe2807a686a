"""Files of lines or documents (JSON Lines) scored in their order, the next read while one is scored."""

from __future__ import annotations

import codecs
import io
import math
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from pydantic_core import from_json

from ostinato.core.errors import ConfigError, DataError
from ostinato.ngram.lines import Lines
from ostinato.ngram.model import NGramModel
from ostinato.tasks.language.evaluate import Scorer, line_scorer
from ostinato.tasks.language.load import Loaded
from ostinato.text import read

QUICK, SLOW = 1 << 20, 1 << 15
"""Bytes of text that are scored together, by an n-gram model and by others."""

TOGETHER = 64
"""Lines of plain text that other models score together: a slow reader wants to see something."""

LONGEST_OBJECT = 1 << 28
"""Bytes of a line of JSON; more is surely another format."""

ADVICE = "or pass over such lines with --skip-bad"

Item = TypeVar("Item")
Made = TypeVar("Made")


def ahead(work: Callable[[Item], Made], items: Iterable[Item], threads: int = 1) -> Iterator[Made]:
    """`work` of every item, in order; the items are read by a thread, so that a slow writer is answered at once.

    threads: how many work ahead of who asks; with 1 the work is done when it is asked for. What goes wrong with an
    item is raised after what came before it.
    """
    waiting: queue.Queue[Callable[[], Made] | BaseException | None] = queue.Queue(maxsize=threads + 1)
    pool = ThreadPoolExecutor(threads) if threads > 1 else None
    left = threading.Event()

    def read_on() -> None:
        end = None
        try:
            for item in items:
                if left.is_set():
                    return
                waiting.put(pool.submit(work, item).result if pool else partial(work, item))
        except BaseException as fault:
            end = fault
        waiting.put(end)

    threading.Thread(target=read_on, daemon=True).start()
    try:
        while not isinstance(made := waiting.get(), BaseException | None):
            yield made()
        if made is not None:
            raise made
    finally:
        left.set()
        while not waiting.empty():  # the thread may wait for a place, once
            waiting.get()
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


class Chunk(NamedTuple):
    """Whole lines of a file as bytes, the line ends before them, and the share of all files that is then read."""

    name: str
    data: bytes
    before: int
    share: float | None


def chunks(readers: Sequence[read.LineReader], size: int) -> Iterator[Chunk]:
    """The lines of files, one file after another, as they come."""
    sizes = [reader.size or 0 for reader in readers]
    total = None if any(reader.size is None for reader in readers) else max(1, sum(sizes))
    for number, reader in enumerate(readers):
        done = sum(sizes[:number])
        for data, before in gathered(reader, size):
            yield Chunk(reader.name, data, before, None if total is None else (done + reader.done) / total)


def gathered(reader: read.LineReader, size: int) -> Iterator[tuple[bytes, int]]:
    """Chunks of about `size` bytes, however small they are unpacked; those of standard input are not held back."""
    parts: list[bytes] = []
    first = held = 0
    for data, before in reader.chunks(size):
        first = first if parts else before
        parts.append(data)
        held += len(data)
        if held >= size or reader.size is None:
            yield b"\n".join(parts), first
            parts, held = [], 0
    if parts:
        yield b"\n".join(parts), first


class ScoredLines(NamedTuple):
    """Lines of a text and their scores."""

    text: list[str]
    scores: Lines


def score_files(loaded: Loaded, paths: Sequence[str], threads: int | None = None) -> Iterator[ScoredLines]:
    """The scores of every line of text files (`-`: standard input), in their order, each line on its own.

    Lines come as soon as they are scored, many together if they are there. An empty line is just `</s>`.
    threads: of an n-gram model; None for one a core. Raises DataError after the lines before a fault.
    """
    read.check_readable(paths)
    scorer = line_scorer(loaded)
    quick = isinstance(loaded.model, NGramModel)
    readers = [read.LineReader(path, "keep") for path in paths]
    groups = decoded_groups(readers, QUICK if quick else SLOW, None if quick else TOGETHER)
    return ahead(lambda lines: ScoredLines(lines, scorer.score(lines)), groups, workers(loaded, threads))


def decoded_groups(readers: Sequence[read.LineReader], size: int, most: int | None) -> Iterator[list[str]]:
    """The lines of files in groups of at most `most`; those before a fault come before its error."""
    for reader in readers:
        for data, before in gathered(reader, size):
            group, fault = [], None
            try:
                for line in reader.decoded(data, before):
                    group.append(line)
            except DataError as found:
                fault = found
            for begin in range(0, len(group), most or len(group) or 1):
                yield group[begin : begin + most] if most else group
            if fault is not None:
                raise fault


def workers(loaded: Loaded, threads: int | None) -> int:
    """Threads that score: one a core for n-gram models, whose kernels run side by side; torch has its own.

    Raises ConfigError for fewer than one.
    """
    if threads is not None and threads < 1:
        raise ConfigError(f"--threads must be at least 1, got {threads}")
    return (threads or os.cpu_count() or 1) if isinstance(loaded.model, NGramModel) else 1


class Document(NamedTuple):
    """The score of one object of a JSON Lines file.

    name, line: where it stands, from line 1 on. key: its `id`, None if it has none. source: the object as it stood.
    nats: minus the log-probs of its lines, each on its own. tokens: predicted ones, a stop symbol a line included.
    """

    name: str
    line: int
    key: Any
    source: bytes
    nats: float
    tokens: int
    unknown: int
    lines: int

    @property
    def perplexity(self) -> float | None:
        """exp(nats / tokens); None for a document without lines."""
        if not self.tokens:
            return None
        ratio = self.nats / self.tokens
        return math.exp(ratio) if ratio < 700 else math.inf


class Scored(NamedTuple):
    """Some documents, the lines that were passed over because something is wrong in them, the share that is read."""

    documents: list[Document]
    skipped: list[str]
    share: float | None


class _Read(NamedTuple):
    """An object whose text is not scored yet."""

    line: int
    key: Any
    source: bytes
    lines: list[str]


def score_documents(
    loaded: Loaded, paths: Sequence[str], field: str = "text", skip_bad: bool = False, threads: int | None = None
) -> Iterator[Scored]:
    """The scores of all objects of JSON Lines files (`-`: standard input), in their order, some at a time.

    field: the key of the text. Its lines are scored each on its own; those of white space only are left out, whatever
    the model was trained with. skip_bad: pass over lines that cannot be used, and tell of them. threads: of an n-gram
    model; None for one a core.
    Raises DataError, with file and line, after the documents before it: for what is not JSON or not an object, for
    a field that is missing or not a text.
    """
    read.check_readable(paths)
    scorer = line_scorer(loaded)
    size = QUICK if isinstance(loaded.model, NGramModel) else SLOW
    reader = partial(read_objects, field=field, skip_bad=skip_bad)
    work = partial(_score_chunk, scorer, reader)
    for scored, fault in ahead(work, chunks([ObjectReader(path) for path in paths], size), workers(loaded, threads)):
        yield scored
        if fault is not None:
            raise fault


def _score_chunk(
    scorer: Scorer, reader: Callable[[Chunk], tuple[list[_Read], list[str], DataError | None]], chunk: Chunk
) -> tuple[Scored, DataError | None]:
    objects, skipped, fault = reader(chunk)
    scores = scorer.score([line for found in objects for line in found.lines])
    owner = np.repeat(np.arange(len(objects)), [len(found.lines) for found in objects])
    nats, tokens, unknown = (
        np.bincount(owner, values, len(objects)) for values in (scores.nats, scores.tokens, scores.unknown)
    )
    numbers = zip(nats.tolist(), tokens.astype(np.int64).tolist(), unknown.astype(np.int64).tolist(), strict=True)
    documents = [
        Document(chunk.name, found.line, found.key, found.source, *score, len(found.lines))
        for found, score in zip(objects, numbers, strict=True)
    ]
    return Scored(documents, skipped, chunk.share), fault


def read_objects(chunk: Chunk, field: str, skip_bad: bool) -> tuple[list[_Read], list[str], DataError | None]:
    """The objects of some lines; what was passed over; the fault, if not, at which reading ended."""
    objects: list[_Read] = []
    skipped: list[str] = []
    for line, source in enumerate(chunk.data.split(b"\n"), chunk.before + 1):
        if not source or source.isspace():
            continue
        try:
            content = parse_object(source)
            text = text_of(content, field)
        except DataError as fault:
            located = DataError(f"{chunk.name}:{line}: {fault}")
            if not skip_bad:
                return objects, skipped, located
            skipped.append(str(located))
            continue
        objects.append(_Read(line, content.get("id"), source, lines_of(text)))
    return objects, skipped, None


def parse_object(source: bytes) -> dict[str, Any]:
    """The JSON object in a line. Raises DataError."""
    try:
        content = from_json(source)
    except ValueError as fault:
        reason = str(fault).replace(" line 1 column ", " byte ")
        raise DataError(f"not JSON ({reason}); give one object a line, {ADVICE}") from None
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else "a bare value"
        raise DataError(f"{kind}, not an object; give one object a line, {ADVICE}")
    return content


def text_of(content: dict[str, Any], field: str) -> str:
    """The text of an object. Raises DataError if it has none."""
    text = content.get(field)
    if isinstance(text, str):
        return text
    if field in content:
        kind = "null" if text is None else f"a {type(text).__name__}"
        raise DataError(f"{field!r} is {kind}, not a text; name another --field, {ADVICE}")
    known = ", ".join(repr(key) for key in list(content)[:8]) or "none"
    raise DataError(f"the object has no {field!r}; name the --field of the text (there are: {known}), {ADVICE}")


def lines_of(text: str) -> list[str]:
    """The lines of a text that hold more than white space."""
    lines = text.split("\n")
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    return [line for line in lines if line and not line.isspace()]


class ObjectReader(read.LineReader):
    """A file of JSON Lines: its lines may be long, and none is cut."""

    def chunks(self, size: int) -> Iterator[tuple[bytes, int]]:
        """As for any text. Raises DataError for a line of more than LONGEST_OBJECT bytes."""
        with read._explained(self.name):
            if self.name == read.STDIN:
                yield from self._whole(self._counted(cast(io.BufferedReader, sys.stdin.buffer).read1, size))
            else:
                with open(self.name, "rb") as file:
                    yield from self._whole(self._unpacked(file, size))

    def _whole(self, blocks: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
        parts: list[bytes] = []
        before = held = 0
        for block in blocks:
            whole, end, rest = block.rpartition(b"\n")
            if end:
                data = b"".join([*parts, whole])
                yield (data if before else data.removeprefix(codecs.BOM_UTF8)), before
                before += data.count(b"\n") + 1
                parts, held = [], 0
            parts.append(rest)
            held += len(rest)
            if held > LONGEST_OBJECT:
                raise DataError(
                    f"{self.name}:{before + 1}: a line of more than {LONGEST_OBJECT >> 20} MB; "
                    "give JSON Lines, one object a line"
                )
        if held:
            data = b"".join(parts)
            yield (data if before else data.removeprefix(codecs.BOM_UTF8)), before
