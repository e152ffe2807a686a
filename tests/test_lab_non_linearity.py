"""Non-linearity: training against torch, the proof about lines, and what the page shows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab_browser import value_of
from ostinato.lab import non_linearity as lab
from ostinato.nn.cells.elman import ACTIVATIONS

OF_TORCH = {**ACTIVATIONS, "swiglu": torch.nn.functional.silu}


@pytest.mark.parametrize("name", list(lab.FUNCTIONS))
def test_functions_and_derivatives_are_those_of_torch(name: str) -> None:
    x = torch.linspace(-6, 6, 101, dtype=torch.float64, requires_grad=True)
    y = OF_TORCH[name](x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    value, derivative = lab.FUNCTIONS[name]
    points = x.detach().numpy()
    np.testing.assert_allclose(value(points), y.detach().numpy(), atol=1e-12)
    inside = np.abs(points) > 1e-9  # at 0 relu has no derivative
    np.testing.assert_allclose(derivative(points)[inside], slope.numpy()[inside], atol=1e-12)


@pytest.mark.parametrize("name", list(lab.FUNCTIONS))
@pytest.mark.parametrize("units", [0, 3])
def test_training_is_gradient_descent_as_torch_does_it(name: Any, units: int) -> None:
    ours = lab.train(units, name, 0.7, 20, 5)
    at = [torch.tensor(part, requires_grad=True) for part in lab.begin(units, 5)]
    xs, targets = torch.from_numpy(lab.INPUTS), torch.from_numpy(lab.TARGETS)
    losses = []
    for _ in range(21):
        u, a, v, c, w, b = at
        read = xs
        if units:
            read = OF_TORCH[name](xs @ u.T + a)
            read = read * (xs @ v.T + c) if name == "swiglu" else read
        loss = torch.nn.functional.binary_cross_entropy_with_logits(read @ w + b, targets)
        losses.append(loss.item())
        slopes = torch.autograd.grad(loss, at, allow_unused=True)
        at = [
            (part - 0.7 * (0 if slope is None else slope)).detach().requires_grad_()
            for part, slope in zip(at, slopes, strict=True)
        ]
    np.testing.assert_allclose(ours.loss, losses, rtol=1e-9)


@given(st.lists(st.floats(-20, 20), min_size=3, max_size=3))
def test_no_line_does_better_than_one_half(numbers: list[float]) -> None:
    score = lab.INPUTS @ np.array(numbers[:2]) + numbers[2]
    assert score[0] + score[3] == pytest.approx(score[1] + score[2], abs=1e-9)
    loss = np.mean(np.logaddexp(0, score) - lab.TARGETS * score)
    assert loss >= math.log(2) - 1e-12
    assert ((score > 0) == lab.TARGETS).sum() < 4


def test_a_dead_unit_never_comes_back() -> None:
    done = lab.train(8, "relu", 10, 50, 1)
    assert done.dead[-1] == 8
    assert (np.diff(done.dead) >= 0).all()
    off = (lab.INPUTS @ done.weights[-1].U.T + done.weights[-1].a) <= 0
    assert off.all()


def press(page: Any, number: int, text: str) -> None:
    page.get_by_role("button", name=f"Set {number}").click()
    page.locator(".said", has_text=text).wait_for()


def test_the_experiments_of_the_page_end_as_they_say(open_page: Any) -> None:
    page = open_page("#non-linearity?seed=7")
    press(page, 1, "the linear model answers one half")
    assert value_of(page, ".stat output >> nth=0") == pytest.approx(math.log(2), abs=1e-3)
    press(page, 2, "All four answers are right")
    wanted = lab.train(2, "tanh", 0.5, 2000, 3).loss[-1]
    assert value_of(page, ".stat output >> nth=0") == pytest.approx(wanted, rel=1e-9)
    press(page, 3, "this start has led to a place")
    press(page, 4, "All four answers are right")
    press(page, 5, "All four answers are right")
    page.locator(".stat output[data-value='1']:visible").wait_for()
    assert lab.train(8, "relu", 0.3, 2000, 1).dead[-1] == 1
    press(page, 6, "All 8 units are off")
    assert page.locator(".stat").nth(2).inner_text().split("\n")[-1] == "8"


def test_training_can_be_walked_through_by_keyboard(open_page: Any) -> None:
    page = open_page("#non-linearity")
    page.get_by_text("Step 2000 of 2000").wait_for()
    chart = page.get_by_role("img", name="Loss while it trains")
    chart.focus()
    page.keyboard.press("Home")
    page.get_by_text("Step 0 of 2000").wait_for()
    first = lab.train(2, "tanh", 0.5, 1, 3).loss[0]
    assert value_of(page, ".stat output >> nth=0") == pytest.approx(first, rel=1e-9)
    page.get_by_role("button", name="Forward").click()
    page.get_by_text("Step 33 of 2000").wait_for()
    assert page.locator(".said", has_text="Step 33:").count() == 1
