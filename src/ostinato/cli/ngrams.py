"""Commands that make n-gram models: ngram estimate, count, compare-smoothing."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter
from pydantic.dataclasses import dataclass

from ostinato.cli.app import LISTS
from ostinato.cli.talk import duration, loudness, say, show_json, show_table, size, watching
from ostinato.core.config import STRICT
from ostinato.ngram.options import SmoothingName
from ostinato.text.options import TokeniserName
from ostinato.text.read import EmptyLines

if TYPE_CHECKING:
    from ostinato.ngram.store import Stored
    from ostinato.tasks.language.ngrams import Estimate, Estimated
    from ostinato.tasks.language.smoothings import Row

HELP = """
Count-based models: estimate, look into, shrink, mix and convert them.

A MODEL is one of our model files, an ARPA file (packed or not), a binary file of KenLM, or a run directory of an
n-gram model. An OUT that ends in .arpa, .arpa.gz or .arpa.zst becomes an ARPA file, any other one a model file,
which opens in milliseconds.

**Examples**

```
ostinato ngram estimate speeches.txt --out kn5.ngram
ostinato ngram next kn5.ngram "the state of the"
```
"""

ngram_app = App(name="ngram", help=HELP, help_format="markdown", default_parameter=LISTS)

Texts = Annotated[tuple[str, ...], Parameter(allow_leading_hyphen=True)]


@Parameter(name="*")
@dataclass(frozen=True, config=STRICT)
class Reading:
    """How text becomes words; as KenLM reads it unless told otherwise."""

    tokeniser: TokeniserName = "blank"
    """How a line is cut: blank (at white space), word, char, byte, or bpe (learned)."""
    bpe_pieces: int = 4000
    """How many pieces the tokeniser bpe learns."""
    normalise: tuple[str, ...] = ()
    """Changes made to every line, in order: nfc, nfkc, lower, casefold, stem:LANGUAGE, lemma:LANGUAGE,
    lemma:FILE."""
    min_count: int = 1
    """Words seen less often in the text are unknown."""
    limit: int | None = None
    """Keep only that many words, the most frequent ones."""
    vocabulary: str | None = None
    """A vocabulary to use instead of counting one: a file with a word a line, or a run's vocabulary.json."""
    empty_lines: EmptyLines = "keep"
    """Keep lines without text as sentences of no words, or skip them."""


def opened(path: Path) -> Stored:
    """Any n-gram model."""
    from ostinato.tasks.language import reshape

    with watching() as watch:
        return reshape.opened(path, watch)


def told(texts: tuple[str, ...], reading: Reading, watch: Any, **more: Any) -> Estimate:
    """The options of an estimation. Raises ConfigError."""
    from ostinato.core.config import build
    from ostinato.tasks.language.ngrams import Estimate
    from ostinato.text.options import DataOptions

    data = build(DataOptions, {"text": texts, **asdict(reading)}, "ngram")
    return Estimate(data=data, watch=watch, **more)


