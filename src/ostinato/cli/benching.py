"""Commands that measure how fast we are: bench."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from ostinato.bench.ngram import CaseName
from ostinato.cli.app import LISTS
from ostinato.cli.talk import say, show_json, show_table, size

if TYPE_CHECKING:
    from ostinato.bench.measure import Row, Sample

HELP = """
Measure speed, memory and size beside the programs that people use today.

**Examples**

```
ostinato bench ngram speed.txt speed.heldout.txt --case arpa score
ostinato bench ngram speed.txt speed.heldout.txt --kenlm ~/.cache/ostinato-kenlm/bin --kenlm-python python3
```
"""

bench_app = App(name="bench", help=HELP, help_format="markdown", default_parameter=LISTS)


@bench_app.command
def ngram(
    text: Path,
    heldout: Path,
    /,
    *,
    case: tuple[CaseName, ...] = (),
    kenlm: Path | None = None,
    kenlm_python: Path | None = None,
    runs: Annotated[int, Parameter(validator=Number(gte=1))] = 5,
    scratch: Path | None = None,
    json: bool = False,
) -> None:
    """Measure n-gram models beside KenLM: whole processes by turns, medians of several runs.

    What is better than KenLM's has a ratio above 1. Without --kenlm ours alone is measured.

    **Examples**

    ```
    ostinato bench ngram speed.txt speed.heldout.txt --case arpa score
    ostinato bench ngram speed.txt speed.heldout.txt --kenlm ~/.cache/ostinato-kenlm/bin --kenlm-python python3
    ```

    Parameters
    ----------
    text:
        The text that models are made of, a sentence a line, cut at blanks.
    heldout:
        The text that they score.
    case:
        What to measure; everything if left out.
    kenlm:
        A folder with KenLM's lmplz and build_binary; bench/kenlm_build.py makes one.
    kenlm_python:
        A Python interpreter that can import kenlm, needed for score, step, next and open.
    runs:
        How often each side runs, after a run that does not count.
    scratch:
        Where scratch files go, which are removed; the system's temporary folder if left out.
    json:
        Print one JSON object with every run.
    """
    from ostinato.bench.ngram import machine, run
    from ostinato.bench.ngram_sides import KenLM
    from ostinato.core.errors import ConfigError

    if kenlm_python and not kenlm:
        raise ConfigError("--kenlm-python needs --kenlm, the folder of the programs")
    if not kenlm:
        say("no --kenlm: ours alone is measured")
    elif not kenlm_python:
        say("no --kenlm-python: score, step, next and open measure ours alone")
    rows = list(run(text, heldout, case, KenLM(kenlm, kenlm_python) if kenlm else None, runs, scratch, say))
    if json:
        show_json({"machine": machine(), "rows": [row.to_json() for row in rows]})
    else:
        show_rows(rows)


def show_rows(rows: Sequence[Row]) -> None:
    """A table for people: medians, and how many times better ours is."""
    shown = [
        [f"{row.case}: {row.what}", row.unit, *cells(row.ours), *cells(row.theirs), plain(row.ratio)] for row in rows
    ]
    show_table(["medians", "unit", "ours", "CPU s", "memory", "KenLM", "CPU s", "memory", "ratio"], shown)


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
