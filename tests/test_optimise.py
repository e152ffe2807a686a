"""Schedules, clipping, optimisers and averages against hand arithmetic and torch.optim."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.config import build
from ostinato.core.errors import ConfigError
from ostinato.kernels import update
from ostinato.train import optimise
from ostinato.train.average import Average, Trigger
from ostinato.train.flat import ALIGN, Flat
from ostinato.train.optimise import Optimiser
from ostinato.train.options import TrainOptions
from ostinato.train.sweeps import KernelSweeps, Sweeps, TorchSweeps
from ostinato.train.threads import Threads

BOTH = pytest.mark.parametrize("sweeps", [KernelSweeps(), TorchSweeps()], ids=["kernels", "torch"])


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


def with_gradients(*values: float, sweeps: Sweeps | None = None, **options: Any) -> Optimiser:
    """An optimiser of one weight matrix of ones whose gradient is given."""
    network = torch.nn.Linear(len(values), 1, bias=False)
    torch.nn.init.ones_(network.weight)
    optimiser = Optimiser(Flat(network), TrainOptions(**options), sweeps)
    network.weight.grad.copy_(torch.tensor([list(values)]))
    return optimiser


def weights(optimiser: Optimiser, count: int) -> list[float]:
    return optimiser.flat.values[:count].tolist()


@BOTH
def test_clipping_by_norm_keeps_the_direction(sweeps: Sweeps) -> None:
    optimiser = with_gradients(3.0, 4.0, sweeps=sweeps, optimiser="sgd", clip="norm", clip_at=1.0)
    norm, after = optimiser.norms()
    assert (norm, after) == (pytest.approx(5.0), pytest.approx(1.0))
    optimiser.step(0.5, norm)
    assert weights(optimiser, 2) == pytest.approx([1 - 0.5 * 3 / 5, 1 - 0.5 * 4 / 5])


@BOTH
def test_a_small_norm_is_left_alone(sweeps: Sweeps) -> None:
    optimiser = with_gradients(0.3, 0.4, sweeps=sweeps, optimiser="sgd", clip="norm", clip_at=1.0)
    assert optimiser.norms() == (pytest.approx(0.5), pytest.approx(0.5))
    optimiser.step(0.5, 0.5)
    assert weights(optimiser, 2) == pytest.approx([1 - 0.5 * 0.3, 1 - 0.5 * 0.4])


@BOTH
def test_clipping_by_value_cuts_each_number(sweeps: Sweeps) -> None:
    optimiser = with_gradients(3.0, -4.0, 0.5, sweeps=sweeps, optimiser="sgd", clip="value", clip_at=1.0)
    assert optimiser.norms() == (pytest.approx(math.sqrt(9 + 16 + 0.25)), pytest.approx(math.sqrt(1 + 1 + 0.25)))
    optimiser.step(0.5)
    assert weights(optimiser, 3) == pytest.approx([1 - 0.5, 1 + 0.5, 1 - 0.5 * 0.5])


@BOTH
def test_clipping_may_be_off(sweeps: Sweeps) -> None:
    optimiser = with_gradients(3.0, 4.0, sweeps=sweeps, optimiser="sgd", clip="off")
    assert optimiser.norms() == (pytest.approx(5.0), pytest.approx(5.0))
    optimiser.step(0.5, 5.0)
    assert weights(optimiser, 2) == pytest.approx([1 - 0.5 * 3, 1 - 0.5 * 4])


@BOTH
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_shows_in_the_norm(bad: float, sweeps: Sweeps) -> None:
    for clip in ("norm", "value"):
        assert not math.isfinite(with_gradients(1.0, bad, 2.0, sweeps=sweeps, clip=clip).norms()[0])


def test_momentum_of_sgd_is_the_published_sum() -> None:
    """v <- 0.5 v + g, w <- w - 0.1 v: after two equal gradients of 1, w has lost 0.1 + 0.1 * 1.5."""
    optimiser = with_gradients(1.0, optimiser="sgd", momentum=0.5)
    optimiser.step(0.1)
    optimiser.step(0.1)
    assert weights(optimiser, 1) == pytest.approx([1 - (0.1 + 0.1 * 1.5)])


def test_adamw_decays_matrices_and_not_biases() -> None:
    """With zero gradients only the decay acts: w <- w (1 - rate * decay)."""
    network = torch.nn.Linear(1, 1)
    torch.nn.init.ones_(network.weight)
    torch.nn.init.ones_(network.bias)
    Optimiser(Flat(network), TrainOptions(optimiser="adamw", weight_decay=0.5)).step(0.1)
    assert network.weight.item() == pytest.approx(1 - 0.1 * 0.5)
    assert network.bias.item() == pytest.approx(1.0)


# --- Against torch.optim --------------------------------------------------------------------------------


def make_network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.LayerNorm(5), torch.nn.Linear(5, 3, bias=False))


def torch_optimiser(network: torch.nn.Module, options: TrainOptions) -> torch.optim.Optimizer:
    decay = options.weight_decay
    if options.optimiser == "sgd":
        parameters = network.parameters()
        return torch.optim.SGD(parameters, lr=options.rate, momentum=options.momentum, weight_decay=decay)
    if options.optimiser == "adam":
        return torch.optim.Adam(network.parameters(), lr=options.rate, weight_decay=decay)
    groups = [
        {"params": [p for p in network.parameters() if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in network.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=options.rate)


def torch_clip(network: torch.nn.Module, options: TrainOptions) -> None:
    if options.clip == "norm":
        torch.nn.utils.clip_grad_norm_(network.parameters(), options.clip_at)
    elif options.clip == "value":
        torch.nn.utils.clip_grad_value_(network.parameters(), options.clip_at)


@BOTH
@pytest.mark.parametrize("clip", ["norm", "value", "off"])
@pytest.mark.parametrize(
    "settings",
    [
        {"optimiser": "sgd", "learning_rate": 0.3},
        {"optimiser": "sgd", "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01},
        {"optimiser": "adam", "learning_rate": 0.02, "weight_decay": 0.1},
        {"optimiser": "adamw", "learning_rate": 0.02, "weight_decay": 0.1},
    ],
    ids=["sgd", "momentum", "adam", "adamw"],
)
def test_a_hundred_updates_end_where_those_of_torch_do(settings: dict[str, Any], clip: Any, sweeps: Sweeps) -> None:
    options = TrainOptions(clip=clip, clip_at=0.5, **settings)
    ours, theirs, chance = make_network(), make_network(), torch.Generator().manual_seed(1)
    optimiser, reference = Optimiser(Flat(ours), options, sweeps), torch_optimiser(theirs, options)
    for step in range(100):
        read = torch.randn(4, 7, generator=chance)
        for network in (ours, theirs):
            network.zero_grad(set_to_none=False)
            network(read).square().mean().backward()
        torch_clip(theirs, options)
        rate = options.rate / (1 + step)
        for group in reference.param_groups:
            group["lr"] = rate
        reference.step()
        optimiser.step(rate, optimiser.norms()[0])
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=2e-5, atol=2e-6)


# --- Slices and threads ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_the_number_of_threads_never_changes_a_bit(kind: Any) -> None:
    chance = torch.Generator().manual_seed(2)
    ends = []
    start = torch.randn(700, 301, generator=chance)
    gradients = [torch.randn(700, 301, generator=chance) for _ in range(3)]
    for threads in (1, 2, 3):
        network = torch.nn.Linear(301, 700)
        with torch.no_grad():
            network.weight.copy_(start)
            network.bias.zero_()
        options = TrainOptions(optimiser=kind, momentum=0.9, weight_decay=0.1)
        optimiser = Optimiser(Flat(network), options, KernelSweeps(Threads(threads)))
        norms = []
        for gradient in gradients:
            network.weight.grad.copy_(gradient)
            norms.append(optimiser.norms()[0])
            optimiser.step(0.01, norms[-1])
        ends.append((norms, network.weight.detach().numpy().tobytes()))
    assert ends[0] == ends[1] == ends[2]


@given(st.integers(0, 3 * update.BLOCK), st.integers(0, 2**32 - 1))
def test_the_norm_is_that_of_float64(size: int, seed: int) -> None:
    gradient = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    whole, kept = KernelSweeps().norms(gradient, 0.5)
    assert whole == pytest.approx(float(np.linalg.norm(gradient.double().numpy())), rel=1e-12)
    assert kept == pytest.approx(float(np.linalg.norm(gradient.clamp(-0.5, 0.5).double().numpy())), rel=1e-12)


@given(st.integers(0, 1000), st.integers(1, 9), st.integers(1, 400))
def test_threads_do_all_the_work_once(count: int, threads: int, grain: int) -> None:
    done = np.zeros(count, np.int64)

    def work(begin: int, end: int) -> None:
        done[begin:end] += 1

    Threads(threads)(work, count, grain)
    assert (done == 1).all()


# --- Flat parameters ------------------------------------------------------------------------------------


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.arange(3.0))
        self.first = torch.nn.Linear(5, 3, bias=False)
        self.second = torch.nn.Linear(5, 3, bias=False)
        self.second.weight = self.first.weight
        self.still = torch.nn.Parameter(torch.ones(2, 2), requires_grad=False)


def test_parameters_lie_side_by_side_matrices_first_and_tied_ones_once() -> None:
    network = Tied()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    flat = Flat(network)
    assert flat.values.numel() == 2 * ALIGN  # 15 and 3 numbers, rounded up
    assert flat.decayed == ALIGN
    assert set(flat.places) == {"bias", "first.weight"}
    assert network.first.weight is network.second.weight
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    flat.values.fill_(7)
    assert network.second.weight.eq(7).all()
    assert network.bias.eq(7).all()
    assert network.still.eq(1).all()
    assert network.still.grad is None


def test_gradients_are_added_in_place_and_loading_keeps_the_places() -> None:
    network = torch.nn.Linear(5, 3)
    flat = Flat(network)
    for times in (1, 2):
        network(torch.ones(1, 5)).sum().backward()
        assert flat.views(flat.gradient)["weight"].eq(times).all()
    network.load_state_dict({"weight": torch.full((3, 5), 2.0), "bias": torch.full((3,), 4.0)})
    assert flat.views(flat.values)["weight"].eq(2).all()
    assert flat.views(flat.values)["bias"].eq(4).all()


# --- Averages -------------------------------------------------------------------------------------------


@BOTH
def test_an_average_is_the_mean_of_what_was_added_and_leaves_the_weights(sweeps: Sweeps) -> None:
    network = torch.nn.Linear(2, 1, bias=False)
    average = Average(Flat(network), sweeps)
    for value in (1.0, 2.0, 6.0):
        torch.nn.init.constant_(network.weight, value)
        average.add()
    with average.in_place():
        assert network.weight.tolist() == [pytest.approx([(1 + 2 + 6) / 3] * 2)]
    assert network.weight.tolist() == [[6.0, 6.0]]


def begun(options: TrainOptions, losses: list[float]) -> list[bool]:
    trigger, seen = Trigger(), []
    for loss in losses:
        trigger = trigger.after_validation(options, loss)
        seen.append(trigger.begun)
    return seen


def test_averaging_begins_where_the_loss_is_above_that_of_long_ago() -> None:
    """n = 2: the fifth loss, 3.1, is compared with the first two of the four before it, of which 3.0 is lower."""
    options = TrainOptions(average="nt-asgd", average_after=2)
    assert begun(options, [4.0, 3.0, 3.5, 3.2, 3.1, 1.0]) == [False, False, False, False, True, True]
    assert begun(options, [4.0, 3.0, 9.0, 2.9]) == [False, False, False, False]  # 2.9 < 4.0, the one that is old enough


@given(st.lists(st.floats(0, 9), max_size=12), st.integers(1, 4))
def test_the_trigger_is_the_published_one(losses: list[float], n: int) -> None:
    """[Merity2018] algorithm 1: t > n and v > min(logs[0 .. t - n - 1]), with all logs at hand."""
    now, expected = False, []
    for t, v in enumerate(losses):
        now = now or (t > n and v > min(losses[: t - n]))
        expected.append(now)
    assert begun(TrainOptions(average="nt-asgd", average_after=n), losses) == expected


def test_an_average_of_the_tail_needs_an_epoch_to_begin_with() -> None:
    with pytest.raises(ConfigError, match="average tail begins after 5 epochs and training has 5"):
        build(TrainOptions, {"average": "tail", "average_after": 5, "epochs": 5}, "train")


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), "fast"])
def test_a_learning_rate_that_cannot_train_is_refused(rate: object) -> None:
    with pytest.raises(ConfigError, match="learning_rate"):
        build(TrainOptions, {"learning_rate": rate}, "train")
