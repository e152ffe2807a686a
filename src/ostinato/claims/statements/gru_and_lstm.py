"""A GRU with a quarter fewer parameters is about as good as an LSTM. Source: [Chung2014], [Cho2014]."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, cast

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Progress, Watch

KINDS: tuple[Any, ...] = ("lstm", "gru")
HIDDEN: dict[Size, int] = {"quick": 64, "full": 128}
SHARE: dict[Size, float] = {"quick": 0.15, "full": 0.5}
EPOCHS: dict[Size, int] = {"quick": 4, "full": 8}


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """The test perplexity of both as language models of the same width, on documents split by the seed."""
    from ostinato.claims.language import Texts, trained
    from ostinato.nn.lm import NeuralLM
    from ostinato.tasks.options import ModelOptions
    from ostinato.train.options import TrainOptions

    perplexity, weights, curves = {}, {}, dict[str, Points]()
    with tempfile.TemporaryDirectory(prefix="ostinato-") as name:
        folder = Path(name)
        texts = Texts.embedded(folder, seed, SHARE[size])
        for place, kind in enumerate(KINDS):

            def told(progress: Progress, place: int = place, kind: str = kind) -> None:
                share = (place + (progress.share or 0)) / len(KINDS)
                watch(Progress("train", progress.tokens, share, f"{kind}  {progress.note}"))

            model = ModelOptions(kind=kind, hidden=HIDDEN[size], biases=1)
            train = TrainOptions(epochs=EPOCHS[size], learning_rate=0.005, seed=seed, threads=1)
            done = trained(folder, kind, texts, model, train, told)
            perplexity[kind] = done.test.perplexity
            curves[kind] = done.valid_curve
            network = cast(NeuralLM, done.model.model).network
            weights[kind] = sum(p.numel() for name, p in network.named_parameters() if name.startswith("stack."))
    numbers = {
        "perplexity": perplexity["gru"] / perplexity["lstm"],
        "parameters": weights["gru"] / weights["lstm"],
        "gru": perplexity["gru"],
        "lstm": perplexity["lstm"],
    }
    return Finding(numbers, {"valid": curves})


CLAIM = add(
    Claim(
        id="gru-and-lstm",
        level="observed",
        statement=Text(
            "A GRU, with a quarter fewer parameters in its cell than an LSTM of the same width, is about as good.",
            "GRU 的单元参数比同宽 LSTM 少四分之一，效果大致相当。",
        ),
        misreading=Text(
            "“The GRU is the better LSTM.” Which one wins changes with the task, the size and the tuning, and a GRU "
            "cannot count without bound as an LSTM's cell can. Of a whole language model a cell is a small part: "
            "embedding and output layer save nothing.",
            "“GRU 是更好的 LSTM。”孰优孰劣随任务、规模和调参而变，且 GRU 不能像 LSTM 的细胞那样无界计数。"
            "在整个语言模型中单元只占一小部分：嵌入与输出层一点没省。",
        ),
        experiment=Text(
            "Language models of one layer on the embedded corpus (Python's own documentation; 15% of its documents, "
            "64 units, 4 epochs; full: 50%, 128 units, 8 epochs), documents split by the seed, words in lower case, "
            "the same options for both; test perplexity.",
            "内嵌语料（Python 自带文档）上的单层语言模型（15% 文档、64 单元、4 轮；完整运行 50%、128 单元、8 轮），"
            "文档按种子划分，小写词，两者选项相同；测试困惑度。",
        ),
        sources=(
            Source(
                "Chung2014",
                Text(
                    "on polyphonic music and speech, with about equally many parameters: both gated units beat tanh; "
                    "between GRU and LSTM no clear winner.",
                    "在复调音乐与语音上、参数量大致相等时：两种门控单元都优于 tanh；GRU 与 LSTM 之间没有明显胜者。",
                ),
            ),
            Source(
                "Cho2014",
                Text(
                    "proposes the unit, as simpler to compute than an LSTM; the two are not compared there.",
                    "提出该单元，称其计算比 LSTM 简单；文中未比较两者。",
                ),
            ),
        ),
        quantities=(
            Quantity(
                "perplexity",
                Text("test perplexity of the GRU / of the LSTM", "测试困惑度：GRU / LSTM"),
                "ratio",
                Interval(0.95, 1.05),
                Text("about as good: within 5%", "大致相当：相差 5% 以内"),
            ),
            Quantity(
                "parameters",
                Text("parameters of the cell, GRU / LSTM", "单元参数：GRU / LSTM"),
                "ratio",
                Interval(0.74, 0.76),
                Text("3 gates instead of 4, and one bias more", "3 个门而非 4 个，外加一个偏置"),
            ),
            Quantity("gru", Text("test perplexity of the GRU", "GRU 的测试困惑度"), "perplexity"),
            Quantity("lstm", Text("test perplexity of the LSTM", "LSTM 的测试困惑度"), "perplexity"),
        ),
        figures={
            "valid": Figure(
                Text("Validation perplexity", "验证困惑度"),
                Text("epoch", "轮"),
                Text("perplexity", "困惑度"),
                y_log=True,
                marks=True,
                names={"lstm": Text("LSTM", "LSTM"), "gru": Text("GRU", "GRU")},
            )
        },
        measure=measure,
        seeds={"quick": 3, "full": 3},
    )
)
