"""Room for large arrays: memory, or files that are mapped into it when memory is to be bounded.

Mapped pages are given back whenever the process holds more than its share; the system reads them again from its
cache or the disk when they are touched. So the same code works within any bound, and gives the same numbers.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ostinato.core.errors import ConfigError
from ostinato.core.files import storage_error

LEAST = 100 << 20
"""Bytes below which a bound makes no sense: Python and its libraries alone need as much."""


IN_FILES = 1 << 20
"""Bytes above which an array is worth a file."""


class Workspace:
    """Makes arrays, in memory, or if `memory` (bytes) is given in nameless files of `folder`.

    The process as a whole then stays near that many bytes, as long as whoever works calls `relieve` often.
    Raises ConfigError for a bound below 100 MB.
    """

    def __init__(self, memory: int | None = None, folder: Path | None = None):
        if memory is not None and memory < LEAST:
            raise ConfigError(f"a memory of {memory:,} bytes is too small; give at least {LEAST >> 20}M")
        self.memory = memory
        self._folder = folder or Path(tempfile.gettempdir())
        self._maps: list[mmap.mmap] = []
        self._lock = threading.Lock()

    def empty(self, size: int, dtype: DTypeLike) -> NDArray[Any]:
        """An array of that many numbers, whatever they are. Raises StorageError if the disk has no room for it."""
        kind = np.dtype(dtype)
        if self.memory is None or size * kind.itemsize <= IN_FILES:
            return np.empty(size, kind)
        try:
            with tempfile.TemporaryFile(prefix=".ostinato-", dir=self._folder) as file:
                os.posix_fallocate(file.fileno(), 0, size * kind.itemsize)  # else a full disk would be a fatal signal
                mapped = mmap.mmap(file.fileno(), size * kind.itemsize)
        except OSError as fault:
            raise storage_error(self._folder / "temporary file", fault) from fault
        with self._lock:
            self._maps.append(mapped)
        return np.frombuffer(mapped, kind)

    def zeros(self, size: int, dtype: DTypeLike) -> NDArray[Any]:
        """An array of that many zeros."""
        if self.memory is None:
            return np.zeros(size, dtype)
        array = self.empty(size, dtype)
        if array.base is None:  # in memory; a new file holds zeros
            array[:] = 0
        return array

    def relieve(self) -> None:
        """Give mapped pages back if the process holds more memory than it should."""
        if self.memory is None or resident() < self.memory * 0.75:
            return
        with self._lock:
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)


def resident() -> int:
    """Bytes of memory this process holds."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


IN_MEMORY = Workspace()
"""No bound."""

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_memory(text: str | None) -> int | None:
    """Bytes from `2G`, `500M`. Raises ConfigError."""
    if text is None:
        return None
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].isalpha() else (text, "")
    try:
        return int(float(number) * UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        raise ConfigError(f"memory {text!r} is not a size; give one as 500M or 2G") from None
