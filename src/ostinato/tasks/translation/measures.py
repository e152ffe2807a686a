"""What translators are judged by: BLEU and chrF of text, or edits in phones, characters or words."""

from __future__ import annotations

from collections.abc import Sequence

from ostinato.tasks.metrics.edits import EditScore, edit_score
from ostinato.tasks.metrics.overlap import OverlapScore, bleu, chrf, tokenised_bleu
from ostinato.tasks.translation.data import Corpus, Pair
from ostinato.tasks.translation.options import OVERLAP, Config, MeasureName
from ostinato.tasks.translation.sides import Side, words_of

NAMES: dict[MeasureName, str] = {"bleu": "BLEU", "chrf": "chrF", "wer": "WER", "per": "PER", "exact": "% exact"}


def worth(measure: MeasureName, value: float) -> float:
    """What is to become small."""
    return value if measure in ("wer", "per") else -value


def measured(config: Config, corpus: Corpus, pairs: Sequence[Pair], answers: Sequence[str]) -> float:
    """The value of the configuration's measure."""
    if config.measure == "chrf":
        return chrf_of(corpus.target, pairs, answers).value
    if config.measure == "bleu":
        return bleu_of(config, corpus.target, pairs, answers, lowers(corpus.target)).value
    return edit_values(edits_of(corpus.target, pairs, answers))[config.measure]


def overlaps(config: Config) -> bool:
    """Whether answers are judged by overlapping pieces."""
    return config.measure in OVERLAP


def lowers(side: Side) -> bool:
    """Whether its texts are in lower case, so that the case of the references means nothing."""
    return side.pipeline.normalise("Aa") == "aa"


def bleu_of(
    config: Config, side: Side, pairs: Sequence[Pair], answers: Sequence[str], lowercase: bool, **facts: object
) -> OverlapScore:
    """BLEU of text as it is written, cut by sacreBLEU."""
    return bleu([pair.targets for pair in pairs], answers, config.data.bleu, lowercase, **facts)


def token_bleu_of(pairs: Sequence[Pair], answers: Sequence[str], **facts: object) -> OverlapScore:
    """BLEU of lower-cased words as our own tokeniser cuts them: what papers on small corpora print."""
    references = [[_tokens(target) for target in pair.targets] for pair in pairs]
    return tokenised_bleu(references, [_tokens(answer) for answer in answers], True, **facts, words="ostinato")


def _tokens(text: str) -> str:
    return " ".join(words_of(text))


def chrf_of(side: Side, pairs: Sequence[Pair], answers: Sequence[str], **facts: object) -> OverlapScore:
    """chrF, of lower-cased text where answers have no case."""
    low = lowers(side)
    references = [[target.lower() if low else target for target in pair.targets] for pair in pairs]
    given: dict[str, object] = {**facts, "lowered": "yes"} if low else facts
    return chrf(references, answers, 0, **given)


def edits_of(side: Side, pairs: Sequence[Pair], answers: Sequence[str], **facts: object) -> EditScore:
    """Edits of answers against the nearest target, in symbols of the side."""
    references = [[side.symbols(target) for target in pair.targets] for pair in pairs]
    return edit_score(references, [side.symbols(answer) for answer in answers], side.symbol, **facts)


def edit_values(score: EditScore) -> dict[MeasureName, float]:
    """The measures of it, in percent."""
    return {"wer": 100 * score.wrong_rate, "per": 100 * score.error_rate, "exact": 100 * score.exact_match}
