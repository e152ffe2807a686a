"""Precision, recall and F1 of spans: entities and chunks from tags, words from where they are cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ostinato.core.errors import DataError, ShapeError
from ostinato.core.score import signature
from ostinato.tasks.metrics.labels import unknown_labels
from ostinato.tasks.metrics.measure import Agreement, Measure, agreements, mean_f1, most_common, together
from ostinato.text.schemes import Scheme, Span, spans, strange_tags


@dataclass(frozen=True)
class SpanScore(Measure):
    """How well spans were found: right is one with the same words and the same label.

    count: spans in the reference. labels: one agreement each. tokens: words they lie in. unknown: tags of the
    reference that the model could not have answered; strange: tags, of either side, that the scheme does not have
    and which therefore stand outside; each with how often it came.
    """

    labels: tuple[Agreement, ...]
    tokens: int
    unknown: tuple[tuple[str, int], ...] = ()
    strange: tuple[tuple[str, int], ...] = ()

    shown: ClassVar = ("precision", "recall", "f1", "macro_f1")

    @property
    def overall(self) -> Agreement:
        """All labels together."""
        return together(self.labels)

    @property
    def precision(self) -> float:
        """The share of the spans found that is right (micro average)."""
        return self.overall.precision

    @property
    def recall(self) -> float:
        """The share of the reference's spans that was found (micro average)."""
        return self.overall.recall

    @property
    def f1(self) -> float:
        """The harmonic mean of the two (micro average)."""
        return self.overall.f1

    @property
    def macro_f1(self) -> float:
        """The mean F1 over labels, each counted alike."""
        return mean_f1(self.labels)

    def to_json(self) -> dict[str, Any]:
        """The measure as plain values."""
        return super().to_json() | {"labels": [part.to_json() for part in self.labels]}

    def __str__(self) -> str:
        rates = f"{100 * self.f1:.2f} F1 ({100 * self.precision:.2f} precision, {100 * self.recall:.2f} recall)"
        return f"{rates} of {self.count:,} spans [{self.signature}]"


def span_score(
    reference: Sequence[Sequence[str]],
    answers: Sequence[Sequence[str]],
    scheme: Scheme,
    strict: bool = False,
    known: Collection[str] | None = None,
    **facts: object,
) -> SpanScore:
    """How well the spans of `answers` agree with those of `reference`, sentences of tags both.

    strict: only well-formed spans count; else ill-formed tags are read as conlleval and seqeval's default do.
    known: the tags that the model has. facts: for the signature, first the data.
    Raises ShapeError if sentences differ in number or length, ConfigError for the scheme "none".
    """
    _check(reference, answers, "tags")
    support, predicted, right = Counter[str](), Counter[str](), Counter[str]()
    for ours, theirs in zip(answers, reference, strict=True):
        found, wanted = set(spans(ours, scheme, strict)), set(spans(theirs, scheme, strict))
        predicted.update(span.label or "_" for span in found)
        support.update(span.label or "_" for span in wanted)
        right.update(span.label or "_" for span in found & wanted)
    flat = [tag for tags in reference for tag in tags]
    answered = (tag for tags in answers for tag in tags)
    rule = "strict" if strict else "conlleval"
    return SpanScore(
        count=support.total(),
        signature=signature(**facts, scheme=scheme, illformed=rule),
        labels=agreements(right, predicted, support),
        tokens=len(flat),
        unknown=() if known is None else unknown_labels(flat, known),
        strange=most_common(Counter(strange_tags([*flat, *answered], scheme))),
    )


