"""What claims are measured with: generated sequences, gradients through time, the small trainer, measures."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.claims import corpus, sequences
from ostinato.claims.recurrences import gradient_norms, orthogonal, products
from ostinato.claims.statements import clipping, negative_sampling, rare_words
from ostinato.claims.timing import slope
from ostinato.claims.training import Plan, Reader, fit, learn, loss_of, remember_for, right, smoothed
from ostinato.embed.vectors import Vectors

seeds = st.integers(0, 10_000)
REBER = r"B(TS*X(S|XT*V(PXT*V)*(V|PS))|PT*V(PXT*V)*(V|PS))E"


# --- sequences


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(10, 60))
def test_adding_asks_for_the_two_marked_numbers(seed: int, steps: int) -> None:
    inputs, targets = sequences.adding(np.random.default_rng(seed), 6, steps)
    for row, target in zip(inputs, targets, strict=True):
        (places,) = torch.nonzero(row[:, 1], as_tuple=True)
        assert len(places) == 2
        assert places[0] < max(2, steps // 10) or places[1] < max(2, steps // 10)
        assert places.max() < max(3, steps // 2)
        torch.testing.assert_close(target, 0.5 + row[places, 0].sum() / 4)


def test_who_always_answers_a_half_is_wrong_by_1_24_in_adding() -> None:
    """The sum of two even draws from [-1, 1] has variance 2/3, a quarter of it 2/48."""
    _, targets = sequences.adding(np.random.default_rng(0), 20_000, 20)
    assert float(((targets - 0.5) ** 2).mean()) == pytest.approx(1 / 24, rel=0.03)


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(20, 80))
def test_temporal_order_is_the_order_of_two_symbols(seed: int, steps: int) -> None:
    inputs, targets = sequences.temporal_order(np.random.default_rng(seed), 6, steps)
    for row, target in zip(inputs, targets, strict=True):
        first, second = torch.nonzero(row >= 4)[:, 0].tolist()
        assert 0.1 * steps - 1 < first <= 0.2 * steps
        assert 0.5 * steps - 1 < second <= 0.6 * steps
        assert int(target) == 2 * (int(row[first]) - 4) + int(row[second]) - 4


def test_only_the_first_symbol_differs_in_noise_free_sequences() -> None:
    inputs, targets = sequences.noise_free(np.random.default_rng(1), 20, 30)
    assert inputs.shape == (20, 30)
    assert (inputs[:, 0] == targets).all()
    assert set(targets.tolist()) == {0, 1}
    assert (inputs[:, 1:] == torch.arange(2, 31)).all()


@settings(deadline=None, max_examples=40)
@given(seeds)
def test_a_string_of_the_embedded_reber_grammar_is_one(seed: int) -> None:
    string = sequences.embedded_reber(np.random.default_rng(seed))
    assert re.fullmatch(f"B(?P<frame>[TP]){REBER}(?P=frame)E", string)
    assert not re.fullmatch(f"B(?P<frame>[TP]){REBER}(?P=frame)E", string[:-1])


def test_reber_streams_are_strings_without_a_break() -> None:
    symbols, seconds = sequences.reber_streams(np.random.default_rng(2), 3, 400)
    whole = re.compile(f"(?:B(?P<frame>[TP]){REBER}(?P=frame)E)")
    for row, marks in zip(symbols, seconds, strict=True):
        text = "".join(sequences.REBER[symbol] for symbol in row)
        at, expected = 0, []
        while found := whole.match(text, at):
            at = found.end()
            expected.append(at - 2)
        assert len(text) - at < 60  # the last string is cut
        marked = torch.nonzero(marks)[:, 0].tolist()
        assert marked[: len(expected)] == expected
        assert len(marked) <= len(expected) + 1


# --- gradients


@settings(deadline=None, max_examples=20)
@given(st.floats(-2, 2), st.floats(-2, 2), seeds)
def test_products_are_what_the_formula_says(w: float, u: float, seed: int) -> None:
    xs = np.random.default_rng(seed).standard_normal(6)
    found = products(np.array([w]), np.array([u]), xs[None, :, None])[:, 0, 0]
    hs = [0.0]
    for x in xs:
        hs.append(math.tanh(w * hs[-1] + u * x))
    for start in range(7):
        expected = math.prod(w * (1 - h * h) for h in hs[start + 1 :])
        assert found[start] == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_gradient_norms_agree_with_finite_differences() -> None:
    rng = np.random.default_rng(3)
    w, xs, v = 1.2 * orthogonal(rng, 4), rng.standard_normal((1, 5, 4)), rng.standard_normal(4)

    def last(h: np.ndarray, start: int) -> float:
        for x in xs[0, start:]:
            h = np.tanh(w @ h + x)
        return float(v @ h)

    hs = [np.zeros(4)]
    for x in xs[0]:
        hs.append(np.tanh(w @ hs[-1] + x))
    for start, norm in enumerate(gradient_norms(w, xs, v)[:, 0]):
        step = 1e-6 * np.eye(4)
        slopes = [(last(hs[start] + d, start) - last(hs[start] - d, start)) / 2e-6 for d in step]
        assert norm == pytest.approx(np.linalg.norm(slopes), rel=1e-6)
    np.testing.assert_allclose(w @ w.T, 1.44 * np.eye(4), atol=1e-12)


def test_without_clipping_the_update_is_the_gradient_and_with_it_a_unit_long() -> None:
    torch.manual_seed(0)
    norm, update, cosine, changed = clipping.one_update(1.5, 20)
    assert norm > 100
    assert update == pytest.approx(1, rel=1e-5)
    assert cosine == pytest.approx(1, rel=1e-5)
    assert changed == pytest.approx(1 - 1 / norm, rel=1e-4)
    norm, update, _, changed = clipping.one_update(0.5, 30)
    assert update == pytest.approx(norm, rel=1e-5)
    assert changed == 0


# --- the trainer


def test_a_reader_learns_the_order_of_two_symbols() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    reader = remember_for(Reader("lstm", 6, 16, 4, symbols=True), 12)
    trace = learn(reader, Plan(250, 0.02), lambda: sequences.temporal_order(rng, 16, 12))
    assert len(trace.losses) == len(trace.norms) == 250
    assert trace.losses[0] == pytest.approx(math.log(4), abs=0.1)
    assert right(reader, sequences.temporal_order(rng, 200, 12)) > 0.9


def test_gates_set_for_a_lag_keep_that_long() -> None:
    reader = remember_for(Reader("lstm", 2, 500, 1), 101)
    (cell,) = reader.stack.cells
    write, forget = (cell.biases_of(block)[0].detach() for block in (0, 1))
    torch.testing.assert_close(write, -forget)
    times = forget.exp()
    assert 1 <= float(times.min()) < 2
    assert 95 < float(times.max()) <= 100.01
    assert float(times.mean()) == pytest.approx(50.5, abs=5)  # drawn evenly


def test_training_that_diverges_stops_and_says_so() -> None:
    weight = torch.nn.Linear(1, 1)
    trace = fit(weight, Plan(500, 10.0, None, "sgd"), lambda update: weight(torch.ones(1, 1)).pow(2).sum())
    assert trace.losses[-1] == math.inf
    assert len(trace.losses) < 500
    assert all(map(math.isfinite, trace.losses[:-1]))


def test_losses_and_right_answers_by_hand() -> None:
    answers = torch.tensor([[[2.0, 0.0]], [[0.0, 1.0]]])
    expected = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(1))) / 2
    assert float(loss_of(answers, torch.tensor([[0], [0]]))) == pytest.approx(expected)
    assert float(loss_of(torch.tensor([[0.5], [1.0]]), torch.tensor([0.0, 1.0]))) == pytest.approx(0.125)
    assert smoothed([1.0, 3.0, 5.0, 7.0, 9.0], 2) == [2.0, 6.0]


# --- measures


@given(st.floats(-2, 2), st.floats(0.01, 100))
def test_the_slope_of_a_power_law_is_its_power(power: float, factor: float) -> None:
    xs = (1, 2, 4, 9)
    assert slope(xs, [factor * x**power for x in xs]) == pytest.approx(power, abs=1e-9)


def test_purity_and_ranks_by_hand() -> None:
    """Words 0 and 1 are of one class, 25 and 26 of another; 26 stands nearest to 0."""
    array = np.array([[1, 0], [1, 0.2], [0, 1], [1, -0.1]], np.float32)
    vectors = Vectors(["0", "1", "25", "26"], array)
    assert negative_sampling.purity(vectors) == 1 / 4
    twins = Vectors(["a", "b", "c", "a~"], np.array([[1, 0.5], [1, 0.1], [0, 1], [1, 0]], np.float32))
    assert rare_words.ranks_of(twins, ["a"]) == [2]


def test_words_follow_their_class_in_the_generated_text() -> None:
    rows = negative_sampling.classed(np.random.default_rng(0), 2000)
    assert len(rows) == 100
    followers: dict[int, set[int]] = {}
    for row in rows:
        kinds = [int(word) // negative_sampling.MEMBERS for word in row]
        for before, after in itertools.pairwise(kinds):
            followers.setdefault(before, set()).add(after)
    assert all(len(after) <= 3 for after in followers.values())


def test_the_parts_of_the_corpus_share_no_document(tmp_path: Path) -> None:
    parts = [set(Path(path).read_text("utf8").splitlines()) for path in corpus.split(tmp_path, 1, 0.2)]
    documents = corpus.documents(1, 0.2)
    assert sum(map(len, documents)) == sum(len(Path(p).read_text("utf8").splitlines()) for p in tmp_path.glob("*.txt"))
    first = {documents[0][0]}
    assert [bool(first & part) for part in parts] == [False, True, False]
    assert corpus.documents(1, 0.2) == documents
    assert corpus.documents(2, 0.2) != documents
