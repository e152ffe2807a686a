"""Commands that make an n-gram model into another: ngram prune, quantise, filter, interpolate, convert."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ostinato.cli.ngrams import check_output, ngram_app, opened
from ostinato.cli.talk import loudness, say, show_json, size, watching

if TYPE_CHECKING:
    from ostinato.ngram.store import Model, Stored


@ngram_app.command
def prune(
    model: Path,
    *,
    out: Path,
    threshold: float | None = None,
    ngrams: int | None = None,
    min_counts: tuple[int, ...] = (),
    counts: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Make a model smaller by leaving out the n-grams it misses least, or rare ones.

    For Kneser-Ney give the counts: its lower orders do not say how often a context occurs, and pruning needs that.

    **Examples**

    ```
    ostinato ngram prune kn5.ngram --threshold 1e-8 --counts speeches.counts --out small.ngram
    ostinato ngram prune kn5.ngram --ngrams 1000000 --out million.arpa.gz
    ```

    Parameters
    ----------
    model:
        The model.
    out:
        The file to write.
    threshold:
        Leave out n-grams without which the perplexity rises by a smaller share (relative entropy).
    ngrams:
        Keep exactly that many n-grams, those it would miss most.
    min_counts:
        Leave out n-grams of order 1, 2, ... seen so often or less; needs --counts. The first is 0.
    counts:
        The counts that the model was made from, saved by `ngram count`.
    force:
        Replace a file that exists.
    json:
        Print one JSON object.
    """
    from ostinato.tasks.language import reshape

    target = new(out, force)
    stored = opened(model)
    made = reshape.prune(stored, counts, threshold, ngrams, min_counts)
    if counts is None and "kneser-ney" in stored.model.table.smoothing:
        say("pruned without counts; with --counts a Kneser-Ney model of the same size predicts better")
    finish(made, stored, target, json)


@ngram_app.command
def quantise(
    model: Path,
    *,
    out: Path,
    prob_bits: int = 8,
    backoff_bits: int = 16,
    force: bool = False,
    json: bool = False,
) -> None:
    """Pack a model into a few bytes an n-gram by rounding its numbers; reading it is several times slower.

    **Examples**

    ```
    ostinato ngram quantise kn5.ngram --out kn5.small.ngram
    ostinato ngram quantise kn5.ngram --prob-bits 10 --backoff-bits 12 --out kn5.small.ngram
    ```

    Parameters
    ----------
    model:
        The model.
    out:
        The model file to write.
    prob_bits:
        Bits a log-prob.
    backoff_bits:
        Bits a back-off; with few, distributions do not quite sum to one.
    force:
        Replace a file that exists.
    json:
        Print one JSON object.
    """
    from ostinato.core.errors import ConfigError
    from ostinato.tasks.language import reshape

    if reshape.is_arpa_name(out):
        raise ConfigError(f"{out}: an ARPA file cannot hold a packed model; choose a name without .arpa")
    target = new(out, force)
    stored = opened(model)
    finish(reshape.quantise(stored, prob_bits, backoff_bits), stored, target, json)


@ngram_app.command(name="filter")
def filter_words(
    model: Path,
    *,
    words: Path,
    out: Path,
    unknown: Literal["keep", "renormalise"] = "keep",
    force: bool = False,
    json: bool = False,
) -> None:
    """Leave out every n-gram with a word that is not listed.

    **Examples**

    ```
    ostinato ngram filter kn5.ngram --words dictionary.txt --out dictionary.ngram
    ostinato ngram filter kn5.ngram --words dictionary.txt --unknown renormalise --out dictionary.arpa
    ```

    Parameters
    ----------
    model:
        The model.
    words:
        A text file with the words to keep, white space between them.
    out:
        The file to write.
    unknown:
        keep: all other numbers stay, so distributions sum to less than one, as KenLM's filter leaves them.
        renormalise: `<unk>` gets what the words left out had.
    force:
        Replace a file that exists.
    json:
        Print one JSON object.
    """
    from ostinato.tasks.language import reshape

    target = new(out, force)
    stored = opened(model)
    finish(reshape.filter_words(stored, words, unknown), stored, target, json)


@ngram_app.command
def interpolate(
    models: tuple[Path, ...],
    /,
    *,
    out: Path,
    text: tuple[str, ...] = (),
    weights: tuple[float, ...] = (),
    force: bool = False,
    json: bool = False,
) -> None:
    """Make one model that is the weighted sum of several, over the words that any of them knows.

    **Examples**

    ```
    ostinato ngram interpolate news.ngram speech.ngram --text heldout.txt --out both.ngram
    ostinato ngram interpolate news.ngram speech.arpa.gz --weights 0.3 0.7 --out both.arpa.gz
    ```

    Parameters
    ----------
    models:
        The models, of any orders.
    out:
        The file to write.
    text:
        Held-out texts: the weights under which they are most probable are found by EM.
    weights:
        One a model, in their order; they sum to 1.
    force:
        Replace a file that exists.
    json:
        Print one JSON object.
    """
    from ostinato.tasks.language import reshape

    target = new(out, force)
    members = [opened(path) for path in models]
    with watching() as watch:
        made, shares = reshape.interpolate(members, weights, text, watch)
    named = [{"model": str(path), "weight": share} for path, share in zip(models, shares, strict=True)]
    say("weights: " + ", ".join(f"{path} {share:.4f}" for path, share in zip(models, shares, strict=True)))
    finish(made, members[0], target, json, members=named)


@ngram_app.command
def convert(
    model: Path,
    out: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write a model in another format, chosen by the ending of OUT.

    **Examples**

    ```
    ostinato ngram convert news.arpa.gz news.ngram
    ostinato ngram convert kenlm.binary news.arpa
    ```

    Parameters
    ----------
    model:
        The model.
    out:
        .arpa, .arpa.gz, .arpa.zst: an ARPA file; any other name: a model file; -: ARPA on standard output.
    force:
        Replace a file that exists.
    json:
        Print one JSON object.
    """
    check_output(str(out) == "-", json)
    target = new(out, force)
    stored = opened(model)
    finish(stored.model, stored, target, json)


def new(out: Path, force: bool) -> Path | IO[bytes]:
    """Where to write. Raises StorageError for a file that exists, ConfigError for an ending that would mislead."""
    from ostinato.core.errors import ConfigError
    from ostinato.tasks.language.ngrams import check_new
    from ostinato.tasks.language.reshape import is_arpa_name

    if str(out) == "-":
        return sys.stdout.buffer
    if out.suffix in (".gz", ".zst", ".bz2", ".xz") and not is_arpa_name(out):
        raise ConfigError(f"{out}: model files are not packed, ARPA files end in .arpa, .arpa.gz or .arpa.zst")
    check_new(out, force)
    return out


def finish(made: Model, stored: Stored, target: Path | IO[bytes], json: bool, **more: Any) -> None:
    """Write a model and say how large it is."""
    from ostinato.tasks.language.reshape import write

    with watching() as watch:
        write(made, stored, target, watch)
    table = made.table
    if not isinstance(target, Path):
        return
    bytes_written = target.stat().st_size
    if json:
        facts = {"file": str(target), "bytes": bytes_written, "ngrams": list(table.ngrams), "notes": list(table.notes)}
        show_json({**facts, **more})
    elif loudness.level >= 1:
        numbers = ", ".join(f"{number:,}" for number in table.ngrams)
        print(f"wrote {target} ({size(bytes_written)}); n-grams by order: {numbers}")
