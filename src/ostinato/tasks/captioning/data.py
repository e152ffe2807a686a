"""The data of a captioner: read, checked and shared out once; kept inside the run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.arrays import new_array_file, open_arrays
from ostinato.core.errors import ConfigError, DataError, FormatError, MismatchError
from ostinato.core.files import check_format, read_json, write_json
from ostinato.core.progress import Progress, Watch
from ostinato.nn.captioner import Picture, check_shape, numbers
from ostinato.tasks.captioning.options import Config, DataOptions
from ostinato.tasks.captioning.sources import Given, Layout, open_source
from ostinato.tasks.examples import digest, read_examples, write_examples
from ostinato.tasks.splitting import part_name, split
from ostinato.tasks.translation.sides import Side, made_side
from ostinato.text.sources import name_of

FORMAT = 1
FILE = "captioning.json"
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Item:
    """The captions of a picture, any of which is right, and where it stood."""

    targets: tuple[str, ...]
    where: str


@dataclass(frozen=True, eq=False)
class Part:
    """Items and their pictures [N, ...], of which the first `lengths` [N] rows each are there."""

    items: list[Item]
    values: NDArray[Any]
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.items)

    def picture(self, place: int) -> Picture:
        """One of the pictures."""
        found: Picture = self.values[place, : self.lengths[place]]
        return found

    def chosen(self, places: NDArray[np.int64]) -> Part:
        """Some of them."""
        return Part([self.items[place] for place in places.tolist()], self.values[places], self.lengths[places])

    @property
    def digest(self) -> str:
        """Eight digits that change whenever a picture or caption does."""
        pictures = (np.ascontiguousarray(self.picture(place)) for place in range(len(self)))
        seen = (hashlib.sha256(picture.tobytes()).hexdigest() for picture in pictures)
        rows = ({"targets": item.targets, "seen": one} for item, one in zip(self.items, seen, strict=True))
        return digest(rows, "targets", "seen")


@dataclass(frozen=True)
class Corpus:
    """Items by part, and how captions become numbers.

    shape: of a picture, or of features at the most places. layout: of features that lie in a grid. longest: pieces of
    the longest caption in training.
    """

    parts: dict[str, Part]
    names: dict[str, str]
    target: Side
    shape: tuple[int, ...]
    layout: Layout | None
    longest: int

    @classmethod
    def open(cls, folder: Path, parts: Sequence[str] = PARTS) -> Corpus:
        """What `prepare` wrote, with the items of these parts. Raises FormatError if it is damaged."""
        path = folder / FILE
        content = read_json(path)
        try:
            check_format(path, content, FORMAT)
            names, longest = dict(content["names"]), int(content["longest"])
            shape = tuple(int(size) for size in content["shape"])
            layout = None if content["layout"] is None else (int(content["layout"][0]), int(content["layout"][1]))
        except (KeyError, TypeError, ValueError, IndexError) as fault:
            raise FormatError(f"{path}: damaged ({fault}); restore the file or train again") from None
        found = {part: load_part(folder, part) for part in parts if part in names}
        return cls(found, names, Side.load(folder, "caption"), shape, layout, longest)

    def save(self, folder: Path) -> None:
        """Write it all."""
        for name, part in self.parts.items():
            write_examples(folder / f"{name}.jsonl", ({"targets": i.targets, "where": i.where} for i in part.items))
            with new_array_file(folder / f"{name}.safetensors") as file:
                file.add("values", part.values)
                file.add("lengths", part.lengths)
                file.finish({"kind": "pictures"})
        told = {"names": self.names, "shape": self.shape, "layout": self.layout, "longest": self.longest}
        write_json(folder / FILE, {"format": FORMAT, **told})
        self.target.save(folder, "caption")

    @property
    def fingerprint(self) -> str:
        """Of the vocabulary, in which a model's numbers are."""
        return self.target.vocabulary.fingerprint


def load_part(folder: Path, name: str) -> Part:
    """One part, its pictures memory-mapped. Raises FormatError if it is damaged."""
    rows = read_examples(folder / f"{name}.jsonl", "targets", "where")
    path = folder / f"{name}.safetensors"
    arrays, _ = open_arrays(path)
    items = [Item(tuple(row["targets"]), str(row["where"])) for row in rows]
    if not len(items) == len(arrays.get("values", ())) == len(arrays.get("lengths", ())):
        raise FormatError(f"{path}: does not fit {name}.jsonl beside it; restore both or train again")
    return Part(items, arrays["values"], np.asarray(arrays["lengths"], np.int64))


