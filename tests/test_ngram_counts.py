"""Counts of all orders: against dictionaries, and at the edges of what a text can be."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError, MismatchError, ShapeError
from ostinato.core.progress import Progress
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram import counting as sorting
from ostinato.ngram import counts as counting
from ostinato.ngram import workspace
from ostinato.ngram.counts import Counts, count
from ostinato.ngram.threads import in_threads
from ostinato.ngram.workspace import Workspace

LETTERS = Vocabulary("abcd")
texts = st.lists(st.lists(st.sampled_from([0, 2, 3, 4]), max_size=7), min_size=1, max_size=12)


def stream(lines: list[list[int]], vocabulary: Vocabulary = LETTERS) -> np.ndarray:
    return np.array([word for line in lines for word in [*line, vocabulary.stop]], np.int64)


def spelled(counts: Counts) -> list[list[tuple[int, ...]]]:
    """The n-grams of every order in the order of their nodes."""
    trie = counts.trie
    return [
        [tuple(trie.words_of(node)) for node in range(*trie.level(order).indices(trie.nodes))]
        for order in range(trie.order + 1)
    ]


@pytest.fixture(params=["numpy", "kernels"], scope="module", autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test counts twice: as a small text is counted, and as a long one."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "kernels":
            patch.setattr(counting, "SMALL", 0)
            patch.setattr(sorting, "SHARD", 3)
        yield request.param


@given(texts, st.integers(1, 5))
@settings(deadline=None, max_examples=60)
def test_every_ngram_is_counted_once_and_in_order(lines, order):
    counts = count(stream(lines), LETTERS, order)
    counts.trie.check()
    grams = spelled(counts)
    framed = [(LETTERS.start, *line, LETTERS.stop) for line in lines]
    assert (counts.tokens, counts.lines) == (sum(map(len, framed)) - len(lines), len(lines))
    assert counts.count[0] == counts.tokens
    for length in range(1, order + 1):
        level = counts.trie.level(length)
        expected = Counter(line[at : at + length] for line in framed for at in range(len(line) - length + 1))
        found = {gram: int(c) for gram, c in zip(grams[length], counts.count[level], strict=True) if c}
        assert found == dict(expected)
        assert grams[length] == sorted(set(grams[length]))
        suffixes = [tuple(counts.trie.words_of(node)) for node in counts.trie.suffix[level]]
        assert suffixes == [gram[1:] for gram in grams[length]]
        assert sum(gram[0] != LETTERS.start for gram in grams[length]) == counts.starting(length)


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
    assert counts.trie.ngrams == (7, 1, 0, 0)
    assert counts.raw(2).tolist() == [3]


def test_the_start_symbol_is_never_a_prediction():
    counts = count(stream([[2], [3]]), LETTERS, 2)
    assert counts.raw(1).tolist() == [0, 2, 1, 1, 0, 0, 0]
    assert counts.adjusted(1).tolist() == [0, 2, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint16, np.int32, np.int64, np.uint64])
def test_any_integer_type_counts_the_same(kind):
    ids = stream([[2, 3, 2], [], [4, 0]])
    np.testing.assert_array_equal(count(ids, LETTERS, 3).count, count(ids.astype(kind), LETTERS, 3).count)


def test_blocks_and_files_do_not_change_the_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    ids = stream([[2, 3, 2], [], [4, 0], [], [3, 3, 3, 3]])
    whole = count(ids, LETTERS, 3)
    ids.astype(np.int32).tofile(tmp_path / "ids")
    mapped = np.memmap(tmp_path / "ids", np.int32, "r")
    for block in (1, 2, 3, 7):
        monkeypatch.setattr(counting, "BLOCK", block)
        cut = count(mapped, LETTERS, 3)
        np.testing.assert_array_equal(cut.count, whole.count)


def test_progress_never_goes_back_and_ends_at_the_end(way: str):
    seen: list[Progress] = []
    ids = stream([[2, 3]] * 20)
    for order in (2, 3):
        seen.clear()
        count(ids, LETTERS, order, seen.append)
        for label in {report.label for report in seen}:
            shares = [report.share for report in seen if report.label == label]
            assert shares == sorted(shares)
            assert shares[-1] == 1.0


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


def equal(one: Counts, other: Counts) -> bool:
    """Bit for bit."""
    arrays = ("word", "first_child", "suffix")
    same = all(np.array_equal(getattr(one.trie, name), getattr(other.trie, name)) for name in arrays)
    return same and np.array_equal(one.count, other.count) and one.trie.ngrams == other.trie.ngrams


def zipf_text(tokens: int, words: int) -> tuple[np.ndarray, Vocabulary]:
    """A text with a few frequent words, many rare ones, and passages that come again."""
    generator = np.random.default_rng(3)
    ids = np.minimum(generator.zipf(1.3, tokens), words - 1) + 1
    ids[ids == 1] = 2
    ids[generator.integers(0, tokens, tokens // 12)] = 1
    ids[tokens // 2 : tokens // 2 + tokens // 4] = ids[: tokens // 4]
    ids[-1] = 1
    return ids, Vocabulary(f"w{number}" for number in range(words))


@pytest.mark.parametrize("order", [2, 5, 7])
def test_long_texts_are_counted_as_short_ones_are(order: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Threads, shards, and a bound on memory change nothing."""
    ids, vocabulary = zipf_text(30_000, 500)
    monkeypatch.setattr(counting, "SMALL", 1 << 30)
    expected = count(ids, vocabulary, order)
    monkeypatch.setattr(counting, "SMALL", 0)
    for threads, shard in ((1, 1 << 15), (2, 100), (3, 1)):
        monkeypatch.setattr(sorting, "SHARD", shard)
        assert equal(count(ids, vocabulary, order, threads=threads), expected)
    monkeypatch.setattr(workspace, "resident", lambda: 1 << 40)
    monkeypatch.setattr(workspace, "IN_FILES", 0)
    assert equal(count(ids, vocabulary, order, space=Workspace(workspace.LEAST, tmp_path)), expected)


def test_a_line_that_comes_a_thousand_times_is_one_line_counted_a_thousand_times():
    counts = count(stream([[2, 3, 2, 4]] * 1000), LETTERS, 4)
    assert set(counts.raw(4).tolist()) == {1000}


def test_after_an_error_no_thread_begins_another_task():
    begun: list[int] = []

    def work(tasks: Iterator[int]) -> None:
        for task in tasks:
            begun.append(task)
            if task == 3:
                raise ValueError("three")
            time.sleep(0.002)

    with pytest.raises(ValueError, match="three"):
        in_threads(work, range(2000), threads=2)
    assert len(begun) < 1000
