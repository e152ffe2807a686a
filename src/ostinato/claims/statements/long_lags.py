"""A tanh network does not learn long lags, an LSTM does. Source: [Hochreiter1997], [Bengio1994], [Tallec2018]."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Progress, Watch

if TYPE_CHECKING:
    import numpy as np

    from ostinato.claims.sequences import Task
    from ostinato.claims.training import Reader

LAGS: dict[Size, dict[str, tuple[int, ...]]] = {
    "quick": {"noise-free": (20, 100), "adding": (20, 50), "order": (20, 50)},
    "full": {"noise-free": (20, 100, 1000), "adding": (20, 100, 1000), "order": (20, 100, 1000)},
}
UPDATES: dict[str, int] = {"noise-free": 250, "adding": 500, "order": 400}
TIMES: dict[Size, int] = {"quick": 1, "full": 2}
HIDDEN, TESTED = 32, 200
RATES = {"lstm": 0.01, "rnn": 0.003, "orthogonal": 0.003}
MODELS = {"noise-free": ("lstm", "rnn", "orthogonal"), "adding": ("lstm", "rnn"), "order": ("lstm", "rnn")}


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """The share of right answers of both networks on three tasks, by lag; those at the longest are judged."""
    plans = [(task, lag, model) for task, lags in LAGS[size].items() for lag in lags for model in MODELS[task]]
    found: dict[str, dict[str, list[float]]] = {}
    work = [UPDATES[task] * lag for task, lag, _ in plans]
    for place, (task, lag, model) in enumerate(plans):
        done, part = sum(work[:place]) / sum(work), work[place] / sum(work)

        def told(progress: Progress, done: float = done, part: float = part, name: str = f"{task} {lag}") -> None:
            watch(Progress("train", 0, done + part * (progress.share or 0), f"{name}  {progress.note}"))

        found.setdefault(task, {}).setdefault(model, []).append(solved(task, lag, model, size, seed, told))
    numbers = {f"{task} {model}": found[task][model][-1] for task in MODELS for model in MODELS[task]}
    curves: dict[str, dict[str, Points]] = {
        task: {model: (LAGS[size][task], shares) for model, shares in of_task.items()}
        for task, of_task in found.items()
    }
    return Finding(numbers, curves)


def solved(task: str, lag: int, model: str, size: Size, seed: int, watch: Watch) -> float:
    """The share of right answers on new sequences after training."""
    import numpy as np
    import torch

    from ostinato.claims.training import Plan, learn, right

    torch.manual_seed(seed)
    rng, unseen = np.random.default_rng(seed), np.random.default_rng(1000 + seed)
    reader, draw = made(task, lag, model)
    rows = 20 if lag < 500 else 10
    learn(reader, Plan(UPDATES[task] * TIMES[size], RATES[model]), lambda: draw(rng, rows, lag), watch)
    return right(reader, draw(unseen, TESTED, lag))


def made(task: str, lag: int, model: str) -> tuple[Reader, Callable[[np.random.Generator, int, int], Task]]:
    """A new network for a task, and the task."""
    from ostinato.claims import sequences
    from ostinato.claims.training import Reader, remember_for

    reads, answers, symbols, draw = {
        "noise-free": (lag + 1, 2, True, sequences.noise_free),
        "adding": (2, 1, False, sequences.adding),
        "order": (6, 4, True, sequences.temporal_order),
    }[task]
    if model == "lstm":
        return remember_for(Reader("lstm", reads, HIDDEN, answers, symbols), lag), draw
    begins = "orthogonal" if model == "orthogonal" else "uniform"
    return Reader("rnn", reads, HIDDEN, answers, symbols, recurrent_init=begins), draw


def learnt(task: str, en: str, zh: str) -> Quantity:
    """What the LSTM is expected to do."""
    what = Text(f"{en}: right answers of the LSTM at the longest lag", f"{zh}：LSTM 在最长时滞下的正确率")
    return Quantity(
        f"{task} lstm", what, "share", Interval(0.9, 1), Text("the paper reports it as solved", "论文报告已解决")
    )


def unlearnt(task: str, en: str, zh: str, chance: float, most: float) -> Quantity:
    """What the tanh network is expected to do."""
    what = Text(f"{en}: right answers of the tanh network at the longest lag", f"{zh}：tanh 网络在最长时滞下的正确率")
    why = Text(
        f"little more than the {chance:.0%} of an answer that has not seen the beginning",
        f"略高于没看到开头时的 {chance:.0%}",
    )
    return Quantity(f"{task} rnn", what, "share", Interval(0, most), why)


NAMES = {
    "lstm": Text("LSTM, gates set for the lag", "LSTM，门按时滞设定"),
    "rnn": Text("tanh, drawn evenly", "tanh，均匀抽取"),
    "orthogonal": Text("tanh, orthogonal", "tanh，正交"),
}


def figure(en: str, zh: str) -> Figure:
    """Shares by lag."""
    return Figure(Text(en, zh), Text("lag", "时滞"), Text("share right", "正确率"), x_log=True, marks=True, names=NAMES)


CLAIM = add(
    Claim(
        id="long-lags",
        level="observed",
        statement=Text(
            "Vanishing gradients keep a simple tanh network from learning long lags, up to 1,000 steps, that an LSTM "
            "learns.",
            "梯度消失使简单 tanh 网络学不会长时滞（直到 1,000 步），而 LSTM 学得会。",
        ),
        misreading=Text(
            "“A tanh network cannot remember.” It can hold a bit for ever; what fails is learning to, from weights "
            "that let gradients vanish. From an orthogonal matrix and small inputs it learns some of the same lags. "
            "And an LSTM whose gates begin half closed forgets too: the default ones here, at 100 steps, are not "
            "enough.",
            "“tanh 网络记不住。”它可以永远保存一个比特；失败的是从会让梯度消失的权重出发去学。"
            "从正交矩阵与小输入出发，它能学会其中一些时滞。门半关起步的 LSTM 也会遗忘：此处默认的门在 100 步时就不够。",
        ),
        experiment=Text(
            "Three generated tasks: a first symbol to be named after symbols that never change (noise-free), two "
            "marked numbers to be added, the order of two symbols among noise. 32 units, 250 to 500 updates (full: "
            "twice as many, since with these adding was just short of its interval) of 20 sequences (10 from lag 500 "
            "on), Adam, clipping; 200 new sequences. The LSTM's gates are set for the lag [Tallec2018]; "
            "the tanh network begins with weights drawn evenly in ±1/√32, beside it, only reported, from an "
            "orthogonal matrix.",
            "三个生成任务：在固定不变的符号串之后说出首个符号（无噪声）、两个带标记的数相加、噪声中两个符号的先后。"
            "32 单元，250 到 500 次更新（完整运行加倍，因为此前的次数下加法任务略低于预期区间），"
            "每次 20 个序列（时滞 500 起为 10 个），Adam，裁剪；200 个新序列测试。"
            "LSTM 的门按时滞设定 [Tallec2018]；tanh 网络的权重在 ±1/√32 内均匀抽取，另报告正交矩阵起步的结果。",
        ),
        sources=(
            Source(
                "Hochreiter1997",
                Text(
                    "experiments 2a, 4 and 6a: LSTM without a forget gate solves noise-free sequences of lag 100, "
                    "where real-time recurrent learning and back-propagation through time fail, the adding problem at "
                    "100, 500 and 1,000 steps, and temporal order over about 100 steps.",
                    "实验 2a、4、6a：没有遗忘门的 LSTM 解决了时滞 100 的无噪声序列（RTRL 与 BPTT 失败）、"
                    "100、500、1,000 步的加法问题，以及约 100 步的时间顺序问题。",
                ),
            ),
            Source(
                "Bengio1994",
                Text(
                    "gradient descent fails increasingly on a latching task as its duration grows.",
                    "锁存任务随持续时间变长，梯度下降越来越失败。",
                ),
            ),
            Source(
                "Tallec2018",
                Text(
                    "biases of the gates drawn so that memories last as long as the lag speed learning up, or make it "
                    "possible, on copying and adding.",
                    "按时滞抽取门的偏置，使记忆持续相应时长，可加快复制与加法任务的学习，或使之成为可能。",
                ),
            ),
        ),
        quantities=(
            learnt("noise-free", "noise-free", "无噪声"),
            unlearnt("noise-free", "noise-free", "无噪声", 0.5, 0.7),
            Quantity(
                "noise-free orthogonal",
                Text("noise-free: the tanh network from an orthogonal matrix", "无噪声：正交矩阵起步的 tanh 网络"),
                "share",
            ),
            learnt("adding", "adding, to within 0.04", "加法（误差小于 0.04）"),
            unlearnt("adding", "adding, to within 0.04", "加法（误差小于 0.04）", 0.15, 0.4),
            learnt("order", "temporal order", "时间顺序"),
            unlearnt("order", "temporal order", "时间顺序", 0.25, 0.5),
        ),
        figures={
            "noise-free": figure("Noise-free", "无噪声"),
            "adding": figure("Adding", "加法"),
            "order": figure("Temporal order", "时间顺序"),
        },
        measure=measure,
        seeds={"quick": 2, "full": 3},
    )
)
