"""How good lemmas are: letter case ignored and not, by how the forms were known, and the errors worth looking at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

from ostinato.core.errors import ConfigError, DataError, ShapeError
from ostinato.core.registry import unknown
from ostinato.text.columns import read_columns
from ostinato.text.lemma import UNSPECIFIED, How, Lemmatiser

HOWS: tuple[How, ...] = get_args(How)


class Word(NamedTuple):
    """A word of a treebank: its form, its part of speech (None where not given) and its lemma ("_": none)."""

    form: str
    upos: str | None
    lemma: str

    @property
    def has_lemma(self) -> bool:
        """Whether its lemma is given."""
        return self.lemma not in ("", UNSPECIFIED) or self.form == UNSPECIFIED == self.lemma


def read_words(paths: Iterable[str | Path]) -> Iterator[Word]:
    """The words of CoNLL-U files, one file after another. Raises DataError for what is not CoNLL-U."""
    for path in paths:
        for sentence in read_columns(path, "conllu"):
            for form, upos, lemma in zip(*map(sentence.column, ("form", "upos", "lemma")), strict=True):
                yield Word(form, None if upos == UNSPECIFIED else upos, lemma)


@dataclass(frozen=True)
class Tally:
    """So many words, and how many of their lemmas are right, letter case ignored and not."""

    words: int
    caseless: int
    exact: int

    def to_json(self) -> dict[str, Any]:
        """Counts and shares; a share of no words is null."""
        shares = {name: count / self.words if self.words else None for name, count in self.right.items()}
        return {"words": self.words, **shares}

    @property
    def right(self) -> dict[str, int]:
        """How many are right, by what is asked."""
        return {"caseless": self.caseless, "exact": self.exact}


class Mistake(NamedTuple):
    """A form that got a wrong lemma so many times."""

    times: int
    form: str
    upos: str | None
    right: str
    given: str


@dataclass(frozen=True)
class LemmaScore:
    """How good some lemmas are: of all words, and of those that a lemmatiser has seen, or in other case, or not."""

    name: str
    all: Tally
    groups: dict[How, Tally]
    mistakes: list[Mistake]
    """The wrong ones, most frequent first."""

    def to_json(self, mistakes: int = 0) -> dict[str, Any]:
        """The score as plain values, with the first mistakes if some are wanted."""
        content = {"name": self.name, **self.all.to_json()}
        content["groups"] = {how: tally.to_json() for how, tally in self.groups.items()}
        if mistakes:
            content["mistakes"] = [mistake._asdict() for mistake in self.mistakes[:mistakes]]
        return content


def score(name: str, lemmas: Sequence[str], words: Sequence[Word], hows: Sequence[How]) -> LemmaScore:
    """How many lemmas are those of the words, each of which has one. Raises ShapeError unless there is one for each."""
    if not len(lemmas) == len(words) == len(hows):
        raise ShapeError(f"{len(lemmas)} lemmas of {name} for {len(words)} words; give one for each")
    counts: Counter[How] = Counter(hows)
    caseless: Counter[How] = Counter()
    exact: Counter[How] = Counter()
    wrong: Counter[tuple[str, str | None, str, str]] = Counter()
    for given, (form, upos, right), how in zip(lemmas, words, hows, strict=True):
        exact[how] += given == right
        caseless[how] += given == right or given.lower() == right.lower()
        if given != right:
            wrong[form, upos, right, given] += 1
    groups = {how: Tally(counts[how], caseless[how], exact[how]) for how in HOWS}
    whole = Tally(counts.total(), caseless.total(), exact.total())
    ranked = sorted(wrong.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or "", *item[0][2:]))
    return LemmaScore(name, whole, groups, [Mistake(count, *what) for what, count in ranked])


def evaluate(
    lemmatiser: Lemmatiser, words: Sequence[Word], language: str | None = None, tagged: bool = True
) -> list[LemmaScore]:
    """The scores of the lemmatiser, of simplemma in a language of its own, and of taking the form for the lemma.

    Words without a lemma are left out. tagged: use the parts of speech.
    Raises DataError if no word has a lemma, ConfigError for a language that simplemma has not.
    """
    judged = [word for word in words if word.has_lemma]
    if not judged:
        raise DataError(f"none of {len(words):,} words has a lemma to compare with; give a file that has them")
    forms = [word.form for word in judged]
    tags = [word.upos if tagged else None for word in judged]
    given = {"lemmatiser": lemmatiser.lemmas(forms, tags)}
    if language is not None:
        given[f"simplemma {language}"] = simplemma_of(forms, language)
    given["identity"] = forms
    hows = [lemmatiser.how(form, tag) for form, tag in zip(forms, tags, strict=True)]
    return [score(name, lemmas, judged, hows) for name, lemmas in given.items()]


def simplemma_of(forms: Iterable[str], language: str) -> list[str]:
    """What simplemma's dictionary says. Raises ConfigError for a language that it has not."""
    from simplemma import lemmatize
    from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES

    if language not in SUPPORTED_LANGUAGES:
        raise ConfigError(unknown("language of simplemma", language, SUPPORTED_LANGUAGES))
    return [str(lemmatize(form, lang=language)) for form in forms]
