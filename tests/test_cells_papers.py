"""Cells that torch.nn does not have, against slow twins from the papers, worked examples, and each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ostinato.nn.cells import cells
from references import cells as slow

LN2, LN3 = math.log(2), math.log(3)  # sigmoid(ln 3) = 3/4, sigmoid(ln 2) = 2/3, tanh(ln 3) = 4/5, tanh(ln 2) = 3/5
ROWS = {
    "rnn": ["hidden"],
    "lstm": ["in", "forget", "cell", "out"],
    "lstm-1997": ["in", "cell", "out"],
    "lstm-peephole": ["in", "forget", "cell", "out"],
    "lstm-coupled": ["in", "cell", "out"],
    "gru": ["reset", "update", "candidate"],
    "gru-reset-before": ["reset", "update", "candidate"],
}


def make(name: str, inputs: int = 4, hidden: int = 3, **options: Any) -> Any:
    """A cell in float64 with random weights, biases and gains."""
    torch.manual_seed(0)
    cell = cells[name](inputs, hidden, **options).double()
    for parameter in cell.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return cell


def sequence(rows: int = 1, steps: int = 6, size: int = 4, scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(rows, steps, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def array(tensor: torch.Tensor) -> slow.Vector:
    return tensor.detach().numpy()


def gates_of(name: str, cell: Any) -> slow.Gates:
    """The cell's weights by gate: rows are cut by hand, so that an order that moved is seen."""
    size, parts = cell.hidden_size, ROWS[name]
    W, U, b = (array(part) for part in (cell.from_input.weight, cell.from_hidden.weight, cell.from_input.bias))
    cuts = [slice(place * size, (place + 1) * size) for place in range(len(parts))]
    return {part: slow.Gate(W[cut], U[cut], b[cut]) for part, cut in zip(parts, cuts, strict=True)}


def twin(name: str, cell: Any) -> Callable[..., tuple[slow.Vector, ...]]:
    """The slow step (x, *state) -> state of the cell's weights."""
    if name == "lstm-layer-norm":
        norms = {"x": cell.norm_input, "h": cell.norm_hidden, "c": cell.norm_cell}
        pairs = {
            key: (array(norm.weight), np.zeros(norm.weight.shape) if norm.bias is None else array(norm.bias))
            for key, norm in norms.items()
        }
        W, U = array(cell.from_input.weight), array(cell.from_hidden.weight)
        return lambda x, h, c: slow.lstm_layer_norm(W, U, pairs, x, h, c)
    gates = gates_of(name, cell)
    if name == "lstm-peephole":
        peepholes = dict(zip(("in", "forget", "out"), array(cell.from_cell), strict=True))
        return lambda x, h, c: slow.lstm_peephole(gates, peepholes, x, h, c)
    if name in ("rnn", "gru-reset-before"):
        read = slow.elman if name == "rnn" else slow.gru_reset_before
        return lambda x, h: (read(gates, x, h),)
    step = {"lstm-1997": slow.lstm_1997, "lstm-coupled": slow.lstm_coupled}[name]
    return lambda x, h, c: step(gates, x, h, c)


TWINS = [
    ("rnn", {"activation": "sigmoid"}),
    ("lstm-1997", {}),
    ("lstm-peephole", {}),
    ("lstm-coupled", {}),
    ("lstm-layer-norm", {}),
    ("lstm-layer-norm", {"biases": 2}),
    ("gru-reset-before", {}),
]


@pytest.mark.parametrize(("name", "options"), TWINS)
def test_a_cell_agrees_with_the_equations_of_its_paper(name: str, options: dict[str, Any]) -> None:
    cell, xs = make(name, **options), sequence()
    step, start = twin(name, cell), cell.init_state(1)
    start = type(start)(*(torch.randn_like(leaf) for leaf in start))
    outputs, last = cell.scan(start, xs)
    state = tuple(array(leaf[0]) for leaf in start)
    for x, output in zip(array(xs[0]), array(outputs[0]), strict=True):
        state = step(x, *state)
        np.testing.assert_allclose(output, state[0], rtol=0, atol=1e-12)
    for ours, theirs in zip(last, state, strict=True):
        np.testing.assert_allclose(array(ours[0]), theirs, rtol=0, atol=1e-12)


