"""The verdict: one rule from numbers and intervals to what may be said."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from ostinato.claims.claim import Claim, Interval, Text

Verdict: TypeAlias = Literal["holds", "fails", "undecided"]

VERDICTS: dict[Verdict, Text] = {
    "holds": Text("holds here", "在此成立"),
    "fails": Text("does not hold here", "在此不成立"),
    "undecided": Text("not decidable at this size", "在此规模下无法判定"),
}

RULE = Text(
    "A quantity **holds** if the numbers of all seeds lie in the interval that was written down before the run. It "
    "**fails** if mean ± spread (the sample standard deviation over seeds) lies wholly outside. Anything else is not "
    "decidable at this size, and so is a single seed, since it has no spread. What is said to be provable is stricter: "
    "one seed outside is a counterexample and the claim fails, and one seed inside is enough. A number that is not "
    "finite is outside every interval and leaves no spread. A claim fails if one of its quantities fails, and holds if "
    "all of them hold.",
    "若所有种子的数值都落在运行前写下的区间内，该量**成立**。若均值 ± 离散度（各种子的样本标准差）"
    "完全落在区间之外，该量**不成立**。其余情形在此规模下无法判定；只有一个种子时没有离散度，同样无法判定。"
    "对号称可证明的论断更严：一个种子落在区间外就是反例，论断不成立；一个种子落在区间内即可。"
    "非有限的数落在任何区间之外，也没有离散度。任一量不成立则论断不成立，所有量成立则论断成立。",
)
"""The rule in words."""


def mean(values: Sequence[float]) -> float:
    """The mean of one or more numbers; NaN if one of them is not finite."""
    return statistics.fmean(values) if all(map(math.isfinite, values)) else math.nan


def spread(values: Sequence[float]) -> float | None:
    """The sample standard deviation; None for one number, or if one is not finite."""
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def inside(value: float, interval: Interval) -> bool:
    """Whether a finite number lies in the interval, its ends included."""
    return math.isfinite(value) and interval.low <= value <= interval.high


def judge(values: Sequence[float], interval: Interval, provable: bool = False) -> Verdict:
    """What one or more numbers, one a seed, say of the interval they were expected in; `RULE` says how."""
    within = all(inside(value, interval) for value in values)
    if provable:
        return "holds" if within else "fails"
    around = spread(values)
    if around is None:
        return "undecided"
    if within:
        return "holds"
    middle = mean(values)
    return "fails" if middle + around < interval.low or middle - around > interval.high else "undecided"


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a claim from those of its quantities."""
    found = set(verdicts)
    return "fails" if "fails" in found else "undecided" if "undecided" in found else "holds"


def judge_claim(claim: Claim, numbers: Mapping[str, Sequence[float]]) -> tuple[Verdict, dict[str, Verdict]]:
    """The verdict of a claim, and those of its quantities by name. numbers: by quantity, one a seed."""
    provable = claim.level == "provable"
    each = {name: judge(numbers[name], interval, provable) for name, interval in claim.expected.items()}
    return together(each.values()), each
