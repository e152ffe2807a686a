"""BLEU and chrF by sacreBLEU, which says in its signature what was measured; two with other signatures differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from ostinato.core.errors import ConfigError, DataError, ShapeError
from ostinato.core.score import signature
from ostinato.tasks.metrics.measure import Measure

Tokenise: TypeAlias = Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"]
"""How sacreBLEU cuts text: 13a for languages with blanks, zh for Chinese, none for what has been cut already."""


@dataclass(frozen=True)
class OverlapScore(Measure):
    """A measure of overlapping pieces, 0 to 100.

    count: sentences. precisions: of BLEU's n-grams of 1 to 4, in percent. ratio: the length of the answers over that
    of the references, and brevity what short answers cost; all None for chrF.
    """

    name: str
    value: float
    precisions: tuple[float, ...] | None = None
    ratio: float | None = None
    brevity: float | None = None

    shown: ClassVar = ()

    def __str__(self) -> str:
        ratio = "" if self.ratio is None else f", length ratio {self.ratio:.3f}"
        return f"{self.value:.2f} {self.name}{ratio} ({self.count:,} sentences) [{self.signature}]"


def bleu(
    references: Sequence[Sequence[str]],
    answers: Sequence[str],
    tokenise: Tokenise = "13a",
    lowercase: bool = False,
    **facts: object,
) -> OverlapScore:
    """BLEU of answers against one or more references each, all as text.

    tokenise: "none" takes text that has been cut into words already, blanks between: tokenised BLEU, which depends
    on who cut it; else both sides must be text as it is written. facts: for the signature, first the data.
    Raises ConfigError if sacreBLEU is not installed, ShapeError and DataError for answers that do not fit.
    Source: [Papineni2002]; [Post2018].
    """
    metrics = _sacrebleu()
    streams = _streams(references, answers)
    try:
        metric = metrics.BLEU(tokenize=tokenise, lowercase=lowercase, force=tokenise == "none")
    except (ImportError, RuntimeError) as fault:
        raise ConfigError(f"sacreBLEU cannot cut text with {tokenise!r}: {' '.join(str(fault).split())}") from None
    found = metric.corpus_score(list(answers), streams)
    return OverlapScore(
        count=len(answers),
        signature=_signature(facts, metric),
        name="BLEU",
        value=found.score,
        precisions=tuple(found.precisions),
        ratio=found.ratio,
        brevity=found.bp,
    )


def tokenised_bleu(
    references: Sequence[Sequence[str]], answers: Sequence[str], lowercase: bool = True, **facts: object
) -> OverlapScore:
    """BLEU of texts cut into words already, lower-cased unless told otherwise: what older papers print."""
    return bleu(references, answers, "none", lowercase, **facts)


def chrf(
    references: Sequence[Sequence[str]], answers: Sequence[str], word_order: int = 0, **facts: object
) -> OverlapScore:
    """chrF of answers against one or more references each: F2 of character n-grams up to 6, blanks left out.

    word_order: 2 adds n-grams of words (chrF++). Errors as `bleu`. Source: [Popovic2015].
    """
    metrics = _sacrebleu()
    streams = _streams(references, answers)
    metric = metrics.CHRF(word_order=word_order)
    found = metric.corpus_score(list(answers), streams)
    name = "chrF" + "+" * word_order
    return OverlapScore(count=len(answers), signature=_signature(facts, metric), name=name, value=found.score)


def _streams(references: Sequence[Sequence[str]], answers: Sequence[str]) -> list[list[str | None]]:
    """All first references, all second ones, and so on; None where an answer has fewer."""
    if len(references) != len(answers):
        raise ShapeError(f"{len(references):,} lists of references, but {len(answers):,} answers")
    if not answers:
        raise DataError("no answers to measure; give a file with at least one sentence")
    lacking = next((number for number, given in enumerate(references, 1) if not given), None)
    if lacking is not None:
        raise DataError(f"answer {lacking} has no reference; leave it out, or give it one")
    width = max(len(given) for given in references)
    return [[given[place] if place < len(given) else None for given in references] for place in range(width)]


def _signature(facts: dict[str, object], metric: Any) -> str:
    given = signature(**facts)
    return f"{given}|{metric.get_signature()}" if given else str(metric.get_signature())


def _sacrebleu() -> Any:
    try:
        from sacrebleu import metrics
    except ImportError:
        raise ConfigError("BLEU and chrF are measured by sacreBLEU; pip install 'ostinato[tasks]'") from None
    return metrics
