"""Interpolated Kneser-Ney with dictionaries, sets and recursion: slow, and written from the papers alone.

Chen and Goodman (1999), "An empirical study of smoothing techniques for language modeling", Kneser-Ney and
modified Kneser-Ney smoothing; nothing of src/ is used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

START = "<s>"
Gram = tuple[object, ...]


class SlowKneserNey:
    """p(word | context) of sentences of words; `predictable` lists every word, `stop` among them."""

    def __init__(
        self,
        sentences: Sequence[Sequence[object]],
        predictable: Sequence[object],
        stop: object,
        order: int,
        modified: bool,
    ):
        self.predictable, self.order, self.modified = predictable, order, modified
        self.occurrences: Counter[Gram] = Counter()
        self.before: defaultdict[Gram, set[object]] = defaultdict(set)
        for sentence in sentences:
            line = (START, *sentence, stop)
            for end in range(2, len(line) + 1):
                for begin in range(max(0, end - order), end):
                    self.occurrences[line[begin:end]] += 1
                    if begin:
                        self.before[line[begin:end]].add(line[begin - 1])

    def count(self, gram: Gram) -> int:
        """Occurrences in the highest order and after the sentence start, else N1+(. gram)."""
        if len(gram) == self.order or gram[0] == START:
            return self.occurrences[gram]
        return len(self.before[gram]) if gram in self.before else 0

    def discounts(self, length: int) -> tuple[float, float, float]:
        """What is subtracted from counts of 1, 2, and 3 or more in n-grams of this length."""
        having = Counter(self.count(gram) for gram in self.occurrences if len(gram) == length)
        n1, n2, n3, n4 = (having[value] for value in (1, 2, 3, 4))
        if not self.modified:
            d = n1 / (n1 + 2 * n2) if n1 > 0 and n2 > 0 else 0.75
            return d, d, d
        if n1 == 0 or n2 == 0 or n3 == 0:
            return 0.5, 1.0, 1.5
        y = n1 / (n1 + 2 * n2)
        three = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        return three if all(d > 0 for d in three) else (0.5, 1.0, 1.5)

    def probability(self, word: object, context: Gram) -> float:
        """p(word | context); only the last order - 1 words of the context matter."""
        context = context[len(context) - min(len(context), self.order - 1) :]
        followers = {v: c for v in self.predictable if (c := self.count((*context, v)))}
        if not followers:
            return self.lower(word, context)
        off = self.discounts(len(context) + 1)
        subtracted = {v: off[min(c, 3) - 1] for v, c in followers.items()}
        total = sum(followers.values())
        gamma = sum(subtracted.values()) / total
        mine = followers[word] - subtracted[word] if word in followers else 0.0
        return mine / total + gamma * self.lower(word, context)

    def lower(self, word: object, context: Gram) -> float:
        """The next shorter context's opinion; below the unigrams, the uniform distribution."""
        return self.probability(word, context[1:]) if context else 1 / len(self.predictable)
