"""Negative sampling costs O(K) where a softmax costs O(|V|), for comparable vectors. Source: [Mikolov2013b]."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.claims.timing import slope
from ostinato.core.progress import Progress, Watch

if TYPE_CHECKING:
    from ostinato.embed.vectors import Vectors

VOCABULARIES: dict[Size, tuple[int, ...]] = {"quick": (500, 1000, 2000), "full": (500, 1000, 2000, 4000)}
NEGATIVES = (5, 10, 20, 40)
TIMED_WORDS, PASSES = 6000, 30  # passes of negative sampling, which one alone would be over too soon to time
DIMENSIONS, WINDOW = 32, 2
CLASSES, MEMBERS = 20, 25  # of the text on which vectors are compared
WORDS: dict[Size, int] = {"quick": 60_000, "full": 300_000}


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """Seconds of processor a pair by |V| and by K; how well either loss finds the classes of generated words."""
    import numpy as np

    rng = np.random.default_rng(seed)
    sampled, full = [], []
    for place, words in enumerate(VOCABULARIES[size]):
        text = [[str(word) for word in row] for row in rng.integers(words, size=(TIMED_WORDS // 20, 20))]
        text += [[str(word) for word in range(words)]]  # so that all are there
        sampled.append(seconds_a_pair(text, seed, PASSES, loss="negative-sampling", reuse=1))
        full.append(seconds_a_pair(text, seed, loss="softmax"))
        watch(Progress("time", 0, 0.5 * (place + 1) / len(VOCABULARIES[size])))
    by_negatives = [
        seconds_a_pair(text, seed, PASSES, loss="negative-sampling", reuse=1, negatives=count) for count in NEGATIVES
    ]
    sentences = classed(rng, WORDS[size])
    quality = {loss: purity(trained(sentences, seed, loss)) for loss in ("negative-sampling", "softmax")}
    numbers = {
        "softmax": slope(VOCABULARIES[size], full),
        "sampling": slope(VOCABULARIES[size], sampled),
        "negatives": slope(NEGATIVES, by_negatives),
        "quality": quality["negative-sampling"] / quality["softmax"],
        "sampling quality": quality["negative-sampling"],
        "softmax quality": quality["softmax"],
    }
    curves: dict[str, Points] = {"softmax": (VOCABULARIES[size], full), "sampling": (VOCABULARIES[size], sampled)}
    return Finding(numbers, {"vocabulary": curves, "negatives": {"sampling": (NEGATIVES, by_negatives)}})


def seconds_a_pair(text: list[list[str]], seed: int, epochs: int = 1, **choices: Any) -> float:
    """Seconds of processor a pair of words in one thread, the least of three trainings; one before does not count."""
    from ostinato.embed.corpus import read_sentences
    from ostinato.embed.options import VectorOptions
    from ostinato.embed.trainer import Trainer

    options = VectorOptions(
        dimensions=DIMENSIONS, window=WINDOW, shrink="none", sample=0, epochs=epochs, seed=seed, **choices
    )
    taken = []
    with tempfile.TemporaryDirectory(prefix="ostinato-") as folder:
        for turn in range(4):
            with read_sentences(text, Path(folder) / str(turn), min_count=1) as corpus:
                trainer = Trainer(corpus, options, 1)
                began = time.process_time()
                pairs = sum(report.pairs for report in trainer.run())
                taken.append((time.process_time() - began) / pairs)
    return min(taken[1:])


def classed(rng: Any, words: int) -> list[list[str]]:
    """Sentences of 20 words in which classes follow each other by a fixed chain; words of a class are alike.

    From each class a step leads to one of 3 others; members have the frequencies 1, 1/2, 1/3 and so on.
    """
    import numpy as np

    followers = np.array([rng.permutation(CLASSES)[:3] for _ in range(CLASSES)])
    weights = 1 / np.arange(1, MEMBERS + 1)
    rows = words // 20
    state, columns = rng.integers(CLASSES, size=rows), []
    for _ in range(20):
        state = followers[state, rng.integers(3, size=rows)]
        columns.append(state * MEMBERS + rng.choice(MEMBERS, rows, p=weights / weights.sum()))
    return [[str(word) for word in row] for row in np.stack(columns, axis=1)]


def trained(sentences: list[list[str]], seed: int, loss: Any) -> Vectors:
    """Vectors of a text, trained with that loss."""
    from ostinato.embed.options import VectorOptions
    from ostinato.embed.training import train_vectors

    options = VectorOptions(loss=loss, dimensions=DIMENSIONS, window=WINDOW, sample=0, epochs=5, seed=seed, threads=1)
    return train_vectors(sentences, options, min_count=1).vectors


def purity(vectors: Vectors) -> float:
    """The share of words whose nearest word by cosine is of their class."""
    import numpy as np

    unit = vectors.array / vectors.norms[:, None]
    scores = unit @ unit.T
    np.fill_diagonal(scores, -np.inf)
    kinds = np.array([int(word) // MEMBERS for word in vectors.words])
    return float((kinds[scores.argmax(axis=1)] == kinds).mean())


CLAIM = add(
    Claim(
        id="negative-sampling",
        level="theoretical",
        statement=Text(
            "A training step of word vectors with negative sampling costs O(K), one with a softmax O(|V|), and the "
            "vectors are comparable.",
            "词向量训练的一步，负采样的代价为 O(K)，softmax 为 O(|V|)，而得到的向量相当。",
        ),
        misreading=Text(
            "“Negative sampling is a fast approximation of the softmax.” It optimises something else: no "
            "probabilities come out of it, and its vectors, though as useful, are others. Noise-contrastive "
            "estimation approximates.",
            "“负采样是 softmax 的快速近似。”它优化的是另一个目标：得不到概率，其向量虽同样有用，却是另一组向量。"
            "真正做近似的是噪声对比估计。",
        ),
        experiment=Text(
            "Skip-gram with 32 numbers, one thread. Seconds of processor a pair on texts of evenly drawn words, for "
            "|V| from 500 to 2,000 (full: 4,000), and for K from 5 to 40. Quality on a generated text of 500 words in "
            "20 classes that follow each other: the share of words whose nearest neighbour is of their class.",
            "32 维 skip-gram，单线程。均匀抽词的文本上每对词的处理器秒数：|V| 从 500 到 2,000（完整运行 4,000），"
            "K 从 5 到 40。质量在生成文本上衡量：500 个词分属 20 个相互承接的类，取最近邻属于同类的词所占比例。",
        ),
        sources=(
            Source(
                "Mikolov2013b",
                Text(
                    "section 2: the softmax is impractical since its cost is proportional to |V|, often 10⁵ to 10⁷; "
                    "with 5 to 20 noise words on small data (2 to 5 on large) negative sampling reaches 59 to 61% on "
                    "analogies, hierarchical softmax 47 to 55%. The full softmax is not measured there.",
                    "第 2 节：softmax 的代价正比于 |V|（常为 10⁵ 到 10⁷），因而不实用；小数据取 5 到 20 个噪声词（大数"
                    "据 2 到 5 个），负采样在类比上达到 59% 到 61%，层次 softmax 为 47% 到 55%。未测量完整 softmax。",
                ),
            ),
        ),
        quantities=(
            Quantity(
                "softmax",
                Text("growth of a step's time with |V|, softmax", "每步时间随 |V| 的增长，softmax"),
                "power",
                Interval(0.8, 1.2),
                Text("1 by the count of operations", "按运算次数应为 1"),
            ),
            Quantity(
                "sampling",
                Text("growth of a step's time with |V|, negative sampling", "每步时间随 |V| 的增长，负采样"),
                "power",
                Interval(-0.2, 0.3),
                Text("0 by the count; larger tables fall out of the cache", "按运算次数应为 0；表较大时会超出缓存"),
            ),
            Quantity(
                "negatives",
                Text("growth of a step's time with K", "每步时间随 K 的增长"),
                "power",
                Interval(0.5, 1.1),
                Text(
                    "1 for large K; the part that does not grow with K pulls it down",
                    "K 大时为 1；与 K 无关的部分使其偏低",
                ),
            ),
            Quantity(
                "quality",
                Text("quality with negative sampling / with softmax", "质量：负采样 / softmax"),
                "ratio",
                Interval(low=0.9),
                Text("comparable: at most a tenth worse", "相当：至多差十分之一"),
            ),
            Quantity(
                "sampling quality",
                Text("nearest neighbours of the same class, negative sampling", "最近邻同类的比例，负采样"),
                "share",
            ),
            Quantity("softmax quality", Text("the same, softmax", "同上，softmax"), "share"),
        ),
        figures={
            "vocabulary": Figure(
                Text("Time of a pair by vocabulary", "每对词的时间，按词表大小"),
                Text("|V|", "|V|（词数）"),
                Text("seconds", "秒"),
                x_log=True,
                y_log=True,
                marks=True,
                names={"sampling": Text("negative sampling, K = 5", "负采样，K = 5")},
            ),
            "negatives": Figure(
                Text("Time of a pair by noise words", "每对词的时间，按噪声词数"),
                Text("K", "K（噪声词数）"),
                Text("seconds", "秒"),
                x_log=True,
                y_log=True,
                marks=True,
                names={"sampling": Text("negative sampling", "负采样")},
            ),
        },
        measure=measure,
        seeds={"quick": 2, "full": 3},
    )
)
