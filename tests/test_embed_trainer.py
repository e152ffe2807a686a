"""The trainer of word vectors: what is repeated, stopped, drawn and learnt, on texts whose answers are known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError, DivergedError
from ostinato.embed import copies as copying
from ostinato.embed import trainer as trainers
from ostinato.embed.copies import CURVATURE, Copies, pieces, shares
from ostinato.embed.corpus import Corpus, read_sentences
from ostinato.embed.huffman import huffman
from ostinato.embed.lexicon import Lexicon
from ostinato.embed.matrices import Matrices
from ostinato.embed.objectives import Objective
from ostinato.embed.options import Formula, Loss, Model, Shrink, VectorOptions
from ostinato.embed.sampling import expected_share, keep_thresholds
from ostinato.embed.subwords import Subwords
from ostinato.embed.trainer import Report, Trainer, mixed
from ostinato.embed.training import Trained, progress_of, train_vectors, trained
from ostinato.text.embedded import python_docs

MODELS: tuple[Model, ...] = ("skip-gram", "cbow-mean", "cbow-sum")
LOSSES: tuple[Loss, ...] = ("negative-sampling", "hierarchical-softmax", "softmax")
GROUPS, SIZE = 5, 6


def planted(sentences: int = 1500) -> list[list[str]]:
    """Sentences of one group each: a word never stands beside one of another group. The groups are not alike often."""
    random = np.random.default_rng(4)
    groups = [[f"{'abcde'[group]}{word}" for word in range(SIZE)] for group in range(GROUPS)]
    shares = np.arange(2, 2 + GROUPS) / sum(range(2, 2 + GROUPS))
    return [random.choice(groups[group], 8).tolist() for group in random.choice(GROUPS, sentences, p=shares)]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    """About 120,000 words of real text."""
    documents = python_docs().train[:160]
    sentences = [line.lower().split() for lines in documents for line in lines]
    with read_sentences(sentences, tmp_path_factory.mktemp("text"), min_count=5, threads=1) as corpus:
        assert corpus.words > 80_000
        yield corpus


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many chunks in a short text."""
    monkeypatch.setattr(trainers, "CHUNK", 5000)


def fit(corpus: Corpus, threads: int = 1, **options: Any) -> tuple[Trainer, list[Report]]:
    """A trainer at its end, and what it reported."""
    trainer = Trainer(corpus, VectorOptions(**{"dimensions": 16, "epochs": 2, **options}), threads)
    return trainer, list(trainer.run())


def run_for(trainer: Trainer, steps: int) -> None:
    """Train on until so many more chunks are done."""
    wanted = trainer.step + steps
    for _ in trainer.run(lambda: trainer.step >= wanted):
        pass


def same(one: Matrices, other: Matrices) -> bool:
    return np.array_equal(one.left, other.left) and np.array_equal(one.right, other.right)


