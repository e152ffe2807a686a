"""What a demonstration is made of: data in files, a configuration, and a few inputs to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ostinato.core.files import write_text


def as_it_is(text: str) -> str:
    """The text."""
    return text


@dataclass(frozen=True)
class Prepared:
    """A task with its configuration, whose data is on disk.

    asked: a file for `ostinato predict`. given: what a person reads of each input in it. read: what a person reads of
    an answer. beside: how good what needs no network is, by name, in the run's measure; a text names a measure of the
    report. look: what attention is drawn of, as `ostinato plot --attention` takes it.
    """

    task: str
    config: Any
    asked: str
    given: tuple[str, ...]
    read: Callable[[str], str] = as_it_is
    beside: dict[str, float | str] = field(default_factory=dict)
    look: str | None = None


def write_lines(path: Path, lines: Iterable[str]) -> str:
    """The path of a new file with these lines."""
    write_text(path, "".join(f"{line}\n" for line in lines))
    return str(path)


def write_pairs(path: Path, pairs: Sequence[tuple[str, str]]) -> str:
    """The path of a new file with a source and its target on each line, a tab between."""
    return write_lines(path, ("\t".join(pair) for pair in pairs))


def percent(right: int, of: int) -> float:
    """A share in percent; 0 of nothing."""
    return 100 * right / of if of else 0.0
