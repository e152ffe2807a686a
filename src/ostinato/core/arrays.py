"""Arrays in one file, opened through a memory map: nothing is read before it is used, and processes share it.

The file is in the safetensors format (a JSON header, then the bytes of the arrays), so that other programs can
read it; what an array file says of itself stands in the header as JSON. Loading it never executes code.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import FormatError
from ostinato.core.files import atomic_path, check_format

FORMAT = 2
"""Version of what array files say of themselves; a newer one is refused."""

KINDS = {
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "F32": "<f4",
    "F64": "<f8",
}
"""The names of types in the format, and NumPy's."""

HEADER = 1 << 16
"""Bytes that are kept for the header, which is known only when everything else is written."""

ALIGNED = 64
"""Every array begins at a multiple of so many bytes."""


class ArrayFile:
    """An array file being written: `add` arrays whole, or `reserve` one and write its parts in any order."""

    def __init__(self, path: Path):
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self._tensors: dict[str, dict[str, Any]] = {}
        self._end = 0
        os.truncate(self._file, HEADER)

    def reserve(self, name: str, dtype: str, shape: tuple[int, ...]) -> int:
        """Make room for an array; return where in the file it begins, for `write`."""
        if self._end % ALIGNED:
            self._append(f"_pad{len(self._tensors)}", "u1", (-self._end % ALIGNED,))
        return self._append(name, dtype, shape)

    def _append(self, name: str, dtype: str, shape: tuple[int, ...]) -> int:
        kind = next(known for known, numpy in KINDS.items() if np.dtype(numpy) == np.dtype(dtype))
        begin, size = self._end, int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        self._end = begin + size
        self._tensors[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [begin, self._end]}
        os.truncate(self._file, HEADER + self._end)
        return HEADER + begin

    def write(self, place: int, values: NDArray[Any]) -> None:
        """Write values at a place in the file, counted in bytes."""
        content = memoryview(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
        while content:
            written = os.pwrite(self._file, content, place)
            place, content = place + written, content[written:]

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Write a whole array."""
        self.write(self.reserve(name, array.dtype.str, array.shape), array)

    def map(self, name: str) -> NDArray[Any]:
        """An array that was written, through a read-only memory map of the file."""
        return _mapped(self._file, HEADER, self._tensors[name])

    def finish(self, about: Mapping[str, Any], sealed: int = 0) -> None:
        """Write the header, with `about` (plain values), and close.

        sealed: if there are no more bytes than this, the header says a digest of everything, see `intact`.
        """
        told = {"format": FORMAT, **about}
        if self._end <= sealed:
            arrays = {name: self.map(name) for name in self._tensors if not name.startswith("_pad")}
            told["digest"] = seal(arrays, told)
        content = {
            "__metadata__": {"ostinato": json.dumps(told, ensure_ascii=False)},
            **self._tensors,
        }
        packed = json.dumps(content, ensure_ascii=False).encode("utf8", "surrogatepass")
        if len(packed) > HEADER - 8:
            raise FormatError(f"a header of {len(packed):,} bytes does not fit; leave out notes")
        os.pwrite(self._file, (HEADER - 8).to_bytes(8, "little") + packed.ljust(HEADER - 8), 0)
        self.close()

    def close(self) -> None:
        """Close the file; what was mapped stays."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@contextmanager
def new_array_file(path: Path) -> Iterator[ArrayFile]:
    """An array file that stands at `path` when the block ends well, and nowhere otherwise; `finish` it inside.

    If the power fails a moment later it may be cut short, which is noticed when it is opened.

    Raises StorageError if the disk is full or the folder cannot be written.
    """
    with atomic_path(path, forced=False) as temporary:
        file = ArrayFile(temporary)
        try:
            yield file
        finally:
            file.close()


def open_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of a file, memory-mapped and read-only, and what it says of itself.

    Only the header is read. Raises FormatError if the file is missing, cut short, not ours or newer.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError as fault:
        raise FormatError(f"{path}: cannot be read ({fault.strerror}); restore it or train again") from None
    try:
        size = os.fstat(file).st_size
        length = int.from_bytes(os.pread(file, 8, 0), "little")
        if not 0 < length <= size - 8:
            raise ValueError("its header is cut short")
        header = json.loads(os.pread(file, length, 8).decode("utf8", "surrogatepass"))
        about = json.loads(header.pop("__metadata__")["ostinato"])
        check_format(path, about, FORMAT)
        names = [name for name in header if not name.startswith("_pad")]
        end = max((int(tensor["data_offsets"][1]) for tensor in header.values()), default=0)
        if 8 + length + end != size:
            raise ValueError(f"{size:,} bytes instead of {8 + length + end:,}")
        return {name: _mapped(file, 8 + length, header[name]) for name in names}, about
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as fault:
        raise FormatError(f"{path}: truncated, damaged or not ours ({fault}); restore it or train again") from None
    finally:
        os.close(file)


def _mapped(file: int, base: int, tensor: Mapping[str, Any]) -> NDArray[Any]:
    """One array of an open file."""
    dtype, shape = np.dtype(KINDS[tensor["dtype"]]), tuple(int(size) for size in tensor["shape"])
    begin, end = (int(place) for place in tensor["data_offsets"])
    if begin < 0 or end - begin != int(np.prod(shape, dtype=np.int64)) * dtype.itemsize:
        raise ValueError(f"an array of {end - begin:,} bytes cannot be {shape} {dtype}")
    if begin == end:
        return np.empty(shape, dtype)
    with open(file, "rb", closefd=False) as source:
        mapped = np.memmap(source, np.uint8, "r", base + begin, (end - begin,))
    return np.asarray(mapped).view(dtype).reshape(shape)


def digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over names, types, shapes and bytes."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return total.hexdigest()


def seal(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> str:
    """The digest of arrays and of what is said of them."""
    told = json.dumps({key: value for key, value in about.items() if key != "digest"}, sort_keys=True)
    return hashlib.sha256((digest(arrays) + told).encode("utf8", "surrogatepass")).hexdigest()


def intact(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> bool:
    """Whether an array file was not changed since it was written, as far as its digest can tell; it may have none."""
    return "digest" not in about or about["digest"] == seal(arrays, about)
