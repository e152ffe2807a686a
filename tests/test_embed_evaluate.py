"""Judging word vectors: files are read as they are found, and the numbers are those of gensim, SciPy and by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError
from ostinato.embed.benchmarks import Analogies, Pairs, read_benchmark, read_pairs
from ostinato.embed.evaluate import (
    AnalogyScore,
    SimilarityScore,
    analogies,
    evaluate,
    pearson,
    ranks,
    similarity,
    spearman,
)
from ostinato.embed.vectors import Vectors

NUMBERS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=30)


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf8")
    return path


def pairs_of(path: Path) -> list[tuple[str, str, float]]:
    found = read_benchmark(path)
    assert isinstance(found, Pairs)
    return [(*pair, score) for pair, score in zip(found.pairs, found.scores.tolist(), strict=True)]


@pytest.mark.parametrize(
    "text",
    [
        "tiger\tcat\t7.35\nbook\tpaper\t7.46\n",
        "# of people\ntiger cat 7.35\n\nbook   paper 7.46",
        "Word 1,Word 2,Human (mean)\r\ntiger,cat,7.35\r\nbook,paper,7.46\r\n",
        "word1;word2;score\ntiger;cat;7.35\nbook;paper;7.46\n",
        "word1\tword2\tPOS\tSimLex999\ntiger\tcat\tN\t7.35\t1.5\nbook\tpaper\tN\t7.46\t2\n",  # SimLex-999
        "tiger\tcat\t7.35\t8\t7\t7\nbook\tpaper\t7.46\t1\t2\t3\n",  # RW: the mean, then what each person said
        'tiger,"cat",7.35\n"book",paper,7.46\n',
        "\ufefftiger\tcat\t7.35\nbook\tpaper\t7.46\n",
    ],
)
def test_pairs_are_read_however_they_are_written(tmp_path: Path, text: str) -> None:
    assert pairs_of(written(tmp_path / "pairs", text)) == [("tiger", "cat", 7.35), ("book", "paper", 7.46)]


def test_words_with_blanks_stand_between_tabs_or_commas(tmp_path: Path) -> None:
    expected = [("New York", "Big Apple", 9.0)]
    assert pairs_of(written(tmp_path / "tabs", "New York\tBig Apple\t9\n")) == expected
    assert pairs_of(written(tmp_path / "commas", '"New York",Big Apple,9\n')) == expected


def test_analogies_are_found_out_with_sections_or_without(tmp_path: Path) -> None:
    text = ": family\nboy girl man woman\n\n: gram1\nbig bigger fast faster\n: family\nhe she king queen\n"
    assert read_benchmark(written(tmp_path / "a", text)) == Analogies(
        str(tmp_path / "a"),
        (
            ("family", (("boy", "girl", "man", "woman"), ("he", "she", "king", "queen"))),
            ("gram1", (("big", "bigger", "fast", "faster"),)),
        ),
    )
    plain = read_benchmark(written(tmp_path / "b", "boy girl man woman\nhe she king queen\n"))
    assert isinstance(plain, Analogies)
    assert [(name, len(questions)) for name, questions in plain.sections] == [("all", 2)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "empty"),
        ("# nothing\n\n", "empty"),
        ("a b 1\n\nc d\n", ":3: two words and a score are expected, got 'c d'"),
        ("a\tb\t1\nc\td\thigh\n", ":2: two words and a score"),
        ("a\tb\t1\n\td\t2\n", ":2: two words and a score"),
        ("a b nan\nc d e\n", ":2: two words and a score"),  # the first is taken for a header
        ("a b\n", ":1: two words and a score"),
        ("word1 word2 score\n", "no other line is there"),
        (": x\na b c d\na b c\n", ":3: an analogy has four words, got 'a b c'"),
        ("a b c d\na b c d\na b c d e\n", ":3: an analogy has four words"),
        (": x\n: y\n", "no analogies in it"),
    ],
)
def test_ill_formed_lines_are_refused_with_file_and_line(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(DataError) as caught:
        read_benchmark(written(tmp_path / "bad", text))
    assert f"{tmp_path / 'bad'}" in str(caught.value)
    assert fault in str(caught.value)


def test_bytes_that_are_not_utf8_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"a b 1\nna\xefve c 2\n")
    with pytest.raises(DataError, match="latin:2: byte 3"):
        read_benchmark(tmp_path / "latin")
    with pytest.raises(DataError, match="no such file"):
        read_benchmark(tmp_path / "nowhere")


def test_pairs_to_be_asked_need_no_score(tmp_path: Path) -> None:
    assert list(read_pairs(written(tmp_path / "a", "a b\n\nc d 3\n"))) == [("a", "b"), ("c", "d")]
    assert list(read_pairs(written(tmp_path / "b", "New York\tParis\n"))) == [("New York", "Paris")]
    with pytest.raises(DataError, match="c:2: a pair is two words, got 'd'"):
        list(read_pairs(written(tmp_path / "c", "a b\nd\n")))


def test_equal_numbers_share_the_mean_of_their_ranks() -> None:
    assert ranks(np.array([10, 20, 20, 5, 20])).tolist() == [2, 4, 4, 1, 4]
    left, right = np.array([1, 2, 3, 4]), np.array([1, 3, 2, 4])
    assert spearman(left, right) == pytest.approx(1 - 6 * (0 + 1 + 1 + 0) / (4 * (4**2 - 1)))
    assert math.isnan(spearman(np.array([1, 1]), np.array([1, 2])))
    assert math.isnan(spearman(np.array([1]), np.array([2])))


@settings(max_examples=60, deadline=None)
@given(NUMBERS)
def test_correlations_are_those_of_scipy(numbers: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    left, right = np.array(numbers, float).T
    if min(np.ptp(left), np.ptp(right)) == 0:
        assert math.isnan(spearman(left, right))
        assert math.isnan(pearson(left, right))
    else:
        assert spearman(left, right) == pytest.approx(stats.spearmanr(left, right).statistic, abs=1e-12)
        assert pearson(left, right) == pytest.approx(stats.pearsonr(left, right).statistic, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(NUMBERS, st.floats(0.1, 10), st.integers(-5, 5))
def test_a_correlation_does_not_change_with_unit_and_zero_and_spearman_with_nothing_that_grows(
    numbers: list[tuple[int, int]], unit: float, zero: int
) -> None:
    left, right = np.array(numbers, float).T
    before = pearson(left, right), spearman(left, right)
    after = pearson(left * unit + zero, right), spearman(np.exp(left), right)
    assert after == pytest.approx(before, abs=1e-9, nan_ok=True)
    assert all(math.isnan(value) or abs(value) <= 1 + 1e-12 for value in before)


def family() -> Vectors:
    rows = {
        "man": (1, 0, 0), "king": (1, 0, 1), "woman": (0, 1, 0), "queen": (0, 1, 1), "King": (1, 0.1, 1),
        "law": (0, 0, 1), "QUEEN": (0, 1, 1.01),
    }  # fmt: skip
    return Vectors([*rows], np.array([*rows.values()], np.float32))


def test_analogies_count_what_is_answered_and_what_is_right() -> None:
    questions = (
        ("family", (("man", "king", "woman", "queen"), ("man", "law", "woman", "king"), ("man", "king", "x", "queen"))),
        ("gram1-x", (("king", "queen", "man", "woman"),)),
        ("others", ()),
    )
    score = analogies(family(), Analogies("a", questions), lower=False)
    assert [(part.name, part.questions, part.answered, part.correct) for part in score.sections] == [
        ("family", 3, 2, 1),
        ("gram1-x", 1, 1, 1),
        ("others", 0, 0, 0),
    ]
    assert (score.total.accuracy, score.total.coverage) == (2 / 3, 3 / 4)
    assert (score.semantic.accuracy, score.syntactic.accuracy) == (1 / 2, 1)
    assert math.isnan(score.sections[2].accuracy)
    assert score.to_json()["total"] == {
        "name": "total", "questions": 4, "answered": 3, "correct": 2, "accuracy": 2 / 3, "coverage": 3 / 4,
    }  # fmt: skip


def test_case_is_ignored_for_questions_answers_and_the_words_left_out() -> None:
    """QUEEN may come out first and is queen; King comes out first for king but is the word that was asked."""
    asked = Analogies("a", (("s", (("MAN", "kinG", "Woman", "Queen"), ("woman", "woman", "king", "man"))),))
    assert family().most_similar(["king"], 2)[0][0][0] == "King"
    assert analogies(family(), asked).total.correct == 2
    exact = analogies(family(), asked, lower=False).total
    assert (exact.answered, exact.correct) == (1, 0)


def test_only_the_first_words_are_used_if_told() -> None:
    asked = Analogies("a", (("s", (("man", "king", "woman", "queen"),)),))
    assert analogies(family(), asked, restrict=4).total.correct == 1
    few = analogies(family(), asked, restrict=3)
    assert (few.total.answered, few.restrict) == (0, 3)
    pairs = Pairs("p", (("man", "king"), ("man", "law"), ("king", "queen")), np.array([1.0, 2.0, 3.0]))
    assert similarity(family(), pairs, restrict=4).used == 2
    with pytest.raises(ConfigError, match="restrict must be at least 1"):
        similarity(family(), pairs, restrict=0)


def test_similarity_tells_pairs_used_and_coverage() -> None:
    pairs = Pairs("p", (("man", "king"), ("MAN", "law"), ("woman", "queen"), ("x", "man")), np.array([5.0, 1, 6, 9]))
    score = similarity(family(), pairs)
    cosines = [1 / 2**0.5, 0, 1 / 2**0.5]
    assert score.pearson == pytest.approx(float(np.corrcoef([5, 1, 6], cosines)[0, 1]))
    assert (score.pairs, score.used, score.coverage, score.composed) == (4, 3, 3 / 4, 0)
    assert similarity(family(), pairs, lower=False).used == 2
    nothing = similarity(family(), Pairs("p", (("x", "y"),), np.array([1.0])))
    assert (nothing.used, math.isnan(nothing.spearman)) == (0, True)


def test_n_grams_make_vectors_for_pairs_outside_the_vocabulary() -> None:
    from ostinato.embed.subwords import Subwords

    rows = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    vectors = Vectors(["cat", "dog", "rare"], np.eye(3, dtype=np.float32), None, Subwords(3, 3, 50), rows)
    pairs = Pairs("p", (("cat", "dog"), ("cat", "Unseen"), ("cat", "rare")), np.array([1.0, 2, 3]))
    score = similarity(vectors, pairs)
    assert (score.used, score.composed) == (3, 1)
    assert similarity(vectors, pairs, restrict=2).used == 2  # a word of the vocabulary is not made from n-grams


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vectors, Any, Path, Path]:
    """The same random vectors here and in gensim, with words in several spellings, and files of pairs and analogies."""
    models = pytest.importorskip("gensim.models")
    random = np.random.default_rng(3)
    words = [f"Word{place}" for place in range(300)]
    words += [word.upper() for word in words[:60]] + [word.lower() for word in words[30:90]]
    words = [words[place] for place in random.permutation(len(words))]
    rows = random.standard_normal((len(words), 12)).astype(np.float32)
    theirs = models.KeyedVectors(12)
    theirs.add_vectors(words, rows)
    home = tmp_path_factory.mktemp("twins")
    ours = Vectors(words, rows)
    some = [f"word{place}" for place in random.integers(0, 330, 1200)]  # those from 300 on are unknown
    lines = [f"{a}\t{b}\t{random.integers(0, 9)}\n" for a, b in zip(some[:600], some[600:], strict=True) if a != b]
    (home / "pairs.tsv").write_text("".join(lines))
    lines = [": first\n"]
    for number, (a, b, c, d) in enumerate(np.array(some).reshape(-1, 4).tolist()):
        lines += [": second\n"] if number == 100 else []
        asked = [word.capitalize() for word in (a, b, c)]
        if number % 3 == 0 and all(word in ours for word in asked):
            d = ours.analogy(asked[0], asked[1], asked[2])[0][0].lower()  # often right
        lines.append(f"{a} {b} {c} {d}\n")
    (home / "analogies.txt").write_text("".join(lines))
    return ours, theirs, home / "pairs.tsv", home / "analogies.txt"


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("restrict", [None, 150])
def test_similarity_is_that_of_gensim(twins: Any, lower: bool, restrict: int | None) -> None:
    ours, theirs, path, _ = twins
    path = path if lower else written(path.with_suffix(".exact"), path.read_text().replace("word", "Word"))
    score = evaluate(ours, read_benchmark(path), lower=lower, restrict=restrict)
    assert isinstance(score, SimilarityScore)
    pearsons, spearmans, missing = theirs.evaluate_word_pairs(
        str(path), restrict_vocab=restrict or len(ours), case_insensitive=lower
    )
    assert (score.pearson, score.spearman) == pytest.approx((pearsons[0], spearmans[0]), abs=1e-6)
    assert 100 * (1 - score.coverage) == pytest.approx(missing)
    assert 0 < score.used < score.pairs


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("restrict", [None, 150])
def test_analogies_are_those_of_gensim(twins: Any, lower: bool, restrict: int | None) -> None:
    ours, theirs, _, path = twins
    path = path if lower else written(path.with_suffix(".exact"), path.read_text().replace("word", "Word"))
    score = evaluate(ours, read_benchmark(path), lower=lower, restrict=restrict)
    assert isinstance(score, AnalogyScore)
    accuracy, sections = theirs.evaluate_word_analogies(
        str(path), restrict_vocab=restrict or len(ours), case_insensitive=lower
    )
    assert [(part.name, part.correct, part.answered - part.correct) for part in (*score.sections, score.total)] == [
        (part["section"].replace("Total accuracy", "total"), len(part["correct"]), len(part["incorrect"]))
        for part in sections
    ]
    assert score.total.accuracy == accuracy
    assert score.total.correct > 5 or restrict


def test_the_files_that_people_use_are_read_whole(shared: Path) -> None:
    folder = shared / "wordvec-eval"
    for name, number in {"EN-WS-353-ALL": 353, "EN-SIMLEX-999": 999, "EN-RG-65": 65, "EN-MC-30": 30}.items():
        found = read_benchmark(folder / f"{name}.txt")
        assert isinstance(found, Pairs)
        assert len(found.pairs) == number
    questions = read_benchmark(folder / "questions-words.txt")
    assert isinstance(questions, Analogies)
    assert (len(questions.sections), sum(len(some) for _, some in questions.sections)) == (14, 19_544)
    score = analogies(Vectors(["a"], np.ones((1, 1), np.float32)), questions)
    assert (score.semantic.questions, score.syntactic.questions) == (8_869, 10_675)


def test_the_files_of_gensim_are_read_whole() -> None:
    gensim = pytest.importorskip("gensim")
    folder = Path(gensim.__file__).parent / "test" / "test_data"
    for name, number in {"wordsim353.tsv": 353, "simlex999.txt": 999}.items():
        found = read_benchmark(folder / name)
        assert isinstance(found, Pairs)
        assert len(found.pairs) == number
