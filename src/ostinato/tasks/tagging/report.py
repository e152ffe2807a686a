"""How good a tagger is: accuracy, spans or words found, by label, by seen and unseen words, and the worst sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ostinato.tasks.metrics.labels import LabelScore, label_score
from ostinato.tasks.metrics.measure import Agreement
from ostinato.tasks.metrics.spans import SegmentationScore, SpanScore, segmentation_score, span_score
from ostinato.tasks.tables import LENGTHS, by_class, percent
from ostinato.tasks.tagging.answers import Answer
from ostinato.tasks.tagging.data import Corpus, data_name
from ostinato.tasks.tagging.reading import Tagged
from ostinato.tasks.task import Report, Table
from ostinato.text.schemes import spans
from ostinato.text.segmented import words_of

MATRIX = 12
"""Labels up to which confusions are a matrix; of more only the most frequent ones are listed."""

MISTAKES = 1000
"""Sentences with mistakes that are kept, the worst first."""

Tags: TypeAlias = Sequence[str]


@dataclass(frozen=True)
class Judged:
    """Sentences with what was answered: labels in the scheme of the data, and their log-prob (nats) a sentence."""

    corpus: Corpus
    sentences: Sequence[Tagged]
    answers: Sequence[Tags]
    log_probs: Sequence[float]

    @classmethod
    def of(cls, corpus: Corpus, sentences: Sequence[Tagged], answers: Sequence[Answer]) -> Judged:
        """Of a network's answers."""
        labels = [corpus.labels.answers(answer.labels.tolist()) for answer in answers]
        return cls(corpus, sentences, labels, [answer.log_prob for answer in answers])

    @property
    def reference(self) -> list[Tags]:
        """The right labels."""
        return [sentence.labels for sentence in self.sentences]


def judge(judged: Judged, name: str) -> Report:
    """The report on sentences whose right labels are known."""
    data = data_name(name, judged.sentences)
    if judged.corpus.source.unit == "character":
        return _of_words(judged, data)
    return _of_labels(judged, data) if judged.corpus.labels.scheme == "none" else _of_spans(judged, data)


def main_value(judged: Judged) -> float:
    """What a run is judged by, in percent: accuracy, F1 of spans, or F1 of words (with their labels, if they have)."""
    corpus = judged.corpus
    if corpus.source.unit == "character":
        score = _segmentation(judged)
        return 100 * (score.labelled or score.words).f1
    if corpus.labels.scheme == "none":
        pairs = [
            (one, other)
            for right, found in zip(judged.reference, judged.answers, strict=True)
            for one, other in zip(right, found, strict=True)
        ]
        return 100 * sum(one == other for one, other in pairs) / max(1, len(pairs))
    return 100 * span_score(judged.reference, judged.answers, corpus.labels.scheme).f1


def _of_labels(judged: Judged, data: str) -> Report:
    score = _tokens(judged, data)
    measures = {"accuracy": 100 * score.accuracy, "macro_f1": 100 * score.macro_f1}
    tables = [_by_label(score.labels, "words"), _confusions(score), _seen_labels(judged), *_common(judged, score)]
    return Report(
        judged.corpus.measure,
        100 * score.accuracy,
        score.count,
        score.signature,
        measures | _others(judged, score.unknown),
        tuple(tables),
        _mistakes(judged),
    )


def _of_spans(judged: Judged, data: str) -> Report:
    scheme, reference = judged.corpus.labels.scheme, judged.reference
    known = judged.corpus.labels.known
    lenient = span_score(reference, judged.answers, scheme, known=known, data=data)
    strict = span_score(reference, judged.answers, scheme, strict=True, known=known, data=data)
    tokens = _tokens(judged, data)
    measures = {"f1": 100 * lenient.f1, "precision": 100 * lenient.precision, "recall": 100 * lenient.recall}
    measures |= {"macro_f1": 100 * lenient.macro_f1, "accuracy": 100 * tokens.accuracy}
    measures |= {f"strict_{name}": 100 * getattr(strict, name) for name in ("f1", "precision", "recall")}
    tables = [_by_label(lenient.labels, "spans"), _readings(lenient, strict), _seen_spans(judged)]
    return Report(
        judged.corpus.measure,
        100 * lenient.f1,
        lenient.count,
        lenient.signature,
        measures | _others(judged, lenient.unknown),
        (*tables, _confusions(tokens), *_common(judged, tokens)),
        _mistakes(judged),
    )


