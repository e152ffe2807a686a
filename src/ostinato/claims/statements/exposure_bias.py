"""Teacher forcing hides exposure bias. Source: [Bengio2015], [Ranzato2016], [He2021]."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Watch

if TYPE_CHECKING:
    from ostinato.claims.chains import Believe, Probs, Symbols, Walk
    from ostinato.core.model import LanguageModel

STATES, SYMBOLS, STEPS = 16, 24, 50
CHAINS = {"noisy": (0.1, 0.02), "strict": (0.03, 0.0005)}
"""How sparse the distributions of each generator are, and their noise."""
EARLY, LATE = slice(0, 5), slice(25, 50)  # places
LINES: dict[Size, int] = {"quick": 1500, "full": 6000}
HELD, WALKS = 100, 1000
HIDDEN: dict[Size, int] = {"quick": 64, "full": 128}
EPOCHS: dict[Size, int] = {"quick": 5, "full": 8}


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """How far an LSTM is from its generator after true beginnings and after its own, by place, for both generators."""
    from ostinato.claims.parts import watches

    numbers: dict[str, float] = {}
    regret: dict[str, Points] = {}
    costs: dict[str, dict[str, Points]] = {}
    places = range(1, STEPS + 1)
    for name, told in zip(CHAINS, watches(watch, list(CHAINS)), strict=True):
        given, alone = walks(name, size, seed, told)
        late, early = (float(alone.regret[part].mean() / given.regret[part].mean()) for part in (LATE, EARLY))
        numbers |= {
            f"{name} late": late,
            f"{name} grows": late - early,
            f"{name} given": float(given.regret[LATE].mean()),
            f"{name} alone": float(alone.regret[LATE].mean()),
            f"{name} next": float((given.surprise - given.entropy)[LATE].mean()),
            f"{name} text": float((alone.surprise - given.entropy)[LATE].mean()),
        }
        regret |= {f"{name} given": (places, given.regret), f"{name} alone": (places, alone.regret)}
        written = {"truth": given.entropy, "given": given.surprise, "alone": alone.surprise}
        costs[name] = {what: (places, values) for what, values in written.items()}
    return Finding(numbers, {"regret": regret, **costs})


def walks(name: str, size: Size, seed: int, watch: Watch) -> tuple[Walk, Walk]:
    """Texts of a generator that a newly trained LSTM reads, and texts that it writes itself."""
    import numpy as np

    from ostinato.claims.chains import Chain, walk
    from ostinato.claims.language import Texts, trained
    from ostinato.tasks.options import ModelOptions
    from ostinato.train.options import TrainOptions

    rng = np.random.default_rng(seed)
    chain = Chain.drawn(rng, STATES, SYMBOLS, *CHAINS[name])
    with tempfile.TemporaryDirectory(prefix="ostinato-") as inside:
        files = [Path(inside) / part for part in ("train", "valid")]
        for file, count in zip(files, (LINES[size], HELD), strict=True):
            rows = chain.texts(rng, count, STEPS).tolist()
            file.write_text("".join(" ".join(f"w{symbol}" for symbol in row) + "\n" for row in rows), "utf8")
        train, valid = map(str, files)
        options = TrainOptions(epochs=EPOCHS[size], learning_rate=0.005, seed=seed, threads=1)
        model = ModelOptions(kind="lstm", hidden=HIDDEN[size], dropout=0.0)
        made = trained(Path(inside), "lstm", Texts(train, valid, valid), model, options, watch).model.model
    given, alone = (walk(chain, reader(made), rng, WALKS, STEPS, own) for own in (False, True))
    return given, alone


def reader(model: LanguageModel) -> Believe:
    """A language model as what reads symbols; the mass of anything but a symbol is shared out."""
    import numpy as np

    ids = model.vocabulary.ids([f"w{symbol}" for symbol in range(SYMBOLS)])
    state = model.init_state(WALKS)

    def believe(symbols: Symbols | None) -> Probs:
        nonlocal state
        tokens = np.full(WALKS, model.vocabulary.start) if symbols is None else ids[symbols]
        log_probs, state = model.step(state, tokens)
        probs = np.exp(log_probs[:, ids].astype(np.float64))
        shared: Probs = probs / probs.sum(axis=1, keepdims=True)
        return shared

    return believe


KINDS = {"noisy": Text("noisy chain", "有噪声的链"), "strict": Text("strict chain", "严格的链")}
AFTER = {
    "given": Text("after true beginnings", "真实开头之后"),
    "alone": Text("after its own", "自己的开头之后"),
}
WRITTEN = {
    "truth": Text("text of the chain", "链的文本"),
    "given": Text("one symbol of the model after it", "其后模型的一个符号"),
    "alone": Text("text of the model", "模型的文本"),
}


def told(name: str, what: Text) -> Text:
    """The same of one chain."""
    return Text(f"{KINDS[name].en}: {what.en}", f"{KINDS[name].zh}：{what.zh}")


def of(name: str) -> tuple[Quantity, ...]:
    """What is measured on one chain, all at places 26 to 50."""
    return (
        Quantity(
            f"{name} late",
            told(name, Text("divergence after own beginnings / after true ones", "散度之比：自己的开头 / 真实开头")),
            "ratio",
            Interval(1.05, 10),
            Text("worse by 5% at least; the sources give no number", "至少差 5%；来源未给出数值"),
        ),
        Quantity(
            f"{name} grows",
            told(name, Text("that ratio less the one at places 1 to 5", "该比值减去第 1–5 位的比值")),
            "number",
            Interval(0.02, 10),
            Text("above zero, since errors are said to add up", "大于零，因为误差据称会累积"),
        ),
        Quantity(f"{name} given", told(name, Text("divergence after true beginnings", "真实开头后的散度")), "nats"),
        Quantity(f"{name} alone", told(name, Text("divergence after own ones", "自己的开头后的散度")), "nats"),
        Quantity(
            f"{name} next",
            told(
                name,
                Text(
                    "cost of the model's next symbol after true beginnings, beyond the chain's own",
                    "真实开头后模型下一符号的代价，减去链自身的代价",
                ),
            ),
            "nats",
        ),
        Quantity(
            f"{name} text",
            told(
                name, Text("cost of the model's text, beyond that of the chain's", "模型文本的代价，减去链文本的代价")
            ),
            "nats",
        ),
    )


def cost_figure(name: str) -> Figure:
    """What symbols cost under one chain, by place."""
    return Figure(
        told(name, Text("what a symbol costs under the chain", "符号在链下的代价")),
        Text("place in the line", "行中位置"),
        Text("nats", "奈特"),
        names=WRITTEN,
    )


CLAIM = add(
    Claim(
        id="exposure-bias",
        level="observed",
        statement=Text(
            "A model trained by teacher forcing does worse after a beginning of its own than its loss says, which is "
            "measured after true beginnings only, and the more so the longer it has gone on by itself.",
            "用教师强制训练的模型在自己写出的开头之后，比其损失所显示的更差，因为损失只在真实开头之后测量；"
            "独自续写得越久，差得越多。",
        ),
        misreading=Text(
            "“One wrong word, and all that follows is lost.” Errors need not snowball: a model may recover, and where "
            "it has been measured the effect is often small. Nor is the loss of teacher forcing wrong: it is exactly "
            "what the model says of true text. Dull or looping samples of greedy search are another matter too.",
            "“错一个词，后面全毁。”错误未必滚雪球：模型可能自行恢复，测量所得的影响往往很小。教师强制的损失也没有错："
            "它正是模型对真实文本的评价。贪心搜索产生的平淡或循环文本则是另一回事。",
        ),
        experiment=Text(
            "Text of hidden Markov chains drawn by the seed (16 states, 24 symbols; one noisy, one strict, in which a "
            "wrong symbol is nearly impossible), so that the true distribution p of the next symbol is known after any "
            "beginning, also a bad one. An LSTM of 64 units reads 1,500 lines of 50 symbols, 5 epochs (full: 128, "
            "6,000, 8). Then, at each place, the divergence KL(p ‖ q) of its distribution q, which is its loss beyond "
            "the least possible, after 1,000 beginnings by the chain and after 1,000 that it drew by itself. Beside "
            "it, what its symbols cost under the chain, exactly. The strict chain was added once the noisy one was "
            "measured. Scheduled sampling is not measured.",
            "由种子抽取的隐马尔可夫链（16 个状态、24 个符号；一条有噪声，一条严格，其中错误符号几乎不可能出现）"
            "生成文本，因此任何开头（包括坏的）之后下一符号的真实分布 p 都已知。64 单元 LSTM 读 1,500 行、"
            "每行 50 个符号，5 轮（完整运行 128 单元、6,000 行、8 轮）。然后在每个位置计算其分布 q 的散度 KL(p ‖ q)，"
            "即超出最小可能的损失，分别在链写的与它自己抽出的各 1,000 个开头之后。"
            "另精确计算其符号在链下的代价。严格的链是在测量有噪声的链之后加入的。未测量计划采样。",
        ),
        sources=(
            Source(
                "Bengio2015",
                Text(
                    "describes the mismatch and replaces true words by the model's own in training, more and more: "
                    "image captions 28.8 to 30.6 BLEU-4; the mismatch itself is not measured.",
                    "描述该不匹配，并在训练中逐步以模型自己的词替换真实词：图像描述 BLEU-4 从 28.8 到 30.6；"
                    "未测量不匹配本身。",
                ),
            ),
            Source(
                "Ranzato2016",
                Text(
                    "names it exposure bias; training on the model's own sequences improves greedy translation from "
                    "17.74 to 20.73 BLEU.",
                    "称之为曝光偏差；在模型自己的序列上训练使贪心翻译的 BLEU 从 17.74 升到 20.73。",
                ),
            ),
            Source(
                "He2021",
                Text(
                    "measures it for open-ended generation and finds it small: models recover from distorted "
                    "beginnings.",
                    "在开放式生成中测量，发现影响很小：模型能从被扰乱的开头恢复。",
                ),
            ),
        ),
        quantities=tuple(quantity for name in CHAINS for quantity in of(name)),
        figures={
            "regret": Figure(
                Text("Divergence from the distribution of the next symbol", "与下一符号分布的散度"),
                Text("place in the line", "行中位置"),
                Text("nats", "奈特"),
                names={f"{name} {what}": told(name, AFTER[what]) for name in CHAINS for what in AFTER},
            ),
            **{name: cost_figure(name) for name in CHAINS},
        },
        measure=measure,
        seeds={"quick": 3, "full": 3},
    )
)