@dataclass(frozen=True)
class SegmentationScore(Measure):
    """How well text was cut into words: right is a word whose both ends are.

    count: words in the reference. words: their agreement. unseen, seen: how many words of the reference were, or
    were not, new to the model, and how many of them were found; None where that is not known. labelled: the
    agreement of words whose label must be right too; None without labels.
    """

    words: Agreement
    unseen: Agreement | None = None
    seen: Agreement | None = None
    labelled: Agreement | None = None

    shown: ClassVar = ("precision", "recall", "f1")

    @property
    def precision(self) -> float:
        """The share of the words cut that is right."""
        return self.words.precision

    @property
    def recall(self) -> float:
        """The share of the reference's words that was cut."""
        return self.words.recall

    @property
    def f1(self) -> float:
        """The harmonic mean of the two."""
        return self.words.f1

    def to_json(self) -> dict[str, Any]:
        """The measure as plain values; of seen and unseen words the recall alone has a meaning."""
        parts = {name: getattr(self, name) for name in ("words", "labelled")}
        recalls = {f"{name}_recall": part.recall for name in ("seen", "unseen") if (part := getattr(self, name))}
        return super().to_json() | {name: part and part.to_json() for name, part in parts.items()} | recalls

    def __str__(self) -> str:
        more = f", {100 * self.unseen.recall:.2f} recall of {self.unseen.support:,} unseen" if self.unseen else ""
        joint = f", {100 * self.labelled.f1:.2f} F1 with labels" if self.labelled else ""
        return f"{100 * self.f1:.2f} F1{joint}{more} ({self.count:,} words) [{self.signature}]"


def segmentation_score(
    reference: Sequence[Sequence[str]],
    answers: Sequence[Sequence[str]],
    labels: tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]] | None = None,
    known: Collection[str] | None = None,
    **facts: object,
) -> SegmentationScore:
    """How well the words of `answers` agree with those of `reference`, sentences of words both.

    labels: those of the words of the reference and of the answers. known: words that the model saw in training.
    facts: for the signature, first the data.
    Raises ShapeError if there are not as many sentences, or labels as words; DataError if their characters differ.
    Source: [Sproat2003] (recall of unseen words too).
    """
    if len(reference) != len(answers):
        raise ShapeError(f"{len(reference):,} sentences in the reference, but {len(answers):,} answers")
    given = labels or ([()] * len(reference), [()] * len(answers))
    plain, joint, seen, unseen = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for number, (theirs, ours) in enumerate(zip(reference, answers, strict=True), 1):
        if "".join(theirs) != "".join(ours):
            raise DataError(f"sentence {number}: {''.join(ours)!r} was cut, but the reference is {''.join(theirs)!r}")
        wanted = set(_cuts(theirs, given[0][number - 1], number))
        found = set(_cuts(ours, given[1][number - 1], number))
        _count(joint, found, wanted)
        ends = {span[:2] for span in found}
        _count(plain, ends, {span[:2] for span in wanted})
        for word, span in zip(theirs, _cuts(theirs, (), number), strict=True):
            part = seen if known is None or word in known else unseen
            part.update(support=1, right=span[:2] in ends)
    return SegmentationScore(
        count=plain["support"],
        signature=signature(**facts, unit="word"),
        words=_agreement("words", plain),
        unseen=None if known is None else _agreement("unseen", unseen),
        seen=None if known is None else _agreement("seen", seen),
        labelled=None if labels is None else _agreement("labelled", joint),
    )


def _cuts(words: Sequence[str], labels: Sequence[str], number: int) -> Iterator[Span]:
    """Where words begin and end, in characters."""
    if labels and len(labels) != len(words):
        raise ShapeError(f"sentence {number}: {len(words)} words, but {len(labels)} labels")
    at = 0
    for place, word in enumerate(words):
        yield Span(at, at + len(word), labels[place] if labels else "")
        at += len(word)


def _count(counts: Counter[str], found: set[Any], wanted: set[Any]) -> None:
    counts.update(predicted=len(found), support=len(wanted), right=len(found & wanted))


def _agreement(label: str, counts: Counter[str]) -> Agreement:
    return Agreement(label, counts["right"], counts["predicted"], counts["support"])


def _check(reference: Sequence[Sequence[str]], answers: Sequence[Sequence[str]], what: str) -> None:
    if len(reference) != len(answers):
        raise ShapeError(f"{len(reference):,} sentences in the reference, but {len(answers):,} answers")
    for number, (theirs, ours) in enumerate(zip(reference, answers, strict=True), 1):
        if len(theirs) != len(ours):
            raise ShapeError(f"sentence {number}: {len(theirs)} {what} in the reference, but {len(ours)} in the answer")
