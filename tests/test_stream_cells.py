"""Cells that step without torch: the same numbers as the cells that were trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ostinato.core import state as states
from ostinato.nn.cells import cells as trained_cells
from ostinato.nn.lm import to_numpy
from ostinato.stream.cells import cells
from ostinato.stream.matrix import Weights

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{kind: (kind, {}) for kind in trained_cells},
    **{f"rnn-{name}": ("rnn", {"activation": name}) for name in ("relu", "sigmoid", "gelu")},
    **{f"{kind}-two-biases": (kind, {"biases": 2}) for kind in trained_cells if kind != "gated-delta"},
    "gated-delta-heads": ("gated-delta", {"heads": 2}),
    "gated-delta-no-window": ("gated-delta", {"heads": 4, "window": 1}),
}


def test_every_trained_cell_can_step_without_torch() -> None:
    assert set(cells) == set(trained_cells)


@pytest.mark.parametrize("name", CASES)
def test_a_cell_gives_the_numbers_of_the_trained_one(name: str) -> None:
    """Outputs and states of nine steps from a start that is not zero, batch 3."""
    kind, options = CASES[name]
    torch.manual_seed(1)
    theirs = trained_cells[kind](5, 4, **options)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    arrays = {key: tensor.numpy() for key, tensor in theirs.state_dict().items()}
    weights = Weights(arrays)
    ours = cells[kind](weights, 5, 4, options)
    assert weights.left_over() == []
    xs = np.random.default_rng(2).normal(size=(3, 9, 5)).astype(np.float32)
    assert states.same(ours.init_state(3), to_numpy(theirs.init_state(3)))
    state, before = ours.init_state(3), theirs.init_state(3)
    with torch.no_grad():
        for place in range(9):
            wanted, before = theirs.step(before, torch.from_numpy(xs[:, place]))
            found, state = ours.advance(state, ours.read(xs[:, place]))
            np.testing.assert_allclose(found, wanted.numpy(), rtol=5e-6, atol=5e-6)
            assert found.dtype == np.float32
            assert found.shape == (3, ours.output_size)
    assert states.same(state, to_numpy(before), atol=2e-5)
