"""How good a translator is, by length, by unseen words, and where it is worst."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.tasks.metrics.edits import edit_distance
from ostinato.tasks.metrics.overlap import OverlapScore, chrf
from ostinato.tasks.tables import UNSEEN, classes
from ostinato.tasks.task import Report, Table
from ostinato.tasks.translation.data import Corpus, Pair, data_name
from ostinato.tasks.translation.measures import (
    NAMES,
    bleu_of,
    chrf_of,
    edit_values,
    edits_of,
    lowers,
    overlaps,
    token_bleu_of,
)
from ostinato.tasks.translation.options import Config
from ostinato.tasks.translation.sides import vocabulary_of, words_of

LENGTHS = (1, 9, 13, 19, 26)
"""Where each class of source lengths begins; the last has no end."""

MISTAKES = 1000
"""Answers that are kept, the worst first."""


@dataclass(frozen=True)
class Judged:
    """Pairs, what was answered, and the log-prob (nats) of each answer. asked: how, for the signature."""

    config: Config
    corpus: Corpus
    pairs: Sequence[Pair]
    answers: Sequence[str]
    log_probs: Sequence[float]
    asked: str

    def only(self, chosen: NDArray[np.bool_]) -> Judged:
        """Some of them."""
        places = np.flatnonzero(chosen).tolist()
        return replace(
            self,
            pairs=[self.pairs[place] for place in places],
            answers=[self.answers[place] for place in places],
            log_probs=[self.log_probs[place] for place in places],
        )


def judge(judged: Judged, name: str, nats: float) -> Report:
    """The report; nats: the mean loss of a target's piece."""
    facts: dict[str, object] = {"data": data_name(name, judged.pairs), "search": judged.asked}
    made = _overlap_report if overlaps(judged.config) else _edit_report
    return made(judged, facts, {"nats": nats, "perplexity": float(np.exp(min(nats, 700.0)))})


def _overlap_report(judged: Judged, facts: dict[str, object], measures: dict[str, float]) -> Report:
    config, side, pairs, answers = judged.config, judged.corpus.target, judged.pairs, judged.answers
    scores = {
        "bleu": bleu_of(config, side, pairs, answers, False, **facts),
        "bleu_lc": bleu_of(config, side, pairs, answers, True, **facts),
        "token_bleu_lc": token_bleu_of(pairs, answers, **facts),
        "chrf": chrf_of(side, pairs, answers, **facts),
    }
    main = scores["chrf" if config.measure == "chrf" else "bleu_lc" if lowers(side) else "bleu"]
    ratio = scores["bleu"].ratio or 0.0
    exact = edit_values(edits_of(side, pairs, answers))["exact"]
    values = {name: score.value for name, score in scores.items()} | {"length_ratio": ratio, "exact": exact}
    rows = tuple((name, f"{score.value:.2f}", score.signature) for name, score in scores.items())
    tables = (Table("measures", ("measure", "value", "signature"), rows), *_classes(judged, _bleu_cells))
    worst = _worst(judged, [-_sentence_chrf(judged, place) for place in range(len(pairs))])
    name = NAMES[config.measure]
    return Report(name, main.value, len(pairs), main.signature, values | measures, tables, worst)


def _edit_report(judged: Judged, facts: dict[str, object], measures: dict[str, float]) -> Report:
    config, side = judged.config, judged.corpus.target
    score = edits_of(side, judged.pairs, judged.answers, **facts)
    values = {str(name): value for name, value in edit_values(score).items()}
    said, right = (sum(map(len, texts)) for texts in (_symbols(judged), _first(judged)))
    values["length_ratio"] = said / max(1, right)
    rows = tuple((name, f"{value:.2f}") for name, value in values.items())
    tables = (
        Table(f"measures, symbols are {side.symbol}s", ("measure", "value"), rows),
        *_classes(judged, _edit_cells),
    )
    worst = _worst(judged, [float(_edits(judged, place)) for place in range(len(judged.pairs))])
    main = values[config.measure]
    return Report(NAMES[config.measure], main, score.count, score.signature, values | measures, tables, worst)


