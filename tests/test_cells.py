"""Cells against torch.nn, finite differences, and their own definition. Their papers: test_cells_papers.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ostinato.core.state import leaves, map_leaves
from ostinato.nn import initialise
from ostinato.nn.cells import Cell, ForgetGate, cells
from ostinato.nn.cells.recurrent import RecurrentCell
from ostinato.nn.unroll import unroll

TORCH = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
ACTIVATIONS = [("rnn", {"activation": activation}) for activation in ("relu", "sigmoid", "gelu")]
RECURRENT = [name for name in cells if issubclass(cells[name], RecurrentCell)]
BIASED = [(name, {"biases": count}) for name in RECURRENT for count in (1, 2)]
VARIANTS = [*BIASED, *ACTIVATIONS, *((name, {}) for name in cells if name not in RECURRENT)]


def make(name: str, options: dict[str, Any], inputs: int = 4, hidden: int = 3) -> Cell:
    """A cell in float64 with random weights, biases and gains."""
    torch.manual_seed(0)
    cell = cells[name](inputs, hidden, **options).double()
    for parameter in cell.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return cell


def sequence(rows: int = 2, steps: int = 9, size: int = 4) -> torch.Tensor:
    return torch.randn(rows, steps, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def theirs(name: str, cell: Any, options: dict[str, Any]) -> torch.nn.Module:
    """torch.nn's module with the weights of our cell; one bias is the sum of its two."""
    extra = {"nonlinearity": options["activation"]} if "activation" in options else {}
    module = TORCH[name](cell.input_size, cell.hidden_size, batch_first=True, **extra).double()
    with torch.no_grad():
        module.weight_ih_l0.copy_(cell.from_input.weight)
        module.weight_hh_l0.copy_(cell.from_hidden.weight)
        module.bias_ih_l0.copy_(cell.from_input.bias)
        module.bias_hh_l0.zero_()
        if options.get("biases") == 2:
            module.bias_hh_l0.copy_(cell.from_hidden.bias)
        elif name == "gru":
            module.bias_hh_l0[6:] = cell.candidate_bias
    return module


def steps(cell: Cell, state: Any, xs: torch.Tensor) -> tuple[torch.Tensor, Any]:
    """The definition: a loop of `step`."""
    return Cell.scan(cell, state, xs)


def same(ours: Any, other: Any) -> None:
    for one, another in zip(leaves(ours), leaves(other), strict=True):
        torch.testing.assert_close(one, another, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "options"),
    [variant for variant in BIASED if variant[0] in TORCH] + [("rnn", {"activation": "relu"})],
)
def test_a_cell_agrees_with_torch_on_the_same_weights(name: str, options: dict[str, Any]) -> None:
    cell, xs = make(name, options), sequence()
    expected, last = theirs(name, cell, options)(xs)
    for read in (cell.scan, Cell.scan.__get__(cell)):  # the fast way and the loop of steps
        outputs, state = read(cell.init_state(2), xs)
        torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-12)
        same(state, tuple(part[0] for part in last) if isinstance(last, tuple) else last[0])


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_a_scan_equals_a_loop_of_steps_and_begins_where_the_state_says(name: str, options: dict[str, Any]) -> None:
    cell, xs = make(name, options), sequence()
    whole, end = steps(cell, cell.init_state(2), xs)
    scanned, last = cell.scan(cell.init_state(2), xs)
    same((scanned, last), (whole, end))
    first, middle = cell.scan(cell.init_state(2), xs[:, :4])
    second, last = cell.scan(middle, xs[:, 4:])
    same((torch.cat([first, second], dim=1), last), (whole, end))


