"""The data of a translator: read, checked and shared out once; kept inside the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ostinato.core.errors import ConfigError, DataError, FormatError
from ostinato.core.files import check_format, read_json, write_json
from ostinato.core.progress import Progress, Watch
from ostinato.tasks.examples import digest, read_examples, write_examples
from ostinato.tasks.splitting import part_name, split
from ostinato.tasks.translation.options import Config, DataOptions
from ostinato.tasks.translation.sides import Side, made_sides
from ostinato.text.parallel import ParallelReader
from ostinato.text.read import check_readable
from ostinato.text.sources import name_of

FORMAT = 1
FILE = "translation.json"
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Pair:
    """A source, its targets (of which any is right), and where it stood."""

    source: str
    targets: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class Corpus:
    """Pairs by part, and how they become numbers.

    growth: pieces of the targets for each piece of the sources in training.
    """

    parts: dict[str, list[Pair]]
    names: dict[str, str]
    source: Side
    target: Side
    joint: bool
    growth: float

    @classmethod
    def open(cls, folder: Path, parts: Sequence[str] = PARTS) -> Corpus:
        """What `prepare` wrote, with the pairs of these parts. Raises FormatError if it is damaged."""
        path = folder / FILE
        content = read_json(path)
        try:
            check_format(path, content, FORMAT)
            names, joint, growth = dict(content["names"]), bool(content["joint"]), float(content["growth"])
        except (KeyError, TypeError, ValueError) as fault:
            raise FormatError(f"{path}: damaged ({fault}); restore the file or train again") from None
        found = {part: _load(folder / f"{part}.jsonl") for part in parts}
        source = Side.load(folder, "source")
        target = source if joint else Side.load(folder, "target")
        return cls({part: rows for part, rows in found.items() if rows}, names, source, target, joint, growth)

    def save(self, folder: Path) -> None:
        """Write it all."""
        for part, pairs in self.parts.items():
            write_examples(folder / f"{part}.jsonl", map(asdict, pairs))
        write_json(folder / FILE, {"format": FORMAT, "names": self.names, "joint": self.joint, "growth": self.growth})
        self.source.save(folder, "source")
        if not self.joint:
            self.target.save(folder, "target")

    @property
    def fingerprints(self) -> list[str]:
        """Of both vocabularies, in which a model's numbers are."""
        return [self.source.vocabulary.fingerprint, self.target.vocabulary.fingerprint]


def _load(path: Path) -> list[Pair]:
    rows = read_examples(path, "source", "targets", "where")
    return [Pair(str(row["source"]), tuple(row["targets"]), str(row["where"])) for row in rows]


def data_name(name: str, pairs: Sequence[Pair]) -> str:
    """A name for signatures that changes whenever a source or target does."""
    return f"{name}#{digest(map(asdict, pairs), 'source', 'targets')}"


@dataclass
class Reading:
    """Pairs that are read, and what is to be said of the lines that were left out."""

    pairs: list[Pair]
    notes: list[str]


def read_pairs(options: DataOptions, paths: Sequence[str], watch: Watch) -> Reading:
    """All pairs of these files, in their order, one target each; those with an empty side are left out.

    Raises DataError, with file and line, or if there is none; ConfigError for an odd number of parallel files.
    """
    check_readable(paths)
    found, notes = [], []
    lost = str.maketrans("", "", options.target_without)
    for reader in _readers(options, paths):
        name = name_of([reader.source])
        for pair in reader:
            target = " ".join(pair.target.translate(lost).split()) if options.target_without else pair.target
            if not target:
                raise DataError(
                    f"{name}:{pair.number}: nothing is left of the target {pair.target!r} without the characters "
                    f"{options.target_without!r} (data.target_without)"
                )
            found.append(Pair(pair.source, (target,), f"{name}:{pair.number}"))
            if len(found) % 1000 == 0:
                watch(Progress("read", len(found)))
        notes += [reader.report()] if reader.empty else []
    if not found:
        raise DataError(f"{name_of(paths)}: no pairs; give a source and its target on each line")
    return Reading(found, notes)


