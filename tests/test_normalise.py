"""Normalisers: against Snowball's own word lists and WordNet's irregular forms."""

from __future__ import annotations

import doctest
import gzip
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError
from ostinato.text import normalise
from ostinato.text.normalise import Normaliser

DATA = Path(__file__).parents[2] / "shared" / "data"


def needs(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"{path.name} is not on this machine")
    return path


def test_the_examples_are_true():
    assert doctest.testmod(normalise).failed == 0


@pytest.mark.parametrize(
    ("name", "text", "normal"),
    [
        ("nfc", "e\u0301", "é"),
        ("nfc", "Ａ", "Ａ"),
        ("nfkc", "Ａﬁ①", "Afi1"),
        ("lower", "ÀÉ Straße 床", "àé straße 床"),
        ("casefold", "Straße", "strasse"),
        ("stem:english", "Studies, 3 studies!", "studi, 3 studi!"),
        ("lemma:en", "better studies, 床前", "good study, 床前"),
    ],
)
def test_each_does_what_its_name_says(name, text, normal):
    assert Normaliser([name])(text) == normal


def test_they_compose_in_the_order_given():
    assert Normaliser(["nfkc", "lower", "stem:english"])("ＳＴＵＤＩＥＳ") == "studi"
    assert Normaliser()("As It Is") == "As It Is"
    assert Normaliser(["lower", "nfc"]).names == ("lower", "nfc")


@settings(deadline=None)
@given(st.text())
def test_composition_forms_are_those_of_unicode_and_stay_put(text):
    for name in ("nfc", "nfkc"):
        once = Normaliser([name])(text)
        assert once == unicodedata.normalize(name.upper(), text)
        assert Normaliser([name])(once) == once


@pytest.mark.parametrize("language", ["english", "german", "french", "porter"])
def test_stems_are_those_of_the_snowball_project(language):
    path = needs(DATA / "stem-snowball" / f"{language}.tsv.gz")
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    pairs = [line.split("\t") for line in lines[:: 3 if language == "english" else 12]]
    stem = Normaliser([f"stem:{language}"])
    wrong = [(word, stem(word), right) for word, right in pairs if word.isalpha() and stem(word) != right]
    assert not wrong


@pytest.mark.parametrize(("kind", "share"), [("verb", 0.85), ("adj", 0.8)])
def test_irregular_forms_meet_their_lemma_where_stems_stay_apart(kind, share):
    """simplemma does not list every rare word of WordNet, so most of them, not all."""
    path = needs(DATA / "lemma-wordnet-exc" / f"{kind}.exc")
    pairs = [line.split()[:2] for line in path.read_text().splitlines()]
    pairs = [(form, lemma) for form, lemma in pairs if form.isalpha() and lemma.isalpha() and form != lemma]
    lemmatise, stem = Normaliser(["lemma:en"]), Normaliser(["stem:english"])
    found = sum(lemmatise(form) == lemma for form, lemma in pairs)
    meet = sum(stem(form) == stem(lemma) for form, lemma in pairs)
    assert found > share * len(pairs)
    assert found > meet


def test_a_vowel_sign_belongs_to_its_word():
    """Hindi vowel signs are marks, not letters; a word cut there would not be stemmed."""
    assert Normaliser(["stem:hindi"])("लड़कियाँ") == "लड़क"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("loewr", "did you mean 'lower'"),
        ("stem:englsh", "did you mean 'english'"),
        ("stem", "as in 'stem:english'"),
        ("lemma:zz", "unknown language of 'lemma'"),
        ("lower:en", "takes nothing after a colon"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name, message):
    with pytest.raises(ConfigError, match=message):
        Normaliser([name])