KINDS = [{"model": model, "loss": loss} for model in MODELS for loss in LOSSES[:2]] + [
    {"model": "skip-gram", "loss": "negative-sampling", "subwords": True, "buckets": 1000}
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_one_thread_gives_the_same_bits_again_and_another_seed_gives_others(
    text: Corpus, short_chunks: None, kind: dict[str, Any]
) -> None:
    first, again, other = (fit(text, seed=seed, epochs=1, **kind)[0].matrices for seed in (3, 3, 4))
    assert same(first, again)
    assert not np.allclose(first.input, other.input, atol=1e-3)


def test_the_seed_decides_what_is_drawn_in_training_too(text: Corpus, short_chunks: None) -> None:
    made = []
    for seed in (3, 4):
        matrices = Matrices(len(text.lexicon), 16, 0, 1)
        matrices.begin(3)
        trainer = Trainer(text, VectorOptions(dimensions=16, seed=seed, epochs=1), 1, matrices)
        run_for(trainer, trainer.steps)
        made.append(matrices)
    assert not np.allclose(made[0].input, made[1].input, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS[::2], ids=lambda kind: "-".join(map(str, kind.values())))
def test_training_may_be_stopped_anywhere_and_gone_on_with(
    text: Corpus, short_chunks: None, kind: dict[str, Any]
) -> None:
    options = VectorOptions(dimensions=16, epochs=2, **kind)
    whole = fit(text, **kind)[0].matrices
    trainer = Trainer(text, options, 1)
    stops = 0
    while trainer.step < trainer.steps:
        run_for(trainer, 7)
        later = Matrices(len(text.lexicon), 16, options.buckets if options.subwords else 0, 1)
        later.input[:], later.output[:], later.grams[:] = (
            trainer.matrices.input, trainer.matrices.output, trainer.matrices.grams,
        )  # fmt: skip
        step, trainer = trainer.step, Trainer(text, options, 1, later)
        trainer.step, stops = step, stops + 1
    assert stops > 2
    rows = len(text.lexicon)
    np.testing.assert_array_equal(trainer.matrices.input, whole.input)
    np.testing.assert_array_equal(trainer.matrices.output, whole.output)
    np.testing.assert_array_equal(trainer.matrices.grams, whole.grams)
    assert not trainer.matrices.left.reshape(-1, 16)[rows].any()  # the row of zeros


def test_every_chunk_of_every_epoch_and_seed_draws_by_a_seed_of_its_own() -> None:
    seeds = {mixed(seed, step) for seed in range(50) for step in range(200)}
    assert len(seeds) == 50 * 200
    assert 0 not in seeds


def test_the_learning_rate_falls_in_a_straight_line_to_the_floor(text: Corpus, short_chunks: None) -> None:
    trainer = Trainer(text, VectorOptions(dimensions=4, learning_rate=0.1, floor=0.02, epochs=3), 1)
    bounds = text.chunks(5000)
    assert trainer.chunks == len(bounds) - 1 > 10
    for step in range(trainer.steps):
        epoch, chunk = divmod(step, trainer.chunks)
        done = (epoch * text.size + int(bounds[chunk])) / (3 * text.size)
        assert trainer.learning_rate(step) == pytest.approx(0.1 - 0.08 * done, abs=1e-12)
    reports = list(trainer.run())
    rates = [report.learning_rate for report in reports]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == 0.02


def test_the_learning_rates_of_word2vec_hold_where_none_is_given(text: Corpus) -> None:
    rates = {model: Trainer(text, VectorOptions(model=model, dimensions=4), 1).learning_rate(0) for model in MODELS}
    assert rates == {"skip-gram": 0.025, "cbow-mean": 0.05, "cbow-sum": 0.025}


def at_chance(corpus: Corpus, **options: Any) -> float:
    """The loss of a pair before anything is learnt: all products with outputs are zero."""
    ids, totals = corpus.read(0, 3000, np.empty(3000, np.int32)), np.zeros(3)
    chosen = VectorOptions(**{"dimensions": 16, **options})
    matrices = Matrices(len(corpus.lexicon), 16, chosen.buckets if chosen.subwords else 0, 1)
    matrices.begin(1)
    Objective(chosen, corpus.lexicon, matrices).for_thread(0)(ids, 5, 0.0, totals)
    return float(totals[0] / totals[1])


def test_before_anything_is_learnt_the_loss_is_that_of_tossing_coins(text: Corpus) -> None:
    """ln 2 for the word and each of 5 drawn that are not itself; ln V; ln 2 for each node of a path."""
    counts = text.lexicon.counts
    frequency, weight = counts / counts.sum(), counts**0.75 / (counts**0.75).sum()
    drawn = 1 + 5 * (1 - float(frequency @ weight))
    assert at_chance(text, sample=0) == pytest.approx(drawn * math.log(2), rel=3e-3)
    assert at_chance(text, loss="softmax") == pytest.approx(math.log(len(counts)), rel=1e-6)
    length = float(frequency @ np.diff(huffman(counts).offsets))
    assert at_chance(text, sample=0, loss="hierarchical-softmax") == pytest.approx(length * math.log(2), rel=0.02)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_the_loss_falls_on_real_text(text: Corpus, short_chunks: None, kind: dict[str, Any]) -> None:
    losses = [report.loss for report in fit(text, learning_rate=0.1, **kind)[1]]
    assert losses[-1] < min(losses[0], 0.95 * at_chance(text, **kind))


def test_the_full_softmax_falls_on_real_text(tmp_path: Path) -> None:
    sentences = [line.lower().split() for lines in python_docs().train[:80] for line in lines]
    with read_sentences(sentences, tmp_path / "corpus", limit=200, threads=1) as corpus:
        losses = [report.loss for report in fit(corpus, loss="softmax", learning_rate=0.1, window=2)[1]]
        assert losses[-1] < min(losses[0], 0.95 * math.log(200))


@pytest.mark.parametrize("kind", KINDS[:2] + KINDS[-1:], ids=lambda kind: "-".join(map(str, kind.values())))
def test_the_loss_of_two_threads_is_that_of_one_within_one_percent(
    text: Corpus, short_chunks: None, kind: dict[str, Any]
) -> None:
    def loss(threads: int) -> float:
        reports = fit(text, threads, epochs=3, **kind)[1]  # all of them: legs of other lengths end elsewhere
        return sum(report.loss * report.pairs for report in reports) / sum(report.pairs for report in reports)

    assert loss(2) == pytest.approx(loss(1), rel=0.01)


def test_reports_add_up_to_the_text_and_are_what_a_bar_shows(text: Corpus, short_chunks: None) -> None:
    for threads in (1, 2):
        trainer, reports = fit(text, threads, epochs=3)
        assert sum(report.words for report in reports) == 3 * text.words
        assert reports[-1].total_words == 3 * text.words
        assert reports[-1].step == trainer.steps == trainer.step
        assert [report.epoch for report in reports] == sorted(report.epoch for report in reports)
        shown = progress_of(reports[-1])
        assert (shown.tokens, shown.share) == (3 * text.words, 1.0)
        assert f"loss {reports[-1].loss:.4f}" in shown.note


@pytest.mark.parametrize("sample", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("formula", ["word2vec.c", "published"])
def test_subsampling_keeps_the_share_that_its_formula_says(text: Corpus, formula: Formula, sample: float) -> None:
    _, reports = fit(text, sample=sample, formula=formula, negatives=1, dimensions=1)
    words, kept = 2 * text.words, sum(report.kept for report in reports)
    thresholds = keep_thresholds(text.counts, sample, formula)
    chances = (thresholds + 1.0) / 2**32
    spread = math.sqrt(2 * float(text.counts @ (chances * (1 - chances))))
    assert abs(kept - words * expected_share(text.counts, thresholds)) < 4.5 * spread
    assert kept < 0.96 * words


def test_without_subsampling_every_word_is_kept(text: Corpus) -> None:
    assert sum(report.kept for report in fit(text, sample=0, negatives=1)[1]) == 2 * text.words


@pytest.mark.parametrize(
    ("shrink", "shares"),
    [("none", (0, 0, 0, 1)), ("uniform", (1 / 4, 1 / 4, 1 / 4, 1 / 4)), ("harmonic", (1 / 2, 1 / 6, 1 / 12, 1 / 4))],
)
def test_windows_have_the_pairs_that_their_sizes_make(tmp_path: Path, shrink: Shrink, shares: Any) -> None:
    """Ten words in a sentence: windows of r on either side hold 20 r - r (r + 1) pairs."""
    sentence = [f"w{place}" for place in range(10)]
    with read_sentences([sentence] * 4000, tmp_path / "corpus", min_count=1, threads=1) as corpus:
        _, reports = fit(corpus, epochs=1, window=4, shrink=shrink, sample=0, negatives=1)
        found = sum(report.pairs for report in reports) / 4000
    expected = sum(share * (20 * r - r * (r + 1)) for r, share in enumerate(shares, 1))
    assert found == pytest.approx(expected, rel=1e-9 if shrink == "none" else 0.01)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", MODELS)
def test_every_loss_of_every_model_finds_the_groups_of_a_planted_text(model: Model, loss: Loss) -> None:
    """The nearest words of each word are those it stands beside, all of them and no other."""
    options = VectorOptions(
        model=model, loss=loss, dimensions=16, epochs=12, sample=0, window=3, threads=1, learning_rate=0.05
    )
    vectors = train_vectors(planted(), options).vectors
    assert len(vectors) == GROUPS * SIZE
    for word, near in zip(vectors.words, vectors.most_similar(list(vectors.words), SIZE - 1), strict=True):
        assert {other[0] for other, _ in near} == {word[0]}, (word, near)


def test_the_three_losses_of_skip_gram_rank_a_planted_text_alike() -> None:
    """Groups in pairs, of which a sentence has three words in ten from the other: nearer, near, and far."""
    random = np.random.default_rng(2)
    groups = [[f"{'abcd'[group]}{word}" for word in range(SIZE)] for group in range(4)]
    sentences = [
        [random.choice(groups[group if random.random() < 0.7 else group ^ 1]) for _ in range(8)]
        for group in random.integers(0, 4, 2500).tolist()
    ]
    names = [word for group in groups for word in group]
    alike = np.arange(4).repeat(SIZE)
    same, pair = alike[:, None] == alike, alike[:, None] // 2 == alike // 2
    cosines = {}
    for loss in LOSSES:
        options = VectorOptions(loss=loss, dimensions=16, epochs=15, sample=0, threads=1, learning_rate=0.05)
        rows = train_vectors(sentences, options).vectors.rows(names)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        cosines[loss] = rows @ rows.T
        near, nearby, far = (cosines[loss][part].mean() for part in (same, pair & ~same, ~pair))
        assert near > nearby + 0.1 > far + 0.2, (loss, near, nearby, far)
    above = np.triu_indices(len(names), 1)
    places = np.array([np.argsort(np.argsort(found[above])) for found in cosines.values()])
    assert np.corrcoef(places).min() > 0.7


def wilson_hilferty(degrees: int, deviations: float) -> float:
    """A number that chi-square with so many degrees of freedom exceeds as a normal number does the deviations."""
    return degrees * (1 - 2 / (9 * degrees) + deviations * math.sqrt(2 / (9 * degrees))) ** 3


def draws(counts: Any, exponent: float, reuse: int, sentences: int) -> tuple[Any, Any]:
    """How often each word was drawn against another in training, and how often each word was to be predicted.

    Every context is (1, 0, ...), outputs begin at zero and the learning rate is 2**-40: so every product stays 0 and
    every step is half of it, up for the word predicted and down for each one drawn.
    """
    words, random = len(counts), np.random.default_rng(8)
    options = VectorOptions(dimensions=1, window=1, shrink="none", sample=0, exponent=exponent, reuse=reuse)
    lexicon = Lexicon([f"w{word}" for word in range(words)], counts)
    matrices = Matrices(words, 1, 0, 1)
    matrices.input[:] = 1
    ids = np.full((sentences, 3), -1, np.int32)
    ids[:, :2] = random.choice(words, (sentences, 2), p=counts / counts.sum())
    Objective(options, lexicon, matrices).for_thread(0)(ids.reshape(-1), mixed(1, 0), 2.0**-40, np.zeros(3))
    predicted = np.bincount(ids[:, :2].reshape(-1), minlength=words)
    return predicted - np.rint(matrices.output[:, 0].astype(np.float64) * 2.0**41), predicted


@pytest.mark.parametrize("reuse", [1, 4])
@pytest.mark.parametrize("exponent", [0.75, 1.0, 0.0])
def test_words_are_drawn_against_others_by_their_count_to_the_power(exponent: float, reuse: int) -> None:
    """Chi-square; draws of the word itself do not count, and sets used four times vary four times as much."""
    counts = np.array([4000, 2500, 1500, 900, 500, 300, 180, 100, 60, 30, 20, 10], np.int64)
    drawn, predicted = draws(counts, exponent, reuse, 40_000)
    total = predicted.sum()

    def chi_square(power: float) -> float:
        share = counts**power / (counts**power).sum()
        expected = 5 * share * (total - predicted)
        return float(((drawn - expected) ** 2 / expected).sum() / reuse)

    bound = wilson_hilferty(len(counts), 4)
    assert chi_square(exponent) < bound
    assert chi_square(exponent + 0.1) > 5 * bound


def test_n_grams_make_vectors_for_words_never_seen(tmp_path: Path) -> None:
    stems = ["walk", "jump", "climb", "paint", "laugh"]
    random = np.random.default_rng(3)
    sentences = [
        [random.choice(["he", "she", "it"]), f"{random.choice(stems)}ed", "yesterday"]
        if random.random() < 0.5
        else ["to", f"{random.choice(stems)}ing", random.choice(["is", "was"]), "fun"]
        for _ in range(4000)
    ]
    options = VectorOptions(
        subwords=True, least=3, most=4, buckets=500, dimensions=16, epochs=8, sample=0, threads=1, learning_rate=0.1
    )
    with read_sentences(sentences, tmp_path / "corpus", threads=1) as corpus:
        trainer = Trainer(corpus, options, 1)
        for _ in trainer.run():
            pass
        made = trained(trainer.matrices, corpus.lexicon, options).vectors
    grams = Subwords(3, 4, 500)
    own, shared = trainer.matrices.input, trainer.matrices.grams
    for place, word in enumerate(made.words):
        rows = [own[place], *shared[grams.ngrams(word)]]
        np.testing.assert_allclose(made.array[place], np.mean(rows, axis=0), atol=1e-6)
    assert "growled" not in made
    np.testing.assert_allclose(made.vector("growled"), shared[grams.ngrams("growled")].mean(axis=0), atol=1e-6)
    past, going = made.similarity([("growled", "walked"), ("growled", "walking")]).tolist()
    assert past > going + 0.2


def sentences() -> list[list[str]]:
    random = np.random.default_rng(6)
    return [random.choice([f"word{number}" for number in range(30)], 6).tolist() for _ in range(300)]


def strings() -> list[str]:
    return [" ".join(words) for words in sentences()]


FORMS: dict[str, Callable[[Path], Any]] = {
    "path": lambda path: path,
    "name": str,
    "paths": lambda path: [path],
    "tuple of paths": lambda path: (path,),
    "strings": lambda path: strings(),
    "tuple of strings": lambda path: tuple(strings()),
    "lists": lambda path: sentences(),
    "tuples": lambda path: [tuple(words) for words in sentences()],
    "generator of strings": lambda path: iter(strings()),
    "generator of lists": lambda path: (words for words in sentences()),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_text_may_come_as_files_or_sentences_of_any_kind(tmp_path: Path, form: str) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(strings()) + "\n")
    options = VectorOptions(dimensions=8, epochs=2, threads=1)
    expected = train_vectors(path, options, min_count=1)
    reports: list[Report] = []
    found = train_vectors(FORMS[form](path), options, min_count=1, told=reports.append)
    assert found.vectors.words == expected.vectors.words
    np.testing.assert_array_equal(found.vectors.array, expected.vectors.array)
    assert found.output is not None
    np.testing.assert_array_equal(found.output, expected.output)
    np.testing.assert_array_equal(found.vectors.counts, expected.vectors.counts)
    assert reports[-1].step == reports[-1].steps


def test_two_files_are_one_text_and_the_limit_keeps_the_most_frequent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b a b a c\n" * 10)
    (tmp_path / "b.txt").write_text("a d\n" * 20)
    options = VectorOptions(dimensions=4, threads=1)
    made = train_vectors([tmp_path / "a.txt", tmp_path / "b.txt"], options)
    assert made.vectors.words == ("a", "b", "d", "c")
    assert made.vectors.counts is not None
    assert made.vectors.counts.tolist() == [50, 20, 20, 10]
    assert train_vectors(tmp_path / "a.txt", options, limit=2).vectors.words == ("a", "b")


@pytest.mark.parametrize("text", [[], [""], ["once upon a time"], [[]]], ids=str)
def test_a_text_without_frequent_words_is_refused(text: Any) -> None:
    with pytest.raises(DataError):
        train_vectors(text, VectorOptions(dimensions=4, threads=1))


def test_both_matrices_are_kept_and_a_tree_has_no_second_one(tmp_path: Path) -> None:
    def made(loss: Loss) -> Trained:
        return train_vectors(sentences(), VectorOptions(loss=loss, dimensions=4, threads=1), min_count=1)

    found = made("negative-sampling")
    assert found.output is not None
    assert found.output.shape == found.vectors.array.shape == (30, 4)
    assert found.output.any()
    assert made("hierarchical-softmax").output is None
    found.save(tmp_path / "both")
    assert (tmp_path / "both" / "output.npy").is_file()


@pytest.mark.parametrize("loss", LOSSES)
def test_numbers_without_bounds_are_an_error_that_says_what_to_do(loss: Loss) -> None:
    options = VectorOptions(model="cbow-sum", loss=loss, learning_rate=1e30, dimensions=8, epochs=5, threads=1)
    with pytest.raises(DivergedError, match=r"smaller learning rate \(now 1e\+30\)"):
        train_vectors(planted(200), options)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"window": 0}, "window"),
        ({"dimensions": 0}, "dimensions"),
        ({"negatives": 0}, "negatives"),
        ({"epochs": 0}, "epochs"),
        ({"sample": -1.0}, "sample"),
        ({"sample": math.inf}, "sample"),
        ({"sample": math.nan}, "sample"),
        ({"exponent": math.nan}, "exponent"),
        ({"exponent": math.inf}, "exponent"),
        ({"learning_rate": math.nan}, "learning_rate"),
        ({"learning_rate": math.inf}, "learning_rate"),
        ({"learning_rate": 1e-9}, "learning_rate"),
        ({"floor": math.inf}, "floor"),
        ({"least": 2}, "subwords"),
        ({"subwords": True, "least": 7}, "most"),
        ({"exact": True}, "exact"),
        ({"loss": "softmax", "negatives": 7}, "negatives"),
        ({"model": "glove"}, "model"),
        ({"seed": -1}, "seed"),
        ({"threads": 0}, "threads"),
    ],
    ids=str,
)
def test_an_option_out_of_range_is_refused_by_name(given: dict[str, Any], named: str) -> None:
    from ostinato.core.config import build

    with pytest.raises(ConfigError, match=named):
        build(VectorOptions, given, "options")


