"""Character classes that `re` lacks, as the inside of a `[...]`."""

from __future__ import annotations

import unicodedata
from functools import cache

SINGLE = (
    "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3041-\u3096\u309d-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Han ideographs and hiragana, which are written without blanks: each is a word of its own. Source: [UAX29]."""

_ENDS = ((0x300, 0x20000), (0xE0100, 0xE01F0))  # where Unicode keeps its combining marks


@cache
def marks() -> str:
    """Combining marks (accents, vowel signs, variation selectors): they continue the letter before them."""
    places = [place for ends in _ENDS for place in range(*ends) if unicodedata.category(chr(place))[0] == "M"]
    places.append(0x200D)  # the zero width joiner
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in _runs(sorted(places)))


def _runs(places: list[int]) -> list[tuple[int, int]]:
    """Neighbouring numbers as (first, last)."""
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and runs[-1][1] == place - 1:
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    return runs