def by_hand(name: str, W: list[float], U: list[float], b: list[float], **options: Any) -> Any:
    """A cell of one input and one unit with these weights, one a gate in the order of the rows."""
    cell = make(name, 1, 1, **options)
    with torch.no_grad():
        cell.from_input.weight[:, 0] = torch.tensor(W, dtype=torch.float64)
        cell.from_hidden.weight[:, 0] = torch.tensor(U, dtype=torch.float64)
        if cell.from_input.bias is not None:
            cell.from_input.bias[:] = torch.tensor(b, dtype=torch.float64)
    return cell


def step_by_hand(cell: Any, x: float, *state: float) -> list[float]:
    """The state after reading x."""
    start = type(cell.init_state(1))(*(torch.tensor([[value]], dtype=torch.float64) for value in state))
    return [leaf.item() for leaf in cell.step(start, torch.tensor([[x]], dtype=torch.float64))[1]]


def test_elman_with_a_sigmoid_by_hand() -> None:
    cell = by_hand("rnn", W=[2], U=[-4], b=[LN3], activation="sigmoid")
    assert step_by_hand(cell, 1.0, 0.5) == pytest.approx([3 / 4])  # sigmoid(2 * 1 - 4 * 0.5 + ln 3)


def test_the_lstm_of_1997_by_hand() -> None:
    cell = by_hand("lstm-1997", W=[2, 0, 1], U=[-4, 2, 0], b=[LN3, LN2 - 1, LN3 - 1])
    # x = 1, h = 0.5: i = sigmoid(2 - 2 + ln 3), g = tanh(1 + ln 2 - 1), o = sigmoid(1 + ln 3 - 1)
    memory = (LN3 - 9 / 20) + 3 / 4 * 3 / 5
    assert step_by_hand(cell, 1.0, 0.5, LN3 - 9 / 20) == pytest.approx([3 / 4 * 4 / 5, memory])


def test_peepholes_by_hand() -> None:
    cell = by_hand("lstm-peephole", W=[1, 0, 2, 0], U=[0, 1, -4, 2], b=[LN3 - 2, LN2 - 2, LN2, LN3 - 5.9])
    with torch.no_grad():
        cell.from_cell[:, 0] = torch.tensor([1 / 3, 1 / 2, 2], dtype=torch.float64)
    # x = 1, h = 0.5, c = 3: i = sigmoid(1 + 3/3 + ln 3 - 2), f = sigmoid(0.5 + 3/2 + ln 2 - 2), g = tanh(2 - 2 + ln 2)
    memory = 2 / 3 * 3 + 3 / 4 * 3 / 5  # 2.45; o = sigmoid(2 * 0.5 + 2 * 2.45 + ln 3 - 5.9)
    assert memory == pytest.approx(2.45)
    assert step_by_hand(cell, 1.0, 0.5, 3.0) == pytest.approx([3 / 4 * math.tanh(2.45), memory])


def test_coupled_gates_by_hand() -> None:
    cell = by_hand("lstm-coupled", W=[2, 0, 1], U=[-4, 2, 0], b=[LN3, LN2 - 1, LN2 - 1])
    # x = 1, h = 0.5: i = 3/4, so f = 1/4; g = 3/5, o = 2/3
    memory = 1 / 4 * 0.2 + 3 / 4 * 3 / 5
    assert step_by_hand(cell, 1.0, 0.5, 0.2) == pytest.approx([2 / 3 * math.tanh(1 / 2), memory])
    assert memory == pytest.approx(1 / 2)


