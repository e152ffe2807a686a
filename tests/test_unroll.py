"""Stacks of cells: connections by hand, noise of training, directions; and how weights begin."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError
from ostinato.core.state import leaves
from ostinato.nn import initialise, regularise
from ostinato.nn.cells import Cell, cells
from ostinato.nn.cells.recurrent import RecurrentCell
from ostinato.nn.feed_forward import FeedForward, inner_size
from ostinato.nn.options import HiddenOptions, RecurrentOptions, ScanOptions
from ostinato.nn.unroll import Stack, reversal, turn, unroll

RECURRENT = [name for name in cells if issubclass(cells[name], RecurrentCell)]


def make(name: str, inputs: int = 4, hidden: int = 3, **options: Any) -> Stack:
    torch.manual_seed(0)
    stack = Stack(cells[name], inputs, HiddenOptions(**({"hidden": hidden, "dropout": 0.0} | options))).double()
    for parameter in stack.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return stack


def sequence(rows: int = 2, steps: int = 9, size: int = 4) -> torch.Tensor:
    return torch.randn(rows, steps, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def outputs_of(stack: Stack, xs: torch.Tensor) -> torch.Tensor:
    outputs, _ = stack.scan(stack.init_state(len(xs)), xs)
    assert outputs.shape[-1] == stack.output_size
    return outputs


def layer(stack: Stack, number: int, xs: torch.Tensor) -> torch.Tensor:
    """The outputs of one layer's cell, by a loop of its steps."""
    cell = stack.cells[number]
    outputs, _ = Cell.scan(cell, cell.init_state(len(xs)), xs)
    return outputs


