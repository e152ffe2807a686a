"""Commands that train: train, resume."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.cli.app import app
from ostinato.cli.talk import say, show_json, watching
from ostinato.core.errors import ConfigError
from ostinato.tasks.options import Config, ModelOptions
from ostinato.text.options import DataOptions
from ostinato.train.options import TrainOptions
from ostinato.train.ranks import leads

if TYPE_CHECKING:
    from ostinato.runs import RunDir


@app.command
def train(
    *,
    run_dir: Path,
    config: Path | None = None,
    text: tuple[str, ...] = (),
    seed: int | None = None,
    tensorboard: bool = False,
    json: bool = False,
    data: DataOptions = DataOptions(),  # noqa: B008, frozen
    model: ModelOptions = ModelOptions(),  # noqa: B008
    train: TrainOptions = TrainOptions(),  # noqa: B008
) -> None:
    """Train a language model in a new run directory, then score it on held-out text.

    Without text it trains on the documentation that comes with Python. Ctrl-C saves; `resume` goes on. A configuration
    that names a task (classification, tagging, translation, captioning, forecasting; see configs/) trains for that one
    instead; `ostinato train FILE --help` lists its options.

    **Examples**

    ```
    ostinato train --model.kind ngram --run-dir runs/kn5
    ostinato train --text speeches.txt --model.kind lstm --model.hidden 256 --run-dir runs/lstm
    ```

    Parameters
    ----------
    run_dir:
        The directory to make; an existing one is never overwritten.
    config:
        A TOML file with tables [data], [model], [train]; the command line goes before it.
    text:
        Short for --data.text: .txt, .gz or .zst files, one sentence or paragraph a line; - is standard input.
    seed:
        Short for --train.seed.
    tensorboard:
        Write the numbers of log.jsonl for TensorBoard too, in RUN_DIR/tensorboard.
    json:
        Print the result as one JSON object.
    """
    from ostinato.tasks.language import build

    data = replace(data, text=text) if text else data
    train = train if seed is None else replace(train, seed=seed)
    with watching() as watch:
        run = build.train(Config(data, model, train), run_dir, callbacks(watch, tensorboard))
    finish(run, json)


@app.command
def resume(run: Path, *, tensorboard: bool = False, json: bool = False) -> None:
    """Go on with a run that was stopped or killed; the result is that of an uninterrupted run.

    **Examples**

    ```
    ostinato resume runs/lstm
    ostinato resume runs/lstm --json
    ```

    Parameters
    ----------
    run:
        The run directory.
    tensorboard:
        Write the numbers of log.jsonl for TensorBoard too.
    json:
        Print the result as one JSON object.
    """
    from ostinato.runs import TASK, VECTORS, RunDir
    from ostinato.tasks.language import build

    if (found := RunDir.open(run, kind=None)).kind == VECTORS:
        from ostinato.cli.vector_training import resume_vectors

        if tensorboard:
            raise ConfigError("--tensorboard is for language models; the numbers of word vectors are in log.jsonl")
        resume_vectors(found, json)
        return
    if found.kind == TASK:
        from ostinato.cli.tasks import resume_task

        resume_task(found, json, tensorboard)
        return
    before = RunDir.open(run).events()
    with watching() as watch:
        done = build.resume(run, callbacks(watch, tensorboard))
    if leads() and done.finished and done.events() == before:  # a damaged checkpoint makes a finished run train again
        say(f"{run} is finished: nothing was left to do")
    finish(done, json)


def callbacks(watch: Any, tensorboard: bool) -> Any:
    """What training tells: progress, warnings of the doctor, notes."""
    from ostinato.tasks.language.build import Callbacks

    return Callbacks(
        watch=watch,
        warn=lambda diagnosis: say(f"doctor: {diagnosis.name}: {diagnosis.finding}\n        {diagnosis.advice}"),
        note=say,
        tensorboard=tensorboard,
    )


def finish(run: RunDir, json: bool, more: dict[str, Any] | None = None) -> None:
    """Score the trained run on its test text, keep the score in the run and print it, with `more` in the JSON."""
    from ostinato.tasks.language import build

    if not leads():  # one of several processes: the first one talks
        return
    with watching() as watch:
        score = build.keep_results(run, watch)
    if json:
        show_json({"run": str(run), **score.to_json(), **(more or {})})
    else:
        print(score)
    if not (run.path / "data" / "test").is_dir():
        say("no test text was given: this is the score on the validation text")
    say(f"{run} is ready. Next: `ostinato generate {run}`, `ostinato evaluate {run} FILE`, `ostinato doctor {run}`.")
