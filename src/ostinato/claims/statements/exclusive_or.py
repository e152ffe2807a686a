"""A perceptron cannot do exclusive or, one hidden layer can. Source: [Minsky1969], [Rumelhart1986]."""

from __future__ import annotations

import math

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Watch

LINES: dict[Size, int] = {"quick": 100_000, "full": 2_000_000}
UPDATES, UNITS_HIDDEN, RATE = 1000, 4, 0.05
STRONG = 10.0  # of the weights that are written down


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """Random lines, the best linear model, two hidden units written down, four hidden units trained."""
    import numpy as np
    import torch
    from torch import nn

    from ostinato.claims.training import Plan, fit

    inputs = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    targets = torch.tensor([0.0, 1.0, 1.0, 0.0])
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    w, b = rng.standard_normal((LINES[size], 2)), rng.standard_normal((LINES[size], 1))
    right = (((w @ inputs.numpy().T + b) > 0) == targets.numpy().astype(bool)).sum(axis=1)

    def loss(network: nn.Module) -> torch.Tensor:
        return nn.functional.binary_cross_entropy_with_logits(network(inputs)[:, 0], targets)

    def correct(network: nn.Module) -> float:
        with torch.no_grad():
            return float(((network(inputs)[:, 0] > 0) == targets.bool()).sum())

    plan = Plan(UPDATES, rate=RATE)
    linear = nn.Linear(2, 1)
    of_linear = fit(linear, plan, lambda update: loss(linear)).losses
    written = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    into, into_bias, out, out_bias = written.parameters()
    with torch.no_grad():  # is one of them on; are both
        into.fill_(STRONG)
        into_bias.copy_(torch.tensor([-0.5, -1.5]) * STRONG)
        out.copy_(torch.tensor([[1.0, -1.0]]))
        out_bias.fill_(-1.0)
    trained = nn.Sequential(nn.Linear(2, UNITS_HIDDEN), nn.Tanh(), nn.Linear(UNITS_HIDDEN, 1))
    of_hidden = fit(trained, plan, lambda update: loss(trained)).losses
    shown = slice(None, None, 10)
    x = np.arange(1, UPDATES + 1)[shown]
    curves: dict[str, Points] = {"linear": (x, of_linear[shown]), "hidden": (x, of_hidden[shown])}
    numbers = {
        "lines": float(right.max()),
        "linear loss": of_linear[-1],
        "written": correct(written),
        "trained": correct(trained),
    }
    return Finding(numbers, {"losses": curves})


CLAIM = add(
    Claim(
        id="exclusive-or",
        level="provable",
        statement=Text(
            "No perceptron computes exclusive or; a network with one hidden layer of two units does.",
            "单个感知机无法计算异或；有一个两单元隐藏层的网络可以。",
        ),
        misreading=Text(
            "“A hidden layer solves it.” A hidden layer can hold a solution; that training finds it from every start "
            "is another matter. And a hidden layer without a non-linearity is still one line.",
            "“有了隐藏层就解决了。”隐藏层能表示解；训练能否从任意起点找到它是另一回事。没有非线性的隐藏层仍只是一条直"
            "线。",
        ),
        premises=Text(
            "Inputs 0 and 1, one threshold unit on w x + b; tanh hidden units with weights of finite size.",
            "输入为 0 与 1，对 w x + b 取阈值的单个单元；权重有限的 tanh 隐藏单元。",
        ),
        experiment=Text(
            "The most of four cases that any of 100,000 (full: 2,000,000) random lines gets right; the loss of a "
            "linear model after 1,000 updates; two hidden units whose weights are written down; four that are trained.",
            "100,000（完整运行 2,000,000）条随机直线中，四种情形最多答对几种；线性模型 1,000 次更新后的损失；"
            "权重直接写定的两个隐藏单元；经训练的四个隐藏单元。",
        ),
        sources=(
            Source(
                "Minsky1969",
                Text(
                    "proves that a perceptron cannot compute parity, of which exclusive or is the smallest case.",
                    "证明感知机不能计算奇偶性；异或是其最小情形。",
                ),
            ),
            Source(
                "Rumelhart1986",
                Text(
                    "back-propagation learns exclusive or with a hidden layer; local minima are reported to be rare.",
                    "反向传播用隐藏层学会异或；文中报告局部极小很少出现。",
                ),
            ),
        ),
        quantities=(
            Quantity(
                "lines",
                Text("most cases that a line gets right, of 4", "直线最多答对的情形数（共 4）"),
                "count",
                Interval(3, 3),
                Text("4 is impossible by the theorem, 3 is easy", "定理说 4 不可能，而 3 很容易"),
            ),
            Quantity(
                "linear loss",
                Text("loss of the linear model", "线性模型的损失"),
                "nats",
                Interval(math.log(2) - 1e-6, math.log(2) + 1e-3),
                Text("the loss is convex, its least value is ln 2, at w = 0", "损失为凸函数，最小值 ln 2，在 w = 0 处"),
            ),
            Quantity(
                "written",
                Text("cases right with two hidden units, of 4", "两个隐藏单元答对的情形数（共 4）"),
                "count",
                Interval(4, 4),
                Text("the weights are a proof by example", "写定的权重就是构造性证明"),
            ),
            Quantity("trained", Text("cases right after training, of 4", "训练后答对的情形数（共 4）"), "count"),
        ),
        figures={
            "losses": Figure(
                Text("Exclusive or: loss while training", "异或：训练中的损失"),
                Text("updates", "更新次数"),
                Text("nats", "奈特"),
                y_log=True,
                names={
                    "linear": Text("linear", "线性"),
                    "hidden": Text("four tanh units", "四个 tanh 单元"),
                },
            )
        },
        measure=measure,
    )
)
