"""Matrices that a loop's steps share: their gradient as one product is that of the steps by themselves."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from ostinato.nn.gathered import StepLinear, Steps, gathered


def walked(layer: StepLinear, start: Tensor, steps: int) -> Tensor:
    """A loop in which every step reads what the layer gave before, alone and two at once."""
    total, state = torch.zeros((), dtype=start.dtype), start
    for step in range(steps):
        state = torch.tanh(layer(state) if step % 2 else layer(state[:, None])[:, 0])
        total = total + (state**2).sum() * (step + 1)
    return total


def gradients(layer: StepLinear, start: Tensor, steps: int, together: bool) -> list[Tensor]:
    layer.zero_grad()
    begin = start.clone().requires_grad_()
    if together:
        with gathered(nn.ModuleList([layer])):
            total = walked(layer, begin, steps)
    else:
        total = walked(layer, begin, steps)
    total.backward()  # type: ignore[no-untyped-call]
    found = [begin.grad, *(parameter.grad for parameter in layer.parameters())]
    return [total.detach(), *(torch.zeros(()) if grad is None else grad.clone() for grad in found)]


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 5), steps=st.integers(0, 6), bias=st.booleans(), seed=st.integers(0, 99))
def test_one_product_gives_the_gradient_of_all_steps(rows: int, steps: int, bias: bool, seed: int) -> None:
    torch.manual_seed(seed)
    layer = StepLinear(4, 4, bias=bias).double()
    start = torch.randn(rows, 4, dtype=torch.float64)
    if steps == 0:
        with gathered(layer):
            assert walked(layer, start, 0) == 0
        return
    for one, other in zip(gradients(layer, start, steps, False), gradients(layer, start, steps, True), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-12, atol=1e-12)


def test_the_matrix_is_an_ordinary_one_outside_and_without_gradients() -> None:
    layer, x = StepLinear(3, 2), torch.randn(5, 3)
    plain = layer(x)
    with gathered(layer):
        assert layer.steps is not None
        with gathered(layer):  # a loop within a loop gathers for the outer one
            pass
        assert layer.steps is not None
    assert layer.steps is None
    with torch.no_grad(), gathered(layer):
        assert layer.steps is None
        torch.testing.assert_close(layer(x), plain)
    layer.weight.requires_grad_(False)
    with gathered(layer):
        torch.testing.assert_close(layer(x), plain)
    with pytest.raises(ZeroDivisionError), gathered(layer):
        1 / 0  # noqa: B018
    assert layer.steps is None


def test_a_part_of_a_matrix_gathers_too() -> None:
    whole = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    xs = [torch.randn(2, 4, dtype=torch.float64) for _ in range(3)]
    sum((x @ whole[:, 2:].T).sin().sum() for x in xs).backward()  # type: ignore[union-attr]
    assert whole.grad is not None
    wanted, whole.grad = whole.grad, None
    steps = Steps(whole[:, 2:])
    sum(steps(x).sin().sum() for x in xs).backward()  # type: ignore[union-attr]
    torch.testing.assert_close(whole.grad, wanted, rtol=1e-12, atol=1e-12)


def test_products_are_in_the_type_of_autocast_and_gradients_in_that_of_the_matrix() -> None:
    torch.manual_seed(0)
    layer, x = StepLinear(64, 64, bias=False), torch.randn(8, 64)
    layer(x).sum().backward()
    assert layer.weight.grad is not None
    wanted, layer.weight.grad = layer.weight.grad, None
    with torch.autocast("cpu", torch.bfloat16), gathered(layer):
        found = layer(x)
    assert found.dtype == torch.bfloat16
    found.sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32
    torch.testing.assert_close(layer.weight.grad, wanted, rtol=0.02, atol=0.05)