Cells = tuple[tuple[str, ...], Callable[[Judged], tuple[str, ...]]]
"""Names of columns, and what stands in them of a class."""


def _bleu_row(judged: Judged) -> tuple[str, ...]:
    score: OverlapScore = bleu_of(
        judged.config, judged.corpus.target, judged.pairs, judged.answers, lowers(judged.corpus.target)
    )
    return f"{score.value:.2f}", f"{score.ratio or 0.0:.3f}"


def _edit_row(judged: Judged) -> tuple[str, ...]:
    values = edit_values(edits_of(judged.corpus.target, judged.pairs, judged.answers))
    return f"{values['exact']:.2f}", f"{values['per']:.2f}"


_bleu_cells: Cells = (("BLEU", "length ratio"), _bleu_row)
_edit_cells: Cells = (("% exact", "% edits"), _edit_row)


def _classes(judged: Judged, cells: Cells) -> tuple[Table, ...]:
    """By source length, and by source words that training lacks where a source is words."""
    side, pairs = judged.corpus.source, judged.pairs
    lengths = np.array([len(side.symbols(pair.source)) for pair in pairs], np.int64)
    title = f"by source length, in {side.symbol}s"
    tables = [replace(by_class(title, f"{side.symbol}s", judged, lengths, LENGTHS, cells), by="length")]
    if side.symbol == "word":
        trained = vocabulary_of((pair.source for pair in judged.corpus.parts.get("train", [])), side)
        texts = [words_of(side.pipeline.normalise(pair.source)) for pair in pairs]
        unseen = np.array([sum(word not in trained for word in words) for words in texts], np.int64)
        title = "by source words that training lacks"
        tables.append(by_class(title, "unseen words", judged, unseen, UNSEEN, cells))
    return tuple(tables)


def by_class(
    title: str, named: str, judged: Judged, values: NDArray[np.int64], begins: Sequence[int], cells: Cells
) -> Table:
    """A row for each class of values [N] that is not empty."""
    columns, row = cells
    rows = [(name, f"{inside.sum():,}", *row(judged.only(inside))) for name, inside in classes(values, begins)]
    return Table(title, (named, "sources", *columns), tuple(rows))


def _symbols(judged: Judged) -> list[list[str]]:
    return [judged.corpus.target.symbols(answer) for answer in judged.answers]


def _first(judged: Judged) -> list[list[str]]:
    return [judged.corpus.target.symbols(pair.targets[0]) for pair in judged.pairs]


def _sentence_chrf(judged: Judged, place: int) -> float:
    return chrf([judged.pairs[place].targets], [judged.answers[place]]).value


def _edits(judged: Judged, place: int) -> int:
    side, answer = judged.corpus.target, judged.answers[place]
    return min(edit_distance(side.symbols(target), side.symbols(answer)) for target in judged.pairs[place].targets)


def _worst(judged: Judged, badness: Sequence[float]) -> tuple[dict[str, Any], ...]:
    """Answers that are no target, the worst first, the surest of equals."""
    order = sorted(range(len(badness)), key=lambda place: (-badness[place], -judged.log_probs[place]))
    found = []
    for place in order:
        pair, answer = judged.pairs[place], judged.answers[place]
        if answer in pair.targets or judged.corpus.target.symbols(answer) in map(
            judged.corpus.target.symbols, pair.targets
        ):
            continue
        told = {"where": pair.where, "source": pair.source, "targets": pair.targets, "answer": answer}
        score = {"chrf": round(-badness[place], 2)} if overlaps(judged.config) else {"edits": int(badness[place])}
        found.append({**told, **score, "log_prob": round(judged.log_probs[place], 4)})
        if len(found) == MISTAKES:
            break
    return tuple(found)
