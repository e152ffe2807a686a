"""How long work tells whoever watches; drawing is the command line's business."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Progress:
    """One report: what is being done, tokens so far (0: not counted), share done (None: not known), a short note."""

    label: str
    tokens: int
    share: float | None = None
    note: str = ""


Watch: TypeAlias = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Tell nobody."""
