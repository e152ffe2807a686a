"""What the doctor says about a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from ostinato.train.history import History

Severity: TypeAlias = Literal["fault", "warning"]
Evidence: TypeAlias = dict[str, float | str | int]


@dataclass(frozen=True)
class Diagnosis:
    """One thing that is wrong: `finding` says what with the numbers, `advice` what to do, `evidence` the numbers."""

    name: str
    severity: Severity
    finding: str
    advice: str
    evidence: Evidence

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        return asdict(self)


Rule: TypeAlias = Callable[[History], Diagnosis | None]
