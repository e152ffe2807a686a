"""Normalisers: what is done to a line before it is cut into pieces, by name, one after another.

| name            | does                                                               |
|-----------------|--------------------------------------------------------------------|
| `nfc`           | canonical composition: e + U+0301 is one character                  |
| `nfkc`          | compatibility composition: full-width Ａ is A, the ligature ﬁ is fi  |
| `lower`         | lower case                                                          |
| `casefold`      | case for comparing: ß is ss                                         |
| `stem:english`  | Snowball stem of every word, in any of its languages                |
| `lemma:en`      | dictionary form of every word, in any language of simplemma         |
| `lemma:FILE`    | lemma of every word, by a lemmatiser that `ostinato lemma train` made |
| `none`          | nothing                                                            |

A stem is what is left when endings are cut off by rule; it need not be a word, and irregular forms stay
apart. A lemma is looked up: it is a word, irregular forms meet, and what is not listed stays as it is. A
trained lemmatiser has rules for that too; it gets no parts of speech here. What it has learnt is kept with the
pipeline (`stored`), so that a run does not need its file.

>>> stem, lemma = Normaliser(["stem:english"]), Normaliser(["lemma:en"])
>>> stem("studies studying better mice generously")
'studi studi better mice generous'
>>> lemma("studies studying better mice generously")
'study study good mouse generously'
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from ostinato.core.errors import ConfigError
from ostinato.core.registry import Registry, unknown
from ostinato.text.lemma import Lemmatiser
from ostinato.text.letters import marks

Change: TypeAlias = Callable[[str], str]

normalisers: Registry[Callable[[str], Change]] = Registry("normaliser")
"""Makers of a change of text; each is given what stands after the colon ("" if nothing does)."""

BY_LETTER = frozenset({"nfc", "nfkc", "lower", "casefold"})
"""Normalisers that change lines joined by line feeds as they change each of them."""

_REMEMBERED = 1 << 17
_NON_JOINER = "\u200c"  # stands inside words of Persian, and parts none (UAX #29)


class Normaliser:
    """The named changes, applied to a text in the order given.

    names: a trained lemmatiser goes by its file's name and its fingerprint here.
    stored: what the lemmatisers among them have learnt, by name; one that is not there is read from its file.
    Raises ConfigError for a name or language that is not known, FormatError for a damaged lemmatiser.
    """

    def __init__(self, names: Sequence[str] = (), stored: Mapping[str, Any] = MappingProxyType({})):
        self.names: tuple[str, ...] = ()
        self.stored: dict[str, Any] = {}
        self._changes: list[Change] = []
        for name in names:
            if name != "none":
                self._add(name, stored)

    def _add(self, name: str, stored: Mapping[str, Any]) -> None:
        trained = _trained(name, stored)
        if trained is None:
            self._changes.append(_change(name))
        else:
            name, lemmatiser = trained
            self.stored[name] = lemmatiser.to_json()
            self._changes.append(_each_word(lemmatiser.lemma))
        self.names += (name,)

    def __call__(self, text: str) -> str:
        for change in self._changes:
            text = change(text)
        return text

    @property
    def by_letter(self) -> bool:
        """Whether lines can be changed together: no change looks beyond a letter and its neighbours in the line."""
        return BY_LETTER.issuperset(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Normaliser) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"Normaliser({list(self.names)})"


def _trained(name: str, stored: Mapping[str, Any]) -> tuple[str, Lemmatiser] | None:
    """A lemmatiser, as stored or from its file, and the name it goes by; None if that is not what is named."""
    kind, _, file = name.partition(":")
    if name in stored:
        return name, Lemmatiser.from_json(stored[name], name)
    if kind != "lemma" or not file or not Path(file).is_file() or file in _dictionaries():
        return None
    lemmatiser = Lemmatiser.load(file)
    return f"{kind}:{Path(file).name}#{lemmatiser.fingerprint}", lemmatiser.untagged


def _change(name: str) -> Change:
    kind, _, argument = name.partition(":")
    if kind not in normalisers:
        raise ConfigError(
            unknown("normaliser", name, ["nfc", "nfkc", "lower", "casefold", "stem:english", "lemma:en", "none"])
        )
    return normalisers[kind](argument)


def _plain(name: str, change: Change) -> None:
    """Register a change that takes no argument."""

    def make(argument: str) -> Change:
        if argument:
            raise ConfigError(f"the normaliser {name!r} takes nothing after a colon, got {argument!r}; write {name!r}")
        return change

    normalisers.register(name)(make)


_plain("nfc", partial(unicodedata.normalize, "NFC"))
_plain("nfkc", partial(unicodedata.normalize, "NFKC"))
_plain("lower", str.lower)
_plain("casefold", str.casefold)


@normalisers.register("stem")
def stemmer(language: str) -> Change:
    """Every word replaced by its Snowball stem, which is lower case (the algorithms are defined on that).

    Source: [Porter2001].
    """
    stem = word_stemmer(language)
    return _each_word(lambda word: stem(word.lower()))


def stem_languages() -> list[str]:
    """The languages (and `porter`, an older English) that words can be stemmed in."""
    import snowballstemmer

    return sorted(snowballstemmer.algorithms())


def word_stemmer(language: str) -> Change:
    """Snowball's stem of a single word in lower case; PyStemmer makes it where that is installed.

    Raises ConfigError for a language that is not known.
    """
    import snowballstemmer

    _check_language("stem", language, stem_languages(), "english")
    made = snowballstemmer.stemmer(language)
    if hasattr(made, "maxCacheSize"):
        made.maxCacheSize = 0  # PyStemmer's cache takes longer than stemming; known words are remembered here
    stem = made.stemWord
    return lambda word: str(stem(word))


@normalisers.register("lemma")
def lemmatiser(language: str) -> Change:
    """Every word replaced by its dictionary form in simplemma; an unlisted word stays as it is."""
    from simplemma import lemmatize

    _check_language("lemma", language, _dictionaries(), "en")
    return _each_word(lambda word: str(lemmatize(word, lang=language)))


def _dictionaries() -> Sequence[str]:
    """The languages of simplemma."""
    from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES

    return tuple(SUPPORTED_LANGUAGES)


def _check_language(kind: str, language: str, known: Iterable[str], example: str) -> None:
    if not language:
        raise ConfigError(f"the normaliser {kind!r} wants a language after a colon, as in '{kind}:{example}'")
    if language not in set(known):
        file = "; there is no such file either" if kind == "lemma" else ""
        raise ConfigError(unknown(f"language of {kind!r}", language, known) + file)


def _each_word(change: Change) -> Change:
    """A change of single words as a change of texts; what is not a word stays."""
    remembered = lru_cache(_REMEMBERED)(change)
    letters = rf"[^\W\d_]+(?:[{marks()}{_NON_JOINER}]+[^\W\d_]*)*"
    word = re.compile(rf"{letters}(?:['’]{letters})*")
    return partial(word.sub, lambda found: remembered(found.group()))
