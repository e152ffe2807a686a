"""Counts of all orders: against dictionaries, and at the edges of what a text can be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError, MismatchError, ShapeError
from ostinato.core.progress import Progress
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram import counts as counting
from ostinato.ngram.counts import Counts, count

LETTERS = Vocabulary("abcd")
texts = st.lists(st.lists(st.sampled_from([0, 2, 3, 4]), max_size=7), min_size=1, max_size=12)


def stream(lines: list[list[int]], vocabulary: Vocabulary = LETTERS) -> np.ndarray:
    return np.array([word for line in lines for word in [*line, vocabulary.stop]], np.int64)


def spelled(counts: Counts) -> list[list[tuple[int, ...]]]:
    """The n-grams of every order in the order of their rows."""
    grams: list[list[tuple[int, ...]]] = [[()]]
    for level in counts.levels:
        grams.append([(*grams[-1][h], int(w)) for h, w in zip(level.parent, level.word, strict=True)])
    return grams


@given(texts, st.integers(1, 5))
@settings(deadline=None)
def test_every_ngram_is_counted_once_and_in_order(lines, order):
    counts = count(stream(lines), LETTERS, order)
    grams = spelled(counts)
    framed = [(LETTERS.start, *line, LETTERS.stop) for line in lines]
    assert (counts.tokens, counts.lines) == (sum(map(len, framed)) - len(lines), len(lines))
    for length, level in enumerate(counts.levels, 1):
        expected = Counter(line[at : at + length] for line in framed for at in range(len(line) - length + 1))
        found = {gram: int(c) for gram, c in zip(grams[length], level.count, strict=True) if c}
        assert found == dict(expected)
        assert grams[length] == sorted(set(grams[length]))
        assert [grams[length - 1][row] for row in level.suffix] == [gram[1:] for gram in grams[length]]
        assert sum(gram[0] != LETTERS.start for gram in grams[length]) == level.inner


@given(texts, st.integers(1, 5))
@settings(deadline=None)
def test_lower_orders_count_the_words_before_unless_a_sentence_begins(lines, order):
    counts = count(stream(lines), LETTERS, order)
    grams = spelled(counts)
    for length in range(1, order):
        raw = dict(zip(grams[length], counts.raw(length), strict=True))
        for gram, adjusted in zip(grams[length], counts.adjusted(length), strict=True):
            before = sum(longer[1:] == gram for longer in grams[length + 1])
            assert adjusted == (raw[gram] if gram[0] == LETTERS.start else before)
    np.testing.assert_array_equal(counts.adjusted(order), counts.raw(order))


def test_a_text_of_empty_lines_has_bigrams_and_nothing_longer():
    counts = count(stream([[], [], []]), LETTERS, 4)
    assert [len(level.word) for level in counts.levels] == [7, 1, 0, 0]
    assert counts.raw(2).tolist() == [3]


def test_the_start_symbol_is_never_a_prediction():
    counts = count(stream([[2], [3]]), LETTERS, 2)
    assert counts.raw(1).tolist() == [0, 2, 1, 1, 0, 0, 0]
    assert counts.adjusted(1).tolist() == [0, 2, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint16, np.int32, np.int64, np.uint64])
def test_any_integer_type_counts_the_same(kind):
    ids = stream([[2, 3, 2], [], [4, 0]])
    for level, other in zip(count(ids, LETTERS, 3).levels, count(ids.astype(kind), LETTERS, 3).levels, strict=True):
        np.testing.assert_array_equal(level.count, other.count)


def test_blocks_and_files_do_not_change_the_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    ids = stream([[2, 3, 2], [], [4, 0], [], [3, 3, 3, 3]])
    whole = count(ids, LETTERS, 3)
    ids.astype(np.int32).tofile(tmp_path / "ids")
    mapped = np.memmap(tmp_path / "ids", np.int32, "r")
    for block in (1, 2, 3, 7):
        monkeypatch.setattr(counting, "BLOCK", block)
        cut = count(mapped, LETTERS, 3)
        assert all(np.array_equal(a.count, b.count) for a, b in zip(whole.levels, cut.levels, strict=True))


def test_progress_never_goes_back_and_ends_at_the_end():
    seen: list[Progress] = []
    ids = stream([[2, 3]] * 20)
    for order in (1, 3):
        seen.clear()
        count(ids, LETTERS, order, seen.append)
        shares = [report.share for report in seen]
        assert shares == sorted(shares)
        assert (seen[-1].share, seen[-1].tokens) == (1.0, len(ids))


@pytest.mark.parametrize(
    ("ids", "order", "error", "words"),
    [
        ([2, 1], 0, ConfigError, "order of an n-gram model must be 1 or more, got 0"),
        ([], 2, DataError, "empty"),
        ([2, 1, 3], 2, DataError, "not ended by the stop symbol"),
        ([2, 6, 1], 2, DataError, "holds <s>"),
        ([7, 1], 2, DataError, "holds <pad>"),
        ([8, 1], 2, MismatchError, "ids 0 to 7"),
        ([-1, 1], 2, MismatchError, "reach from -1"),
    ],
)
def test_a_stream_that_cannot_be_counted_says_why(ids, order, error, words):
    with pytest.raises(error, match=words):
        count(np.array(ids, np.int64), LETTERS, order)


def test_a_stream_is_one_row_of_integers():
    for ids in (np.ones((2, 2), np.int64), np.ones(3)):
        with pytest.raises(ShapeError, match="one row of integers"):
            count(ids, LETTERS, 2)


def test_more_tokens_than_rows_can_number_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(counting, "LIMIT", 10)
    with pytest.raises(DataError, match="9 tokens are more than the 7"):
        count(stream([[2, 2], [2, 2], [2, 2]]), LETTERS, 2)
