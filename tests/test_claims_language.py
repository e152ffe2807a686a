"""What claims about language models and sequence tasks are measured with."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.claims.language import Texts, Trained, best_ngram, mixed, trained
from ostinato.claims.parts import watches
from ostinato.claims.statements import fixed_vector, pretraining_helps
from ostinato.core.progress import Progress
from ostinato.tasks.language.evaluate import evaluate
from ostinato.tasks.options import ModelOptions
from ostinato.train.options import TrainOptions


def sentences(rng: np.random.Generator, count: int) -> list[str]:
    """Lines in which a word tells the one two places later."""
    lines = []
    for _ in range(count):
        words = rng.integers(0, 6, 10)
        for place in range(2, 10):
            words[place] = words[place - 2] if rng.random() < 0.8 else words[place]
        lines.append(" ".join(f"w{word}" for word in words))
    return lines


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Texts]:
    """A small text in three files."""
    folder, rng = tmp_path_factory.mktemp("texts"), np.random.default_rng(1)
    for name, count in (("train", 300), ("valid", 80), ("test", 80)):
        (folder / name).write_text("\n".join(sentences(rng, count)) + "\n", "utf8")
    return folder, Texts(*(str(folder / name) for name in ("train", "valid", "test")))


@pytest.fixture(scope="module")
def ngram(made: tuple[Path, Texts]) -> Trained:
    return best_ngram(*made, (1, 3))


def on_valid(one: Trained, texts: Texts) -> float:
    return evaluate(one.model, (texts.valid,)).nats


def test_the_ngram_model_of_the_order_that_sees_the_pattern_is_the_best(
    made: tuple[Path, Texts], ngram: Trained
) -> None:
    folder, texts = made
    assert ngram.run.path == folder / "ngram-3"
    unigram = trained(folder, "again", texts, ModelOptions(kind="ngram", order=1), TrainOptions(threads=1))
    assert on_valid(ngram, texts) < on_valid(unigram, texts)
    assert ngram.perplexity < 0.8 * unigram.perplexity


def test_a_mixture_is_at_least_as_good_as_each_member_where_its_weights_were_fitted(
    made: tuple[Path, Texts], ngram: Trained
) -> None:
    folder, texts = made
    network = trained(
        folder, "lstm", texts, ModelOptions(kind="lstm", hidden=8), TrainOptions(epochs=2, seed=3, threads=1)
    )
    both = mixed(folder, "both", [ngram, network])
    assert on_valid(both, texts) <= min(on_valid(ngram, texts), on_valid(network, texts)) + 1e-3
    assert both.test.count == ngram.test.count == network.test.count
    assert both.test.signature == ngram.test.signature


def test_the_watches_of_parts_tell_the_whole() -> None:
    told: list[Progress] = []
    first, second = watches(told.append, ["one", "two"])
    first(Progress("train", 5, 0.5, "loss 1"))
    first(Progress("train", 9))
    second(Progress("train", 7, 1.0))
    assert [(one.tokens, one.share, one.note) for one in told] == [
        (5, 0.25, "one  loss 1"),
        (9, 0, "one"),
        (7, 1, "two"),
    ]


words = st.lists(st.integers(0, 19), max_size=20)


@given(words)
def test_even_words_go_behind_the_odd_ones_that_follow_them(source: list[int]) -> None:
    """By a regular expression: e stands for an even word, o for an odd one."""
    marks = "".join("o" if word % 2 else "e" for word in source)
    places = list(range(len(source)))
    for found in re.finditer("eo", marks):
        places[found.start() : found.end()] = [found.start() + 1, found.start()]
    assert fixed_vector.reordered(source) == [source[place] for place in places]


def test_pairs_have_the_lengths_asked_for(tmp_path: Path) -> None:
    files = fixed_vector.written(tmp_path, "some", np.random.default_rng(2), 200, (3, 5))
    sources, targets = (Path(file).read_text("utf8").splitlines() for file in files)
    assert {len(line.split()) for line in sources} == {3, 4, 5}
    for source, target in zip(sources, targets, strict=True):
        assert sorted(source.replace("s", "t").split()) == sorted(target.split())


def test_test_lines_are_read_by_no_model_and_labels_are_in_turns() -> None:
    lines = pretraining_helps.drawn(4, 100, 60)
    learnt, tested = ([text for _, text in some] for some in (lines.learn, lines.test))
    assert len({*learnt, *tested}) == len(learnt) + len(tested)
    assert not {*learnt, *tested} & set(lines.unlabelled)
    labels = [label for label, _ in lines.test[: pretraining_helps.LABELS]]
    assert len(set(labels)) == pretraining_helps.LABELS
    assert [label for label, _ in lines.learn] == 60 * labels
    assert [label for label, _ in lines.test] == 100 * labels
    assert pretraining_helps.drawn(5, 100, 60).test != lines.test
