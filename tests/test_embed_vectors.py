"""Word vectors as a value: what is near, analogies, words without a row, and the folder they are kept in."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError, FormatError, ShapeError, StorageError
from ostinato.embed import analogies as solving
from ostinato.embed import nearest as engine
from ostinato.embed.vectors import Vectors
from references import slow_vectors as slow


@dataclass(frozen=True)
class Letters:
    """Stands for the subwords of fastText: an n-gram is a letter, its bucket the letter's code."""

    least: int = 1
    most: int = 1
    buckets: int = 128

    def ngrams(self, word: str) -> NDArray[np.int32]:
        return np.array([ord(letter) for letter in word if letter.isalpha()], np.int32)


def some(words: int = 40, dimensions: int = 7, seed: int = 0, dtype: Any = np.float32) -> Vectors:
    rows = np.random.default_rng(seed).standard_normal((words, dimensions)).astype(dtype)
    return Vectors([f"w{place}" for place in range(words)], rows)


def with_subwords() -> Vectors:
    rows = np.arange(128 * 3, dtype=np.float32).reshape(128, 3)
    return Vectors(["ab", "c"], np.eye(2, 3, dtype=np.float32), None, Letters(), rows)  # type: ignore[arg-type]


@pytest.fixture(params=[3, 1 << 15], ids=["small blocks", "one block"])
def blocked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come a few at a time, or all together."""
    monkeypatch.setattr(engine, "LEAST", request.param)
    monkeypatch.setattr(engine, "MOST", request.param)
    monkeypatch.setattr(engine, "QUERIES", 4)
    monkeypatch.setattr(solving, "CELLS", 1)
    monkeypatch.setattr(solving, "ROWS", request.param)
    monkeypatch.setattr(solving, "QUESTIONS", 4)


@pytest.mark.usefixtures("blocked")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_nearest_words_are_those_of_the_slow_twin(dtype: Any) -> None:
    vectors = some(dtype=dtype)
    rows = vectors.array.astype(float).tolist()
    for place, near in zip(range(9), vectors.most_similar(vectors.words[:9], k=12), strict=True):
        expected = slow.nearest(rows, rows[place], without=[place])[:12]
        assert [word for word, _ in near] == [f"w{other}" for other, _ in expected]
        np.testing.assert_allclose([cosine for _, cosine in near], [cosine for _, cosine in expected], atol=1e-5)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_ties_go_to_the_lower_row_wherever_blocks_end(data: st.DataObject) -> None:
    size, k, block = (data.draw(st.integers(1, most)) for most in (24, 9, 7))
    rows = data.draw(st.lists(st.tuples(*[st.integers(-1, 1)] * 2), min_size=size, max_size=size))
    scores = np.array([[x for x, _ in rows], [y for _, y in rows]], np.float32)
    best = engine.Best.none(2, k)
    for first in range(0, size, block):
        best.offer(scores[:, first : first + block], first)
    for mine, found in zip(scores.tolist(), best.rows.tolist(), strict=True):
        expected = slow.ranked(mine, ())[:k]
        assert found == expected + [-1] * (k - len(expected))


def test_vectors_and_words_to_go_towards_or_away_from_are_queries_too() -> None:
    vectors = some()
    unit = vectors.array / np.linalg.norm(vectors.array, axis=1, keepdims=True)
    direction = unit[1] + unit[2] - unit[3]
    (mixed,) = vectors.most_similar([(["w1", "w2"], ["w3"])], k=5)
    (given_vector,) = vectors.most_similar(direction[None] * 7, k=8)
    assert mixed == [pytest.approx(pair) for pair in given_vector if pair[0] not in ("w1", "w2", "w3")][:5]
    assert vectors.most_similar([("w1", "w2")], 3) == vectors.most_similar([(["w1"], ["w2"])], 3)
    assert vectors.most_similar("w1") == vectors.most_similar(["w1"])  # not the letters of it


def test_a_query_may_keep_its_own_words_and_look_among_the_first_only() -> None:
    vectors = some()
    ((word, cosine), *_) = vectors.most_similar(["w5"], exclude=False)[0]
    assert (word, cosine) == ("w5", pytest.approx(1.0, abs=1e-6))
    near = vectors.most_similar(["w30"], k=10, restrict=6)[0]  # a word outside what is looked at
    rows = vectors.array.tolist()
    assert [word for word, _ in near] == [f"w{place}" for place, _ in slow.nearest(rows[:6], rows[30])]


def test_answers_do_not_depend_on_the_other_queries() -> None:
    vectors = some(300, 16)
    together = vectors.most_similar(vectors.words, k=3)
    for word, near in zip(vectors.words[::37], together[::37], strict=True):
        alone = vectors.most_similar([word], k=3)[0]
        assert [other for other, _ in alone] == [other for other, _ in near]


def test_a_vector_of_zeros_is_as_near_to_one_word_as_to_another() -> None:
    rows = np.array([[0, 0], [1, 0], [0, 2]], np.float32)
    vectors = Vectors(["none", "x", "y"], rows)
    assert vectors.most_similar(["none"])[0] == [("x", 0.0), ("y", 0.0)]
    assert vectors.most_similar(["x"])[0] == [("none", 0.0), ("y", 0.0)]
    assert vectors.similarity([("none", "none"), ("x", "y"), ("y", "y")]).tolist() == [0.0, 0.0, 1.0]


def test_very_large_and_very_small_numbers_have_cosines() -> None:
    vectors = Vectors(["large", "small", "turned"], np.array([[1e30, 0], [1e-30, 0], [-1e-30, 1e-30]], np.float32))
    near = dict(vectors.most_similar(["large"])[0])
    assert near == {"small": pytest.approx(1.0), "turned": pytest.approx(-(0.5**0.5))}


def test_asking_more_than_there_are_gives_all() -> None:
    assert len(some(5).most_similar(["w0"], k=50)[0]) == 4
    assert some(5).most_similar([], k=5) == []
    assert some(2).analogy("w0", "w1", "w1") == []


@pytest.mark.usefixtures("blocked")
@pytest.mark.parametrize(("method", "twin"), [("3cosadd", slow.add_scores), ("3cosmul", slow.mul_scores)])
@pytest.mark.parametrize("restrict", [None, 11])
def test_analogies_are_those_of_the_slow_twin(
    method: Any, twin: Callable[..., list[float]], restrict: int | None
) -> None:
    vectors = some(30, 5)
    rows = vectors.array.tolist()
    questions = np.random.default_rng(1).integers(0, 30, (40, 3))
    expected = [slow.ranked(twin(rows, *asked)[:restrict], asked)[0] for asked in questions.tolist()]
    asked = [[vectors.words[place] for place in question] for question in questions.tolist()]
    assert vectors.analogies(asked, method=method, restrict=restrict) == [f"w{place}" for place in expected]
    one_by_one = [vectors.analogy(*question, 1, method=method, restrict=restrict)[0][0] for question in asked]
    assert one_by_one == [f"w{place}" for place in expected]


def test_an_analogy_by_hand() -> None:
    """king - man + woman = queen: with unit rows (1, 0), (0, 1) and their sums the cosines are those of the angles."""
    rows = {"man": (1, 0, 0), "king": (1, 0, 1), "woman": (0, 1, 0), "queen": (0, 1, 1), "law": (0, 0, 1)}
    vectors = Vectors([*rows], np.array([*rows.values()], np.float32))
    (word, score), (second, _) = vectors.analogy("man", "king", "woman")
    direction = np.array([1 / 2**0.5 - 1, 1, 1 / 2**0.5])  # king / |king| - man + woman
    assert (word, second) == ("queen", "law")
    assert score == pytest.approx((direction[1] + direction[2]) / 2**0.5 / np.linalg.norm(direction))
    near, far = (1 + 1 / 2**0.5) / 2, 1 / 2  # cos' of 45 degrees and of 90
    assert vectors.analogy("man", "king", "woman", method="3cosmul")[0] == (
        "queen",
        pytest.approx((1 + 1 / 2) / 2 * near / (far + 0.001)),
    )


def test_a_question_with_an_unknown_word_has_no_answer_and_the_others_keep_theirs() -> None:
    vectors = some()
    asked = [("w1", "w2", "w3"), ("w1", "nobody", "w3"), ("w4", "w5", "w6")]
    first, unknown, last = vectors.analogies(asked)
    assert unknown is None
    assert [first, last] == vectors.analogies([asked[0], asked[2]])
    assert vectors.analogies([]) == []


def test_answers_may_run_out() -> None:
    assert some(2).analogies([("w0", "w1", "w0")]) == [None]


def test_words_outside_the_vocabulary_are_named_with_the_nearest_spelling() -> None:
    vectors = Vectors(["King", "queen"], np.eye(2, dtype=np.float32))
    assert vectors.ids(["queen", "nobody", "King"]).tolist() == [1, -1, 0]
    assert "queen" in vectors
    assert "nobody" not in vectors
    assert vectors.get("nobody") is None
    for word, hint in (("king", "King"), ("queens", "queen")):
        with pytest.raises(DataError, match=f"'{word}' is not among the 2 words .* did you mean '{hint}'"):
            vectors.most_similar([word])
    with pytest.raises(DataError, match=r"'zzzzzz' is not among the 2 words of these vectors$"):
        vectors.vector("zzzzzz")
    with pytest.raises(DataError, match="'' is not"):
        vectors.analogy("", "queen", "King")


def test_subwords_make_vectors_for_words_outside_the_vocabulary() -> None:
    """The mean of the buckets: a, b and d are 97, 98 and 100, and bucket n is (3n, 3n + 1, 3n + 2)."""
    vectors = with_subwords()
    middle = (97 + 98 + 100) / 3
    assert vectors.vector("bad").tolist() == pytest.approx([3 * middle, 3 * middle + 1, 3 * middle + 2])
    assert vectors.vector("ab").tolist() == [1, 0, 0]  # a word of the vocabulary has its row
    assert "bad" not in vectors
    assert vectors.most_similar(["bad"])[0][0][0] in ("ab", "c")
    np.testing.assert_array_equal(vectors.rows(["bad", "c"]), [vectors.vector("bad"), vectors.vector("c")])
    with pytest.raises(DataError, match="'123'"):
        vectors.vector("123")  # no n-gram to make it from


def test_what_is_given_out_is_a_copy() -> None:
    vectors = some()
    vectors.vector("w0")[:] = 0
    vectors.rows(["w0"])[:] = 0
    assert vectors.norms[0] > 0
    assert vectors.array[0].any()


def test_the_mean_of_words_gives_each_the_same_weight() -> None:
    vectors = Vectors(["long", "short"], np.array([[10, 0], [0, 1]], np.float32))
    assert vectors.mean(["long", "short"]).tolist() == [0.5, 0.5]
    assert vectors.mean(["long", "short"], normalised=False).tolist() == [5, 0.5]
    for nothing in ([], "long"):
        with pytest.raises(DataError, match="a list of at least one word"):
            vectors.mean(nothing)


@pytest.mark.parametrize(
    ("words", "rows", "more", "fault"),
    [
        (["a"], np.zeros((2, 3), np.float32), {}, "1 words need as many rows"),
        (["a"], np.zeros(3, np.float32), {}, "the array is"),
        (["a"], np.zeros((1, 3)), {}, "float32 or float16, not float64"),
        (["a"], np.zeros((1, 3), np.float32), {"counts": np.zeros(2, np.int64)}, "the counts are"),
        (["a"], np.zeros((1, 3), np.float32), {"subwords": Letters()}, "need the rows"),
        (
            ["a"],
            np.zeros((1, 3), np.float32),
            {"subwords": Letters(), "subword_array": np.zeros((5, 3), np.float32)},
            r"\(5, 3\), not \(128, 3\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(words: list[str], rows: Any, more: dict[str, Any], fault: str) -> None:
    with pytest.raises(ShapeError, match=fault):
        Vectors(words, rows, **more)


def test_a_repeated_word_no_word_and_what_is_not_a_number_are_refused_by_name() -> None:
    with pytest.raises(DataError, match="'a' has two vectors"):
        Vectors(["a", "b", "a"], np.zeros((3, 2), np.float32))
    with pytest.raises(DataError, match="there is no word"):
        Vectors([], np.zeros((0, 2), np.float32))
    broken = Vectors(["a", "b"], np.array([[1, 2], [np.nan, 1]], np.float32))
    with pytest.raises(DataError, match=r"vector of 'b' .* not finite"):
        broken.most_similar(["a"])


def test_questions_that_are_none_are_refused() -> None:
    vectors = some()
    with pytest.raises(DataError, match="three words"):
        vectors.analogies([("w1", "w2")])
    with pytest.raises(ConfigError, match=r"unknown analogy method '3cosad'; did you mean '3cosadd'"):
        vectors.analogies([("w1", "w2", "w3")], method="3cosad")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        vectors.most_similar(["w1"], k=0)
    with pytest.raises(ConfigError, match="restrict must be at least 1, got 0"):
        vectors.analogies([("w1", "w2", "w3")], restrict=0)
    with pytest.raises(ShapeError, match=r"\[Q, 7\], got \(1, 3\)"):
        vectors.most_similar(np.zeros((1, 3)))
    with pytest.raises(ConfigError, match="a query is a word or a pair"):
        vectors.most_similar([["w1", "w2"]])  # type: ignore[list-item]


def test_the_first_words_alone_are_vectors_too() -> None:
    vectors = Vectors(["a", "b", "c"], np.eye(3, dtype=np.float32), np.array([5, 3, 1]))
    top = vectors.top(2)
    assert (top.words, top.counts.tolist() if top.counts is not None else None) == (("a", "b"), [5, 3])
    assert np.shares_memory(top.array, vectors.array)
    assert len(vectors.top(50)) == 3


def test_a_memory_mapped_array_is_read_in_blocks_and_never_copied_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LEAST", 256)
    monkeypatch.setattr(engine, "MOST", 256)
    monkeypatch.setattr(engine, "CELLS", 1 << 12)
    some(20_000, 64, dtype=np.float16).save(tmp_path / "v")
    vectors = Vectors.load(tmp_path / "v")
    assert isinstance(vectors.array, np.memmap)
    whole = 20_000 * 64 * 2
    tracemalloc.start()
    vectors.most_similar(["w0", "w1"], k=3)
    vectors.analogy("w0", "w1", "w2")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < whole / 2
    assert isinstance(vectors.top(10).array, np.memmap)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_saving_and_loading_gives_the_same_numbers(tmp_path: Path, dtype: Any) -> None:
    rows = np.random.default_rng(0).standard_normal((3, 4)).astype(dtype)
    vectors = Vectors(["naïve", "中文", "a b\n\udc80"], rows, np.array([7, 5, 2]))
    vectors.save(tmp_path / "v")
    again = Vectors.load(tmp_path / "v")
    assert again.words == vectors.words
    assert (again.array.dtype, again.array.tobytes()) == (rows.dtype, rows.tobytes())
    assert again.counts is not None
    assert again.counts.tolist() == [7, 5, 2]
    assert again.fingerprint == vectors.fingerprint
    assert not list((tmp_path / "v").glob("*.part"))


def test_subwords_are_saved_too(tmp_path: Path) -> None:
    from ostinato.embed.subwords import Subwords

    rows = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    vectors = Vectors(["ab", "c"], np.eye(2, 3, dtype=np.float32), None, Subwords(2, 3, 50), rows)
    vectors.save(tmp_path / "v", output=np.ones((2, 3), np.float32))
    again = Vectors.load(tmp_path / "v")
    assert again.subwords == Subwords(2, 3, 50)
    np.testing.assert_array_equal(again.vector("unseen"), vectors.vector("unseen"))
    assert Vectors.load(tmp_path / "v", "output").get("unseen") is None  # n-grams have no output vectors


def test_the_output_vectors_and_the_mean_of_both_can_be_asked_for(tmp_path: Path) -> None:
    read, predicted = some(seed=1), some(seed=2)
    read.save(tmp_path / "v", output=predicted.array)
    assert Vectors.load(tmp_path / "v", "output").array.tobytes() == predicted.array.tobytes()
    np.testing.assert_array_equal(Vectors.load(tmp_path / "v", "mean").array, (read.array + predicted.array) / 2)
    read.save(tmp_path / "alone")
    with pytest.raises(FormatError, match=r"output\.npy: missing"):
        Vectors.load(tmp_path / "alone", "output")
    with pytest.raises(ShapeError, match="the output matrix is"):
        read.save(tmp_path / "other", output=np.zeros((1, 1), np.float32))


def test_float16_keeps_three_digits_and_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    vectors = some()
    vectors.save(tmp_path / "half", np.float16)
    again = Vectors.load(tmp_path / "half")
    assert again.array.dtype == np.float16
    np.testing.assert_allclose(again.array.astype(np.float32), vectors.array, rtol=1e-3, atol=1e-4)
    large = Vectors(["a", "b"], np.array([[1, 2], [3, 70_000]], np.float32))
    with pytest.raises(DataError, match=r"row 1 .* float16 cannot hold"):
        large.save(tmp_path / "large", np.float16)
    with pytest.raises(ConfigError, match="float32 or float16, not float64"):
        vectors.save(tmp_path / "large", np.float64)


def test_vectors_are_replaced_only_if_told_and_nothing_of_the_old_ones_stays(tmp_path: Path) -> None:
    some(seed=1).save(tmp_path / "v", output=some(seed=2).array)
    with pytest.raises(StorageError, match="holds vectors already"):
        some().save(tmp_path / "v")
    Vectors.load(tmp_path / "v").top(3).save(tmp_path / "v", force=True)  # the array being written is mapped
    assert len(Vectors.load(tmp_path / "v")) == 3
    assert not (tmp_path / "v" / "output.npy").exists()


def damage(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    facts = json.loads(path.read_text("utf8"))
    change(facts)
    path.write_text(json.dumps(facts), "utf8")


@pytest.mark.parametrize(
    ("name", "change", "fault"),
    [
        ("words.json", lambda facts: facts.pop("words"), "not the words of vectors"),
        ("words.json", lambda facts: facts.update(words=3), "not the words of vectors"),
        ("words.json", lambda facts: facts["words"].reverse(), "do not match their fingerprint"),
        ("words.json", lambda facts: facts["counts"].pop(), "40 words but 39 counts"),
        ("words.json", lambda facts: facts.update(counts=["x"] * 40), "not the words of vectors"),
        ("words.json", lambda facts: facts.update(format=2), "newer Ostinato"),
        ("words.json", lambda facts: facts.update(dimensions=8), r"the shape is \(40, 7\)"),
    ],
)
def test_words_that_were_changed_are_refused_with_their_path(
    tmp_path: Path, name: str, change: Callable[[dict[str, Any]], None], fault: str
) -> None:
    vectors = some()
    Vectors(vectors.words, vectors.array, np.arange(40)).save(tmp_path / "v")
    damage(tmp_path / "v" / name, change)
    with pytest.raises(FormatError, match=fault) as caught:
        Vectors.load(tmp_path / "v")
    assert str(tmp_path / "v") in str(caught.value)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 40 * 7 * 4 + 127))
def test_an_array_cut_anywhere_is_refused_with_its_path(tmp_path_factory: pytest.TempPathFactory, size: int) -> None:
    home = tmp_path_factory.mktemp("cut")
    some().save(home)
    path = home / "vectors.npy"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(FormatError, match=r"vectors\.npy: damaged or cut short"):
        Vectors.load(home)


def test_other_arrays_and_none_are_refused(tmp_path: Path) -> None:
    home = tmp_path / "v"
    some().save(home)
    np.save(home / "vectors.npy", np.zeros((40, 7)))
    with pytest.raises(FormatError, match="not a matrix of float32 or float16"):
        Vectors.load(home)
    np.save(home / "vectors.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(FormatError, match=r"vectors\.npy: damaged"):
        Vectors.load(home)
    (home / "vectors.npy").unlink()
    with pytest.raises(FormatError, match=r"vectors\.npy: missing"):
        Vectors.load(home)
    with pytest.raises(FormatError, match=r"words\.json: missing"):
        Vectors.load(tmp_path / "nowhere")