@pytest.mark.parametrize("side", ["left", "right"])
def test_copies_of_rows_are_joined_by_their_shares_and_nothing_else_changes(side: str) -> None:
    """What two threads learn in their copies reaches the rows, each by its share; the rest stays."""
    matrices = Matrices(64, 16, 0, 2)
    assert matrices.copied == 4
    matrix: Any = getattr(matrices, side)
    matrix[:] = np.random.default_rng(1).random(matrix.size, np.float32)
    rows = matrix.reshape(-1, matrices.stride)
    first, before, share = 64 - 1 - matrices.copied, rows.copy(), np.array([0.5, 1, 0.75, 1], np.float32)
    owns = [getattr(matrices, f"{side}_copies")(thread) for thread in range(2)]
    both = [Copies(rows, first, own, share) for own in owns]
    for copies in both:
        copies.renew()
    for own, change in zip(owns, (1.0, -0.5), strict=True):
        rows[own : own + matrices.copied] += np.float32(change)
    for copies in reversed(both):
        copies.join()
    expected = before.copy()
    expected[first : first + matrices.copied] += 0.5 * share[:, None]
    expected[owns[0] : owns[0] + matrices.copied] = expected[first : first + matrices.copied]
    expected[owns[1] :] = rows[owns[1] :]
    np.testing.assert_allclose(rows, expected, rtol=1e-6)


