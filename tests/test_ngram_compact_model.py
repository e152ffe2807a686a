"""The model of a compact table: the laws of the contract, and the numbers of the table it expands to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from compact_toys import LETTERS, LINES, compact, fitted, models, stream
from ostinato.core.errors import ConfigError, MismatchError, ShapeError
from ostinato.core.model import LanguageModel, score_by_steps
from ostinato.core.state import same
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.compact import CompactTable
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.model import NGramModel
from ostinato.ngram.table_model import NGramState


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
@settings(deadline=None, max_examples=40)
def test_score_equals_a_fold_of_step_and_the_expanded_table(model, batch):
    fast, end = model.score(model.init_state(len(batch[0])), *batch)
    slow, last = score_by_steps(model, model.init_state(len(batch[0])), *batch)
    expanded = NGramModel(model.table.expand(), LETTERS)
    np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(fast, expanded.score(expanded.init_state(len(batch[0])), *batch)[0])
    assert fast.dtype == slow.dtype == np.float32
    assert same(end, last)


@models
@given(batches(), st.data())
@settings(deadline=None, max_examples=40)
def test_a_stream_may_be_cut_anywhere_and_rows_are_alone(model, batch, data):
    inputs, targets = batch
    cut = data.draw(st.integers(0, inputs.shape[1]))
    whole, end = model.score(model.init_state(len(inputs)), inputs, targets)
    first, middle = model.score(model.init_state(len(inputs)), inputs[:, :cut], targets[:, :cut])
    second, last = model.score(middle, inputs[:, cut:], targets[:, cut:])
    np.testing.assert_array_equal(np.hstack([first, second]), whole)
    assert same(last, end)
    for row in range(len(inputs)):
        alone, stop = model.score(model.init_state(1), inputs[row : row + 1], targets[row : row + 1])
        np.testing.assert_array_equal(alone[0], whole[row])
        assert stop.node[0] == end.node[row]


@models
@given(st.lists(st.integers(0, LETTERS.pad), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
def test_the_state_is_the_longest_suffix_that_is_a_context(model, tokens):
    """Looked up word by word in the expanded trie; the state found by reading is that, so equal futures are equal."""
    trie = model.table.expand().trie()
    backoffs = model.table.expand().log_backoff()
    _, state = model.score(model.init_state(1), np.array([tokens]), np.array([tokens]) * 0)
    words: list[int] = []
    for token in tokens:
        if token in (LETTERS.stop, LETTERS.start):
            words = [LETTERS.start]
        elif token != LETTERS.pad:
            words = [*words, token][-max(trie.order - 1, 0) :] if trie.order > 1 else []
    while words:
        node = trie.find(words)
        if 0 <= node < trie.inner and (trie.first_child[node] < trie.first_child[node + 1] or backoffs[node] != 0):
            break
        words = words[1:]
    assert state.node[0] == (trie.find(words) if words else 0)


@models
def test_one_token_a_row_gives_its_log_prob_and_the_next_state(model):
    """What a beam asks for; against score and step."""
    nodes = np.arange(model.table.inner)
    for token in range(LETTERS.outputs):
        tokens = np.full(len(nodes), token)
        expected, _ = model.score(NGramState(nodes), np.full((len(nodes), 1), LETTERS.pad), tokens[:, None])
        log_probs, after = model.score_each(nodes, tokens)
        np.testing.assert_array_equal(log_probs, expected[:, 0])
        if token != LETTERS.stop:
            np.testing.assert_array_equal(after, model.step(NGramState(nodes), tokens)[1].node)


@models
@pytest.mark.parametrize("threads", [1, 2])
def test_lines_side_by_side_have_the_numbers_of_one_long_stream(model, threads):
    ids = stream(LINES)
    on, _ = model.score(model.init_state(1), np.concatenate(([LETTERS.start], ids[:-1]))[None], ids[None])
    ends = np.flatnonzero(ids == LETTERS.stop) + 1
    np.testing.assert_array_equal(model.score_lines(ids.astype(np.int32), ends, threads), on[0])
    assert not len(model.score_lines(np.zeros(0, np.int32), np.zeros(0, np.int64)))
    with pytest.raises(ShapeError, match="do not fit"):
        model.score_lines(ids.astype(np.int32), ends[:-1])
    with pytest.raises(MismatchError, match="predicts 0 to 4"):
        model.score_lines(np.array([LETTERS.start], np.int32), np.array([1]))


@models
def test_the_most_likely_words_come_first(model):
    log_probs, state = model.step(model.init_state(2), np.array([2, LETTERS.start]))
    words, found = model.next_words(state, 3)
    for row in range(2):
        best = sorted(range(LETTERS.outputs), key=lambda word, row=row: (-log_probs[row, word], word))[:3]
        assert words[row].tolist() == best or len(set(log_probs[row].tolist())) < LETTERS.outputs
        np.testing.assert_array_equal(found[row], log_probs[row, best])


@models
def test_a_stop_or_start_begins_a_sentence_and_padding_changes_nothing(model):
    stopped = model.step(model.init_state(1), np.array([LETTERS.stop]))[1]
    started = model.step(stopped, np.array([LETTERS.start]))[1]
    padded = model.step(started, np.array([LETTERS.pad]))[1]
    assert stopped.node[0] == started.node[0] == padded.node[0] == model.table.sentence_start


def test_it_is_a_language_model_stored_and_mapped(tmp_path: Path):
    model = compact()
    assert isinstance(model, LanguageModel)
    save_file(model.arrays(), tmp_path / "table.safetensors")
    described = json.loads(json.dumps(model.metadata()))
    ids = stream(LINES)[None]
    before, _ = model.score(model.init_state(1), ids, ids)
    for name, array in model.arrays().items():
        array.tofile(tmp_path / name)
    mapped = {name: np.memmap(tmp_path / name, array.dtype, "r") for name, array in model.arrays().items()}
    for arrays, check in ((load_file(tmp_path / "table.safetensors"), True), (mapped, False)):
        again = CompactModel.load(arrays, described, Vocabulary("abc"), check)
        assert again.metadata() == model.metadata()
        np.testing.assert_array_equal(again.score(again.init_state(1), ids, ids)[0], before)
        with pytest.raises(ValueError, match="read-only"):
            again.table.packed[0] = 1
    assert np.shares_memory(again.table.packed, mapped["packed"])


def test_another_vocabulary_state_or_length_of_codes_is_refused():
    model = compact()
    with pytest.raises(MismatchError, match="made for vocabulary"):
        CompactModel.load(model.arrays(), model.metadata(), Vocabulary("abd"))
    with pytest.raises(MismatchError, match="another number"):
        CompactModel(model.table, Vocabulary("ab"))
    with pytest.raises(MismatchError, match="another model"):
        model.step(NGramState(np.array([model.table.inner])), np.array([2]))
    with pytest.raises(MismatchError, match="ids 0 to 6"):
        model.step(model.init_state(1), np.array([7]))
    with pytest.raises(ShapeError, match="2 rows"):
        model.step(model.init_state(2), np.array([2]))
    with pytest.raises(ShapeError, match="never predicted"):
        model.score(model.init_state(1), np.array([[2]]), np.array([[LETTERS.start]]))
    with pytest.raises(ConfigError, match="prob_bits must lie between 4 and 16, got 3"):
        CompactTable.from_table(fitted(), 3)
    with pytest.raises(ConfigError, match="backoff_bits must lie between 8 and 16, got 17"):
        CompactTable.from_table(fitted(), 8, 17)
