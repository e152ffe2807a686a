"""How the command line talks: data on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ostinato.core.progress import Progress, Watch, unwatched

if TYPE_CHECKING:
    from ostinato.runs import RunDir

PLAIN_SECONDS = 10.0  # between progress lines where standard error is not a terminal
PATIENCE = 8.0  # seconds without a sign after which it is said what may take so long
THRESHOLD_MISSED = 3  # exit code


@dataclass
class Loudness:
    """0 quiet, 1 normal, 2 verbose, 3 tracebacks too."""

    level: int = 1


loudness = Loudness()


def say(text: str, level: int = 1) -> None:
    """A remark for a person, on standard error."""
    if loudness.level >= level:
        print(text, file=sys.stderr, flush=True)


def tell_unfinished(run: RunDir) -> None:
    """Say that a run whose model is about to be used was not trained to its end."""
    from ostinato.core.errors import FormatError

    with suppress(FormatError):  # a damaged log is no reason not to use the model
        if not run.path.is_dir() or not run.events() or run.finished:
            return
        reason, step = run.ending()
        if reason == "diverged":
            say(f"{run}: training diverged at step {step:,}; this is its best model before that")
        else:
            say(f"this run is unfinished (step {step:,}); `ostinato resume {run}` trains on")


def show_json(content: Any) -> None:
    """One object on one line of standard output. Infinite and missing numbers become null."""
    print(json.dumps(_finite(content), ensure_ascii=False, allow_nan=False), flush=True)


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and content not in (float("inf"), float("-inf")) and content == content:
        return content
    return None if isinstance(content, float) else content


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """A table for people on standard output; the first column is text, the others are numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console()
    width = max(console.width, 120) if not console.is_terminal else None
    Console(width=width, markup=False, emoji=False).print(table)


def count(number: float | None, suffix: str = "") -> str:
    """A number with thousands marked, a dash for none."""
    return "-" if number is None or number != number else f"{number:,.0f}{suffix}"


def size(number: int) -> str:
    """Bytes in the unit a person would use (1 kB = 1000 bytes)."""
    value = float(number)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def duration(seconds: float | None) -> str:
    """Seconds as a person would say them."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"


@contextmanager
def watching() -> Iterator[Watch]:
    """A watch that draws: a bar on a terminal, a plain line every few seconds elsewhere, nothing when quiet."""
    if loudness.level < 1:
        yield unwatched
        return
    first = threading.Timer(
        PATIENCE, say, ["(what runs for the first time on a machine is compiled: up to half a minute)"]
    )
    first.daemon = True
    first.start()

    def seen(watch: Watch) -> Watch:
        def look(progress: Progress) -> None:
            first.cancel()
            watch(progress)

        return look

    try:
        if sys.stderr.isatty():
            with _bars() as watch:
                yield seen(watch)
        else:
            yield seen(_lines())
    finally:
        first.cancel()


@contextmanager
def _bars() -> Iterator[Watch]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[speed]:>14}"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}", style="dim"),
    )
    known: dict[str, tuple[TaskID, float, int]] = {}
    with Bars(*columns, console=Console(stderr=True), refresh_per_second=5) as bars:

        def watch(progress: Progress) -> None:
            now = time.monotonic()
            if progress.label not in known or progress.tokens < known[progress.label][2]:
                task = bars.add_task(progress.label, total=1.0, speed="", note="")
                known[progress.label] = (task, now, progress.tokens)
            task, began, first = known[progress.label]
            speed = (progress.tokens - first) / max(1e-9, now - began)
            total = None if progress.share is None else 1.0
            told = f"{speed:,.0f} tok/s" if progress.tokens else ""
            bars.update(task, total=total, completed=progress.share or 0.0, speed=told, note=progress.note)

        yield watch


def _lines() -> Watch:
    label, at, tokens = "", time.monotonic(), 0

    def watch(progress: Progress) -> None:
        nonlocal label, at, tokens
        now = time.monotonic()
        if progress.label != label or progress.tokens < tokens:
            label, at, tokens = progress.label, now, progress.tokens
        if now - at < PLAIN_SECONDS:
            return
        speed = (progress.tokens - tokens) / (now - at)
        share = "" if progress.share is None else f"{progress.share:.0%}"
        done = f"{progress.tokens:,} tokens, {speed:,.0f} tokens/s" if progress.tokens else ""
        say(f"{progress.label}: " + ", ".join(filter(None, (share, done, progress.note))))
        at, tokens = now, progress.tokens

    return watch
