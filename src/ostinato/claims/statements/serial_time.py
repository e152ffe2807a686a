"""The time of a recurrent pass grows linearly with length, and cannot be spread over it. Source: [Vaswani2017]."""

from __future__ import annotations

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.claims.timing import least, slope
from ostinato.core.progress import Progress, Watch

KINDS = ("rnn", "lstm", "gru")
LENGTHS: dict[Size, tuple[int, ...]] = {"quick": (64, 128, 256, 512), "full": (64, 128, 256, 512, 1024, 2048, 4096)}
REPEATS: dict[Size, int] = {"quick": 5, "full": 15}
HIDDEN, ROWS = 64, 8
SIDES, SHORT = 64, 64  # the same symbols as 64 short sequences and as one long one


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """Seconds of processor of forward passes, by length, one thread; one long sequence against many short ones."""
    import torch

    from ostinato.claims.training import Reader
    from ostinato.nn.counting import Sizes, costs

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    curves: dict[str, Points] = {}
    numbers: dict[str, float] = {}
    try:
        for place, kind in enumerate(KINDS):
            reader = Reader(kind, HIDDEN, HIDDEN, 1).eval()

            def passing(rows: int, steps: int, reader: Reader = reader) -> float:
                inputs = torch.randn(rows, steps, HIDDEN)
                return least(lambda: reader.last(inputs), REPEATS[size])

            with torch.inference_mode():
                seconds = [passing(ROWS, steps) for steps in LENGTHS[size]]
                numbers[kind] = slope(LENGTHS[size], seconds)
                curves[kind] = LENGTHS[size], seconds
                if kind == "lstm":
                    gain = passing(1, SIDES * SHORT) / passing(SIDES, SHORT)
            watch(Progress("time", 0, (place + 1) / len(KINDS), kind))
    finally:
        torch.set_num_threads(threads)
    steps = [
        next(cost.serial_steps for cost in costs(Sizes(length=length)) if cost.name == "lstm")
        for length in LENGTHS[size]
    ]
    numbers["serial"] = (steps[-1] - steps[0]) / (LENGTHS[size][-1] - LENGTHS[size][0])
    numbers["side by side"] = gain
    return Finding(numbers, {"seconds": curves})


POWER = Text("growth of time with length: the power p of T^p, {0}", "时间随长度增长：T^p 的幂次 p，{0}")
NEAR_ONE = Interval(0.8, 1.15)
WHY = Text(
    "1 by the count of operations; costs that do not grow with T pull it down at short lengths",
    "按运算次数应为 1；不随 T 增长的开销在长度较短时会使其偏低",
)


def power(kind: str, name: str) -> Quantity:
    """The growth of one kind's time."""
    return Quantity(kind, Text(POWER.en.format(name), POWER.zh.format(name)), "power", NEAR_ONE, WHY)


CLAIM = add(
    Claim(
        id="serial-time",
        level="theoretical",
        statement=Text(
            "The time of a recurrent pass grows linearly with the length of the sequence, and steps that wait for each "
            "other cannot be computed side by side.",
            "循环网络一遍计算的时间随序列长度线性增长；彼此等待的步骤无法并行计算。",
        ),
        misreading=Text(
            "“Recurrent networks are slow.” The work grows linearly, that of self-attention quadratically. What is "
            "missing is parallelism over one sequence; other sequences can stand beside it. And a recurrence whose "
            "gates do not read the state (minGRU) can be computed by a parallel scan.",
            "“循环网络很慢。”其计算量线性增长，自注意力则为平方。缺的是单个序列上的并行；其他序列可以并排计算。"
            "门不读取状态的循环（如 minGRU）还可以用并行扫描计算。",
        ),
        experiment=Text(
            "Forward passes of networks of 64 units on 8 sequences, one thread, least seconds of processor of several "
            "repeats, for lengths from 64 on (full: to 4,096). The LSTM too on 4,096 vectors as one sequence, and as "
            "64: only reported, since it hangs on the machine (a first guess, at least 2, was missed by a quick run "
            "with 1.8).",
            "64 单元网络在 8 个序列上的前向计算，单线程，多次重复取最少处理器秒数，长度从 64 起（完整运行到 4,096）。"
            "LSTM 另在 4,096 个向量上比较：作为一个序列，或作为 64 个序列；仅报告，因为它取决于机器"
            "（最初猜测至少为 2，一次快速运行得到 1.8，未达到）。",
        ),
        sources=(
            Source(
                "Vaswani2017",
                Text(
                    "table 1: a recurrent layer needs O(n) sequential operations for n symbols, self-attention O(1); "
                    "by count, not measured.",
                    "表 1：对 n 个符号，循环层需要 O(n) 次顺序操作，自注意力为 O(1)；为计数，并非测量。",
                ),
            ),
        ),
        quantities=(
            power("rnn", "Elman"),
            power("lstm", "LSTM"),
            power("gru", "GRU"),
            Quantity(
                "serial",
                Text("serial steps that one more symbol adds", "每多一个符号增加的顺序步数"),
                "steps",
                Interval(1, 1),
                Text("by the formula", "由公式"),
            ),
            Quantity(
                "side by side",
                Text(
                    "time of 4,096 vectors in one sequence / in 64 sequences side by side",
                    "4,096 个向量：单个序列的时间 / 64 个并排序列的时间",
                ),
                "ratio",
            ),
        ),
        figures={
            "seconds": Figure(
                Text("Time of one pass", "一遍计算的时间"),
                Text("length", "长度"),
                Text("seconds of processor", "处理器秒数"),
                x_log=True,
                y_log=True,
                marks=True,
                names={"rnn": Text("Elman", "Elman"), "lstm": Text("LSTM", "LSTM"), "gru": Text("GRU", "GRU")},
            )
        },
        measure=measure,
    )
)