def _readers(options: DataOptions, paths: Sequence[str]) -> list[ParallelReader]:
    first, second = options.columns
    if not options.in_pairs(tuple(paths)):
        return [ParallelReader(path, columns=(first, second)) for path in paths]
    if len(paths) % 2:
        raise ConfigError(
            f"{len(paths)} parallel files ({', '.join(paths)}); give them in pairs, each source before its target, or "
            "set data.form to columns"
        )
    return [ParallelReader(source, target) for source, target in zip(paths[::2], paths[1::2], strict=True)]


def with_references(options: DataOptions, pairs: Sequence[Pair], paths: Sequence[str]) -> list[Pair]:
    """Pairs to be judged by: in columns, those of one source become one with several targets."""
    if options.in_pairs(tuple(paths)):
        return list(pairs)
    found: dict[str, Pair] = {}
    for pair in pairs:
        known = found.setdefault(pair.source, pair)
        if not set(pair.targets) <= set(known.targets):
            found[pair.source] = replace(known, targets=known.targets + pair.targets)
    return list(found.values())


def read_parts(options: DataOptions, watch: Watch) -> tuple[dict[str, list[Pair]], dict[str, str], list[str]]:
    """The pairs of each part, its name, and notes. Raises ConfigError without training data, DataError."""
    if not options.train:
        raise ConfigError("data.train names no file; give pairs: --data.train SOURCES TARGETS, or one file in columns")
    given = {part: getattr(options, part) for part in PARTS if getattr(options, part)}
    check_readable([path for paths in given.values() for path in paths])
    found: dict[str, list[Pair]] = {}
    notes: list[str] = []
    for part, paths in given.items():
        reading = read_pairs(options, paths, watch)
        found[part] = reading.pairs
        notes += reading.notes
    names = {part: name_of(paths) for part, paths in given.items()}
    found |= _shared_out(options, found["train"], names)
    for part in ("valid", "test"):
        if part in found:
            found[part] = with_references(options, found[part], given.get(part, given["train"]))
    return found, names, notes


def _shared_out(options: DataOptions, whole: Sequence[Pair], names: dict[str, str]) -> dict[str, list[Pair]]:
    """The training pairs by part, all pairs of one source in the same; parts taken from them get their names."""
    numbers: dict[str, int] = {}
    groups = [numbers.setdefault(pair.source, len(numbers)) for pair in whole]
    name, found = names["train"], {}
    for part, places in split(len(numbers), options, name).items():
        chosen = set(places.tolist())
        found[part] = [pair for pair, group in zip(whole, groups, strict=True) if group in chosen]
        names[part] = part_name(part, options, name)
    return found


def made_corpus(options: DataOptions, watch: Watch) -> tuple[Corpus, list[str]]:
    """Everything that training and answering need of the files, and notes."""
    parts, names, notes = read_parts(options, watch)
    sources = [pair.source for pair in parts["train"]]
    targets = [target for pair in parts["train"] for target in pair.targets]
    source, target = made_sides(options, sources, targets)
    read, said = (
        sum(len(side.pieces(text)) for text in texts) for side, texts in ((source, sources), (target, targets))
    )
    return Corpus(parts, names, source, target, options.is_joint, said / max(1, read)), notes


def notes_on(corpus: Corpus, config: Config, long: int) -> list[str]:
    """What a person should know of the data before training; long: how many pairs are left out."""
    parts, options = corpus.parts, config.data
    sizes = ", ".join(f"{part} {len(pairs):,}" for part, pairs in parts.items())
    pieces = " and ".join(f"{len(side.vocabulary):,}" for side in _sides(corpus))
    notes = [f"{pieces} pieces ({'joint' if corpus.joint else 'source and target'}); pairs: {sizes}"]
    if not options.valid:
        notes.append(
            f"{len(parts['valid']):,} training sources are held out for validation (data.holdout {options.holdout}, "
            f"data.split_seed {options.split_seed})"
        )
    if long:
        notes.append(f"{long:,} training pairs with a side of more than {config.train.longest:,} pieces are left out")
    trained_on = {pair.source for pair in parts["train"]}
    for part in ("valid", "test"):
        seen = sum(pair.source in trained_on for pair in parts.get(part, []))
        if seen:
            notes.append(f"{seen:,} {part} sources stand in the training data too")
    return notes


def _sides(corpus: Corpus) -> Iterable[Side]:
    return [corpus.source] if corpus.joint else [corpus.source, corpus.target]
