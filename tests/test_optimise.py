"""Schedules, clipping and optimisers against hand arithmetic."""

from __future__ import annotations

import math

import pytest
import torch

from ostinato.core.config import build
from ostinato.core.errors import ConfigError
from ostinato.train import optimise
from ostinato.train.options import TrainOptions


def test_warm_up_rises_linearly_and_cosine_falls_to_zero() -> None:
    options = TrainOptions(learning_rate=0.4, warmup=4)
    rates = [optimise.learning_rate(options, step, 0.0, 1.0) for step in range(6)]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])
    assert optimise.learning_rate(options, 10, 0.5, 1.0) == pytest.approx(0.4 * (1 + math.cos(math.pi / 2)) / 2)
    assert optimise.learning_rate(options, 10, 1.0, 1.0) == pytest.approx(0.0)


def test_constant_and_plateau_take_only_their_factor() -> None:
    for schedule, factor in (("constant", 1.0), ("plateau", 0.25)):
        options = TrainOptions(learning_rate=0.4, schedule=schedule)
        assert optimise.learning_rate(options, 99, 0.9, factor) == pytest.approx(0.4 * factor)


def network_with_gradients(*values: float) -> torch.nn.Module:
    network = torch.nn.Linear(len(values), 1, bias=False)
    network.weight.grad = torch.tensor([list(values)])
    return network


def test_clipping_by_norm_keeps_the_direction() -> None:
    network = network_with_gradients(3.0, 4.0)
    norm = optimise.global_norm(p.grad for p in network.parameters())
    assert norm == pytest.approx(5.0)
    assert optimise.clip(network, TrainOptions(clip="norm", clip_at=1.0), norm) == pytest.approx(1.0)
    assert network.weight.grad.tolist() == [pytest.approx([3 / 5, 4 / 5])]


def test_a_small_norm_is_left_alone() -> None:
    network = network_with_gradients(0.3, 0.4)
    assert optimise.clip(network, TrainOptions(clip="norm", clip_at=1.0), 0.5) == pytest.approx(0.5)
    assert network.weight.grad.tolist() == [pytest.approx([0.3, 0.4])]


def test_clipping_by_value_cuts_each_number() -> None:
    network = network_with_gradients(3.0, -4.0, 0.5)
    after = optimise.clip(network, TrainOptions(clip="value", clip_at=1.0), 5.0)
    assert network.weight.grad.tolist() == [[1.0, -1.0, 0.5]]
    assert after == pytest.approx(math.sqrt(1 + 1 + 0.25))


def test_clipping_may_be_off() -> None:
    network = network_with_gradients(3.0, 4.0)
    assert optimise.clip(network, TrainOptions(clip="off"), 5.0) == 5.0
    assert network.weight.grad.tolist() == [[3.0, 4.0]]


def test_momentum_of_sgd_is_the_published_sum() -> None:
    """v <- 0.5 v + g, w <- w - 0.1 v: after two equal gradients of 1, w = -(0.1 + 0.1 * 1.5)."""
    network = network_with_gradients(1.0)
    torch.nn.init.zeros_(network.weight)
    options = TrainOptions(optimiser="sgd", learning_rate=0.1, momentum=0.5)
    optimiser = optimise.make_optimiser(network, options)
    optimiser.step()
    optimiser.step()
    assert network.weight.item() == pytest.approx(-(0.1 + 0.1 * 1.5))


def test_adamw_decays_matrices_and_not_biases() -> None:
    """With zero gradients only the decay acts: w <- w (1 - rate * decay)."""
    network = torch.nn.Linear(1, 1)
    torch.nn.init.ones_(network.weight)
    torch.nn.init.ones_(network.bias)
    network.weight.grad, network.bias.grad = torch.zeros(1, 1), torch.zeros(1)
    optimise.make_optimiser(network, TrainOptions(optimiser="adamw", learning_rate=0.1, weight_decay=0.5)).step()
    assert network.weight.item() == pytest.approx(1 - 0.1 * 0.5)
    assert network.bias.item() == pytest.approx(1.0)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), "fast"])
def test_a_learning_rate_that_cannot_train_is_refused(rate: object) -> None:
    with pytest.raises(ConfigError, match="learning_rate"):
        build(TrainOptions, {"learning_rate": rate}, "train")
