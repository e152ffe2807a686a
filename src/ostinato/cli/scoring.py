"""Commands that score whole texts: evaluate, compare, mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ostinato.cli.app import app
from ostinato.cli.talk import (
    THRESHOLD_MISSED,
    count,
    duration,
    say,
    show_json,
    show_table,
    size,
    tell_unfinished,
    watching,
)

if TYPE_CHECKING:
    from ostinato.core.progress import Watch
    from ostinato.core.score import Score
    from ostinato.tasks.language.companions import Companions
    from ostinato.tasks.language.compare import Row
    from ostinato.tasks.language.load import Loaded
    from ostinato.text.stream import TokenStream

Carried = Literal["fresh", "carried"]
REGIMES: dict[Carried | None, str | None] = {None: None, "fresh": "sentence", "carried": "stream"}


@dataclass(frozen=True)
class CompanionOptions:
    """What goes along with the model."""

    cache: int | None = None
    """Mix the model with a cache of the last so many tokens: by likeness of their features (neural), or their count."""
    cache_weight: float | None = None
    """The cache's share in the mixture, from 0 to 1."""
    cache_theta: float | None = None
    """How much likeness counts, at least 0; for models with features."""
    cache_decay: float | None = None
    """The weight of a place of the cache beside the one after it, at most 1, which it is if left out."""
    dynamic: float | Literal["tune"] | None = None
    """Let the model learn from each segment after it was scored, at this rate; `tune`: find the rate with --tune-on."""
    dynamic_method: Literal["sgd", "rms"] = "sgd"
    """rms: divide each weight's step by the size its gradients have on the training text."""
    dynamic_decay: float = 0.0
    """The share of the way back to the trained weights after each segment."""
    dynamic_length: int = 20
    """Tokens of a segment; whole lines where the state is fresh."""
    tune_on: str | None = None
    """Choose the numbers of cache and rate that are left open on this text: `valid`, the run's own, or a file."""


@app.command
def evaluate(
    run: Path,
    /,
    *text: Annotated[str, Parameter(allow_leading_hyphen=True)],
    state: Carried | None = None,
    companions: Annotated[CompanionOptions, Parameter(name="*")] = CompanionOptions(),
    max_ppl: float | None = None,
    tune: bool = False,
    json: bool = False,
) -> int:
    """Score a model on a text: perplexity, bits per character, and the signature that makes it comparable.

    A cache and what is learnt while reading go on from line to line of a file, whatever --state says. The run of a
    sequence task is judged by the task's own measures.

    **Examples**

    ```
    ostinato evaluate runs/kn5
    ostinato evaluate runs/kn5 speech.txt --json
    ostinato evaluate runs/lstm --cache 2000 --dynamic tune --tune-on valid
    ```

    Parameters
    ----------
    run:
        The run directory, or an n-gram model's file: ours, ARPA, or KenLM's.
    text:
        Text files, - for standard input; none for the run's own test text.
    state:
        fresh: each line on its own; carried: the state goes on over the lines of a file. As trained if left out.
    max_ppl:
        Exit with code 3 if the perplexity is higher.
    tune:
        Of a translator: first choose its length penalty on the run's validation data, and keep it in the run.
    json:
        Print one JSON object.
    """
    from ostinato.cli.score import require_no_options
    from ostinato.core.errors import ConfigError
    from ostinato.tasks.language import evaluate as task
    from ostinato.tasks.language.load import load
    from ostinato.tasks.working import is_task

    require_no_options(text, "evaluate")
    if is_task(run):
        from ostinato.cli.tasks import evaluate_task

        if max_ppl is not None or state is not None or companions != CompanionOptions():
            raise ConfigError(f"{run} is a run of a sequence task, which has no perplexity; give it files alone")
        evaluate_task(run, text, tune, json)
        return 0
    if tune:
        raise ConfigError("--tune is for the runs of translators; a cache is tuned with --tune-on")
    if max_ppl is not None and not max_ppl > 0:
        raise ConfigError(f"--max-ppl must be a number above 0, got {max_ppl}")
    require_whole(companions)
    if companions.tune_on in text:
        raise ConfigError(f"--tune-on {companions.tune_on} is the text to be scored; tune on another one")
    with watching() as watch:
        loaded = load(run)
        tell_unfinished(loaded.run)
        stream = task.scored_stream(loaded, text, watch)
        if companions.tune_on == "valid" and not text and task.final_part(loaded) == "valid":
            raise ConfigError(f"{run} has no test text, so that valid is what is scored; name a text file")
        along = make_companions(loaded, companions, REGIMES[state], watch, stream)
        score = task.evaluate_encoded(loaded, stream, REGIMES[state], watch, along)
    if json:
        show_json(score.to_json() | (along.to_json() if along else {}))
    else:
        print(score)
    tell_doubtful(score, along)
    if max_ppl is not None and not score.perplexity <= max_ppl:
        say(f"perplexity {score.perplexity:.2f} is above --max-ppl {max_ppl:g}")
        return THRESHOLD_MISSED
    return 0


