"""Batches: every target once, no padding counted, no state over a boundary, the same after a resume."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError, MismatchError
from ostinato.core.vocabulary import Vocabulary
from ostinato.text.batch import Batches, ContinuousBatches, SentenceBatches, make_batches
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.stream import TokenStream, encode
from ostinato.text.tokenise import make_tokeniser

WORDS = Pipeline(Normaliser(), make_tokeniser("blank"))
VOCABULARY = Vocabulary([*"abcdefgh", "月"])


def stream_of(ids: list[list[list[int]]], vocabulary: Vocabulary = VOCABULARY) -> TokenStream:
    """Documents of lines of ids, without going through the disk."""
    flat = [token for document in ids for line in document for token in (*line, vocabulary.stop)]
    sizes = [sum(len(line) + 1 for line in document) for document in ids]
    starts = np.cumsum([0, *sizes[:-1]])
    lines = sum(map(len, ids))
    return TokenStream(
        np.array(flat, np.uint16), starts, vocabulary.fingerprint, vocabulary.stop, 0, 0, 0, lines, "t#0"
    )


tokens = st.integers(2, VOCABULARY.outputs - 1)
texts = st.lists(st.lists(st.lists(tokens, max_size=9), min_size=1, max_size=6), min_size=1, max_size=5)
sizes = st.integers(1, 6)
seeds = st.one_of(st.none(), st.integers(0, 9))


def read_back(batches: Batches) -> list[list[tuple[int, int]]]:
    """What each row reads and predicts between two fresh states, in the order of the batches."""
    found: list[list[tuple[int, int]]] = []
    open_rows: dict[int, list[tuple[int, int]]] = {}
    for batch in batches:
        for row in range(len(batch.fresh)):
            counted = batch.weight[row] > 0
            if batch.fresh[row]:
                open_rows[row] = []
                found.append(open_rows[row])
            pairs = zip(batch.inputs[row, counted], batch.targets[row, counted], strict=True)
            open_rows[row] += [(int(a), int(b)) for a, b in pairs]
    return [run for run in found if run]


def check_form(batches: Batches) -> None:
    for batch in batches:
        assert batch.inputs.shape == batch.targets.shape == batch.weight.shape
        assert batch.inputs.dtype == batch.targets.dtype == np.int64
        assert (batch.weight.dtype, batch.fresh.dtype) == (np.float32, np.bool_)
        assert batch.fresh.shape == (batches.rows,)
        padding = batch.weight == 0
        assert (batch.inputs[padding] == VOCABULARY.pad).all()
        assert (batch.targets < VOCABULARY.outputs).all()
        assert (np.diff(batch.weight, axis=1) <= 0).all(), "padding stands at the end of a row"
    assert sum(int(batch.weight.sum()) for batch in batches) == batches.targets


@settings(deadline=None)
@given(texts, sizes, sizes, seeds)
def test_every_sentence_is_read_once_from_a_new_state(ids, rows, length, seed):
    batches = SentenceBatches(stream_of(ids), VOCABULARY, rows, length, seed)
    check_form(batches)
    wanted = [
        list(zip([VOCABULARY.start, *line], [*line, VOCABULARY.stop], strict=True)) for text in ids for line in text
    ]
    assert sorted(read_back(batches)) == sorted(wanted)


@settings(deadline=None)
@given(texts, sizes, sizes, seeds)
def test_whole_documents_are_read_once_from_a_new_state(ids, rows, length, seed):
    batches = ContinuousBatches(stream_of(ids), VOCABULARY, rows, length, False, seed)
    check_form(batches)
    flat = [[token for line in text for token in (*line, VOCABULARY.stop)] for text in ids]
    wanted = [list(zip([VOCABULARY.start, *text[:-1]], text, strict=True)) for text in flat]
    assert sorted(read_back(batches)) == sorted(wanted)


@settings(deadline=None)
@given(texts, sizes, sizes, seeds)
def test_cut_documents_are_read_once_with_the_token_before_as_first_input(ids, rows, length, seed):
    """Without the states, the pairs are those of the whole documents."""
    batches = ContinuousBatches(stream_of(ids), VOCABULARY, rows, length, True, seed)
    check_form(batches)
    flat = [[token for line in text for token in (*line, VOCABULARY.stop)] for text in ids]
    wanted = [pair for text in flat for pair in zip([VOCABULARY.start, *text[:-1]], text, strict=True)]
    runs = read_back(batches)
    assert sorted(pair for run in runs for pair in run) == sorted(wanted)
    assert max(map(len, runs)) <= -(-batches.targets // rows)


@settings(deadline=None)
@given(texts, sizes, sizes, st.sampled_from(["sentence", "stream"]), seeds, st.integers(0, 3))
def test_a_batch_depends_on_nothing_but_seed_epoch_and_number(ids, rows, length, regime, seed, epoch):
    first, again = (make_batches(regime, stream_of(ids), VOCABULARY, rows, length, seed, epoch) for _ in range(2))
    for number in reversed(range(len(again))):
        for name in ("inputs", "targets", "weight", "fresh"):
            np.testing.assert_array_equal(getattr(first[number], name), getattr(again[number], name))
    with pytest.raises(IndexError):
        first[len(first)]


def test_order_changes_with_seed_and_epoch_and_not_without_a_seed():
    stream = stream_of([[[2 + number % 9] * (number % 5) for number in range(60)] for _ in range(9)])

    def order(seed, epoch, regime):
        batches = make_batches(regime, stream, VOCABULARY, 4, 5, seed, epoch, training=True)
        return [batch.inputs.tolist() for batch in batches]

    for regime in ("sentence", "stream"):
        assert order(None, 0, regime) == order(None, 1, regime)
    assert order(1, 0, "sentence") != order(1, 1, "sentence")
    assert order(1, 0, "sentence") != order(2, 0, "sentence")


def test_documents_of_a_row_come_in_another_order_each_epoch():
    stream = stream_of([[[2 + place] * 3] for place in range(9)])

    def order(epoch):
        batches = ContinuousBatches(stream, VOCABULARY, 1, 4, False, 7, epoch)
        return [batch.targets[0, 0] for batch in batches]

    assert sorted(order(0)) == sorted(order(1)) == list(range(2, 11))
    assert order(0) != order(1)


def test_by_hand_a_long_sentence_goes_on_in_the_next_batch():
    first, second = SentenceBatches(stream_of([[[2, 3, 4], [5]]]), VOCABULARY, 2, 3, None)
    start, stop, pad = VOCABULARY.start, VOCABULARY.stop, VOCABULARY.pad
    assert first.inputs.tolist() == [[start, 5, pad], [start, 2, 3]]
    assert first.targets.tolist() == [[5, stop, stop], [2, 3, 4]]
    assert first.weight.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert first.fresh.tolist() == [True, True]
    assert second.inputs.tolist() == [[pad], [4]]
    assert second.targets.tolist() == [[stop], [stop]]
    assert second.weight.tolist() == [[0], [1]]
    assert second.fresh.tolist() == [False, False]


def test_by_hand_a_cut_document_keeps_all_rows_busy():
    (batch,) = ContinuousBatches(stream_of([[[2, 3], [4, 5]]]), VOCABULARY, 2, 3, True, None)
    assert batch.inputs.tolist() == [[VOCABULARY.start, 2, 3], [VOCABULARY.stop, 4, 5]]
    assert batch.targets.tolist() == [[2, 3, VOCABULARY.stop], [4, 5, VOCABULARY.stop]]
    assert batch.fresh.tolist() == [True, True]


def test_sentences_of_similar_length_share_a_batch():
    chance = np.random.default_rng(0)
    lines = [[2] * int(size) for size in chance.integers(0, 40, 4000)]
    batches = SentenceBatches(stream_of([lines]), VOCABULARY, 16, 64, seed=1)
    area = sum(batch.weight.size for batch in batches)
    assert batches.targets / area > 0.9


def test_training_keeps_its_rows_busy():
    documents = [[[2] * 700], [[3] * 90], *([[4] * 20] for _ in range(30))]
    batches = ContinuousBatches(stream_of(documents), VOCABULARY, 8, 7, True, seed=3)
    area = sum(batch.weight.size for batch in batches)
    assert batches.targets / area > 0.85


@pytest.mark.parametrize("regime", ["sentence", "stream"])
@pytest.mark.parametrize("training", [True, False])
def test_a_million_tokens_are_planned_in_well_under_a_second(regime, training):
    ids = np.full(1_500_000, 2, np.uint16)
    ids[19::20] = VOCABULARY.stop
    starts = np.arange(0, len(ids), 2000)
    stream = TokenStream(ids, starts, VOCABULARY.fingerprint, VOCABULARY.stop, 0, 0, 0, len(ids) // 20, "t#0")
    begun = time.process_time()
    make_batches(regime, stream, VOCABULARY, 32, 64, 1, 0, training)
    assert time.process_time() - begun < 0.7


def test_a_text_shorter_than_a_batch_is_refused_for_training_only():
    stream = encode([["a b", "月"]], WORDS, VOCABULARY)
    with pytest.raises(DataError, match="2 lines are fewer than one batch of 3 rows"):
        make_batches("sentence", stream, VOCABULARY, 3, 5, training=True)
    with pytest.raises(DataError, match="5 tokens are fewer than one batch of 2 rows of 3 tokens"):
        make_batches("stream", stream, VOCABULARY, 2, 3, training=True)
    for regime in ("sentence", "stream"):
        assert make_batches(regime, stream, VOCABULARY, 3, 5).targets == 5


def test_sizes_below_one_and_another_vocabulary_are_refused():
    stream = stream_of([[[2]]])
    for rows, length in ((0, 5), (5, 0)):
        with pytest.raises(ConfigError, match="at least one row of length one"):
            make_batches("sentence", stream, VOCABULARY, rows, length)
    with pytest.raises(MismatchError):
        make_batches("stream", stream, Vocabulary(["a", "b"]), 2, 2)
