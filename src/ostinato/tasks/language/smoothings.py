"""Every smoothing at every order on one text: counted once, each scored on the same held-out texts."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ostinato.core.errors import ConfigError
from ostinato.core.progress import Progress
from ostinato.core.score import Score
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.table import BackoffTable
from ostinato.tasks.language.evaluate import evaluate_stream
from ostinato.tasks.language.ngrams import Counted, Estimate, counted, lower_order
from ostinato.text.stream import TokenStream, encode_files

TUNED = ("additive", "jelinek-mercer")
"""Smoothings that choose their numbers on the validation text."""


@dataclass(frozen=True)
class Row:
    """One smoothing at one order.

    valid, test: its scores; test is None without a test text. tuned: whether it chose numbers on the validation
    text. normalised: whether its numbers are probabilities, so that the perplexity is one. ngrams: of all orders.
    seconds: what smoothing took, counting aside.
    """

    smoothing: str
    order: int
    valid: Score
    test: Score | None
    tuned: bool
    normalised: bool
    ngrams: int
    seconds: float
    notes: tuple[str, ...]

    def on(self, part: str) -> Score:
        """The score on the text of that name, `valid` or `test`."""
        score = self.valid if part == "valid" else self.test
        assert score is not None, f"there is no {part} text"
        return score

    def to_json(self) -> dict[str, Any]:
        """Plain values: `smoothing`, `order`, `valid`, `test`, `tuned`, `normalised`, `ngrams`, `seconds`, `notes`."""
        return {
            "smoothing": self.smoothing,
            "order": self.order,
            "valid": self.valid.to_json(),
            "test": None if self.test is None else self.test.to_json(),
            "tuned": self.tuned,
            "normalised": self.normalised,
            "ngrams": self.ngrams,
            "seconds": self.seconds,
            "notes": list(self.notes),
        }


def compare_smoothings(
    wanted: Estimate, valid: str, test: str | None, orders: Sequence[int], names: Sequence[str] = ()
) -> list[Row]:
    """The scores of smoothings (all if none is named) at some orders, trained on the texts or counts of `wanted`.

    wanted.order and wanted.smoothing are not looked at. Each line is read on its own, `</s>` is counted and
    unknown words are ordinary ones. Raises ConfigError for names or orders that cannot be, and as `counted` does.
    """
    chosen = list(names) or list(smoothings)
    if not orders or min(orders) < 1:
        raise ConfigError(f"--orders {' '.join(map(str, orders)) or 'none'}: give orders of 1 or more")
    for name in chosen:
        assert smoothings[name]
    replace(wanted, order=max(orders)).check()
    with tempfile.TemporaryDirectory(prefix="ostinato-") as folder:
        part = counted(replace(wanted, order=max(orders)), Path(folder))
        streams = [encoded(wanted, part, path) for path in (valid, test) if path is not None]
        rows: list[Row] = []
        for order in sorted(set(orders)):
            cut = Counted(lower_order(part.counts, order), part.label)
            for name in chosen:
                share = len(rows) / (len(chosen) * len(set(orders)))
                wanted.watch(Progress("smoothing", len(rows) * part.counts.tokens, share, f"{name}, order {order}"))
                rows.append(row_of(wanted, name, cut, streams))
    return rows


def encoded(wanted: Estimate, part: Counted, path: str) -> TokenStream:
    """A held-out text as ids."""
    label = part.label
    return encode_files([path], label.pipeline, label.vocabulary, None, wanted.watch, wanted.data.empty_lines)


def row_of(wanted: Estimate, name: str, part: Counted, streams: Sequence[TokenStream]) -> Row:
    """Smooth and score."""
    began = time.perf_counter()
    table = smoothings[name]().fit(part.counts, streams[0].ids)
    spent = time.perf_counter() - began
    scores = [scored(table, part, stream, wanted.threads) for stream in streams]
    test = scores[1] if len(scores) > 1 else None
    ngrams = sum(table.ngrams)
    described = name in TUNED, table.normalised, ngrams, spent, table.notes
    return Row(name, part.counts.order, scores[0], test, *described)


def scored(table: BackoffTable, part: Counted, stream: TokenStream, threads: int | None) -> Score:
    """The score of a table on a text, each line on its own."""
    model = NGramModel(table, part.label.vocabulary)
    return evaluate_stream(model, stream, part.label.pipeline, "sentence", threads=threads)


def best_of(rows: Sequence[Row], part: str) -> Row | None:
    """The row with the lowest perplexity on that text, of those that give probabilities; None if all are infinite."""
    proper = [row for row in rows if row.normalised and math.isfinite(row.on(part).nats)]
    return min(proper, key=lambda row: row.on(part).nats, default=None)