def test_rows_of_copies_lie_apart_and_behind_all_others() -> None:
    matrices = Matrices(64, 16, 10, 2)
    lefts = [matrices.left_copies(thread) for thread in range(2)]
    rights = [matrices.right_copies(thread) for thread in range(2)]
    assert lefts == [64 + 1 + 10 + 2, 64 + 1 + 10 + 2 + 4]
    assert lefts[1] + 4 == len(matrices.left) // matrices.stride
    assert rights == [64 + 1, 64 + 1 + 4]
    assert rights[1] + 4 == len(matrices.right) // matrices.stride


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=20), st.floats(1e-5, 0.2), st.integers(2, 64))
def test_threads_together_go_as_far_as_one_that_takes_all_their_steps(
    updates: list[float], rate: float, threads: int
) -> None:
    """On a parabola whose steps leave 1 - c of the way; between the mean of the threads and their sum."""
    share = shares(np.array(updates), rate, threads)
    assert ((share >= 1 / threads - 1e-6) & (share <= 1)).all()
    c = rate * CURVATURE * np.array(updates)
    np.testing.assert_allclose(1 - threads * share * -np.expm1(-c), np.exp(-threads * c), atol=1e-4)


@given(st.lists(st.integers(-1, 5), max_size=400), st.integers(1, 50), st.integers(1, 60))
def test_pieces_are_the_text_and_end_with_sentences_where_they_can(ids: list[int], piece: int, line: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "LINE", line)
        patch.setattr(copying, "PIECE", piece)
        parts = [part.tolist() for part in pieces(np.array(ids, np.int32))]
    assert list(itertools.chain.from_iterable(parts)) == ids
    assert all(0 < len(part) <= piece for part in parts)
    assert all(part[-1] < 0 or (len(part) == piece and min(part[-line:]) >= 0) for part in parts[:-1])