def test_a_normalised_lstm_by_hand() -> None:
    """Sums of +-a have mean 0 and variance a^2; with a^2 = 1 - 1e-5 the norm divides by 1 exactly."""
    a = math.sqrt(1 - 1e-5)
    cell = by_hand("lstm-layer-norm", W=[a, a, -a, -a], U=[2 * a, -2 * a, 2 * a, -2 * a], b=[])
    with torch.no_grad():
        cell.norm_input.weight[:] = torch.tensor([LN3, LN3, -LN2, LN3]) / a
        cell.norm_input.bias[:] = torch.tensor([1.0, 0.0, -1.0, 2 * LN3 + 1])
        cell.norm_hidden.weight[:] = torch.tensor([-1.0, LN3 - LN2, 1.0, 1.0]) / a
        cell.norm_cell.bias[:] = LN2
    # x = 1, h = 0.5: i = ln 3 - 1 + 1, f = ln 3 - (ln 3 - ln 2), g = ln 2 + 1 - 1, o = -ln 3 - 1 + 2 ln 3 + 1
    memory = 2 / 3 * 0.9 + 3 / 4 * 3 / 5  # the norm of one number is 0: only the bias ln 2 is left of the memory
    assert step_by_hand(cell, 1.0, 0.5, 0.9) == pytest.approx([3 / 4 * 3 / 5, memory])


def test_a_reset_before_the_product_by_hand() -> None:
    cell = by_hand("gru-reset-before", W=[1, 2, 0], U=[0, -5, 2], b=[LN3 - 1, LN2, LN3 - 0.6])
    # x = 1, h = 0.4: r = 3/4, z = sigmoid(2 - 2 + ln 2), n = tanh(2 * (3/4 * 0.4) + ln 3 - 0.6)
    assert step_by_hand(cell, 1.0, 0.4) == pytest.approx([1 / 3 * 4 / 5 + 2 / 3 * 0.4])


def copy_gates(source: str, ours: Any, target: str, other: Any) -> None:
    """Give `other` the weights of the gates it shares with `ours`; its further gates keep theirs."""
    size = ours.hidden_size
    for to, name in enumerate(ROWS[target]):
        if name in ROWS[source]:
            place = ROWS[source].index(name)
            for layer in ("from_input.weight", "from_input.bias", "from_hidden.weight"):
                values = ours.get_parameter(layer)[place * size : (place + 1) * size]
                with torch.no_grad():
                    other.get_parameter(layer)[to * size : (to + 1) * size] = values


def forced(cell: Any, block: int, value: float) -> None:
    """A gate that reads nothing but its bias."""
    with torch.no_grad():
        for layer in ("from_input.weight", "from_hidden.weight", "from_input.bias"):
            cell.get_parameter(layer).chunk(cell.blocks)[block].fill_(value if layer.endswith("bias") else 0)


def test_the_lstm_of_1997_is_one_that_never_forgets() -> None:
    ours, other, xs = make("lstm-1997"), make("lstm"), sequence()
    copy_gates("lstm-1997", ours, "lstm", other)
    forced(other, 1, 100.0)
    torch.testing.assert_close(ours.scan(ours.init_state(1), xs)[0], other.scan(other.init_state(1), xs)[0])


def test_peepholes_of_zero_are_none() -> None:
    ours, other, xs = make("lstm-peephole"), make("lstm"), sequence()
    copy_gates("lstm-peephole", ours, "lstm", other)
    torch.nn.init.zeros_(ours.from_cell)
    torch.testing.assert_close(ours.scan(ours.init_state(1), xs)[0], other.scan(other.init_state(1), xs)[0])


def test_coupled_gates_are_a_forget_gate_with_the_weights_of_the_other_negated() -> None:
    ours, other, xs = make("lstm-coupled"), make("lstm"), sequence()
    copy_gates("lstm-coupled", ours, "lstm", other)
    with torch.no_grad():
        for layer in ("from_input.weight", "from_input.bias", "from_hidden.weight"):
            other.get_parameter(layer).chunk(4)[1].copy_(-ours.get_parameter(layer).chunk(3)[0])
    torch.testing.assert_close(ours.scan(ours.init_state(1), xs)[0], other.scan(other.init_state(1), xs)[0])


