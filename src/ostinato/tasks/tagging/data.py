"""The data of a tagger: read, checked and shared out once; kept inside the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ostinato.core.errors import ConfigError, DataError, FormatError
from ostinato.core.files import check_format, read_json, write_json
from ostinato.core.progress import Watch
from ostinato.core.vocabulary import Ids
from ostinato.tasks.examples import digest, read_examples, write_examples
from ostinato.tasks.metrics.labels import say_unknown, unknown_labels
from ostinato.tasks.splitting import part_name, split
from ostinato.tasks.tagging.lexicon import Lexicon
from ostinato.tasks.tagging.options import Config, DataOptions
from ostinato.tasks.tagging.reading import Source, Tagged, auxiliary_columns, found_source, read_tagged
from ostinato.text.read import check_readable
from ostinato.text.schemes import (
    OUTSIDE,
    Scheme,
    Span,
    check_scheme,
    convert,
    found_scheme,
    parse,
    strange_tags,
    written,
)
from ostinato.text.sources import name_of

FORMAT = 1
FILE = "tagging.json"
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Labels:
    """The labels that a network has, and how they are written.

    names: in the scheme `learnt`. scheme: how files write them, and answers.
    """

    names: tuple[str, ...]
    learnt: Scheme
    scheme: Scheme

    @cached_property
    def places(self) -> dict[str, int]:
        """The number of each label."""
        return {name: place for place, name in enumerate(self.names)}

    def numbers(self, labels: Sequence[str]) -> Ids:
        """Labels as files write them as numbers, -1 for one that the network does not have."""
        names = labels if self.learnt == self.scheme else self._learnt(labels)
        return np.array([self.places.get(name, -1) for name in names], np.int64)

    def _learnt(self, labels: Sequence[str]) -> list[str]:
        """Converted; a label that the scheme does not have stays, so that it is not taken for outside."""
        converted = convert(labels, self.scheme, self.learnt)
        return [
            label if parse(label, self.scheme) is None else name for label, name in zip(labels, converted, strict=True)
        ]

    def answers(self, numbers: Sequence[int]) -> list[str]:
        """Numbers as labels in the scheme of files."""
        names = [self.names[number] for number in numbers]
        return names if self.learnt == self.scheme else convert(names, self.learnt, self.scheme)

    @cached_property
    def known(self) -> frozenset[str]:
        """The labels that can be answered."""
        if self.learnt == self.scheme:
            return frozenset(self.names)
        return frozenset(_completed(self.names, self.learnt, self.scheme))


def labels_of(sentences: Sequence[Tagged], data: DataOptions, learnt: str | None, name: str) -> Labels:
    """The labels in training. Raises DataError if there is only one, ConfigError for labels outside the scheme."""
    tags = [sentence.labels for sentence in sentences]
    if data.unit == "character":
        scheme: Scheme = "bmes"
    else:
        scheme = found_scheme(tags) if data.scheme is None else check_scheme(data.scheme)
    target = scheme if learnt is None else check_scheme(learnt)
    seen = {tag for labels in tags for tag in labels}
    if (scheme == "none") != (target == "none"):
        raise ConfigError(
            f"model.scheme {target}, but the labels of {name} are in the scheme {scheme}"
            + ("" if data.scheme else " (as it seems; data.scheme says otherwise)")
        )
    strange = sorted(set(strange_tags(seen, scheme)))
    if strange:
        raise ConfigError(
            f"{name}: {strange[0]!r} is no label of the scheme {scheme}; set data.scheme to the right one"
        )
    names = tuple(sorted(seen)) if scheme == "none" else _completed(sorted(seen), scheme, target)
    if len(names) < 2:
        raise DataError(f"{name}: every word has the label {names[0]!r}, so there is nothing to learn")
    return Labels(names, target, scheme)


def _completed(tags: Iterable[str], scheme: Scheme, target: Scheme) -> tuple[str, ...]:
    """Every tag of `target` for the spans' labels among `tags`, so that well-formed answers are always possible."""
    parsed = [tag for tag in (parse(tag, scheme) for tag in tags) if tag is not None]
    found = {OUTSIDE} if any(tag.place == OUTSIDE for tag in parsed) else set()
    for label in sorted({tag.label for tag in parsed if tag.place != OUTSIDE}):
        spans = [Span(0, 3, label), Span(3, 5, label), Span(5, 6, label)]
        found.update(written(spans, 6, target))
    return tuple(sorted(found))


