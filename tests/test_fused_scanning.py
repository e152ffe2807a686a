"""Reading whole sequences by the kernels within torch's graph, against the cells' own scan in float32."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ostinato.kernels import simd
from ostinato.nn.cells import Cell, cells
from ostinato.nn.fused.cells import KERNELS
from ostinato.nn.fused.scanning import scanner_of
from ostinato.nn.networks import make_cell
from ostinato.nn.options import KINDS
from ostinato.nn.unroll import Stack

pytestmark = pytest.mark.skipif(not simd.HAS_BF16, reason="this processor has no bfloat16 instructions")

READERS = [name.split() for name in KERNELS if not name.startswith("min-")]
"""Kinds, with the activation of a simple recurrent network."""

ROUNDED = {"lstm-layer-norm": 0.03, "rnn relu": 0.1}
"""A norm of small sums makes what was rounded larger, and at its kink relu has one gradient or the other."""


def cell_of(kind: str, activation: str = "", reads: int = 9, size: int = 11, **options: Any) -> Cell:
    torch.manual_seed(3)
    given = {**options, **({"activation": activation} if activation else {})}
    cell = cells[kind](reads, size, **given)
    with torch.no_grad():
        for parameter in cell.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    assert isinstance(cell, Cell)
    return cell.train()


def by_kernels(cell: Cell, xs: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        scanner = scanner_of(cell, xs)
        assert scanner is not None
        return scanner.read(cell, xs)


def by_torch(cell: Cell, xs: Tensor) -> Tensor:
    outputs, _ = cell.scan(cell.init_state(len(xs)), xs)
    return outputs


def found(read: Any, cell: Cell, xs: Tensor, weight: Tensor) -> list[Tensor]:
    """Outputs, and the gradients of a weighted sum of them by the inputs and every parameter."""
    wanted = [xs, *cell.parameters()]
    outputs = read(cell, xs)
    return [outputs.float().detach(), *torch.autograd.grad((outputs.float() * weight).sum(), wanted)]


def inputs(rows: int, steps: int, reads: int = 9, size: int = 11, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    xs = torch.randn(rows, steps, reads, generator=generator).requires_grad_()
    return xs, torch.randn(rows, steps, size, generator=generator)


def apart(left: Tensor, right: Tensor) -> float:
    return float((left.detach() - right.detach()).norm() / right.detach().norm().clamp(min=1e-3))


@pytest.mark.parametrize("kind", READERS, ids=" ".join)
@pytest.mark.parametrize(("rows", "steps", "threads"), [(5, 7, 1), (3, 1, 2), (1, 4, 3)])
def test_outputs_and_gradients_are_those_of_the_scan(kind: list[str], rows: int, steps: int, threads: int) -> None:
    cell, (xs, weight) = cell_of(*kind), inputs(rows, steps)
    many, before = ROUNDED.get(" ".join(kind), 0.01), torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        ours, theirs = (found(read, cell, xs, weight) for read in (by_kernels, by_torch))
    finally:
        torch.set_num_threads(before)
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        assert apart(one, other) < many


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_two_biases_have_the_same_gradient(kind: str) -> None:
    cell, (xs, weight) = cell_of(kind, biases=2), inputs(4, 3)
    ours, theirs = (found(read, cell, xs, weight) for read in (by_kernels, by_torch))
    assert all(apart(one, other) < 0.01 for one, other in zip(ours, theirs, strict=True))


@given(shapes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=5), data=st.data())
@settings(max_examples=30, deadline=None)
def test_readings_that_share_memory_do_not_disturb_each_other(
    shapes: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Read one after the other, then learnt from in any order: what each gives alone."""
    cell = cell_of("lstm")
    given_ = [inputs(*shape, seed=number) for number, shape in enumerate(shapes)]
    alone = [found(by_kernels, cell_of("lstm"), xs, weight) for xs, weight in given_]
    outputs = [by_kernels(cell, xs) for xs, _ in given_]
    for number in data.draw(st.permutations(range(len(shapes)))):
        xs, weight = given_[number]
        gradients = torch.autograd.grad((outputs[number].float() * weight).sum(), [xs, *cell.parameters()])
        for one, other in zip([outputs[number].float().detach(), *gradients], alone[number], strict=True):
            assert torch.equal(one, other)


