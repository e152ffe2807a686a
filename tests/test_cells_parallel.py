"""Cells without a recurrent matrix: against the papers, finite differences, hand arithmetic, and their own steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core import state as states
from ostinato.core.errors import ConfigError
from ostinato.nn.cells import Cell, cells, gated_delta
from ostinato.nn.cells.gated_delta import GatedDelta, GatedDeltaState
from ostinato.nn.cells.min_lstm import MinLSTM
from ostinato.nn.cells.parallel_scan import AverageState, positive, running_average
from references import linear_attention as slow

MINIMAL = ["min-gru", "min-lstm"]
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("min-gru", {}),
    ("min-gru", {"biases": 2}),
    ("min-lstm", {}),
    ("min-lstm", {"biases": 2}),
    ("gated-delta", {"heads": 2}),
    ("gated-delta", {"heads": 1, "window": 1}),
]
ROUNDS = pytest.mark.parametrize("rounds", [False, True], ids=["steps", "rounds"])
EVERY = pytest.mark.parametrize(("name", "options"), VARIANTS)


def make(name: str, options: dict[str, Any], hidden: int = 4) -> Any:
    torch.manual_seed(0)
    cell = cells[name](3, hidden, **options).double()
    for parameter in cell.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return cell


def numbers(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def some_state(cell: Cell, batch: int) -> Any:
    """A state of any sign, which no reading from nothing would give."""
    return states.map_leaves(lambda leaf: numbers(*leaf.shape, seed=2).to(leaf.dtype), cell.init_state(batch))


def layers(cell: Any) -> list[slow.Linear]:
    bias = cell.from_input.bias + (0 if cell.second_bias is None else cell.second_bias)
    parts = zip(cell.input_matrices(), bias.chunk(cell.blocks), strict=True)
    return [slow.Linear(W.detach().numpy(), b.detach().numpy()) for W, b in parts]


@pytest.mark.parametrize(("name", "options"), VARIANTS[:4])
def test_a_minimal_cell_is_the_published_recurrence_from_any_start(name: str, options: dict[str, Any]) -> None:
    cell, xs = make(name, options), numbers(2, 9, 3)
    start = some_state(cell, 2)
    twin: Any = {"min-gru": slow.min_gru, "min-lstm": slow.min_lstm}[name]
    for read in (cell.scan, Cell.scan.__get__(cell)):
        outputs, last = read(start, xs)
        for row in range(2):
            expected = np.array(twin(*layers(cell), xs[row].numpy(), start.hidden[row].numpy()))
            np.testing.assert_allclose(outputs[row].detach().numpy(), expected, rtol=0, atol=1e-12)
            np.testing.assert_allclose(last.hidden[row].detach().numpy(), expected[-1], rtol=0, atol=1e-12)


def test_the_scan_agrees_with_the_published_scan_of_logarithms() -> None:
    cell, xs = make("min-gru", {}), numbers(1, 30, 3)
    start = AverageState(numbers(1, 4).abs() + 0.1)
    outputs, _ = cell.scan(start, xs)
    expected = slow.log_min_gru(*layers(cell), xs[0].numpy(), start.hidden[0].numpy())
    np.testing.assert_allclose(outputs[0].detach().numpy(), expected, rtol=1e-10)


def delta_heads(cell: GatedDelta) -> list[slow.DeltaHead]:
    """The weights of each head, as the twin wants them."""
    hidden, heads = cell.hidden_size, cell.heads
    head, weight = hidden // heads, cell.from_input.weight.detach().numpy()
    taps = cell.convolution.detach().numpy()
    found = []
    for n in range(heads):
        rows = [slice(part * hidden + n * head, part * hidden + (n + 1) * head) for part in range(3)]
        matrices, columns = [weight[row] for row in rows], [taps[:, row] for row in rows]
        write, rate = weight[4 * hidden + n], weight[4 * hidden + heads + n]
        own = float(cell.log_rate[n].detach()), float(cell.rate_shift[n].detach())
        found.append(slow.DeltaHead(*matrices, *columns, write, rate, *own))
    return found


@pytest.mark.parametrize(("name", "options"), VARIANTS[4:])
@pytest.mark.parametrize("steps", [1, 5, 2 * gated_delta.CHUNK + 7])
def test_the_gated_delta_cell_is_the_published_recurrence(name: str, options: dict[str, Any], steps: int) -> None:
    cell, xs = make(name, options), numbers(1, steps, 3)
    start = cell.init_state(1)._replace(memory=numbers(1, cell.heads, 4 // cell.heads, 4 // cell.heads))
    gate, gain, output = cell.from_input.weight[12:16], cell.gain, cell.to_output.weight
    expected, last = slow.gated_delta(
        delta_heads(cell),
        *(part.detach().numpy() for part in (gate, gain, output)),
        xs[0].numpy(),
        [memory.T.numpy() for memory in start.memory[0]],
    )
    for read in (cell.scan, Cell.scan.__get__(cell)):
        outputs, end = read(start, xs)
        np.testing.assert_allclose(outputs[0].detach().numpy(), expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(end.memory[0].mT.detach().numpy(), last, rtol=0, atol=1e-11)


def test_a_minimal_gru_by_hand() -> None:
    """Zero matrices: z = sigmoid(0) = 1/2; candidates 1 + 0.5 and sigmoid(-1)."""
    cell = make("min-gru", {}, hidden=2)
    torch.nn.init.zeros_(cell.from_input.weight)
    with torch.no_grad():
        cell.from_input.bias.copy_(torch.tensor([0, 0, 1, -1]))
    outputs, _ = cell.scan(AverageState(torch.tensor([[2.0, -3.0]], dtype=torch.float64)), numbers(1, 2, 3))
    low = 1 / (1 + math.e)
    first = [2 / 2 + 1.5 / 2, -3 / 2 + low / 2]
    second = [first[0] / 2 + 1.5 / 2, first[1] / 2 + low / 2]
    np.testing.assert_allclose(outputs[0].detach().numpy(), [first, second], rtol=1e-12)


def test_a_minimal_lstm_by_hand() -> None:
    """sigmoid(log 3) = 3/4 is let in and sigmoid(0) = 1/2 kept: shares 3/5 and 2/5."""
    cell = make("min-lstm", {}, hidden=1)
    torch.nn.init.zeros_(cell.from_input.weight)
    with torch.no_grad():
        cell.from_input.bias.copy_(torch.tensor([math.log(3), 0, 1]))
    start = AverageState(torch.tensor([[2.0]], dtype=torch.float64))
    hidden, _ = cell.step(start, numbers(1, 3))
    assert float(hidden.detach()) == pytest.approx(2 / 5 * 2 + 3 / 5 * 1.5, abs=1e-7)  # the bias is float32 of log 3
    gates = cell.gates(start, numbers(1, 3))
    assert float(gates.input.detach()) == pytest.approx(3 / 5)
    assert float(gates.forget.detach()) == pytest.approx(2 / 5)


def test_a_gated_delta_memory_by_hand() -> None:
    """Write (1, 2) under one key and (3, 4) under another; then forget half of all and write half of (5, 6) under the
    first: what it held, (0.5, 1), moves half the way."""
    key = torch.tensor([[1.0, 0], [0, 1], [1, 0]], dtype=torch.float64)
    value = torch.tensor([[1.0, 2], [3, 4], [5, 6]], dtype=torch.float64)
    query = torch.tensor([[1.0, 0], [1, 1], [1, 1]], dtype=torch.float64)
    keep, write = torch.tensor([1, 1, 0.5]).double(), torch.tensor([1, 1, 0.5]).double()
    parts = (part[None, :, None] for part in (query, key, value, keep.log(), write))
    answers, memory = gated_delta.answer_chunks(torch.zeros(1, 1, 2, 2).double(), *parts)
    first = [0.5 + (5 - 0.5) / 2, 1 + (6 - 1) / 2]
    second = [3 / 2, 4 / 2]
    np.testing.assert_allclose(memory[0, 0].numpy(), [first, second], atol=1e-12)
    expected = [[1, 2], [1 + 3, 2 + 4], [first[0] + second[0], first[1] + second[1]]]
    np.testing.assert_allclose(answers[0, :, 0].numpy(), expected, atol=1e-12)


def test_a_gated_delta_output_by_hand() -> None:
    """One unit: keys are 1 and -1, the norm leaves the sign of the answer, silu(1) gates it, Wo doubles it."""
    cell = GatedDelta(1, 1, window=1).double()
    with torch.no_grad():
        cell.from_input.weight.copy_(torch.tensor([[2.0], [3], [-2], [1], [0], [0]]))  # q, k, v, g, b, a
        cell.to_output.weight.fill_(2)
        cell.gain.fill_(1)
    output, _ = cell.step(cell.init_state(1), torch.ones(1, 1).double())
    assert float(output.detach()) == pytest.approx(-2 / (1 + math.exp(-1)), rel=1e-3)  # |u| and N carry 1e-6


@EVERY
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_stream_may_be_cut_anywhere(
    name: str, options: dict[str, Any], dtype: torch.dtype, close: float, data: st.DataObject
) -> None:
    cell = make(name, options).to(dtype)
    steps = data.draw(st.integers(2, 80))
    cut = data.draw(st.integers(1, steps - 1))
    xs = numbers(2, steps, 3, seed=data.draw(st.integers(0, 99))).to(dtype)
    start = some_state(cell, 2)
    if name == "gated-delta":
        close *= 100  # a sum of many terms over a norm, which may be small
    with torch.no_grad():
        whole, end = cell.scan(start, xs)
        by_steps, same_end = Cell.scan(cell, start, xs)
        first, middle = cell.scan(start, xs[:, :cut])
        second, last = cell.scan(middle, xs[:, cut:])
    torch.testing.assert_close(by_steps, whole, rtol=close, atol=close)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole, rtol=close, atol=close)
    for one, *others in zip(*(states.leaves(state) for state in (end, same_end, last)), strict=True):
        for other in others:
            torch.testing.assert_close(one, other, rtol=close, atol=close)


@ROUNDS
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_gradient_of_a_running_average_agrees_with_finite_differences(steps: int, rounds: bool) -> None:
    weight, values, start = numbers(2, steps, 3).sigmoid(), numbers(2, steps, 3, seed=3), numbers(2, 3)
    leaves = [leaf.requires_grad_() for leaf in (weight, values, start)]
    assert torch.autograd.gradcheck(lambda *leaf: running_average(*leaf, rounds), leaves)


@settings(max_examples=30, deadline=None)
@given(steps=st.integers(1, 40), seed=st.integers(0, 99))
def test_rounds_and_steps_give_the_same_average(steps: int, seed: int) -> None:
    weight, values = numbers(2, steps, 3, seed=seed).sigmoid(), numbers(2, steps, 3, seed=seed + 1)
    one, other = (running_average(weight, values, numbers(2, 3), rounds) for rounds in (False, True))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@ROUNDS
def test_a_shut_gate_keeps_the_state_and_an_open_one_replaces_it_exactly(rounds: bool) -> None:
    start, values = numbers(1, 2), numbers(1, 5, 2, seed=3)
    kept = running_average(torch.zeros(1, 5, 2).double(), values, start, rounds)
    assert torch.equal(kept, start[:, None].expand(1, 5, 2))
    assert torch.equal(running_average(torch.ones(1, 5, 2).double(), values, start, rounds), values)


@EVERY
@pytest.mark.parametrize("fast", [True, False], ids=["scan", "steps"])
def test_gradients_agree_with_finite_differences(
    name: str, options: dict[str, Any], fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gated_delta, "CHUNK", 2)
    cell, xs = make(name, options), numbers(1, 3, 3).requires_grad_()
    start = some_state(cell, 1)
    starts = [leaf.requires_grad_() for leaf in states.leaves(start) if leaf.numel()]

    def read(xs: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        given_leaves = iter(rest)
        state = states.map_leaves(lambda leaf: next(given_leaves) if leaf.numel() else leaf, start)
        outputs, last = cell.scan(state, xs) if fast else Cell.scan(cell, state, xs)
        return torch.cat([outputs.flatten(), *(leaf.flatten() for leaf in states.leaves(last))])

    assert torch.autograd.gradcheck(read, (xs, *starts, *cell.parameters()))


def test_gradients_through_many_chunks_are_those_of_the_steps() -> None:
    cell, xs = make("gated-delta", {"heads": 2}), numbers(2, 75, 3).requires_grad_()
    wanted = [xs, *cell.parameters()]
    one, other = (
        torch.autograd.grad(read(cell.init_state(2), xs)[0].square().sum(), wanted)
        for read in (cell.scan, Cell.scan.__get__(cell))
    )
    for mine, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-8)


def test_the_positive_candidate_has_the_published_value_and_slope() -> None:
    x = torch.tensor([-3.0, -0.1, 0, 0.1, 4], dtype=torch.float64, requires_grad=True)
    value = positive(x)
    np.testing.assert_allclose(value.detach().numpy(), [slow.g(a) for a in x.tolist()], rtol=1e-15)
    (slope,) = torch.autograd.grad(value.sum(), x)
    low = [1 / (1 + math.exp(3)), 1 / (1 + math.exp(0.1))]
    expected = [low[0] * (1 - low[0]), low[1] * (1 - low[1]), 1, 1, 1]
    np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-12)


def test_two_shut_gates_of_a_minimal_lstm_share_evenly_and_have_a_gradient() -> None:
    cell = MinLSTM(1, 1)
    torch.nn.init.zeros_(cell.from_input.weight)
    with torch.no_grad():
        cell.from_input.bias.copy_(torch.tensor([-300.0, -300.0, 1.0]))  # sigmoid of this is 0 in float32
    hidden, _ = cell.scan(AverageState(torch.full((1, 1), 3.0)), torch.ones(1, 2, 1))
    assert hidden.flatten().tolist() == pytest.approx([3 / 2 + 1.5 / 2, 3 / 4 + 1.5 / 4 + 1.5 / 2])
    hidden.sum().backward()
    assert all(bool(torch.isfinite(parameter.grad).all()) for parameter in cell.parameters())


@pytest.mark.parametrize("name", MINIMAL)
def test_two_biases_are_one_that_is_their_sum(name: str) -> None:
    double, single = make(name, {"biases": 2}), make(name, {})
    with torch.no_grad():
        single.from_input.weight.copy_(double.from_input.weight)
        single.from_input.bias.copy_(double.from_input.bias + double.second_bias)
    xs, start = numbers(2, 5, 3), some_state(single, 2)
    torch.testing.assert_close(single.scan(start, xs)[0], double.scan(start, xs)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("biases", [1, 2])
def test_the_forget_bias_of_a_minimal_lstm_falls_on_its_forget_gate_alone(biases: int) -> None:
    cell = make("min-lstm", {"biases": biases})
    for parameter in cell.parameters():
        torch.nn.init.zeros_(parameter)
    cell.set_forget_bias(2.0)
    gates = cell.gates(cell.init_state(1), numbers(1, 3))
    forget = 1 / (1 + math.exp(-2))
    torch.testing.assert_close(gates.forget, torch.full_like(gates.forget, forget / (forget + 0.5)))
    torch.testing.assert_close(gates.candidate, torch.full_like(gates.candidate, 0.5))


def test_a_strong_decay_over_many_chunks_stays_finite() -> None:
    cell = GatedDelta(3, 4, heads=2)
    with torch.no_grad():
        cell.log_rate.fill_(6)  # a memory of e^-403 of a step, and of next to nothing
        cell.rate_shift.fill_(1)
    outputs, end = cell.scan(cell.init_state(1), torch.ones(1, 200, 3))
    outputs.sum().backward()
    assert all(bool(torch.isfinite(part).all()) for part in (outputs, *end))
    assert all(bool(torch.isfinite(parameter.grad).all()) for parameter in cell.parameters())


def test_a_gated_delta_cell_begins_without_convolution_and_with_memories_of_many_lengths() -> None:
    torch.manual_seed(0)
    cell = GatedDelta(3, 8, heads=4)
    plain = GatedDelta(3, 8, heads=4, window=1)
    plain.from_input, plain.to_output = cell.from_input, cell.to_output
    xs = numbers(2, 6, 3).float()
    torch.testing.assert_close(cell.scan(cell.init_state(2), xs)[0], plain.scan(plain.init_state(2), xs)[0])
    keep = cell.gates(cell.init_state(1), torch.zeros(1, 3)).keep[0]
    steps = torch.nn.functional.softplus(cell.rate_shift)
    torch.testing.assert_close(keep, torch.exp(-cell.log_rate.exp() * steps))
    assert bool(((steps > 0.001) & (steps < 0.1)).all())
    assert bool(((keep > 0.4) & (keep < 1)).all())


@pytest.mark.parametrize(("hidden", "heads"), [(256, 4), (64, 1), (96, 2), (200, 4), (650, 13), (6, 1), (1, 1)])
def test_heads_are_the_fewest_of_at_most_64_units(hidden: int, heads: int) -> None:
    assert GatedDelta(2, hidden).heads == heads


@pytest.mark.parametrize(("hidden", "heads"), [(256, 3), (256, 0), (4, 8), (67, None)])
def test_heads_that_do_not_fit_are_refused(hidden: int, heads: int | None) -> None:
    with pytest.raises(ConfigError, match=str(hidden)):
        GatedDelta(2, hidden, heads)


@EVERY
def test_a_state_goes_to_bytes_and_back(name: str, options: dict[str, Any]) -> None:
    state = states.map_leaves(lambda leaf: leaf.numpy(), some_state(make(name, options), 2))
    assert states.same(states.from_bytes(states.to_bytes(state), state), state)


@EVERY
def test_bfloat16_products_leave_the_state_in_float32(name: str, options: dict[str, Any]) -> None:
    cell = make(name, options).float()
    xs, start = numbers(2, 40, 3).float(), some_state(cell, 2)
    exact, _ = cell.scan(start, xs)
    with torch.autocast("cpu", torch.bfloat16):
        rough, end = cell.scan(start, xs)
    assert {leaf.dtype for leaf in (rough, *states.leaves(end))} == {torch.float32}
    rough.sum().backward()
    assert float((rough - exact).norm().detach() / exact.norm().detach()) < 0.05


@EVERY
def test_gates_are_between_0_and_1_and_no_matrix_carries_the_state(name: str, options: dict[str, Any]) -> None:
    cell = make(name, options)
    gates = cell.gates(some_state(cell, 2), numbers(2, 3))
    for field, values in zip(gates._fields, gates, strict=True):
        assert field == "candidate" or bool(((values > 0) & (values < 1)).all())
    assert cell.recurrent_matrices() == []
    assert {tuple(matrix.shape) for matrix in cell.input_matrices()} == {(4, 3)}


def test_a_gated_delta_state_has_a_size_of_its_own() -> None:
    state = GatedDelta(2, 128).init_state(3)
    assert isinstance(state, GatedDeltaState)
    assert states.nbytes(states.map_leaves(lambda leaf: leaf.numpy(), state)) == 3 * 4 * (2 * 64 * 64 + 3 * 3 * 128)
