"""The n-gram model and its table: the laws of the contract, storage, and damage."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import FormatError, MismatchError, ShapeError
from ostinato.core.model import LanguageModel, score_by_steps
from ostinato.core.state import from_bytes, same, to_bytes
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.counts import count
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.table import BackoffTable
from ostinato.ngram.table_model import NGramState

LETTERS = Vocabulary("abc")
LINES = ["a b a c", "a b b", "", "c a b a c a", "b", "a a a a", "c c b a", "a b a c b"]


def stream(lines: list[str]) -> np.ndarray:
    return np.concatenate([[*LETTERS.ids(line.split()), LETTERS.stop] for line in lines])


def fitted(order: int = 4, name: str = "modified-kneser-ney") -> NGramModel:
    return NGramModel(smoothings[name]().fit(count(stream(LINES), LETTERS, order)), LETTERS)


NORMALISED = [name for name in smoothings if name != "stupid-backoff"]
MODELS = {f"{name} {order}": fitted(order, name) for name in NORMALISED for order in (1, 2, 4)}
models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@st.composite
def batches(draw):
    """Inputs [B, T] of any ids, targets [B, T] that follow them or do not."""
    rows, places = draw(st.integers(1, 3)), draw(st.integers(0, 12))
    inputs = draw(st.lists(st.integers(0, LETTERS.pad), min_size=rows * places, max_size=rows * places))
    targets = draw(st.lists(st.integers(0, LETTERS.outputs - 1), min_size=rows * places, max_size=rows * places))
    inputs, targets = (np.array(ids, np.int64).reshape(rows, places) for ids in (inputs, targets))
    if draw(st.booleans()):
        targets[:, :-1] = np.minimum(inputs[:, 1:], LETTERS.outputs - 1)
    return inputs, targets


@models
@given(batches())
@settings(deadline=None, max_examples=60)
def test_score_equals_a_fold_of_step(model, batch):
    fast, end = model.score(model.init_state(len(batch[0])), *batch)
    slow, last = score_by_steps(model, model.init_state(len(batch[0])), *batch)
    np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-6)
    assert fast.dtype == slow.dtype == np.float32
    assert same(end, last)


@models
@given(batches(), st.data())
@settings(deadline=None, max_examples=40)
def test_a_stream_may_be_cut_anywhere(model, batch, data):
    inputs, targets = batch
    cut = data.draw(st.integers(0, inputs.shape[1]))
    whole, end = model.score(model.init_state(len(inputs)), inputs, targets)
    first, middle = model.score(model.init_state(len(inputs)), inputs[:, :cut], targets[:, :cut])
    second, last = model.score(middle, inputs[:, cut:], targets[:, cut:])
    np.testing.assert_array_equal(np.hstack([first, second]), whole)
    assert same(last, end)


@models
@given(batches())
@settings(deadline=None, max_examples=40)
def test_rows_of_a_batch_know_nothing_of_each_other(model, batch):
    inputs, targets = batch
    together, end = model.score(model.init_state(len(inputs)), inputs, targets)
    for row in range(len(inputs)):
        alone, last = model.score(model.init_state(1), inputs[row : row + 1], targets[row : row + 1])
        np.testing.assert_array_equal(alone[0], together[row])
        assert last.node[0] == end.node[row]


@models
@given(st.lists(st.integers(0, LETTERS.pad), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
def test_after_any_reading_the_distribution_sums_to_one(model, tokens):
    state = model.init_state(1)
    for token in tokens:
        log_probs, state = model.step(state, np.array([token]))
        assert log_probs.shape == (1, LETTERS.outputs)
        assert np.exp(log_probs.astype(np.float64)).sum() == pytest.approx(1, abs=1e-6)


@models
def test_reading_on_equals_reading_sentence_by_sentence(model):
    """The stop symbol as an input begins the next sentence; with or without a start symbol after it."""
    ids = stream(LINES)
    on, _ = model.score(model.init_state(1), np.concatenate(([LETTERS.start], ids[:-1]))[None], ids[None])
    parts = []
    for line in LINES:
        own = stream([line])
        inputs = np.concatenate(([LETTERS.start], own[:-1]))
        parts.append(model.score(model.init_state(1), inputs[None], own[None])[0][0])
    np.testing.assert_array_equal(np.concatenate(parts), on[0])
    stopped = model.step(model.init_state(1), np.array([LETTERS.stop]))[1]
    started = model.step(stopped, np.array([LETTERS.start]))[1]
    assert same(stopped, started)
    assert stopped.node[0] == model.table.sentence_start


def test_padding_changes_nothing_and_states_are_values():
    model = fitted()
    _, state = model.step(model.init_state(2), np.array([2, 3]))
    kept = state.node.copy()
    before, _ = model.step(state, np.array([4, 4]))
    padded, after = model.step(state, np.array([LETTERS.pad, 4]))
    assert after.node[0] == state.node[0]
    np.testing.assert_array_equal(state.node, kept)
    np.testing.assert_array_equal(before[1], padded[1])
    restored = from_bytes(to_bytes(after), model.init_state(1))
    assert isinstance(restored, NGramState)
    assert same(restored, after)


@pytest.mark.parametrize(("longer", "shorter"), [("b c", "c"), ("a b a", "c b a"), ("a b a", "b a"), ("c b b c", "c")])
def test_a_context_that_was_never_continued_is_forgotten(longer, shorter):
    """Equal futures are equal states, so a beam can merge them. Order 3; "b c" does not occur."""
    model = fitted(order=3)
    ends = []
    for text in (longer, shorter):
        ids = LETTERS.ids(text.split())[None]
        ends.append(model.score(model.init_state(1), ids, ids)[1].node[0])
    assert ends[0] == ends[1]


def test_it_is_a_language_model_that_counts_its_parameters():
    """Order 2 of "a": </s>, a and <unk> have probabilities, as have <s>a and a</s>; <s> and a have back-offs."""
    table = smoothings["kneser-ney"]().fit(count(np.array([2, 1]), Vocabulary("a"), 2))
    model = NGramModel(table, Vocabulary("a"))
    assert isinstance(model, LanguageModel)
    assert model.parameters == 3 + 2 + 2


def test_a_described_model_gives_the_same_numbers():
    model = fitted()
    described = json.loads(json.dumps(model.metadata()))
    again = NGramModel.load(model.arrays(), described, Vocabulary("abc"))
    assert again.metadata() == model.metadata()
    ids = stream(LINES)[None]
    np.testing.assert_array_equal(
        model.score(model.init_state(1), ids, ids)[0], again.score(again.init_state(1), ids, ids)[0]
    )
    with pytest.raises(ValueError, match="read-only"):
        again.table.rows[0] = 1


@models
@given(lines=st.lists(st.lists(st.integers(0, LETTERS.outputs - 1).filter(lambda i: i != 1), max_size=9), max_size=40))
@settings(deadline=None, max_examples=30)
def test_scoring_lines_side_by_side_changes_nothing(model, lines):
    """Lines in lanes and threads, and single steps in batches, give what `score` gives, bit for bit."""
    ids = np.array([word for line in lines for word in [*line, LETTERS.stop]], np.int32)
    ends = np.flatnonzero(ids == LETTERS.stop) + 1
    expected = []
    for line in lines:
        targets = np.array([[*line, LETTERS.stop]])
        inputs = np.array([[LETTERS.start, *line]])
        expected += model.score(model.init_state(1), inputs, targets)[0][0].tolist()
    for threads in (1, 3):
        assert model.score_lines(ids, ends, threads).tolist() == expected
    states, found = np.full(len(lines), model.table.sentence_start), [[] for _ in lines]
    for place in range(max(map(len, lines), default=-1) + 1):
        live = [row for row, line in enumerate(lines) if place <= len(line)]
        tokens = np.array([[*lines[row], LETTERS.stop][place] for row in live], np.int64)
        log_probs, states[live] = model.score_each(states[live], tokens)
        for row, log_prob in zip(live, log_probs.tolist(), strict=True):
            found[row].append(log_prob)
    assert [value for row in found for value in row] == expected
    assert (states == model.table.sentence_start).all()


@models
def test_the_next_words_are_the_likeliest(model):
    state = model.step(model.init_state(2), np.array([LETTERS.start, 2]))[1]
    log_probs, _ = model.step(model.init_state(2), np.array([LETTERS.start, 2]))
    words, found = model.next_words(state, 3)
    for row in range(2):
        np.testing.assert_allclose(found[row], np.sort(log_probs[row])[::-1][:3], rtol=0, atol=1e-6)
        np.testing.assert_array_equal(log_probs[row][words[row]], found[row])


def test_another_vocabulary_or_state_is_refused():
    model = fitted()
    with pytest.raises(MismatchError, match="made for vocabulary"):
        NGramModel.load(model.arrays(), model.metadata(), Vocabulary("abd"))
    with pytest.raises(MismatchError, match="another number"):
        NGramModel(model.table, Vocabulary("ab"))
    with pytest.raises(MismatchError, match="another model"):
        model.step(NGramState(np.array([10**6])), np.array([2]))
    with pytest.raises(MismatchError, match="ids 0 to 6"):
        model.step(model.init_state(1), np.array([7]))
    with pytest.raises(ShapeError, match="2 rows"):
        model.step(model.init_state(2), np.array([2]))
    with pytest.raises(ShapeError, match="never predicted"):
        model.score(model.init_state(1), np.array([[2]]), np.array([[LETTERS.start]]))


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_random_damage_is_refused_or_harmless(data):
    """Whatever number is changed to whatever: an error of ours, or a table that can still be walked."""
    good = MODELS[data.draw(st.sampled_from(["kneser-ney 4", "witten-bell 2"]))].table
    rows = good.rows.copy()
    place = data.draw(st.integers(0, len(rows) - 1))
    rows[place] = data.draw(st.integers(-30, len(rows)) | st.integers(-(2**31), 2**31 - 1))
    try:
        table = BackoffTable.from_arrays({"rows": rows}, good.metadata())
    except FormatError:
        return
    model = NGramModel(table, LETTERS)
    ids = stream(LINES)[None]
    fast, _ = model.score(model.init_state(1), ids, ids)
    np.testing.assert_allclose(fast, score_by_steps(model, model.init_state(1), ids, ids)[0], atol=1e-6)


def test_links_that_lead_astray_are_refused():
    good = fitted().table
    for column, offset in ((0, 1), (2, 2)):
        for row in range(len(good.rows) // 3):
            rows = good.rows.copy()
            rows[3 * row + column] += offset
            with pytest.raises(FormatError, match="not a valid back-off table"):
                BackoffTable.from_arrays({"rows": rows}, good.metadata())


@pytest.mark.parametrize(
    "change",
    [
        {"order": 3},
        {"ngrams": [6, 12, 17]},
        {"normalised": None, "order": "x"},
        {"ngrams": "nonsense"},
        {"ngrams": []},
        {"ngrams": None},
        {"discounts": 3},
        {"notes": None},
    ],
)
def test_damaged_metadata_is_refused(change: dict[str, Any]):
    model = fitted()
    with pytest.raises(FormatError, match="not a valid back-off table"):
        BackoffTable.from_arrays(model.arrays(), {**model.metadata(), **change})


def test_missing_cut_or_retyped_arrays_are_refused():
    model = fitted()
    whole = model.arrays()
    for name, array in whole.items():
        others = {key: value for key, value in whole.items() if key != name}
        for bad in ({}, {name: array[:-1]}, {name: array.astype(np.float64)}, {name: array[None]}):
            with pytest.raises(FormatError, match="not a valid back-off table"):
                BackoffTable.from_arrays({**others, **bad}, model.metadata())
