"""Commands that measure how fast we are: bench."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from ostinato.bench.names import EmbedCaseName, NGramCaseName, StreamCaseName, TasksCaseName, TrainCaseName
from ostinato.cli.app import LISTS
from ostinato.cli.talk import say, show_json, show_table, size

if TYPE_CHECKING:
    from ostinato.bench.measure import Row, Sample

HELP = """
Measure speed, memory and size beside the programs that people use today.

Ours and theirs run by turns, each in processes of its own; a ratio above 1 says that ours is better. What is not
installed is named, and ours alone is measured: `pip install 'ostinato[bench]'`.

**Examples**

```
ostinato bench train --quick
ostinato bench stream --case lstm-512 --json
ostinato bench embed --quick
ostinato bench ngram speed.txt speed.heldout.txt --kenlm ~/.cache/ostinato-kenlm/bin --kenlm-python python3
```
"""

Runs = Annotated[int | None, Parameter(validator=Number(gte=1))]
Threads = Annotated[int, Parameter(validator=Number(gte=1))]

bench_app = App(name="bench", help=HELP, help_format="markdown", default_parameter=LISTS)


@bench_app.command
def train(
    *,
    case: tuple[TrainCaseName, ...] = (),
    text: Path | None = None,
    threads: Threads | None = None,
    growth: bool = False,
    runs: Runs = None,
    quick: bool = False,
    json: bool = False,
) -> None:
    """Measure training beside PyTorch's own example of a word language model: tokens a second.

    Both train the same LSTM with the same updates from the same weights, ours as `ostinato train` does; that their
    losses agree is checked. min-gru and min-lstm stand beside our LSTM of as many parameters.

    **Examples**

    ```
    ostinato bench train --quick
    ostinato bench train --case lstm-200 lstm-650 --threads 1
    ostinato bench train --growth
    ```

    Parameters
    ----------
    case:
        What to train; everything if left out.
    text:
        A text to train on, cut into words or characters; words drawn from Zipf's law if left out.
    threads:
        Threads of both sides; all cores if left out.
    growth:
        Our speed over length, batch and size instead, beside the peaks of the machine.
    runs:
        Blocks of each side that count: 5, or 2 with --quick. One that other programs disturb is repeated.
    quick:
        Two small cases and short blocks, for a first look.
    json:
        Print one JSON object a line.
    """
    from ostinato.bench import train as bench

    show("train", bench.run(case, text, threads, runs, quick, growth, say), json)


@bench_app.command
def stream(
    *,
    case: tuple[StreamCaseName, ...] = (),
    threads: Threads = 1,
    runs: Runs = None,
    quick: bool = False,
    json: bool = False,
) -> None:
    """Measure stepping a token at a time beside onnxruntime, PyTorch and a transformer with its cache: microseconds.

    An LSTM language model of two layers, log-probs of 10,000 words after each token: one session, many together, in
    int8, bfloat16 and float32; and how near that comes to reading the weights alone.

    **Examples**

    ```
    ostinato bench stream --quick
    ostinato bench stream --case lstm-512 sessions-256
    ```

    Parameters
    ----------
    case:
        What to step; everything if left out.
    threads:
        Threads of all sides.
    runs:
        Blocks of each side that count: 5, or 2 with --quick. One that other programs disturb is repeated.
    quick:
        Small cases and short blocks, for a first look.
    json:
        Print one JSON object a line.
    """
    from ostinato.bench import stream as bench

    show("stream", bench.run(case, threads, runs, quick, say), json)


@bench_app.command
def ngram(
    text: Path | None = None,
    heldout: Path | None = None,
    /,
    *,
    case: tuple[NGramCaseName, ...] = (),
    kenlm: Path | None = None,
    kenlm_python: Path | None = None,
    runs: Runs = None,
    scratch: Path | None = None,
    quick: bool = False,
    json: bool = False,
) -> None:
    """Measure n-gram models beside KenLM: whole processes by turns, medians of several runs.

    **Examples**

    ```
    ostinato bench ngram --quick
    ostinato bench ngram speed.txt speed.heldout.txt --case arpa score
    ostinato bench ngram speed.txt speed.heldout.txt --kenlm ~/.cache/ostinato-kenlm/bin --kenlm-python python3
    ```

    Parameters
    ----------
    text:
        The text that models are made of, a sentence a line, cut at blanks; the embedded corpus if left out, which is
        small, so that starting weighs much.
    heldout:
        The text that they score.
    case:
        What to measure; everything if left out.
    kenlm:
        A folder with KenLM's lmplz and build_binary; bench/kenlm_build.py makes one. Those on the PATH if left out.
    kenlm_python:
        A Python interpreter that can import kenlm, for score, step, next and open; this one if it can.
    runs:
        How often each side runs, after a run that does not count: 5, or 1 with --quick.
    scratch:
        Where scratch files go, which are removed; the system's temporary folder if left out.
    quick:
        A few cases, for a first look.
    json:
        Print one JSON object a line, with every run.
    """
    from ostinato.bench import ngram as bench
    from ostinato.bench.ngram_sides import KenLM

    found = KenLM.found()
    side = KenLM(kenlm or found.folder, kenlm_python or found.python)
    show("ngram", bench.run(text, heldout, case, side, runs, scratch, quick, say), json)


@bench_app.command
def embed(
    *,
    case: tuple[EmbedCaseName, ...] = (),
    text: Path | None = None,
    runs: Runs = None,
    quick: bool = False,
    json: bool = False,
) -> None:
    """Measure word vectors beside gensim: training, whole processes, reading, formats, analogies, and their quality.

    Both sides train on the same file with the same options, with one thread and two, and every speed stands beside
    the scores of the vectors it made. Speeds are words of the text that have a vector, in seconds of training alone.

    **Examples**

    ```
    ostinato bench embed --quick
    ostinato bench embed --text speed.txt --case skip-gram cbow
    ostinato bench embed --text speed.txt --json
    ```

    Parameters
    ----------
    case:
        What to measure; everything if left out.
    text:
        A text with a sentence a line; speed.txt beside the checkout if left out, or else the embedded corpus.
    runs:
        How often each side runs: 3 (gensim on the whole text once), or 1 with --quick.
    quick:
        Most cases on the first megabytes, for a first look.
    json:
        Print one JSON object a line, with every run.
    """
    from ostinato.bench import embed as bench

    show("embed", bench.run(case, text, runs, quick, say), json)


@bench_app.command
def tasks(
    *,
    case: tuple[TasksCaseName, ...] = (),
    threads: Threads = 1,
    joeynmt: Path | None = None,
    runs: Runs = None,
    quick: bool = False,
    json: bool = False,
) -> None:
    """Measure sequence tasks: training a translator beside a PyTorch loop and JoeyNMT, its beam search, tagging.

    The translator is an LSTM with additive attention; the loop is written as PyTorch's users write it and does the
    same work from the same weights, which is checked. Search and tagging are sentences a second on one core.

    **Examples**

    ```
    ostinato bench tasks --quick
    ostinato bench tasks --case train beam --json
    ostinato bench tasks --case joeynmt --joeynmt ~/joeynmt/bin/python
    ```

    Parameters
    ----------
    case:
        What to measure; everything if left out. growth: over length and batch.
    threads:
        Threads of all sides in training; search and tagging have one.
    joeynmt:
        A Python interpreter that can import joeynmt; this one if it can.
    runs:
        Blocks of each side that count: 5, or 2 with --quick.
    quick:
        Short blocks and small batches, without JoeyNMT and growth, for a first look.
    json:
        Print one JSON object a line.
    """
    from ostinato.bench import tasks as bench

    show("tasks", bench.run(case, threads, None if joeynmt is None else str(joeynmt), runs, quick, say), json)


def show(bench: str, rows: Iterable[Row], json: bool) -> None:
    """The rows: each as it comes as JSON with the machine, or a table of all."""
    from ostinato.bench.machine import machine

    if not json:
        show_rows(list(rows))
        return
    for row in rows:
        show_json(row.to_json(bench) | {"machine": machine()})


def show_rows(rows: Sequence[Row]) -> None:
    """A table for people: medians, and how many times better ours is."""
    shown = [
        [f"{row.case}: {row.what}", row.unit, *cells(row.ours), row.peer or "-", *cells(row.theirs), plain(row.ratio)]
        for row in rows
    ]
    titles = ["medians", "unit", "ours", "CPU s", "memory", "peer", "theirs", "CPU s", "memory", "ratio"]
    used = [place for place, title in enumerate(titles) if place < 2 or any(line[place] for line in shown)]
    show_table([titles[place] for place in used], [[line[place] for place in used] for line in shown])


def cells(sample: Sample | None) -> list[str]:
    """A measurement, its processor time, its memory."""
    if sample is None:
        return ["-", "", ""]
    memory = "" if sample.memory is None else size(int(sample.memory))
    return [plain(sample.median), "" if sample.cpu is None else plain(sample.cpu), memory]


def plain(number: float | None) -> str:
    """Three digits that count, or whole thousands."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