@pytest.mark.parametrize(("name", "options"), VARIANTS)
@pytest.mark.parametrize("fast", [True, False], ids=["scan", "steps"])
def test_gradients_agree_with_finite_differences(name: str, options: dict[str, Any], fast: bool) -> None:
    cell, xs = make(name, options, 3, 2), sequence(steps=3, size=3).requires_grad_()
    start = map_leaves(lambda leaf: torch.randn_like(leaf).requires_grad_(), cell.init_state(2))

    def read(xs: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        given = iter(rest)
        state = map_leaves(lambda _: next(given), start)
        outputs, last = cell.scan(state, xs) if fast else steps(cell, state, xs)
        return torch.cat([outputs.flatten(), *(leaf.flatten() for leaf in leaves(last))])

    assert torch.autograd.gradcheck(read, (xs, *leaves(start), *cell.parameters()))


@pytest.mark.parametrize("name", RECURRENT)
def test_two_biases_are_one_that_was_split(name: str) -> None:
    """Every bias beside U is moved to the one that stays: nothing changes. In the GRU the candidate's is another."""
    two, one, xs = make(name, {"biases": 2}), make(name, {"biases": 1}), sequence()
    moved = dict(two.named_parameters())
    beside = moved.pop("from_hidden.bias") if "from_hidden.bias" in moved else moved.pop("norm_hidden.bias")
    stays = "from_input.bias" if "from_input.bias" in moved else "norm_input.bias"
    if name == "gru":
        moved["candidate_bias"] = beside[6:]
        beside = torch.cat([beside[:6], torch.zeros(3, dtype=beside.dtype)])
    moved[stays] = moved[stays] + beside
    assert moved.keys() == dict(one.named_parameters()).keys()
    with torch.no_grad():
        for key, value in one.named_parameters():
            value.copy_(moved[key])
    same(one.scan(one.init_state(2), xs), two.scan(two.init_state(2), xs))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", [name for name in RECURRENT if issubclass(cells[name], ForgetGate)])
def test_the_forget_bias_falls_on_the_forget_gate_alone(name: str, count: int) -> None:
    cell = cells[name](4, 3, biases=count)  # type: ignore[call-arg]
    for key, parameter in cell.named_parameters():
        if "norm" not in key or key.endswith("bias"):
            torch.nn.init.zeros_(parameter)
    for bias in cell.forget_biases():  # type: ignore[attr-defined]
        torch.nn.init.ones_(bias)  # what stood there before counts for nothing
    cell.set_forget_bias(2.0)  # type: ignore[attr-defined]
    gates = cell.gates(cell.init_state(1), torch.zeros(1, 4))
    forget = 1 / (1 + torch.e**-2.0)
    torch.testing.assert_close(gates.forget, torch.full((1, 3), forget))
    torch.testing.assert_close(gates.input, torch.full((1, 3), 1 - forget if name == "lstm-coupled" else 0.5))
    torch.testing.assert_close(gates.output, torch.full((1, 3), 0.5))
    torch.testing.assert_close(gates.candidate, torch.zeros(1, 3))


def test_the_cells_with_a_forget_gate_are_known() -> None:
    found = {name for name in RECURRENT if issubclass(cells[name], ForgetGate)}
    assert found == {"lstm", "lstm-peephole", "lstm-coupled", "lstm-layer-norm"}


@pytest.mark.parametrize("name", RECURRENT)
def test_orthogonal_initialisation_is_orthogonal_for_every_gate(name: str) -> None:
    cell = cells[name](5, 6)
    initialise.cell_(cell, "orthogonal")
    matrices = cell.recurrent_matrices()
    assert len(matrices) == cell.from_hidden.weight.shape[0] // 6  # type: ignore[union-attr]
    for matrix in matrices:
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(6), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", RECURRENT)
def test_the_matrices_of_a_cell_are_views_of_its_weights_one_a_gate(name: str) -> None:
    cell = cells[name](5, 6)
    for weight, matrices in (
        (cell.from_input.weight, cell.input_matrices()),
        (cell.from_hidden.weight, cell.recurrent_matrices()),
    ):
        with torch.no_grad():
            for gate, matrix in enumerate(matrices):
                matrix.fill_(gate)
        blocks = weight.reshape(len(matrices), 6, -1)
        assert all((block == gate).all() for gate, block in enumerate(blocks))


def test_initialisation_leaves_the_gains_of_a_norm_at_one() -> None:
    cell: Any = cells["lstm-layer-norm"](5, 6)
    initialise.cell_(cell, "orthogonal")
    for norm in (cell.norm_input, cell.norm_hidden, cell.norm_cell):
        assert (norm.weight == 1).all()
        assert norm.bias is None or (norm.bias == 0).all()


@pytest.mark.parametrize("name", list(cells))
def test_the_gates_of_an_unrolled_cell_are_those_of_its_steps(name: str) -> None:
    cell, xs = make(name, {}), sequence()
    outputs, states, gates = unroll(cell, cell.init_state(2), xs)
    expected, end = steps(cell, cell.init_state(2), xs)
    torch.testing.assert_close(torch.stack(outputs, dim=1), expected)
    assert len(gates) == 9
    torch.testing.assert_close(gates[0][0], cell.gates(cell.init_state(2), xs[:, 0])[0])
    torch.testing.assert_close(states[-1][0], end[0])