@ngram_app.command
def estimate(
    texts: Texts,
    /,
    *,
    out: Path | None = None,
    arpa: str | None = None,
    order: int | None = None,
    smoothing: SmoothingName = "modified-kneser-ney",
    prune: tuple[int, ...] = (),
    memory: str | None = None,
    unknown: Literal["kenlm", "srilm", "closed"] = "kenlm",
    threads: int | None = None,
    heldout: tuple[str, ...] = (),
    force: bool = False,
    json: bool = False,
    reading: Reading = Reading(),  # noqa: B008, frozen
) -> None:
    """Estimate an n-gram model from text, or from counts that `ngram count` saved.

    **Examples**

    ```
    ostinato ngram estimate speeches.txt --out kn5.ngram
    zcat news.gz | ostinato ngram estimate - --order 3 --prune 0 1 2 --memory 2G --arpa news.arpa.gz
    ```

    Parameters
    ----------
    texts:
        Text files with a sentence a line, .gz and .zst too; - is standard input. Or files of counts.
    out:
        The model file to write.
    arpa:
        An ARPA file to write, packed if it ends in .gz or .zst; - is standard output.
    order:
        The length of the longest n-grams; 5, or that of the counts.
    smoothing:
        Where the probability of what was not seen comes from; see `ostinato ngram compare-smoothing`.
    prune:
        Drop n-grams of order 1, 2, ... seen so often or less; the last number holds for higher orders.
    memory:
        Stay near that much memory, as 500M or 2G; the rest goes to files beside OUT meanwhile. As much as it takes.
    unknown:
        Where the mass of words never seen goes: kenlm, to every word alike; srilm, all to `<unk>`; closed, to every
        word but `<unk>`.
    threads:
        Processor cores to use; all of them.
    heldout:
        Texts on which additive and jelinek-mercer choose their numbers; else on the training text.
    force:
        Replace files that exist.
    json:
        Print one JSON object.
    """
    from ostinato.tasks.language import ngrams as task

    files = [path for path in (out, Path(arpa) if arpa not in (None, "-") else None) if path is not None]
    for path in files:
        task.check_new(path, force)
    check_output(arpa == "-", json)
    began = time.monotonic()
    options = {"order": order, "smoothing": smoothing, "prune": prune, "memory": memory, "unknown": unknown}
    with watching() as watch:
        wanted = told(texts, reading, watch, **options, threads=threads, heldout=heldout, note=say)
        made = task.estimate(wanted, out, sys.stdout.buffer if arpa == "-" else arpa)
    seconds = time.monotonic() - began
    sizes = {str(path): path.stat().st_size for path in files}
    if json:
        show_json({**asdict(made), "files": sizes, "seconds": seconds})
    elif arpa == "-":
        say(summary(made, sizes, seconds))
    elif loudness.level >= 1:
        print(summary(made, sizes, seconds))


def check_output(arpa: bool, json: bool) -> None:
    """Raise ConfigError if an ARPA file and JSON are both to go to standard output."""
    from ostinato.core.errors import ConfigError

    if arpa and json:
        raise ConfigError("--json and an ARPA file cannot both go to standard output; name a file")


def summary(made: Estimated, files: dict[str, int], seconds: float) -> str:
    """What was estimated, for a person; plain lines, since the library for tables takes long to load."""
    width = max(8, *(len(f"{number:,}") for number in made.ngrams))
    lines = [f"order  {'n-grams':>{width}}  discounts"]
    for order, number in enumerate(made.ngrams, 1):
        values = made.discounts[order - 1] if order <= len(made.discounts) else ()
        lines.append(f"{order:5}  {number:{width},}  {' '.join(f'{value:.4f}' for value in values)}".rstrip())
    written = ", ".join(f"{path} ({size(number)})" for path, number in files.items())
    where = f"; wrote {written}" if written else ""
    lines.append(f"{made.smoothing}, {made.tokens:,} tokens in {made.lines:,} lines, {duration(seconds)}{where}")
    return "\n".join(lines)


@ngram_app.command
def count(
    texts: Texts = (),
    /,
    *,
    out: Path,
    add: tuple[str, ...] = (),
    order: int | None = None,
    memory: str | None = None,
    threads: int | None = None,
    force: bool = False,
    json: bool = False,
    reading: Reading = Reading(),  # noqa: B008
) -> None:
    """Count n-grams and save the counts, alone or added to earlier ones, for `ngram estimate` and `ngram prune`.

    **Examples**

    ```
    ostinato ngram count monday.txt --out monday.counts
    ostinato ngram count tuesday.txt --add monday.counts --out both.counts
    ```

    Parameters
    ----------
    texts:
        Text files with a sentence a line, .gz and .zst too; - is standard input.
    out:
        The file to write.
    add:
        Files of counts to add, of the same order; the vocabulary grows by the words that are new.
    order:
        The length of the longest n-grams; 5, or that of the counts to add.
    memory:
        Stay near that much memory, as 500M or 2G. As much as it takes.
    threads:
        Processor cores to use; all of them.
    force:
        Replace a file that exists.
    json:
        Print one JSON object.
    """
    from ostinato.tasks.language import ngrams as task

    task.check_new(out, force)
    began = time.monotonic()
    with watching() as watch:
        wanted = told(texts, reading, watch, order=order, memory=memory, threads=threads)
        made = task.count_files(wanted, add, out)
    counts, words = made.counts, made.label.vocabulary.outputs - 2
    facts = {"ngrams": list(counts.trie.ngrams), "tokens": counts.tokens, "lines": counts.lines, "words": words}
    if json:
        show_json({**facts, "file": str(out), "bytes": out.stat().st_size, "seconds": time.monotonic() - began})
    elif loudness.level >= 1:
        numbers = ", ".join(f"{number:,}" for number in counts.trie.ngrams)
        print(f"{counts.tokens:,} tokens in {counts.lines:,} lines, {words:,} words; n-grams by order: {numbers}")
        print(f"wrote {out} ({size(out.stat().st_size)}) in {duration(time.monotonic() - began)}")


