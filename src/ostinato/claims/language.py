"""Language models for claims, trained and scored by the product's own tasks on the embedded corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ostinato.claims.corpus import split
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.score import Score
from ostinato.runs import RunDir
from ostinato.tasks.language import build
from ostinato.tasks.language.compare import mix
from ostinato.tasks.language.evaluate import evaluate
from ostinato.tasks.language.load import Loaded, load
from ostinato.tasks.options import Config, ModelOptions
from ostinato.text.options import DataOptions
from ostinato.train.options import TrainOptions


@dataclass(frozen=True)
class Texts:
    """Files of training, validation and test text, and how they are read: words in lower case that occur twice."""

    train: str
    valid: str
    test: str

    @classmethod
    def embedded(cls, folder: Path, seed: int, share: float = 1.0) -> Texts:
        """The embedded corpus in `folder`, its documents split by the seed; only a share of them."""
        return cls(*split(folder, seed, share))

    @property
    def options(self) -> DataOptions:
        """As the product takes them."""
        return DataOptions(
            text=(self.train,), valid=(self.valid,), test=(self.test,), normalise=("lower",), min_count=2
        )


@dataclass(frozen=True)
class Trained:
    """A trained run and its scores."""

    run: RunDir
    model: Loaded
    test: Score

    @property
    def valid_curve(self) -> tuple[list[float], list[float]]:
        """Epochs (from 1) and validation perplexity at the end of each."""
        found = [event["valid_perplexity"] for event in self.run.events() if event.get("valid_perplexity")]
        return [float(place + 1) for place in range(len(found))], found

    @property
    def perplexity(self) -> float:
        """On the test text."""
        return self.test.perplexity


def trained(
    folder: Path, name: str, texts: Texts, model: ModelOptions, train: TrainOptions, watch: Watch = unwatched
) -> Trained:
    """Train a language model in `folder`/NAME, in one thread unless `train` says otherwise, and score it.

    Raises as `tasks.language.build.train` does.
    """

    def told(progress: Progress) -> None:
        if progress.label == "train":
            watch(progress)

    threads = torch.get_num_threads()
    try:
        run = build.train(Config(texts.options, model, train), folder / name, build.Callbacks(told))
        loaded = load(run.path)
        return Trained(run, loaded, evaluate(loaded, ()))
    finally:
        torch.set_num_threads(threads)


def best_ngram(folder: Path, texts: Texts, orders: Sequence[int]) -> Trained:
    """The modified Kneser-Ney model of the order that is best on the validation text, all made in `folder`."""
    made = [
        trained(folder, f"ngram-{order}", texts, ModelOptions(kind="ngram", order=order), TrainOptions(threads=1))
        for order in orders
    ]
    return min(made, key=lambda one: evaluate(one.model, (texts.valid,)).nats)


def mixed(folder: Path, name: str, members: Sequence[Trained]) -> Trained:
    """The mixture of two or more models of the same texts, its weights fitted by EM on the validation text."""
    run = mix([one.run.path for one in members], (), folder / name)
    loaded = load(run.path)
    return Trained(run, loaded, evaluate(loaded, ()))
