"""Vocabularies from counts, inventories and files."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError, FormatError
from ostinato.core.vocabulary import Vocabulary
from ostinato.text.tokenise import BYTE_PIECES, make_tokeniser
from ostinato.text.vocabulary import from_counts, from_file, from_inventory


def counted(words: list[str], **options: int | None) -> Vocabulary:
    counts = Counter(words)  # keeps the order of first sight
    return from_counts(list(counts), np.array(list(counts.values()), np.int64), **options)


def ordinary(vocabulary: Vocabulary) -> list[str]:
    return list(vocabulary.pieces[2:-2])


def test_the_most_frequent_come_first_and_of_equals_the_first_seen():
    words = ["月", "b", "a", "a", "b", "c", "月", "d", "a"]
    assert ordinary(counted(words)) == ["a", "月", "b", "c", "d"]
    assert ordinary(counted(words, min_count=2)) == ["a", "月", "b"]
    assert ordinary(counted(words, limit=2)) == ["a", "月"]


def test_equals_keep_their_order_however_many_they_are():
    words = [f"w{number * 37 % 500}" for number in range(500)]
    assert ordinary(counted([*words, "the", "the"])) == ["the", *words]


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcdefgh月光"), min_size=1), st.integers(1, 4))
def test_exactly_the_pieces_seen_often_enough_are_known(words, min_count):
    often = {word for word, count in Counter(words).items() if count >= min_count}
    if len(often) < 2:
        with pytest.raises(DataError):
            counted(words, min_count=min_count)
    else:
        assert set(ordinary(counted(words, min_count=min_count))) == often


def test_specials_and_pieces_never_seen_are_not_listed():
    pieces, counts = ["<unk>", "a", "</s>", "b", "never"], np.array([9, 2, 3, 1, 0])
    assert ordinary(from_counts(pieces, counts)) == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "options", "fault", "message"),
    [
        (["the"] * 9, {}, DataError, "only one piece over and over"),
        ([], {}, DataError, "nothing"),
        (["a", "b", "c"], {"min_count": 2}, DataError, "0 of 3 pieces occur at least 2 times"),
        (["a", "b", "c"], {"limit": 4}, ConfigError, "only 3 distinct pieces"),
        (["a", "b", "c"], {"limit": 1}, ConfigError, "at least two"),
    ],
)
def test_a_vocabulary_the_text_cannot_give_is_refused(words, options, fault, message):
    with pytest.raises(fault, match=message):
        counted(words, **options)


def test_a_byte_vocabulary_has_all_256_whatever_the_text():
    vocabulary = from_inventory(BYTE_PIECES)
    assert vocabulary.outputs == 256 + 2
    assert vocabulary.unknown not in vocabulary.ids(make_tokeniser("byte").pieces("床前\x00\t明月 ~"))


def test_a_vocabulary_is_read_from_a_list_or_from_a_run(tmp_path):
    (tmp_path / "words.txt").write_text("<unk>\nthe \n床\n\n \nan\n", "utf8")
    vocabulary = from_file(tmp_path / "words.txt")
    assert ordinary(vocabulary) == ["the", "床", " ", "an"]
    vocabulary.save(tmp_path / "vocabulary.json")
    assert from_file(tmp_path / "vocabulary.json") == vocabulary


@pytest.mark.parametrize(
    ("name", "content", "fault", "message"),
    [
        ("w.txt", "a\nb\na\n", DataError, r"w\.txt:3: 'a' stands in line 1 too"),
        ("w.txt", "the\n", DataError, "at least two pieces, this file lists 1"),
        ("w.json", "{}", FormatError, "not a vocabulary"),
    ],
)
def test_a_list_that_is_no_vocabulary_is_refused(tmp_path, name, content, fault, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(fault, match=message):
        from_file(tmp_path / name)


@pytest.mark.parametrize("name", ["gone.txt", "gone.json"])
def test_a_missing_list_is_one_line(tmp_path, name):
    with pytest.raises(DataError, match="no such file"):
        from_file(tmp_path / name)
