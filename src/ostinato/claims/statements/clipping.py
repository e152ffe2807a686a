"""Clipping by norm stops explosions and does not mend vanishing. Source: [Pascanu2013]."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Watch

if TYPE_CHECKING:
    from ostinato.claims.training import Reader

HIDDEN, READS, ROWS = 32, 4, 8
LENGTHS = (5, 10, 20, 30)
PULSE = 1e-6
UPDATES: dict[Size, int] = {"quick": 150, "full": 600}
EXPLODING, VANISHING = 1.5, 0.5  # spectral radii
RATE = 0.1  # of plain gradient descent


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """One update with and without clipping where gradients explode and where they vanish; a short training of each."""
    import torch

    torch.manual_seed(seed)
    exploding = [one_update(EXPLODING, steps) for steps in LENGTHS]
    vanishing = [one_update(VANISHING, steps) for steps in LENGTHS]
    numbers = {
        "update": max(update for _, update, _, _ in exploding),
        "direction": min(cosine for _, _, cosine, _ in exploding),
        "changed": max(changed for norm, _, _, changed in vanishing if norm <= 1),
        "norm": max(norm for norm, _, _, _ in exploding),
    }
    x = list(range(1, UPDATES[size] + 1))
    curves: dict[str, Points] = {}
    for name, clip_at in (("with", 1.0), ("without", None)):
        losses = training(seed, UPDATES[size], clip_at, watch)
        numbers[f"loss {name}"] = max(losses)
        curves[name] = x, [*losses, *[math.inf] * (len(x) - len(losses))]
    return Finding(numbers, {"training": curves})


def stack(radius: float, reads: int) -> Reader:
    """A tanh network whose matrix is orthogonal times `radius`."""
    import torch

    from ostinato.claims.training import Reader

    made = Reader("rnn", reads, HIDDEN, 1)
    with torch.no_grad():
        for matrix in made.stack.cells[0].recurrent_matrices():
            matrix.mul_(radius)
    return made


def one_update(radius: float, steps: int) -> tuple[float, float, float, float]:
    """The norm of the gradient, that of the update, their cosine, and how far they differ, relative to the norm.

    The threshold is 1, the learning rate 1. A pulse of 1e-6 at the first step, and 1e6 times a fixed read-out of the
    last state: tanh is linear there, so that the norm goes as radius^steps. Biases do not train: what is learnt comes
    from the first step alone.
    """
    import torch

    from ostinato.claims.training import Plan
    from ostinato.train.flat import Flat
    from ostinato.train.optimise import Optimiser

    network = stack(radius, READS).stack
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(not name.endswith("bias"))
    plan = Plan(1, rate=1.0, clip_at=1.0, optimiser="sgd")
    flat = Flat(network)
    optimiser = Optimiser(flat, plan.options)
    inputs = torch.zeros(ROWS, steps, READS)
    inputs[:, 0] = PULSE * torch.randn(ROWS, READS)
    outputs, _ = network.scan(network.init_state(ROWS), inputs)
    (outputs[:, -1] @ (torch.randn(HIDDEN) / PULSE)).mean().backward()  # type: ignore[no-untyped-call]
    flat.values.zero_()  # so that small updates are not lost beside large weights
    gradient = flat.gradient.double().clone()
    norm, _ = optimiser.norms()
    optimiser.step(plan.rate, norm)
    update = -flat.values.double()
    cosine = float(update @ gradient / (update.norm() * gradient.norm()))
    return norm, float(update.norm()), cosine, float((update - gradient).norm() / gradient.norm())


def training(seed: int, updates: int, clip_at: float | None, watch: Watch) -> list[float]:
    """Losses of plain gradient descent on the adding problem from weights that let gradients explode."""
    import numpy as np
    import torch

    from ostinato.claims import sequences
    from ostinato.claims.training import Plan, learn

    torch.manual_seed(seed)
    rng, network = np.random.default_rng(seed), stack(EXPLODING, 2)
    plan = Plan(updates, RATE, clip_at, "sgd")
    return learn(network, plan, lambda: sequences.adding(rng, ROWS, 40), watch).losses


CLAIM = add(
    Claim(
        id="clipping",
        level="provable",
        statement=Text(
            "Clipping by norm bounds every update and keeps its direction, so it stops explosions; it leaves a "
            "gradient that has vanished exactly as it is.",
            "按范数裁剪限制每次更新的大小并保持其方向，因此能止住爆炸；对已经消失的梯度，它原样不动。",
        ),
        misreading=Text(
            "“Clipping cures the gradient problem of recurrent networks.” It cures one half. No rescaling brings back "
            "the share that early steps have lost.",
            "“裁剪治好了循环网络的梯度问题。”它只治了一半。任何缩放都找不回早期步骤已丧失的份额。",
        ),
        premises=Text(
            "The whole gradient is multiplied by min(1, threshold / norm); plain gradient descent; the norm is finite.",
            "整个梯度乘以 min(1, 阈值 / 范数)；普通梯度下降；范数有限。",
        ),
        experiment=Text(
            "The product's own optimiser, threshold 1, rate 1, on tanh networks of 32 units: a pulse at the first "
            "step, 5 to 30 steps, spectral radius 1.5 and 0.5. Beside it, only reported: gradient descent on the "
            "adding problem from radius 1.5, with and without clipping.",
            "用本产品的优化器，阈值 1、学习率 1，32 单元的 tanh 网络：首步一个脉冲，5 到 30 步，谱半径 1.5 与 0.5。"
            "另外仅报告：从谱半径 1.5 出发，在加法问题上做梯度下降，裁剪与不裁剪。",
        ),
        sources=(
            Source(
                "Pascanu2013",
                Text(
                    "section 3.2 and algorithm 1 clip by norm; section 4: with clipping, training on the temporal "
                    "order problem no longer fails by explosion, but long lags are solved only with a further "
                    "regulariser against vanishing.",
                    "3.2 节与算法 1 给出按范数裁剪；第 4 节：裁剪后，时间顺序问题上的训练不再因爆炸失败，"
                    "但长时滞要加上针对消失的正则项才能解决。",
                ),
            ),
        ),
        quantities=(
            Quantity(
                "update",
                Text("largest update / threshold where gradients explode", "爆炸时 更新 / 阈值 的最大值"),
                "ratio",
                Interval(0, 1 + 1e-5),
                Text("by definition, and rounding of float32", "由定义，外加 float32 舍入"),
            ),
            Quantity(
                "direction",
                Text("least cosine between update and gradient", "更新与梯度的余弦最小值"),
                "ratio",
                Interval(1 - 1e-5, 1 + 1e-5),
                Text("all numbers get the same factor", "所有数乘同一因子"),
            ),
            Quantity(
                "changed",
                Text(
                    "largest |update - gradient| / |gradient| where the norm is below the threshold",
                    "范数低于阈值时 |更新 - 梯度| / |梯度| 的最大值",
                ),
                "ratio",
                Interval(0, 1e-6),
                Text("the factor is 1 there", "此时因子为 1"),
            ),
            Quantity("norm", Text("largest norm before clipping", "裁剪前的最大范数"), "number"),
            Quantity(
                "loss with", Text("largest loss in training, with clipping", "训练中的最大损失，裁剪"), "squared error"
            ),
            Quantity("loss without", Text("the same, without", "同上，不裁剪"), "squared error"),
        ),
        figures={
            "training": Figure(
                Text("Adding problem from spectral radius 1.5", "加法问题，谱半径 1.5 起步"),
                Text("updates", "更新次数"),
                Text("squared error", "平方误差"),
                y_log=True,
                names={"with": Text("with clipping", "裁剪"), "without": Text("without", "不裁剪")},
            )
        },
        measure=measure,
    )
)
