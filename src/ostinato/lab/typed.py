"""A trained model, typed into: what each run makes of every token of a text, and what it expects next."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import Query, Response

from ostinato.core.errors import DataError, MismatchError, OstinatoError
from ostinato.lab.answers import answer, arrays
from ostinato.lab.page import Page
from ostinato.lab.shelf import VECTORS, Shelf, TheShelf, kind_of

page = Page("typed", needs_runs=True)

Text = Annotated[str, Query()]
Place = Annotated[int, Query(ge=0)]
Layer = Annotated[int, Query(ge=0)]


@page.router.get("/runs")
def listing(shelf: TheShelf) -> Response:
    """Every run with what it holds, and why it cannot be read, if so."""
    return answer({"runs": [holding(shelf, name) for name in shelf.runs()]})


def holding(shelf: Shelf, name: str) -> dict[str, Any]:
    """The kind of model in a run, whether it has recurrent units to show, and a reason not to use it, or None."""
    from ostinato.nn.options import RecurrentOptions
    from ostinato.runs import RunDir
    from ostinato.tasks.options import KINDS

    path = shelf.path(name)
    about: dict[str, Any] = {"name": name, "kind": "file", "recurrent": False, "reason": None}
    try:
        if kind_of(path) == VECTORS:
            raise MismatchError(f"{path}: word vectors, no language model; `ostinato vectors` asks them")
        if path.is_file():
            return about
        kind = RunDir.open(path).model_kind()
    except OstinatoError as fault:
        return about | {"kind": None, "reason": str(fault)}
    return about | {"kind": kind, "recurrent": issubclass(KINDS.get(kind, object), RecurrentOptions)}


@page.router.get("/sample")
def beginning(shelf: TheShelf, run: str, characters: Annotated[int, Query(ge=1, le=5000)]) -> Response:
    """The beginning of the text that a run is measured on; nothing for one that keeps none."""
    from ostinato.tasks.language.typed import sample

    try:
        return answer({"text": sample(shelf.model(run), characters)})
    except DataError:
        return answer({"text": ""})


@page.router.get("/read")
def read(
    shelf: TheShelf,
    run: Annotated[list[str], Query(min_length=1, max_length=20)],
    text: Text,
    top: Annotated[int, Query(ge=1, le=100)],
) -> Response:
    """The text as each run reads it; one that cannot has its `error` instead."""
    return answer({"runs": [reading(shelf, name, text, top) for name in run]})


def reading(shelf: Shelf, name: str, text: str, top: int) -> dict[str, Any]:
    """Tokens with their surprise (nats), the score, and the `top` likeliest tokens that may come next."""
    from ostinato.tasks.language.typed import expected, likeliest, read_typed, shown

    try:
        loaded = shelf.model(name)
        found = read_typed(loaded, text)
        after = expected(loaded, found.ids, found.place)
    except OstinatoError as fault:
        return {"name": name, "error": str(fault)}
    return {
        "name": name,
        "kind": loaded.kind,
        "outputs": loaded.vocabulary.outputs,
        "pieces": [shown(piece) for piece in found.pieces],
        "nats": (0 - found.log_probs).tolist(),
        "unknown": np.flatnonzero(found.ids == loaded.vocabulary.unknown).tolist(),
        "score": None if found.score is None else found.score.to_json(),
        "next": likeliest(loaded, after, top),
    }


@page.router.get("/at")
def at(
    shelf: TheShelf,
    run: str,
    text: Text,
    place: Place,
    top: Annotated[int, Query(ge=1, le=100)],
) -> Response:
    """A token: what was expected there, and the state and gates of every layer as it was read, [layers, units] each.

    A model without recurrent units answers with no arrays.
    """
    from ostinato.tasks.language.typed import expected, likeliest, read_typed, shown

    loaded = shelf.model(run)
    found = read_typed(loaded, text)
    if place >= len(found.ids):
        raise DataError(f"token {place + 1}: the text has {len(found.ids)} tokens; choose one of them")
    log_probs = expected(loaded, found.ids, place)
    own = log_probs[found.ids[place]]
    units = units_at(loaded, found.ids, place)
    about = {
        "parts": list(units),
        "token": shown(found.pieces[place]),
        "probability": float(np.exp(own)),
        "rank": int((log_probs > own).sum()) + 1,
        "expected": likeliest(loaded, log_probs, top),
        "kind": loaded.kind,
    }
    return arrays(units, **about)


def units_at(loaded: Any, ids: Any, place: int) -> dict[str, Any]:
    """States and gates at a token by name; none for a model without recurrent units."""
    from ostinato.nn.options import RecurrentOptions
    from ostinato.tasks.options import KINDS

    if not issubclass(KINDS.get(loaded.kind, object), RecurrentOptions):
        return {}
    from ostinato.tasks.language.inside import look, recurrent

    layers = [look(loaded, ids[: place + 1], layer) for layer in range(len(recurrent(loaded).stack.layers))]
    return {name: np.stack([layer[name][place] for layer in layers]) for name in layers[0]}
