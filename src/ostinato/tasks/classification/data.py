"""The data of a classifier: read, checked and shared out once; kept inside the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ostinato.core.errors import ConfigError, DataError, FormatError
from ostinato.core.files import check_format, read_json, write_json
from ostinato.core.progress import Progress, Watch
from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.embed.subwords import Subwords
from ostinato.tasks.classification.encoding import Encoder, pieces_of
from ostinato.tasks.classification.options import DataOptions
from ostinato.tasks.examples import digest, read_examples, write_examples
from ostinato.tasks.metrics.labels import say_unknown, unknown_labels
from ostinato.tasks.splitting import part_name, split
from ostinato.text import vocabulary as vocabularies
from ostinato.text.labelled import Column, Form, LabelledReader, found_form
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.read import check_readable
from ostinato.text.sources import name_of
from ostinato.text.tokenise import make_tokeniser

FORMAT = 1
FILE = "classification.json"
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Labelled:
    """A text, its label, and where it stood."""

    text: str
    label: str
    where: str


@dataclass(frozen=True)
class Corpus:
    """Examples by part, and how they become numbers. form: of the training file, for input whose form is not said."""

    parts: dict[str, list[Labelled]]
    names: dict[str, str]
    labels: tuple[str, ...]
    form: Form
    pipeline: Pipeline
    vocabulary: Vocabulary

    @classmethod
    def open(cls, folder: Path, parts: Sequence[str] = PARTS) -> Corpus:
        """What `prepare` wrote, with the examples of these parts. Raises FormatError if it is damaged."""
        path = folder / FILE
        content = read_json(path)
        try:
            check_format(path, content, FORMAT)
            form = Form(**content["form"] | {"header": tuple(content["form"]["header"])})
            labels, names = tuple(content["labels"]), dict(content["names"])
        except (KeyError, TypeError, ValueError) as fault:
            raise FormatError(f"{path}: damaged ({fault}); restore the file or train again") from None
        found = {part: _load(folder / f"{part}.jsonl") for part in parts}
        pipeline, vocabulary = Pipeline.load(folder / "text.json"), Vocabulary.load(folder / "vocabulary.json")
        return cls({part: rows for part, rows in found.items() if rows}, names, labels, form, pipeline, vocabulary)

    def save(self, folder: Path) -> None:
        """Write it all."""
        for part, examples in self.parts.items():
            write_examples(folder / f"{part}.jsonl", map(asdict, examples))
        content = {"format": FORMAT, "labels": self.labels, "names": self.names, "form": asdict(self.form)}
        write_json(folder / FILE, content)
        self.pipeline.save(folder / "text.json")
        self.vocabulary.save(folder / "vocabulary.json")

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text; a line end inside it is a blank."""
        return pieces_of(self.pipeline, text)

    def encoder(self, subwords: Subwords | None = None) -> Encoder:
        """How texts become numbers; subwords: the n-grams that a network reads."""
        return Encoder(self.pipeline, self.vocabulary, subwords)

    def numbers(self, examples: Iterable[Labelled]) -> Ids:
        """The number of each example's label, -1 for one that is not among `labels`."""
        places = {label: place for place, label in enumerate(self.labels)}
        return np.array([places.get(example.label, -1) for example in examples], np.int64)


def _load(path: Path) -> list[Labelled]:
    rows = read_examples(path, "text", "label", "where")
    return [Labelled(str(row["text"]), str(row["label"]), str(row["where"])) for row in rows]


def data_name(name: str, examples: Sequence[Labelled]) -> str:
    """A name for signatures that changes whenever a text or label does."""
    return f"{name}#{digest(map(asdict, examples), 'text', 'label')}"


def forms(options: DataOptions, paths: Sequence[str]) -> list[Form]:
    """The form of each file."""
    label, text = _column(options.label), _column(options.text)
    return [found_form(path, options.form, label, text, options.labels == "coarse") for path in paths]


def _column(given: str | None) -> Column | None:
    return int(given) if given is not None and given.removeprefix("-").isdecimal() else given


