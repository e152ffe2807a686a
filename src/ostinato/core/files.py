"""Files are written whole or not at all: a temporary file beside the target, then a rename."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ostinato.core.errors import FormatError, StorageError


@contextmanager
def atomic_path(target: Path, forced: bool = True) -> Iterator[Path]:
    """A temporary path beside `target` that replaces it when the block ends well, and vanishes otherwise.

    Its permissions are those of any new file.
    forced: wait until the disk has it; for large files that can be made again that would take too long.
    Raises StorageError if the disk is full or the folder cannot be written.
    """
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        temporary, mode = part, os.fstat(handle).st_mode  # the umask is in it
        os.close(handle)
        yield temporary
        temporary.chmod(mode)  # a writer may have put a file of its own there
        if forced:
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
        temporary.replace(target)
    except OSError as fault:
        raise storage_error(target, fault) from fault
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def storage_error(target: Path, fault: OSError) -> StorageError:
    """The error a user should read when writing `target` failed."""
    if fault.errno == errno.ENOSPC:
        return StorageError(f"{target}: no space left on the disk; free some and run again, nothing was changed")
    return StorageError(f"{target}: cannot be written ({fault.strerror or fault}); choose another place")


def write_bytes(target: Path, content: bytes) -> None:
    """Write a whole file atomically. Raises StorageError."""
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)


def write_text(target: Path, content: str) -> None:
    """Write a whole text file atomically, as UTF-8. Raises StorageError."""
    write_bytes(target, content.encode("utf8", "surrogatepass"))


def write_json(target: Path, content: Any) -> None:
    """Write an object as indented JSON, atomically. Raises StorageError."""
    write_text(target, json.dumps(content, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """The object in a JSON file of ours. Raises FormatError if it is missing or damaged."""
    try:
        return json.loads(path.read_bytes().decode("utf8", "surrogatepass"))
    except FileNotFoundError:
        raise FormatError(f"{path}: missing; the run is incomplete, restore it or train again") from None
    except ValueError as fault:
        raise FormatError(f"{path}: damaged JSON ({fault}); restore it or train again") from None


def check_format(path: Path, about: Any, newest: int) -> None:
    """Raise FormatError unless `about`, what `path` says of itself, states a format up to the `newest` known.

    Raises TypeError if it is not a table at all, as its reader's other look-ups would.
    """
    if not isinstance(about, dict):
        raise TypeError(f"a table was expected, not a {type(about).__name__}")
    version = about.get("format")
    if not isinstance(version, int):
        raise FormatError(f"{path}: not a file of ours (it states no format version)")
    if version > newest:
        raise FormatError(
            f"{path}: written in format {version} by a newer Ostinato; this version reads up to {newest}, "
            "so upgrade with `pip install -U ostinato`"
        )
