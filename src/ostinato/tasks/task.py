"""The shape of a sequence task: a configuration becomes a run, and a run answers and is judged.

A task is two modules: `tasks/NAME/options.py` with its `Config` (no torch there: the command line reads it for its
help), and `tasks/NAME/task.py` with `TASK`, an object as `Task` says. Everything that trains, resumes, predicts and
evaluates is written once against them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from ostinato.core.errors import ConfigError
from ostinato.core.progress import Watch
from ostinato.core.registry import unknown
from ostinato.runs import RunDir

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ostinato.tasks.learning import TaskLearner

NAMES = ("classification", "tagging", "translation", "captioning", "forecasting")
"""The tasks there are, beside language models."""


def unsaid(text: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class PredictOptions:
    """How a run answers.

    nbest: answers for each input, best first. scores: their log-probs (nats) too. align: attention weights, or the
    probabilities of labels. json: a JSON object a line. beam, length_penalty: of tasks that search; None for the
    run's own. precision: bf16 searches with products in bfloat16, faster and nearly the same. online: plain text in, an
    answer for each token as soon as it is there. rows, tokens: of a batch, at most; they change no answer. horizon:
    steps ahead that are forecast; None for the run's own. session: a file with the state to go on from, if it exists,
    where the last state is left. say: what a person should know of the answers.
    """

    nbest: int = 1
    scores: bool = False
    align: bool = False
    json: bool = False
    beam: int | None = None
    length_penalty: float | None = None
    online: bool = False
    rows: int = 64
    tokens: int = 8192
    precision: Literal["fp32", "bf16"] = "fp32"
    horizon: int | None = None
    session: Path | None = None
    say: Callable[[str], None] = unsaid

    def __post_init__(self) -> None:
        for name in ("nbest", "rows", "tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--{name} {getattr(self, name)}: it must be at least 1")

    def refuse(self, task: str, *names: str) -> None:
        """Raise ConfigError if one of these options was given, which the task has no use for."""
        for name in names:
            if getattr(self, name) != getattr(PredictOptions(), name):
                raise ConfigError(f"--{name.replace('_', '-')} means nothing for {task}; leave it out")


@dataclass(frozen=True)
class Table:
    """Numbers for people: a title, the columns' names, and rows of as many texts.

    by: what the rows are classes of, `length`, for what draws them: class, how many, and the measure; else nothing.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    by: str = ""


@dataclass(frozen=True)
class Report:
    """How good a run is on data.

    measure, value: the task's main measure. count: examples or tokens judged. signature: what must be equal for two
    values to be comparable. measures: all numbers by name. tables: confusions, by length, by seen and unseen words.
    mistakes: the examples worth looking at, as plain values.
    """

    measure: str
    value: float
    count: int
    signature: str
    measures: dict[str, float] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    mistakes: tuple[dict[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.value:.2f} {self.measure} ({self.count:,} judged) [{self.signature}]"

    def to_json(self) -> dict[str, Any]:
        """As plain values, without the mistakes."""
        return {key: value for key, value in asdict(self).items() if key not in ("mistakes", "tables")}


class Predictor(Protocol):
    """A trained run of a task."""

    def predict(self, source: str, options: PredictOptions) -> Iterator[str]:
        """Answers for a file, or for standard input (`-`), one after another, in the order and form of what is read.

        Each is a text without its line end; input is read as it comes. Raises DataError with file and line.
        """

    def evaluate(self, sources: Sequence[str], watch: Watch) -> Report:
        """How good the answers are on files with the right ones; without sources, on the run's test data."""


@runtime_checkable
class Tunable(Protocol):
    """A run whose answers hang on a number that is chosen after training."""

    def tune(self, watch: Watch) -> str:
        """Choose it by the run's validation data and keep it in the run; what was found, for a person."""


class Seen(Protocol):
    """What an answer looked at."""

    @property
    def source(self) -> Sequence[str]:
        """What could be looked at."""

    @property
    def target(self) -> Sequence[str]:
        """What was said."""

    @property
    def weights(self) -> NDArray[np.float32]:
        """[target, source], how much each was looked at."""


@runtime_checkable
class Attentive(Protocol):
    """A run that can show what its answers look at."""

    def look(self, text: str) -> Seen:
        """What the best answer to a text looks at. Raises ConfigError if nothing does."""


class Task(Protocol):
    """What a task must offer."""

    def prepare(self, config: Any, folder: Path, watch: Watch) -> Sequence[str]:
        """Read and check all data and write into `folder` what training and answering need of it.

        Returns what a person should know of it: what was held out or left out, how many words have vectors.
        Raises DataError, with file and line, before anything is trained.
        """

    def learner(self, config: Any, folder: Path) -> TaskLearner:
        """What the loop trains, with a new network drawn with the configuration's seed."""

    def load(self, run: RunDir) -> Predictor:
        """The best model of a run. Raises FormatError or MismatchError if it is damaged or does not fit."""


def config_of(name: str) -> type[Any]:
    """The configuration class of a task, without importing what it is made of. Raises ConfigError if unknown."""
    _check(name)
    config: type[Any] = importlib.import_module(f"ostinato.tasks.{name}.options").Config
    return config


def task_of(name: str) -> Task:
    """The task of that name. Raises ConfigError if there is none."""
    _check(name)
    task: Task = importlib.import_module(f"ostinato.tasks.{name}.task").TASK
    return task


def _check(name: str) -> None:
    if name not in NAMES:
        raise ConfigError(unknown("task", name, ["language", *NAMES]))
