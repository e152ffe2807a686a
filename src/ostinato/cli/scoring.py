"""Commands that score whole texts: evaluate, compare, mix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ostinato.cli.app import app
from ostinato.cli.talk import count, duration, say, show_json, show_table, size, watching

if TYPE_CHECKING:
    from ostinato.core.score import Score
    from ostinato.tasks.language.compare import Row

Regime = Literal["sentence", "stream"]
THRESHOLD_MISSED = 3


@app.command
def evaluate(
    run: Path,
    /,
    *text: Annotated[str, Parameter(allow_leading_hyphen=True)],
    regime: Regime | None = None,
    max_ppl: float | None = None,
    json: bool = False,
) -> int:
    """Score a model on a text: perplexity, bits per character, and the signature that makes it comparable.

    **Examples**

    ```
    ostinato evaluate runs/kn5
    ostinato evaluate runs/kn5 speech.txt --json
    ```

    Parameters
    ----------
    run:
        The run directory, or an n-gram model's file: ours, ARPA, or KenLM's.
    text:
        Text files, - for standard input; none for the run's own test text.
    regime:
        sentence: each line on its own; stream: the state carried over lines. As trained if left out.
    max_ppl:
        Exit with code 3 if the perplexity is higher.
    json:
        Print one JSON object.
    """
    from ostinato.cli.score import require_no_options
    from ostinato.core.errors import ConfigError
    from ostinato.tasks.language import evaluate as task
    from ostinato.tasks.language.load import load

    require_no_options(text, "evaluate")
    if max_ppl is not None and not max_ppl > 0:
        raise ConfigError(f"--max-ppl must be a number above 0, got {max_ppl}")
    with watching() as watch:
        score = task.evaluate(load(run), text, regime, watch)
    if json:
        show_json(score.to_json())
    else:
        print(score)
    if max_ppl is not None and not score.perplexity <= max_ppl:
        say(f"perplexity {score.perplexity:.2f} is above --max-ppl {max_ppl:g}")
        return THRESHOLD_MISSED
    return 0


@app.command
def compare(
    runs: tuple[Path, ...],
    /,
    *,
    text: tuple[str, ...] = (),
    regime: Regime | None = None,
    json: bool = False,
) -> None:
    """Put models side by side on the same text, best first; only equal signatures share a table.

    **Examples**

    ```
    ostinato compare runs/kn5 runs/lstm
    ostinato compare runs/kn5 runs/lstm --text speech.txt --json
    ```

    Parameters
    ----------
    runs:
        Run directories.
    text:
        Text files; none for the runs' own test text.
    regime:
        sentence or stream, for all; each as trained if left out.
    json:
        Print one JSON object with a list `rows`.
    """
    from ostinato.core.errors import ConfigError
    from ostinato.tasks.language import compare as task
    from ostinato.tasks.language.load import load

    if not runs:
        raise ConfigError("name at least one run directory")
    with watching() as watch:
        rows = task.compare([load(run) for run in runs], text, regime, watch)
    if json:
        show_json({"rows": [row.to_json() for row in rows]})
    else:
        show_comparison(rows)


def show_comparison(rows: Sequence[Row]) -> None:
    """One table for each signature, the best model first."""
    columns = ("run", "kind", "perplexity", "bits/char", "parameters", "on disk", "state", "tokens/s", "training")
    for signature in dict.fromkeys(row.score.signature for row in rows):
        chosen = sorted((row for row in rows if row.score.signature == signature), key=lambda row: row.score.nats)
        score = chosen[0].score
        cells = [
            (
                row.run,
                row.kind,
                f"{row.score.perplexity:.2f}",
                bits_per_char(row.score),
                count(row.parameters),
                size(row.disk_bytes),
                size(row.state_bytes),
                count(row.tokens_per_second),
                duration(row.training_seconds),
            )
            for row in chosen
        ]
        share = score.unknown / score.count
        show_table(columns, cells)
        print(f"perplexity per {score.per}, {score.count:,} targets, </s> counted, {share:.1%} unknown")
        if score.unknown:
            print("≥: an unknown word costs one token, however long it is")
        print(f"[{signature}]")


def bits_per_char(score: Score) -> str:
    """Bits a character, marked as a lower bound where there are unknown tokens."""
    bits = score.bits_per_char
    return "-" if bits is None else f"{'≥ ' if score.unknown else ''}{bits:.4f}"


@app.command
def mix(
    runs: tuple[Path, ...],
    /,
    *,
    run_dir: Path,
    text: tuple[str, ...] = (),
    json: bool = False,
) -> None:
    """Mix models linearly, with weights fitted by EM on validation text; the mixture is a run like any other.

    **Examples**

    ```
    ostinato mix runs/kn5 runs/lstm --run-dir runs/mixture
    ostinato mix runs/kn5 runs/lstm --text valid.txt --run-dir runs/mixture
    ```

    Parameters
    ----------
    runs:
        Run directories with one vocabulary.
    run_dir:
        The directory to make for the mixture; it holds copies of its members.
    text:
        Text files for the weights; none for the validation text of the first run.
    json:
        Print one JSON object.
    """
    from ostinato.cli.training import finish
    from ostinato.tasks.language import compare as task
    from ostinato.tasks.language.load import load

    with watching() as watch:
        run = task.mix(runs, text, run_dir, watch)
    weights = task.mixture_weights(load(run.path))
    say("weights: " + ", ".join(f"{name} {weight:.4f}" for name, weight in weights))
    finish(run, json, {"members": [{"run": name, "weight": weight} for name, weight in weights]})
