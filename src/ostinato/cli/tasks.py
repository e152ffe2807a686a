"""Commands of the sequence tasks: train CONFIG, predict, and what evaluate and resume do with their runs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from ostinato.cli.app import app
from ostinato.cli.talk import loudness, say, show_json, show_table, watching
from ostinato.tasks.task import PredictOptions, Report, config_of

if TYPE_CHECKING:
    from ostinato.runs import RunDir

HIDDEN = {"train": "train-task", "crossvalidate": "crossvalidate-task"}
"""What `train CONFIG` and `crossvalidate CONFIG` become where the configuration names a task."""

SEEDS = Annotated[tuple[int, ...], Parameter(consume_multiple=True)]

SHOWN = 12
"""Rows of a table that are shown unless asked for all."""

hidden_apps = {word: App(name=name, show=False) for word, name in HIDDEN.items()}


def dispatched(words: list[str]) -> list[str]:
    """`train CONFIG ...` or `crossvalidate CONFIG ...` as the command that the configuration asks for.

    Raises ConfigError for the second if the configuration names no task.
    """
    from ostinato.core.errors import ConfigError
    from ostinato.tasks.working import task_named

    if len(words) < 2 or words[0] not in HIDDEN:
        return words
    path, rest = configuration_in(words[1:])
    if path is None:
        return words
    name = task_named(Path(path))
    if name is None and words[0] != "train":
        raise ConfigError(f'{path}: names no task; put `task = "classification"` or another on top of the file')
    command = [words[0]] if name is None else [HIDDEN[words[0]], name]
    return [*command, "--config", path, *rest]


def configuration_in(words: list[str]) -> tuple[str | None, list[str]]:
    """The configuration file that words name, first of all or by --config, and the other words."""
    if not words[0].startswith("-"):
        return words[0], words[1:]
    for place, word in enumerate(words):
        if word == "--config" and place + 1 < len(words):
            return words[place + 1], [*words[:place], *words[place + 2 :]]
        if word.startswith("--config="):
            return word.removeprefix("--config="), [*words[:place], *words[place + 1 :]]
    return None, words


def _command(name: str) -> Callable[..., None]:
    """`train CONFIG` for one task: every key of its configuration is an option."""
    config_class = config_of(name)

    def train_task(*, run_dir: Any, config: Any, options: Any, tensorboard: Any = False, json: Any = False) -> None:
        from ostinato.cli.training import callbacks
        from ostinato.tasks import working

        with watching() as watch:
            run = working.train(name, options, run_dir, callbacks(watch, tensorboard))
        finish(run, json)

    train_task.__annotations__ = {
        "run_dir": Path,
        "config": Path,
        "options": Annotated[config_class, Parameter(name="*")],
        "tensorboard": bool,
        "json": bool,
        "return": None,
    }
    train_task.__kwdefaults__ = {"options": config_class(), "tensorboard": False, "json": False}
    train_task.__doc__ = f"Train a run for {name}; see its annotated configuration in configs/."
    return train_task


def _crossvalidate(name: str) -> Callable[..., None]:
    """`crossvalidate CONFIG` for one task."""
    config_class = config_of(name)

    def crossvalidate_task(
        *, run_dir: Any, config: Any, options: Any, folds: Any = 10, seeds: Any = (1,), json: Any = False
    ) -> None:
        from ostinato.cli.training import callbacks
        from ostinato.tasks.cross_validation import cross_validate

        with watching() as watch:
            found = cross_validate(name, options, run_dir, folds, seeds, callbacks(watch, False))
        if json:
            show_json({"run": str(run_dir), **found.to_json()})
            return
        print(found)
        table = found.table()
        show_table(table.columns, table.rows, table.title)

    crossvalidate_task.__annotations__ = {
        "run_dir": Path,
        "config": Path,
        "options": Annotated[config_class, Parameter(name="*")],
        "folds": int,
        "seeds": SEEDS,
        "json": bool,
        "return": None,
    }
    crossvalidate_task.__kwdefaults__ = {"options": config_class(), "folds": 10, "seeds": (1,), "json": False}
    crossvalidate_task.__doc__ = f"Train and judge {name} on every fold; see its annotated configuration in configs/."
    return crossvalidate_task


def register(words: Sequence[str]) -> None:
    """Put the command that these words ask for on the app, if it is one of a task."""
    for word, app_of_word in hidden_apps.items():
        if words[:1] == [HIDDEN[word]] and len(words) > 1 and words[1] not in app_of_word:
            made = _command if word == "train" else _crossvalidate
            app_of_word.command(made(words[1]), name=words[1])
            if HIDDEN[word] not in app:
                app.command(app_of_word)


def resume_task(run: RunDir, json: bool, tensorboard: bool) -> None:
    """Go on with a run of a task."""
    from ostinato.cli.training import callbacks
    from ostinato.tasks import working

    before = run.events()
    with watching() as watch:
        done = working.resume(run.path, callbacks(watch, tensorboard))
    if done.finished and done.events() == before:
        say(f"{run} is finished: nothing was left to do")
    finish(done, json)


def finish(run: RunDir, json: bool) -> None:
    """Judge a trained run on its test data, keep the result in the run and print it."""
    from ostinato.core.files import write_json
    from ostinato.tasks import working

    with watching() as watch:
        report = working.load(run.path).evaluate((), watch)
    write_json(run.path / "score.json", report.to_json())
    show_report(run, report, json)
    say(f"{run} is ready. Next: `ostinato predict {run} FILE`, `ostinato evaluate {run} FILE`.")


def show_report(run: RunDir, report: Report, json: bool) -> None:
    """Print a report, which stays in the run with the mistakes worth looking at."""
    from ostinato.core.files import write_text
    from ostinato.tasks import length_picture

    lines = "".join(f"{as_json(mistake)}\n" for mistake in report.mistakes)
    write_text(run.path / "mistakes.jsonl", lines)
    length_picture.keep(run.path, report)
    if json:
        show_json({"run": str(run), **report.to_json()})
        return
    print(report)
    for table in report.tables:
        shown = table.rows if loudness.level >= 2 else table.rows[:SHOWN]
        show_table(table.columns, shown, table.title)
        if len(shown) < len(table.rows):
            say(f"{len(table.rows) - len(shown):,} rows more with -v")
    if report.mistakes:
        say(f"{len(report.mistakes):,} mistakes worth looking at: {run}/mistakes.jsonl")


def as_json(content: Any) -> str:
    """An object on one line."""
    import json

    return json.dumps(content, ensure_ascii=False)


def evaluate_task(path: Path, sources: Sequence[str], tune: bool, json: bool) -> None:
    """`evaluate RUN FILE...` for the run of a task."""
    from ostinato.core.errors import ConfigError
    from ostinato.runs import TASK, RunDir
    from ostinato.tasks import working
    from ostinato.tasks.task import Tunable

    predictor = working.load(path)
    with watching() as watch:
        if tune:
            if not isinstance(predictor, Tunable):
                raise ConfigError(
                    f"{path}: nothing in the answers of this run is chosen after training; leave --tune out"
                )
            say(predictor.tune(watch))
        report = predictor.evaluate(sources, watch)
    show_report(RunDir.open(path, TASK), report, json)


@app.command
def predict(
    run: Path,
    file: Annotated[str, Parameter(allow_leading_hyphen=True)] = "-",
    *,
    nbest: int = 1,
    scores: bool = False,
    align: bool = False,
    beam: int | None = None,
    length_penalty: float | None = None,
    online: bool = False,
    rows: int = 64,
    tokens: int = 8192,
    precision: Literal["fp32", "bf16"] = "fp32",
    horizon: int | None = None,
    session: Path | None = None,
    json: bool = False,
) -> None:
    """Answer with a trained run: labels, tags, translations, descriptions, forecasts, in the order of the input.

    **Examples**

    ```
    ostinato predict runs/trec questions.txt
    ostinato predict runs/trec - --scores < questions.txt
    ```

    Parameters
    ----------
    run:
        The run directory of a sequence task.
    file:
        What to answer: as the run was trained on, without the answers or with them; - is standard input.
    nbest:
        Answers for each input, best first.
    scores:
        Print the log-prob (nats) of each answer too.
    align:
        Print attention weights, or the probabilities of the labels, too.
    beam:
        Hypotheses kept while searching; left out, the run's own.
    length_penalty:
        How much longer answers are favoured; left out, the run's own.
    online:
        Read plain text and answer after every token, as soon as it is there; not with a bidirectional model.
    rows:
        Inputs answered together, at most.
    tokens:
        Tokens of them, at most.
    precision:
        bf16: search with products in bfloat16, which is faster and says nearly the same.
    horizon:
        Steps ahead to forecast; left out, the run's own.
    session:
        Go on with series from the state in this file if it exists, and leave the last state there.
    json:
        Print a JSON object for each input.
    """
    from ostinato.cli.score import require_no_options
    from ostinato.tasks import working

    require_no_options((file,), "predict")
    searching = beam, length_penalty, online, rows, tokens, precision
    options = PredictOptions(nbest, scores, align, json, *searching, horizon, session, say)
    predictor = working.load(run)
    gc.freeze()  # what is loaded stays; Python need not look through it again and again while it answers
    answers = predictor.predict(file, options)
    try:
        for answer in answers:
            sys.stdout.write(answer + "\n")
            sys.stdout.flush()
    finally:  # stopped or not, what is to be kept is written now
        if isinstance(answers, Generator):
            answers.close()


@app.command
def crossvalidate(
    *, run_dir: Path, config: Path, folds: int = 10, seeds: SEEDS = (1,), json: bool = False
) -> None:  # what a configuration that names a task becomes is in `dispatched`
    """Train and judge a sequence task on every fold of its training examples; mean and spread over folds and seeds.

    Every example is judged once for each seed, by a run that has not seen it. Stopped and called again, it goes on.

    **Examples**

    ```
    ostinato crossvalidate configs/classification.toml --data.train questions.txt --run-dir runs/folds
    ostinato crossvalidate configs/classification.toml --data.train questions.txt --seeds 1 2 3 --run-dir runs/folds3
    ```

    Parameters
    ----------
    run_dir:
        The directory for the runs and crossvalidation.json.
    config:
        The configuration of a task; its keys can be given as for train.
    folds:
        Parts the training examples are cut into.
    seeds:
        Seeds of training; the parts are the same for all.
    json:
        Print the result as one JSON object.
    """
    from ostinato.core.errors import ConfigError

    raise ConfigError(f'{config}: names no task; put `task = "classification"` or another on top of the file')
