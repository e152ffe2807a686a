"""Count the cost: what models of given sizes take, before any is trained."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Literal

import numpy as np
from fastapi import Depends, Query, Response

from ostinato.lab.answers import answer
from ostinato.lab.page import Page
from ostinato.nn.counting import Sizes, attentions, costs

page = Page("cost")

Size = Annotated[int, Query(ge=1, le=10**9)]
Along = Literal["vocabulary", "hidden", "length"]
SPANS: dict[Along, tuple[int, int]] = {"vocabulary": (100, 1_000_000), "hidden": (8, 4096), "length": (1, 10_000)}
POINTS = 33


def sizes_of(
    vocabulary: Size,
    embedding: Size,
    hidden: Size,
    layers: Annotated[int, Query(ge=1, le=1000)],
    length: Size,
    order: Annotated[int, Query(ge=2, le=20)],
) -> Sizes:
    """The sizes that were asked for."""
    return Sizes(vocabulary, embedding, hidden, layers, length, order)


Asked = Annotated[Sizes, Depends(sizes_of)]


@page.router.get("/count")
def count(sizes: Asked) -> Response:
    """What `ostinato params --json` prints."""
    between = attentions(sizes.hidden, sizes.hidden, sizes.hidden)
    return answer({"models": [asdict(cost) for cost in costs(sizes)], "attention": between})


@page.router.get("/curve")
def curve(sizes: Asked, along: Along) -> Response:
    """Every model at sizes that grow by equal ratios along one of them."""
    points = sorted({round(point) for point in np.geomspace(*SPANS[along], POINTS)})
    changed = [costs(replace(sizes, **{along: point})) for point in points]
    models = [
        {"name": first.name, "costs": [asdict(row[place]) for row in changed]} for place, first in enumerate(changed[0])
    ]
    return answer({"points": points, "models": models})
