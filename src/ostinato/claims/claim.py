"""What a claim is, and all there are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from ostinato.claims.evidence import Finding
from ostinato.core.progress import Watch
from ostinato.core.registry import Registry

Level: TypeAlias = Literal["provable", "theoretical", "observed"]
Size: TypeAlias = Literal["quick", "full"]
SIZES: tuple[Size, ...] = ("quick", "full")


class Text(NamedTuple):
    """The same in English and Chinese."""

    en: str
    zh: str


LEVELS: dict[Level, Text] = {
    "provable": Text("provable under stated premises", "在所列前提下可证明"),
    "theoretical": Text("theoretically motivated", "有理论依据"),
    "observed": Text("experimentally observed on stated data", "在所述数据上实验观察到"),
}
"""How good the evidence is, the best first."""

UNITS: dict[str, Text] = {
    "ratio": Text("ratio", "比值"),
    "share": Text("share", "比例"),
    "count": Text("count", "个数"),
    "steps": Text("steps", "步"),
    "nats": Text("nats", "奈特"),
    "perplexity": Text("perplexity", "困惑度"),
    "squared error": Text("squared error", "平方误差"),
    "correlation": Text("correlation", "相关系数"),
    "seconds": Text("seconds", "秒"),
    "power": Text("power", "幂次"),
    "number": Text("number", "数值"),
}
"""What numbers are in."""


class Interval(NamedTuple):
    """Where a number is expected, ends included; infinite ends are open."""

    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True)
class Source:
    """Who said it, and what exactly is reported there. key: of docs/papers.md."""

    key: str
    reports: Text


@dataclass(frozen=True)
class Quantity:
    """A number that each seed gives. unit: of `UNITS`.

    expected: where it must lie for the claim to hold, written down before the run; None if it is only reported.
    why: where that interval comes from.
    """

    name: str
    what: Text
    unit: str
    expected: Interval | None = None
    why: Text | None = None

    def __post_init__(self) -> None:
        assert self.unit in UNITS, self.unit
        assert (self.expected is None) == (self.why is None), f"{self.name}: an interval and its reason go together"


@dataclass(frozen=True)
class Figure:
    """The axes of a figure, before anything is drawn. names: what curves are called, where their own names will not do.

    marks: a mark at each point.
    """

    title: Text
    x: Text
    y: Text
    x_log: bool = False
    y_log: bool = False
    marks: bool = False
    names: Mapping[str, Text] = field(default_factory=dict)

    def name(self, curve: str) -> Text:
        """What a curve is called."""
        return self.names.get(curve, Text(curve, curve))


Measure: TypeAlias = Callable[[Size, int, Watch], Finding]
"""measure(size, seed, watch): what one seed gives; the same size and seed give the same numbers, but for times."""


@dataclass(frozen=True)
class Claim:
    """One statement of the field, and the experiment that measures it here.

    level: how good the evidence for it is said to be. premises: under which it is provable. misreading: what is often
    made of it and is not so. experiment: what is measured here, on what. seeds: how many, by size.
    """

    id: str
    level: Level
    statement: Text
    misreading: Text
    experiment: Text
    sources: tuple[Source, ...]
    quantities: tuple[Quantity, ...]
    figures: Mapping[str, Figure]
    measure: Measure
    premises: Text | None = None
    seeds: Mapping[Size, int] = field(default_factory=lambda: {"quick": 3, "full": 5})

    def __post_init__(self) -> None:
        assert (self.level == "provable") == (self.premises is not None), f"{self.id}: proofs have premises"
        assert any(quantity.expected for quantity in self.quantities), f"{self.id}: nothing is expected"

    @property
    def expected(self) -> dict[str, Interval]:
        """The intervals by the name of their quantity."""
        return {quantity.name: quantity.expected for quantity in self.quantities if quantity.expected is not None}


claims: Registry[Claim] = Registry("claim")


def add(claim: Claim) -> Claim:
    """Register a claim under its ID."""
    return claims.register(claim.id)(claim)


def all_claims() -> Registry[Claim]:
    """Every claim there is; their files are imported now, and nothing heavy with them."""
    from ostinato.claims import statements

    assert statements
    return claims


def in_order(level: Level | None = None) -> list[Claim]:
    """The claims, of that level or all, the best evidence first, then by ID."""
    every = all_claims()
    return [every[name] for kind in LEVELS for name in every if every[name].level == kind and level in (None, kind)]
