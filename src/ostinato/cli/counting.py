"""The command that counts what models cost: params."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ostinato.cli.app import app
from ostinato.cli.talk import show_json, show_table, size

Positive = Annotated[int, Parameter(validator=Number(gte=1, lte=1 << 40))]
Order = Annotated[int, Parameter(validator=Number(gte=2, lte=20))]


@app.command
def params(
    *,
    vocabulary: Positive = 248_320,
    embedding: Positive = 512,
    hidden: Positive = 512,
    layers: Positive = 1,
    length: Positive = 100,
    order: Order = 5,
    json: bool = False,
) -> None:
    """Count what models of given sizes cost, before any is trained: parameters, state, steps, multiply-adds.

    **Examples**

    ```
    ostinato params
    ostinato params --vocabulary 10000 --embedding 650 --hidden 650 --layers 2 --json
    ```

    Parameters
    ----------
    vocabulary:
        Words |V|.
    embedding:
        Numbers in the vector of a word, d.
    hidden:
        Hidden units in each layer, h.
    layers:
        Layers of the recurrent and of the attending models.
    length:
        Tokens that are read, T.
    order:
        Words the NPLM predicts one of, n: it reads the n - 1 before.
    json:
        Print one JSON object with a list `models` and a table `attention`.
    """
    from dataclasses import asdict

    from ostinato.nn.counting import Sizes, attentions, costs

    sizes = Sizes(vocabulary, embedding, hidden, layers, length, order)
    found = costs(sizes)
    between = attentions(hidden, hidden, hidden)
    if json:
        show_json({"sizes": asdict(sizes), "models": [asdict(cost) for cost in found], "attention": between})
        return
    rows = [
        (
            cost.name,
            number(cost.parameters),
            number(cost.core),
            size(cost.state_bytes),
            f"{cost.serial_steps:,}",
            f"{cost.longest_path:,}",
            f"{cost.reach:,}",
            number(cost.multiply_adds),
        )
        for cost in found
    ]
    head = ("model", "parameters", "of these core", "state", "serial steps", "longest path", "sees back", "mul-adds")
    given = f"|V| = {vocabulary:,}, d = {embedding:,}, h = {hidden:,}, layers: {layers}, T = {length:,}"
    show_table(head, rows, f"{given}; float32 states; multiply-adds for the last token")
    kinds = ", ".join(f"{kind} {number(count)}" for kind, count in between.items())
    print(f"attention of a decoder on an encoder of h units each, parameters: {kinds}")


def number(value: int) -> str:
    """A number whole, or with three digits where that is longer than a person reads."""
    return f"{value:,}" if value < 10**10 else f"{value:.2e}"
