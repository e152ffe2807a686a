"""Pre-training as a language model helps a classifier with few labels. Source: [Dai2015]."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding
from ostinato.core.progress import Watch

LABELS = 8
LEAST_WORDS = 5
TESTED: dict[Size, int] = {"quick": 40, "full": 100}  # lines of each label
FEW = 25  # labelled lines of each label at which the claim is judged
COUNTS: dict[Size, tuple[int, ...]] = {"quick": (10, FEW), "full": (10, FEW, 60)}
HIDDEN: dict[Size, int] = {"quick": 64, "full": 96}
READ: dict[Size, int] = {"quick": 4000, "full": 8000}  # unlabelled lines
LM_EPOCHS: dict[Size, int] = {"quick": 5, "full": 6}
EPOCHS = 15


class Lines(NamedTuple):
    """(label, text) in turns, one of each label after another, to learn from and to judge by; and other lines."""

    learn: list[tuple[str, str]]
    test: list[tuple[str, str]]
    unlabelled: list[str]


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """Test accuracies with and without pre-training, by the number of labelled lines."""
    from ostinato.claims.parts import watches

    counts = COUNTS[size]
    reading, *learning = watches(watch, ["language model", *(f"{count} of each label" for count in counts)])
    found: dict[str, list[float]] = {"plain": [], "pretrained": []}
    with tempfile.TemporaryDirectory(prefix="ostinato-") as inside:
        folder = Path(inside)
        lines = drawn(seed, TESTED[size], max(counts))
        source = language_model(folder, lines, size, seed, reading)
        test = written(folder / "test", lines.test)
        for count, told in zip(counts, learning, strict=True):
            train = written(folder / f"train-{count}", lines.learn[: count * LABELS])
            for name, run in (("plain", None), ("pretrained", source)):
                place = folder / f"{name}-{count}"
                found[name].append(accuracy(place, (train, test), run, size, seed, told))
    at = counts.index(FEW)
    plain, pretrained = found["plain"][at], found["pretrained"][at]
    numbers = {"errors": (1 - pretrained) / (1 - plain), "gain": pretrained - plain}
    numbers |= {"pretrained": pretrained, "plain": plain}
    labelled = [count * LABELS for count in counts]
    return Finding(numbers, {"accuracy": {name: (labelled, shares) for name, shares in found.items()}})


def drawn(seed: int, tested: int, count: int) -> Lines:
    """Lines of the embedded corpus; a label is the module or package with the most lines that a line stands in.

    tested, count: lines of each label to judge by and to learn from. Lines are of `LEAST_WORDS` words at least; those
    that occur under several labels, or again, are not labelled.
    """
    import numpy as np

    from ostinato.text.embedded import python_docs

    where: dict[str, set[str]] = {}
    for name, lines in python_docs().documents:
        for line in lines:
            if len(line.split()) >= LEAST_WORDS:
                where.setdefault(line, set()).add(name.split()[0].split(".")[0])
    sizes = Counter(next(iter(names)) for names in where.values() if len(names) == 1)
    labels = [label for label, _ in sizes.most_common() if label != "topic"][:LABELS]
    rng = np.random.default_rng(seed)
    of: dict[str, list[str]] = {label: [] for label in labels}
    for line, names in where.items():
        if len(names) == 1 and (label := next(iter(names))) in of:
            of[label].append(line)
    for some in of.values():
        rng.shuffle(some)
    used = {line for some in of.values() for line in some[: tested + count]}
    unlabelled = [line for line in where if line not in used]
    rng.shuffle(unlabelled)
    test, learn = ([(label, of[label][place]) for place in part for label in labels]
                   for part in (range(tested), range(tested, tested + count)))  # fmt: skip
    return Lines(learn, test, unlabelled)


def written(path: Path, examples: Sequence[tuple[str, str]]) -> str:
    """A file of labels and texts in columns."""
    path.write_text("".join(f"{label}\t{text}\n" for label, text in examples), "utf8")
    return str(path)


def language_model(folder: Path, lines: Lines, size: Size, seed: int, watch: Watch) -> str:
    """A run that has read the lines without a label and those to learn from, and none of the test."""
    from ostinato.claims.language import Texts, trained
    from ostinato.tasks.options import ModelOptions
    from ostinato.train.options import TrainOptions

    unlabelled = lines.unlabelled[: READ[size]]
    held = len(unlabelled) // 20
    parts = {
        "train.txt": [*unlabelled[held:], *(text for _, text in lines.learn)],
        "valid.txt": unlabelled[:held],
    }
    for name, some in parts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in some), "utf8")
    train, valid = (str(folder / name) for name in parts)
    model = ModelOptions(kind="lstm", hidden=HIDDEN[size])
    options = TrainOptions(epochs=LM_EPOCHS[size], learning_rate=0.005, seed=seed, threads=1)
    return str(trained(folder, "language", Texts(train, valid, valid), model, options, watch).run.path)


def accuracy(folder: Path, files: tuple[str, str], source: str | None, size: Size, seed: int, watch: Watch) -> float:
    """The share of test lines whose label a new classifier names. files: to learn from, and the test."""
    from ostinato.claims.tasks import taught
    from ostinato.tasks.classification.options import Config, DataOptions, ModelOptions, TrainOptions

    train, test = files
    data = DataOptions(train=(train,), valid=(test,), form="tsv", label="0", text="1")
    if source is None:
        data = replace(data, normalise=("lower",), min_count=1)
        model = ModelOptions(kind="lstm", hidden=HIDDEN[size], dropout=0.2, hidden_words=0.1)
    else:
        model = ModelOptions(from_run=source, dropout=0.2, hidden_words=0.1)
    options = TrainOptions(epochs=EPOCHS, rows=16, threads=1, seed=seed, keep="last")
    return taught(folder, "classification", Config(data, model, options), watch).evaluate((), watch).value / 100


CLAIM = add(
    Claim(
        id="pretraining-helps",
        level="observed",
        statement=Text(
            "A classifier that starts from the layers of a language model, trained on text without labels, makes fewer "
            "errors than one that starts from chance, where labels are few.",
            "在标注很少时，从无标注文本上训练的语言模型的各层出发的分类器，比随机出发的分类器错误更少。",
        ),
        misreading=Text(
            "“Pre-training always helps.” The gain comes from text like that of the task. It shrinks as labels grow in "
            "number, and part of it is only that the language model knows words which the labelled lines lack.",
            "“预训练总有帮助。”增益来自与任务相似的文本；标注增多时增益缩小，"
            "且其中一部分只是语言模型认识标注行里没有的词。",
        ),
        experiment=Text(
            "Lines of Python's own documentation of at least five words, to be told by the module or package they "
            "come from: the eight with the most lines, 40 lines of each for the test (full: 100), 10 and 25 of each "
            "(full: 60 too) to learn from, judged at 25; all drawn by the seed. An LSTM of 64 units (full: 96) as a "
            "language model on 4,000 other lines (full: 8,000) and the lines to learn from, never the test; then the "
            "same LSTM, begun with its word vectors and layer or drawn, with pooling by maximum, 15 epochs, the last "
            "one taken.",
            "Python 自带文档中至少五个词的行，判断其来自哪个模块或包：行数最多的八个，每类 40 行测试（完整运行 100），"
            "每类 10 与 25 行（完整运行另有 60 行）学习，以 25 行判定，均按种子抽取。64 单元 LSTM（完整运行 96）"
            "先在另外 4,000 行（完整运行 8,000）与学习行上训练语言模型，绝不读测试行；"
            "再以其词向量与层、或随机抽取的权重，"
            "训练同一 LSTM，最大池化，15 轮，取最后一轮。",
        ),
        sources=(
            Source(
                "Dai2015",
                Text(
                    "on IMDB (25,000 labelled reviews, 50,000 without a label): 13.50% errors of an LSTM, 7.64% "
                    "begun with a language model, 7.24% with a sequence autoencoder; training is steadier too.",
                    "IMDB（2.5 万条有标注、5 万条无标注影评）：LSTM 错误率 13.50%，以语言模型起步 7.64%，"
                    "以序列自编码器起步 7.24%；训练也更稳定。",
                ),
            ),
        ),
        quantities=(
            Quantity(
                "errors",
                Text(
                    "errors with pre-training / without, 200 labelled lines", "错误之比：预训练 / 无预训练，200 标注行"
                ),
                "ratio",
                Interval(0.3, 0.95),
                Text("7.64/13.50 = 0.57 there; fewer by 5% at least", "原文 7.64/13.50 = 0.57；至少少 5%"),
            ),
            Quantity("gain", Text("gain in accuracy", "准确率的增益"), "share"),
            Quantity("pretrained", Text("accuracy with pre-training", "预训练后的准确率"), "share"),
            Quantity("plain", Text("accuracy without", "无预训练的准确率"), "share"),
        ),
        figures={
            "accuracy": Figure(
                Text("Test accuracy", "测试准确率"),
                Text("labelled lines", "标注行数"),
                Text("share right", "正确率"),
                x_log=True,
                marks=True,
                names={
                    "plain": Text("from chance", "随机起步"),
                    "pretrained": Text("from a language model", "语言模型起步"),
                },
            )
        },
        measure=measure,
        seeds={"quick": 3, "full": 3},
    )
)
