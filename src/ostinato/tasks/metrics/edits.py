"""Edit distance and the error rates made of it: words of speech, phones of spellings, exact matches."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ostinato.core.errors import DataError, ShapeError
from ostinato.core.score import signature
from ostinato.tasks.metrics.measure import Measure


def edit_distance(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """The fewest insertions, deletions and substitutions of one symbol that make one sequence the other.

    A column of the table of distances is kept as two numbers, whose bits say where it rises and falls by one, so
    that a symbol of `right` costs a few operations on them however long `left` is.
    Source: [Levenshtein1966]; [Hyyro2003], after [Myers1999].
    """
    if not left or not right:
        return len(left) + len(right)
    places: dict[Hashable, int] = {}
    for place, symbol in enumerate(left):
        places[symbol] = places.get(symbol, 0) | 1 << place
    every, last = (1 << len(left)) - 1, 1 << len(left) - 1
    rises, falls, distance = every, 0, len(left)
    for symbol in right:
        equal = places.get(symbol, 0)
        diagonal = ((((equal & rises) + rises) ^ rises) | equal | falls) & every  # where it costs no more
        up = falls | (every & ~(diagonal | rises))
        down = diagonal & rises
        distance += bool(up & last) - bool(down & last)
        up, down = up << 1 | 1, down << 1
        rises = (down | ~(diagonal | up)) & every
        falls = up & diagonal & every
    return distance


@dataclass(frozen=True)
class EditScore(Measure):
    """How far answers are from the nearest of their references.

    count: answers. exact: how many equal a reference. edits: over all answers. symbols: in the nearest references.
    """

    exact: int
    edits: int
    symbols: int

    shown: ClassVar = ("exact_match", "wrong_rate", "error_rate")

    @property
    def exact_match(self) -> float:
        """The share of answers that equal a reference: accuracy; 0 of nothing."""
        return self.exact / self.count if self.count else 0.0

    @property
    def wrong_rate(self) -> float:
        """The share of answers that equal none: the word error rate where an answer is a word's spelling or sound."""
        return 1 - self.exact_match if self.count else 0.0

    @property
    def error_rate(self) -> float:
        """Edits a symbol of the references, which may be more than 1: the phone (or in speech, word) error rate."""
        if not self.symbols:
            return math.inf if self.edits else 0.0
        return self.edits / self.symbols

    def __str__(self) -> str:
        wrong, rate = 100 * self.wrong_rate, 100 * self.error_rate
        return f"{wrong:.2f}% of {self.count:,} answers wrong, {rate:.2f}% of symbols [{self.signature}]"


def edit_score(
    references: Sequence[Sequence[Sequence[Hashable]]],
    answers: Sequence[Sequence[Hashable]],
    unit: str = "symbol",
    **facts: object,
) -> EditScore:
    """How far each answer is from the nearest of its references, in symbols.

    references: one or more for each answer; nearest is the one with the fewest edits, of those the first. unit: what
    a symbol is (phone, word, character), for the signature, as the facts, first the data.
    Raises ShapeError if there are not as many of both, DataError for an answer without a reference.
    """
    if len(references) != len(answers):
        raise ShapeError(f"{len(references):,} lists of references, but {len(answers):,} answers")
    exact = edits = symbols = 0
    for number, (given, answer) in enumerate(zip(references, answers, strict=True), 1):
        if not given:
            raise DataError(f"answer {number} has no reference; leave it out, or give it one")
        distance, length = min(
            ((edit_distance(reference, answer), len(reference)) for reference in given), key=lambda found: found[0]
        )
        exact += distance == 0
        edits += distance
        symbols += length
    return EditScore(
        count=len(answers),
        signature=signature(**facts, unit=unit, references="nearest"),
        exact=exact,
        edits=edits,
        symbols=symbols,
    )
