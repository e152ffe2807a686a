"""What models cost by formula, against the modules themselves."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Literal

import pytest
from torch import nn

from lab_browser import value_of
from ostinato.cli.app import run as cli
from ostinato.core.state import leaves
from ostinato.nn import counting
from ostinato.nn.attention import attentions
from ostinato.nn.cells import cells
from ostinato.nn.counting import Sizes, costs
from ostinato.nn.networks import make_cell, networks
from ostinato.nn.options import KINDS, NPLMOptions, RecurrentOptions
from ostinato.nn.unroll import Stack

SIZES = [Sizes(11, 3, 5, 1, 7, 4), Sizes(29, 6, 4, 3, 2, 2)]
CELLS: list[tuple[str, counting.Recurrent, str, Literal[1, 2]]] = [
    ("rnn", "rnn", "rnn", 1),
    ("gru", "gru", "gru-reset-before", 1),
    ("gru-two-biases", "gru", "gru", 2),
    ("lstm", "lstm", "lstm", 1),
    ("lstm-two-biases", "lstm", "lstm", 2),
]


def size_of(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def cost(sizes: Sizes, name: str) -> counting.Cost:
    return next(found for found in costs(sizes) if found.name == name)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("name", "kind", "ours", "biases"), CELLS)
def test_recurrent_models_have_as_many_parameters_as_counted(
    sizes: Sizes, name: str, kind: counting.Recurrent, ours: str, biases: Literal[1, 2]
) -> None:
    options: Any = KINDS[ours](
        hidden=sizes.hidden, layers=sizes.layers, embedding=sizes.embedding, tied=False, biases=biases
    )
    network = networks[ours](sizes.vocabulary, options, None)
    found = cost(sizes, name)
    assert found.parameters == size_of(network)
    assert found.core == size_of(network.stack)  # type: ignore[arg-type]
    assert counting.cell(kind, sizes.embedding, sizes.hidden, biases) == size_of(
        cells[ours](sizes.embedding, sizes.hidden, biases=biases)  # type: ignore[call-arg]
    )
    state = network.init_state(1)
    assert found.state_bytes == sum(leaf.numel() * 4 for leaf in leaves(state))


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("directions", [1, 2])
def test_torch_counts_two_biases_to_a_gate(kind: counting.Recurrent, directions: Literal[1, 2]) -> None:
    sizes = SIZES[1]
    made = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind]
    module = made(sizes.embedding, sizes.hidden, sizes.layers, bidirectional=directions == 2)
    assert counting.stack(kind, sizes, 2, directions) == size_of(module)


def test_a_stack_that_reads_both_ways_is_counted() -> None:
    sizes = SIZES[1]
    options: Any = KINDS["lstm"](
        hidden=sizes.hidden, layers=sizes.layers, embedding=sizes.embedding, bidirectional=True
    )
    assert isinstance(options, RecurrentOptions)
    stack = Stack(partial(make_cell, "lstm", options), sizes.embedding, options)
    found = cost(sizes, "lstm-both-ways")
    assert found.core == size_of(stack)
    head = nn.Linear(stack.output_size, sizes.vocabulary)
    assert found.parameters == size_of(stack) + size_of(head) + (sizes.vocabulary + 2) * sizes.embedding


@pytest.mark.parametrize("sizes", SIZES)
def test_the_nplm_has_as_many_parameters_as_counted(sizes: Sizes) -> None:
    options = NPLMOptions(order=sizes.order, hidden=sizes.hidden, embedding=sizes.embedding)
    network = networks["nplm"](sizes.vocabulary, options, None)
    assert cost(sizes, "nplm").parameters == size_of(network)
    assert cost(sizes, "nplm").state_bytes == sum(leaf.numel() * 8 for leaf in leaves(network.init_state(1)))


def test_self_attention_has_as_many_parameters_as_the_module_of_torch() -> None:
    sizes = Sizes(11, 6, 6, 3)
    assert cost(sizes, "self-attention").core == 3 * size_of(nn.MultiheadAttention(6, 2))


@pytest.mark.parametrize("kind", ["additive", "dot", "scaled-dot", "general"])
def test_attentions_have_as_many_parameters_as_counted(kind: str) -> None:
    query, value, size = (5, 5, 5) if kind == "dot" else (5, 7, 3)
    assert counting.attentions(query, value, size)[kind] == size_of(attentions[kind](query, value, size))


def test_multiply_adds_are_the_elements_of_the_matrices_that_are_read() -> None:
    sizes = Sizes(11, 3, 5, 2, 7, 4)
    for name, ours in (("rnn", "rnn"), ("gru", "gru-reset-before"), ("lstm", "lstm")):
        options: Any = KINDS[ours](hidden=5, layers=2, embedding=3, tied=False)
        network = networks[ours](11, options, None)
        matrices = [p for n, p in network.named_parameters() if p.dim() == 2 and not n.startswith("embedding")]
        assert cost(sizes, name).multiply_adds == sum(matrix.numel() for matrix in matrices)


def test_the_known_numbers_come_out() -> None:
    known = {"2-gram": "6.17e+10", "3-gram": "1.53e+16", "5-gram": "9.44e+26"}
    assert {name: f"{cost(Sizes(), name).parameters:.2e}" for name in known} == known
    d, h = 512, 512
    assert cost(Sizes(), "lstm").core == 4 * (h * d + h * h + h)
    assert cost(Sizes(), "lstm-two-biases").core == 4 * (h * d + h * h + 2 * h)
    assert 4 * cost(Sizes(), "gru").core == 3 * cost(Sizes(), "lstm").core


def test_the_command_prints_what_the_formulas_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["params", "--hidden", "7", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = costs(Sizes(hidden=7))
    assert [model["parameters"] for model in said["models"]] == [one.parameters for one in found]
    assert said["attention"] == counting.attentions(7, 7, 7)
    assert cli(["params"]) == 0
    table = capsys.readouterr().out
    for text in ("6.17e+10", "1.53e+16", "9.44e+26", "2,099,200", "2,101,248", "additive 525,312"):
        assert text in table
    assert cli(["params", "--order", "1"]) == 2


def test_the_page_shows_what_the_formulas_say(open_page: Any) -> None:
    page = open_page("#cost")
    page.locator(".scroll tbody tr td[data-value]").first.wait_for()
    for place, text in enumerate(("6.17 × 10¹⁰", "1.53 × 10¹⁶", "9.44 × 10²⁶")):
        assert page.locator(".stat output").nth(place).inner_text().replace("\u00a0", " ") == text
    field = page.get_by_role("spinbutton", name="hidden units h, exactly")
    field.fill("20")
    field.press("Enter")
    row = page.get_by_role("row", name="LSTM 4·")
    wanted = cost(Sizes(hidden=20), "lstm")
    row.locator(f"td[data-value='{wanted.core}']").wait_for()
    assert row.locator(f"td[data-value='{wanted.parameters}']").count() == 1
    assert "hidden=20" in page.url or page.wait_for_url("**hidden=20**") is None
    page.get_by_role("combobox", name="compare").select_option("core")
    page.get_by_role("img", name=f"LSTM: {wanted.core:,}").wait_for()
    assert value_of(page, ".stat output >> nth=0") == 248_320**2
