"""Word vectors as a folder: JSON for the words, NumPy arrays beside it.

    NAME/  words.json    format, words, counts or null, dimensions, fingerprint, what the subwords are
           vectors.npy   a row a word [V, D]; with subwords, what the word's own row and those of its n-grams make
           output.npy    optional: the other matrix of the training [V, D]
           subwords.npy  optional: a row a bucket of n-grams [buckets, D]

The arrays are memory-mapped when they are read, and nothing is executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ostinato.core.errors import ConfigError, DataError, FormatError, StorageError
from ostinato.core.files import atomic_path, check_format, read_json, write_text
from ostinato.embed.nearest import MOST, blocks

if TYPE_CHECKING:
    from ostinato.embed.subwords import Subwords

FORMAT = 1
Which: TypeAlias = Literal["input", "output", "mean"]
"""The matrix of the words read, that of the words predicted, or the mean of both."""

WORDS, VECTORS, OUTPUT, SUBWORDS = "words.json", "vectors.npy", "output.npy", "subwords.npy"
KINDS = (np.dtype(np.float32), np.dtype(np.float16))


@dataclass(frozen=True)
class Folder:
    """What such a folder holds."""

    words: tuple[str, ...]
    array: NDArray[Any]  # [V, D]
    counts: NDArray[np.int64] | None = None  # [V]
    subwords: Subwords | None = None
    subword_array: NDArray[Any] | None = None  # [buckets, D]


def fingerprint(words: Iterable[str]) -> str:
    """Twelve hexadecimal digits that change whenever a word or its place does."""
    packed = json.dumps(list(words), ensure_ascii=False).encode("utf8", "surrogatepass")
    return hashlib.sha256(packed).hexdigest()[:12]


def write_folder(
    path: Path, content: Folder, dtype: DTypeLike | None = None, output: NDArray[Any] | None = None, force: bool = False
) -> None:
    """Write a folder; words.json comes last, so that one that was not finished is not taken for whole.

    dtype: float32 or float16, None for what the arrays have. output: the other matrix [V, D].
    force: replace the vectors of a folder that has some.
    Raises StorageError if it has and `force` is not given, ConfigError for another dtype, DataError for a number
    too large for float16.
    """
    kind = content.array.dtype if dtype is None else np.dtype(dtype)
    if kind not in KINDS:
        raise ConfigError(f"vectors are kept as float32 or float16, not {kind}")
    if not force and any((path / name).exists() for name in (WORDS, VECTORS)):
        raise StorageError(f"{path}: holds vectors already; choose another folder or remove it first")
    (path / WORDS).unlink(missing_ok=True)
    arrays = {VECTORS: content.array, OUTPUT: output, SUBWORDS: content.subword_array}
    for name, array in arrays.items():
        if array is None:
            (path / name).unlink(missing_ok=True)
        else:
            write_array(path / name, array, kind)
    about = {
        "format": FORMAT,
        "dimensions": content.array.shape[1],
        "fingerprint": fingerprint(content.words),
        "subwords": None if content.subwords is None else asdict(content.subwords),
        "words": list(content.words),
        "counts": None if content.counts is None else content.counts.tolist(),
    }
    write_text(path / WORDS, json.dumps(about, ensure_ascii=False) + "\n")


def write_array(path: Path, array: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Write a matrix in the .npy format, a block of rows at a time."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": array.shape}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for first, block in blocks(array, MOST):
            if dtype == np.float16 and block.size and not np.abs(block).max() <= np.finfo(np.float16).max:
                row = first + int(np.abs(block).max(axis=1).argmax())
                raise DataError(f"row {row} of the vectors has a number that float16 cannot hold; keep them as float32")
            file.write(np.ascontiguousarray(block, dtype).data)


def folder_in(path: Path) -> Path | None:
    """Where the vectors are: in the folder itself, or in the folder "vectors" of a run; None if there are none."""
    return next((place for place in (path, path / "vectors") if (place / WORDS).is_file()), None)


def read_folder(path: Path, which: Which = "input") -> Folder:
    """What the folder holds; the arrays are memory-mapped, but "mean" is made in memory.

    Only the input vectors come with their subwords: n-grams have no output vectors.
    Raises FormatError, naming the file, for what is missing, damaged, cut short, newer or does not fit.
    """
    about = path / WORDS
    facts = read_json(about)
    try:
        check_format(about, facts, FORMAT)
        words, counts, dimensions = words_in(about, facts)
        subwords = subwords_in(facts)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, ConfigError) as fault:
        raise FormatError(f"{about}: not the words of vectors ({fault}); restore it or train again") from None
    shape = (len(words), dimensions)
    if which == "output":
        return Folder(words, read_array(path / OUTPUT, shape), counts)
    array = read_array(path / VECTORS, shape)
    if which == "mean":
        return Folder(words, mean_of(array, read_array(path / OUTPUT, shape)), counts)
    if subwords is None:
        return Folder(words, array, counts)
    return Folder(words, array, counts, subwords, read_array(path / SUBWORDS, (subwords.buckets, dimensions)))


def words_in(path: Path, facts: Mapping[str, Any]) -> tuple[tuple[str, ...], NDArray[np.int64] | None, int]:
    """The words, their counts and the dimensions that words.json states. Raises FormatError if they do not fit."""
    words, counts, dimensions = tuple(facts["words"]), facts["counts"], facts["dimensions"]
    if not all(isinstance(word, str) for word in words) or not isinstance(dimensions, int):
        raise TypeError("its words are strings and its dimensions a number")
    if facts["fingerprint"] != fingerprint(words):
        raise FormatError(f"{path}: the words do not match their fingerprint; restore the file or train again")
    if counts is None:
        return words, None, dimensions
    numbers = np.array(counts, np.int64)
    if numbers.shape != (len(words),):
        raise FormatError(f"{path}: {len(words):,} words but {numbers.size:,} counts; restore it or train again")
    return words, numbers, dimensions


def subwords_in(facts: Mapping[str, Any]) -> Subwords | None:
    """What the subwords are, if there are some."""
    stated = facts.get("subwords")
    if stated is None:
        return None
    from ostinato.embed.subwords import Subwords

    return Subwords(**{name: int(value) for name, value in stated.items()})


def read_array(path: Path, shape: tuple[int, int]) -> NDArray[Any]:
    """A memory-mapped matrix of that shape. Raises FormatError if it is missing, damaged or another one."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FormatError(
            f"{path}: missing; these vectors were saved without it (a tree leaves none), or it must be restored"
        ) from None
    except (ValueError, EOFError, OSError, SyntaxError) as fault:
        raise FormatError(f"{path}: damaged or cut short ({fault}); restore it or train again") from None
    if not isinstance(array, np.ndarray) or array.dtype not in KINDS:
        raise FormatError(f"{path}: not a matrix of float32 or float16; restore it or train again")
    if array.shape != shape:
        raise FormatError(f"{path}: the shape is {array.shape}, but {WORDS} says {shape}; restore both or train again")
    return array


def mean_of(array: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float32]:
    """The mean of two matrices, in memory."""
    made = np.empty(array.shape, np.float32)
    for first, block in blocks(array, MOST):
        rows = slice(first, first + len(block))
        made[rows] = (block + other[rows].astype(np.float32, copy=False)) / 2
    return made
