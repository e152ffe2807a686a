"""Orthogonal initialisation helps. Source: [Saxe2014], [Le2015]."""

from __future__ import annotations

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Progress, Watch

SCHEMES = ("orthogonal", "uniform", "glorot")
STEPS: dict[str, dict[Size, int]] = {
    "noise-free": {"quick": 40, "full": 100},
    "order": {"quick": 20, "full": 30},
}
UPDATES: dict[str, dict[Size, int]] = {
    "noise-free": {"quick": 200, "full": 600},
    "order": {"quick": 400, "full": 1500},
}
HIDDEN, ROWS, RATE, POINTS = 32, 20, 0.003, 20


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """The loss of tanh networks whose recurrent matrix begins in several ways, over training and at its end."""
    from ostinato.claims.training import smoothed

    numbers: dict[str, float] = {}
    curves: dict[str, dict[str, Points]] = {}
    for task in STEPS:
        window = UPDATES[task][size] // POINTS
        drawn = {}
        for scheme in SCHEMES:
            watch(Progress("train", 0, len(numbers) / 4, f"{task}, {scheme}"))
            drawn[scheme] = smoothed(training(task, size, scheme, seed), window)
        x = [window * (place + 1) for place in range(POINTS)]
        curves[task] = {scheme: (x, row[:POINTS]) for scheme, row in drawn.items()}
        last = {scheme: sum(row[-2:]) / 2 for scheme, row in drawn.items()}  # the last tenth
        numbers[f"{task} uniform"] = last["orthogonal"] / last["uniform"]
        numbers[f"{task} glorot"] = last["orthogonal"] / last["glorot"]
    return Finding(numbers, curves)


def training(task: str, size: Size, scheme: str, seed: int) -> list[float]:
    """The losses of one training."""
    import numpy as np
    import torch

    from ostinato.claims import sequences
    from ostinato.claims.training import Plan, Reader, learn

    torch.manual_seed(seed)
    rng, steps = np.random.default_rng(seed), STEPS[task][size]
    draw = sequences.noise_free if task == "noise-free" else sequences.temporal_order
    reads, answers = (steps + 1, 2) if task == "noise-free" else (6, 4)
    reader = Reader("rnn", reads, HIDDEN, answers, symbols=True, recurrent_init=scheme)
    return learn(reader, Plan(UPDATES[task][size], RATE), lambda: draw(rng, ROWS, steps)).losses


NAMES = {"noise-free": Text("noise-free", "无噪声"), "order": Text("temporal order", "时间顺序")}


def against(task: str, scheme: str, en: str, zh: str) -> Quantity:
    """The loss beside another way to begin."""
    what = Text(f"{NAMES[task].en}: loss at the end, orthogonal / {en}", f"{NAMES[task].zh}：最终损失，正交 / {zh}")
    why = Text("helps: at least a tenth less", "有帮助：至少少十分之一")
    return Quantity(f"{task} {scheme}", what, "ratio", Interval(0, 0.9), why)


CLAIM = add(
    Claim(
        id="orthogonal-start",
        level="theoretical",
        statement=Text(
            "A recurrent matrix that begins orthogonal helps a simple network to learn over many steps.",
            "循环矩阵以正交矩阵起步，有助于简单网络学习跨多步的依赖。",
        ),
        misreading=Text(
            "“Orthogonal weights keep gradients.” They do in a linear network, and as long as the units stay near the "
            "linear middle of tanh. Large inputs drive them out of it, and training moves the matrix away.",
            "“正交权重保持梯度。”在线性网络中如此，且仅当单元停留在 tanh 的近线性区。大输入会把单元推出去，训练也会使"
            "矩阵偏离正交。",
        ),
        experiment=Text(
            "Tanh networks of 32 units on the noise-free task (40 steps, full: 100) and on temporal order (20, full: "
            "30), 200 to 1,500 updates; the recurrent matrix orthogonal, uniform in ±1/√32, or as Glorot and Bengio "
            "draw it; all else equal.",
            "32 单元 tanh 网络，无噪声任务（40 步，完整运行 100）与时间顺序（20 步，完整运行 30），200 到 "
            "1,500 次更新；"
            "循环矩阵取正交、±1/√32 均匀、或 Glorot-Bengio 方式；其余相同。",
        ),
        sources=(
            Source(
                "Saxe2014",
                Text(
                    "in deep linear networks, orthogonal starts give learning times that do not grow with depth; "
                    "networks with tanh show the same at a suitable gain.",
                    "深层线性网络以正交矩阵起步时，学习时间不随深度增长；增益合适的 tanh 网络亦如此。",
                ),
            ),
            Source(
                "Le2015",
                Text(
                    "relu networks that begin with the identity, an orthogonal matrix, do about as well as LSTMs on "
                    "the adding problem with 150 to 400 steps, where simple networks with other starts do worse.",
                    "以单位矩阵（一种正交矩阵）起步的 relu 网络，在 150 到 400 步的加法问题上与 LSTM 相近，"
                    "其他起步的简单网络则更差。",
                ),
            ),
        ),
        quantities=(
            against("noise-free", "uniform", "uniform", "均匀"),
            against("noise-free", "glorot", "Glorot", "Glorot"),
            against("order", "uniform", "uniform", "均匀"),
            against("order", "glorot", "Glorot", "Glorot"),
        ),
        figures={
            task: Figure(
                Text(f"Loss while training: {name.en}", f"训练中的损失：{name.zh}"),
                Text("updates", "更新次数"),
                Text("nats", "奈特"),
                y_log=True,
                names={
                    "orthogonal": Text("orthogonal", "正交"),
                    "uniform": Text("uniform", "均匀"),
                    "glorot": Text("Glorot", "Glorot"),
                },
            )
            for task, name in NAMES.items()
        },
        measure=measure,
    )
)
