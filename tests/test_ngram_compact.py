"""The compact table: its bits against a slow reader, what it keeps of the table it is made of, and damage."""

from __future__ import annotations

import gzip
import math
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compact_toys import LETTERS, LINES, MODELS, compact, fitted, stream
from ostinato.core.errors import FormatError
from ostinato.core.vocabulary import Vocabulary
from ostinato.kernels import bits as kernel
from ostinato.ngram.compact import CompactTable
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.counts import count
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.table import BackoffTable
from ostinato.ngram.table_model import NGramState
from references.compact import decode, katz

texts = st.lists(st.lists(st.sampled_from([0, 2, 3, 4]), max_size=7), min_size=1, max_size=12)


def test_the_bits_of_a_small_table_by_hand():
    """Order 2 of "a": words <unk>, </s>, a, <s>; bigrams a</s> and <s>a.

    Nodes 0; 1 to 4 the words; 5 a</s>; 6 <s>a. Contexts are nodes 0, 3 (a) and 4 (<s>): bits 1 0 0 1 1.
    Children: 0 1, then 0000 1 for node 0, 0 1 for a, 0 1 for <s>.
    Records: a word of 3 takes 2 bits, above 8 of code: </s> is 1, a is 2. With two different log-probs the
    codes are 0 for the smaller; KneserNey(0.5): p(</s> | a) = 1/2 + 1/2 p(</s>), p(a | <s>) = 1/2 + 1/2 p(a),
    and p(</s>) = p(a), as each follows one word. So there is one log-prob, of code 0.
    """
    table = smoothings["kneser-ney"](discount=0.5).fit(count(np.array([2, 1]), Vocabulary("a"), 2))
    small = CompactTable.from_table(table)
    assert small.part("contexts")[0] == 0b11001
    assert small.part("children")[0] == 0b10_10_10000_10
    assert small.part("records")[0] == 1 << 8 | (2 << 8) << 10
    assert small.part("prob_book").tolist() == pytest.approx([math.log(0.5 + 0.5 * (0.25 + 0.5 / 3))])
    assert small.part("contexts_rank").tolist() == [0, 3]
    assert small.part("children_hint").tolist() == [1, 10]
    assert (small.nodes, small.inner, small.parameters, small.sentence_start) == (7, 5, 3 + 2 + 2, 4)


@given(texts, st.integers(1, 4), st.integers(4, 8), st.sampled_from(sorted(smoothings)))
@settings(deadline=None, max_examples=60)
def test_a_table_reads_as_its_format_says_and_sums_to_one(lines, order, prob_bits, name):
    """Against the slow reader: every context of up to three ids, every word; and the expanded table, exactly."""
    ids = np.array([word for line in lines for word in [*line, LETTERS.stop]], np.int64)
    table = smoothings[name]().fit(count(ids, LETTERS, order))
    small = CompactTable.from_table(table, prob_bits)
    small.check()
    model = CompactModel(small, LETTERS)
    expanded = NGramModel(small.expand(), LETTERS)
    held = decode(small.arrays(), small.metadata())
    assert set(held[0]) == {tuple(table.trie().words_of(node)) for node in range(1, table.nodes)}
    contexts = np.array(list(product([0, 2, 3, LETTERS.start], repeat=3)))
    state, other = model.init_state(len(contexts)), expanded.init_state(len(contexts))
    for tokens in contexts.T:
        found, state = model.step(state, tokens)
        exact, other = expanded.step(other, tokens)
    np.testing.assert_array_equal(found, exact)
    for context, row in zip(contexts.tolist(), found, strict=True):
        begin = 3 - context[::-1].index(LETTERS.start) - 1 if LETTERS.start in context else 0
        kept = tuple(context[begin:][-(order - 1) :]) if order > 1 else ()
        expected = [katz(*held, kept, word) for word in range(LETTERS.outputs)]
        np.testing.assert_allclose(row, expected, rtol=1e-6, atol=1e-6)
    if table.normalised:
        np.testing.assert_allclose(np.exp(found.astype(np.float64)).sum(axis=1), 1, atol=1e-4)


def test_a_table_of_few_numbers_is_kept_exactly():
    table = fitted(3)
    small = CompactTable.from_table(table)
    again = small.expand()
    trie, links = table.trie(), again.trie()
    for name in ("word", "first_child", "suffix"):
        np.testing.assert_array_equal(getattr(links, name), getattr(trie, name))
    np.testing.assert_array_equal(again.log_prob()[1:], table.log_prob()[1:])
    np.testing.assert_allclose(again.log_backoff(), table.log_backoff(), rtol=0, atol=2e-6)
    for name in ("ngrams", "smoothing", "normalised", "discounts", "notes", "parameters"):
        assert getattr(again, name) == getattr(small, name) == getattr(table, name)