def _of_words(judged: Judged, data: str) -> Report:
    score, tokens = _segmentation(judged, data), _tokens(judged, data)
    measures = {"f1": 100 * score.f1, "precision": 100 * score.precision, "recall": 100 * score.recall}
    for name, part in (("seen", score.seen), ("unseen", score.unseen)):
        measures |= {f"{name}_recall": 100 * part.recall} if part else {}
    if score.labelled is not None:
        measures |= {"labelled_f1": 100 * score.labelled.f1}
    parts = [part for part in (score.words, score.labelled) if part]
    seen = [part for part in (score.seen, score.unseen) if part]
    tables = [
        _by_label(parts, "words"),
        Table(
            "by seen and unseen words",
            ("", "recall", "words"),
            tuple((p.label, percent(p.recall), f"{p.support:,}") for p in seen),
        ),
        _confusions(tokens),
    ]
    return Report(
        judged.corpus.measure,
        100 * (score.labelled or score.words).f1,
        score.count,
        score.signature,
        measures | _others(judged, tokens.unknown),
        (*tables, *_common(judged, tokens)),
        _worst_cuts(judged),
    )


def _tokens(judged: Judged, data: str) -> LabelScore:
    right = [label for labels in judged.reference for label in labels]
    answers = [label for labels in judged.answers for label in labels]
    return label_score(right, answers, judged.corpus.labels.known, data=data)


def _segmentation(judged: Judged, data: str = "") -> SegmentationScore:
    right = [cut(sentence.words, sentence.labels) for sentence in judged.sentences]
    found = [cut(sentence.words, labels) for sentence, labels in zip(judged.sentences, judged.answers, strict=True)]
    labels = ([row[1] for row in right], [row[1] for row in found]) if judged.corpus.source.labelled else None
    known = {
        word for sentence in judged.corpus.parts.get("train", []) for word in cut(sentence.words, sentence.labels)[0]
    }
    return segmentation_score([row[0] for row in right], [row[0] for row in found], labels, known or None, data=data)


def cut(characters: Sequence[str], labels: Tags) -> tuple[list[str], list[str]]:
    """The words that labels make of characters, and the label of each: that of its first character."""
    words = words_of("".join(characters), labels)
    found, at = [], 0
    for word in words:
        found.append(labels[at].partition("-")[2])
        at += len(word)
    return words, found


def _others(judged: Judged, unknown: Sequence[tuple[str, int]]) -> dict[str, float]:
    whole = [tuple(a) == tuple(b) for a, b in zip(judged.reference, judged.answers, strict=True)]
    return {
        "unknown_labels": float(sum(times for _, times in unknown)),
        "whole_sentences": 100 * float(np.mean(whole)) if whole else 0.0,
    }


def _by_label(parts: Iterable[Agreement], things: str) -> Table:
    rows = tuple(
        (part.label, percent(part.precision), percent(part.recall), percent(part.f1), f"{part.support:,}")
        for part in parts
    )
    return Table("by label", ("label", "precision", "recall", "F1", things), rows)


def _readings(lenient: SpanScore, strict: SpanScore) -> Table:
    """Both ways to read ill-formed labels."""
    rows = tuple(
        (name, percent(score.precision), percent(score.recall), percent(score.f1), f"{score.count:,}")
        for name, score in (("as conlleval and seqeval", lenient), ("strict", strict))
    )
    return Table("by how ill-formed labels are read", ("", "precision", "recall", "F1", "spans"), rows)


def _confusions(score: LabelScore) -> Table:
    """A matrix, or of many labels the pairs that are confused."""
    names, counts = score.matrix()
    if len(names) <= MATRIX:
        shown = [tuple(f"{count:,}" if count else "" for count in row) for row in counts]
        rows = tuple((name, *row) for name, row in zip(names, shown, strict=True))
        return Table("right label (row), answer (column)", ("", *names), rows)
    listed = tuple((right, answer, f"{times:,}") for right, answer, times in score.confusion)
    return Table("confusions", ("right label", "answer", "times"), listed)


