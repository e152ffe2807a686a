"""A score: how well a model predicted a text, with everything needed to compare it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from ostinato.core.errors import MismatchError

UNITS = ("word", "piece", "char", "byte")


@dataclass(frozen=True)
class Score:
    """The sum of -log p over a text, in nats, and what it was summed over.

    nats: minus the sum of the log-probs. count: predicted tokens, the stop symbols included.
    unknown: how many of them were the unknown piece. characters, bytes: the size of the normalised text, a
    line end counted as one. per: the unit of a token. signature: what must be equal for two perplexities
    to be comparable (data, vocabulary, unit, stop and unknown counted or not, state carried or fresh).
    """

    nats: float
    count: int
    per: str
    signature: str
    unknown: int = 0
    characters: int = 0
    bytes: int = 0

    @property
    def perplexity(self) -> float:
        """exp(nats / count); 1 for an empty text, infinity when a token had probability zero."""
        try:
            return math.exp(self.nats / self.count) if self.count else 1.0
        except OverflowError:
            return math.inf

    @property
    def bits(self) -> float:
        """Bits a token: log2 of the perplexity."""
        return self.nats / self.count / math.log(2) if self.count else 0.0

    @property
    def bits_per_char(self) -> float | None:
        """Bits a character of the text: comparable across tokenisations. None if characters are not known.

        With unknown tokens it is a lower bound: such a token costs once, however long the word is.
        """
        return self.nats / self.characters / math.log(2) if self.characters else None

    @property
    def bits_per_byte(self) -> float | None:
        """Bits a UTF-8 byte of the text. None if bytes are not known."""
        return self.nats / self.bytes / math.log(2) if self.bytes else None

    def __add__(self, other: Score) -> Score:
        """The score of two texts together. Raises MismatchError if they are not comparable."""
        if (self.per, self.signature) != (other.per, other.signature):
            raise MismatchError(
                f"scores with signatures {self.signature} and {other.signature} cannot be added; "
                "evaluate both models on the same text in the same way"
            )
        return Score(
            self.nats + other.nats,
            self.count + other.count,
            self.per,
            self.signature,
            self.unknown + other.unknown,
            self.characters + other.characters,
            self.bytes + other.bytes,
        )

    def __str__(self) -> str:
        share = self.unknown / self.count if self.count else 0.0
        chars = self.bits_per_char
        more = "" if chars is None else f", {'≥ ' if self.unknown else ''}{chars:.4f} bits/char"
        return (
            f"{self.perplexity:.2f} perplexity per {self.per}, {self.bits:.4f} bits/{self.per}{more} "
            f"({self.count:,} targets, </s> counted, {share:.1%} unknown) [{self.signature}]"
        )

    def to_json(self) -> dict[str, Any]:
        """The score as plain values: `nats`, `count`, `perplexity`, `bits`, `bits_per_char`, `per`, `signature`..."""
        return {
            "perplexity": self.perplexity,
            "bits": self.bits,
            "bits_per_char": self.bits_per_char,
            "bits_per_byte": self.bits_per_byte,
            **asdict(self),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Score:
        """The score that `to_json` wrote."""
        return cls(**{name: content[name] for name in cls.__dataclass_fields__})


def signature(**facts: object) -> str:
    """The facts as `name:value|name:value`, in the order given."""
    return "|".join(f"{name}:{value}" for name, value in facts.items())
