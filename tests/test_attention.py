"""Attention: closed forms, arithmetic by hand, and that padding is never seen."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ostinato.core.errors import ConfigError, ShapeError
from ostinato.nn.attention import Additive, Attention, Dot, General, ScaledDot, attentions
from ostinato.nn.memory import Memory, grouped

NAMES = sorted(attentions)


def made(name: str, size: int = 4, seed: int = 0) -> Attention:
    torch.manual_seed(seed)
    attention = attentions[name](size, size, 3).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    return attention


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mask_of(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def softmax(*scores: float) -> list[float]:
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]


def test_additive_attention_by_hand() -> None:
    attention = Additive(2, 3, 2).double()
    with torch.no_grad():
        attention.from_query.weight.copy_(torch.tensor([[1.0, 0.0], [0.5, -1.0]]))
        attention.from_value.weight.copy_(torch.tensor([[0.2, 0.0, -0.3], [0.0, 1.0, 0.4]]))
        attention.from_value.bias.copy_(torch.tensor([0.1, -0.2]))
        attention.vector.copy_(torch.tensor([1.5, -2.0]))
    values = torch.tensor([[[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]]], dtype=torch.float64)
    context, weights = attention(torch.tensor([[0.3, 0.7]], dtype=torch.float64), attention.prepare(values, mask_of(2)))
    query = (0.3, 0.5 * 0.3 - 0.7)
    keys = ((0.2 * 1 - 0.3 * 3 + 0.1, 2 + 0.4 * 3 - 0.2), (0.2 * -1 - 0.3 * 2 + 0.1, 0.5 + 0.4 * 2 - 0.2))
    first, second = softmax(*(1.5 * math.tanh(query[0] + a) - 2.0 * math.tanh(query[1] + b) for a, b in keys))
    assert weights[0].tolist() == pytest.approx([first, second], abs=1e-7)  # what was copied was float32
    seen = [first * 1.0 + second * -1.0, first * 2.0 + second * 0.5, first * 3.0 + second * 2.0]
    assert context[0].tolist() == pytest.approx(seen, abs=1e-7)


def test_dot_attention_by_hand() -> None:
    attention = Dot(2, 2, 9)
    values = torch.tensor([[[1.0, 2.0], [0.0, -1.0], [9.0, 9.0]]], dtype=torch.float64)
    query = torch.tensor([[0.5, 0.25]], dtype=torch.float64)
    memory = attention.prepare(values, torch.tensor([[True, True, False]]))
    context, weights = attention(query, memory)
    first, second = softmax(0.5 * 1 + 0.25 * 2, 0.25 * -1)
    assert weights[0].tolist() == pytest.approx([first, second, 0.0], abs=1e-15)
    assert context[0].tolist() == pytest.approx([first, 2 * first - second], abs=1e-15)


def test_general_is_dot_of_what_a_matrix_makes_of_the_values() -> None:
    general, query, values, mask = made("general"), drawn(2, 5, 4), drawn(2, 3, 4, seed=2), mask_of(3, 2)
    assert isinstance(general, General)
    _, weights = general(query, general.prepare(values, mask))
    scores = torch.einsum("btq,qv,bsv->bts", query, general.from_value.weight, values)
    torch.testing.assert_close(weights, scores.masked_fill(~mask[:, None], -torch.inf).softmax(2))


def test_scaled_dot_is_dot_over_the_root_of_the_size() -> None:
    scaled, plain = ScaledDot(4, 4, 4).double(), Dot(4, 4, 4)
    for linear in (scaled.from_query, scaled.from_value):
        torch.nn.init.eye_(linear.weight)
    query, values, mask = drawn(2, 5, 4), drawn(2, 3, 4, seed=2), mask_of(3, 2)
    _, weights = scaled(query, scaled.prepare(values, mask))
    _, expected = plain(query / math.sqrt(4), plain.prepare(values, mask))
    torch.testing.assert_close(weights, expected)


def test_scaled_dot_agrees_with_torch() -> None:
    attention, query, values, mask = made("scaled-dot"), drawn(2, 5, 4), drawn(2, 3, 4, seed=2), mask_of(3, 2)
    assert isinstance(attention, ScaledDot)
    context, _ = attention(query, attention.prepare(values, mask))
    asked, keys = attention.from_query(query), attention.from_value(values)
    expected = torch.nn.functional.scaled_dot_product_attention(asked, keys, values, attn_mask=mask[:, None])
    torch.testing.assert_close(context, expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_query_that_fits_all_keys_alike_sees_the_mean(name: str) -> None:
    attention, values = made(name), drawn(2, 3, 4)
    memory = attention.prepare(values, mask_of(3, 2))
    if name == "additive":  # the other scores are 0 when the query is; here the keys must be alike
        memory = memory._replace(keys=torch.zeros_like(memory.keys))
    context, weights = attention(torch.zeros(2, 4, dtype=torch.float64), memory)
    third = torch.tensor([[1 / 3] * 3, [1 / 2, 1 / 2, 0]], dtype=torch.float64)
    torch.testing.assert_close(weights, third)
    torch.testing.assert_close(context, torch.stack([values[0].mean(0), values[1, :2].mean(0)]))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), seed=st.integers(0, 1000), scale=st.floats(0.1, 50))
def test_weights_sum_to_one_and_padding_has_none(name: str, lengths: list[int], seed: int, scale: float) -> None:
    attention, mask = made(name, seed=seed), mask_of(*lengths)
    values, query = scale * drawn(*mask.shape, 4, seed=seed), scale * drawn(len(lengths), 3, 4, seed=seed + 1)
    context, weights = attention(query, attention.prepare(values, mask))
    assert (weights.masked_select(~mask[:, None]) == 0).all()
    torch.testing.assert_close(weights.sum(2), torch.ones(len(lengths), 3, dtype=torch.float64), rtol=0, atol=1e-12)
    changed = values.masked_fill(~mask[:, :, None], 1e6)
    again, same = attention(query, attention.prepare(changed, mask))
    torch.testing.assert_close((again, same), (context, weights), rtol=0, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_queries_together_see_what_each_sees_alone(name: str) -> None:
    attention, query, values = made(name), drawn(2, 5, 4), drawn(2, 3, 4, seed=2)
    memory = attention.prepare(values, mask_of(2, 3))
    context, weights = attention(query, memory)
    for t in range(5):
        torch.testing.assert_close(attention(query[:, t], memory), (context[:, t], weights[:, t]))
    short = attention.prepare(values[:1, :2], mask_of(2))
    torch.testing.assert_close(attention(query[:1], short), (context[:1], weights[:1, :, :2]))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.integers(0, 2), min_size=1, max_size=9))
def test_queries_that_share_a_row_see_what_they_would_in_a_copy_of_it(name: str, rows: list[int]) -> None:
    attention, query, places = made(name), drawn(len(rows), 4), torch.tensor(rows)
    memory = attention.prepare(drawn(3, 4, 4, seed=2), mask_of(4, 2, 3))
    copied = Memory(*(part[places] for part in memory))
    torch.testing.assert_close(attention(query, grouped(memory, places)), attention(query, copied))
    context, weights = attention(query[:, None], grouped(memory, places))
    torch.testing.assert_close((context[:, 0], weights[:, 0]), attention(query, copied))


@pytest.mark.parametrize("name", NAMES)
def test_weights_sum_to_one_under_autocast_too(name: str) -> None:
    attention, mask = made(name).float(), mask_of(40, 30)
    values, query = drawn(2, 40, 4).float(), drawn(2, 4).float()
    with torch.autocast("cpu", torch.bfloat16):
        context, weights = attention(query, attention.prepare(values, mask))
    torch.testing.assert_close(weights.sum(1), torch.ones(2))
    expected, _ = attention(query, attention.prepare(values, mask))
    torch.testing.assert_close(context.float(), expected, rtol=0, atol=0.05)


def test_what_cannot_be_attended_to_is_refused() -> None:
    attention = made("additive")
    with pytest.raises(ShapeError, match="row 1 of the memory is padding only"):
        attention.prepare(drawn(2, 3, 4), torch.tensor([[True, False, False], [False] * 3]))
    with pytest.raises(ShapeError, match="must be"):
        attention.prepare(drawn(2, 3, 5), mask_of(3, 2))
    with pytest.raises(ConfigError, match="queries of 3 numbers with values of 4"):
        attentions["dot"](3, 4, 2)
    with pytest.raises(ConfigError, match="did you mean 'additive'"):
        attentions["aditive"]
