"""Tagging schemes: conversion, spans as conlleval, seqeval and hand arithmetic give them, allowed transitions."""

from __future__ import annotations

import doctest
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError
from ostinato.text import columns, labelled, schemes, segmented
from ostinato.text.schemes import (
    Span,
    check_scheme,
    convert,
    found_scheme,
    parse,
    spans,
    strange_tags,
    transitions,
    well_formed,
    written,
)

SPANNING = ["iob1", "bio", "bioes", "bilou", "bmes"]
LETTERS = {"iob1": "BI", "bio": "BI", "bioes": "BIES", "bilou": "BILU", "bmes": "BMES"}
SEQEVAL = {"iob1": "IOB1", "bio": "IOB2", "bioes": "IOBES", "bilou": "BILOU"}


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[Span], int]:
    """Spans that do not overlap, and how many words there are."""
    found, at = [], 0
    for gap, size, label in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(["PER", "B-x", "LOC"])), max_size=6)
    ):
        found.append(Span(at + gap, at + gap + size, label))
        at += gap + size
    return found, at + draw(st.integers(0, 2))


def tags_of(scheme: str, labels: tuple[str, ...] = ("PER", "LOC")) -> list[str]:
    return ["O", *(f"{letter}-{label}" for letter in LETTERS[scheme] for label in labels)]


def any_tags(scheme: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(tags_of(scheme)), max_size=8)


@pytest.mark.parametrize("scheme", SPANNING)
@given(sentences())
def test_spans_written_as_tags_are_read_back_by_both_rules(scheme, given_spans):
    found, length = given_spans
    tags = written(found, length, scheme)
    assert spans(tags, scheme) == spans(tags, scheme, strict=True) == found
    assert well_formed(tags, scheme)


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(SPANNING, 2)))
@settings(max_examples=20)
@given(sentences())
def test_a_scheme_converts_to_another_and_back(source, target, given_spans):
    tags = written(*given_spans, source)
    assert convert(convert(tags, source, target), target, source) == tags


def test_each_scheme_writes_the_same_three_spans_by_hand():
    found = [Span(0, 3, "X"), Span(3, 4, "X"), Span(5, 7, "Y")]
    assert written(found, 8, "bio") == ["B-X", "I-X", "I-X", "B-X", "O", "B-Y", "I-Y", "O"]
    assert written(found, 8, "iob1") == ["I-X", "I-X", "I-X", "B-X", "O", "I-Y", "I-Y", "O"]
    assert written(found, 8, "bioes") == ["B-X", "I-X", "E-X", "S-X", "O", "B-Y", "E-Y", "O"]
    assert written(found, 8, "bilou") == ["B-X", "I-X", "L-X", "U-X", "O", "B-Y", "L-Y", "O"]
    assert written(found, 8, "bmes") == ["B-X", "M-X", "E-X", "S-X", "O", "B-Y", "E-Y", "O"]


def test_tags_without_a_label_are_spans_too():
    assert spans(list("BMESS"), "bmes") == [Span(0, 3, ""), Span(3, 4, ""), Span(4, 5, "")]
    assert written([Span(0, 2, ""), Span(2, 3, "")], 4, "bio") == ["B", "I", "B", "O"]


@pytest.fixture(scope="module")
def seqeval() -> tuple[Any, Any]:
    """The modules with its lenient and its strict rules, imported before any clock runs."""
    return pytest.importorskip("seqeval.metrics.sequence_labeling"), pytest.importorskip("seqeval.scheme")


@pytest.mark.parametrize("scheme", ["iob1", "bio", "bioes"])
@given(data=st.data())
def test_lenient_spans_are_those_of_seqeval_by_default(seqeval, scheme, data):
    tags = data.draw(any_tags(scheme))
    theirs = [Span(start, end + 1, label) for label, start, end in seqeval[0].get_entities(tags)]
    assert spans(tags, scheme) == theirs


@pytest.mark.parametrize("scheme", ["bio", "bioes", "bilou"])
@given(data=st.data())
def test_strict_spans_are_those_of_seqeval_in_strict_mode(seqeval, scheme, data):
    module = seqeval[1]
    tags = data.draw(any_tags(scheme))
    theirs = [
        Span(found.start, found.end, found.tag)
        for found in module.Tokens(tags, getattr(module, SEQEVAL[scheme])).entities
    ]
    assert spans(tags, scheme, strict=True) == theirs


def test_a_b_that_touches_nothing_is_no_span_of_strict_iob1():
    assert spans(["B-X", "I-X", "O", "I-Y"], "iob1", strict=True) == [Span(3, 4, "Y")]
    assert len(spans(["B-X", "I-X", "O", "I-Y"], "iob1")) == 2


