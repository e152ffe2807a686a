"""How much a text repeats itself."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ostinato.core.errors import ConfigError


def distinct(tokens: Sequence[Hashable], n: int) -> float:
    """Distinct n-grams over all n-grams, from near 0 (a loop) to 1; 1 for a text too short to have any.

    Raises ConfigError if n is below 1.
    Source: [Li2016] (distinct-n); differs: divided by the n-grams, not by the tokens.
    """
    if n < 1:
        raise ConfigError(f"n: an n-gram has at least one token, got {n}")
    total = len(tokens) - n + 1
    return len({tuple(tokens[place : place + n]) for place in range(total)}) / total if total > 0 else 1.0


def repeated(tokens: Sequence[Hashable], n: int) -> float:
    """The share of n-grams that stood before in the same text; 0 for a text too short to have any.

    Raises ConfigError if n is below 1.
    Source: [Welleck2020] (seq-rep-n): 1 - distinct-n.
    """
    return 1.0 - distinct(tokens, n)
