"""The machine that is measured on: what it is, and how much of it other programs take meanwhile."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from ostinato import __version__

STAT = Path("/proc/stat")


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    about = {"python": platform.python_version(), "ostinato": __version__, "cores": os.cpu_count()}
    try:
        names = [line for line in Path("/proc/cpuinfo").read_text("utf8").splitlines() if line.startswith("model name")]
        return {"processor": names[0].split(":", 1)[1].strip(), **about}
    except (OSError, IndexError):
        return {"processor": platform.processor() or platform.machine(), **about}


def busy_seconds() -> float | None:
    """Processor seconds that all programs have had since the machine started, or that were taken from it as a
    virtual one; None where the system does not tell."""
    try:
        user, nice, system, _, _, irq, softirq, steal, *_ = STAT.read_text("ascii").split("\n", 1)[0].split()[1:]
    except (OSError, ValueError):
        return None
    return sum(map(int, (user, nice, system, irq, softirq, steal))) / os.sysconf("SC_CLK_TCK")


def foreign_share(before: float | None, after: float | None, own: float, wall: float) -> float:
    """The share of the machine that others had in `wall` seconds, of which we used `own`; 0 if unknown."""
    if before is None or after is None:
        return 0.0
    return max(0.0, after - before - own) / (max(wall, 1e-9) * (os.cpu_count() or 1))