@ngram_app.command
def compare_smoothing(
    texts: Texts,
    /,
    *,
    valid: str,
    test: str | None = None,
    orders: tuple[int, ...] = (1, 2, 3, 4, 5),
    smoothings: tuple[SmoothingName, ...] = (),
    threads: int | None = None,
    json: bool = False,
    reading: Reading = Reading(),  # noqa: B008
) -> None:
    """Train every smoothing at every order on one text and show their perplexities on held-out text.

    **Examples**

    ```
    ostinato ngram compare-smoothing train.txt --valid valid.txt --test test.txt --min-count 3
    ostinato ngram compare-smoothing train.txt --valid valid.txt --orders 2 3 --smoothings kneser-ney witten-bell
    ```

    Parameters
    ----------
    texts:
        Training texts with a sentence a line, or files of counts.
    valid:
        The validation text; additive and jelinek-mercer choose their numbers on it.
    test:
        A test text.
    orders:
        The orders to train.
    smoothings:
        The smoothings to train; all of them.
    threads:
        Processor cores to use; all of them.
    json:
        Print one JSON object with a list `rows`.
    """
    from ostinato.tasks.language.smoothings import best_of, compare_smoothings

    with watching() as watch:
        wanted = told(texts, reading, watch, threads=threads)
        rows = compare_smoothings(wanted, valid, test, orders, smoothings)
    if json:
        best = best_of(rows, "valid")
        chosen = None if best is None else {"smoothing": best.smoothing, "order": best.order}
        show_json({"rows": [row.to_json() for row in rows], "best": chosen})
        return
    for part in ("valid", "test") if test is not None else ("valid",):
        show_smoothings(rows, part)
    if any(row.tuned for row in rows):
        print("† chose its numbers on the validation text, so only other texts judge it")
    if not all(row.normalised for row in rows):
        print("‡ scores, not probabilities: these are no perplexities and cannot be compared with the others")


def show_smoothings(rows: list[Row], part: str) -> None:
    """The scores on one text: smoothings down, orders across, the best marked; below, what was measured."""
    from ostinato.tasks.language.smoothings import best_of

    orders, best = sorted({row.order for row in rows}), best_of(rows, part)
    cells = []
    for name in dict.fromkeys(row.smoothing for row in rows):
        mine = {row.order: row for row in rows if row.smoothing == name}
        marks = f"{' †' if mine[orders[0]].tuned else ''}{'' if mine[orders[0]].normalised else ' ‡'}"
        numbers = [perplexity(mine[order].on(part).perplexity, mine[order] is best) for order in orders]
        cells.append((name + marks, *numbers))
    show_table((f"perplexity, {part}", *(f"order {order}" for order in orders)), cells)
    score = rows[0].on(part)
    share = score.unknown / score.count
    print(f"perplexity per {score.per}, {score.count:,} targets, </s> counted, {share:.1%} unknown; * best")
    print(f"[{score.signature}]")


def perplexity(value: float, best: bool) -> str:
    """A perplexity, marked if it is the best."""
    return f"{'* ' if best else ''}{value:,.2f}" if value < 1e7 else "inf" if value == float("inf") else f"{value:.3g}"
