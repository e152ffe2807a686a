"""Truncated back-propagation through time loses credit beyond its window. Source: [Williams1990]."""

from __future__ import annotations

import math

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Progress, Watch

LAG = 5
WINDOWS: dict[Size, tuple[int, ...]] = {"quick": (2, 5, 10, 20), "full": (1, 2, 3, 5, 6, 8, 10, 20, 40)}
UPDATES: dict[Size, int] = {"quick": 400, "full": 2000}
HIDDEN, ROWS, RATE = 32, 32, 0.01


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """The loss of LSTMs that must repeat the coin toss of five steps ago, by the window of their gradients."""
    losses = []
    for place, window in enumerate(WINDOWS[size]):
        watch(Progress("train", 0, place / len(WINDOWS[size]), f"window {window}"))
        row = training(window, UPDATES[size], seed)
        last = row[-len(row) // 10 :]
        losses.append(sum(last) / len(last))
    by_window = dict(zip(WINDOWS[size], losses, strict=True))
    numbers = {
        "within": max(loss for window, loss in by_window.items() if window >= 2 * LAG),
        "beyond": min(loss for window, loss in by_window.items() if window <= LAG),
    }
    curves: dict[str, Points] = {"loss": (WINDOWS[size], losses)}
    return Finding(numbers, {"windows": curves})


def training(window: int, updates: int, seed: int) -> list[float]:
    """The losses of one training on streams; the state is carried from window to window, its gradient is not."""
    import numpy as np
    import torch

    from ostinato.claims import sequences
    from ostinato.claims.training import Plan, Reader, fit, loss_of
    from ostinato.core.state import map_leaves

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    reader = Reader("lstm", 2, HIDDEN, 2, symbols=True, forget_bias=0.0)
    state, before = reader.stack.init_state(ROWS), sequences.bits(rng, ROWS, LAG)

    def loss(update: int) -> torch.Tensor:
        nonlocal state, before
        now = sequences.bits(rng, ROWS, window)
        stream = torch.cat([before, now], dim=1)
        outputs, after = reader.stack.scan(state, reader.embedding(now))
        state, before = map_leaves(lambda leaf: leaf.detach(), after), stream[:, -LAG:]
        return loss_of(reader.answer(outputs), stream[:, :window])

    return fit(reader, Plan(updates, RATE), loss).losses


CLAIM = add(
    Claim(
        id="truncated-credit",
        level="theoretical",
        statement=Text(
            "Back-propagation through time that is cut after k steps gives no credit for what lies further back, "
            "though the state is carried on.",
            "在 k 步处截断的时间反向传播，即使状态继续传递，也不给更早的输入任何功劳。",
        ),
        misreading=Text(
            "“A window of k means a memory of k.” The state remembers as long as it can; what was learnt within "
            "windows is used beyond them. Only what must be learnt from further back is lost.",
            "“窗口为 k 就只能记 k 步。”状态能记多久就记多久，窗口内学到的在窗口外照样有用；丧失的只是必须从更远处才能"
            "学到的东西。",
        ),
        experiment=Text(
            "Streams of coin tosses; an LSTM of 32 units, forget bias 0, must say the toss of five steps ago. Windows "
            "of 2 to 20 steps (full: 1 to 40), 400 updates (full: 2,000); the mean loss of the last tenth of the "
            "updates.",
            "掷硬币序列流；32 单元、遗忘偏置 0 的 LSTM 须说出五步之前的结果。窗口 2 到 20 步（完整运行 1 到 40），"
            "400 次更新（完整运行 2,000）；取最后十分之一更新的平均损失。",
        ),
        sources=(
            Source(
                "Williams1990",
                Text(
                    "defines back-propagation through time truncated after h steps, an approximation of the gradient; "
                    "how much it loses is not measured there.",
                    "定义了 h 步截断的时间反向传播，为梯度的近似；文中未测量损失多少。",
                ),
            ),
        ),
        quantities=(
            Quantity(
                "within",
                Text("largest loss of windows of 10 or more", "窗口不小于 10 时的最大损失"),
                "nats",
                Interval(0, 0.2),
                Text("half of the targets or more have their cause in the window", "至少一半目标的原因在窗口内"),
            ),
            Quantity(
                "beyond",
                Text("least loss of windows up to 5", "窗口不大于 5 时的最小损失"),
                "nats",
                Interval(0.6, 0.8),
                Text(
                    f"no target has: about ln 2 = {math.log(2):.3f}, but for what the untrained state happens to keep",
                    f"没有目标的原因在窗口内：约 ln 2 = {math.log(2):.3f}，除非未经训练的状态碰巧留有痕迹",
                ),
            ),
        ),
        figures={
            "windows": Figure(
                Text("Loss by window, lag 5", "损失随窗口变化，时滞 5"),
                Text("window", "窗口（步）"),
                Text("nats", "奈特"),
                x_log=True,
                marks=True,
                names={"loss": Text("loss", "损失")},
            )
        },
        measure=measure,
    )
)
