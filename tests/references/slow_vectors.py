"""Nearest words and analogies one number at a time, in float64, from the definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence

Row = Sequence[float]


def cosine(left: Row, right: Row) -> float:
    """The cosine of two vectors, 0 if one has no direction."""
    below = math.hypot(*left) * math.hypot(*right)
    return sum(x * y for x, y in zip(left, right, strict=True)) / below if below else 0.0


def ranked(scores: Sequence[float], without: Sequence[int]) -> list[int]:
    """Places by falling score, the lower place first on a tie, without some."""
    return sorted((place for place in range(len(scores)) if place not in without), key=lambda place: -scores[place])


def nearest(rows: Sequence[Row], query: Row, without: Sequence[int] = ()) -> list[tuple[int, float]]:
    """All rows by falling cosine with the query."""
    scores = [cosine(row, query) for row in rows]
    return [(place, scores[place]) for place in ranked(scores, without)]


def add_scores(rows: Sequence[Row], a: int, b: int, c: int) -> list[float]:
    """3CosAdd of every row: cos(x, b) - cos(x, a) + cos(x, c)."""
    return [cosine(row, rows[b]) - cosine(row, rows[a]) + cosine(row, rows[c]) for row in rows]


def mul_scores(rows: Sequence[Row], a: int, b: int, c: int) -> list[float]:
    """3CosMul of every row, cosines moved to [0, 1]: cos'(x, b) cos'(x, c) / (cos'(x, a) + 0.001)."""

    def moved(left: Row, right: Row) -> float:
        return (cosine(left, right) + 1) / 2

    return [moved(row, rows[b]) * moved(row, rows[c]) / (moved(row, rows[a]) + 0.001) for row in rows]