@given(st.data())
@settings(deadline=None, max_examples=50)
def test_pruned_n_grams_and_back_offs_without_children_are_read_right(data):
    """Suffixes that are gone, contexts never continued that have a back-off, sums that are not one: all kept."""
    whole = fitted(4, "witten-bell")
    trie = whole.trie()
    keep = np.ones(trie.nodes, np.bool_)
    for node in data.draw(st.lists(st.integers(1, trie.nodes - 1), max_size=12)):
        keep[node] = False
    for order in range(2, 5):
        keep[trie.level(order)] &= keep[trie.parents(order)]
    pruned = whole.select(keep)
    backoffs = pruned.log_backoff()
    inner = st.integers(1, len(backoffs) - 1)
    for node, value in data.draw(st.lists(st.tuples(inner, st.floats(-3, 0, width=32)), max_size=4)):
        backoffs[node] = value
    table = BackoffTable.build(pruned.trie(), pruned.log_prob(), backoffs, "witten-bell")
    model = CompactModel(CompactTable.from_table(table, 16), LETTERS)
    model.table.check()
    exact = NGramModel(table, LETTERS)
    ids = stream(LINES)[None]
    fast, end = model.score(model.init_state(1), ids, ids)
    slow, _ = exact.score(exact.init_state(1), ids, ids)
    np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-4)
    assert model.table.is_state(end.node)


def test_zero_probabilities_stay_where_codes_suffice():
    ids = stream(["a b", "a b"])
    model = CompactModel(CompactTable.from_table(smoothings["mle"]().fit(count(ids, LETTERS, 3))), LETTERS)
    log_probs, _ = model.step(model.init_state(1), np.array([LETTERS.start]))
    assert np.exp(log_probs).tolist() == [[0, 0, 1, 0, 0]]


# damage


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_a_changed_number_is_refused_or_harmless(data):
    """Whatever is changed: an error of ours, or a table that can still be walked everywhere."""
    model = MODELS["rounded"]
    arrays = {name: array.copy() for name, array in model.arrays().items()}
    name = data.draw(st.sampled_from(["packed", "packed", "counts", "logs"]))
    place = data.draw(st.integers(0, len(arrays[name]) - 1))
    whole = arrays[name].view(np.uint64 if name == "packed" else np.uint32)
    whole[place] ^= whole.dtype.type(1 << data.draw(st.integers(0, 8 * whole.itemsize - 1)))
    try:
        table = CompactTable.from_arrays(arrays, model.metadata())
    except FormatError:
        return
    assert name != "counts" or place >= model.table.shape.parts["counts"]["scaled"].start
    walked = CompactModel(table, LETTERS)
    nodes = NGramState(np.arange(table.inner))
    for token in range(LETTERS.pad + 1):
        log_probs, after = walked.step(nodes, np.full(table.inner, token))
        assert not np.isnan(log_probs).any()
        assert table.is_state(after.node)


def damage(name: str, change: Any) -> CompactTable:
    """The rounded table with one part changed in place, unchecked."""
    table = MODELS["rounded"].table
    arrays = {key: array.copy() for key, array in table.arrays().items()}
    array = next(key for key, parts in table.shape.parts.items() if name in parts)
    change(arrays[array][table.shape.parts[array][name]])
    return CompactTable.from_arrays(arrays, table.metadata(), check=False)