@pytest.mark.parametrize("scheme", ["bilou", "bmes"])
@given(data=st.data())
def test_other_letters_mean_what_those_of_bioes_mean(scheme, data):
    tags = data.draw(any_tags("bioes"))
    spelled = str.maketrans("BIES", LETTERS[scheme])
    other = [tag[0].translate(spelled) + tag[1:] for tag in tags]
    for strict in (False, True):
        assert spans(other, scheme, strict) == spans(tags, "bioes", strict)


@pytest.mark.parametrize("scheme", SPANNING)
def test_transitions_allow_exactly_what_is_well_formed(scheme):
    """By enumeration: a sequence is allowed if and only if writing its spans again gives it."""
    tags = tags_of(scheme)
    allowed = transitions(tags, scheme)
    for length in (1, 2, 3):
        for path in itertools.product(range(len(tags)), repeat=length):
            steps = all(allowed.after[i, j] for i, j in itertools.pairwise(path))
            permitted = bool(allowed.first[path[0]] and steps and allowed.last[path[-1]])
            sequence = [tags[i] for i in path]
            assert permitted == well_formed(sequence, scheme), sequence
            assert permitted == (written(spans(sequence, scheme), length, scheme) == sequence), sequence


def test_transitions_of_bio_by_hand():
    allowed = transitions(["O", "B-X", "I-X", "B-Y", "I-Y"], "bio")
    # rows from, columns to: I-X may only follow B-X and I-X, I-Y only B-Y and I-Y
    np.testing.assert_array_equal(allowed.after[:, 2], [False, True, True, False, False])
    np.testing.assert_array_equal(allowed.after[:, 4], [False, False, False, True, True])
    np.testing.assert_array_equal(allowed.first, [True, True, False, True, False])
    assert allowed.after[:, [0, 1, 3]].all()
    assert allowed.last.all()


def test_plain_labels_may_follow_each_other_in_any_order():
    allowed = transitions(["NOUN", "VERB"], "none")
    assert allowed.after.all()
    assert allowed.first.all()
    assert allowed.last.all()
    assert transitions([], "bio").after.shape == (0, 0)


@pytest.mark.parametrize("scheme", SPANNING)
@given(data=st.data())
def test_ill_formed_tags_are_mended_by_converting_them(scheme, data):
    tags = data.draw(any_tags(scheme))
    mended = convert(tags, scheme, scheme)
    assert well_formed(mended, scheme)
    assert (mended == tags) == well_formed(tags, scheme)


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ([["B-X", "I-X"], ["O", "B-Y"]], "bio"),
        ([["O", "I-X", "B-X"]], "iob1"),
        ([["O", "I-X", "O", "B-X"]], "bio"),  # ill-formed in both: B touches nothing
        ([["B-X", "E-X", "O"]], "bioes"),
        ([["S-X"], ["O", "B-X", "I-X", "E-X"]], "bioes"),
        ([["U-X", "O", "B-X", "I-X", "L-X"]], "bilou"),
        ([["B", "M", "E", "S"]], "bmes"),
        ([["B", "E", "S"]], "bmes"),
        ([["B-X", "M-X", "E-X", "O"]], "bmes"),
        ([["NOUN", "O"]], "none"),
        ([["B-X", "X"]], "none"),
        ([["O", "O"]], "none"),
        ([], "none"),
    ],
)
def test_the_scheme_is_found_by_its_letters(tags, scheme):
    assert found_scheme(tags) == scheme


@pytest.mark.parametrize("tag", ["", "B-", "PER", "X-PER", "E-PER", "-PER", "O-PER", "BB-PER"])
def test_a_tag_the_scheme_does_not_have_stands_outside_and_can_be_named(tag):
    assert parse(tag, "bio") is None
    assert spans(["B-PER", tag, "I-PER"], "bio") == [Span(0, 1, "PER"), Span(2, 3, "PER")]
    assert list(strange_tags(["O", tag], "bio")) == [tag]
    assert not well_formed([tag], "bio")
    with pytest.raises(ConfigError, match="no tag of the scheme bio"):
        transitions(["O", tag], "bio")


def test_schemes_have_other_names_and_a_wrong_one_is_named():
    assert check_scheme("IOB2") == "bio"
    assert check_scheme("iobes") == "bioes"
    with pytest.raises(ConfigError, match="did you mean 'bioes'"):
        check_scheme("bioess")
    with pytest.raises(ConfigError, match="mean no spans"):
        spans(["NOUN"], "none")


@pytest.mark.parametrize("module", [columns, labelled, schemes, segmented])
def test_the_examples_of_the_formats_are_right(module):
    assert doctest.testmod(module).failed == 0
