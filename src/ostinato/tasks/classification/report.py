"""How good a classifier is: accuracy, F1, confusions, and by what an example is like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.vocabulary import LogProbs
from ostinato.tasks.classification.data import Corpus, Labelled, data_name
from ostinato.tasks.metrics.labels import LabelScore, label_score
from ostinato.tasks.tables import LENGTHS, UNSEEN, by_class, percent
from ostinato.tasks.task import Report, Table

MATRIX = 16
"""Labels up to which confusions are a matrix; of more only the most frequent ones are listed."""

MISTAKES = 1000
"""Mistakes that are kept, the surest first."""


def judge(corpus: Corpus, examples: Sequence[Labelled], log_probs: LogProbs, name: str) -> Report:
    """The report on examples of which the model said log_probs [N, labels]."""
    labels = [example.label for example in examples]
    best = log_probs.argmax(axis=1)
    answers = [corpus.labels[place] for place in best.tolist()]
    facts = {"data": data_name(name, examples), "labels": len(corpus.labels)}
    text = {"vocabulary": corpus.vocabulary.fingerprint, "text": corpus.pipeline.signature}
    score = label_score(labels, answers, corpus.labels, **facts, **text)
    numbers = corpus.numbers(examples)
    known = numbers >= 0
    measures = {
        "accuracy": 100 * score.accuracy,
        "macro_f1": 100 * score.macro_f1,
        "unknown_labels": float((~known).sum()),
    }
    if known.any():
        measures["nats"] = float(-log_probs[known, numbers[known]].mean())
    right = best == numbers
    mistakes = _mistakes(corpus, examples, log_probs, right)
    tables = _tables(corpus, examples, score, right)
    return Report("accuracy", 100 * score.accuracy, score.count, score.signature, measures, tables, mistakes)


def _tables(
    corpus: Corpus, examples: Sequence[Labelled], score: LabelScore, right: NDArray[np.bool_]
) -> tuple[Table, ...]:
    pieces = [corpus.pieces(example.text) for example in examples]
    trained = {piece for example in corpus.parts["train"] for piece in corpus.pieces(example.text)}
    lengths = np.array([len(found) for found in pieces], np.int64)
    unseen = np.array([sum(piece not in trained for piece in found) for found in pieces], np.int64)
    unit = f"{corpus.pipeline.unit}s"
    shown = (("accuracy", percent(score.accuracy)), ("macro F1", percent(score.macro_f1)))
    tables = [
        Table("measures", ("measure", "percent"), shown),
        _by_label(score),
        _confusions(score),
        by_class("by length", unit, lengths, right, (0, *LENGTHS), by="length"),
        by_class(f"by {unit} that training lacks", f"unseen {unit}", unseen, right, UNSEEN),
    ]
    if score.unknown:
        rows = tuple((label, f"{times:,}") for label, times in score.unknown)
        tables.append(Table("labels that training lacks (mistakes)", ("label", "examples"), rows))
    return tuple(tables)


def _by_label(score: LabelScore) -> Table:
    rows = tuple(
        (part.label, percent(part.precision), percent(part.recall), percent(part.f1), f"{part.support:,}")
        for part in score.labels
    )
    return Table("by label", ("label", "precision", "recall", "F1", "examples"), rows)


def _confusions(score: LabelScore) -> Table:
    """A matrix, or of many labels the pairs that are confused."""
    names, counts = score.matrix()
    if len(names) <= MATRIX:
        shown = [tuple(f"{count:,}" if count else "" for count in row) for row in counts]
        rows = tuple((name, *row) for name, row in zip(names, shown, strict=True))
        return Table("right label (row), answer (column)", ("", *names), rows)
    listed = tuple((right, answer, f"{times:,}") for right, answer, times in score.confusion)
    return Table("confusions", ("right label", "answer", "examples"), listed)


def _mistakes(
    corpus: Corpus, examples: Sequence[Labelled], log_probs: LogProbs, right: NDArray[np.bool_]
) -> tuple[dict[str, Any], ...]:
    """The wrong answers, the surest first, with the log-probs (nats) of answer and label."""
    sure, numbers = log_probs.max(axis=1), corpus.numbers(examples)
    wrong = np.flatnonzero(~right)
    found = []
    for place in wrong[np.argsort(-sure[wrong], kind="stable")][:MISTAKES].tolist():
        number = numbers[place]
        found.append(
            {
                **asdict(examples[place]),
                "answer": corpus.labels[int(log_probs[place].argmax())],
                "log_prob": round(float(sure[place]), 4),
                "log_prob_of_label": round(float(log_probs[place, number]), 4) if number >= 0 else None,
            }
        )
    return tuple(found)
