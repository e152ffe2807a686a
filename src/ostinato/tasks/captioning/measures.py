"""What captions are judged by: BLEU, chrF, edits in words, and exact matches."""

from __future__ import annotations

from collections.abc import Sequence

from ostinato.tasks.captioning.data import Item
from ostinato.tasks.captioning.options import Config
from ostinato.tasks.metrics.edits import EditScore, edit_score
from ostinato.tasks.metrics.overlap import OverlapScore, bleu
from ostinato.tasks.translation.measures import lowers
from ostinato.tasks.translation.sides import Side


def measured(config: Config, side: Side, items: Sequence[Item], answers: Sequence[str]) -> float:
    """The value of the configuration's measure, in percent; more is better."""
    if config.train.measure == "bleu":
        return bleu_of(config, side, items, answers).value
    return 100 * edits_of(side, items, answers).exact_match


def bleu_of(config: Config, side: Side, items: Sequence[Item], answers: Sequence[str], **facts: object) -> OverlapScore:
    """BLEU of captions as they are written, cut by sacreBLEU; without case where captions have none."""
    return bleu([item.targets for item in items], answers, config.data.bleu, lowers(side), **facts)


def edits_of(side: Side, items: Sequence[Item], answers: Sequence[str], **facts: object) -> EditScore:
    """Edits of captions against the nearest of the given ones, in symbols of the side."""
    references = [[side.symbols(target) for target in item.targets] for item in items]
    return edit_score(references, [side.symbols(answer) for answer in answers], side.symbol, **facts)
