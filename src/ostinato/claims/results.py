"""Where results live: FOLDER/ID.json holds the last run of each size, ID.svg and ID.md are made from it."""

from __future__ import annotations

import hashlib
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import ostinato
from ostinato.bench.machine import machine
from ostinato.claims.claim import SIZES, Claim, Interval, Size
from ostinato.claims.evidence import Evidence, number, plain
from ostinato.claims.verdict import Verdict, judge_claim
from ostinato.core.errors import FormatError
from ostinato.core.files import check_format, read_json, write_json

FORMAT = 1
FOLDER = Path("results/claims")
"""Where results are written and looked for unless told otherwise."""

SOURCE = Path(ostinato.__file__).parent
LIBRARIES = ("numpy", "torch", "numba")


@dataclass(frozen=True)
class Result:
    """One run of a claim.

    expected: the intervals it was judged by. environment: commit, versions, machine. seconds: of measuring, all seeds
    together; began: the day, as YYYY-MM-DD.
    """

    claim: str
    size: Size
    seeds: tuple[int, ...]
    evidence: Evidence
    expected: Mapping[str, Interval]
    verdict: Verdict
    verdicts: Mapping[str, Verdict]
    seconds: float
    began: str
    environment: Mapping[str, Any]

    @classmethod
    def judged(
        cls, claim: Claim, size: Size, seeds: Sequence[int], evidence: Evidence, made: Mapping[str, Any]
    ) -> Result:
        """The result of what was just measured; made: seconds, began and environment."""
        verdict, verdicts = judge_claim(claim, evidence.numbers)
        return cls(claim.id, size, tuple(seeds), evidence, claim.expected, verdict, verdicts, **made)

    def to_json(self) -> dict[str, Any]:
        """Plain values; open ends of intervals and numbers that are not finite are null."""
        return {
            "size": self.size,
            "verdict": self.verdict,
            "verdicts": dict(self.verdicts),
            "expected": {name: [plain(end) for end in interval] for name, interval in self.expected.items()},
            "seeds": list(self.seeds),
            **self.evidence.to_json(),
            "seconds": self.seconds,
            "began": self.began,
            "environment": dict(self.environment),
        }

    @classmethod
    def from_json(cls, claim: str, content: Mapping[str, Any]) -> Result:
        """What `to_json` wrote."""
        return cls(
            claim,
            content["size"],
            tuple(content["seeds"]),
            Evidence.from_json(content),
            {name: interval_of(ends) for name, ends in content["expected"].items()},
            content["verdict"],
            content["verdicts"],
            content["seconds"],
            content["began"],
            content["environment"],
        )


def interval_of(ends: Sequence[float | None]) -> Interval:
    """An interval of JSON; null is an open end."""
    low, high = ends
    return Interval(-math.inf if low is None else number(low), math.inf if high is None else number(high))


def environment() -> dict[str, Any]:
    """The commit (None outside a repository; changed: whether its source was edited since), versions, machine."""
    versions = {name: metadata.version(name) for name in LIBRARIES}
    return {**commit(), "libraries": versions, **machine()}


def commit() -> dict[str, Any]:
    """The commit that this source belongs to."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(SOURCE), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return {"commit": git("rev-parse", "--short=12", "HEAD"), "changed": bool(git("status", "--porcelain", "."))}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "changed": False}


def source_digest() -> str:
    """What tells this source from any other, edited or installed: sizes and times of all of its files."""
    facts = [(path.relative_to(SOURCE).as_posix(), path.stat()) for path in sorted(SOURCE.rglob("*.py"))]
    listed = "\n".join(f"{name} {about.st_size} {about.st_mtime_ns}" for name, about in facts)
    return hashlib.sha256(listed.encode()).hexdigest()[:16]


def path_of(folder: Path, claim: str) -> Path:
    """The file of a claim."""
    return folder / f"{claim}.json"


def load(folder: Path, claim: str) -> dict[Size, Result]:
    """The results of a claim by size; empty if it was never run. Raises FormatError for a damaged file."""
    path = path_of(folder, claim)
    if not path.exists():
        return {}
    content = read_json(path)
    try:
        check_format(path, content, FORMAT)
        return {size: Result.from_json(claim, content[size]) for size in SIZES if size in content}
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise FormatError(
            f"{path}: not the results of a claim ({fault}); delete it and run `ostinato claims run {claim}`"
        ) from None


def save(folder: Path, result: Result) -> None:
    """Put a result in the place of the earlier one of its size. Raises StorageError."""
    kept = {**load(folder, result.claim), result.size: result}
    content = {size: kept[size].to_json() for size in SIZES if size in kept}
    write_json(path_of(folder, result.claim), {"format": FORMAT, "claim": result.claim, **content})


def best(results: Mapping[Size, Result]) -> Result | None:
    """The full result if there is one, else the quick one."""
    return results.get("full") or results.get("quick")


def stored() -> Path:
    """The folder of results in use: of the working directory, else of the repository this source belongs to."""
    repository = SOURCE.parents[1] / FOLDER
    return repository if not FOLDER.is_dir() and repository.is_dir() else FOLDER
