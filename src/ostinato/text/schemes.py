"""Spans written as tags, one a word: the schemes, what may follow what, and the spans that tags mean.

| scheme  | a span of three, of two, of one | and                                                            |
|---------|---------------------------------|----------------------------------------------------------------|
| `iob1`  | I I I, I I, I                   | B only where a span of the same label ends right before        |
| `bio`   | B I I, B I, B                   | also called IOB2                                               |
| `bioes` | B I E, B E, S                   |                                                                |
| `bilou` | B I L, B L, U                   | BIOES with other letters                                       |
| `bmes`  | B M E, B E, S                   | BIOES again, and how characters are grouped into words         |
| `none`  |                                 | the tags are labels of words, as parts of speech are           |

A tag is a letter, a hyphen and the span's label (`B-PER`), or the letter alone; `O` stands outside of spans.

Tags that a model wrote or a person made may be ill-formed (`O I-PER`, `B-PER I-LOC`). Read leniently they mean
what conlleval and seqeval's default make of them: a span ends wherever the label changes, and `I` or `E` after
something else begins one. Read strictly, only a well-formed span counts.

>>> spans(["O", "I-PER", "I-PER", "B-PER", "I-LOC"], "bio")
[Span(start=1, end=3, label='PER'), Span(start=3, end=4, label='PER'), Span(start=4, end=5, label='LOC')]
>>> spans(["O", "I-PER", "I-PER", "B-PER", "I-LOC"], "bio", strict=True)
[Span(start=3, end=4, label='PER')]
>>> convert(["B-PER", "I-PER", "O", "B-LOC"], "bio", "bioes")
['B-PER', 'E-PER', 'O', 'S-LOC']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError
from ostinato.core.registry import unknown

Scheme: TypeAlias = Literal["iob1", "bio", "bioes", "bilou", "bmes", "none"]
SCHEMES: tuple[Scheme, ...] = ("iob1", "bio", "bioes", "bilou", "bmes", "none")
OUTSIDE = "O"

_LETTERS = {"iob1": "BIIB", "bio": "BIIB", "bioes": "BIES", "bilou": "BILU", "bmes": "BMES"}
"""How a scheme writes the first word of a span, one inside, the last, and the only one."""


class Span(NamedTuple):
    """Words `start` to `end` (not included), from 0, with their label ("" if the tags have none)."""

    start: int
    end: int
    label: str


class Tag(NamedTuple):
    """A tag taken apart: its place in a span in BIOES's letters, or O, and the span's label."""

    place: str
    label: str


class Transitions(NamedTuple):
    """What a scheme allows: tag j after tag i (`after` [K, K]), what begins and what ends (`first`, `last` [K])."""

    after: NDArray[np.bool_]
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]


def parse(tag: str, scheme: Scheme) -> Tag | None:
    """The tag taken apart, or None if the scheme has no such tag."""
    letter, hyphen, label = tag.partition("-")
    if tag == OUTSIDE:
        return Tag(OUTSIDE, "")
    if len(letter) != 1 or (hyphen and not label):
        return None
    letters = _letters(scheme)
    if scheme in ("iob1", "bio"):
        return Tag(letter, label) if letter in "BI" else None
    place = letters.find(letter)
    return Tag("BIES"[place], label) if place >= 0 else None


def spans(tags: Sequence[str], scheme: Scheme, strict: bool = False) -> list[Span]:
    """The spans that tags mean, in order; a tag that the scheme does not have stands outside.

    strict: only well-formed spans, by the scheme's own rules.
    Raises ConfigError for the scheme "none". Source: conlleval's rules, [TjongKimSang2000], as in seqeval's default
    (the letters L, U and M are first read as E, S and I); seqeval's strict mode.
    """
    parsed = [parse(tag, scheme) or Tag(OUTSIDE, "") for tag in tags]
    _letters(scheme)  # refuses a scheme without spans
    found: list[Span] = []
    start, sound = -1, False  # the span that is open, and whether it began as it must
    before = Tag(OUTSIDE, "")
    for place, tag in enumerate([*parsed, Tag(OUTSIDE, "")]):
        begin = _begins(before, tag)
        if start >= 0 and (begin or tag.place == OUTSIDE):
            if not strict or (sound and _may_end(before, scheme)):
                found.append(Span(start, place, before.label))
            start = -1
        if begin:
            start, sound = place, _may_begin(before, tag, scheme)
        before = tag
    return found


def _begins(before: Tag, tag: Tag) -> bool:
    """Whether a span begins with `tag`, read leniently."""
    if tag.place == OUTSIDE:
        return False
    return tag.place in "BS" or before.place in "OES" or before.label != tag.label


def _may_begin(before: Tag, tag: Tag, scheme: Scheme) -> bool:
    """Whether a span may begin with `tag` in this scheme, read strictly."""
    if scheme != "iob1":
        return tag.place in "BS"
    touching = before.place != OUTSIDE and before.label == tag.label
    return touching == (tag.place == "B")


def _may_end(tag: Tag, scheme: Scheme) -> bool:
    return scheme in ("iob1", "bio") or tag.place in "ES"


def written(found: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """The tags of `length` words that mean these spans, which must not overlap. Raises ConfigError for "none"."""
    first, inside, last, single = tuple(_letters(scheme))
    tags = [OUTSIDE] * length
    before = Span(0, 0, "")
    for span in found:
        assert before.end <= span.start < span.end <= length, f"{before} and {span} overlap or are out of place"
        size = span.end - span.start
        letters = single if size == 1 else first + inside * (size - 2) + last
        if scheme == "iob1" and not (before.end == span.start > 0 and before.label == span.label):
            letters = inside * size
        tags[span.start : span.end] = [f"{letter}-{span.label}" if span.label else letter for letter in letters]
        before = span
    return tags


def convert(tags: Sequence[str], source: Scheme, target: Scheme) -> list[str]:
    """The same spans in another scheme; ill-formed tags are read leniently, so this also mends them."""
    return written(spans(tags, source), len(tags), target)


def well_formed(tags: Sequence[str], scheme: Scheme) -> bool:
    """Whether every tag is one of the scheme's and stands where it may."""
    if scheme == "none":
        return True
    parsed = [parse(tag, scheme) for tag in tags]
    sound = [tag for tag in parsed if tag is not None]
    if len(sound) < len(parsed):
        return False
    if not sound:
        return True
    ends = _may_stand(None, sound[0], scheme) and _may_stand(sound[-1], None, scheme)
    return ends and all(_may_stand(before, tag, scheme) for before, tag in pairwise(sound))