def read_labelled(options: DataOptions, paths: Sequence[str], watch: Watch) -> list[Labelled]:
    """All examples of these files. Raises DataError, with file and line, or if there is none."""
    check_readable(paths)
    examples: list[Labelled] = []
    for path, form in zip(paths, forms(options, paths), strict=True):
        for found in LabelledReader(path, form):
            assert found.label is not None
            examples.append(Labelled(found.text, found.label, f"{name_of([path])}:{found.number}"))
            if len(examples) % 1000 == 0:
                watch(Progress("read", len(examples)))
    if not examples:
        raise DataError(f"{name_of(paths)}: no examples; give a file with a text and its label on each line")
    return examples


def read_parts(options: DataOptions, watch: Watch) -> tuple[dict[str, list[Labelled]], dict[str, str]]:
    """The examples of each part and its name. Raises ConfigError without training data, DataError."""
    if not options.train:
        raise ConfigError("data.train names no file; give texts with labels: --data.train FILE")
    given = {part: getattr(options, part) for part in PARTS if getattr(options, part)}
    check_readable([path for paths in given.values() for path in paths])
    found = {part: read_labelled(options, paths, watch) for part, paths in given.items()}
    names = {part: name_of(paths) for part, paths in given.items()}
    whole, name = found["train"], names["train"]
    for part, places in split(len(whole), options, name).items():
        found[part] = [whole[place] for place in places.tolist()]
        names[part] = part_name(part, options, name)
    return found, names


def labels_of(examples: Sequence[Labelled], name: str) -> tuple[str, ...]:
    """The labels in training, in order of spelling. Raises DataError if there is only one."""
    labels = tuple(sorted({example.label for example in examples}))
    if len(labels) < 2:
        raise DataError(f"{name}: every training example has the label {labels[0]!r}, so there is nothing to learn")
    return labels


def made_pieces(options: DataOptions, texts: Sequence[str]) -> tuple[Pipeline, Vocabulary]:
    """The pipeline that the options ask for, and the vocabulary of the training texts."""
    options.check_pieces()
    normaliser = Normaliser(("nfc",) if options.normalise is None else options.normalise)
    tokeniser = make_tokeniser(options.tokeniser or "word", map(normaliser, texts), options.bpe_pieces or 4000)
    pipeline = Pipeline(normaliser, tokeniser)
    if tokeniser.inventory is not None:
        return pipeline, vocabularies.from_inventory(tokeniser.inventory)
    counts = Counter(piece for text in texts for piece in pieces_of(pipeline, text))
    numbers = np.array(list(counts.values()), np.int64)
    least = 2 if options.min_count is None else options.min_count
    return pipeline, vocabularies.from_counts(list(counts), numbers, least, options.limit)


def notes_on(corpus: Corpus, options: DataOptions, longest: int) -> list[str]:
    """What a person should know of the data before training."""
    parts, notes = corpus.parts, []
    sizes = ", ".join(f"{part} {len(examples):,}" for part, examples in parts.items())
    notes.append(f"{len(corpus.labels)} labels, {len(corpus.vocabulary):,} pieces; examples: {sizes}")
    if not options.valid:
        notes.append(
            f"{len(parts['valid']):,} training examples are held out for validation (data.holdout {options.holdout}, "
            f"data.split_seed {options.split_seed})"
        )
    long = sum(len(corpus.pieces(example.text)) >= longest for example in parts["train"])  # and the start symbol
    if long:
        notes.append(f"{long:,} training texts of more than {longest:,} tokens are left out (train.longest)")
    trained_on = {example.text for example in parts["train"]}
    for part in ("valid", "test"):
        examples = parts.get(part, [])
        seen = sum(example.text in trained_on for example in examples)
        if seen:
            notes.append(f"{seen:,} {part} texts stand in the training data too")
        unknown = say_unknown(unknown_labels((example.label for example in examples), corpus.labels))
        if unknown:
            notes.append(f"{corpus.names[part]}: {unknown}")
    return notes
