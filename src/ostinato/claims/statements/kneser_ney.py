"""Kneser-Ney beats the other smoothings at each order. Source: [Chen1999], [Kneser1995]."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Progress, Watch

ORDERS = (2, 3, 4, 5)
SHARE: dict[Size, float] = {"quick": 0.25, "full": 1.0}
OURS = "kneser-ney"  # in the name of every form of it


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """The perplexity of every smoothing at every order on the embedded corpus, its documents split by the seed."""
    from ostinato.claims.corpus import split
    from ostinato.tasks.language.ngrams import Estimate
    from ostinato.tasks.language.smoothings import compare_smoothings
    from ostinato.text.options import DataOptions

    with tempfile.TemporaryDirectory(prefix="ostinato-") as folder:
        train, valid, test = split(Path(folder), seed, SHARE[size])
        data = DataOptions(text=(train,), normalise=("lower",), tokeniser="word", min_count=2)
        told = Estimate(data, threads=1, watch=lambda progress: watch(Progress("smooth", 0, progress.share)))
        rows = compare_smoothings(told, valid, test, ORDERS)
    scores: dict[str, list[float]] = {}
    for row in rows:
        if row.normalised and math.isfinite(row.on("test").nats):
            scores.setdefault(row.smoothing, []).append(row.on("test").perplexity)
    whole = {name: values for name, values in scores.items() if len(values) == len(ORDERS)}
    numbers = {}
    for place, order in enumerate(ORDERS):
        ours = min(values[place] for name, values in whole.items() if OURS in name)
        others = min(values[place] for name, values in whole.items() if OURS not in name)
        numbers[f"order {order}"] = ours / others
    curves: dict[str, Points] = {name: (ORDERS, values) for name, values in whole.items()}
    return Finding(numbers, {"perplexities": curves})


def at(order: int) -> Quantity:
    """The comparison at one order."""
    return Quantity(
        f"order {order}",
        Text(
            f"order {order}: best perplexity of Kneser-Ney / best of the others",
            f"{order} 元：Kneser-Ney 的最佳困惑度 / 其他方法的最佳困惑度",
        ),
        "ratio",
        Interval(0.5, 1),
        Text("better means below 1", "更好即小于 1"),
    )


CLAIM = add(
    Claim(
        id="kneser-ney",
        level="observed",
        statement=Text(
            "Kneser-Ney smoothing gives a lower perplexity than every other smoothing, at each order from 2 on.",
            "从 2 元起的每个阶数，Kneser-Ney 平滑的困惑度都低于其他平滑方法。",
        ),
        misreading=Text(
            "“Kneser-Ney is always best.” It was compared by perplexity on running text of the same kind. Pruned "
            "hard, or on text of another kind, it loses its lead, and with enormous data the choice of smoothing "
            "hardly matters.",
            "“Kneser-Ney 总是最好。”比较的是同类连续文本上的困惑度。大幅剪枝或换一类文本时它会失去优势，"
            "数据极大时平滑方法几乎无关紧要。",
        ),
        experiment=Text(
            "The embedded corpus (Python's own documentation, 337,000 words; quick: a quarter of its documents), "
            "split into documents for training, validation and test by the seed; words in lower case that occur "
            "twice; all smoothings there are that give probabilities, those with numbers to choose tuned on the "
            "validation text.",
            "内嵌语料（Python 自带文档，33.7 万词；快速运行取四分之一文档），按种子将文档分为训练、验证、测试；"
            "小写词，至少出现两次；所有给出概率的平滑方法，带参数者在验证文本上调整。",
        ),
        sources=(
            Source(
                "Chen1999",
                Text(
                    "on four corpora, orders 2 and 3, from 100 to 10,000,000 sentences: modified Kneser-Ney, "
                    "interpolated, has the lowest cross-entropy throughout.",
                    "在四个语料、2 元与 3 元、100 至 1000 万句上：插值的修正 Kneser-Ney 交叉熵始终最低。",
                ),
            ),
            Source(
                "Kneser1995",
                Text(
                    "proposes counting contexts instead of occurrences for the lower orders, and reports lower "
                    "perplexities than with absolute discounting.",
                    "提出低阶分布改用上文种类数而非出现次数，并报告困惑度低于绝对折扣。",
                ),
            ),
        ),
        quantities=tuple(map(at, ORDERS)),
        figures={
            "perplexities": Figure(
                Text("Test perplexity", "测试困惑度"),
                Text("order", "阶数"),
                Text("perplexity", "困惑度"),
                y_log=True,
                marks=True,
            )
        },
        measure=measure,
    )
)
