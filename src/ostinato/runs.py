"""Where a run lives on disk.

    NAME/  config.toml        the options it was made with
           environment.json   format version, versions of Python and libraries, threads, the command
           data/              vocabulary.json, text.json (normaliser and tokeniser), and the encoded
                              train, valid and test streams
           model.safetensors  the best weights or the table; its header says what it is
           checkpoints/000500/  where training can go on; the last two are kept
           log.jsonl          one event a line     score.json  results     samples.txt  generated text

Nothing is executed when a run is read: safetensors, JSON and TOML only. Files are replaced whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato import __version__
from ostinato.core.arrays import digest, open_arrays
from ostinato.core.errors import FormatError, MismatchError, StorageError
from ostinato.core.files import atomic_path, check_format, read_json, storage_error, write_json, write_text

FORMAT = 1
"""Version of everything in a run directory; a newer one is refused."""

LANGUAGE, VECTORS, TASK = "a language model", "word vectors", "a sequence task"
"""What runs are of."""

NEXT = {
    LANGUAGE: "`ostinato show {0}` says more",
    VECTORS: "ask it with `ostinato vectors neighbors {0} WORD`",
    TASK: "`ostinato predict {0} FILE` answers with it",
}
"""What to do with each."""

FINISHED = ("epochs", "patience", "estimated")
"""Why a run stops that has come to its end."""

Arrays = dict[str, NDArray[Any]]


class RunDir:
    """One run directory. Make one with `create`, read one with `open`."""

    def __init__(self, path: Path):
        self.path, self.kind = path, LANGUAGE

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def open(cls, path: str | Path, kind: str | None = LANGUAGE) -> RunDir:
        """The run at `path`, of a language model or word vectors (None: either).

        Raises FormatError if there is none, it is incomplete, or it is newer, MismatchError if it is of another kind.
        """
        run = cls(Path(path))
        if not run.path.exists():
            raise FormatError(f"{path}: no such run; `ostinato train --run-dir {path}` makes one")
        if not (run.path / "config.toml").is_file() or not (run.path / "environment.json").is_file():
            raise FormatError(f"{path}: not a run directory (it has no config.toml and environment.json)")
        environment = read_json(run.path / "environment.json")
        check_format(run.path / "environment.json", environment, FORMAT)
        run.kind = environment.get("kind", LANGUAGE)
        if kind not in (None, run.kind):
            advice = NEXT.get(run.kind, "see `ostinato --help`").format(path)
            raise MismatchError(f"{path} is a run of {run.kind}, not of {kind}; {advice}")
        return run

    @classmethod
    @contextlib.contextmanager
    def create(cls, path: str | Path) -> Iterator[RunDir]:
        """A new run: the block fills a hidden folder, which becomes `path` when the block ends well.

        Raises StorageError if `path` exists already or cannot be made. Nothing is left if the block fails.
        """
        target = Path(path)
        refuse_existing(target)
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            part.mkdir(parents=True)
            yield cls(part)
            refuse_existing(target)
            part.rename(target)
        except OSError as fault:
            raise storage_error(target, fault) from fault
        finally:
            shutil.rmtree(part, ignore_errors=True)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from training in this run. Raises StorageError if one already is."""
        with (self.path / ".lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StorageError(
                    f"{self.path}: another process is training this run; wait for it or choose another --run-dir"
                ) from None
            yield

    def write_config(self, toml: str, **environment: Any) -> None:
        """Write config.toml and environment.json; `kind`: what the run is of, if not a language model."""
        write_text(self.path / "config.toml", toml)
        write_json(self.path / "environment.json", describe_environment() | environment)

    def save_model(self, kind: str, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
        """Write model.safetensors; `about` (plain values) goes into its header with a digest of the arrays."""
        save_arrays(self.path / "model.safetensors", arrays, {"kind": kind, **about})

    def load_model(self) -> tuple[Arrays, dict[str, Any]]:
        """The arrays and the header of model.safetensors. Raises FormatError."""
        self._require_model()
        return load_arrays(self.path / "model.safetensors")

    def _require_model(self) -> None:
        if not (self.path / "model.safetensors").is_file():
            if self.ending()[0] == "diverged":
                raise FormatError(
                    f"{self.path}: there is no trained model in this run, since its training diverged before the first "
                    "was saved; train again with a smaller --train.learning-rate"
                )
            raise FormatError(
                f"{self.path}: there is no trained model in this run; if it was stopped early, "
                f"`ostinato resume {self.path}` trains on, else restore model.safetensors"
            )

    def model_kind(self) -> str:
        """What kind of model model.safetensors holds; only its header is read. Raises FormatError."""
        self._require_model()
        path = self.path / "model.safetensors"
        kind = open_arrays(path)[1].get("kind")
        if not isinstance(kind, str):
            raise FormatError(f"{path}: its header names no kind of model; restore it or train again")
        return kind

    @property
    def model_bytes(self) -> int:
        """Size of the model file on disk, in bytes; the path itself may be that file."""
        return (self.path if self.path.is_file() else self.path / "model.safetensors").stat().st_size

    def log(self, event: Mapping[str, Any]) -> None:
        """Append one event to log.jsonl. Raises StorageError."""
        try:
            with (self.path / "log.jsonl").open("a", encoding="utf8") as file:
                file.write(json.dumps(event) + "\n")
        except OSError as fault:
            raise storage_error(self.path / "log.jsonl", fault) from fault

    def events(self) -> list[dict[str, Any]]:
        """The events of log.jsonl; a last line that was cut short by a kill is left out. Raises FormatError."""
        path = self.path / "log.jsonl"
        if not path.is_file():
            return []
        lines = path.read_text("utf8").split("\n")
        events = []
        for number, line in enumerate(lines[:-1], 1):
            try:
                events.append(json.loads(line))
            except ValueError as fault:
                raise FormatError(f"{path}:{number}: not a line of JSON ({fault}); delete the line") from None
        return events

    def ending(self) -> tuple[str, int]:
        """Why training stopped last, and at which step; no reason, "", while it goes on, after a kill, without a log.

        Reasons: epochs, patience, estimated (an n-gram model), interrupted, diverged.
        """
        last = (self.events() or [{}])[-1]
        return str(last.get("reason", "")) if last.get("event") == "stop" else "", int(last.get("step", 0))

    @property
    def finished(self) -> bool:
        """Whether nothing is left to train; a mixture is finished when it is made. Raises FormatError."""
        return self.ending()[0] in FINISHED or (self.path / "members").is_dir()

    def cut_log(self, step: int) -> None:
        """Drop the events after `step`, which training is about to repeat, and a line cut short."""
        kept = [event for event in self.events() if event.get("step", 0) <= step]
        write_text(self.path / "log.jsonl", "".join(json.dumps(event) + "\n" for event in kept))

    def checkpoints(self) -> list[Path]:
        """The finished checkpoints, oldest first."""
        folder = self.path / "checkpoints"
        return sorted(path for path in folder.glob("[0-9]*") if path.is_dir()) if folder.is_dir() else []

    def save_checkpoint(self, step: int, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
        """Write checkpoints/STEP and keep only it and the one before. Raises StorageError."""
        target = self.path / "checkpoints" / f"{step:06d}"
        part = target.with_name(f".{target.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(target, ignore_errors=True)
        try:
            save_arrays(part / "state.safetensors", arrays, about)
            part.rename(target)
        except OSError as fault:
            raise storage_error(target, fault) from fault
        finally:
            shutil.rmtree(part, ignore_errors=True)
        for old in self.checkpoints()[:-2]:
            shutil.rmtree(old, ignore_errors=True)

    def load_checkpoint(self) -> tuple[Arrays, dict[str, Any]] | None:
        """The newest checkpoint that is whole, or None if there is none yet; `damaged` names those passed over.

        Raises FormatError if there are some and all are damaged.
        """
        damaged: list[str] = []
        for path in reversed(self.checkpoints()):
            try:
                arrays, about = load_arrays(path / "state.safetensors")
            except FormatError as fault:
                damaged.append(path.name)
                if len(damaged) == len(self.checkpoints()):
                    raise fault from None
            else:
                return arrays, about | {"damaged": damaged}
        return None

    def training_seconds(self) -> float | None:
        """Seconds of training until the run last stopped, or None if it has not."""
        stops = [event for event in self.events() if event.get("event") == "stop" and "seconds" in event]
        return float(stops[-1]["seconds"]) if stops else None


def refuse_existing(target: Path) -> None:
    """Raise StorageError if there is something at `target`."""
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        resumable = (target / "config.toml").is_file()
        raise StorageError(
            f"{target} already exists; choose another --run-dir"
            + (f", or go on with it: `ostinato resume {target}`" if resumable else "")
        )


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Write arrays as safetensors with `about`, the format version and a digest in the header, atomically."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = json.dumps({"format": FORMAT, **about, "digest": digest(plain)}, ensure_ascii=False)
    with atomic_path(path) as temporary:
        try:
            save_file(plain, temporary, {"ostinato": header})
        except SafetensorError as fault:
            number = 28 if "os error 28" in str(fault) else 5
            raise OSError(number, str(fault)) from fault


def load_arrays(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """What `save_arrays` wrote. Raises FormatError if the file is missing, cut short, edited or newer."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {})["ostinato"])
            check_format(path, about, FORMAT)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
    except (SafetensorError, OSError, KeyError, ValueError) as fault:
        raise FormatError(f"{path}: truncated, damaged or not ours ({fault}); restore it or train again") from None
    if about.get("digest") != digest(arrays):
        raise FormatError(f"{path}: the contents were changed after saving; restore the file or train again")
    return arrays, about


def describe_environment() -> dict[str, Any]:
    """Versions and machine, as plain values."""
    libraries = ("torch", "numpy", "numba", "tokenizers", "safetensors")
    return {
        "format": FORMAT,
        "ostinato": __version__,
        "python": platform.python_version(),
        "libraries": {name: metadata.version(name) for name in libraries},
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "command": sys.argv,
    }
