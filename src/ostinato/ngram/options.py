"""Options of the n-gram models. Light: the command line reads this for its help."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT


@dataclass(frozen=True, config=STRICT)
class NGramOptions:
    """Options of the back-off n-gram model."""

    order: Annotated[int, Ge(1), Le(16)] = 5
    smoothing: Literal["kneser-ney", "modified-kneser-ney"] = "modified-kneser-ney"
