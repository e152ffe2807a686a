"""Where training stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ostinato.train.average import Trigger


@dataclass(frozen=True)
class Position:
    """Where training stands; with the tensors of a checkpoint it is all that `resume` needs."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch already read
    step: int = 0  # updates made
    tokens: int = 0  # targets learnt from
    seconds: float = 0.0
    factor: float = 1.0  # of the plateau schedule
    best: float = math.inf  # lowest validation loss, nats a token
    best_step: int = 0
    waited: int = 0  # validations since then
    averaging: Trigger = field(default_factory=Trigger)
    ended: Literal["", "epochs", "patience"] = ""  # why training is over, if it is

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Position:
        """The position whose fields were kept as plain values."""
        kept = content["averaging"]
        trigger = Trigger(kept["begun"], tuple(kept["recent"]), kept["older"])
        return cls(**{**content, "averaging": trigger})


@dataclass
class Window:
    """Sums since the last report."""

    nats: float = 0.0
    count: int = 0
    norm: float = 0.0
    clipped: float = 0.0
    began: float = 0.0
