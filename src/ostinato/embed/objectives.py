"""What is made better: each loss of each model as one call of a kernel on a chunk of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError
from ostinato.embed import copies
from ostinato.embed.copies import Copies, shares
from ostinato.embed.huffman import huffman
from ostinato.embed.lexicon import Lexicon
from ostinato.embed.matrices import Matrices
from ostinato.embed.options import VectorOptions
from ostinato.embed.sampling import alias_table, keep_thresholds, window_table, without_certain
from ostinato.embed.subwords import Subwords

Ids = NDArray[np.int32]
Totals = NDArray[np.float64]
"""Loss (nats), pairs of a context and a word, words that subsampling kept."""

Train: TypeAlias = Callable[[Ids, int, float, Totals], None]
"""Trains on a chunk of ids with a seed and a learning rate, and adds to the totals."""

LARGEST_SOFTMAX = 20_000
"""Words up to which the full softmax is offered."""


class Objective:
    """One loss of one model on one lexicon; `for_thread` gives what each thread calls."""

    def __init__(self, options: VectorOptions, lexicon: Lexicon, matrices: Matrices):
        self.options, self.matrices = options, matrices
        self._keep = without_certain(keep_thresholds(lexicon.counts, options.sample, options.formula))
        self._reaches = window_table(options.window, options.shrink)
        self._grams, self._numbers = np.zeros(len(lexicon) + 1, np.int64), np.zeros(0, np.int32)
        if options.subwords:
            self._grams, self._numbers = Subwords(options.least, options.most, options.buckets).table(lexicon.words)
        self._tables = self._made(lexicon)
        self._counts = lexicon.counts
        enough = int(self._counts.sum()) * options.epochs >= copies.ENOUGH
        self._copied = matrices.copied if enough and options.loss != "softmax" and not options.subwords else 0

    def _made(self, lexicon: Lexicon) -> tuple[NDArray[Any], ...]:
        """The arrays of the loss: an alias table, the paths of a tree, or the places of all rows."""
        loss, words, stride = self.options.loss, len(lexicon), self.matrices.stride
        if loss == "negative-sampling":
            return alias_table(lexicon.counts, self.options.exponent)
        if loss == "hierarchical-softmax":
            tree = huffman(lexicon.counts)
            return tree.offsets, tree.nodes, tree.codes
        if words > LARGEST_SOFTMAX:
            raise ConfigError(
                f"a softmax over {words:,} words takes too long (at most {LARGEST_SOFTMAX:,}); "
                "choose negative-sampling or hierarchical-softmax, or a limit on the words"
            )
        from ostinato.kernels.window import OUTPUTS

        everything = np.full(-(-words // OUTPUTS) * OUTPUTS, words * stride, np.int64)
        everything[:words] = np.arange(words) * stride
        return (everything,)

    @property
    def bags(self) -> bool:
        """Whether means or sums of several vectors predict."""
        return self.options.subwords or self.options.model != "skip-gram"

    @property
    def how(self) -> int:
        """How bags are made, for the kernels."""
        from ostinato.kernels import bag, path

        options = self.options
        flags = path.BAGS if self.bags else 0
        flags |= bag.CONTEXTS if options.model == "skip-gram" else 0
        flags |= bag.AVERAGED if options.model != "cbow-sum" else 0
        flags |= bag.GRAMS if options.subwords else 0
        return flags | (bag.EXACT if options.exact else 0)

    def for_thread(self, thread: int) -> Train:
        """What thread number `thread` calls, with scratch of its own."""
        from ostinato.kernels import bag, path, skipgram, whole

        options, matrices, desk = self.options, self.matrices, self._desk()
        own = self._copied, matrices.left_copies(thread), matrices.right_copies(thread)
        drawn = *self._tables, options.negatives, options.reuse, *own
        bags = self.how, self._grams, self._numbers, matrices.own_row(thread)
        kernel: Any
        if options.loss == "softmax":
            kernel, middle = whole.full_softmax, (*self._tables, *bags)
        elif options.loss == "hierarchical-softmax":
            kernel, middle = path.hierarchical_softmax, (*self._tables, *own, self._upper, *bags)
        elif self.bags:
            kernel, middle = bag.negative_sampling, (*drawn, *bags)
        else:
            kernel, middle = skipgram.negative_sampling, drawn

        def train(ids: Ids, seed: int, alpha: float, totals: Totals) -> None:
            before, after = (ids, self._keep, self._reaches), (matrices.left, matrices.right, matrices.stride)
            kernel(*before, *middle, np.uint64(seed), np.float32(alpha), *after, desk, totals)

        return train

    @property
    def _upper(self) -> int:
        """The first of the nodes that threads have copies of: those before the root, which is the last of V - 1."""
        return self.matrices.words - 1 - self._copied

    def copies(self) -> list[list[Copies]]:
        """What each thread has copies of: rows of the most frequent words, or of nodes near the root."""
        matrices, rate = self.matrices, self.options.rate
        if not self._copied:
            return [[] for _ in range(matrices.threads)]
        first = self._upper if self.options.loss == "hierarchical-softmax" else 0
        left, right = (matrix.reshape(-1, matrices.stride) for matrix in (matrices.left, matrices.right))
        read, predicted = self._updates()
        of_left, of_right = (
            shares(copies.PIECE * updates[: self._copied], rate, matrices.threads)
            for updates in (read, predicted[first:])
        )
        return [
            [
                Copies(left, 0, matrices.left_copies(thread), of_left),
                Copies(right, first, matrices.right_copies(thread), of_right),
            ]
            for thread in range(matrices.threads)
        ]

    def _updates(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How often a row of each matrix is updated, about, a word of the text: [V], and [V] or [V - 1] of nodes."""
        loss = self.options.loss
        share: NDArray[np.float64] = self._counts / max(1, self._counts.sum())
        kept = share * keep_thresholds(self._counts, self.options.sample, self.options.formula) / 2.0**32
        around = 2 * float(self._reaches.mean())
        times = around if self.options.model == "skip-gram" else 1.0
        if loss == "hierarchical-softmax":
            offsets, nodes, _ = self._tables
            passed = np.bincount(nodes, np.repeat(kept, np.diff(offsets)), len(kept) - 1)
            return kept * around, np.asarray(passed * times, np.float64)
        drawn = np.where(share > 0, share, 1) ** self.options.exponent * (share > 0)
        drawn *= self.options.negatives * kept.sum() / drawn.sum()
        return kept * around, (kept + drawn) * times

    def _desk(self) -> tuple[NDArray[Any], ...]:
        """Scratch for a kernel: arrays of every size it may need."""
        from ostinato.kernels import drawing
        from ostinato.kernels.window import GROUP, OUTPUTS

        options, contexts = self.options, 2 * self.options.window + 2
        most_grams = int(np.diff(self._grams).max(initial=0))
        tiles = (options.negatives + OUTPUTS) // OUTPUTS
        rights = drawing.SETS * tiles
        if options.loss == "softmax":
            tiles = len(self._tables[0]) // OUTPUTS
        elif options.loss == "hierarchical-softmax":
            tiles = rights = -(-int(np.diff(self._tables[0]).max(initial=1)) // OUTPUTS)
        signs = np.full(max(tiles, rights) * drawing.PAIR, -1, np.float32)
        signs[0] = signs[GROUP] = 1  # of negative sampling; a path writes its own
        return (
            np.zeros(drawing.SENTENCE + 1, np.int32),
            np.zeros(drawing.SENTENCE + 2 * GROUP, np.int64),
            np.zeros(contexts * (1 + most_grams) + 2 * GROUP, np.int64),
            np.zeros(rights * OUTPUTS, np.int64),
            np.full(rights * drawing.PAIR, drawing.NONE, np.int32),
            np.zeros(rights * drawing.PAIR, np.float32),
            signs,
            np.zeros(drawing.PAIR, np.float32),
            np.zeros((tiles + 1) * contexts * GROUP, np.float32),
            np.zeros(drawing.SETS, np.int64),
            np.zeros(contexts * self.matrices.stride, np.float32),
            np.zeros(contexts, np.int32),
        )