def test_both_forms_of_the_gru_are_one_while_nothing_is_reset() -> None:
    ours, other, xs = make("gru-reset-before"), make("gru", biases=1), sequence()
    copy_gates("gru-reset-before", ours, "gru", other)
    torch.nn.init.zeros_(other.candidate_bias)
    results = [cell.scan(cell.init_state(1), xs)[0] for cell in (ours, other)]
    assert not torch.allclose(*results, atol=0.01)
    for cell in (ours, other):
        forced(cell, 0, 100.0)
    torch.testing.assert_close(ours.scan(ours.init_state(1), xs)[0], other.scan(other.init_state(1), xs)[0])


@given(st.integers(0, 1 << 20), st.floats(0.01, 100))
def test_the_memory_of_coupled_gates_stays_within_one(seed: int, scale: float) -> None:
    cell = make("lstm-coupled")
    generator = torch.Generator().manual_seed(seed)
    xs = scale * torch.randn(2, 20, 4, dtype=torch.float64, generator=generator)
    _, state = cell.scan(cell.init_state(2), xs)
    assert float(state.cell.detach().abs().max()) <= 1


@given(st.floats(0.5, 1000))
def test_a_normalised_lstm_does_not_see_the_scale_of_its_matrices(scale: float) -> None:
    """[Ba2016] section 5.1; the 1e-5 under the root is what is left of it."""
    cell, xs = make("lstm-layer-norm"), sequence()
    before = cell.scan(cell.init_state(1), xs)[0]
    with torch.no_grad():
        cell.from_input.weight *= scale
        cell.from_hidden.weight *= scale
    torch.testing.assert_close(cell.scan(cell.init_state(1), xs)[0], before, rtol=0, atol=2e-3)


def gradient_through(cell: Any, steps: int) -> torch.Tensor:
    """The derivative of the sum of the last memory (or hidden state) by the first."""
    start = cell.init_state(1)
    start = start._replace(**{start._fields[-1]: start[-1].requires_grad_()})
    _, last = cell.scan(start, sequence(steps=steps))
    (gradient,) = torch.autograd.grad(last[-1].sum(), start[-1])
    return gradient


def test_the_error_carousel_keeps_a_gradient_of_exactly_one_through_50_steps() -> None:
    """[Hochreiter1997] section 3.2: no way back but the memory's own, whose derivative is 1; with a forget gate f it
    is f to the power of 50, and in a simple network at most the norm of the recurrent matrix to that power."""
    carousel = make("lstm-1997")
    torch.nn.init.zeros_(carousel.from_hidden.weight)
    assert (gradient_through(carousel, 50) == 1).all()

    forgetting = make("lstm")
    torch.nn.init.zeros_(forgetting.from_hidden.weight)
    forced(forgetting, 1, LN3)
    expected = torch.full((1, 3), (3 / 4) ** 50, dtype=torch.float64)
    torch.testing.assert_close(gradient_through(forgetting, 50), expected, rtol=1e-9, atol=0)
    forced(forgetting, 1, 100.0)
    assert (gradient_through(forgetting, 50) == 1).all()

    simple = make("rnn")
    with torch.no_grad():
        simple.from_hidden.weight.copy_(0.9 * torch.eye(3))
    assert float(gradient_through(simple, 50).abs().max()) <= 0.9**50


@pytest.mark.parametrize("name", [*ROWS, "lstm-layer-norm"])
def test_a_cell_reads_in_bfloat16_as_in_float32_to_its_accuracy(name: str) -> None:
    cell, xs = make(name).float(), sequence(2).float()
    expected, _ = cell.scan(cell.init_state(2), xs)
    with torch.autocast("cpu", torch.bfloat16):
        outputs, _ = cell.scan(cell.init_state(2), xs)
    torch.testing.assert_close(outputs.float(), expected, rtol=0, atol=0.05)
