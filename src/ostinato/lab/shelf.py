"""The runs that the lab was opened with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from ostinato.core.errors import ConfigError, OstinatoError
from ostinato.core.registry import unknown

PARTS = ("config.toml", "model.safetensors", "words.json")  # any of them makes a folder a run, or word vectors
CHANGING = ("model.safetensors", "words.json", "vectors/words.json")
"""What is newer in a folder when what was opened from it must be opened again."""

LANGUAGE, VECTORS, DAMAGED = "language", "vectors", "damaged"
"""What runs are of, beside the names of tasks."""

Kept = TypeVar("Kept")


class Shelf:
    """Runs by name. A given path is a run, a model file, word vectors, or a folder of these, looked at each time."""

    def __init__(self, given: Sequence[Path] = ()):
        for path in given:
            if not path.exists():
                raise ConfigError(
                    f"{path}: there is nothing here; name a run directory, a model file, word vectors or a folder of "
                    "these"
                )
        self.given = tuple(given)
        self._kept: dict[tuple[Any, ...], tuple[int, Any]] = {}
        self._locks: dict[tuple[Any, ...], threading.Lock] = {}

    def runs(self) -> dict[str, Path]:
        """Path by name, in the order they were given; a name is the end of the path that no other run shares."""
        paths: list[Path] = []
        for path in self.given:
            found = [path] if is_run(path) else sorted(child for child in path.iterdir() if is_offered(child))
            paths += [one for one in found if one not in paths]
        return {short_name(path, paths): path for path in paths}

    def path(self, name: str) -> Path:
        """Where the run of that name is. Raises ConfigError with the nearest name otherwise."""
        runs = self.runs()
        if name not in runs:
            raise ConfigError(unknown("run", name, runs))
        return runs[name]

    def kinds(self) -> dict[str, str]:
        """What each run is of, as `kind_of` says; DAMAGED for one of which that cannot be read."""
        found = {}
        for name, path in self.runs().items():
            try:
                found[name] = kind_of(path)
            except (OstinatoError, OSError):
                found[name] = DAMAGED
        return found

    def model(self, name: str) -> Any:
        """The run as `tasks.language.load.load` opens it."""
        from ostinato.tasks.language.load import load

        return self.kept(name, load)

    def kept(self, name: str, load: Callable[..., Kept], *more: Any) -> Kept:
        """What `load(path, *more)` makes of the run of that name: made once, and again when its files are newer.

        Raises ConfigError for no such run, and what `load` raises.
        """
        path = self.path(name)
        key, stamp = (path, load, *more), changed(path)
        with self._locks.setdefault(key, threading.Lock()):  # a large one keeps no other waiting
            if self._kept.get(key, (None, None))[0] != stamp:
                self._kept[key] = stamp, load(path, *more)
            made: Kept = self._kept[key][1]
            return made


def changed(path: Path) -> int:
    """When what can be opened at a path was written last, in nanoseconds."""
    files = [path] if path.is_file() else [path / name for name in CHANGING]
    return max((file.stat().st_mtime_ns for file in files if file.exists()), default=0)


def kind_of(path: Path) -> str:
    """What a run is of: LANGUAGE, VECTORS or the name of a task. Raises OstinatoError if that cannot be read."""
    from ostinato.core.errors import DataError
    from ostinato.embed.files import kind_of as kind_of_vectors
    from ostinato.embed.folder import folder_in
    from ostinato.runs import TASK, RunDir
    from ostinato.runs import VECTORS as OF_VECTORS
    from ostinato.tasks.working import task_in

    if path.is_file():
        try:
            return VECTORS if kind_of_vectors(path) else LANGUAGE
        except DataError:
            return LANGUAGE
    if folder_in(path) == path:
        return VECTORS
    run = RunDir.open(path, None)
    return task_in(run) if run.kind == TASK else VECTORS if run.kind == OF_VECTORS else LANGUAGE


def is_run(path: Path) -> bool:
    """Whether a path is a run, a model file or word vectors rather than a folder of runs."""
    return path.is_file() or any((path / part).exists() for part in PARTS)


def is_offered(path: Path) -> bool:
    """Whether what lies in a folder of runs is a run, a model or word vectors, and no log or text beside them."""
    if path.is_dir():
        return is_run(path)
    try:
        facts = path.stat()
    except OSError:  # gone, or a link to nothing
        return False
    return holds_model(path, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=1024)
def holds_model(path: Path, changed: int, size: int) -> bool:
    """Whether a file begins as a model or word vectors do; looked at anew when it has changed.

    A table of words and numbers without a header may be GloVe's or anything else: it must be named itself.
    """
    from ostinato.core.errors import DataError
    from ostinato.embed.files import kind_of as kind_of_vectors
    from ostinato.ngram.arpa import is_arpa
    from ostinato.ngram.kenlm_binary import is_kenlm_binary
    from ostinato.ngram.store import is_model_file

    if not size:
        return False
    try:
        is_model = any(check(path) for check in (is_model_file, is_kenlm_binary, is_arpa))
        return is_model or kind_of_vectors(path) != "glove"
    except (DataError, OSError):
        return False


def short_name(path: Path, others: Sequence[Path]) -> str:
    """As many parts from the end of `path` as tell it from the others."""
    parts = path.resolve().parts
    for count in range(1, len(parts) + 1):
        if sum(other.resolve().parts[-count:] == parts[-count:] for other in others) == 1:
            return "/".join(parts[-count:])
    return str(path)


def shelf_of(request: Request) -> Shelf:
    """The shelf of the application that was asked."""
    shelf: Shelf = request.app.state.shelf
    return shelf


TheShelf = Annotated[Shelf, Depends(shelf_of)]
"""How a page asks for the runs: `def answer_it(shelf: TheShelf, run: str) -> Response`."""
