"""Solving "a is to b as c is to x": 3CosAdd and 3CosMul, for one question or for many at once."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError
from ostinato.core.registry import unknown
from ostinato.embed.nearest import Floats, Places, Score, blocks, cosines, unit

Method: TypeAlias = Literal["3cosadd", "3cosmul"]
"""3cosadd: the largest cos(x, b - a + c) [Mikolov2013c]; 3cosmul: the largest ratio of products [Levy2014]."""

LEAST = 0.001
"""Keeps 3CosMul from dividing by zero; the number of [Levy2014]."""
QUESTIONS = 1 << 13
"""Questions that are answered together."""
CELLS = 1 << 20
"""Cosines that are held at once."""
ROWS = 1 << 9
"""Rows that are read at once, or more."""


def check_method(method: Method) -> None:
    """Raise ConfigError, with the nearest name, for a method that is not known."""
    if method not in get_args(Method):
        raise ConfigError(unknown("analogy method", method, get_args(Method)))


def scorer(anchors: Floats, questions: NDArray[np.intp], method: Method) -> Score:
    """The scores of rows for questions [Q, 3], which are places in `anchors` [A, D], rows of length one.

    3cosadd: cos(x, b - a + c). 3cosmul: cos'(x, b) cos'(x, c) / (cos'(x, a) + LEAST), cos' = (cos + 1) / 2.
    Source: [Mikolov2013c] sec. 4; [Levy2014] eq. 4.
    """
    check_method(method)
    a, b, c = questions.T
    if method == "3cosadd":
        return cosines(unit(anchors[b] - anchors[a] + anchors[c]))
    cosine = cosines(anchors)

    def score(rows: Floats, inverses: Floats) -> Floats:
        shifted, inverse = shift(cosine(rows, inverses))
        found: Floats = shifted[b] * shifted[c] * inverse[a]
        return found

    return score


def shift(cosine: Floats) -> tuple[Floats, Floats]:
    """(cos + 1) / 2, and one over the sum of that and LEAST."""
    cosine += 1
    cosine /= 2
    inverse: Floats = np.reciprocal(cosine + np.float32(LEAST))
    return cosine, inverse


def solve(
    array: NDArray[Any],
    inverses: Floats,
    anchors: Floats,
    questions: NDArray[np.intp],
    without: Places,
    method: Method,
) -> NDArray[np.int64]:
    """The best of the rows `array` [N, D] for each question [Q, 3] as `scorer` defines it, -1 where none is left.

    inverses: one over the length of each row. without: pairs of a question and a row that does not answer it.
    Cost: one product of anchors and rows for every QUESTIONS questions.
    """
    check_method(method)
    order = np.argsort(without[0], kind="stable")
    begins = np.searchsorted(without[0][order], np.arange(len(questions) + 1))
    rows = without[1][order]
    found = np.full(len(questions), -1, np.int64)
    for first in range(0, len(questions), QUESTIONS):
        part = slice(first, first + QUESTIONS)
        used, places = np.unique(questions[part], return_inverse=True)
        some = anchors[used], places.reshape(-1, 3), begins[first : first + QUESTIONS + 1], rows
        solve_part(array, inverses, *some, method, found[part])
    return found


def solve_part(
    array: NDArray[Any],
    inverses: Floats,
    anchors: Floats,
    questions: NDArray[np.intp],
    begins: NDArray[np.int64],
    without: NDArray[np.int64],
    method: Method,
    found: NDArray[np.int64],
) -> None:
    """Fill `found` [Q] for questions whose words are all in `anchors`; question q is not answered by
    `without[begins[q]:begins[q + 1]]`."""
    from ostinato.kernels import analogy as kernels

    size = max(ROWS, CELLS // max(1, len(anchors)))
    scratch, best = np.empty(size, np.float32), np.full(len(questions), kernels.LOWEST, np.int32)
    cosine = cosines(anchors)
    for first, block in blocks(array, size):
        scores = cosine(block, inverses[first : first + len(block)])
        if method == "3cosadd":
            kernels.best_sums(scores, questions, first, begins, without, scratch, best, found)
        else:
            kernels.best_products(*shift(scores), questions, first, begins, without, scratch, best, found)
