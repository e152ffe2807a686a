"""At initialisation the loss is ln |V|. Source: [Bridle1990] for the softmax."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Watch

if TYPE_CHECKING:
    import torch

    from ostinato.nn.networks import Network

KINDS = ("rnn", "lstm", "gru", "nplm")
VOCABULARIES: dict[Size, tuple[int, ...]] = {"quick": (100, 1000, 10_000), "full": (100, 1000, 10_000, 50_000)}
ROWS, STEPS = 4, 32
LARGE = 50.0  # times the output matrix as it begins


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """The loss of new networks of every kind with their default options, on ids drawn evenly."""
    import torch

    from ostinato.nn.networks import networks
    from ostinato.nn.options import KINDS as OPTIONS

    torch.manual_seed(seed)
    found: dict[str, list[float]] = {}
    for kind in KINDS:
        for outputs in VOCABULARIES[size]:
            network = networks[kind](outputs, OPTIONS[kind](), None).eval()
            ids = torch.randint(outputs, (ROWS, STEPS + 1))
            found.setdefault(kind, []).append(loss(network, ids) / math.log(outputs))
            if kind == "lstm" and outputs == 1000:
                with torch.no_grad():
                    network.get_parameter("head.weight").mul_(LARGE)
                large = loss(network, ids) / math.log(outputs)
    ratios = [ratio for row in found.values() for ratio in row]
    curves: dict[str, Points] = {kind: (VOCABULARIES[size], row) for kind, row in found.items()}
    return Finding({"least": min(ratios), "most": max(ratios), "large": large}, {"ratios": curves})


def loss(network: Network, ids: torch.Tensor) -> float:
    """The loss of a network on ids [B, T + 1], nats a token."""
    import torch

    ones = torch.ones(len(ids), ids.shape[1] - 1)
    with torch.no_grad():
        nats, _ = network.loss(network.init_state(len(ids)), ids[:, :-1], ids[:, 1:], ones)
    return float(nats / ones.sum())


CLAIM = add(
    Claim(
        id="initial-loss",
        level="theoretical",
        statement=Text(
            "Before any training, the loss of a language model with a softmax over |V| words is about ln |V| nats.",
            "训练开始前，在 |V| 个词上做 softmax 的语言模型，其损失约为 ln |V| 奈特。",
        ),
        misreading=Text(
            "“A first loss of ln |V| shows that the code is right.” It shows that the scores begin small. And it is "
            "no law: weights that begin large start far above it.",
            "“初始损失为 ln |V| 说明代码正确。”它只说明得分起初很小。它也不是定律：初始权重很大时，损失会远高于它。",
        ),
        experiment=Text(
            "New networks (Elman, LSTM, GRU, NPLM) with the default options and several |V|, on ids drawn evenly; and "
            "an LSTM whose output matrix, its embedding too, is 50 times as large.",
            "默认选项的新网络（Elman、LSTM、GRU、NPLM），若干 |V|，词号均匀抽取；另有输出矩阵（即其嵌入）放大 50 倍的 "
            "LSTM。",
        ),
        sources=(
            Source(
                "Bridle1990",
                Text(
                    "defines the softmax. That equal scores give 1/|V| each, and so ln |V| nats, follows from it; no "
                    "experiment about it is reported there.",
                    "定义了 softmax。得分相等时每项为 1/|V|，即 ln |V| 奈特，由定义推出；文中没有相关实验。",
                ),
            ),
        ),
        quantities=(
            Quantity(
                "least",
                Text("least loss / ln |V|", "损失 / ln |V| 的最小值"),
                "ratio",
                Interval(0.99, 1.01),
                Text(
                    "scores of variance s² add about s²/2 nats; the default weights give s² below 0.1, and ln 100 is "
                    "4.6",
                    "得分方差为 s² 时约增加 s²/2 奈特；默认权重使 s² 小于 0.1，而 ln 100 = 4.6",
                ),
            ),
            Quantity(
                "most",
                Text("largest loss / ln |V|", "损失 / ln |V| 的最大值"),
                "ratio",
                Interval(0.99, 1.01),
                Text("the same", "同上"),
            ),
            Quantity("large", Text("loss / ln |V| with large weights", "大权重时的 损失 / ln |V|"), "ratio"),
        ),
        figures={
            "ratios": Figure(
                Text("First loss", "初始损失"),
                Text("|V|", "|V|（词数）"),
                Text("loss / ln |V|", "损失 / ln |V|"),
                x_log=True,
                marks=True,
            )
        },
        measure=measure,
    )
)
