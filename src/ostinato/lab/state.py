"""Inside the state: hidden units, cells and gates of a recurrent network over a text, and gradients through time."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import Query, Response

from ostinato.core.errors import DataError, OstinatoError
from ostinato.lab.answers import answer, arrays
from ostinato.lab.page import Page
from ostinato.lab.shelf import Shelf, TheShelf
from ostinato.lab.typed import Layer, Place, Text

page = Page("state", needs_runs=True)

MOST = 512  # tokens that are shown


@page.router.get("/inside")
def inside(shelf: TheShelf, run: str, text: Text, layer: Layer, part: str) -> Response:
    """A state or gate [units, tokens], what the text has at each token [features, tokens], and how units go with it.

    part: its name; one that this kind of cell lacks stands for the hidden state. layer: from 0; the last one if there
    are fewer.
    """
    from ostinato.tasks.language.inside import correlations, look, recurrent, text_features
    from ostinato.tasks.language.typed import read_typed, shown

    loaded = shelf.model(run)
    network = recurrent(loaded)
    found = read_typed(loaded, text)
    if not len(found.ids):
        raise DataError("the text is empty; type at least a word")
    pieces, ids = found.pieces[:MOST], found.ids[:MOST]
    layers = len(network.stack.layers)
    layer = min(layer, layers - 1)
    parts = look(loaded, ids, layer)
    chosen = part if part in parts else next(iter(parts))
    features = text_features(loaded, pieces)
    return arrays(
        {
            "values": parts[chosen].T,
            "features": np.array(features),
            "correlations": correlations(parts[chosen], features),
            "surprise": 0 - found.log_probs[:MOST],
        },
        pieces=[shown(piece) for piece in pieces],
        total=len(found.ids),
        parts=list(parts),
        part=chosen,
        features=list(features._fields),
        layer=layer,
        layers=layers,
        kind=loaded.kind,
    )


@page.router.get("/gradient")
def gradient(
    shelf: TheShelf, run: Annotated[list[str], Query(min_length=1, max_length=20)], text: Text, place: Place
) -> Response:
    """How far the loss at a token reaches back in each run; `error` for one that cannot say.

    The first run decides what the tokens are.
    """
    return answer({"runs": [reaching(shelf, name, run[0], text, place) for name in run]})


def reaching(shelf: Shelf, name: str, first: str, text: str, place: int) -> dict[str, Any]:
    """The gradient norms of one run by the steps back, from 1 on."""
    from ostinato.tasks.language.inside import gradient_norms
    from ostinato.tasks.language.typed import read_typed

    try:
        loaded = shelf.model(name)
        found = read_typed(loaded, text)
        if found.pieces[: place + 1] != read_typed(shelf.model(first), text).pieces[: place + 1]:
            raise DataError(f"{name} cuts the text into other tokens than {first}")
        if place >= min(len(found.ids), MOST):
            raise DataError(f"token {place + 1} is not among the {min(len(found.ids), MOST)} that are shown")
        return {"name": name, "kind": loaded.kind, "norms": gradient_norms(loaded, found.ids, place).tolist()}
    except OstinatoError as fault:
        return {"name": name, "error": str(fault)}