def _trained(judged: Judged) -> frozenset[str]:
    return frozenset(word for sentence in judged.corpus.parts.get("train", []) for word in sentence.words)


def _seen_labels(judged: Judged) -> Table:
    trained, counts = _trained(judged), Counter[tuple[bool, bool]]()
    for sentence, answers in zip(judged.sentences, judged.answers, strict=True):
        for word, label, answer in zip(sentence.words, sentence.labels, answers, strict=True):
            counts[word in trained, label == answer] += 1
    return _seen("accuracy", "words", counts)


def _seen_spans(judged: Judged) -> Table:
    """How many spans are found of those whose words were all seen in training, and of the others."""
    trained, scheme, counts = _trained(judged), judged.corpus.labels.scheme, Counter[tuple[bool, bool]]()
    for sentence, answers in zip(judged.sentences, judged.answers, strict=True):
        found = set(spans(answers, scheme))
        for span in spans(sentence.labels, scheme):
            counts[trained.issuperset(sentence.words[span.start : span.end]), span in found] += 1
    return _seen("recall", "spans", counts)


def _seen(measure: str, things: str, counts: Counter[tuple[bool, bool]]) -> Table:
    rows = []
    for seen, name in ((True, "seen in training"), (False, "with words unseen in training")):
        total = counts[seen, True] + counts[seen, False]
        if total:
            rows.append((name, percent(counts[seen, True] / total), f"{total:,}"))
    return Table("by seen and unseen words", ("", measure, things), tuple(rows))


def _common(judged: Judged, score: LabelScore) -> list[Table]:
    lengths = np.array([len(sentence.words) for sentence in judged.sentences], np.int64)
    right = np.array([tuple(a) == tuple(b) for a, b in zip(judged.reference, judged.answers, strict=True)], np.bool_)
    tables = [
        by_class(
            "whole sentences right, by length", f"{judged.corpus.source.unit}s", lengths, right, (0, *LENGTHS), "length"
        )
    ]
    if score.unknown:
        rows = tuple((label, f"{times:,}") for label, times in score.unknown)
        tables.append(Table("labels that training lacks (mistakes)", ("label", "times"), rows))
    return tables


def _mistakes(judged: Judged) -> tuple[dict[str, Any], ...]:
    """The sentences with the most wrong labels, the surest of equals first."""
    found = []
    for sentence, answers, log_prob in zip(judged.sentences, judged.answers, judged.log_probs, strict=True):
        wrong = [
            {"place": place, "word": word, "label": label, "answer": answer}
            for place, (word, label, answer) in enumerate(zip(sentence.words, sentence.labels, answers, strict=True), 1)
            if label != answer
        ]
        if wrong:
            told = {"where": sentence.where, "wrong": len(wrong), "of": len(answers), "log_prob": round(log_prob, 4)}
            found.append({**told, "mistakes": wrong, "text": " ".join(sentence.words)})
    return _worst(found)


def _worst_cuts(judged: Judged) -> tuple[dict[str, Any], ...]:
    """The sentences with the most characters in wrongly cut or labelled words."""
    found = []
    for sentence, answers, log_prob in zip(judged.sentences, judged.answers, judged.log_probs, strict=True):
        wrong = sum(label != answer for label, answer in zip(sentence.labels, answers, strict=True))
        if wrong:
            told = {"where": sentence.where, "wrong": wrong, "of": len(answers), "log_prob": round(log_prob, 4)}
            found.append(
                {**told, "right": shown(sentence.words, sentence.labels), "answer": shown(sentence.words, answers)}
            )
    return _worst(found)


def _worst(found: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tuple(sorted(found, key=lambda row: (-row["wrong"], -row["log_prob"]))[:MISTAKES])


def shown(characters: Sequence[str], labels: Tags) -> str:
    """Words parted by blanks, each with its label behind a low line if it has one."""
    return " ".join(f"{word}_{label}" if label else word for word, label in zip(*cut(characters, labels), strict=True))
