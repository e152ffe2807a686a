"""Pictures and features with their captions, as they are given: .npz files, lines, folders."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.nn.captioner import Picture
from ostinato.tasks.captioning.options import DataOptions
from ostinato.tasks.captioning.pictures import is_picture, pictures_in, read_picture
from ostinato.tasks.translation.sides import one_line
from ostinato.text.numbered import numbered_lines
from ostinato.text.read import STDIN
from ostinato.text.sources import name_of

CAPTIONS = "captions.tsv"
"""In a folder of pictures: FILE<TAB>CAPTION."""

Layout = tuple[int, int]


class Given(NamedTuple):
    """A picture or features, its captions (none where nothing says them), and where it stood."""

    picture: Picture
    captions: tuple[str, ...]
    where: str
    file: str | None  # of a picture in a file of its own


@dataclass
class Opened:
    """What a path holds, to be read once. layout: rows and columns of features that lie in a grid."""

    layout: Layout | None
    items: Iterator[Given]


def open_source(path: str, options: DataOptions, captioned: bool) -> Opened:
    """What is at a path: see `DataOptions`; without captions also one picture, a folder of them, or file names.

    Raises DataError, with file and line or number, for what cannot be read; items that cannot be read raise it when
    their turn comes.
    """
    if path.endswith(".npz"):
        return read_npz(path, captioned)
    place = Path(path)
    if path != STDIN and not place.exists():
        raise DataError(f"{path}: no such file or folder")
    if place.is_dir() and not captioned:
        files = [(file, (), str(file.relative_to(place)), path) for file in pictures_in(place)]
        return Opened(None, (Given(read_picture(f, w, options), c, f"{w}/{n}", n) for f, c, n, w in files))
    if is_picture(path):
        if captioned:
            raise DataError(f"{path}: a picture alone has no caption; give lines FILE<TAB>CAPTION that name it")
        return Opened(None, iter([Given(read_picture(place, path, options), (), path, path)]))
    return Opened(None, _listed(str(place / CAPTIONS) if place.is_dir() else path, options, captioned))


def _listed(path: str, options: DataOptions, captioned: bool) -> Iterator[Given]:
    """The pictures that lines name, in the order they are first named; of standard input each as it comes."""
    if path == STDIN:
        for line in numbered_lines(path):
            file = line.text.split("\t")[0].strip()
            where = f"standard input:{line.number}"
            yield Given(read_picture(Path(file), where, options), (), where, file)
        return
    found: dict[str, tuple[str, list[str]]] = {}
    for line in numbered_lines(path):
        if not line.text.strip():
            continue
        where = f"{name_of([path])}:{line.number}"
        file, _, caption = line.text.partition("\t")
        if captioned and not one_line(caption):
            raise DataError(f"{where}: a line is FILE<TAB>CAPTION, got {line.text!r}")
        found.setdefault(file.strip(), (where, []))[1].append(one_line(caption))
    for file, (where, captions) in found.items():
        picture = read_picture(Path(path).parent / file, where, options)
        yield Given(picture, tuple(dict.fromkeys(filter(None, captions))), where, file)


def read_npz(path: str, captioned: bool) -> Opened:
    """The items of a .npz file, numbered from 1. Raises DataError for one that holds something else."""
    arrays = _arrays(path)
    name = name_of([path])
    kinds = [key for key in ("images", "features") if key in arrays]
    if len(kinds) != 1:
        raise DataError(
            f"{path}: holds {', '.join(arrays) or 'nothing'}; give one of `images` [N, H, W] or [N, H, W, channels] "
            "and `features` [N, D], [N, P, D] or [N, rows, columns, D], and `captions` [N]"
        )
    values, layout = _shaped(path, kinds[0], arrays[kinds[0]])
    captions = _captions(path, arrays.get("captions"), len(values), captioned)
    places = _places(path, arrays.get("places"), values, kinds[0])
    rows = zip(values, places, captions, strict=True)
    return Opened(layout, (Given(v[:p], c, f"{name}:{n}", None) for n, (v, p, c) in enumerate(rows, 1)))


def _arrays(path: str) -> dict[str, NDArray[Any]]:
    if Path(path).is_file() and not zipfile.is_zipfile(path):
        raise DataError(f"{path}: not a .npz file; write one with numpy.savez, of images or features and captions")
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {key: file[key] for key in ("images", "features", "captions", "places") if key in file}
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as fault:
        hint = "; save captions as np.array([...]) of strings" if "Object arrays" in str(fault) else ""
        raise DataError(f"{path}: cannot be read as arrays of NumPy ({fault}){hint}") from None


def _shaped(path: str, kind: str, values: NDArray[Any]) -> tuple[NDArray[Any], Layout | None]:
    """Images [N, H, W, channels] in bytes or float32, or features [N, P, D] in float32, and their layout."""
    known = (3, 4) if kind == "images" else (2, 3, 4)
    if values.ndim not in known or 0 in values.shape or values.dtype.kind not in "buif":
        raise DataError(
            f"{path}: {kind} are {values.dtype} {list(values.shape)}; numbers in "
            f"{' or '.join(map(str, known))} dimensions, at least one in each, are wanted"
        )
    if values.dtype != np.uint8:
        values = values.astype(np.float32)
        sound = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        if not sound.all():
            raise DataError(f"{path}: item {int(sound.argmin()) + 1} has a number that is not finite; mend it")
    if kind == "images":
        return (values if values.ndim == 4 else values[..., None]), None
    layout = (values.shape[1], values.shape[2]) if values.ndim == 4 else None
    return values.reshape(len(values), -1, values.shape[-1]), layout


def _captions(path: str, given: NDArray[Any] | None, count: int, captioned: bool) -> list[tuple[str, ...]]:
    """The captions of each item, empty strings left out."""
    if given is None or not captioned:
        if captioned:
            raise DataError(f"{path}: there are no `captions` [N] or [N, several]; save them beside the pictures")
        return [()] * count
    if given.dtype.kind != "U" or given.ndim not in (1, 2) or len(given) != count:
        raise DataError(
            f"{path}: captions are {given.dtype} {list(given.shape)}; strings [{count}] or [{count}, n] are wanted"
        )
    found = [tuple(dict.fromkeys(filter(None, map(one_line, row)))) for row in given.reshape(count, -1).tolist()]
    if () in found:
        raise DataError(f"{path}: item {found.index(()) + 1} has no caption; give one, or leave the item out")
    return found


def _places(path: str, given: NDArray[Any] | None, values: NDArray[Any], kind: str) -> Sequence[int]:
    """How many places of each item are there."""
    whole = values.shape[1]
    if given is None:
        return [whole] * len(values)
    sound = given.dtype.kind in "iu" and given.shape == (len(values),)
    if kind == "images" or not sound or given.min() < 1 or given.max() > whole:
        raise DataError(f"{path}: places [N] are numbers from 1 to {whole}, one for each item, and for features only")
    return [int(place) for place in given]
