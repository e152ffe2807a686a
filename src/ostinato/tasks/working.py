"""From the configuration of a sequence task to a trained run, and back to something that answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.core.config import build, flatten, read_toml, to_toml
from ostinato.core.errors import ConfigError, FormatError
from ostinato.runs import TASK, RunDir
from ostinato.tasks.task import Predictor, config_of, task_of
from ostinato.train.ranks import started_by_torchrun

if TYPE_CHECKING:
    from ostinato.tasks.language.build import Callbacks

KEY = "task"
"""The key of config.toml that names a task; without it a run is a language model."""


def task_named(path: Path) -> str | None:
    """The task that a configuration file names, None for a language model. Raises ConfigError if it cannot be read."""
    name = read_toml(path).get(KEY)
    return None if name in (None, "language") else str(name)


def task_in(run: RunDir) -> str:
    """The task of a run. Raises FormatError if its config.toml names none."""
    name = task_named(run.path / "config.toml")
    if name is None:
        raise FormatError(f"{run}/config.toml: names no task; restore the file or train again")
    return name


def is_task(path: str | Path) -> bool:
    """Whether there is a run of a sequence task at `path`."""
    return (Path(path) / "config.toml").is_file() and RunDir.open(path, None).kind == TASK


def config_from(name: str, tables: dict[str, Any], where: str) -> Any:
    """The configuration of a task from plain tables. Raises ConfigError naming key and value."""
    return build(config_of(name), {key: value for key, value in tables.items() if key != KEY}, where)


def configuration(run: RunDir) -> tuple[str, Any]:
    """The task of a run and its configuration. Raises FormatError, ConfigError for a config.toml that is none."""
    name = task_in(run)
    return name, config_from(name, read_toml(run.path / "config.toml"), f"{run}/config.toml")


def train(name: str, config: Any, run_dir: str | Path, callbacks: Callbacks) -> RunDir:
    """Prepare the data, make the run directory and train; return the run.

    Raises ConfigError, DataError, StorageError before anything is left on disk; Interrupted and DivergedError leave a
    run that can be resumed.
    """
    from ostinato.train.device import settle

    if started_by_torchrun():
        raise ConfigError(f"{name} is trained by one process; start it without torchrun")
    config = dataclasses.replace(config, train=settle(config.train))
    with RunDir.create(run_dir) as part:
        (part.path / "data").mkdir()
        for note in task_of(name).prepare(config, part.path / "data", callbacks.watch):
            callbacks.note(note)
        part.write_config(f'{KEY} = "{name}"\n\n{to_toml(config)}', kind=TASK)
    return _continue(name, RunDir.open(run_dir, TASK), config, callbacks)


def resume(run_dir: str | Path, callbacks: Callbacks) -> RunDir:
    """Go on with a run from its last checkpoint. Raises ConfigError if config.toml was changed since."""
    run = RunDir.open(run_dir, TASK)
    name, config = configuration(run)
    saved = run.load_checkpoint()
    before = {} if saved is None else saved[1].get("config", {})
    changed = [key for key, value in plain(config).items() if key in before and before[key] != value]
    if changed:
        raise ConfigError(
            f"{run}/config.toml: {', '.join(changed)} changed since the last checkpoint; change it back, or train a "
            "new run"
        )
    return _continue(name, run, config, callbacks)


def plain(config: Any) -> dict[str, Any]:
    """Every key of a configuration as JSON keeps it."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in flatten(config).items()}


def _continue(name: str, run: RunDir, config: Any, callbacks: Callbacks) -> RunDir:
    import torch

    from ostinato.train.loop import Trainer

    torch.set_num_threads(config.train.threads or 1)
    torch.manual_seed(config.train.seed)
    learner = task_of(name).learner(config, run.path / "data")
    board = run.path / "tensorboard" if callbacks.tensorboard else None
    Trainer(learner, run, config.train, callbacks.watch, callbacks.warn, board, plain(config)).fit()
    return run


def load(path: str | Path) -> Predictor:
    """What answers for a run. Raises FormatError if it is damaged, MismatchError if it is of another kind."""
    run = RunDir.open(path, TASK)
    return task_of(task_in(run)).load(run)
