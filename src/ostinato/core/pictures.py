"""Pictures: our colours and style, and how one is written to a file."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.core.errors import ConfigError
from ostinato.core.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#333333")
"""Tell apart in print and by colour-blind eyes [Okabe2008]."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (2.5, 1)))
MARKS = ("o", "s", "^", "D", "v", "P", "X")
INK, FAINT = "#222222", "#777777"
CHINESE = ("Noto Sans CJK SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "PingFang SC", "SimHei")
STYLE = {
    "svg.hashsalt": "ostinato",  # the same ids in every file: equal contents give equal bytes
    "svg.fonttype": "none",  # text stays text, in whatever script it is
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}
METADATA = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


def form_of(path: Path, what: str) -> str:
    """svg or png, as the ending of a picture's path says; what: `curves are`. Raises ConfigError for another ending."""
    form = path.suffix.lower().removeprefix(".")
    if form not in METADATA:
        raise ConfigError(f"{path}: {what} drawn as .svg or .png, got {path.suffix or 'no ending'!r}")
    return form


def save(compose: Callable[[], Figure], path: Path, form: str) -> None:
    """Compose a figure in our style and write it whole; equal figures give equal bytes. Raises StorageError."""
    import matplotlib

    style: Any = {**STYLE, "font.family": families()}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a PNG on a machine without that script's font
        figure = compose()
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format=form, dpi=200, metadata=METADATA[form])


def families() -> list[str]:
    """The font, and those for Chinese that this machine has."""
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return ["DejaVu Sans", *(name for name in CHINESE if name in installed)]
