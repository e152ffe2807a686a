"""Phrases: the pairs, scores and joined sentences of gensim, and the corpus of the joined text."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, MismatchError
from ostinato.embed import phrases as module
from ostinato.embed.corpus import Corpus, read_sentences
from ostinato.embed.options import TextOptions
from ostinato.embed.phrases import (
    ENGLISH_CONNECTORS,
    Phrase,
    PhraseOptions,
    find_phrases,
    join_phrases,
    read_phrased,
)
from test_embed_corpus import ids_of, same, spelled

few = settings(deadline=None, max_examples=60)
words = st.sampled_from(["a", "b", "c", "d", "of", "the"])
texts = st.lists(st.lists(words, min_size=1, max_size=12), min_size=1, max_size=12)
TEXT = [["new", "york", "is", "new"], ["new", "york"], ["york"], ["it", "is", "new", "york"]]
# n(new) = 4, n(york) = 4, n(new york) = 3, 11 words; 4 distinct words and 4 distinct pairs


def theirs(sentences: list[list[str]], options: PhraseOptions):
    gensim = pytest.importorskip("gensim.models.phrases")
    return gensim.Phrases(
        sentences, min_count=options.discount, threshold=options.threshold, delimiter=options.delimiter,
        scoring="default" if options.scoring == "gensim" else options.scoring,
        connector_words=frozenset(options.connectors),
    )  # fmt: skip


def agree(corpus: Corpus, sentences: list[list[str]], options: PhraseOptions, folder, threads: int) -> list[Phrase]:
    """Whether scores and sentences are those of gensim."""
    model = theirs(sentences, options)
    found = find_phrases(corpus, options, threads)
    wanted = model.find_phrases(sentences) if sentences else {}
    ours = {options.delimiter.join(phrase.words): phrase.score for phrase in found}
    assert wanted.keys() <= ours.keys()  # a pair may be a phrase and still always be cut by another one
    assert ours == pytest.approx({name: exported(model, name) for name in ours}, rel=1e-12)
    joined = join_phrases(corpus, found, folder / "joined", min_count=1, options=options, threads=threads)
    wanted_sentences = [model[sentence] for sentence in sentences]
    assert spelled(joined) == wanted_sentences
    same(joined, read_sentences(wanted_sentences, folder / "fresh", min_count=1))
    return found


def exported(model, name: str) -> float | None:
    first, *between, last = name.split(model.delimiter)
    return model.score_candidate(first, last, between)[1]


@few
@given(
    texts, st.sampled_from(["gensim", "npmi"]), st.sampled_from([(), ("of", "the")]),
    st.integers(1, 3), st.sampled_from([0.2, 0.5, 2.0]), st.integers(3, 50),
)  # fmt: skip
def test_phrases_are_those_of_gensim(tmp_path_factory, sentences, scoring, connectors, threads, threshold, piece):
    folder = tmp_path_factory.mktemp("phrases")
    options = PhraseOptions(scoring, min(threshold, 0.9) if scoring == "npmi" else threshold, 1, "~", connectors)
    made = read_sentences(sentences, folder / "made", min_count=1)
    if scoring == "npmi" and made.words == sentences.count(sentences[0]) == 1:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", piece)
        patch.setattr(module, "MOST", 20)
        agree(made, sentences, options, folder, threads)


@pytest.mark.parametrize("scoring", ["gensim", "npmi"])
def test_phrases_of_a_real_text_are_those_of_gensim(shared, tmp_path, scoring):
    lines = (shared / "lm-sotu" / "valid.txt").read_text("utf8").split("\n")[:3000]
    sentences = [line.split() for line in lines if line.split()]
    options = PhraseOptions(scoring, 10.0 if scoring == "gensim" else 0.5, 5, "_", ENGLISH_CONNECTORS)
    found = agree(read_sentences(sentences, tmp_path / "made", min_count=1), sentences, options, tmp_path, 2)
    assert "united_states" in ["_".join(phrase.words) for phrase in found]


def test_scores_are_the_formulas(tmp_path):
    made = read_sentences(TEXT, tmp_path / "made", min_count=1)
    pair = ("new", "york")
    for scoring, threshold, score in [
        ("published", 0.1, (3 - 1) / (4 * 4)),
        ("word2phrase", 1.0, (3 - 1) / (4 * 4) * 11),
        ("gensim", 0.5, (3 - 1) / (4 * 4) * (4 + 4)),
        ("npmi", 0.5, log(3 / 11 / (4 / 11 * 4 / 11)) / -log(3 / 11)),
    ]:
        found = find_phrases(made, PhraseOptions(scoring, threshold, discount=1))
        assert found[-1 if scoring == "npmi" else 0].words == pair
        assert {phrase.words: phrase.score for phrase in found}[pair] == pytest.approx(score)
        assert {phrase.words: phrase.count for phrase in found}[pair] == 3


def test_joining_goes_from_left_to_right(tmp_path):
    made = read_sentences([["a", "a", "a", "b", "a", "b"]], tmp_path / "made", min_count=1)
    joined = join_phrases(made, [Phrase(("a", "a"), 2, 9.0), Phrase(("a", "b"), 2, 9.0)], tmp_path / "j", min_count=1)
    assert spelled(joined) == [["a_a", "a_b", "a_b"]]
    assert joined.lexicon.words == ("a_b", "a_a")


def test_a_phrase_spelled_like_a_word_is_that_word(tmp_path):
    made = read_sentences([["a", "b"], ["a_b"]], tmp_path / "made", min_count=1)
    joined = join_phrases(made, [Phrase(("a", "b"), 1, 9.0)], tmp_path / "joined", min_count=1)
    assert joined.lexicon.words == ("a_b",)
    assert ids_of(joined) == [0, -1, 0, -1]


def test_passes_make_longer_phrases_and_keep_an_older_lexicon(tmp_path):
    sentences = [["new", "york", "times"], ["new", "york", "times", "now"]] * 9 + [["new"], ["york"], ["times"]]
    path = tmp_path / "text.txt"
    path.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences * 3), "utf8")
    text = TextOptions(text=(str(path),), phrases=2, phrase_threshold=0.05, min_count=2)
    made = read_phrased(text, tmp_path / "made", 2)
    assert "new_york_times" in made.lexicon
    assert [file.name for file in (tmp_path / "made").iterdir() if file.is_dir()] == []
    old = read_sentences([["york", "zz"]], tmp_path / "old", min_count=1).lexicon
    assert read_phrased(text, tmp_path / "grown", 1, old).lexicon.words[:2] == ("york", "zz")


def test_phrases_want_all_words_of_the_text(tmp_path):
    made = read_sentences(TEXT, tmp_path / "made", min_count=4)
    with pytest.raises(MismatchError, match="min_count 1"):
        find_phrases(made)
    with pytest.raises(MismatchError, match="found elsewhere"):
        join_phrases(made, [Phrase(("old", "york"), 1, 1.0)], tmp_path / "joined")


def test_options_out_of_range_are_errors():
    for wrong, message in [
        ({"scoring": "pmi"}, "did you mean 'npmi'"),
        ({"threshold": 0.0}, "above 0"),
        ({"scoring": "npmi", "threshold": 2.0}, "between -1 and 1"),
        ({"discount": 0}, "1 or more"),
    ]:
        with pytest.raises(ConfigError, match=message):
            PhraseOptions(**wrong)


def test_tables_grow_with_the_pairs(tmp_path):
    """More pairs and chains than the tables begin with."""
    chance = np.random.default_rng(1)
    sentences = [[f"w{word}" for word in chance.integers(0, 300, 12)] for _ in range(1500)]
    made = read_sentences(sentences, tmp_path / "made", min_count=1)
    connectors = tuple(f"w{word}" for word in range(60))
    agree(made, sentences, PhraseOptions("gensim", 1.0, 1, "_", connectors), tmp_path, 2)
