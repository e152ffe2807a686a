"""Commands that look into runs: show, doctor, plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ostinato.cli.app import app
from ostinato.cli.talk import THRESHOLD_MISSED, duration, say, show_json, size


@app.command
def show(run: Path, *, json: bool = False) -> None:
    """Show what is in a run: model, options, text, training, scores.

    **Examples**

    ```
    ostinato show runs/lstm
    ostinato show runs/lstm --json
    ```

    Parameters
    ----------
    run:
        The run directory.
    json:
        Print one JSON object.
    """
    from ostinato.runs import TASK, RunDir
    from ostinato.tasks import inspect, working
    from ostinato.tasks.language.inspect import describe

    facts = inspect.describe(RunDir.open(run, TASK)) if working.is_task(run) else describe(run)
    if json:
        show_json(facts)
        return
    for title, group in facts.items():
        if isinstance(group, dict):
            print(title)
            for key, value in group.items():
                print(f"  {key:24}  {plain(key, value)}")


def plain(key: str, value: object) -> str:
    """A value as a person reads it."""
    if isinstance(value, float) and key.endswith("seconds"):
        return duration(value)
    if isinstance(value, int) and key.endswith("bytes"):
        return size(value)
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.5g}"
    if isinstance(value, list | tuple):
        return ", ".join(plain(key, one) for one in value) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain(name, one)}" for name, one in value.items()) or "-"
    return str(value)


@app.command
def doctor(run: Path, *, json: bool = False) -> int:
    """Say what went wrong in a run, with numbers and advice, or that nothing did.

    The exit code is 3 if there is a fault, and 0 if there are at most warnings.

    **Examples**

    ```
    ostinato doctor runs/lstm
    ostinato doctor runs/lstm --json
    ```

    Parameters
    ----------
    run:
        The run directory; it may still be training.
    json:
        Print one JSON object with a list `diagnoses`.
    """
    from ostinato.runs import LANGUAGE, TASK, RunDir
    from ostinato.tasks import working
    from ostinato.train.doctor import diagnose

    opened = RunDir.open(run, TASK if working.is_task(run) else LANGUAGE)
    events = opened.events()
    found = diagnose(events)
    code = THRESHOLD_MISSED if any(diagnosis.severity == "fault" for diagnosis in found) else 0
    if json:
        show_json({"run": str(run), "diagnoses": [diagnosis.to_json() for diagnosis in found]})
        return code
    for diagnosis in found:
        print(f"{diagnosis.severity}: {diagnosis.name}\n  {diagnosis.finding}\n  {diagnosis.advice}")
    if opened.finished and not any(event["event"] == "report" for event in events):
        print("nothing to diagnose: this model was made in one go, not trained step by step")
    elif not found:
        trained = any(event["event"] in ("report", "stop") for event in events)
        print("healthy: nothing to report" if trained else "nothing was trained yet")
    return code


@app.command
def plot(
    runs: tuple[Path, ...],
    /,
    *,
    attention: str | None = None,
    by_length: bool = False,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Draw the learning curves of runs, how good they are by length, or what an answer looks at.

    Written as OUT.svg and OUT.png.

    **Examples**

    ```
    ostinato plot runs/lstm
    ostinato plot runs/lstm runs/gru --out figures/cells
    ostinato plot runs/en-de --attention "a man in an orange hat"
    ostinato plot runs/en-de runs/fixed-vector --by-length
    ```

    Parameters
    ----------
    runs:
        Run directories of trained neural models.
    attention:
        A sentence to translate: draw how much each word of the answer (down) looked at each word of it (across). Or
        what to describe, a number (from 1) of the run's test data, FILE.npz:NUMBER or a picture: draw where each word
        looked.
    by_length:
        Draw how good runs of one task are by the length of what they read, as they were evaluated last.
    out:
        Where to write, without the ending; left out, curves, attention or lengths.
    json:
        Print the paths as one JSON object.
    """
    from ostinato.core.errors import ConfigError

    if not runs:
        raise ConfigError("name at least one run directory")
    if by_length and attention is not None:
        raise ConfigError("--by-length and --attention are two pictures; ask for one")
    given = Path("lengths" if by_length else "curves" if attention is None else "attention") if out is None else out
    stem = given.with_suffix("") if given.suffix in (".svg", ".png") else given
    if not stem.name:
        raise ConfigError(f"--out names no file: {str(out)!r}; give a path without ending, such as curves")
    written = [stem.with_name(stem.name + ending) for ending in (".svg", ".png")]
    if by_length:
        draw_lengths(runs, written)
    elif attention is None:
        draw_curves(runs, written)
    else:
        draw_attention(runs, attention, written)
    if json:
        show_json({"files": [str(path) for path in written]})
    else:
        say("wrote " + " and ".join(str(path) for path in written))


def draw_curves(runs: Sequence[Path], written: Sequence[Path]) -> None:
    """The learning curves of runs."""
    from ostinato.runs import LANGUAGE, TASK, RunDir
    from ostinato.tasks import working
    from ostinato.train.curves import draw

    kinds = [TASK if working.is_task(run) else LANGUAGE for run in runs]
    events = {str(run): RunDir.open(run, kind).events() for run, kind in zip(runs, kinds, strict=True)}
    for path in written:
        draw(events, path)


def draw_lengths(runs: Sequence[Path], written: Sequence[Path]) -> None:
    """How good runs of a task are by length."""
    from ostinato.runs import TASK, RunDir
    from ostinato.tasks.length_picture import draw, read

    found = [read(RunDir.open(run, TASK).path) for run in runs]
    for path in written:
        draw(found, path)


def draw_attention(runs: Sequence[Path], text: str, written: Sequence[Path]) -> None:
    """What the answer of a run to a text looks at."""
    from ostinato.core.errors import ConfigError
    from ostinato.tasks import working
    from ostinato.tasks.attention_picture import draw
    from ostinato.tasks.task import Attentive

    if len(runs) > 1:
        raise ConfigError(f"--attention draws one run, got {len(runs)}; name one")
    predictor = working.load(runs[0])
    if not isinstance(predictor, Attentive):
        raise ConfigError(
            f"{runs[0]}: nothing in this run looks at what it answers; name a translator's or captioner's"
        )
    seen = predictor.look(text)
    for path in written:
        for warning in draw(seen, path):
            say(f"warning: {warning}")