def tell_doubtful(score: Score, along: Companions | None) -> None:
    """Warn of a perplexity that means little."""
    if score.unknown > score.count / 2:
        say(
            f"warning: {score.unknown / score.count:.0%} of the tokens are unknown to the model; such a perplexity "
            "means little, so check the text, or train with a vocabulary that covers it"
        )
    if along is not None and along.dynamic is not None and not isfinite(score.perplexity):
        say(
            f"warning: the perplexity is {score.perplexity}, since --dynamic {along.dynamic.rate:g} is too large; "
            "give a smaller rate, or `--dynamic tune --tune-on valid`"
        )


def require_whole(options: CompanionOptions) -> None:
    """Raise ConfigError for an option that has no meaning without another one."""
    from dataclasses import fields

    from ostinato.core.errors import ConfigError

    for field in fields(options):
        head = field.name.split("_")[0]
        lacking = head in ("cache", "dynamic") and getattr(options, head) is None
        if lacking and getattr(options, field.name) != field.default:
            raise ConfigError(f"--{field.name.replace('_', '-')} is for --{head}; add it")
    if options.tune_on is not None and options.cache is None and options.dynamic is None:
        raise ConfigError("--tune-on has nothing to tune; add --cache SIZE or --dynamic tune")


def make_companions(
    loaded: Loaded, options: CompanionOptions, regime: str | None, watch: Watch, scored: TokenStream
) -> Companions | None:
    """What goes along with a model, its open numbers tuned if that is asked for; None for nothing.

    scored: the text to be scored. Raises ConfigError if they would be tuned on it.
    """
    from ostinato.core.errors import ConfigError

    if options.cache is None and options.dynamic is None:
        return None
    from ostinato.tasks.language import companions as task
    from ostinato.tasks.language.evaluate import encode_texts, own_stream

    cache = dynamic = None
    if options.cache is not None:
        cache = task.CacheOptions(options.cache, options.cache_weight, options.cache_theta, options.cache_decay)
    if options.dynamic is not None:
        from ostinato.tasks.language.adapt import DynamicOptions

        rate = None if options.dynamic == "tune" else options.dynamic
        dynamic = DynamicOptions(rate, options.dynamic_method, options.dynamic_decay, options.dynamic_length)
    chosen = task.Companions(cache, dynamic)
    if options.tune_on is None:
        return task.settled(loaded, chosen)
    task.check(loaded, chosen)
    own = options.tune_on == "valid"
    stream = own_stream(loaded, "valid") if own else encode_texts(loaded, (options.tune_on,), watch)
    if task.holds(scored, stream):
        raise ConfigError(f"--tune-on {options.tune_on} is the text to be scored; tune on another one")
    chosen = task.tune(loaded, stream, regime or loaded.regime, chosen, watch)
    say(f"tuned on {stream.data}: {chosen}")
    return chosen


@app.command
def compare(
    runs: tuple[Path, ...],
    /,
    *,
    text: tuple[str, ...] = (),
    state: Carried | None = None,
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
    state:
        fresh at each line or carried over the lines of a file, for all; each as trained if left out.
    json:
        Print one JSON object with a list `rows`.
    """
    from ostinato.core.errors import ConfigError
    from ostinato.tasks.language import compare as task
    from ostinato.tasks.language.load import load

    if not runs:
        raise ConfigError("name at least one run directory")
    with watching() as watch:
        rows = task.compare([load(run) for run in runs], text, REGIMES[state], watch)
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
