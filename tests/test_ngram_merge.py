"""Counts put together: against counting the text at once, and at the edges of what can be added."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from ostinato.core.errors import DataError, FormatError, MismatchError
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram import merge
from ostinato.ngram.counts import Counts, count
from ostinato.ngram.merge import (
    ABSENT,
    from_arrays,
    grow,
    ids_in,
    merge_counts,
    nodes_in,
    renumbered,
    to_arrays,
    unite,
    unite_vocabularies,
)
from ostinato.ngram.trie import Trie

LETTERS = Vocabulary("abcd")
texts = st.lists(st.lists(st.sampled_from([0, 2, 3, 4, 5]), max_size=6), min_size=1, max_size=8)


def counted(lines: list[list[int]], order: int = 3, vocabulary: Vocabulary = LETTERS) -> Counts:
    ids = [word for line in lines for word in [*line, vocabulary.stop]]
    return count(np.array(ids, np.int64), vocabulary, order)


def same(first: Counts, second: Counts) -> None:
    assert first.trie.ngrams == second.trie.ngrams
    assert (first.tokens, first.lines) == (second.tokens, second.lines)
    np.testing.assert_array_equal(first.count, second.count)
    for name in ("word", "first_child", "suffix"):
        mine, other = getattr(first.trie, name), getattr(second.trie, name)
        assert mine.dtype == other.dtype == np.int32
        np.testing.assert_array_equal(mine, other)


def spelled(trie: Trie) -> dict[tuple[int, ...], int]:
    return {tuple(trie.words_of(node)): node for node in range(trie.nodes)}


@given(texts, texts, st.integers(1, 5))
@settings(deadline=None)
def test_merged_counts_are_those_of_the_texts_put_together(first, second, order):
    merged = merge_counts(counted(first, order), counted(second, order))
    same(merged, counted(first + second, order))
    merged.trie.check()


@given(texts, texts, st.integers(1, 4), st.integers(1, 4))
@settings(deadline=None)
def test_a_union_has_the_ngrams_of_both_and_knows_them_there(first, second, order, other):
    tries = counted(first, order).trie, counted(second, other).trie
    both = unite(*tries)
    both.trie.check()
    expected = spelled(tries[0]).keys() | spelled(tries[1]).keys()
    assert spelled(both.trie).keys() == expected
    for trie, nodes in zip(tries, both[1:], strict=True):
        names = spelled(trie)
        assert nodes.tolist() == [names.get(gram, ABSENT) for gram in spelled(both.trie)]
        np.testing.assert_array_equal(nodes_in(both.trie, trie), nodes)


def test_suffixes_of_a_union_lead_to_the_longest_in_either():
    """One trie lost "b c" to pruning, so "a b c" leads to "c" there; the other has it."""
    trie = counted([[2, 3, 4]]).trie
    keep = np.ones(trie.nodes, np.bool_)
    keep[[trie.find(gram) for gram in ([3, 4], [3, 4, LETTERS.stop])]] = False
    pruned, _ = trie.select(keep)
    assert pruned.words_of(int(pruned.suffix[pruned.find([2, 3, 4])])) == [4]
    united = unite(pruned, counted([[3, 4]]).trie).trie
    assert united.words_of(int(united.suffix[united.find([2, 3, 4])])) == [3, 4]


@given(texts, st.integers(1, 4), st.permutations("abcdxy"))
@settings(deadline=None)
def test_growing_equals_counting_with_the_larger_vocabulary(lines, order, pieces):
    larger = Vocabulary(pieces)
    moved = [[int(ids_in(LETTERS, larger)[word]) for word in line] for line in lines]
    same(grow(counted(lines, order), LETTERS, larger), counted(moved, order, larger))


def test_appended_words_leave_the_ids_of_the_others_alone():
    united = unite_vocabularies([LETTERS, Vocabulary("xbd"), Vocabulary("yx")])
    assert united == Vocabulary("abcdxy")
    assert ids_in(LETTERS, united).tolist() == [0, 1, 2, 3, 4, 5]
    assert ids_in(united, Vocabulary("xa")).tolist() == [0, 1, 3, ABSENT, ABSENT, ABSENT, 2, ABSENT]


@given(texts, st.integers(1, 4), st.sets(st.sampled_from([2, 3, 4, 5])))
@settings(deadline=None)
def test_renumbering_leaves_out_every_ngram_with_a_word_that_goes(lines, order, gone):
    trie = counted(lines, order).trie
    ids = np.array([ABSENT if word in gone else word for word in range(LETTERS.outputs)])
    ids[ids >= 0] = np.arange(LETTERS.outputs - len(gone))
    smaller, old = renumbered(trie, ids, LETTERS.outputs - len(gone))
    smaller.check()
    expected = [gram for gram in spelled(trie) if not gone & set(gram)]
    assert [tuple(trie.words_of(node)) for node in old] == expected


@given(texts, st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_counts_are_kept_exactly(lines, order):
    counts = counted(lines, order)
    arrays, metadata = to_arrays(counts)
    same(from_arrays(load(save(arrays)), json.loads(json.dumps(metadata))), counts)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("word", 3, 0),
        ("first_child", 2, 99),
        ("suffix", 12, 12),
        ("suffix", -1, 2),
        ("count", 0, 5),
        ("count", 2, 1),
        ("count", 3, 0),
        ("count", 7, 1),
        ("count", 9, 0),
        ("count", 9, 7),
        ("count", -1, -1),
        ("count", -1, 9),
    ],
)
def test_damaged_counts_are_refused(name, place, value):
    arrays, metadata = to_arrays(counted([[2, 3, 4], [2, 3]]))
    arrays = {key: array.copy() for key, array in arrays.items()}
    assert arrays[name][place] != value
    arrays[name][place] = value
    with pytest.raises(FormatError, match="damaged"):
        from_arrays(arrays, metadata)


def test_missing_cut_or_retyped_counts_are_refused():
    arrays, metadata = to_arrays(counted([[2, 3]]))
    for name, array in arrays.items():
        others = {key: value for key, value in arrays.items() if key != name}
        for bad in ({}, {name: array[:-1]}, {name: array.astype(np.int64)}, {name: array[None]}):
            with pytest.raises(FormatError, match="damaged"):
                from_arrays({**others, **bad}, metadata)
    for change in ({"tokens": 4}, {"lines": 2}, {"lines": "x"}, {"ngrams": [6, 3, 3]}, {"ngrams": None}):
        with pytest.raises(FormatError, match="damaged"):
            from_arrays(arrays, {**metadata, **change})


def test_what_does_not_belong_together_is_not_added(monkeypatch: pytest.MonkeyPatch):
    counts = counted([[2, 3]])
    with pytest.raises(MismatchError, match="order 3 and of order 2"):
        merge_counts(counts, counted([[2]], 2))
    with pytest.raises(MismatchError, match="6 and of 5 words"):
        merge_counts(counts, counted([[2]], 3, Vocabulary("abc")))
    with pytest.raises(MismatchError, match="6 words were not made for"):
        grow(counts, Vocabulary("abc"), LETTERS)
    with pytest.raises(MismatchError, match="lacks 'c'"):
        grow(counts, LETTERS, Vocabulary("abdxyz"))
    monkeypatch.setattr(merge, "LIMIT", 7)
    with pytest.raises(DataError, match="6 tokens"):
        merge_counts(counts, counts)
    with pytest.raises(DataError, match="too many for one table"):
        unite(counts.trie, counts.trie)
