"""A trainable lemmatiser: the dictionary form of a word and its part of speech, learnt from a treebank.

A form that was seen with its tag has its most frequent lemma there. One that was seen in other letter case has
the lemma of that; whether it keeps its own case is learnt by tag and shape, and by whether it is a word under
another tag too. Any other form is edited as its longest known ending says (`text/lemma_rules.py`).

>>> lemmatiser = Lemmatiser.fit([
...     ("Stories", "NOUN", "story"), ("cities", "NOUN", "city"), ("Paris", "PROPN", "Paris"),
...     ("cars", "NOUN", "car"), ("doors", "NOUN", "door"), ("Mars", "PROPN", "Mars"), ("was", "AUX", "be"),
... ])
>>> lemmatiser.lemmas(["was", "Studies", "Doors", "Pythagoras", "WAS"], ["AUX", "NOUN", "NOUN", "PROPN", "AUX"])
['be', 'study', 'door', 'Pythagoras', 'be']
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ostinato.core.errors import DataError, FormatError, ShapeError
from ostinato.core.files import check_format, read_json, write_text
from ostinato.text.lemma_rules import CASES, Case, Edit, Endings, case_between, cased, lowered, shape

FORMAT = 1
UNSPECIFIED = "_"
"""What CoNLL-U writes for a lemma or tag that is not given."""
ANY = ""
"""The tag of a word whose part of speech is not given; all words were learnt under it too."""

Recase: TypeAlias = Literal["listed"] | Case
"""What to do with the lemma of a form seen in other case: take it as it is listed, or in a case of the form's."""
How: TypeAlias = Literal["seen", "recased", "ruled"]
"""The form was seen with its tag; it was seen in other letter case; it is new and a rule was used."""
Table: TypeAlias = dict[str, dict[str, str]]
"""By tag, by form (or its small letters, or shape): the lemma (or case)."""
Counts: TypeAlias = dict[str, dict[str, Counter[str]]]

_RECASES: tuple[Recase, ...] = ("listed", *CASES)
_REMEMBERED = 1 << 18


