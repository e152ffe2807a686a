"""Learning from word vectors that are moved against the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from classification_toys import config, write
from ostinato.nn.adversarial import opposed
from ostinato.tasks.classification.learner import ClassificationLearner
from ostinato.tasks.classification.task import Classification

LENGTHS = torch.tensor([4, 1, 3])


def vectors(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, 4, 5, generator=generator), torch.randn(3, 4, 5, generator=generator)


@given(share=st.floats(0.001, 0.9), scale=st.floats(1e-4, 1e4))
def test_a_row_is_moved_by_a_share_of_its_length_along_the_gradient(share: float, scale: float) -> None:
    xs, errors = vectors()
    moves = opposed(xs, errors * scale, LENGTHS, share) - xs
    for row, length in enumerate(LENGTHS.tolist()):
        move, way = moves[row, :length].flatten(), errors[row, :length].flatten()
        assert float(move.norm()) == pytest.approx(share * float(xs[row, :length].norm()), rel=1e-3)
        assert float(torch.cosine_similarity(move, way, dim=0)) == pytest.approx(1, abs=1e-4)
        assert (moves[row, length:] == 0).all()


def test_what_is_padding_decides_nothing_and_no_gradient_moves_nothing_far() -> None:
    xs, errors = vectors()
    other, wrong = xs.clone(), errors.clone()
    other[1, 1:], wrong[1, 1:] = 1e3, -1e3
    assert torch.equal(opposed(xs, errors, LENGTHS, 0.1)[1, 0], opposed(other, wrong, LENGTHS, 0.1)[1, 0])
    assert torch.equal(opposed(xs, torch.zeros_like(xs), LENGTHS, 0.1), xs)


def learner(tmp_path: Path, model: dict[str, Any] | None = None, **options: Any) -> ClassificationLearner:
    folder = tmp_path / f"data-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    chosen = config(write(tmp_path / "train"), model={"dropout": 0.0, **(model or {})}, **options)
    Classification().prepare(chosen, folder, lambda _: None)
    return Classification().learner(chosen, folder)


def gradients(of: ClassificationLearner, scale: float = 0.5) -> tuple[float, list[Tensor]]:
    of.network.train()
    loss, _ = of.gradients((), of.batches(0)[0], scale, False)
    return loss, [parameter.grad.clone() for parameter in of.network.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("model", [{}, {"subwords": True}, {"bidirectional": True, "pooling": ("mean", "last")}])
def test_gradients_are_those_of_both_losses_and_the_plain_one_is_told(tmp_path: Path, model: dict[str, Any]) -> None:
    """Against one graph of the two losses, the way found by `torch.autograd.grad`."""
    plain, moved = learner(tmp_path, model), learner(tmp_path, model, adversarial=0.2)
    loss, found = gradients(moved)
    assert loss == gradients(plain)[0]
    network, rows = plain.network, plain.batches(0)[0].rows
    ids, lengths, *grams = plain.texts.batch(rows, plain.device)
    numbers = torch.from_numpy(plain.numbers[rows])
    network.zero_grad()
    xs = network.embed(ids, *grams)
    first = torch.nn.functional.nll_loss(network.of_vectors(xs, lengths), numbers, reduction="sum")
    (way,) = torch.autograd.grad(first, xs, retain_graph=True)
    rows_of = zip(xs.detach(), way, lengths.tolist(), strict=True)
    steps = [0.2 * row[:n].norm() * to[:n] / to[:n].norm() for row, to, n in rows_of]
    step = torch.nn.utils.rnn.pad_sequence(steps, batch_first=True)
    second = torch.nn.functional.nll_loss(network.of_vectors(xs + step, lengths), numbers, reduction="sum")
    (0.5 * (first + second)).backward()
    wanted = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    assert bool(second > first)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_in_bfloat16_it_learns_as_well(tmp_path: Path) -> None:
    narrow, wide = (learner(tmp_path, adversarial=0.1, precision=kind) for kind in ("bf16", "fp32"))
    for one, other in zip(gradients(narrow)[1], gradients(wide)[1], strict=True):
        assert float((one - other).norm()) < 0.05 * float(other.norm()) + 1e-4


def test_gradients_add_up_over_batches(tmp_path: Path) -> None:
    made = learner(tmp_path, adversarial=0.1)
    made.network.train()
    batch = made.batches(0)[0]
    made.gradients((), batch, 1.0, False)
    once = [parameter.grad.clone() for parameter in made.network.parameters() if parameter.grad is not None]
    made.gradients((), batch, 1.0, True)
    twice = [parameter.grad for parameter in made.network.parameters() if parameter.grad is not None]
    for one, other in zip(once, twice, strict=True):
        np.testing.assert_allclose(2 * one.numpy(), other.numpy(), atol=1e-5)
