"""What the doctor says about a run, in English and in Chinese."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from ostinato.train.history import History

Severity: TypeAlias = Literal["fault", "warning"]
Evidence: TypeAlias = dict[str, float | str | int]


class Words(NamedTuple):
    """A part of a finding, or an advice, in both languages."""

    en: str
    zh: str


class Chinese(NamedTuple):
    """A diagnosis in Chinese, with the numbers of the English one."""

    name: str
    finding: str
    advice: str


@dataclass(frozen=True)
class Diagnosis:
    """One thing that is wrong: `finding` says what with the numbers, `advice` what to do, `evidence` the numbers."""

    name: str
    severity: Severity
    finding: str
    advice: str
    evidence: Evidence
    chinese: Chinese

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values, in English."""
        return {key: value for key, value in asdict(self).items() if key != "chinese"}


Rule: TypeAlias = Callable[[History], Diagnosis | None]
