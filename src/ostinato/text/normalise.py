"""Normalisers: what is done to a line before it is cut into pieces, by name, one after another.

| name            | does                                                               |
|-----------------|--------------------------------------------------------------------|
| `nfc`           | canonical composition: e + U+0301 is one character                  |
| `nfkc`          | compatibility composition: full-width Ａ is A, the ligature ﬁ is fi  |
| `lower`         | lower case                                                          |
| `casefold`      | case for comparing: ß is ss                                         |
| `stem:english`  | Snowball stem of every word, in any of its languages                |
| `lemma:en`      | dictionary form of every word, in any language of simplemma         |
| `none`          | nothing                                                            |

A stem is what is left when endings are cut off by rule; it need not be a word, and irregular forms stay
apart. A lemma is looked up: it is a word, irregular forms meet, and what is not listed stays as it is.

>>> stem, lemma = Normaliser(["stem:english"]), Normaliser(["lemma:en"])
>>> stem("studies studying better mice generously")
'studi studi better mice generous'
>>> lemma("studies studying better mice generously")
'study study good mouse generously'
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TypeAlias

from ostinato.core.errors import ConfigError
from ostinato.core.registry import Registry, unknown
from ostinato.text.letters import marks

Change: TypeAlias = Callable[[str], str]

normalisers: Registry[Callable[[str], Change]] = Registry("normaliser")
"""Makers of a change of text; each is given what stands after the colon ("" if nothing does)."""

BY_LETTER = frozenset({"nfc", "nfkc", "lower", "casefold"})
"""Normalisers that change lines joined by line feeds as they change each of them."""

_REMEMBERED = 1 << 17


class Normaliser:
    """The named changes, applied to a text in the order given.

    Raises ConfigError for a name or language that is not known.
    """

    def __init__(self, names: Sequence[str] = ()):
        self.names = tuple(name for name in names if name != "none")
        self._changes = [_change(name) for name in self.names]

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
    import snowballstemmer

    _check_language("stem", language, snowballstemmer.algorithms(), "english")
    stem = snowballstemmer.stemmer(language).stemWord
    return _each_word(lambda word: str(stem(word.lower())))


@normalisers.register("lemma")
def lemmatiser(language: str) -> Change:
    """Every word replaced by its dictionary form; an unlisted word stays as it is."""
    from simplemma import lemmatize
    from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES

    _check_language("lemma", language, SUPPORTED_LANGUAGES, "en")
    return _each_word(lambda word: str(lemmatize(word, lang=language)))


def _check_language(kind: str, language: str, known: Iterable[str], example: str) -> None:
    if not language:
        raise ConfigError(f"the normaliser {kind!r} wants a language after a colon, as in '{kind}:{example}'")
    if language not in set(known):
        raise ConfigError(unknown(f"language of {kind!r}", language, known))


def _each_word(change: Change) -> Change:
    """A change of single words as a change of texts; what is not a word stays."""
    remembered = lru_cache(_REMEMBERED)(change)
    letters = rf"[^\W\d_]+(?:[{marks()}]+[^\W\d_]*)*"
    word = re.compile(rf"{letters}(?:['’]{letters})*")
    return partial(word.sub, lambda found: remembered(found.group()))