@dataclass(frozen=True, eq=False, repr=False)
class Lemmatiser:
    """Form and part of speech to lemma; a value, which `fit` makes of a treebank.

    listed: the lemma of every form seen, by tag. small: the lemma of a form in small letters where that is not
    in `listed`. words, capitals: edits by tag, of ordinary forms and of short ones in capitals. cases: the case of
    a new form's lemma, by tag and shape. recases: what to do with the lemma of a form seen in other case.
    """

    listed: Table
    small: Table
    words: dict[str, Endings]
    capitals: dict[str, Endings]
    cases: dict[str, dict[str, Case]]
    recases: dict[str, dict[str, Recase]]

    @classmethod
    def fit(cls, triples: Iterable[tuple[str, str | None, str]]) -> Lemmatiser:
        """The lemmatiser of these forms, parts of speech (None where not known) and lemmas.

        A lemma that is empty or "_" is none, unless the form is "_". Of equally frequent lemmas the first by the
        alphabet is taken, so the order of the triples has no effect.
        Raises DataError if no word has a lemma, or a form is empty.
        """
        return _learnt(_counted(triples))

    def lemma(self, form: str, upos: str | None = None) -> str:
        """The lemma of a form, which is never empty; a part of speech never seen is as if not given.

        Raises DataError for an empty form.
        """
        lemma = self._known.get((form, upos))
        return self._found(form, upos) if lemma is None else lemma

    def lemmas(self, forms: Sequence[str], tags: Sequence[str | None] | None = None) -> list[str]:
        """The lemma of each form. Raises ShapeError unless there are as many tags, DataError for an empty form."""
        tags = [None] * len(forms) if tags is None else tags
        if len(tags) != len(forms):
            raise ShapeError(f"{len(forms)} forms, but {len(tags)} parts of speech; give one for each, or none")
        known = self._known.get
        return [known(pair) or self._found(*pair) for pair in zip(forms, tags, strict=True)]

    def how(self, form: str, upos: str | None = None) -> How:
        """How the lemma of a form is found: a seen form is looked up, any other is not."""
        tag = self._tag(upos)
        if form in self.listed[tag]:
            return "seen"
        return "recased" if self._in_small(tag, lowered(form)) else "ruled"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lemmatiser) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Lemmatiser({len(self.listed[ANY]):,} forms, {len(self.tags)} tags, {self.fingerprint})"

    @property
    def tags(self) -> list[str]:
        """The parts of speech it was trained on."""
        return sorted(set(self.listed) - {ANY})

    @property
    def untagged(self) -> Lemmatiser:
        """What is needed where no parts of speech are given, about half of it."""
        edits = ({ANY: self.words[ANY]}, {ANY: self.capitals[ANY]})
        cases = ({ANY: self.cases[ANY]}, {ANY: self.recases[ANY]})
        return Lemmatiser({ANY: self.listed[ANY]}, {ANY: self.small[ANY]}, *edits, *cases)

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits of what it has learnt."""
        return hashlib.sha256(_written(self._learnt).encode("utf8", "surrogatepass")).hexdigest()[:12]

    @cached_property
    def _known(self) -> dict[tuple[str, str | None], str]:
        """Lemmas already found, by form and part of speech as they were given."""
        return {}

    @cached_property
    def _attested(self) -> dict[str, set[str]]:
        return {tag: {lowered(lemma) for lemma in lemmas.values()} for tag, lemmas in self.listed.items()}

    def _found(self, form: str, upos: str | None) -> str:
        if not form:
            raise DataError("an empty form has no lemma; leave it out")
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        lemma = self._known[form, upos] = self._sought(form, self._tag(upos))
        return lemma

    def _sought(self, form: str, tag: str) -> str:
        lemma = self.listed[tag].get(form)
        if lemma is not None:
            return lemma
        low, kind = lowered(form), shape(form)
        lemma = self._in_small(tag, low)
        if lemma is not None:
            recase = self.recases[tag].get(_where(kind, low, tag, self.listed), "listed")
            return lemma if recase == "listed" else cased(lowered(lemma), form, recase)
        endings = (self.capitals if kind == "short" else self.words)[tag]
        return cased(endings.lemma(low, self._attested[tag]), form, self.cases[tag].get(kind, "keep"))

    def _in_small(self, tag: str, low: str) -> str | None:
        return self.small[tag].get(low) or self.listed[tag].get(low)

    def _tag(self, upos: str | None) -> str:
        return upos if upos in self.listed and upos is not None else ANY

    @property
    def _learnt(self) -> dict[str, Any]:
        return {
            "listed": self.listed,
            "small": self.small,
            "words": _as_text(self.words),
            "capitals": _as_text(self.capitals),
            "cases": self.cases,
            "recases": self.recases,
        }

    def to_json(self) -> dict[str, Any]:
        """The lemmatiser as plain values, for `from_json`."""
        return {"format": FORMAT, "kind": "lemmatiser", "fingerprint": self.fingerprint, **self._learnt}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], name: str = "lemmatiser") -> Lemmatiser:
        """The lemmatiser that `to_json` described. Raises FormatError, with the name, if it is damaged or newer."""
        try:
            check_format(Path(name), content, FORMAT)
            return _read(content, name)
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise FormatError(f"{name}: not a lemmatiser of ours ({fault}); restore it or train again") from None

    def save(self, path: str | Path) -> None:
        """Write it as one JSON file, atomically. Raises StorageError."""
        write_text(Path(path), _written(self.to_json()) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Lemmatiser:
        """The lemmatiser that `save` wrote. Raises FormatError if the file is missing, damaged or newer."""
        if not Path(path).is_file():
            raise FormatError(f"{path}: no such file; `ostinato lemma train` makes one")
        return cls.from_json(read_json(Path(path)), str(path))


def _counted(triples: Iterable[tuple[str, str | None, str]]) -> Counts:
    """How often each form has each lemma, by tag, and over all tags."""
    counts: Counts = {ANY: {}}
    words = 0
    for words, (form, upos, lemma) in enumerate(triples, 1):
        if not form:
            raise DataError(f"word {words:,} has an empty form; leave it out")
        if lemma and (lemma != UNSPECIFIED or form == UNSPECIFIED):
            for tag in {ANY, ANY if upos in (None, UNSPECIFIED) else upos}:
                counts.setdefault(tag, {}).setdefault(form, Counter())[lemma] += 1
    if not counts[ANY]:
        raise DataError(f"none of {words:,} words has a lemma; train on a treebank whose lemmas are given")
    return counts


def _learnt(counts: Counts) -> Lemmatiser:
    listed = {tag: {form: _most(lemmas) for form, lemmas in forms.items()} for tag, forms in counts.items()}
    made = Lemmatiser(listed, {}, {}, {}, {}, {})
    for tag, forms in counts.items():
        small = _in_small_letters(forms)
        lemmas = {low: _most(found) for low, found in small.items()}
        made.small[tag] = {low: lemma for low, lemma in lemmas.items() if listed[tag].get(low) != lemma}
        for short, part in ((False, made.words), (True, made.capitals)):
            lows = {lowered(form) for form in forms if (shape(form) == "short") == short}
            part[tag] = Endings.fit((low, lowered(lemmas[low])) for low in lows)
        made.cases[tag] = _cases(listed[tag])
        made.recases[tag] = _recases(tag, forms, small, listed)
    return made


def _most(lemmas: Counter[str]) -> str:
    return min(lemmas, key=lambda lemma: (-lemmas[lemma], lemma))


def _in_small_letters(forms: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
    small: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for form, lemmas in forms.items():
        small[lowered(form)].update(lemmas)
    return small


def _cases(listed: Mapping[str, str]) -> dict[str, Case]:
    """The most frequent case of the lemmas of forms of each shape."""
    votes: defaultdict[str, Counter[Case]] = defaultdict(Counter)
    for form, lemma in listed.items():
        case = case_between(form, lemma)
        if case is not None:
            votes[shape(form)][case] += 1
    return {kind: max(CASES, key=lambda case: votes[kind][case]) for kind in votes}


def _recases(
    tag: str, forms: Mapping[str, Counter[str]], small: Mapping[str, Counter[str]], listed: Table
) -> dict[str, Recase]:
    """What makes most lemmas right of forms of each shape, if only their other letter cases had been seen."""
    votes: defaultdict[str, Counter[Recase]] = defaultdict(Counter)
    for form, lemmas in forms.items():
        low = lowered(form)
        others = small[low] - lemmas
        if others:
            found = _most(others)
            kind = _where(shape(form), low, tag, listed)
            for recase in _RECASES:
                lemma = found if recase == "listed" else cased(lowered(found), form, recase)
                votes[kind][recase] += lemma == listed[tag][form]
    return {kind: max(_RECASES, key=lambda recase: votes[kind][recase]) for kind in votes}


def _where(kind: str, low: str, tag: str, listed: Table) -> str:
    """A shape, and whether the word in small letters was seen under another tag (never, if the tag is not given)."""
    elsewhere = tag != ANY and any(low in forms for other, forms in listed.items() if other not in (tag, ANY))
    return f"{kind} elsewhere" if elsewhere else kind


def _written(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _as_text(part: Mapping[str, Endings]) -> dict[str, dict[str, list[str]]]:
    return {
        tag: {ending: [edit.write() for edit in edits] for ending, edits in endings.edits.items()}
        for tag, endings in part.items()
    }


def _as_endings(part: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, Endings]:
    return {
        tag: Endings({ending: tuple(map(Edit.read, edits)) for ending, edits in endings.items()})
        for tag, endings in part.items()
    }


def _read(content: Mapping[str, Any], name: str) -> Lemmatiser:
    listed: Table = content["listed"]
    parts = [content[part] for part in ("listed", "small", "words", "capitals", "cases", "recases")]
    if ANY not in listed or any(set(part) != set(listed) for part in parts):
        raise ValueError("its parts have not the same parts of speech")
    if not all(
        isinstance(lemma, str) and lemma for table in parts[:2] for part in table.values() for lemma in part.values()
    ):
        raise ValueError("a lemma is no text")
    _, small, words, capitals, cases, recases = parts
    made = Lemmatiser(listed, small, _as_endings(words), _as_endings(capitals), cases, recases)
    if content["fingerprint"] != made.fingerprint:
        raise FormatError(
            f"{name}: not what its fingerprint {content['fingerprint']} says, so the file was edited; train again"
        )
    return made
