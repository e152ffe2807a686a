"""Options of the n-gram models. Light: the command line reads this for its help."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Le
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT

SmoothingName: TypeAlias = Literal[
    "mle",
    "additive",
    "good-turing",
    "jelinek-mercer",
    "witten-bell",
    "absolute",
    "absolute-backoff",
    "kneser-ney",
    "kneser-ney-backoff",
    "modified-kneser-ney",
    "modified-kneser-ney-backoff",
    "stupid-backoff",
]
"""Every registered smoothing (ngram/smoothing/)."""


@dataclass(frozen=True, config=STRICT)
class NGramOptions:
    """Options of the back-off n-gram model."""

    order: Annotated[int, Ge(1), Le(16)] = 5
    smoothing: SmoothingName = "modified-kneser-ney"
    prune: tuple[Annotated[int, Ge(0)], ...] = ()
    memory: str | None = None
    unknown: Literal["kenlm", "srilm", "closed"] = "kenlm"
