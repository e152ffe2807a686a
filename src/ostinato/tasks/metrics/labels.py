"""Accuracy, F1 and confusion of labels: of sentences, or of all words of a text, flat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ostinato.core.errors import ShapeError
from ostinato.core.score import signature
from ostinato.tasks.metrics.measure import Agreement, Measure, agreements, mean_f1, most_common


@dataclass(frozen=True)
class LabelScore(Measure):
    """How well single labels were predicted.

    right: of `count`. labels: one agreement each. confusion: (reference, answer, how often) of all wrong answers,
    most often first. unknown: reference labels that the model could not have answered, and how often; they count
    as mistakes.
    """

    right: int
    labels: tuple[Agreement, ...]
    confusion: tuple[tuple[str, str, int], ...]
    unknown: tuple[tuple[str, int], ...] = ()

    shown: ClassVar = ("accuracy", "macro_f1", "micro_f1")

    @property
    def accuracy(self) -> float:
        """The share of right labels; 0 of nothing."""
        return self.right / self.count if self.count else 0.0

    @property
    def macro_f1(self) -> float:
        """The mean F1 over all labels in the reference or the answers, each counted alike."""
        return mean_f1(self.labels)

    @property
    def micro_f1(self) -> float:
        """F1 of all labels' counts together; with one label a thing it equals the accuracy."""
        return self.accuracy

    def matrix(self) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
        """The labels, and how often each (row) was answered with each (column)."""
        names = tuple(part.label for part in self.labels)
        wrong = {(reference, answer): times for reference, answer, times in self.confusion}
        right = {part.label: part.right for part in self.labels}
        return names, tuple(tuple(right[a] if a == b else wrong.get((a, b), 0) for b in names) for a in names)

    def to_json(self) -> dict[str, Any]:
        """The measure as plain values."""
        return super().to_json() | {"labels": [part.to_json() for part in self.labels]}

    def __str__(self) -> str:
        rates = f"{100 * self.accuracy:.2f} accuracy, {100 * self.macro_f1:.2f} macro F1"
        return f"{rates} ({self.count:,} labels) [{self.signature}]"


def label_score(
    reference: Sequence[str], answers: Sequence[str], known: Collection[str] | None = None, **facts: object
) -> LabelScore:
    """How well `answers` agree with `reference`, one label each.

    known: the labels that the model has; others in the reference are counted and named. facts: for the signature,
    first the data.
    Raises ShapeError if there are not as many of both.
    """
    if len(reference) != len(answers):
        raise ShapeError(f"{len(reference):,} labels in the reference, but {len(answers):,} answers")
    pairs = Counter(zip(reference, answers, strict=True))
    right = Counter({one: times for (one, other), times in pairs.items() if one == other})
    wrong = [(one, other, times) for (one, other), times in pairs.items() if one != other]
    return LabelScore(
        count=len(reference),
        signature=signature(**facts, average="labels-in-either"),
        right=right.total(),
        labels=agreements(right, Counter(answers), Counter(reference)),
        confusion=tuple(sorted(wrong, key=lambda row: (-row[2], row[0], row[1]))),
        unknown=() if known is None else unknown_labels(reference, known),
    )


def unknown_labels(reference: Iterable[str], known: Collection[str]) -> tuple[tuple[str, int], ...]:
    """The labels that are not known and how often each comes, most often first."""
    names = known if isinstance(known, (set, frozenset, dict)) else set(known)
    return most_common(Counter(label for label in reference if label not in names))


def say_unknown(unknown: Sequence[tuple[str, int]]) -> str:
    """What to tell of labels that the model does not have, "" if there are none."""
    if not unknown:
        return ""
    named = ", ".join(f"{label!r} ({times:,})" for label, times in unknown[:5])
    more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
    times = sum(times for _, times in unknown)
    return f"{times:,} labels of the reference are unknown to the model, and so count as mistakes: {named}{more}"
