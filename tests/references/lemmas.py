"""Lemmas by the longest known ending, slowly: every pair is looked at again for every ending of every word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence


def lemma(pairs: Sequence[tuple[str, str]], word: str, attested: Collection[str]) -> str:
    """The lemma of a new word, from known words and their lemmas.

    The longest ending, of 8 characters at most and with ^ where a word begins, decides that two of the known words
    with an edit have and whose edits fit: the most frequent edit, or before that one that leads to an attested
    lemma. Edits of less than a tenth of the ending's words are not thought of. Digits are alike.
    """
    known = [(marked(one), found) for one, its in pairs if (found := edit(one, its)) is not None]
    for size in range(min(8, len(marked(word))), 0, -1):
        ending = marked(word)[len(marked(word)) - size :]
        votes = Counter(found for one, found in known if one.endswith(ending))
        if sum(votes.values()) < 2:
            continue
        ranked = sorted(votes, key=lambda found: (-votes[found], found))
        likely = [found for found in ranked if 10 * votes[found] >= sum(votes.values())]
        made = [result for found in likely if (result := applied(found, word))]
        if made:
            return next((result for result in made if result in attested), made[0])
    return word


def marked(word: str) -> str:
    return "^" + "".join("0" if letter.isdecimal() else letter for letter in word)


def edit(word: str, its: str) -> tuple[int, str, str] | None:
    """How many letters go from the end, what comes, and what goes everywhere."""
    if its.startswith(word[: len(its)]) is False and len(its) < len(word):
        for letter in sorted(set(word)):
            if letter not in its and "".join(one for one in word if one != letter) == its:
                return 0, "", letter
    for size in range(min(len(word), len(its)), 0, -1):
        if word[:size] == its[:size]:
            return (len(word) - size, its[size:], "") if size else None
    return None


def applied(found: tuple[int, str, str], word: str) -> str:
    cut, comes, letter = found
    if letter:
        return "".join(one for one in word if one != letter) if letter in word else ""
    return word[: len(word) - cut] + comes if cut <= len(word) else ""
