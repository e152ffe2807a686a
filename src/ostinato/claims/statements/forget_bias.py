"""A positive forget bias helps. Source: [Gers2000], [Jozefowicz2015]."""

from __future__ import annotations

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Progress, Watch

BIASES = (-1.0, 0.0, 1.0, 3.0)
TASKS = ("noise-free", "adding")
STEPS: dict[Size, int] = {"quick": 20, "full": 30}
UPDATES: dict[Size, int] = {"quick": 300, "full": 1000}
HIDDEN, ROWS, RATE, POINTS = 32, 20, 0.01, 30


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """The loss over all of training of LSTMs whose forget biases begin at several values."""
    from ostinato.claims.training import smoothed

    losses: dict[str, dict[float, list[float]]] = {task: {} for task in TASKS}
    for task in TASKS:
        for bias in BIASES:
            done = sum(map(len, losses.values())) / (len(TASKS) * len(BIASES))
            watch(Progress("train", 0, done, f"{task}, bias {bias:g}"))
            losses[task][bias] = training(task, size, bias, seed)
    mean = {task: {bias: sum(row) / len(row) for bias, row in of_task.items()} for task, of_task in losses.items()}
    window = UPDATES[size] // POINTS
    x = [window * (place + 1) for place in range(POINTS)]
    curves: dict[str, dict[str, Points]] = {
        task: {f"b = {bias:g}": (x, smoothed(row, window)[:POINTS]) for bias, row in of_task.items()}
        for task, of_task in losses.items()
    }
    numbers = {f"{task} {bias:g}": mean[task][bias] / mean[task][0.0] for task in TASKS for bias in (1.0, 3.0)}
    return Finding(numbers, curves)


def training(task: str, size: Size, bias: float, seed: int) -> list[float]:
    """The losses of one training."""
    import numpy as np
    import torch

    from ostinato.claims import sequences
    from ostinato.claims.training import Plan, Reader, learn

    torch.manual_seed(seed)
    rng, steps = np.random.default_rng(seed), STEPS[size]
    symbols = task == "noise-free"
    draw = sequences.noise_free if symbols else sequences.adding
    reads, answers = (steps + 1, 2) if symbols else (2, 1)
    reader = Reader("lstm", reads, HIDDEN, answers, symbols, forget_bias=bias)
    return learn(reader, Plan(UPDATES[size], RATE), lambda: draw(rng, ROWS, steps)).losses


NAMES = {"noise-free": Text("noise-free", "无噪声"), "adding": Text("adding", "加法")}


def helped(task: str) -> Quantity:
    """The gain of a bias of 1."""
    return Quantity(
        f"{task} 1",
        Text(
            f"{NAMES[task].en}: mean loss over training, bias 1 / bias 0",
            f"{NAMES[task].zh}：训练全程平均损失，偏置 1 / 偏置 0",
        ),
        "ratio",
        Interval(0, 0.9),
        Text("helps: at least a tenth less", "有帮助：至少少十分之一"),
    )


def more(task: str) -> Quantity:
    """What a bias of 3 does."""
    return Quantity(
        f"{task} 3", Text(f"{NAMES[task].en}: bias 3 / bias 0", f"{NAMES[task].zh}：偏置 3 / 偏置 0"), "ratio"
    )


CLAIM = add(
    Claim(
        id="forget-bias",
        level="observed",
        statement=Text(
            "An LSTM whose forget gates begin with a positive bias learns lags sooner.",
            "遗忘门偏置为正起步的 LSTM 更快学会时滞。",
        ),
        misreading=Text(
            "“Set it to 1.” The bias decides how long the cell remembers at first: 1 keeps 73% a step, which is "
            "nothing after 50 steps. What helps is a bias that fits the lag; for short lags it matters little.",
            "“设为 1 就好。”偏置决定细胞起初记多久：1 意味着每步保留 73%，50 步后所剩无几。"
            "有帮助的是与时滞相称的偏置；时滞短时影响很小。",
        ),
        experiment=Text(
            "LSTMs of 32 units on the noise-free task and the adding problem, 20 steps and 300 updates (full: 30 and "
            "1,000), forget biases -1, 0, 1 and 3, all else equal, the same seed's sequences for each.",
            "32 单元 LSTM，无噪声任务与加法问题，20 步、300 次更新（完整运行 30 步、1,000 次），遗忘偏置 -1、0、1、3，"
            "其余相同，同一种子用相同的序列。",
        ),
        sources=(
            Source(
                "Gers2000",
                Text(
                    "introduces forget gates and begins them with positive biases, so that the cell at first remembers "
                    "everything; biases are not compared there.",
                    "引入遗忘门，并以正偏置起步，使细胞起初记住一切；文中未比较不同偏置。",
                ),
            ),
            Source(
                "Jozefowicz2015",
                Text(
                    "adding a bias of 1 to the forget gate closes the gap between the LSTM and the GRU on its "
                    "problems.",
                    "给遗忘门加上偏置 1，在其各问题上缩小了 LSTM 与 GRU 的差距。",
                ),
            ),
        ),
        quantities=(helped("noise-free"), helped("adding"), more("noise-free"), more("adding")),
        figures={
            task: Figure(
                Text(f"Loss while training: {name.en}", f"训练中的损失：{name.zh}"),
                Text("updates", "更新次数"),
                Text("loss", "损失"),
                y_log=True,
            )
            for task, name in NAMES.items()
        },
        measure=measure,
    )
)