def transitions(tags: Sequence[str], scheme: Scheme) -> Transitions:
    """What may follow what among these tags, for a decoder that writes only what is well-formed.

    All is allowed in the scheme "none". Raises ConfigError for a tag that the scheme does not have.
    """
    count = len(tags)
    if scheme == "none":
        return Transitions(np.ones((count, count), np.bool_), np.ones(count, np.bool_), np.ones(count, np.bool_))
    parsed = [_known(tag, scheme) for tag in tags]
    after = [_may_stand(before, tag, scheme) for before in parsed for tag in parsed]
    return Transitions(
        np.array(after, np.bool_).reshape(count, count),
        np.array([_may_stand(None, tag, scheme) for tag in parsed], np.bool_),
        np.array([_may_stand(tag, None, scheme) for tag in parsed], np.bool_),
    )


def _may_stand(before: Tag | None, tag: Tag | None, scheme: Scheme) -> bool:
    """Whether `tag` may follow `before`; None stands for the beginning and the end of the sentence."""
    left, right = before or Tag(OUTSIDE, ""), tag or Tag(OUTSIDE, "")
    if scheme == "iob1":
        return right.place != "B" or (left.place != OUTSIDE and left.label == right.label)
    same = left.place in "BI" and left.label == right.label
    if scheme == "bio":
        return right.place != "I" or same
    if left.place in "BI":
        return right.place in "IE" and same
    return right.place in "OBS"


def found_scheme(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme that sentences of tags are written in, by the letters they use; "none" if they are plain labels.

    With B, I and O alone it is `iob1` if a span begins with I and no B stands where IOB1 has none; what is
    ill-formed in both is `bio`.
    """
    letters: set[str] = set()
    begins_with_i, is_iob1 = False, True
    for tags in sentences:
        before = Tag(OUTSIDE, "")
        for tag in tags:
            letter, hyphen, label = tag.partition("-")
            if len(letter) != 1 or letter not in "BIOESLUM" or (hyphen and (not label or letter == OUTSIDE)):
                return "none"
            letters.add(letter)
            now = Tag(letter, label)
            begins_with_i = begins_with_i or (letter == "I" and _begins(before, now))
            is_iob1 = is_iob1 and _may_stand(before, now, "iob1")
            before = now
    return _by_letters(letters, begins_with_i and is_iob1)


def _by_letters(letters: set[str], is_iob1: bool) -> Scheme:
    if not letters - {OUTSIDE}:
        return "none"
    if letters <= set("BIO"):
        return "iob1" if is_iob1 else "bio"
    if letters <= set("BES"):  # nothing stands outside: words, of one or two characters
        return "bmes"
    schemes: tuple[Scheme, ...] = ("bioes", "bilou", "bmes")
    for scheme in schemes:
        if letters <= {*_LETTERS[scheme], OUTSIDE}:
            return scheme
    return "none"


def strange_tags(tags: Iterable[str], scheme: Scheme) -> Iterator[str]:
    """The tags that the scheme does not have."""
    return (tag for tag in tags if scheme != "none" and parse(tag, scheme) is None)


def check_scheme(name: str) -> Scheme:
    """The scheme of that name; `iob2`, `iobes` and `bieos` are other names. Raises ConfigError if there is none."""
    name = {"iob2": "bio", "iobes": "bioes", "bieos": "bioes", "bmeso": "bmes"}.get(name.lower(), name)
    for scheme in SCHEMES:
        if scheme == name.lower():
            return scheme
    raise ConfigError(unknown("scheme", name, SCHEMES))


def _letters(scheme: Scheme) -> str:
    if scheme == "none":
        raise ConfigError("tags of the scheme 'none' mean no spans; name one of iob1, bio, bioes, bilou, bmes")
    return _LETTERS[scheme]


def _known(tag: str, scheme: Scheme) -> Tag:
    parsed = parse(tag, scheme)
    if parsed is None:
        raise ConfigError(f"{tag!r} is no tag of the scheme {scheme}; name the right one, or 'none'")
    return parsed
