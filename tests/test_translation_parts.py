"""The parts of the translation task: pairs and their references, pieces, batches, alignments, reports, pictures."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError
from ostinato.core.progress import unwatched
from ostinato.core.vocabulary import Vocabulary
from ostinato.tasks import attention_picture
from ostinato.tasks.attention_picture import draw
from ostinato.tasks.translation.alignment import Alignment, aligned, grouped
from ostinato.tasks.translation.answers import Looked, bound_of
from ostinato.tasks.translation.data import Corpus, Pair, made_corpus, read_pairs, with_references
from ostinato.tasks.translation.encoding import Encoded, batches_by_source
from ostinato.tasks.translation.measures import measured, worth
from ostinato.tasks.translation.options import DataOptions
from ostinato.tasks.translation.predict import Answer, distinct
from ostinato.tasks.translation.report import Judged, judge
from ostinato.tasks.translation.sides import Side, made_sides
from ostinato.text.bpe import train
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from translation_toys import columns, config, parallel, reversed_pairs, sentences, write

TEXT = [source for source, _ in sentences(80)] + ["Über 3,5 naïve cafés – 北京很大。", "don't stop-and-go"] * 3


def side(tokeniser: str, changes: tuple[str, ...] = ("nfc",)) -> Side:
    made, _ = made_sides(DataOptions(tokeniser=tokeniser, bpe_pieces=300 if tokeniser == "bpe" else 6000), TEXT, TEXT)  # type: ignore[arg-type]
    return Side(Pipeline(Normaliser(changes), made.pipeline.tokeniser), made.vocabulary)


@pytest.mark.parametrize("tokeniser", ["bpe", "word", "char", "byte", "blank"])
@given(words=st.lists(st.sampled_from(" ".join(TEXT).split()), max_size=8))
def test_text_comes_back_as_it_was(tokeniser: str, words: list[str]) -> None:
    made, text = side(tokeniser), " ".join(words)
    ids = made.ids(f" {text}\n")
    assert made.text(made.vocabulary.pieces_of(ids)) == text
    assert not (ids == made.vocabulary.unknown).any()


def test_a_word_has_the_same_pieces_wherever_it_stands() -> None:
    made = side("bpe")
    assert made.pieces("dog")[0] == made.pieces("the dog")[-1] == "Ġdog"
    assert made.pieces("") == made.pieces("  ") == []


def test_joint_sides_are_one_and_others_two(tmp_path: Path) -> None:
    files = parallel(tmp_path, sentences(50))
    for joint in (True, False):
        plan = DataOptions(train=files, tokeniser="word", joint=joint)
        corpus, _ = made_corpus(plan, unwatched)
        corpus.save(tmp_path)
        again = Corpus.open(tmp_path)
        assert (corpus.source is corpus.target) == (again.source is again.target) == joint
        assert again.fingerprints == corpus.fingerprints
        assert ("Hund" in corpus.source.vocabulary) == joint
        assert again.parts == corpus.parts


def test_targets_of_one_source_in_columns_are_all_right(tmp_path: Path) -> None:
    """In parallel files every line is judged by itself."""
    rows = [("read", "R IY1 D"), ("see", "S IY1"), ("read", "R EH1 D"), ("read", "R EH2 D")]
    options = DataOptions(target_without="0123456789", tokeniser="char", target_tokeniser="blank")
    paths = [write(tmp_path / "x", columns(rows))]
    found = with_references(options, read_pairs(options, paths, unwatched).pairs, paths)
    assert found == [Pair("read", ("R IY D", "R EH D"), "x:1"), Pair("see", ("S IY",), "x:2")]
    both = parallel(tmp_path, rows)
    assert len(with_references(options, read_pairs(options, both, unwatched).pairs, both)) == 4


def test_pairs_of_one_source_are_never_on_both_sides_of_a_split(tmp_path: Path) -> None:
    rows = [(f"w{number % 40}", f"T{number}") for number in range(200)]
    options = DataOptions(train=(write(tmp_path / "t", columns(rows)),), tokeniser="word", folds=4, holdout=0.2)
    corpus, _ = made_corpus(options, unwatched)
    sources = {part: {pair.source for pair in pairs} for part, pairs in corpus.parts.items()}
    assert sources["train"] | sources["valid"] | sources["test"] == {source for source, _ in rows}
    assert not sources["train"] & sources["valid"]
    assert not (sources["train"] | sources["valid"]) & sources["test"]
    assert sum(len(pair.targets) for pairs in corpus.parts.values() for pair in pairs) == 200
    assert corpus.names["test"] == "t/fold-1-of-4"


lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=60)


@given(sizes=lengths, rows=st.integers(1, 9), tokens=st.integers(1, 200), pool=st.sampled_from([None, 1, 3]))
def test_every_pair_is_in_one_batch_and_none_is_too_large(
    sizes: list[tuple[int, int]], rows: int, tokens: int, pool: int | None
) -> None:
    given = np.array(sizes, np.int64)
    order = np.random.default_rng(0).permutation(len(sizes))
    batches = batches_by_source(given, rows, tokens, order, pool)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    for batch in batches:
        assert len(batch) <= rows
        assert len(batch) == 1 or len(batch) * given[batch].max() <= tokens
        assert (np.diff(given[batch, 0]) >= 0).all()


def test_a_batch_has_one_source_length_and_many_target_lengths() -> None:
    """Rows of one target length would all stop at once, which the decoder would learn."""
    draw = np.random.default_rng(0)
    sources = draw.integers(5, 25, 4000)
    given = np.stack([sources, np.maximum(1, sources + draw.integers(-4, 5, 4000))], axis=1)
    batches = batches_by_source(given, 64, 2000, draw.permutation(4000))
    spread = np.array([np.ptp(given[batch], axis=0) for batch in batches])
    assert spread[:, 0].mean() < 1
    assert spread[:, 1].mean() > 6
    for batch in batches[:9]:
        same = given[batch][given[batch, 0] == given[batch, 0][0]]
        if len(same) > 20:
            assert abs(np.corrcoef(np.arange(len(same)), same[:, 1])[0, 1]) < 0.6  # ties in no order of the target


def test_a_batch_shifts_targets_by_one_and_counts_each_stop_once(tmp_path: Path) -> None:
    corpus, _ = made_corpus(
        DataOptions(train=(write(tmp_path / "t", columns(reversed_pairs(50))),), tokeniser="blank"), unwatched
    )
    pairs = [Pair("a b", ("B A", "C"), "x:1"), Pair("a", ("A",), "x:2")]
    encoded, vocabulary = Encoded(corpus, pairs), corpus.target.vocabulary
    assert encoded.lengths.tolist() == [[2, 3], [2, 2], [1, 2]]
    batch = encoded.batch(np.array([0, 2]), torch.device("cpu"))
    a, b = vocabulary.ids(["A", "B"]).tolist()
    assert batch.targets.tolist()[0] == [b, a, vocabulary.stop]
    assert batch.inputs.tolist()[0] == [vocabulary.start, b, a]
    assert batch.targets.tolist()[1][:2] == [a, vocabulary.stop]
    assert batch.inputs.tolist()[1][:2] == [vocabulary.start, a]
    assert batch.weight.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch.lengths.tolist() == [2, 1]


@given(st.integers(1, 5000))
def test_the_class_of_a_length_is_not_below_it_nor_twice_as_long(length: int) -> None:
    assert length <= bound_of(length) <= max(8, 2 * length)


def test_parts_of_words_are_aligned_as_words() -> None:
    """Weights are summed over the parts of a word that is looked at; of a word that is said they are the mean."""
    tokeniser = train(["aa bb aa bb cc"] * 9, 260)
    made = Side(Pipeline(Normaliser(()), tokeniser), Vocabulary(tokeniser.inventory))
    given, said = ["Ġa", "x", ",", "Ġb"], ["Ġc", "d", "e", "Ġé"[0:1] + "f", "."]
    assert grouped(made, given) == [("ax", 0), (",", 2), ("b", 3)]
    assert grouped(made, said) == [("cde", 0), ("f", 3), (".", 4)]
    weights = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0.1, 0.2, 0.3, 0.4], [0, 0, 1, 0], [0, 0, 0, 1]])
    found = aligned(made, made, given, said, Looked(np.zeros(6, np.float32), weights.astype(np.float32)))
    assert found.source == ("ax", ",", "b")
    np.testing.assert_allclose(found.weights, [[2 / 3, 0, 1 / 3], [0.3, 0.3, 0.4], [0, 1, 0]], atol=1e-6)
    assert str(found) == "0-0 2-1 1-2"


@given(st.lists(st.sampled_from(" ".join(TEXT).split()), min_size=1, max_size=8))
def test_words_of_pieces_hold_every_piece_and_all_letters(words: list[str]) -> None:
    made = side("bpe")
    pieces = made.pieces(" ".join(words))
    found = grouped(made, pieces)
    begins = [begin for _, begin in found]
    assert begins[0] == 0
    assert begins == sorted(set(begins))
    assert "".join(word for word, _ in found).replace(" ", "") == "".join(words)


def test_an_answer_without_words_has_no_alignment() -> None:
    made = side("word")
    found = aligned(made, made, ["the"], [], Looked(np.zeros(1, np.float32), np.ones((1, 1), np.float32)))
    assert found.weights.shape == (0, 1)
    assert str(found) == ""


def corpus_of(tokeniser: str, changes: tuple[str, ...] = ("nfc",)) -> Corpus:
    made = side(tokeniser, changes)
    return Corpus({"train": [Pair("the dog", ("x",), "t:1")]}, {}, made, made, True, 1.0)


def test_edits_are_counted_against_the_nearest_target_by_hand() -> None:
    plan = config(("x",), {"tokeniser": "blank"}, measure="per")
    pairs = [Pair("a", ("R IY D", "R EH D"), "x:1"), Pair("b", ("S IY",), "x:2")]
    judged = Judged(plan, corpus_of("blank"), pairs, ["R EH D", "S S"], [-1.0, -2.0], "greedy")
    report = judge(judged, "x", 0.5)
    assert report.measure == "PER"
    assert report.value == pytest.approx(100 * 1 / (3 + 2))
    assert report.measures["wer"] == 50
    assert report.measures["exact"] == 50
    assert report.mistakes == (
        {"where": "x:2", "source": "b", "targets": ("S IY",), "answer": "S S", "edits": 1, "log_prob": -2.0},
    )
    assert "search:greedy" in report.signature
    assert worth("per", 3.0) == worth("wer", 3.0) == 3.0
    assert worth("bleu", 3.0) == worth("chrf", 3.0) == worth("exact", 3.0) == -3.0


@pytest.mark.parametrize("lower", [False, True])
def test_bleu_is_that_of_sacrebleu_on_the_text_as_it_is_written(lower: bool) -> None:
    from sacrebleu.metrics import BLEU, CHRF

    changes = ("nfc", "lower") if lower else ("nfc",)
    plan = config(("x", "y"), {"tokeniser": "bpe", "normalise": changes}, measure="bleu")
    targets = ["The small dog sees a house, or two.", "A Dog eats the red cake at home!", "Never."]
    answers = ["the small dog sees the house, or two.", "a dog eats the cake at home!", "Never ever."]
    pairs = [Pair("the dog", (target,), f"x:{number}") for number, target in enumerate(targets, 1)]
    corpus = corpus_of("bpe", changes)
    report = judge(Judged(plan, corpus, pairs, answers, [-1.0] * 3, "greedy"), "x", 0.5)
    assert report.measures["bleu"] == pytest.approx(BLEU().corpus_score(answers, [targets]).score)
    assert report.measures["bleu_lc"] == pytest.approx(BLEU(lowercase=True).corpus_score(answers, [targets]).score)
    cut = [["the small dog sees the house , or two .", "a dog eats the cake at home !", "never ever ."]]
    right = [["the small dog sees a house , or two .", "a dog eats the red cake at home !", "never ."]]
    whole = BLEU(tokenize="none", force=True).corpus_score(cut[0], right).score
    assert report.measures["token_bleu_lc"] == pytest.approx(whole)
    assert report.value == report.measures["bleu_lc" if lower else "bleu"] == measured(plan, corpus, pairs, answers)
    assert f"case:{'lc' if lower else 'mixed'}" in report.signature
    chrf = measured(replace(plan, train=replace(plan.train, measure="chrf")), corpus, pairs, answers)
    lowered = [target.lower() for target in targets] if lower else targets
    assert chrf == report.measures["chrf"] == pytest.approx(CHRF().corpus_score(answers, [lowered]).score)
    assert [mistake["where"] for mistake in report.mistakes][-1] == "x:1"


def test_tables_part_long_sources_and_unseen_words() -> None:
    plan = config(("x", "y"), {"tokeniser": "word"}, measure="bleu")
    texts = [" ".join(["dog"] * length) for length in (1, 8, 9, 18, 19, 30)] + ["the cat cat"]
    pairs = [Pair(text, (text,), "x:1") for text in texts]
    report = judge(Judged(plan, corpus_of("word"), pairs, texts, [0.0] * len(texts), "greedy"), "x", 0.0)
    by_length = next(table for table in report.tables if table.title == "by source length, in words")
    assert [(row[0], row[1]) for row in by_length.rows] == [
        ("1-8", "3"), ("9-12", "1"), ("13-18", "1"), ("19-25", "1"), ("26+", "1"),
    ]  # fmt: skip
    unseen = next(table for table in report.tables if "training lacks" in table.title)
    assert [(row[0], row[1]) for row in unseen.rows] == [("0", "6"), ("2", "1")]
    measures = next(table for table in report.tables if table.title == "measures")
    assert all("version:" in row[2] for row in measures.rows)


PICTURE = Alignment(("a", "red", "犬"), ("ein", "<roter>"), np.array([[0.9, 0.05, 0.05], [0.2, 0.7, 0.1]], np.float32))


def test_attention_is_drawn_with_its_words_as_text(tmp_path: Path) -> None:
    assert draw(PICTURE, tmp_path / "x.svg") == []
    texts = [element.text for element in ElementTree.parse(tmp_path / "x.svg").iter() if element.tag.endswith("}text")]
    assert {"a", "red", "犬", "ein", "<roter>", "90", "70", "20", "10"} <= set(texts)
    assert "5" not in texts
    first = (tmp_path / "x.svg").read_bytes()
    draw(PICTURE, tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_bytes() == first


def test_letters_that_a_png_would_show_as_boxes_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_picture, "families", lambda: ["DejaVu Sans"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (said,) = draw(PICTURE, tmp_path / "x.png")
    assert "boxes for 犬," in said
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match=r"\.svg or \.png"):
        draw(PICTURE, tmp_path / "x.pdf")


def test_answers_that_are_spelled_alike_are_given_once() -> None:
    answers = [Answer("a", -1.0, None), Answer("b", -2.0, None), Answer("a", -3.0, None)]
    assert distinct(answers) == answers[:2]


def test_wide_letters_get_room() -> None:
    def size(words: tuple[str, ...]) -> Any:
        return attention_picture.compose(replace(PICTURE, target=words)).get_size_inches()[0]

    assert size(("四个字啊", "b")) > size(("four", "b"))
