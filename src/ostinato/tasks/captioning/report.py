"""How good captions are, by length, and where they are worst."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ostinato.tasks.captioning.data import Corpus, Part
from ostinato.tasks.captioning.measures import bleu_of, edits_of
from ostinato.tasks.captioning.options import Config
from ostinato.tasks.metrics.edits import edit_distance
from ostinato.tasks.tables import by_class
from ostinato.tasks.task import Report, Table
from ostinato.tasks.translation.measures import NAMES
from ostinato.tasks.translation.report import MISTAKES

LENGTHS = (1, 6, 9, 13, 19)
"""Where each class of caption lengths begins; the last has no end."""


def judge(
    config: Config,
    corpus: Corpus,
    part: Part,
    answers: Sequence[str],
    log_probs: Sequence[float],
    name: str,
    nats: float,
    asked: str,
) -> Report:
    """The report on what was said of a part's items; nats: the mean loss of a piece; asked: how, for the signature."""
    side, items = corpus.target, part.items
    facts: dict[str, object] = {"data": f"{name}#{part.digest}", "search": asked}
    overlap, edits = bleu_of(config, side, items, answers, **facts), edits_of(side, items, answers, **facts)
    values = {
        "bleu": overlap.value,
        "exact": 100 * edits.exact_match,
        "edits": 100 * edits.error_rate,
        "length_ratio": overlap.ratio or 0.0,
        "nats": nats,
        "perplexity": float(np.exp(min(nats, 700.0))),
    }
    symbols = [side.symbols(answer) for answer in answers]
    distances = [
        min(edit_distance(side.symbols(target), said) for target in item.targets)
        for item, said in zip(items, symbols, strict=True)
    ]
    lengths = np.array([len(side.symbols(item.targets[0])) for item in items], np.int64)
    shown = tuple((key, f"{value:.2f}") for key, value in values.items())
    tables = (
        Table(f"measures, edits in percent of the {side.symbol}s", ("measure", "value"), shown),
        by_class(
            f"exact by length in {side.symbol}s",
            f"{side.symbol}s",
            lengths,
            np.array(distances) == 0,
            LENGTHS,
            "length",
        ),
    )
    score = overlap if config.train.measure == "bleu" else edits
    main = NAMES[config.train.measure]
    worst = _worst(part, answers, log_probs, distances)
    return Report(main, values[config.train.measure], len(items), score.signature, values, tables, worst)


def _worst(
    part: Part, answers: Sequence[str], log_probs: Sequence[float], distances: Sequence[int]
) -> tuple[dict[str, Any], ...]:
    """Captions that are none of the given ones, those of the most edits first, the surest of equals."""
    order = sorted(range(len(answers)), key=lambda place: (-distances[place], -log_probs[place]))
    return tuple(
        {
            "where": part.items[place].where,
            "targets": part.items[place].targets,
            "answer": answers[place],
            "edits": distances[place],
            "log_prob": round(log_probs[place], 4),
        }
        for place in order[:MISTAKES]
        if distances[place]
    )
