"""Stems are Snowball's, to the last line of its published vocabularies, however they are computed."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from ostinato.core.errors import ConfigError
from ostinato.text.normalise import Normaliser, stem_languages, word_stemmer

WORDS = {
    "english": ("national", "nation"), "french": ("continuellement", "continuel"),
    "german": ("aufeinander", "aufeinand"), "russian": ("важная", "важн"),
    "spanish": ("chicas", "chic"), "italian": ("pronunciavano", "pronunc"),
}  # fmt: skip


def vocabularies(shared: Path) -> dict[str, list[tuple[str, str]]]:
    """The published words and stems of each language that is here."""
    found = {}
    for path in sorted((shared / "stem-snowball").glob("*.tsv.gz")):
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        found[path.name.removesuffix(".tsv.gz")] = [(line.split("\t")[0], line.split("\t")[1]) for line in lines]
    return found


def test_every_line_of_every_published_vocabulary_agrees(shared):
    found = vocabularies(shared)
    assert {"english", "porter", "german", "french"} <= set(found)
    assert len(found["english"]) == 42_649
    for language, pairs in found.items():
        stem = word_stemmer(language)
        wrong = [(word, stem(word), right) for word, right in pairs if stem(word) != right]
        assert not wrong, (language, wrong[:5])


def test_the_normaliser_stems_words_in_running_text_as_they_are_stemmed_alone(shared):
    for language, pairs in vocabularies(shared).items():
        some = [(word, right) for word, right in pairs[::29] if word.isalpha()]
        line = ", ".join(word.upper() if "ß" not in word else word for word, _ in some)
        assert Normaliser([f"stem:{language}"])(line) == ", ".join(right for _, right in some)


@pytest.mark.parametrize("language", stem_languages())
def test_every_language_that_is_offered_can_be_used(language):
    word, right = WORDS.get(language, ("2024", "2024"))
    assert word_stemmer(language)(word) == right
    assert Normaliser([f"stem:{language}"])(f"{word}. 2024") == f"{right}. 2024"


def test_there_are_many_languages():
    assert len(stem_languages()) >= 30
    assert stem_languages() == sorted(stem_languages())
    with pytest.raises(ConfigError, match="did you mean 'finnish'"):
        word_stemmer("finish")


def test_a_word_of_persian_may_have_a_mark_inside_that_joins_nothing():
    """The plural ending is written after U+200C, and its stem is that of the whole word."""
    whole = "کتاب\u200cها"
    assert Normaliser(["stem:persian"])(f"{whole} {whole}") == " ".join([word_stemmer("persian")(whole)] * 2)
    assert word_stemmer("persian")(whole) == "کتاب"


def test_pystemmers_cache_is_turned_off(monkeypatch):
    """It makes distinct words four times slower, and the words of a text are remembered in any case."""
    made = SimpleNamespace(maxCacheSize=10_000, stemWord=lambda word: word[:2])
    module = ModuleType("snowballstemmer")
    module.algorithms, module.stemmer = lambda: ["english"], lambda language: made
    monkeypatch.setitem(sys.modules, "snowballstemmer", module)
    assert word_stemmer("english")("words") == "wo"
    assert made.maxCacheSize == 0


def test_pystemmer_gives_the_same(shared):
    fast = pytest.importorskip("Stemmer").Stemmer("english")
    words = [word for word, _ in vocabularies(shared)["english"][::7]]
    from snowballstemmer.english_stemmer import EnglishStemmer

    assert fast.stemWords(words) == [EnglishStemmer().stemWord(word) for word in words]
