"""How a lemma is made from a form by rule: its longest known ending says what to change, its shape sets the case.

An edit is learnt from a form and its lemma: what goes from the end and what comes instead (`stories`, `story`:
3 letters go, `y` comes), or a sign that goes wherever it stands (`1,000`, `1000`). Every ending of every form
votes for the form's edit, each form once, since words that are new are like words that are rare.

>>> endings = Endings.fit([("stories", "story"), ("cities", "city"), ("cars", "car"), ("doors", "door")])
>>> endings.lemma("studies"), endings.lemma("stars"), endings.lemma("s")
('study', 'star', 's')
>>> cased("paris", "PARIS", "title"), cased("story", "Stories", "lower"), cased("story", "Stories", "keep")
('Paris', 'story', 'Story')
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

LONGEST_ENDING = 8
"""Characters of an ending, with the mark where the word begins."""
LEAST_FORMS = 2
"""Forms that an ending must have for its edits to count."""
LEAST_SHARE = 0.1
"""Share of its ending's forms that an edit needs to be thought of at all."""
SHORT = 4
"""Capitals that may be an acronym, which is no plural for ending in S; longer ones are a word that is shouted."""

Case: TypeAlias = Literal["keep", "lower", "title"]
"""As the form has it; small letters; the first letter large and the others small."""
CASES: tuple[Case, ...] = get_args(Case)

_DIGIT = re.compile(r"\d")
_WRITTEN = re.compile(r"(\d+)\|(.*)|\|(.)", re.DOTALL)
_BEGIN = "^"


def lowered(text: str) -> str:
    """The text in small letters, as many as it has: İ, whose small letter is two characters, becomes i."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(letter.lower()[0] for letter in text)


class Edit(NamedTuple):
    """`cut` characters go from the end and `add` comes, or else the character `drop` goes everywhere."""

    cut: int
    add: str = ""
    drop: str = ""

    def apply(self, word: str) -> str:
        """The edited word, empty if it cannot be edited so."""
        if self.drop:
            return word.replace(self.drop, "") if self.drop in word else ""
        return word[: len(word) - self.cut] + self.add if self.cut <= len(word) else ""

    def write(self) -> str:
        """As `3|y`, or `|,` for a character that goes everywhere."""
        return f"|{self.drop}" if self.drop else f"{self.cut}|{self.add}"

    @classmethod
    def read(cls, text: str) -> Edit:
        """The edit that was written so. Raises ValueError."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not an edit")
        cut, add, drop = found.groups()
        return cls(0, drop=drop) if drop else cls(int(cut), add)


def shared(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    alike = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(alike, min(len(one), len(other)))


def edit_between(word: str, lemma: str) -> Edit | None:
    """What makes the lemma of the word; None if they do not even begin alike, since that is no rule."""
    common = shared(word, lemma)
    if common < len(lemma) < len(word):
        for sign in sorted(set(word) - set(lemma)):
            if word.replace(sign, "") == lemma:
                return Edit(0, drop=sign)
    return Edit(len(word) - common, lemma[common:]) if common else None


class Endings:
    """Edits by ending, the likeliest first; an ending that says the same as the next shorter one is left out."""

    def __init__(self, edits: Mapping[str, tuple[Edit, ...]]):
        self.edits = edits

    @classmethod
    def fit(cls, pairs: Iterable[tuple[str, str]]) -> Endings:
        """The endings of words and their lemmas, each word once and both in small letters."""
        votes: defaultdict[str, Counter[Edit]] = defaultdict(Counter)
        for word, lemma in pairs:
            edit = edit_between(word, lemma)
            if edit is not None:
                end = _end_of(word)
                for start in range(len(end)):
                    votes[end[start:]][edit] += 1
        edits: dict[str, tuple[Edit, ...]] = {}
        for ending in sorted(votes, key=lambda ending: (len(ending), ending)):
            chosen = _chosen(votes[ending])
            shorter = next((edits[end] for end in _shorter(ending) if end in edits), None)
            if chosen and chosen != shorter:
                edits[ending] = chosen
        return cls(edits)

    def lemma(self, word: str, attested: Collection[str] = ()) -> str:
        """The lemma of a word in small letters, by its longest known ending; the word itself if none is known.

        attested: known lemmas; the likeliest edit that leads to one of them wins over the likeliest of all.
        """
        end = _end_of(word)
        for start in range(len(end)):
            best = ""
            for edit in self.edits.get(end[start:], ()):
                lemma = edit.apply(word)
                if lemma and lemma in attested:
                    return lemma
                best = best or lemma
            if best:
                return best
        return word


def _end_of(word: str) -> str:
    """The longest ending there may be; all digits are alike."""
    return _DIGIT.sub("0", (_BEGIN + word)[-LONGEST_ENDING:])


def _shorter(ending: str) -> Iterator[str]:
    return (ending[start:] for start in range(1, len(ending)))


def _chosen(votes: Counter[Edit]) -> tuple[Edit, ...]:
    """The edits worth thinking of, by votes; none if too few forms voted."""
    total = votes.total()
    if total < LEAST_FORMS:
        return ()
    ranked = sorted(votes.items(), key=lambda vote: (-vote[1], vote[0]))
    return tuple(edit for edit, count in ranked if count >= LEAST_SHARE * total)


def shape(form: str) -> str:
    """How a form is written: digits, lower (or without case), letter, short, capitals, title or mixed."""
    low = lowered(form)
    if _DIGIT.search(form):
        return "digits"
    if form == low:
        return "lower"
    if len(form) == 1:
        return "letter"
    if form == form.upper():
        return "short" if len(form) <= SHORT else "capitals"
    return "title" if form[1:] == low[1:] else "mixed"


def cased(lemma: str, form: str, case: Case) -> str:
    """A lemma in small letters as its case wants it; letters that the form has not are large after capitals."""
    if case == "lower":
        return lemma
    if case == "title":
        return lemma[:1].upper() + lemma[1:]
    low = lowered(form)
    if form == low:
        return lemma
    common = shared(lemma, low)
    rest = lemma[common:]
    return form[:common] + (rest.upper() if len(form) > 1 and form == form.upper() else rest)


def case_between(form: str, lemma: str) -> Case | None:
    """The first case that gives this lemma of the form; None if it is written in yet another way (`McDonald`)."""
    low = lowered(lemma)
    return next((case for case in CASES if cased(low, form, case) == lemma), None)
