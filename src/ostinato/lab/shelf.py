"""The runs that the lab was opened with."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request

from ostinato.core.errors import ConfigError
from ostinato.core.registry import unknown

PARTS = ("config.toml", "model.safetensors")  # either makes a folder a run


class Shelf:
    """Runs by name. A given path is a run, a model file, or a folder of runs, which is looked at anew each time."""

    def __init__(self, given: Sequence[Path] = ()):
        for path in given:
            if not path.exists():
                raise ConfigError(
                    f"{path}: there is nothing here; name a run directory, a model file or a folder of runs"
                )
        self.given = tuple(given)
        self._loaded: dict[tuple[Path, float], Any] = {}
        self._lock = threading.Lock()

    def runs(self) -> dict[str, Path]:
        """Path by name, in the order they were given; a name is the end of the path that no other run shares."""
        paths: list[Path] = []
        for path in self.given:
            inside = [] if is_run(path) else sorted(child for child in path.iterdir() if is_run(child))
            paths += [found for found in inside or [path] if found not in paths]
        return {short_name(path, paths): path for path in paths}

    def path(self, name: str) -> Path:
        """Where the run of that name is. Raises ConfigError with the nearest name otherwise."""
        runs = self.runs()
        if name not in runs:
            raise ConfigError(unknown("run", name, runs))
        return runs[name]

    def model(self, name: str) -> Any:
        """The run as `tasks.language.load.load` opens it, opened once and again when its model file is newer."""
        from ostinato.tasks.language.load import load

        path = self.path(name)
        file = path / "model.safetensors" if path.is_dir() else path
        key = (path, file.stat().st_mtime if file.exists() else 0.0)
        with self._lock:
            if key not in self._loaded:
                self._loaded = {old: kept for old, kept in self._loaded.items() if old[0] != path}
                self._loaded[key] = load(path)
            return self._loaded[key]


def is_run(path: Path) -> bool:
    """Whether a path is a run or a model file rather than a folder of runs."""
    return path.is_file() or any((path / part).exists() for part in PARTS)


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
