"""Why an n-gram model gives a sentence the probability it does, word by word."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ostinato.core.vocabulary import STOP, UNKNOWN, Vocabulary
from ostinato.ngram.counts import Counts
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.store import Stored
from ostinato.ngram.table import Logs
from ostinato.ngram.trie import Trie
from ostinato.tasks.language.reshape import aligned, plain


@dataclass(frozen=True)
class BackOff:
    """One step to a shorter context: the context that was left, and its log back-off in nats."""

    context: tuple[str, ...]
    log_backoff: float


@dataclass(frozen=True)
class Behind:
    """The counts behind an n-gram that was found, as its smoothing uses them (see `Counts.adjusted`).

    occurrences: of the n-gram. count: what is discounted, the same or how many different words come before.
    context_count: the sum of `count` over the words seen after the context, `types` different ones. discount: what
    is taken off `count`, None if the smoothing discounts nothing or what it does is not known.
    """

    occurrences: int
    count: int
    context_count: int
    types: int
    discount: float | None


@dataclass(frozen=True)
class Explained:
    """One word: ngram is what was found in the table, its last word included; log_prob that of the whole, nats.

    found: the log-prob of `ngram` by itself; backoffs: what was added on the way to it, longest context first.
    word: as it was written; known: whether the vocabulary has it. behind: None without counts.
    """

    word: str
    known: bool
    ngram: tuple[str, ...]
    log_prob: float
    found: float
    backoffs: tuple[BackOff, ...]
    behind: Behind | None

    @property
    def order(self) -> int:
        """The length of the n-gram that was found."""
        return len(self.ngram)


@dataclass(frozen=True)
class Explanation:
    """A sentence word by word, `</s>` included, and what is known of the model."""

    words: tuple[Explained, ...]
    smoothing: str
    normalised: bool
    discounts: tuple[tuple[float, ...], ...]

    @property
    def log_prob(self) -> float:
        """Of the whole sentence, nats."""
        return sum(word.log_prob for word in self.words)

    @property
    def perplexity(self) -> float:
        """Per word, `</s>` counted."""
        mean = -self.log_prob / len(self.words)
        return math.exp(mean) if mean < 700 else math.inf

    def to_json(self) -> dict[str, Any]:
        """Plain values: `words` (each with `order`), `log_prob`, `perplexity`, and what is known of the model."""
        return {
            "words": [{**asdict(word), "order": word.order} for word in self.words],
            "log_prob": self.log_prob,
            "perplexity": self.perplexity,
            "smoothing": self.smoothing,
            "normalised": self.normalised,
            "discounts": [list(values) for values in self.discounts],
        }


def explain(stored: Stored, sentence: str, counts: tuple[Counts, Vocabulary] | None = None) -> Explanation:
    """What the model does for every word of a sentence; the sum is what `score` gives.

    counts: of the text the model was made from, with their vocabulary, to show what stands behind the numbers.
    Raises MismatchError if these lack a word of the model. Cost: a copy of the whole table.
    """
    model = plain(stored)
    vocabulary, table = model.vocabulary, model.table
    table_parts = table.contents()
    behind = None if counts is None else Evidence(aligned(*counts, vocabulary), table.smoothing, table.discounts)
    written = [*stored.pipeline.pieces(sentence), STOP]
    ids = [*vocabulary.ids(written[:-1]).tolist(), vocabulary.stop]
    history = [vocabulary.start]
    words = []
    for piece, word in zip(written, ids, strict=True):
        node, backoffs = looked_up(*table_parts, history[1 - table.order :] if table.order > 1 else [], word)
        trie, log_prob, _ = table_parts
        ngram = trie.words_of(node)
        found = float(log_prob[node])
        words.append(
            Explained(
                word=piece,
                known=word != vocabulary.unknown,
                ngram=tuple(vocabulary.pieces_of(ngram)),
                log_prob=found + sum(log for _, log in backoffs),
                found=found,
                backoffs=tuple(BackOff(tuple(vocabulary.pieces_of(context)), log) for context, log in backoffs),
                behind=None if behind is None else behind.of(ngram),
            )
        )
        history.append(word)
    return Explanation(tuple(words), table.smoothing, table.normalised, table.discounts)


def looked_up(
    trie: Trie, log_prob: Logs, log_backoff: Logs, context: Sequence[int], word: int
) -> tuple[int, list[tuple[list[int], float]]]:
    """The node of the longest n-gram that ends with the word, and the contexts left on the way, with their back-offs.

    Every suffix of the context is tried, the longest first; one that is not in the trie costs nothing.
    """
    left: list[tuple[list[int], float]] = []
    for begin in range(len(context) + 1):
        tried = list(context[begin:])
        node = trie.find([*tried, word])
        if node >= 0:
            return node, left
        inner = trie.find(tried)
        if 0 <= inner < trie.inner and (log_backoff[inner] or np.diff(trie.first_child[inner : inner + 2])):
            left.append((tried, float(log_backoff[inner])))
    raise AssertionError("every word is a child of node 0")


class Evidence:
    """Where the counts behind an n-gram are found."""

    def __init__(self, counts: Counts, smoothing: str, discounts: Sequence[Sequence[float]]):
        self.counts, self.discounts = counts, discounts
        known = smoothing in smoothings
        self.continuation = known and bool(getattr(smoothings[smoothing], "continuation", False))

    def of(self, ngram: Sequence[int]) -> Behind | None:
        """The counts behind an n-gram, None if it was not counted."""
        counts, order = self.counts, len(ngram)
        node, context = counts.trie.find(ngram), counts.trie.find(ngram[:-1])
        if order > counts.order or node < 0:
            return None
        level = counts.trie.level(order)
        used = counts.continuations(order) if self.continuation else counts.raw(order)
        children = counts.trie.first_child[context : context + 2] - level.start
        seen = used[children[0] : children[1]].astype(np.int64)
        count = int(used[node - level.start])
        steps = self.discounts[order - 1] if order <= len(self.discounts) else ()
        taken = (0.0, *steps)[min(count, len(steps))] if steps else None
        return Behind(int(counts.count[node]), count, int(seen.sum()), int(np.count_nonzero(seen)), taken)


def arithmetic(word: Explained) -> str:
    """The probability of a word as a product: back-offs, then the n-gram that was found."""
    factors = [f"{math.exp(step.log_backoff):.3g} [{' '.join(step.context)}]" for step in word.backoffs]
    last, context = word.ngram[-1], " ".join(word.ngram[:-1])
    return " × ".join([*factors, f"{math.exp(word.found):.3g} p({last}{' | ' if context else ''}{context})"])


def remark_on(words: Sequence[Explained]) -> str | None:
    """What to say about words that the model does not know."""
    unknown = list(dict.fromkeys(word.word for word in words if not word.known))
    if not unknown:
        return None
    listed = ", ".join(unknown)
    return f"not in the vocabulary: {listed}; read as {UNKNOWN}, and counted with the probability that {UNKNOWN} has"
