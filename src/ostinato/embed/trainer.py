"""Training of word vectors: chunks of text by turns, from all threads, under a learning rate that falls."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DivergedError
from ostinato.embed.copies import Copies, pieces
from ostinato.embed.corpus import Corpus
from ostinato.embed.matrices import Matrices
from ostinato.embed.objectives import Objective, Train
from ostinato.embed.options import VectorOptions

CHUNK = 1 << 15
"""Words that a thread trains on between two looks at the learning rate."""

WHOLE, LEAST = 1 << 20, 64
"""With full softmax each word costs an output for every word known: outputs between two looks, and words at least."""

LEG = 0.5
"""Seconds, about, after which all threads meet."""

_SPREAD, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


@dataclass(frozen=True)
class Report:
    """What was done since the report before.

    step, steps: chunks done and in all, of all epochs. words: of the text, without those that have no vector. kept:
    of them, those that subsampling kept. total_words: of the text, up to here, of all epochs. pairs: of a context and
    a word. loss: nats a pair, the mean of what is made better (with the words drawn against it). learning_rate: now.
    seconds: since training began, of this process.
    """

    epoch: int
    step: int
    steps: int
    words: int
    kept: int
    pairs: int
    loss: float
    learning_rate: float
    seconds: float
    words_per_second: float
    total_words: int


class Trainer:
    """Trains two matrices on a corpus; `step` chunks of all epochs are done, and it may go on from any of them.

    Everything a chunk does is determined by the matrices, its place and the seed: with one thread the same
    vectors come out bit for bit, stopped in between or not. With several, threads write over each other now and then.
    Source: [Mikolov2013a], [Mikolov2013b]; threads: [Niu2011].
    """

    def __init__(self, corpus: Corpus, options: VectorOptions, threads: int, matrices: Matrices | None = None):
        self.corpus, self.options, self.threads = corpus, options, threads
        buckets = options.buckets if options.subwords else 0
        if matrices is None:
            matrices = Matrices(len(corpus.lexicon), options.dimensions, buckets, threads)
            matrices.begin(options.seed)
        self.matrices = matrices
        self._objective = Objective(options, corpus.lexicon, matrices)
        self._workers = [self._objective.for_thread(thread) for thread in range(threads)]
        self._copies = self._objective.copies()
        full = options.loss == "softmax"
        self._bounds = corpus.chunks(max(LEAST, WHOLE // len(corpus.lexicon)) if full else CHUNK)
        self._largest = int(np.diff(self._bounds).max(initial=0))
        self._buffers = [np.empty(self._largest, np.int32) for _ in range(threads)]
        self.step = 0

    @property
    def chunks(self) -> int:
        """Chunks of an epoch."""
        return len(self._bounds) - 1

    @property
    def steps(self) -> int:
        """Chunks of all epochs."""
        return self.chunks * self.options.epochs

    def learning_rate(self, step: int) -> float:
        """The rate for a chunk: a straight line over the text of all epochs, not below the floor."""
        epoch, chunk = divmod(step, max(1, self.chunks))
        done = (epoch + self._bounds[chunk] / max(1, self._bounds[-1])) / self.options.epochs
        return max(self.options.floor, self.options.rate + (self.options.floor - self.options.rate) * float(done))

    def run(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Report]:
        """Train to the end, or until `stop` says so between two legs; a report after each.

        Raises DivergedError if numbers are not finite any more.
        """
        begun = before = time.monotonic()
        leg = self.threads
        with ThreadPoolExecutor(self.threads) as pool:
            while self.step < self.steps and not stop():
                epoch_end = (self.step // self.chunks + 1) * self.chunks
                last = min(self.step + leg, epoch_end, self.steps)
                totals = self._leg(pool, last)
                now = time.monotonic()
                report = self._report(last, totals, now - begun, now - before)
                rate = (last - self.step) / max(now - before, 1e-6)
                leg = max(self.threads, min(8 * leg, round(rate * LEG)))
                self.step = last
                yield report
                before = time.monotonic()

    def _leg(self, pool: ThreadPoolExecutor, last: int) -> NDArray[np.float64]:
        """Train up to chunk `last` with all threads; the sums of what they report."""
        turns = itertools.count(self.step)

        def work(thread: int) -> NDArray[np.float64]:
            totals, copies = np.zeros(3), self._copies[thread]
            for mine in copies:
                mine.renew()
            for step in turns:
                if step >= last:
                    break
                self._train(step, self._workers[thread], self._buffers[thread], totals, copies)
            return totals

        totals: NDArray[np.float64] = np.sum(list(pool.map(work, range(self.threads))), axis=0)
        return totals

    def _train(
        self, step: int, train: Train, buffer: NDArray[np.int32], totals: NDArray[np.float64], copies: list[Copies]
    ) -> None:
        chunk = step % self.chunks
        ids = buffer[: self._bounds[chunk + 1] - self._bounds[chunk]]
        self.corpus.read(int(self._bounds[chunk]), int(self._bounds[chunk + 1]), ids)
        seed, rate = mixed(self.options.seed, step), self.learning_rate(step)
        if not copies:
            train(ids, seed, rate, totals)
            return
        for number, piece in enumerate(pieces(ids)):
            train(piece, mixed(seed, number), rate, totals)
            for mine in copies:
                mine.join()

    def _report(self, last: int, totals: NDArray[np.float64], seconds: float, leg: float) -> Report:
        loss, pairs, kept = totals.tolist()
        if not math.isfinite(loss):
            raise DivergedError(
                f"training met NaN or Inf between chunks {self.step:,} and {last:,}; take a smaller learning rate "
                f"(now {self.options.rate}), or cbow-mean instead of cbow-sum"
            )
        words = self._words(last) - self._words(self.step)
        return Report(
            epoch=min((last - 1) // max(1, self.chunks) + 1, self.options.epochs),
            step=last,
            steps=self.steps,
            words=words,
            kept=int(kept),
            pairs=int(pairs),
            loss=loss / pairs if pairs else math.nan,
            learning_rate=self.learning_rate(last) if last < self.steps else self.options.floor,
            seconds=seconds,
            words_per_second=words / max(leg, 1e-6),
            total_words=self._words(last),
        )

    def _words(self, step: int) -> int:
        """Words of the text before a chunk, those of earlier epochs too."""
        epoch, chunk = divmod(step, max(1, self.chunks))
        share = self._bounds[chunk] / max(1, int(self._bounds[-1]))
        return round((epoch + float(share)) * self.corpus.words)


def mixed(seed: int, step: int) -> int:
    """A seed of 64 bits, never 0, for one chunk [Steele2014]."""
    x = (seed * _SPREAD + step + 1) * _SPREAD & _MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return (x ^ x >> 31) or 1
