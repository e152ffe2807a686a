"""Smoothings with dictionaries and recursion: slow, and written from their definitions; nothing of src/ is used.

Katz (1987), Gale and Sampson (1995), Jelinek and Mercer (1980), Witten and Bell (1991), Ney et al. (1994), Brants et
al. (2007); Chen and Goodman (1999) for the counts of sentences with a start symbol.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

START = "<s>"
Gram = tuple[object, ...]
Lines = Sequence[Sequence[object]]
Off = Callable[[int, int], float]
"""What is taken off: of the length of an n-gram, and its count."""


class SlowCounts:
    """Occurrences of the n-grams of sentences; `predictable` lists every word, `stop` among them."""

    def __init__(self, sentences: Lines, predictable: Sequence[object], stop: object, order: int):
        self.predictable, self.stop, self.order = predictable, stop, order
        self.occurrences: Counter[Gram] = Counter()
        self.before: defaultdict[Gram, set[object]] = defaultdict(set)
        for gram in self.predictions(sentences, whole=False):
            self.occurrences[gram] += 1
        for line in sentences:
            for history in self.histories(line):
                for begin in range(1, min(order, len(history) - 1) + 1):
                    self.before[history[-begin:]].add(history[-begin - 1])

    def histories(self, line: Sequence[object]) -> list[Gram]:
        """The line up to each of its predicted words, that word included."""
        whole = (START, *line, self.stop)
        return [whole[:end] for end in range(2, len(whole) + 1)]

    def predictions(self, sentences: Lines, whole: bool) -> list[Gram]:
        """For each predicted word the n-grams that it ends, or the longest alone (whole)."""
        found = []
        for line in sentences:
            for history in self.histories(line):
                longest = min(self.order, len(history))
                found += [history[-length:] for length in ([longest] if whole else range(1, longest + 1))]
        return found

    def adjusted(self, gram: Gram) -> int:
        """The occurrences in the highest order and after the sentence start, else N1+(. gram)."""
        if len(gram) == self.order or gram[0] == START:
            return self.occurrences[gram]
        return len(self.before[gram]) if gram in self.before else 0

    def followers(self, context: Gram, adjusted: bool = False) -> dict[object, int]:
        """The words seen after a context with their counts."""
        count = self.adjusted if adjusted else self.occurrences.__getitem__
        return {word: count((*context, word)) for word in self.predictable if count((*context, word))}

    def total(self, context: Gram) -> int:
        """How often some word follows a context."""
        return sum(self.followers(context).values())

    def cut(self, context: Gram) -> Gram:
        """The last order - 1 words of a context."""
        return context[len(context) - min(len(context), self.order - 1) :]


def mle(counts: SlowCounts, word: object, context: Gram) -> float:
    """c(hw) / c(h) for the longest suffix of the context that was seen."""
    context = counts.cut(context)
    while not counts.followers(context):
        context = context[1:]
    return counts.occurrences[(*context, word)] / counts.total(context)


def additive(counts: SlowCounts, k: float, word: object, context: Gram) -> float:
    """(c(hw) + k) / (c(h) + k V) with all of the last order - 1 words."""
    context = counts.cut(context)
    return (counts.occurrences[(*context, word)] + k) / (counts.total(context) + k * len(counts.predictable))


def witten_bell(counts: SlowCounts, word: object, context: Gram) -> float:
    """(c(hw) + N1+ p(w | shorter)) / (c(h) + N1+)."""
    context = counts.cut(context)
    followers = counts.followers(context)
    lower = witten_bell(counts, word, context[1:]) if context else 1 / len(counts.predictable)
    if not followers:
        return lower
    return (followers.get(word, 0) + len(followers) * lower) / (sum(followers.values()) + len(followers))


def stupid(counts: SlowCounts, alpha: float, word: object, context: Gram) -> float:
    """c(hw) / c(h) if seen, else alpha times the shorter context's score; unseen contexts are free."""
    context = counts.cut(context)
    followers = counts.followers(context)
    if word in followers:
        return followers[word] / sum(followers.values())
    price = alpha if followers else 1.0
    return price * (stupid(counts, alpha, word, context[1:]) if context else 1 / sum(followers.values()))


def backed_off(counts: SlowCounts, off: Off, adjusted: bool, word: object, context: Gram) -> float:
    """(c - D) / T if seen, else alpha(h) p(w | shorter); nothing off where all words are seen, else something."""
    context = counts.cut(context)
    followers = counts.followers(context, adjusted)

    def lower(other: object) -> float:
        return backed_off(counts, off, adjusted, other, context[1:]) if context else 1 / len(counts.predictable)

    if not followers:
        return lower(word)
    total = sum(followers.values())
    unseen = [other for other in counts.predictable if other not in followers]
    if not unseen:
        return followers[word] / total
    taken = {other: off(len(context) + 1, c) for other, c in followers.items()}
    free = sum(taken.values())
    if free < 1e-9:
        total, free = total + 1, 1.0
    if word in followers:
        return (followers[word] - taken[word]) / total
    return free / total * lower(word) / sum(lower(other) for other in unseen)


def absolute(counts: SlowCounts, off: Off, word: object, context: Gram) -> float:
    """(c - D) / c(h) + (what D frees) p(w | shorter), with the occurrences."""
    context = counts.cut(context)
    followers = counts.followers(context)
    lower = absolute(counts, off, word, context[1:]) if context else 1 / len(counts.predictable)
    if not followers:
        return lower
    free = sum(off(len(context) + 1, c) for c in followers.values())
    own = followers[word] - off(len(context) + 1, followers[word]) if word in followers else 0.0
    return (own + free * lower) / sum(followers.values())