@pytest.mark.parametrize(("residual", "layer_norm"), [(True, False), (False, True), (True, True)])
def test_residual_and_layer_norm_are_what_the_docstring_says(residual: bool, layer_norm: bool) -> None:
    stack = make("gru", 3, 3, layers=2, residual=residual, layer_norm=layer_norm)
    for norm in stack.norms:
        if isinstance(norm, torch.nn.LayerNorm):
            torch.nn.init.ones_(norm.weight)
            torch.nn.init.zeros_(norm.bias)
    xs = sequence(size=3)
    expected = xs
    for number in range(2):
        ys = layer(stack, number, expected)
        if layer_norm:
            spread = (ys.var(dim=-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
            ys = (ys - ys.mean(dim=-1, keepdim=True)) / spread
        expected = ys + expected if residual else ys
    torch.testing.assert_close(outputs_of(stack, xs), expected)


def test_skip_hands_the_inputs_to_every_layer_and_every_layer_to_the_output() -> None:
    stack, xs = make("rnn", layers=3, skip=True), sequence()
    first = layer(stack, 0, xs)
    second = layer(stack, 1, torch.cat([first, xs], dim=-1))
    third = layer(stack, 2, torch.cat([second, xs], dim=-1))
    torch.testing.assert_close(outputs_of(stack, xs), torch.cat([first, second, third], dim=-1))


def test_with_skip_the_residual_is_what_the_layer_below_handed_on() -> None:
    stack, xs = make("rnn", layers=2, skip=True, residual=True), sequence()
    first = layer(stack, 0, xs)
    second = first + layer(stack, 1, torch.cat([first, xs], dim=-1))
    torch.testing.assert_close(outputs_of(stack, xs), torch.cat([first, second], dim=-1))


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_a_feed_forward_block_is_the_published_equation(activation: str) -> None:
    stack, xs = make("gru", feed_forward=activation), sequence()
    block, read = stack.blocks[0], layer(stack, 0, xs)
    assert isinstance(block, FeedForward)
    inner = inner_size(3, activation == "swiglu")
    first, second = read @ block.inner.weight[:inner].T, read @ block.inner.weight[inner:].T
    hidden = {
        "relu": lambda: first.clamp(min=0),
        "gelu": lambda: first * 0.5 * (1 + torch.erf(first / 2**0.5)),
        "swiglu": lambda: first / (1 + torch.exp(-first)) * second,
    }[activation]()
    torch.testing.assert_close(outputs_of(stack, xs), read + hidden @ block.outer.weight.T)


def test_gated_and_plain_blocks_have_about_as_many_weights() -> None:
    sizes = [sum(p.numel() for p in FeedForward(240, kind).parameters()) for kind in ("relu", "gelu", "swiglu")]
    assert sizes == [2 * 4 * 240 * 240, 2 * 4 * 240 * 240, 3 * 240 * (8 * 240 // 3)]


def test_two_plain_layers_agree_with_two_layers_of_torch() -> None:
    stack = make("lstm", layers=2)
    module = torch.nn.LSTM(4, 3, 2, batch_first=True).double()
    with torch.no_grad():
        for number, cell in enumerate(stack.cells):
            copy_to_torch(module, cell, f"l{number}")
    torch.testing.assert_close(outputs_of(stack, sequence()), module(sequence())[0])


def copy_to_torch(module: torch.nn.Module, cell: Any, suffix: str) -> None:
    getattr(module, f"weight_ih_{suffix}").copy_(cell.from_input.weight)
    getattr(module, f"weight_hh_{suffix}").copy_(cell.from_hidden.weight)
    getattr(module, f"bias_ih_{suffix}").copy_(cell.from_input.bias)
    getattr(module, f"bias_hh_{suffix}").copy_(0 if cell.from_hidden.bias is None else cell.from_hidden.bias)


def test_a_bidirectional_stack_agrees_with_torch_on_rows_of_several_lengths() -> None:
    stack, xs, lengths = make("lstm", layers=2, bidirectional=True), sequence(3), torch.tensor([9, 1, 6])
    module = torch.nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True).double()
    with torch.no_grad():
        for number, (cell, back) in enumerate(zip(stack.cells, stack.backwards, strict=True)):
            copy_to_torch(module, cell, f"l{number}")
            copy_to_torch(module, back, f"l{number}_reverse")
    packed = torch.nn.utils.rnn.pack_padded_sequence(xs, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(module(packed)[0], batch_first=True)
    outputs = stack.read(xs, lengths)
    assert outputs.shape[-1] == stack.output_size == 6
    for row, length in enumerate(lengths):
        torch.testing.assert_close(outputs[row, :length], expected[row, :length])


def test_what_lies_beyond_a_row_never_changes_it() -> None:
    stack, lengths = make("gru", layers=2, bidirectional=True, residual=True), torch.tensor([5, 3])
    one, other = sequence(steps=7), sequence(steps=7)
    other[0, 5:], other[1, 3:] = 9.0, -9.0
    a, b = stack.read(one, lengths), stack.read(other, lengths)
    torch.testing.assert_close(a[0, :5], b[0, :5])
    torch.testing.assert_close(a[1, :3], b[1, :3])


def test_one_direction_can_read_whole_sequences_too() -> None:
    stack, xs = make("gru", layers=2), sequence()
    torch.testing.assert_close(stack.read(xs, torch.tensor([9, 9])), outputs_of(stack, xs))


@settings(max_examples=20, deadline=None)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_turning_rows_around_twice_changes_nothing(lengths: list[int]) -> None:
    xs = sequence(len(lengths), 6)
    turned = reversal(torch.tensor(lengths), 6)
    torch.testing.assert_close(turn(turn(xs, turned), turned), xs)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(turn(xs, turned)[row, :length], xs[row, :length].flip(0))
        torch.testing.assert_close(turn(xs, turned)[row, length:], xs[row, length:])


def test_a_bidirectional_stack_refuses_to_go_step_by_step() -> None:
    stack = make("gru", bidirectional=True)
    with pytest.raises(ConfigError, match="whole sequences"):
        stack.scan(stack.init_state(2), sequence())


def test_dropout_falls_on_inputs_and_outputs_and_never_on_the_recurrence() -> None:
    stack = make("rnn", 3, 400, dropout=0.5).float()
    outputs, state = stack.scan(stack.init_state(1), torch.ones(1, 1, 3))
    assert 0.3 < float((outputs == 0).float().mean()) < 0.7  # about half the outputs are dropped
    assert float((state.layers[0].hidden == 0).float().mean()) < 0.05  # the state is whole


@pytest.mark.parametrize("fixed", [True, False])
def test_a_variational_mask_is_one_for_all_steps_and_another_for_each_row(fixed: bool) -> None:
    torch.manual_seed(0)
    dropped = regularise.Dropout(0.5, fixed)(torch.ones(2, 30, 50))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}  # what is kept is scaled by 1 / (1 - 0.5)
    assert bool((dropped == dropped[:, :1]).all()) == fixed
    assert bool((dropped[0] != dropped[1]).any())
    assert 0.4 < float((dropped == 0).float().mean()) < 0.6


def test_a_variational_stack_drops_the_same_units_at_every_step() -> None:
    stack = make("rnn", 4, 60, dropout=0.5, variational=True)
    outputs = outputs_of(stack, sequence())
    zero = outputs == 0
    assert bool((zero == zero[:, :1]).all())
    assert 0 < float(zero.double().mean()) < 1
    assert bool((zero[0] != zero[1]).any())


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 0.87])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_mask_drops_its_share_and_keeps_the_mean(share: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    like = torch.zeros(401, 3, 167, dtype=dtype)
    found = regularise.mask(like, share)
    assert (found.dtype, found.shape) == (dtype, like.shape)
    kept = (found > 0).double().mean(dim=(0, 1))
    spread = (share * (1 - share) / (401 * 3)) ** 0.5
    assert (kept - (1 - share)).abs().max() <= 5 * spread
    values = found[found > 0].double()
    assert values.unique().numel() == 1
    assert float(values[0]) == pytest.approx(1 / (1 - share), rel=5e-3 if dtype == torch.bfloat16 else 1e-4)
    pairs = (found[..., 0] > 0).double() - kept[0], (found[..., 1] > 0).double() - kept[1]
    assert abs(float((pairs[0] * pairs[1]).mean())) < 5 * spread * (share * (1 - share)) ** 0.5 + 1e-6  # independent


def test_whole_words_are_dropped_wherever_they_stand() -> None:
    torch.manual_seed(0)
    ids = torch.randint(0, 20, (3, 40))
    dropped = regularise.drop_words(torch.ones(3, 40, 5), ids, 20, 0.5)
    kept = {word: dropped[ids == word].unique().tolist() for word in ids.unique().tolist()}
    assert all(values in ([0.0], [2.0]) for values in kept.values())
    assert {0.0, 2.0} == {value for values in kept.values() for value in values}


@pytest.mark.parametrize("name", RECURRENT)
def test_dropped_weights_are_the_same_at_every_step_and_gone_in_evaluation(name: str) -> None:
    """The fast scan on dropped weights equals a loop of steps of a cell that has those weights."""
    stack, xs = make(name, weight_dropout=0.4), sequence()
    cell: Any = stack.cells[0]
    before = cell.from_hidden.weight.detach().clone()
    torch.manual_seed(3)
    noisy = outputs_of(stack, xs)
    torch.manual_seed(3)
    dropped = before * regularise.mask(before, 0.4)
    assert cell.from_hidden.weight.equal(before)
    stack.eval()
    whole = outputs_of(stack, xs)
    torch.testing.assert_close(whole, layer(stack, 0, xs))
    with torch.no_grad():
        cell.from_hidden.weight.copy_(dropped)
    torch.testing.assert_close(noisy, layer(stack, 0, xs))
    assert not torch.allclose(noisy, whole)


def test_the_gradient_of_dropped_weights_reaches_the_kept_ones_alone() -> None:
    stack = make("lstm", weight_dropout=0.5)
    cell: Any = stack.cells[0]
    torch.manual_seed(3)
    outputs_of(stack, sequence()).sum().backward()  # type: ignore[no-untyped-call]
    torch.manual_seed(3)
    kept = regularise.mask(cell.from_hidden.weight, 0.5) > 0
    assert cell.from_hidden.weight.grad[~kept].abs().sum() == 0
    assert (cell.from_hidden.weight.grad[kept] != 0).all()


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_dropout_hides_the_same_units_from_the_gates_at_every_step(name: str) -> None:
    """Hiding a unit is a column of zeros in the recurrent matrices, the others scaled; what is carried on is whole."""
    stack, xs = make(name, hidden=8, recurrent_dropout=0.5), sequence(rows=1)
    cell: Any = stack.cells[0]
    torch.manual_seed(5)
    noisy = outputs_of(stack, xs)
    torch.manual_seed(5)
    keep = regularise.mask(torch.ones(1, 8, dtype=torch.float64), 0.5)
    assert 0 < float((keep == 0).double().mean()) < 1
    stack.eval()
    whole = outputs_of(stack, xs)
    torch.testing.assert_close(whole, layer(stack, 0, xs))
    with torch.no_grad():
        cell.from_hidden.weight.mul_(keep)
    torch.testing.assert_close(noisy, layer(stack, 0, xs))


@pytest.mark.parametrize("name", [name for name in cells if name != "gated-delta"])
def test_zoneout_is_a_mean_of_old_and_new_in_evaluation(name: str) -> None:
    """By hand: every number of the state is z times what it was plus 1 - z times what the step makes of it."""
    torch.manual_seed(0)
    stack = Stack(cells[name], 4, ScanOptions(hidden=3, dropout=0.0, zoneout=0.3)).double().eval()
    cell, xs = stack.cells[0], sequence()
    state: Any = cell.init_state(2)
    expected = []
    for x in xs.unbind(1):
        _, after = cell.step(state, x)
        state = type(state)(*(0.3 * old + 0.7 * new for old, new in zip(state, after, strict=True)))
        expected.append(state.hidden)
    outputs, end = stack.scan(stack.init_state(2), xs)
    torch.testing.assert_close(outputs, torch.stack(expected, 1))
    for ours, other in zip(leaves(end.layers[0]), leaves(state), strict=True):
        torch.testing.assert_close(ours, other)


def test_zoneout_in_training_keeps_that_share_of_old_numbers_and_its_mean_is_that_of_evaluation() -> None:
    torch.manual_seed(0)
    old, new = (torch.full((300, 300), 2.0),), (torch.full((300, 300), 5.0),)
    (drawn,) = regularise.zoned(old, new, 0.3, training=True)
    (mean,) = regularise.zoned(old, new, 0.3, training=False)
    assert set(drawn.unique().tolist()) == {2.0, 5.0}
    assert float((drawn == 2).float().mean()) == pytest.approx(0.3, abs=0.01)  # 6 standard errors of 90,000 draws
    torch.testing.assert_close(mean, torch.full((300, 300), 0.3 * 2 + 0.7 * 5))


@pytest.mark.parametrize("name", list(cells))
def test_what_a_probe_looks_at_is_what_a_scan_gives(name: str) -> None:
    stack, xs = make(name, layers=2, skip=True, layer_norm=True, feed_forward="gelu").eval(), sequence()
    looked, layers = stack.look(stack.init_state(2), xs)
    torch.testing.assert_close(looked, outputs_of(stack, xs))
    torch.testing.assert_close(torch.stack(layers[0].outputs, 1), layer(stack, 0, xs))
    assert [len(steps.gates) for steps in layers] == [9, 9]
    cell = stack.cells[0]
    torch.testing.assert_close(layers[0].gates[0][0], cell.gates(cell.init_state(2), xs[:, 0])[0])
    _, end = stack.scan(stack.init_state(2), xs)
    for steps, after in zip(layers, end.layers, strict=True):
        for ours, other in zip(leaves(steps.states[-1]), leaves(after), strict=True):
            torch.testing.assert_close(ours, other)


def test_a_probe_of_zoneout_sees_the_mean_state() -> None:
    stack, xs = make("lstm", zoneout=0.4).eval(), sequence()
    looked, _ = stack.look(stack.init_state(2), xs)
    torch.testing.assert_close(looked, outputs_of(stack, xs))
    outputs, _, _ = unroll(stack.cells[0], stack.cells[0].init_state(2), xs, 0.4)
    torch.testing.assert_close(torch.stack(outputs, 1), looked)


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_matrices_begin_as_asked_gate_by_gate(name: str) -> None:
    torch.manual_seed(0)
    cell = cells[name](5, 40)
    for how in initialise.SCHEMES:
        initialise.cell_(cell, how)
        for matrix in cell.recurrent_matrices():
            if how == "orthogonal":
                torch.testing.assert_close(matrix @ matrix.T, torch.eye(40), rtol=0, atol=1e-5)
            elif how == "identity":
                assert matrix.equal(torch.eye(40))
            else:
                bound = (6 / (40 + 40)) ** 0.5 if how == "glorot" else 40**-0.5
                assert 0.95 * bound < float(matrix.detach().abs().max()) <= bound


@pytest.mark.parametrize("name", [name for name in cells if name != "gated-delta"])
def test_input_matrices_begin_as_asked_gate_by_gate_and_biases_at_zero(name: str) -> None:
    torch.manual_seed(0)
    cell: Any = cells[name](20, 40)
    for how, bound in (("glorot", (6 / (20 + 40)) ** 0.5), ("uniform", 40**-0.5)):
        initialise.cell_(cell, "uniform", how)
        for matrix in cell.input_matrices():
            assert matrix.shape == (40, 20)
            assert 0.95 * bound < float(matrix.detach().abs().max()) <= bound
    if cell.from_input.bias is not None:
        assert cell.from_input.bias.abs().sum() == 0


def test_the_identity_and_relu_keep_a_state_that_nothing_is_added_to() -> None:
    stack = Stack(partial(cells["rnn"], activation="relu"), 4, HiddenOptions(hidden=6, dropout=0.0))  # type: ignore[arg-type]
    cell: Any = stack.cells[0]
    initialise.cell_(cell, "identity")
    start = torch.rand(2, 6)
    _, end = cell.scan(cell.init_state(2)._replace(hidden=start), torch.zeros(2, 50, 4))
    torch.testing.assert_close(end.hidden, start)


def test_options_without_effect_are_refused() -> None:
    for wrong, reason in (({"skip": True}, "two"), ({"variational": True, "dropout": 0.0}, "dropout")):
        with pytest.raises(ValueError, match=reason):
            RecurrentOptions(**wrong)  # type: ignore[arg-type]
