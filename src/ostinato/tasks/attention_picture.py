"""What an answer looked at, as a picture: what could be looked at across, what was said down."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.core.pictures import FAINT, INK, families, form_of, save
from ostinato.tasks.attention_over_picture import compose as over_picture
from ostinato.tasks.captioning.seen import Looking
from ostinato.tasks.task import Seen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELL = 0.3
"""Inches of a word's square."""

LETTER = 0.085
"""Inches of a letter of a label."""

SHOWN_FROM, WHITE_FROM = 0.1, 0.55
"""Weights that are written into their squares, and those dark enough for white figures."""

MANY = 40
"""Words of a side up to which weights are written."""


def draw(seen: Seen, path: Path) -> list[str]:
    """Draw it to `path`, as its ending .svg or .png says; what a person should know of it.

    Text in an SVG stays text, which the viewer's fonts show; a PNG needs them here, and letters that no font here has
    are named. Equal weights give equal bytes. Raises ConfigError for another ending, StorageError.
    """
    form = form_of(path, "attention is")
    words = seen.target if isinstance(seen, Looking) else [*seen.source, *seen.target]
    lacking = missing(words, families()) if form == "png" else []
    save(lambda: over_picture(seen) if isinstance(seen, Looking) else compose(seen), path, form)
    boxes = (
        f"{path} shows boxes for {' '.join(lacking)}, which no font here has; install one, such as Noto Sans CJK "
        "(fonts-noto-cjk), or look at the SVG"
    )
    return [boxes] if lacking else []


def missing(texts: Iterable[str], fonts: Sequence[str]) -> list[str]:
    """The letters of texts that none of these fonts has."""
    known = [_letters(name) for name in fonts]
    found = {letter for text in texts for letter in text if not letter.isspace()}
    return sorted(letter for letter in found if not any(ord(letter) in letters for letters in known))


@lru_cache(16)
def _letters(font: str) -> frozenset[int]:
    """The code points a font has a picture for."""
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(findfont(font)).get_charmap())


def compose(seen: Seen) -> Figure:
    """The figure: a square for each pair of words, the darker the more it was looked at."""
    from matplotlib.figure import Figure

    across, down = len(seen.source), len(seen.target)
    left, top = (
        0.25 + LETTER * max((width(word) for word in words), default=1) for words in (seen.target, seen.source)
    )
    right, bottom = 0.25, 0.15
    size = left + CELL * across + right, top + CELL * down + bottom
    figure = Figure(figsize=size)
    place = left / size[0], bottom / size[1], CELL * across / size[0], CELL * down / size[1]
    axes = figure.add_axes(place)
    axes.pcolormesh(seen.weights, cmap="Blues", vmin=0, vmax=1, edgecolors="white", linewidth=0.5)
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.set_xticks([column + 0.5 for column in range(across)], seen.source, rotation=90)
    axes.set_yticks([row + 0.5 for row in range(down)], seen.target)
    axes.tick_params(length=0, labelcolor=INK)
    axes.spines[:].set_color(FAINT)
    if max(across, down) <= MANY:
        for row, weights in enumerate(seen.weights.tolist()):
            for column, weight in enumerate(weights):
                if weight >= SHOWN_FROM:
                    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 6}
                    colour = "white" if weight >= WHITE_FROM else INK
                    axes.text(column + 0.5, row + 0.5, f"{100 * weight:.0f}", color=colour, **look)
    return figure


def width(word: str) -> int:
    """Letters of a word, those as wide as a square counted twice."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in word)
