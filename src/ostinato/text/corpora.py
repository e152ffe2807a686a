"""Corpora: from what the user names to streams for training, validation and test, with their vocabulary."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.config import build
from ostinato.core.errors import ConfigError, DataError, FormatError
from ostinato.core.files import check_format, read_json, write_json
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.vocabulary import Vocabulary
from ostinato.text import vocabulary as vocabularies
from ostinato.text.embedded import python_docs
from ostinato.text.normalise import Normaliser
from ostinato.text.options import DataOptions
from ostinato.text.pipeline import Pipeline
from ostinato.text.read import STDIN, check_readable
from ostinato.text.sources import Source, name_of
from ostinato.text.spool import Spool
from ostinato.text.stream import TokenStream, new_folder, spooled, write_stream
from ostinato.text.tokenise import Tokeniser, make_tokeniser

__all__ = ["Corpus", "DataOptions", "prepare"]

Make: TypeAlias = Callable[[int, Any], NDArray[Any]]
"""Makes an array of so many numbers of a type."""

FORMAT = 1
PARTS = ("train", "valid", "test")


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Everything a model learns from and is measured on; `test` is None if there is no test text."""

    train: TokenStream
    valid: TokenStream
    test: TokenStream | None
    vocabulary: Vocabulary
    pipeline: Pipeline
    options: DataOptions

    @classmethod
    def open(cls, directory: Path) -> Corpus:
        """The corpus that `prepare` made in that folder. Raises FormatError if it is damaged."""
        vocabulary = Vocabulary.load(directory / "vocabulary.json")
        parts = [TokenStream.open(directory / part) for part in PARTS if part != "test" or (directory / part).is_dir()]
        for part in parts:
            part.check(vocabulary)
        test = parts[2] if len(parts) == 3 else None
        pipeline = Pipeline.load(directory / "text.json")
        return cls(parts[0], parts[1], test, vocabulary, pipeline, _load_options(directory / "corpus.json"))


def _load_options(path: Path) -> DataOptions:
    content = read_json(path)
    try:
        check_format(path, content, FORMAT)
        return build(DataOptions, content["options"], str(path))
    except (KeyError, TypeError, AttributeError, ConfigError) as fault:
        raise FormatError(f"{path}: not a corpus of ours ({fault}); prepare the text again") from None


def prepare(options: DataOptions, directory: Path, watch: Watch = unwatched) -> Corpus:
    """Read, normalise, cut and number the text into `directory`, which must not exist.

    Each file is one document. Where text is held out, the training text comes first, then validation, then
    test, cut between lines. Vocabulary and BPE see the training part only.
    Raises ConfigError for options that do not fit the text, DataError for a text that cannot be used,
    StorageError if `directory` exists or cannot be written; nothing is left behind then.
    """
    normaliser = Normaliser(options.normalise)
    given = _given_vocabulary(options)
    check_readable((*options.text, *options.valid, *options.test))
    with new_folder(directory) as folder:
        tokeniser = _tokeniser(options, normaliser, folder, watch)
        sources = _sources(options, folder)
        pipeline = Pipeline(normaliser, tokeniser)
        with spooled(list(sources.values()), pipeline, folder, watch) as spool:
            parts = _cut(options, sources, spool.ends)
            vocabulary = given or _counted(options, tokeniser, spool, parts["train"])
            for part, lines in parts.items():
                (folder / part).mkdir()
                name = sources[part].name if part in sources else f"{sources['train'].name}/{part}"
                write_stream(spool, lines, vocabulary, folder / part, name)
        (folder / _STDIN_COPY).unlink(missing_ok=True)
        vocabulary.save(folder / "vocabulary.json")
        pipeline.save(folder / "text.json")
        write_json(folder / "corpus.json", {"format": FORMAT, "options": dataclasses.asdict(options)})
        train = TokenStream.open(folder / "train")
        _check_known(train.data, train.unknown, len(train) - train.lines, options)
    return Corpus.open(directory)


@dataclasses.dataclass(frozen=True)
class Whole:
    """A text as ids [T], every line ended by the stop id, with what it was made with; data: its name and digest."""

    ids: NDArray[np.int32]
    vocabulary: Vocabulary
    pipeline: Pipeline
    data: str


