"""A fixed vector fails on long sentences where attention does not. Source: [Bahdanau2015]."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding
from ostinato.core.progress import Watch

if TYPE_CHECKING:
    import numpy as np

WORDS, LONGEST = 20, 20
LENGTHS = ((1, 5), (6, 10), (11, 15), (16, 20), (21, 30))
SHORT, LONG, UNSEEN = 0, 3, 4  # places in LENGTHS
PAIRS: dict[Size, int] = {"quick": 2000, "full": 6000}
JUDGED: dict[Size, int] = {"quick": 60, "full": 200}
EPOCHS: dict[Size, int] = {"quick": 8, "full": 12}
HIDDEN: dict[Size, int] = {"quick": 64, "full": 96}
MODELS: dict[str, dict[str, Any]] = {
    "attention": {"attention": "additive"},
    "fixed": {"attention": "none", "context": "every-step"},
}


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """BLEU by the length of the source, of both networks after the same training."""
    import numpy as np

    from ostinato.claims.parts import watches

    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory(prefix="ostinato-") as inside:
        folder = Path(inside)
        train = written(folder, "train", rng, PAIRS[size], (1, LONGEST))
        valid = written(folder, "valid", rng, JUDGED[size], (1, LONGEST))
        tests = [written(folder, f"test-{low}", rng, JUDGED[size], (low, high)) for low, high in LENGTHS]
        scores = {
            name: scored(folder / name, MODELS[name], size, seed, (train, valid, tests), told)
            for name, told in zip(MODELS, watches(watch, list(MODELS)), strict=True)
        }
    numbers = {f"{name} keeps": bleu[LONG] / bleu[SHORT] for name, bleu in scores.items()}
    numbers |= {f"{name} {what}": bleu[place] for what, place in (("short", SHORT), ("long", LONG), ("unseen", UNSEEN))
                for name, bleu in scores.items()}  # fmt: skip
    middles = [(low + high) / 2 for low, high in LENGTHS]
    return Finding(numbers, {"bleu": {name: (middles, bleu) for name, bleu in scores.items()}})


def scored(
    folder: Path,
    choices: dict[str, Any],
    size: Size,
    seed: int,
    texts: tuple[tuple[str, str], tuple[str, str], list[tuple[str, str]]],
    watch: Watch,
) -> list[float]:
    """BLEU of a newly trained translator on each of the tests. texts: training, validation and test files."""
    from ostinato.claims.tasks import taught
    from ostinato.tasks.translation.options import Config, DataOptions, ModelOptions, SearchOptions, TrainOptions

    train, valid, tests = texts
    config = Config(
        DataOptions(train=train, valid=valid, tokeniser="blank"),
        ModelOptions(hidden=HIDDEN[size], embedding=32, dropout=0.0, **choices),
        TrainOptions(epochs=EPOCHS[size], learning_rate=0.01, rows=32, threads=1, seed=seed, measure="bleu"),
        SearchOptions(beam=1),
    )
    made = taught(folder, "translation", config, watch)
    return [made.evaluate(files, lambda progress: None).value for files in tests]


def written(folder: Path, name: str, rng: np.random.Generator, count: int, lengths: tuple[int, int]) -> tuple[str, str]:
    """Two parallel files of new pairs with sources of `lengths` words, both ends included."""
    low, high = lengths
    sources = [rng.integers(0, WORDS, int(rng.integers(low, high + 1))).tolist() for _ in range(count)]
    files = folder / f"{name}.source", folder / f"{name}.target"
    for file, mark, rows in zip(files, "st", (sources, map(reordered, sources)), strict=True):
        file.write_text("".join(" ".join(f"{mark}{word}" for word in row) + "\n" for row in rows), "utf8")
    return str(files[0]), str(files[1])


def reordered(words: list[int]) -> list[int]:
    """The words with every even one behind the odd one that follows it: adjectives go behind their nouns."""
    target = list(words)
    for place, (word, after) in enumerate(itertools.pairwise(words)):
        if word % 2 == 0 and after % 2 == 1:
            target[place : place + 2] = after, word
    return target


def keeps(name: str, en: str, zh: str, expected: Interval, why: Text) -> Quantity:
    """What is left of BLEU from the shortest to the longest sources of training."""
    what = Text(f"{en}: BLEU at 16 to 20 words / at 1 to 5 words", f"{zh}：16–20 词的 BLEU / 1–5 词的 BLEU")
    return Quantity(f"{name} keeps", what, "ratio", expected, why)


NAMES = {"attention": Text("additive attention", "加性注意力"), "fixed": Text("a fixed vector", "固定向量")}
WHERE = {
    "short": Text("1 to 5 words", "1–5 词"),
    "long": Text("16 to 20 words", "16–20 词"),
    "unseen": Text("21 to 30 words, longer than any of training", "21–30 词（长于训练中所有句子）"),
}


def reported(name: str, where: str) -> Quantity:
    """BLEU itself."""
    what = Text(f"{NAMES[name].en}: BLEU at {WHERE[where].en}", f"{NAMES[name].zh}：{WHERE[where].zh}的 BLEU")
    return Quantity(f"{name} {where}", what, "number")


CLAIM = add(
    Claim(
        id="fixed-vector",
        level="observed",
        statement=Text(
            "A translator that must put the whole source into one vector of fixed size fails on long sentences; one "
            "that attends to every word of the source does not.",
            "必须把整个源句压入一个固定大小向量的翻译器在长句上失败；对源句每个词做注意的翻译器不会。",
        ),
        misreading=Text(
            "“Attention translates sentences of any length.” It lifts the limit of the vector, not that of what was "
            "learnt: beyond the lengths of training it falls too, as the last point of the figure shows. Nor is there "
            "a length at which every fixed vector fails: a wider one, trained longer, holds more.",
            "“注意力能翻译任意长度的句子。”它去除的是向量容量的限制，而非所学的限制：超出训练长度后同样下降，"
            "见图中最后一点。也不存在使一切固定向量失败的长度：更宽、训练更久的向量能容纳更多。",
        ),
        experiment=Text(
            "Generated pairs anyone can make: 1 to 20 words drawn from 20, of which every even one is put behind the "
            "odd one that follows it (adjectives behind nouns), each word translated one to one. 2,000 pairs, LSTMs of "
            "64 units, encoder from both ends, 8 epochs (full: 6,000, 96, 12); the fixed vector is read at every step "
            "of the decoder, as in the source; greedy search; new pairs by length.",
            "人人可生成的句对：从 20 个词中抽 1–20 个，偶数词移到其后的奇数词之后（形容词置于名词后），逐词对应翻译。"
            "2,000 对、64 单元 LSTM、双向编码器、8 轮（完整运行 6,000 对、96 单元、12 轮）；"
            "固定向量如原文在解码每一步都被读取；贪心搜索；按长度在新句对上评估。",
        ),
        sources=(
            Source(
                "Bahdanau2015",
                Text(
                    "English to French, figure 2 and table 1: BLEU of the fixed vector falls as sentences get longer, "
                    "that of attention trained on up to 50 words does not, at 50 words and beyond; over all "
                    "sentences 17.82 and 26.75.",
                    "英译法，图 2 与表 1：固定向量的 BLEU 随句长下降，以最多 50 词训练的注意力在 50 词及以上也不下降；"
                    "全部句子上为 17.82 与 26.75。",
                ),
            ),
        ),
        quantities=(
            keeps(
                "fixed",
                "a fixed vector",
                "固定向量",
                Interval(0, 0.7),
                Text(
                    "its curve falls steeply in figure 2; a loss of a third is the least to be called failing",
                    "图 2 中其曲线急剧下降；至少损失三成才可称失败",
                ),
            ),
            keeps(
                "attention",
                "attention",
                "注意力",
                Interval(0.85, 1.05),
                Text("its curve is flat in figure 2", "图 2 中其曲线平坦"),
            ),
            *(reported(name, where) for where in WHERE for name in MODELS),
        ),
        figures={
            "bleu": Figure(
                Text("BLEU by length of the source", "按源句长度的 BLEU"),
                Text("words of the source (middle of a range)", "源句词数（区间中点）"),
                Text("BLEU", "BLEU 值"),
                marks=True,
                names=NAMES,
            )
        },
        measure=measure,
        seeds={"quick": 3, "full": 3},
    )
)