def put(width: int, place: int, change: Any) -> Any:
    """Change one of the numbers that are packed so wide."""

    def changed(packed: np.ndarray) -> None:
        numbers = [kernel.take(packed, 0, width, at) for at in range(64 * (len(packed) - 1) // width)]
        numbers[place] = change(numbers[place])
        packed[:] = 0
        kernel.pack(np.array(numbers), width, packed)

    return changed


def flip(*places: int) -> Any:
    """Change single bits."""

    def changed(packed: np.ndarray) -> None:
        for place in places:
            packed[place >> 6] ^= np.uint64(1 << (place & 63))

    return changed


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("records", put(7, 5, lambda record: record | 7 << 4), "words reach"),
        ("records", put(7, 1, lambda record: record & 15), "not sorted"),
        ("records", put(7, 3, lambda record: record | 15), "no number of its book"),
        ("backoffs", put(16, 3, lambda _: 200), "no number of its book"),
        ("contexts", flip(2), "contexts are not"),
        ("contexts", flip(0, 1), "contexts are not"),
        ("contexts", flip(255), "after their end"),
        ("children", flip(2), "do not add up"),
        ("children", flip(0, 1), "do not add up"),
        ("children", flip(7, 8), "not those of the next order"),
        ("children_rank", lambda counts: counts.__setitem__(0, 1), "not what it should be"),
        ("children_hint", lambda counts: counts.__setitem__(-1, 1), "not what it should be"),
        ("prob_begin", lambda counts: counts.__setitem__(1, 1), "not what it should be"),
        ("scaled", lambda counts: counts.__setitem__(0, 0), "scaled contexts"),
        ("scaled", lambda counts: counts.__setitem__(0, counts[1]), "scaled contexts"),
        ("scaled", lambda counts: counts.__setitem__(-1, MODELS["rounded"].table.shape.contexts), "scaled contexts"),
        ("scale", lambda logs: logs.__setitem__(0, -np.inf), "infinite"),
        ("unigrams", lambda logs: logs.__setitem__(2, np.nan), "infinite"),
        ("backoff_book", lambda logs: logs.__setitem__(2, np.inf), "infinite"),
    ],
)
def test_every_kind_of_damage_is_refused(name, change, message):
    with pytest.raises(FormatError, match=message):
        damage(name, change).check()


@pytest.mark.parametrize(
    "change",
    [
        {"order": 3},
        {"ngrams": [6, 12, 17]},
        {"ngrams": [6, -1, 17, 20]},
        {"ngrams": "nonsense"},
        {"ngrams": []},
        {"ngrams": None},
        {"contexts": 0},
        {"contexts": 10**9},
        {"prob_bits": 3},
        {"backoff_bits": 17},
        {"prob_sizes": [0, 1, 1, 1]},
        {"prob_sizes": [1, 9, 9, 9]},
        {"backoff_sizes": [1, 1]},
        {"backoff_sizes": [1, 10**6, 1, 1]},
        {"scales": -1},
        {"scales": 5},
        {"discounts": 3},
        {"notes": None},
    ],
)
def test_damaged_metadata_is_refused(change: dict[str, Any]):
    model = MODELS["rounded"]
    with pytest.raises(FormatError, match="not a valid back-off table"):
        CompactTable.from_arrays(model.arrays(), {**model.metadata(), **change})


def test_missing_cut_or_retyped_arrays_are_refused():
    model = compact()
    whole = model.arrays()
    for name, array in whole.items():
        others = {key: value for key, value in whole.items() if key != name}
        for bad in ({}, {name: array[:-1]}, {name: array.astype(np.float64)}, {name: array[None]}):
            with pytest.raises(FormatError, match="not a valid back-off table"):
                CompactTable.from_arrays({**others, **bad}, model.metadata())


# real text


def lines_of(path: Path) -> list[list[str]]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf8")
    return [line.split() for line in text.split("\n") if line.strip()]


def test_the_state_of_the_union_in_five_bytes_an_n_gram(shared: Path):
    """Order 5: at most 5.4 bytes an n-gram, perplexity within 0.5 % of the exact model's, sums within 1e-4."""
    train = lines_of(shared / "lm-sotu" / "train.txt.gz")
    seen = Counter(word for line in train for word in line)
    vocabulary = Vocabulary(sorted(word for word, times in seen.items() if times >= 3))
    train_ids, ids = (
        np.concatenate([[*vocabulary.ids(line), vocabulary.stop] for line in lines])
        for lines in (train, lines_of(shared / "lm-sotu" / "valid.txt"))
    )
    table = smoothings["modified-kneser-ney"]().fit(count(train_ids, vocabulary, 5))
    small = CompactTable.from_table(table)
    assert small.nbytes / sum(small.ngrams) < 5.4
    inputs = np.concatenate(([vocabulary.start], ids[:-1]))
    perplexities = []
    for model in (NGramModel(table, vocabulary), CompactModel(small, vocabulary)):
        log_probs, state = model.score(model.init_state(1), inputs[None], ids[None])
        perplexities.append(math.exp(-log_probs.mean(dtype=np.float64)))
    assert perplexities[1] == pytest.approx(perplexities[0], rel=0.005)
    state = model.init_state(1)
    for token in inputs[:200]:
        log_probs, state = model.step(state, np.array([token]))
        assert abs(np.exp(log_probs.astype(np.float64)).sum() - 1) < 1e-4
