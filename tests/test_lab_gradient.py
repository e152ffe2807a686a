"""Gradient flow: the numbers of the page against torch, the scalar maths of the browser against Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from lab_browser import value_of
from ostinato.lab import gradient_flow as flow
from ostinato.nn.cells import cells

CASES = [(0.9, 0.0, 100, "constant"), (1.1, 0.7, 60, "alternating"), (-0.8, 2.0, 30, "pulse"), (1.3, 0.4, 80, "random")]


def through_a_cell(w: float, u: float, xs: list[float]) -> tuple[list[float], list[float]]:
    """The states and d h_T / d h_t of our own cell with one unit, by automatic differentiation."""
    cell = cells["rnn"](1, 1).double()
    with torch.no_grad():
        cell.from_hidden.weight.fill_(w)
        cell.from_input.weight.fill_(u)
        cell.from_input.bias.zero_()
    state = cell.init_state(1)
    state.hidden.requires_grad_()
    states = [state.hidden]
    for x in xs:
        _, state = cell.step(state, torch.tensor([[x]], dtype=torch.float64))
        states.append(state.hidden)
    gradients = torch.autograd.grad(states[-1].sum(), states)
    return [h.item() for h in states], [gradient.item() for gradient in gradients]


@pytest.mark.parametrize(("w", "u", "steps", "kind"), CASES)
def test_products_are_what_differentiation_of_the_cell_gives(w: float, u: float, steps: int, kind: Any) -> None:
    xs = flow.inputs(kind, steps, 3)
    states, gradients = through_a_cell(w, u, xs)
    hs = flow.states(w, u, xs)
    np.testing.assert_allclose(hs, states, rtol=0, atol=1e-12)
    np.testing.assert_allclose(flow.products(w, hs), gradients, rtol=1e-9)
    assert all(abs(found) <= abs(w) ** (steps - t) * (1 + 1e-12) for t, found in enumerate(flow.products(w, hs)))


@pytest.mark.parametrize("bias", [math.log(0.99 / 0.01), math.log(0.9 / 0.1), -1.0])
def test_the_path_through_the_cell_of_an_lstm_is_the_product_of_its_forget_gates(bias: float) -> None:
    cell = cells["lstm"](1, 1).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.zero_()
    cell.set_forget_bias(bias)  # type: ignore[operator]
    start = cell.init_state(1)
    start.cell.requires_grad_()
    _, end = cell.scan(start, torch.ones(1, 100, 1, dtype=torch.float64))
    (left,) = torch.autograd.grad(end.cell.sum(), start.cell)
    assert float(left) == pytest.approx((1 / (1 + math.exp(-bias))) ** 100, rel=1e-9)


@pytest.mark.parametrize("kind", [0, 1])
def test_the_matrix_version_is_what_differentiation_of_the_cell_gives(kind: int) -> None:
    size, radius, steps, scale, seed = 5, 1.2, 12, 0.3, 4
    cell = cells["rnn"](size, size).double()
    rng = np.random.default_rng(flow.SEEDS)
    xs = scale * rng.standard_normal((flow.SEEDS, steps, size, 1))[seed, :, :, 0]
    v = rng.standard_normal((flow.SEEDS, size, 1))[seed, :, 0]
    with torch.no_grad():
        cell.from_hidden.weight.copy_(torch.from_numpy(radius * flow.matrices(size)[kind, seed]))
        cell.from_input.weight.copy_(torch.eye(size, dtype=torch.float64))
        cell.from_input.bias.zero_()
    state = cell.init_state(1)
    state.hidden.requires_grad_()
    states = [state.hidden]
    for x in torch.from_numpy(xs):
        states.append(cell.step(type(state)(states[-1]), x[None])[0])
    loss = (states[-1] @ torch.from_numpy(v / np.linalg.norm(v))).sum()
    *wanted, weights = torch.autograd.grad(loss, [*states, cell.from_hidden.weight])
    found = flow.flow(size, radius, steps, scale)
    np.testing.assert_allclose(found.steps[kind, seed], [float(one.norm()) for one in wanted], rtol=1e-9)
    assert found.weights[kind, seed] == pytest.approx(float(weights.norm()), rel=1e-9)


def test_both_kinds_of_matrix_have_the_spectral_radius_that_was_asked_for() -> None:
    for made in flow.matrices(16).reshape(-1, 16, 16):
        assert np.abs(np.linalg.eigvals(made)).max() == pytest.approx(1, abs=1e-9)
    q = flow.matrices(16)[0, 0]
    np.testing.assert_allclose(q @ q.T, np.eye(16), atol=1e-12)


def test_the_browser_finds_what_python_finds(open_page: Any) -> None:
    page = open_page("#gradient-flow")
    script = """async ([w, u, steps, kind, seed]) => {
        const { inputs, states, products } = await import("/static/scalar.js");
        const xs = inputs(kind, steps, seed);
        const hs = states(w, u, xs);
        return [xs, hs, products(w, hs)];
    }"""
    for w, u, steps, kind in CASES:
        xs, hs, products = page.evaluate(script, [w, u, steps, kind, 12345])
        assert xs == flow.inputs(kind, steps, 12345)  # type: ignore[arg-type]
        np.testing.assert_allclose(hs, flow.states(w, u, xs), rtol=0, atol=1e-12)
        np.testing.assert_allclose(products, flow.products(w, hs), rtol=1e-9)


def test_the_experiments_of_the_page_give_what_they_promise(open_page: Any) -> None:
    page = open_page("#gradient-flow")

    def shown() -> list[float]:
        cards = page.locator(".stat output:visible")
        return [float(cards.nth(place).get_attribute("data-value")) for place in range(cards.count())]

    def press(number: int) -> list[float]:
        page.get_by_role("button", name=f"Set {number}").click()
        page.wait_for_timeout(60)  # it is drawn at the next frame
        return shown()

    bound, real, state = press(1)
    assert [bound, real] == pytest.approx([0.9**100] * 2)
    assert f"{bound:.2e}" == "2.66e-05"
    assert state == 0
    assert press(2)[:2] == pytest.approx([1.1**100] * 2)
    assert "13,781" in page.locator(".stat:visible").nth(1).inner_text()
    bound, real, _ = press(3)
    assert bound == pytest.approx(1.1**100)
    assert real < 1e-6
    assert press(4)[0] == 1
    assert press(5)[0] == pytest.approx(0.99**100)
    assert "0.366" in page.locator(".stat:visible").first.inner_text()
    assert press(6)[0] == pytest.approx(0.9**100)
    assert "view=lstm" in page.url


def test_sliders_and_the_row_of_steps_work_by_keyboard(open_page: Any) -> None:
    page = open_page("#gradient-flow?u=0&T=10")
    slider = page.get_by_role("slider", name="recurrent weight w")
    slider.focus()
    slider.press("ArrowRight")
    page.wait_for_timeout(60)
    assert value_of(page, ".stat output >> nth=0") == pytest.approx(0.91**10)
    row = page.get_by_role("img", name="How much gradient of the last step reaches each step")
    row.focus()
    for key in ("End", "ArrowLeft", "ArrowLeft"):
        row.press(key)
    page.wait_for_timeout(60)
    assert page.get_by_text("At step 8: 0.91 × 0.91 = 0.828").is_visible()
    page.wait_for_timeout(200)
    assert "reach=8" in page.url
    assert "w=0.91" in page.url
    page.reload()
    page.get_by_text("At step 8: 0.91 × 0.91 = 0.828").wait_for()


def test_the_animation_walks_to_the_first_step(open_page: Any) -> None:
    page = open_page("#gradient-flow?u=0&T=2")
    page.get_by_role("button", name="Play backwards").click()
    page.get_by_text("At step 0: 0.9 × 0.9 = 0.81").wait_for(timeout=8000)
    still = open_page("#gradient-flow?u=0&T=2", reduced_motion="reduce")
    still.get_by_role("button", name="Play backwards").click()
    still.get_by_text("At step 0: 0.9 × 0.9 = 0.81").wait_for(timeout=300)


def test_the_page_says_that_python_agrees(open_page: Any) -> None:
    page = open_page("#gradient-flow?w=1.2&u=0.3&input=random&seed=7")
    page.get_by_text("Python finds the same").wait_for()
    assert value_of(page, "#checked") < 1e-9


def test_matrices_on_the_page_are_those_of_python(open_page: Any) -> None:
    page = open_page("#gradient-flow?view=matrix&size=8&radius=0.8&steps=40")
    page.locator(".stat:visible output[data-value]").first.wait_for()
    norms = flow.flow(8, 0.8, 40, 0.5).steps[:, :, 0]
    cards = page.locator(".stat:visible output")
    for kind in (0, 1):
        assert float(cards.nth(kind).get_attribute("data-value")) == pytest.approx(np.median(norms[kind]), rel=1e-9)
    assert "Clipping does not mend vanishing" in page.locator(".said:visible").inner_text()