def test_rows_are_updated_as_often_as_is_reckoned(text: Corpus) -> None:
    """The expected updates of the words' own rows, against the windows of the text itself, without subsampling."""
    options = VectorOptions(dimensions=16, sample=0, window=3, negatives=2)
    objective = Objective(options, text.lexicon, Matrices(len(text.lexicon), 16, 0, 2))
    read, predicted = objective._updates()
    share = text.lexicon.counts / text.lexicon.counts.sum()
    np.testing.assert_allclose(read, 4 * share, rtol=1e-3)
    drawn = text.lexicon.counts**0.75
    np.testing.assert_allclose(predicted, 4 * (share + 2 * drawn / drawn.sum()), rtol=1e-3)
    tree = Objective(
        VectorOptions(dimensions=16, sample=0, window=3, loss="hierarchical-softmax", model="cbow-mean"),
        text.lexicon,
        Matrices(len(text.lexicon), 16, 0, 2),
    )
    read, passed = tree._updates()
    np.testing.assert_allclose(read, 4 * share, rtol=1e-3)
    assert passed[-1] == pytest.approx(1)  # the root is on every path
    assert passed.sum() == pytest.approx(share @ np.diff(huffman(text.lexicon.counts).offsets))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("loss", LOSSES[:2])
def test_rows_with_copies_learn_from_all_threads(
    text: Corpus, short_chunks: None, model: Model, loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread writes them while it trains, and the loss is one thread's all the same if it joins them often."""
    monkeypatch.setattr(copying, "ENOUGH", 0)
    monkeypatch.setattr(copying, "PIECE", 64)
    (alone, before), (both, reports) = (
        fit(text, threads, loss=loss, model=model, sample=0, epochs=3) for threads in (1, 2)
    )
    words = len(text.lexicon)
    assert (alone.matrices.copied, both.matrices.copied) == (0, min(128, words // 16))
    assert both.matrices.copied > 0
    means = [sum(r.loss * r.pairs for r in many) / sum(r.pairs for r in many) for many in (reports, before)]
    assert means[0] == pytest.approx(means[1], rel=0.01)
