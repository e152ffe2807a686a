"""Cells against torch.nn, finite differences, and their own definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ostinato.core.state import leaves
from ostinato.nn import initialise
from ostinato.nn.cells import Cell, cells
from ostinato.nn.cells.lstm import LSTM
from ostinato.nn.unroll import Stack, unroll

VARIANTS = [(name, {}) for name in cells] + [("rnn", {"activation": "relu"})]


def make(name: str, options: dict[str, Any], inputs: int = 4, hidden: int = 3) -> Cell:
    torch.manual_seed(0)
    cell = cells[name](inputs, hidden, **options).double()
    for parameter in cell.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return cell


def sequence(rows: int = 2, steps: int = 9, size: int = 4) -> torch.Tensor:
    return torch.randn(rows, steps, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def theirs(name: str, cell: Any, options: dict[str, Any]) -> torch.nn.Module:
    """torch.nn's module with the weights of our cell; our one bias is the sum of its two."""
    kind = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[name]
    extra = {"nonlinearity": options["activation"]} if options else {}
    module = kind(cell.input_size, cell.hidden_size, batch_first=True, **extra).double()
    with torch.no_grad():
        module.weight_ih_l0.copy_(cell.from_input.weight)
        module.weight_hh_l0.copy_(cell.from_hidden.weight)
        module.bias_ih_l0.copy_(cell.from_input.bias)
        module.bias_hh_l0.copy_(0 if cell.from_hidden.bias is None else cell.from_hidden.bias)
    return module


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_a_cell_agrees_with_torch_on_the_same_weights(name: str, options: dict[str, Any]) -> None:
    cell, xs = make(name, options), sequence()
    expected, last = theirs(name, cell, options)(xs)
    for read in (cell.scan, Cell.scan.__get__(cell)):  # the fast way and the loop of steps
        outputs, state = read(cell.init_state(2), xs)
        torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-12)
        for ours, other in zip(leaves(state), last if isinstance(last, tuple) else (last,), strict=True):
            torch.testing.assert_close(ours, other[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_a_scan_begins_where_the_state_says(name: str, options: dict[str, Any]) -> None:
    cell, xs = make(name, options), sequence()
    whole, end = cell.scan(cell.init_state(2), xs)
    first, middle = cell.scan(cell.init_state(2), xs[:, :4])
    second, last = cell.scan(middle, xs[:, 4:])
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole, rtol=0, atol=1e-12)
    for one, other in zip(leaves(last), leaves(end), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
@pytest.mark.parametrize("fast", [True, False], ids=["scan", "steps"])
def test_gradients_agree_with_finite_differences(name: str, options: dict[str, Any], fast: bool) -> None:
    cell, xs = make(name, options), sequence(steps=4).requires_grad_()
    starts = [torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in leaves(cell.init_state(2))]

    def read(xs: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        state = type(cell.init_state(2))(*rest[: len(starts)])
        outputs, last = cell.scan(state, xs) if fast else Cell.scan(cell, state, xs)
        return torch.cat([outputs.flatten(), *(leaf.flatten() for leaf in leaves(last))])

    assert torch.autograd.gradcheck(read, (xs, *starts, *cell.parameters()))


def test_the_forget_bias_falls_on_the_forget_gate_alone() -> None:
    cell = LSTM(4, 3)
    torch.nn.init.zeros_(cell.from_input.weight)
    torch.nn.init.zeros_(cell.from_hidden.weight)
    torch.nn.init.zeros_(cell.from_input.bias)
    cell.set_forget_bias(2.0)
    gates = cell.gates(cell.init_state(1), torch.zeros(1, 4))
    assert torch.allclose(gates.forget, torch.tensor(1 / (1 + torch.e**-2.0)))
    assert torch.allclose(gates.input, torch.tensor(0.5))
    assert torch.allclose(gates.output, torch.tensor(0.5))
    assert torch.allclose(gates.candidate, torch.tensor(0.0))


@pytest.mark.parametrize("name", list(cells))
def test_orthogonal_initialisation_is_orthogonal_for_every_gate(name: str) -> None:
    cell = cells[name](5, 6)
    initialise.cell_(cell, "orthogonal")
    matrices = cell.recurrent_matrices()
    assert len(matrices) == cell.from_hidden.weight.shape[0] // 6
    for matrix in matrices:
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(6), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", list(cells))
def test_the_gates_of_an_unrolled_cell_are_those_of_its_steps(name: str) -> None:
    cell, xs = make(name, {}), sequence()
    outputs, state, gates = unroll(cell, cell.init_state(2), xs)
    expected, end = Cell.scan(cell, cell.init_state(2), xs)
    torch.testing.assert_close(torch.stack(outputs, dim=1), expected)
    assert len(gates) == 9
    torch.testing.assert_close(gates[0][0], cell.gates(cell.init_state(2), xs[:, 0])[0])
    torch.testing.assert_close(state[0], end[0])


@pytest.mark.parametrize(("residual", "layer_norm"), [(True, False), (False, True), (True, True)])
def test_residual_and_layer_norm_are_what_the_docstring_says(residual: bool, layer_norm: bool) -> None:
    torch.manual_seed(0)
    stack = Stack(cells["gru"], 3, 3, 2, residual=residual, layer_norm=layer_norm).double()
    xs = sequence(size=3)
    outputs, _ = stack.scan(stack.init_state(2), xs)
    expected = xs
    for cell in stack.cells:
        ys, _ = cell.scan(cell.init_state(2), expected)
        if layer_norm:
            spread = (ys.var(dim=-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
            ys = (ys - ys.mean(dim=-1, keepdim=True)) / spread
        expected = ys + expected if residual else ys
    torch.testing.assert_close(outputs, expected)


def test_two_plain_layers_agree_with_two_layers_of_torch() -> None:
    torch.manual_seed(0)
    stack = Stack(cells["lstm"], 4, 3, 2).double()
    module = torch.nn.LSTM(4, 3, 2, batch_first=True).double()
    with torch.no_grad():
        for layer, cell in enumerate(stack.cells):
            getattr(module, f"weight_ih_l{layer}").copy_(cell.from_input.weight)
            getattr(module, f"weight_hh_l{layer}").copy_(cell.from_hidden.weight)
            getattr(module, f"bias_ih_l{layer}").copy_(cell.from_input.bias)
            getattr(module, f"bias_hh_l{layer}").zero_()
    torch.testing.assert_close(stack.scan(stack.init_state(2), sequence())[0], module(sequence())[0])


def test_dropout_falls_on_inputs_and_outputs_and_never_on_the_recurrence() -> None:
    """With all of a layer's inputs dropped, what remains is driven by the recurrence alone."""
    torch.manual_seed(0)
    stack = Stack(cells["rnn"], 3, 400, 1, dropout=0.5)
    stack.train()
    outputs, state = stack.scan(stack.init_state(1), torch.ones(1, 1, 3))
    assert 0.3 < float((outputs == 0).float().mean()) < 0.7  # about half the outputs are dropped
    assert float((state.layers[0].hidden == 0).float().mean()) < 0.05  # the state is whole
