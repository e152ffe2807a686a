"""Word vectors: neighbours, analogies, similarities and a map, of input beside output vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from fastapi import Query, Response
from numpy.typing import NDArray

from ostinato.core.errors import DataError, ShapeError
from ostinato.lab.answers import answer, arrays
from ostinato.lab.page import Page
from ostinato.lab.shelf import VECTORS, Shelf, TheShelf

if TYPE_CHECKING:
    from ostinato.embed.projection import Projection
    from ostinato.embed.vectors import Vectors

page = Page("vectors", needs_runs=True)

Which = Literal["input", "output", "mean"]
Matrices = Annotated[list[Which], Query(min_length=1, max_length=3)]
Words = Annotated[list[str], Query(max_length=1000)]
Count = Annotated[int, Query(ge=1, le=100)]
Restrict = Annotated[int, Query(ge=0, description="0: all words")]

COMMON, SAMPLE = 100, 24
"""So many of the most frequent words are passed over, and so many of those after them are the first to be shown."""
MAPPED, COMPARED = 200, 40
"""Words on a map at most, and words of which every two are compared."""
ROOM = (275.0, 177.0)
"""Across and up, between the outermost points of a map in the browser, in the unit of `label_size`."""


@page.router.get("/sets")
def sets(shelf: TheShelf) -> Response:
    """The runs and files of word vectors with the matrices each has; of other runs, what they are."""
    from ostinato.embed.folder import OUTPUT, folder_in

    found: list[dict[str, Any]] = []
    others = []
    for name, kind in shelf.kinds().items():
        path = shelf.path(name)
        folder = folder_in(path)
        if kind != VECTORS or (folder is None and path.is_dir()):
            others.append({"name": name, "kind": "unfinished" if kind == VECTORS else kind})
        else:
            both = folder is not None and (folder / OUTPUT).is_file()
            found.append({"name": name, "matrices": ["input", "output", "mean"] if both else ["input"]})
    return answer({"sets": found, "others": others})


def opened(shelf: Shelf, name: str, which: Which = "input") -> Vectors:
    """Word vectors, opened once. Raises as `open_vectors` does."""
    from ostinato.embed.files import open_vectors

    return shelf.kept(name, open_vectors, which)


@page.router.get("/open")
def about(shelf: TheShelf, name: str) -> Response:
    """How many words and dimensions there are, and some words to begin with."""
    vectors = opened(shelf, name)
    return answer({"words": len(vectors), "dimensions": vectors.dimensions, "sample": sample(vectors.words)})


def sample(words: Sequence[str]) -> list[str]:
    """Frequent words made of letters, after those that stand everywhere; from a few words, the first ones."""
    spelled = [word for word in words[: 50 * COMMON] if word.isalpha()]
    return (spelled[COMMON:] if len(spelled) >= COMMON + SAMPLE else spelled or list(words))[:SAMPLE]


def each(which: Sequence[Which], work: Callable[[Which], dict[str, Any]]) -> list[dict[str, Any]]:
    """What `work` finds in each matrix, or the `error` that says why there is nothing."""
    found = []
    for one in which:
        try:
            found.append({"which": one, **work(one)})
        except (DataError, ShapeError) as fault:
            found.append({"which": one, "error": str(fault)})
    return found


@page.router.get("/neighbors")
def neighbors(
    shelf: TheShelf, name: str, word: str, which: Matrices, number: Count = 10, restrict: Restrict = 0
) -> Response:
    """The nearest words in each matrix; with both, "beside": the output vectors nearest to the word's input vector."""
    among = restrict or None

    def near(one: Which) -> dict[str, Any]:
        return {"found": opened(shelf, name, one).most_similar([word], number, restrict=among)[0]}

    def beside(one: Which) -> dict[str, Any]:
        asked = opened(shelf, name).rows([word])
        return {"found": opened(shelf, name, one).most_similar(asked, number, restrict=among)[0]}

    found = each(which, near)
    if {"input", "output"} <= set(which):
        found += [{**one, "which": "beside"} for one in each(["output"], beside)]
    return answer({"answers": found})


@page.router.get("/analogy")
def analogy(
    shelf: TheShelf,
    name: str,
    a: str,
    b: str,
    c: str,
    which: Matrices,
    method: Literal["3cosadd", "3cosmul"] = "3cosadd",
    number: Count = 10,
    restrict: Restrict = 0,
) -> Response:
    """What c is to as a is to b, in each matrix, best first."""

    def solved(one: Which) -> dict[str, Any]:
        return {"found": opened(shelf, name, one).analogy(a, b, c, number, method=method, restrict=restrict or None)}

    return answer({"answers": each(which, solved)})


@page.router.get("/similarity")
def similarity(shelf: TheShelf, name: str, left: Words, right: Words, which: Matrices) -> Response:
    """The cosine of each pair of words in each matrix, or the `error` that says why there is none."""
    if len(left) != len(right):
        raise DataError(f"{len(left):,} left words and {len(right):,} right ones are no pairs")

    def compared(pair: tuple[str, str]) -> dict[str, Any]:
        cosines = each(which, lambda one: {"cosine": float(opened(shelf, name, one).similarity([pair])[0])})
        return {"words": pair, "cosines": cosines}

    return answer({"pairs": [compared(pair) for pair in zip(left, right, strict=True)]})


def sides(made: Projection) -> NDArray[np.int32]:
    """Where each word of a map covers the least of others."""
    from ostinato.embed.projection import label_sides, label_size

    reach = np.ptp(made.points, axis=0)
    placed = (made.points - made.points.min(axis=0)) / np.where(reach > 0, reach, 1) * ROOM
    return label_sides(placed, np.array([label_size(word) for word in made.words])).astype(np.int32)


@page.router.get("/map")
def mapped(shelf: TheShelf, name: str, word: Words, which: Matrices) -> Response:
    """Words on the two axes of largest variance [N, 2] of each matrix, and the cosine of every two of the first ones.

    sides [N, 2]: on which side of its point a word stands, to the left -1, to the right 1, below -1, above 1.
    Words without a vector are left out and `unknown` says why; of more than MAPPED the first are taken.
    Raises DataError if fewer than two are left.
    """
    from ostinato.embed.projection import project

    asked = list(dict.fromkeys(word))
    unknown: dict[str, str] = {}
    for one in asked:
        for matrix in which:
            try:
                opened(shelf, name, matrix).vector(one)
            except DataError as fault:
                unknown.setdefault(one, str(fault))
    known = [one for one in asked if one not in unknown]
    if len(known) < 2:
        few = f"a map needs at least two words with a vector, got {len(known)}"
        raise DataError("; ".join([*unknown.values(), few]))
    kept = known[:MAPPED]
    first = kept[:COMPARED]
    pairs = [(left, right) for left in first for right in first]
    found: dict[str, NDArray[Any]] = {}
    variance = {}
    for matrix in which:
        vectors = opened(shelf, name, matrix)
        made = project(vectors, kept)
        found[f"points/{matrix}"] = made.points
        found[f"sides/{matrix}"] = sides(made)
        found[f"cosines/{matrix}"] = vectors.similarity(pairs).reshape(len(first), len(first)).astype(np.float32)
        variance[matrix] = made.variance
    facts = {"words": kept, "total": len(known), "compared": len(first), "variance": variance}
    return arrays(found, **facts, unknown=list(unknown.values()))