def read_part(paths: Sequence[str], options: DataOptions, watch: Watch) -> tuple[Part, Layout | None]:
    """All items of these files with their captions. Raises DataError, with file and line or number."""
    given: list[Given] = []
    layouts = []
    for path in paths:
        opened = open_source(path, options, captioned=True)
        layouts.append(opened.layout)
        for item in opened.items:
            if given and not _fits(item.picture, given[0].picture):
                raise DataError(
                    f"{item.where}: of shape {item.picture.shape}, but {given[0].where} is {given[0].picture.shape}; "
                    "bring pictures to one size (data.height and data.width do that to files of pictures)"
                )
            given.append(item)
            if len(given) % 1000 == 0:
                watch(Progress("read", len(given)))
    if not given:
        raise DataError(f"{name_of(paths)}: nothing in it; give pictures with captions")
    layout = layouts[0] if len(set(layouts)) == 1 else None
    return Part([Item(one.captions, one.where) for one in given], *stacked([one.picture for one in given])), layout


def _fits(one: Picture, other: Picture) -> bool:
    """Whether both can be in one array: features may differ in places."""
    return one.ndim == other.ndim and (one.shape == other.shape if one.ndim == 3 else one.shape[1] == other.shape[1])


def stacked(pictures: Sequence[Picture]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Pictures as one array [N, ...], zeros behind those of fewer places, and their lengths [N]."""
    lengths = np.array([len(picture) for picture in pictures], np.int64)
    dtype = np.uint8 if all(picture.dtype == np.uint8 for picture in pictures) else np.float32
    values = np.zeros((len(pictures), int(lengths.max()), *pictures[0].shape[1:]), dtype)
    for row, picture in zip(values, pictures, strict=True):
        row[: len(picture)] = picture if dtype == np.uint8 else numbers(picture)
    return values, lengths


def made_corpus(options: DataOptions, watch: Watch) -> Corpus:
    """Everything that training and answering need of the files. Raises ConfigError without training data, DataError."""
    if not options.train:
        raise ConfigError("data.train names no file; give pictures with captions: --data.train FILE.npz, or a folder")
    given = {part: getattr(options, part) for part in PARTS if getattr(options, part)}
    read = {part: read_part(paths, options, watch) for part, paths in given.items()}
    names = {part: name_of(paths) for part, paths in given.items()}
    whole, layout = read["train"]
    parts = {part: found for part, (found, _) in read.items()}
    for part, places in split(len(whole), options, names["train"]).items():
        parts[part] = whole.chosen(places)
        names[part] = part_name(part, options, name_of(given["train"]))
    shape = whole.values.shape[1:]
    for part, found in parts.items():
        try:
            check_shape(found.values.shape[1:], shape)
        except MismatchError as fault:
            raise DataError(f"{names[part]}: {fault}") from None
    texts = [text for item in parts["train"].items for text in item.targets]
    side = made_side(options, options.normalise, options.tokeniser, texts)
    return Corpus(parts, names, side, shape, layout, max(len(side.pieces(text)) for text in texts))


def notes_on(corpus: Corpus, config: Config, long: int) -> list[str]:
    """What a person should know of the data before training; long: how many captions are left out."""
    sizes = ", ".join(f"{name} {len(part):,}" for name, part in corpus.parts.items())
    shape = " x ".join(map(str, corpus.shape))
    kind = "pictures" if len(corpus.shape) == 3 else "features"
    notes = [f"{kind} of {shape}; {len(corpus.target.vocabulary):,} pieces of captions; items: {sizes}"]
    if not config.data.valid:
        notes.append(
            f"{len(corpus.parts['valid']):,} training items are held out for validation (data.holdout "
            f"{config.data.holdout}, data.split_seed {config.data.split_seed})"
        )
    if long:
        notes.append(f"{long:,} training captions of more than {config.train.longest:,} pieces are left out")
    return notes


def moments(part: Part) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean and the standard deviation of each channel over a part, what is not there left out."""
    channels = part.values.shape[-1]
    count, total, squares = 0, np.zeros(channels), np.zeros(channels)
    for place in range(len(part)):
        flat = numbers(part.picture(place)).reshape(-1, channels).astype(np.float64)
        count, total, squares = count + len(flat), total + flat.sum(axis=0), squares + (flat**2).sum(axis=0)
    mean = total / count
    deviation = np.sqrt(np.maximum(0.0, squares / count - mean**2))
    return mean, np.where(deviation > 1e-6 * np.maximum(1.0, np.abs(mean)), deviation, 0.0)