def having(counts: SlowCounts, length: int) -> Counter[int]:
    """How many n-grams of a length occur once, twice, ..."""
    return Counter(c for gram, c in counts.occurrences.items() if len(gram) == length)


def one_discount(numbers: Mapping[int, int], fallback: float = 0.75) -> float:
    """n1 / (n1 + 2 n2)."""
    n1, n2 = numbers.get(1, 0), numbers.get(2, 0)
    return n1 / (n1 + 2 * n2) if n1 and n2 else fallback


def good_turing_offs(numbers: Mapping[int, int], cutoff: int = 5) -> Callable[[int], float]:
    """r - d_r r of Katz for a count r, with Gale and Sampson's r*; smaller cut-offs and then D if impossible."""
    for k in range(cutoff, 1, -1):
        stars = good_turing(numbers)
        if stars is None:
            break
        m = (k + 1) * numbers.get(k + 1, 0) / numbers[1]
        if m >= 1:
            continue
        d = {r: (stars(r) / r - m) / (1 - m) for r in range(1, k + 1)}
        if all(1e-9 < ratio < 1 + 1e-9 for ratio in d.values()):
            return lambda r, d=d: r - d.get(r, 1.0) * r
    return lambda r: one_discount(numbers)


def good_turing(numbers: Mapping[int, int]) -> Callable[[int], float] | None:
    """r* of simple Good-Turing; None without singletons or with a slope that is not below -1."""
    counts = sorted(r for r, n in numbers.items() if n)
    if len(counts) < 2 or counts[0] != 1:
        return None
    z = []
    for place, r in enumerate(counts):
        q = counts[place - 1] if place else 0
        t = counts[place + 1] if place + 1 < len(counts) else 2 * r - q
        z.append(numbers[r] / (0.5 * (t - q)))
    slope, height = np.polyfit(np.log(counts), np.log(z), 1)
    if slope >= -1 - 1e-9:
        return None

    def smoothed(r: int) -> float:
        return math.exp(height + slope * math.log(r))

    def star(r: int) -> float:
        for s in range(1, r + 1):
            y = (s + 1) * smoothed(s + 1) / smoothed(s)
            n, above = numbers.get(s, 0), numbers.get(s + 1, 0)
            if not (n and above):
                break
            x = (s + 1) * above / n
            if abs(x - y) <= 1.65 * math.sqrt((s + 1) ** 2 * above / n**2 * (1 + above / n)):
                break
            if s == r:
                return x
        return (r + 1) * smoothed(r + 1) / smoothed(r)

    return star


class SlowJelinekMercer:
    """Weights by EM on lines, or on the sentences counted, each word left out; then p(word | context)."""

    def __init__(self, counts: SlowCounts, sentences: Lines, heldout: Lines | None):
        self.counts, self.uniform = counts, 1 / len(counts.predictable)
        self.weights: defaultdict[tuple[int, int], float] = defaultdict(lambda: 0.5)
        left = 1 if heldout is None else 0
        longest = counts.predictions(sentences if heldout is None else heldout, whole=True)
        rows = [self.row(gram, left) for gram in longest]
        before = -math.inf
        for _ in range(200):
            likelihood = self.round(rows)
            if likelihood - before < 1e-6 * len(rows):
                break
            before = likelihood

    def row(self, gram: Gram, left: int) -> list[tuple[tuple[int, int], float]]:
        """The class and the relative frequency of each order, the unigram first, of one predicted word."""
        found = []
        for length in range(1, len(gram) + 1):
            part = gram[-length:]
            total = self.counts.total(part[:-1])
            if total > left:
                c = max(self.counts.occurrences[part] - left, 0)
                found.append(((length, int(math.log2(total - left))), c / (total - left)))
        return found

    def round(self, rows: list[list[tuple[tuple[int, int], float]]]) -> float:
        """Better weights; the log-likelihood before."""
        used: defaultdict[tuple[int, int], float] = defaultdict(float)
        asked: defaultdict[tuple[int, int], float] = defaultdict(float)
        likelihood = 0.0
        for row in rows:
            # p(came from this order) = weight * f * product of (1 - weight) of the orders above
            shares, above = [], 1.0
            for kind, f in reversed(row):
                shares.append((kind, above * self.weights[kind] * f))
                above *= 1 - self.weights[kind]
            p = sum(share for _, share in shares) + above * self.uniform
            likelihood += math.log(p)
            rest = 1.0
            for kind, share in shares:
                asked[kind] += rest
                used[kind] += share / p
                rest -= share / p
        for kind in asked:
            self.weights[kind] = (used[kind] + 0.5) / (asked[kind] + 1)
        return likelihood

    def probability(self, word: object, context: Gram) -> float:
        """lambda c(hw) / c(h) + (1 - lambda) p(w | shorter)."""
        context = self.counts.cut(context)
        lower = self.probability(word, context[1:]) if context else self.uniform
        total = self.counts.total(context)
        if not total:
            return lower
        weight = self.weights[len(context) + 1, int(math.log2(total))]
        return weight * self.counts.occurrences[(*context, word)] / total + (1 - weight) * lower


def back_off_mass(known: Mapping[Gram, float], predictable: Sequence[object], word: object, context: Gram) -> float:
    """p(word | context) where `known` holds p of some n-grams: other words share the rest as the shorter context says.

    Every word alone is known.
    """
    if (*context, word) in known:
        return known[(*context, word)]
    seen = [other for other in predictable if (*context, other) in known]
    lower = back_off_mass(known, predictable, word, context[1:])
    if not seen:
        return lower
    left = 1 - sum(known[(*context, other)] for other in seen)
    free = 1 - sum(back_off_mass(known, predictable, other, context[1:]) for other in seen)
    return lower * max(left, 0) / free if free > 1e-9 else lower