def test_rows_alone_give_what_they_give_together() -> None:
    cell, (xs, weight) = cell_of("gru"), inputs(6, 5)
    together = found(by_kernels, cell, xs, weight)
    for row in range(6):
        alone = found(by_kernels, cell, xs[row : row + 1].detach().requires_grad_(), weight[row : row + 1])
        torch.testing.assert_close(alone[0][0], together[0][row], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(alone[1][0], together[1][row], atol=1e-5, rtol=1e-5)


def stack_of(kind: str) -> Stack:
    torch.manual_seed(1)
    chosen = KINDS[kind](hidden=12, layers=2, dropout=0.0, bidirectional=True)
    return Stack(lambda reads, size: make_cell(kind, chosen, reads, size), 9, chosen).train()


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_stack_reads_both_ways_and_padding_changes_nothing(kind: str) -> None:
    stack, (xs, _) = stack_of(kind), inputs(4, 8)
    lengths = torch.tensor([8, 3, 1, 5])
    with torch.autocast("cpu", torch.bfloat16):
        outputs = stack.read(xs, lengths).float()
        longer = torch.cat([xs, torch.full((4, 3, 9), 1e3)], dim=1)
        padded = stack.read(longer, lengths).float()[:, :8]
    plain = stack.eval().read(xs, lengths)
    there = torch.arange(8) < lengths[:, None]
    assert apart(outputs[there], plain[there]) < 0.02
    assert torch.equal(outputs[there], padded[there])


def test_what_the_kernels_do_not_know_is_left_to_torch() -> None:
    cell, (xs, _) = cell_of("lstm"), inputs(2, 3)
    assert scanner_of(cell, xs) is None  # float32
    with torch.autocast("cpu", torch.bfloat16):
        assert scanner_of(cell, xs) is not None
        assert scanner_of(cell_of("min-gru"), xs) is None  # no recurrent matrix: the products are all there is
        assert scanner_of(cells["gated-delta"](9, 16).train(), xs) is None
        assert scanner_of(cell_of("rnn", "gelu"), xs) is None
        assert scanner_of(cell, xs[:, :0]) is None
        with torch.no_grad():
            assert scanner_of(cell, xs) is None
        cell.from_hidden.weight.requires_grad_(False)
        assert scanner_of(cell, xs) is None
        assert scanner_of(cell_of("lstm").eval(), xs) is None
    with torch.autocast("cpu", torch.float16):
        assert scanner_of(cell_of("lstm"), xs) is None


def test_weights_that_changed_or_moved_and_copies_of_a_cell_are_read_as_they_are() -> None:
    cell, (xs, weight) = cell_of("lstm"), inputs(3, 4)
    first = found(by_kernels, cell, xs, weight)
    twin = copy.deepcopy(cell)
    with torch.no_grad():
        cell.from_input.weight.mul_(2)
    changed = found(by_kernels, cell, xs, weight)
    assert apart(changed[0], first[0]) > 0.05
    assert apart(changed[0], by_torch(cell, xs).detach()) < 0.01
    assert all(map(torch.equal, found(by_kernels, twin, xs, weight), first))
    cell.from_input.weight.data = twin.from_input.weight.detach().clone()
    assert all(map(torch.equal, found(by_kernels, cell, xs, weight), first))
    cell.from_input.bias = torch.nn.Parameter(twin.from_input.bias.detach() + 1)
    assert apart(by_kernels(cell, xs), by_torch(cell, xs)) < 0.01


def test_a_second_gradient_of_the_same_reading_is_refused() -> None:
    cell, (xs, _) = cell_of("lstm"), inputs(2, 3)
    outputs = by_kernels(cell, xs)
    outputs.sum().backward(retain_graph=True)
    with pytest.raises(AssertionError, match="asked for twice"):
        outputs.sum().backward()