def prepare_whole(options: DataOptions, directory: Path, watch: Watch = unwatched, make: Make = np.empty) -> Whole:
    """All the training text as one row of ids; `directory`, which must not exist, is gone again afterwards.

    Nothing is held out; `valid`, `test` and `holdout` are not looked at. make: makes the array of the ids.
    Raises as `prepare` does.
    """
    normaliser = Normaliser(options.normalise)
    given = _given_vocabulary(options)
    check_readable(options.text)
    directory.mkdir(parents=True)
    try:
        tokeniser = _tokeniser(options, normaliser, directory, watch)
        source = _sources(options, directory)["train"]
        pipeline = Pipeline(normaliser, tokeniser)
        with spooled([source], pipeline, directory, watch) as spool:
            if not spool.lines:
                raise DataError(f"{source.name}: the text is empty; give one with at least one line")
            lines = (0, spool.lines)
            vocabulary = given or _counted(options, tokeniser, spool, lines)
            ids = make(spool.tokens, np.int32)
            final, at = spool.final_ids(vocabulary).astype(np.int32), 0
            for chunk in spool.ids(0, spool.tokens):
                ids[at : at + len(chunk)] = final[chunk]
                at += len(chunk)
            digest = spool.digest(*lines, [0, *(line for line in spool.documents if 0 < line < spool.lines)])
            if given is not None:
                unknown = int(spool.counts(*lines)[final[1:] == vocabulary.unknown].sum())
                _check_known(source.name, unknown, spool.tokens - spool.lines, options)
        return Whole(ids, vocabulary, pipeline, f"{source.name}#{digest}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


_STDIN_COPY = "stdin.txt"


def _given_vocabulary(options: DataOptions) -> Vocabulary | None:
    """The vocabulary the options name, once the options are known to fit each other."""
    counted = options.vocabulary is None and options.tokeniser not in ("byte", "bpe")
    if options.limit is not None and not counted:
        reason = (
            "a vocabulary is given" if options.vocabulary else f"the tokeniser {options.tokeniser} knows its pieces"
        )
        raise ConfigError(f"limit {options.limit:,} has no use, since {reason}; leave it out (bpe has bpe_pieces)")
    return None if options.vocabulary is None else vocabularies.from_file(options.vocabulary)


def _sources(options: DataOptions, folder: Path) -> dict[str, Source]:
    """The text of each part that has its own, by part, not yet read; the training part first."""
    sources = {}
    copy = folder / _STDIN_COPY
    for part, paths in zip(PARTS, (options.text, options.valid, options.test), strict=True):
        if paths:
            read = [copy if path == STDIN and copy.exists() else path for path in paths]
            sources[part] = Source(name_of(paths), Source.of_files(read, options.empty_lines).documents)
    if not options.text:
        docs = python_docs()
        sources["train"] = Source.of_lines(docs.name, docs.train)
        sources.setdefault("valid", Source.of_lines(f"{docs.name}/valid", docs.valid))
        sources.setdefault("test", Source.of_lines(f"{docs.name}/test", docs.test))
    return {part: sources[part] for part in PARTS if part in sources}


def _tokeniser(options: DataOptions, normaliser: Normaliser, folder: Path, watch: Watch) -> Tokeniser:
    """The tokeniser; one that learns reads the training part, so standard input is copied before."""
    if options.tokeniser != "bpe":
        return make_tokeniser(options.tokeniser)
    if STDIN in (*options.text, *options.valid, *options.test):
        with (folder / _STDIN_COPY).open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
    watch(Progress("learning pieces", 0))
    count = sum(1 for _ in _training_lines(options, folder))
    keep, _ = _held_out(options, _sources(options, folder), count)
    lines = map(normaliser, islice(_training_lines(options, folder), keep))
    return make_tokeniser(options.tokeniser, lines, options.bpe_pieces)


def _training_lines(options: DataOptions, folder: Path) -> Iterator[str]:
    return chain.from_iterable(_sources(options, folder)["train"].documents)


def _cut(options: DataOptions, sources: dict[str, Source], ends: list[int]) -> dict[str, tuple[int, int]]:
    """The lines of each part, as first and one after the last; `ends` says where each source ends.

    Raises DataError for a source without lines, or with too few to hold some out.
    """
    begins = [0, *ends]
    parts = {part: (begins[place], begins[place + 1]) for place, part in enumerate(sources)}
    for part, (first, last) in parts.items():
        if first == last:
            raise DataError(f"{sources[part].name}: the text is empty; give one with at least one line")
    total = parts["train"][1]
    keep, held = _held_out(options, sources, total)
    parts["train"] = (0, keep)
    for place, part in enumerate(held):
        size = (total - keep) // len(held)
        parts[part] = (keep + place * size, keep + (place + 1) * size)
    return parts


def _held_out(options: DataOptions, sources: dict[str, Source], total: int) -> tuple[int, list[str]]:
    """How many of `total` lines are for training, and the parts that share the others equally."""
    held = [] if "valid" in sources else ["valid"] if "test" in sources else ["valid", "test"]
    keep = total - len(held) * max(1, round(total * options.holdout))
    if held and keep < 1:
        raise DataError(
            f"{sources['train'].name}: {total} lines are too few to hold some out for {' and '.join(held)}; "
            "give more text, or validation and test texts of their own"
        )
    return keep, held


def _counted(options: DataOptions, tokeniser: Tokeniser, spool: Spool, lines: tuple[int, int]) -> Vocabulary:
    """The vocabulary of the training lines, or all the tokeniser knows."""
    if tokeniser.inventory is not None:
        return vocabularies.from_inventory(tokeniser.inventory)
    return vocabularies.from_counts(list(spool.numbering), spool.counts(*lines), options.min_count, options.limit)


def _check_known(name: str, unknown: int, tokens: int, options: DataOptions) -> None:
    """Raise DataError if a given vocabulary knows nothing of the text: it belongs to another one."""
    if unknown == tokens and unknown:
        raise DataError(
            f"{options.vocabulary}: none of its pieces occurs in {name}; give a vocabulary made with the "
            f"tokeniser {options.tokeniser} and the same normalisers"
        )
