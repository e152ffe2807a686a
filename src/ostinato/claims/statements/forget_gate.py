"""Without a forget gate the state grows on continual streams. Source: [Gers2000]."""

from __future__ import annotations

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Progress, Watch

KINDS = ("lstm-1997", "lstm")
UPDATES: dict[Size, int] = {"quick": 200, "full": 2000}
STREAM: dict[Size, int] = {"quick": 3000, "full": 30_000}
HIDDEN, ROWS, WINDOW, RATE = 16, 16, 40, 0.01
TESTED, POINTS = 4, 30


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """How the memory of trained networks grows while they read on, and how well they predict the second T or P."""
    numbers: dict[str, float] = {}
    curves: dict[str, Points] = {}
    for place, kind in enumerate(KINDS):

        def told(progress: Progress, place: int = place) -> None:
            watch(Progress("train", 0, (place + (progress.share or 0)) / len(KINDS), progress.note))

        sizes, right = continual(kind, size, seed, told)
        tenth = STREAM[size] // 10
        numbers[f"growth {kind}"] = sum(sizes[-tenth:]) / sum(sizes[tenth : 2 * tenth])
        numbers[f"right {kind}"] = right
        every = STREAM[size] // POINTS
        x = [every * (place + 1) for place in range(POINTS)]
        curves[kind] = x, [sum(sizes[end - every : end]) / every for end in x]
    return Finding(numbers, {"growth": curves})


def continual(kind: str, size: Size, seed: int, watch: Watch) -> tuple[list[float], float]:
    """Train on streams, the state carried on; then read a new stream: the mean |c| of every step, the share right.

    Right is who gives the second frame symbol more probability than its rival, in the last half of the stream.
    """
    import numpy as np
    import torch

    from ostinato.claims.sequences import REBER, reber_streams
    from ostinato.claims.training import Plan, Reader, fit, loss_of
    from ostinato.core.state import map_leaves

    torch.manual_seed(seed)
    rng, unseen = np.random.default_rng(seed), np.random.default_rng(1000 + seed)
    reader = Reader(kind, len(REBER), HIDDEN, len(REBER), symbols=True)
    symbols, _ = reber_streams(rng, ROWS, UPDATES[size] * WINDOW + 1)
    state = reader.stack.init_state(ROWS)

    def loss(update: int) -> torch.Tensor:
        nonlocal state
        part = symbols[:, update * WINDOW : (update + 1) * WINDOW + 1]
        outputs, after = reader.stack.scan(state, reader.embedding(part[:, :-1]))
        state = map_leaves(lambda leaf: leaf.detach(), after)
        return loss_of(reader.answer(outputs), part[:, 1:])

    fit(reader, Plan(UPDATES[size], RATE), loss, watch)
    stream, seconds = reber_streams(unseen, TESTED, STREAM[size] + 1)
    sizes, scores = [], []
    cell, now = reader.stack.cells[0], reader.stack.cells[0].init_state(TESTED)
    with torch.inference_mode():
        read = reader.embedding(stream[:, :-1])
        for step in range(STREAM[size]):
            output, now = cell.step(now, read[:, step])
            sizes.append(float(now.cell.abs().mean()))
            scores.append(reader.answer(output))
    answers = torch.stack(scores, dim=1)
    late = seconds[:, 1:].clone()
    late[:, : STREAM[size] // 2] = False
    pair = answers[late][:, [REBER.index("T"), REBER.index("P")]]
    wanted = (stream[:, 1:][late] == REBER.index("P")).long()
    return sizes, float((pair.argmax(dim=-1) == wanted).float().mean())


CLAIM = add(
    Claim(
        id="forget-gate",
        level="observed",
        statement=Text(
            "On a stream that is never reset, the memory of an LSTM without a forget gate grows on and on; with one "
            "it does not.",
            "在从不重置的流上，没有遗忘门的 LSTM 其记忆不断增长；有遗忘门则不会。",
        ),
        misreading=Text(
            "“Without a forget gate an LSTM does not work.” On sequences that are reset it works, and it is what "
            "solved lags of 1,000 steps in 1997. It is continual input that it cannot take.",
            "“没有遗忘门的 LSTM 不能用。”在会重置的序列上它能用，1997 年正是它解决了 1,000 步的时滞。它承受不了的是持"
            "续输入。",
        ),
        experiment=Text(
            "Strings of the embedded Reber grammar without a break; 16 units, 200 updates (full: 2,000) on 16 streams "
            "in windows of 40 with the state carried on; then 3,000 symbols (full: 30,000) of new streams. The mean "
            "size of the memory in their last tenth against their second tenth.",
            "无间断的嵌入 Reber 语法串；16 单元，16 条流、40 步窗口、状态延续，200 次更新（完整运行 2,000）；"
            "随后读 3,000（完整运行 30,000）个新流符号。比较记忆平均大小：最后十分之一与第二个十分之一。",
        ),
        sources=(
            Source(
                "Gers2000",
                Text(
                    "continual embedded Reber grammar: the LSTM of 1997 never finds a perfect solution, since its "
                    "cell states grow and saturate; with forget gates a part of the trials does, and the cells reset "
                    "themselves.",
                    "持续嵌入 Reber 语法：1997 年的 LSTM 从未得到完美解，因其细胞状态不断增长直至饱和；"
                    "加遗忘门后部分试验得到完美解，细胞自行复位。",
                ),
            ),
        ),
        quantities=(
            Quantity(
                "growth lstm-1997",
                Text("growth of the memory without a forget gate", "无遗忘门时记忆的增长"),
                "ratio",
                Interval(low=2),
                Text("a random walk gives 2.5, a steady drift 6.3", "随机游走为 2.5，匀速漂移为 6.3"),
            ),
            Quantity(
                "growth lstm",
                Text("growth of the memory with a forget gate", "有遗忘门时记忆的增长"),
                "ratio",
                Interval(0.67, 1.5),
                Text("no growth", "不增长"),
            ),
            Quantity(
                "right lstm-1997",
                Text("second frame symbol right, without a forget gate", "第二个框架符号的正确率，无遗忘门"),
                "share",
            ),
            Quantity("right lstm", Text("the same, with a forget gate", "同上，有遗忘门"), "share"),
        ),
        figures={
            "growth": Figure(
                Text("Memory on a new stream", "新流上的记忆"),
                Text("symbols read", "已读符号数"),
                Text("mean |c|", "平均 |c|"),
                y_log=True,
                names={
                    "lstm-1997": Text("without a forget gate", "无遗忘门"),
                    "lstm": Text("with a forget gate", "有遗忘门"),
                },
            )
        },
        measure=measure,
    )
)