@dataclass(frozen=True)
class Corpus:
    """Sentences by part, and how they become numbers. source: how the training file is written."""

    parts: dict[str, list[Tagged]]
    names: dict[str, str]
    labels: Labels
    source: Source
    lexicon: Lexicon

    @property
    def measure(self) -> str:
        """What a run is judged by."""
        if self.source.unit == "character":
            return "F1 of words with their labels" if self.source.labelled else "F1 of words"
        return "accuracy" if self.labels.scheme == "none" else "F1 of spans"

    @classmethod
    def open(cls, folder: Path, parts: Sequence[str] = PARTS) -> Corpus:
        """What `prepare` wrote, with the sentences of these parts. Raises FormatError if it is damaged."""
        path = folder / FILE
        content = read_json(path)
        try:
            check_format(path, content, FORMAT)
            told = content["labels"]
            labels = Labels(tuple(told["names"]), check_scheme(told["learnt"]), check_scheme(told["scheme"]))
            names, source = dict(content["names"]), Source(**content["source"])
        except (KeyError, TypeError, ValueError, ConfigError) as fault:
            raise FormatError(f"{path}: damaged ({fault}); restore the file or train again") from None
        found = {part: _load(folder / f"{part}.jsonl") for part in parts}
        return cls({part: rows for part, rows in found.items() if rows}, names, labels, source, Lexicon.load(folder))

    def save(self, folder: Path) -> None:
        """Write it all."""
        for part, sentences in self.parts.items():
            write_examples(folder / f"{part}.jsonl", map(plain, sentences))
        labels = {"names": self.labels.names, "learnt": self.labels.learnt, "scheme": self.labels.scheme}
        content = {"format": FORMAT, "labels": labels, "names": self.names, "source": asdict(self.source)}
        write_json(folder / FILE, content)
        self.lexicon.save(folder)


def auxiliary_labels(sentences: Sequence[Tagged]) -> list[tuple[str, ...]]:
    """The labels in each auxiliary column."""
    columns = zip(*(sentence.auxiliary for sentence in sentences), strict=True)
    return [tuple(sorted({label for labels in column for label in labels})) for column in columns]


def plain(sentence: Tagged) -> dict[str, Any]:
    """A sentence as plain values."""
    found = {"words": sentence.words, "labels": sentence.labels, "where": sentence.where}
    return {**found, "auxiliary": sentence.auxiliary} if sentence.auxiliary else found


def _load(path: Path) -> list[Tagged]:
    rows = read_examples(path, "words", "labels", "where")
    others = [tuple(map(tuple, row.get("auxiliary", ()))) for row in rows]
    pairs = zip(rows, others, strict=True)
    found = [Tagged(tuple(row["words"]), tuple(row["labels"]), str(row["where"]), other) for row, other in pairs]
    columns = ((number, row, len(row.words)) for number, row in enumerate(found, 1))
    bad = next((n for n, row, size in columns if any(len(one) != size for one in (row.labels, *row.auxiliary))), None)
    if bad is not None:
        raise FormatError(f"{path}:{bad}: not as many labels as words; restore the file or train again")
    return found


def data_name(name: str, sentences: Sequence[Tagged]) -> str:
    """A name for signatures that changes whenever a word or label does."""
    return f"{name}#{digest(map(plain, sentences), 'words', 'labels')}"


def read_parts(options: DataOptions, watch: Watch) -> tuple[dict[str, list[Tagged]], dict[str, str], Source]:
    """The sentences of each part, its name, and how the training file is written.

    Raises ConfigError without training data, DataError.
    """
    if not options.train:
        raise ConfigError("data.train names no file; give sentences with labels: --data.train FILE")
    given = {part: getattr(options, part) for part in PARTS if getattr(options, part)}
    check_readable([path for paths in given.values() for path in paths])
    source = found_source(options.train[0], options)
    found = {part: read_tagged(source, paths, watch) for part, paths in given.items() if part != "train"}
    found["train"] = read_tagged(source, options.train, watch, auxiliary_columns(options.train[0], source, options))
    names = {part: name_of(paths) for part, paths in given.items()}
    whole, name = found["train"], names["train"]
    for part, places in split(len(whole), options, name).items():
        found[part] = [whole[place] for place in places.tolist()]
        names[part] = part_name(part, options, name)
    return found, names, source


def notes_on(corpus: Corpus, config: Config) -> list[str]:
    """What a person should know of the data before training."""
    parts, labels, notes = corpus.parts, corpus.labels, []
    sizes = ", ".join(f"{part} {len(sentences):,}" for part, sentences in parts.items())
    schemes = f"scheme {labels.scheme}" + (f", learnt as {labels.learnt}" if labels.learnt != labels.scheme else "")
    notes.append(f"{len(labels.names)} labels ({schemes}), {len(corpus.lexicon.words):,} words; sentences: {sizes}")
    for name, labels_there in zip(config.data.further, auxiliary_labels(parts["train"]), strict=True):
        idle = "" if len(labels_there) > 1 else ", so it teaches nothing"
        notes.append(f"auxiliary column {name}: {len(labels_there)} label{'s' if len(labels_there) > 1 else ''}{idle}")
    if not config.data.valid:
        notes.append(
            f"{len(parts['valid']):,} training sentences are held out for validation (data.holdout "
            f"{config.data.holdout}, data.split_seed {config.data.split_seed})"
        )
    longest = config.train.longest
    long = sum(len(sentence.words) > longest for sentence in parts["train"])
    if long:
        notes.append(f"{long:,} training sentences of more than {longest:,} words are left out (train.longest)")
    for part in ("valid", "test"):
        found = (label for sentence in parts.get(part, []) for label in sentence.labels)
        unknown = say_unknown(unknown_labels(found, labels.known))
        if unknown:
            notes.append(f"{corpus.names[part]}: {unknown}")
    return notes
