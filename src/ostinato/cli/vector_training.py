"""Commands that train word vectors: vectors train."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ostinato.cli.app import LISTS
from ostinato.cli.talk import count, duration, say, show_json, watching
from ostinato.cli.vectors import vectors_app
from ostinato.embed.options import TextOptions, VectorOptions

if TYPE_CHECKING:
    from ostinato.runs import RunDir

Flat = Parameter(name="*")


@vectors_app.command
def train(
    *,
    run_dir: Path,
    config: Path | None = None,
    text_options: Annotated[TextOptions, Flat, LISTS] = TextOptions(),  # noqa: B008, frozen
    options: Annotated[VectorOptions, Flat] = VectorOptions(),  # noqa: B008, frozen
    before: Path | None = None,
    check: Annotated[tuple[str, ...], LISTS] = (),
    every: float = 60.0,
    json: bool = False,
) -> None:
    """Train word vectors in a new run directory: Word2Vec, or fastText's with --subwords.

    Ctrl-C saves; `ostinato resume RUN_DIR` goes on. The vectors are in RUN_DIR/vectors.

    **Examples**

    ```
    ostinato vectors train --text speeches.txt --run-dir runs/words
    ostinato vectors train --text speeches.txt --model cbow-mean --dimensions 300 --check wordsim353.tsv --run-dir w300
    ```

    Parameters
    ----------
    run_dir:
        The directory to make; an existing one is never overwritten.
    config:
        A TOML file with tables [text], [vectors], [checks], as in any run; the command line goes before it.
    before:
        A finished run to train on from: its words keep their places, frequent new ones join them.
    check:
        Files of word pairs or analogies that the vectors are scored on while they are trained, and at the end.
    every:
        Seconds between two such scores.
    json:
        Print the result as one JSON object.
    """
    from ostinato.core.config import build
    from ostinato.tasks import vectors

    checks = build(vectors.CheckOptions, {"check": check, "every": every}, "command line")
    with watching() as watch:
        told = vectors.Watching(watch, say)
        run = vectors.train(vectors.Config(text_options, options, checks), run_dir, told, before)
    finish(run, json)


def finish(run: RunDir, json: bool) -> None:
    """Say what came out of training."""
    from ostinato.embed.vectors import Vectors
    from ostinato.tasks.vectors import last_loss

    vectors, loss = Vectors.load(run.path / "vectors"), last_loss(run)
    seconds = run.training_seconds()
    if json:
        about = {"words": len(vectors), "dimensions": vectors.dimensions, "loss": loss, "seconds": seconds}
        show_json({"run": str(run), **about, "fingerprint": vectors.fingerprint})
    else:
        told = "" if loss is None else f", {loss:.4f} nats a pair in the last epoch"
        print(f"{count(len(vectors))} words, {vectors.dimensions} dimensions, {duration(seconds)}{told}")
    say(f"{run} is ready. Next: `ostinato vectors neighbors {run} WORD`, `ostinato vectors evaluate {run} FILE`.")


def resume_vectors(run: RunDir, json: bool) -> None:
    """Go on with a run of word vectors."""
    from ostinato.tasks import vectors

    done = run.finished
    with watching() as watch:
        vectors.resume(run.path, vectors.Watching(watch, say))
    if done:
        say(f"{run} is finished: nothing was left to do")
    finish(run, json)
