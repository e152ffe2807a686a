"""Additive attention by our own kernels beside torch's operations on the same numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ostinato.nn.attention import Additive, Dot
from ostinato.nn.gathered import gathered
from ostinato.nn.looking import Looking, LookingByKernels
from ostinato.nn.memory import grouped


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def looked(
    attention: Additive, values: Tensor, mask: Tensor, queries: list[Tensor], kernels: bool, weighted: bool
) -> list[Tensor]:
    """Contexts, weights and gradients of steps that each look with what the one before has seen."""
    attention.zero_grad()
    values = values.clone().requires_grad_()
    memory = attention.prepare(values, mask)
    look = attention.over(memory) if kernels else Looking(attention, memory)
    assert isinstance(look, LookingByKernels) is kernels
    found, total, before = [], torch.zeros(()), None
    with gathered(attention):
        for query in queries:
            asked = query if before is None else query + before[: len(query), : query.shape[1]]
            before, weights = look(asked)
            found += [before.detach(), weights.detach()]
            total = total + (before**2).sum() + (weights[:, 0].exp().sum() if weighted else 0.0)
    total.backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    return [*found, values.grad, *(part.grad.clone() for part in attention.parameters() if part.grad is not None)]


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(1, 9)),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=7),
    seed=st.integers(0, 999),
    weighted=st.booleans(),
)
def test_kernels_give_what_torch_gives(
    sizes: tuple[int, int, int], lengths: list[int], seed: int, weighted: bool
) -> None:
    query, size, value = sizes
    torch.manual_seed(seed)
    attention = Additive(query, query + value, size)
    values = torch.randn(len(lengths), max(lengths), query + value)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    rows = sorted((1 + seed % len(lengths), len(lengths), len(lengths)), reverse=True)
    queries = [torch.randn(count, query) for count in rows]
    plain = looked(attention, values, mask, queries, False, weighted)
    for one, other in zip(plain, looked(attention, values, mask, queries, True, weighted), strict=True):
        torch.testing.assert_close(other, one, rtol=2e-4, atol=2e-5)


def test_threads_share_the_rows(threads: int) -> None:
    torch.manual_seed(0)
    attention, mask = Additive(8, 16, 32), torch.ones(13, 9, dtype=torch.bool)
    values, queries = torch.randn(13, 9, 16), [torch.randn(count, 8) for count in (13, 13, 2, 1)]
    plain = looked(attention, values, mask, queries, False, True)
    for one, other in zip(plain, looked(attention, values, mask, queries, True, True), strict=True):
        torch.testing.assert_close(other, one, rtol=2e-4, atol=2e-5)


def test_under_autocast_the_kernels_look_in_float32() -> None:
    torch.manual_seed(0)
    attention, values = Additive(8, 16, 32), torch.randn(3, 5, 16)
    query, mask = torch.randn(3, 8), torch.ones(3, 5, dtype=torch.bool)
    with torch.autocast("cpu", torch.bfloat16):
        context, weights = attention.over(attention.prepare(values, mask))(query)
    assert context.dtype == weights.dtype == torch.float32
    wanted, _ = attention(query, attention.prepare(values, mask))
    torch.testing.assert_close(context, wanted, rtol=0.05, atol=0.02)
    torch.testing.assert_close(weights.sum(1), torch.ones(3))


def test_other_attentions_other_types_and_searches_look_by_torch() -> None:
    additive, values, mask = Additive(4, 4, 3), torch.randn(2, 3, 4), torch.ones(2, 3, dtype=torch.bool)
    assert isinstance(Dot(4, 4, 4).over(Dot(4, 4, 4).prepare(values, mask)), Looking)
    memory = additive.prepare(values, mask)
    assert isinstance(additive.over(grouped(memory, torch.tensor([0, 0, 1]))), Looking)
    with torch.no_grad():
        assert isinstance(additive.over(memory), Looking)
    double = additive.double()
    assert isinstance(double.over(double.prepare(values.double(), mask)), Looking)


def test_a_memory_gives_its_gradient_once_for_each_way_back() -> None:
    torch.manual_seed(0)
    attention, mask = Additive(4, 4, 6), torch.ones(2, 3, dtype=torch.bool)
    values = torch.randn(2, 3, 4, requires_grad=True)
    look = attention.over(attention.prepare(values, mask))
    total = (look(torch.randn(2, 4))[0] ** 2).sum()
    (first,) = torch.autograd.grad(total, values, retain_graph=True)
    (second,) = torch.autograd.grad(total, values)
    torch.testing.assert_close(first, second)
    (none,) = torch.autograd.grad(attention.over(attention.prepare(values, mask)).node, values, allow_unused=True)  # type: ignore[attr-defined]
    assert none is None or not none.any()
