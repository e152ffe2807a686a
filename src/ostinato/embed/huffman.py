"""The Huffman tree of a lexicon, for hierarchical softmax: frequent words get short paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Huffman:
    """The path of every word: nodes[offsets[w] : offsets[w + 1]] from the root on, and the code at each of them.

    offsets: [V + 1], int64. nodes: inner nodes, 0 to V - 2, the root being V - 2, int32. codes: 0 towards the lighter
    child and 1 towards the heavier one, uint8. One word alone has no nodes.
    """

    offsets: NDArray[np.int64]
    nodes: NDArray[np.int32]
    codes: NDArray[np.uint8]

    @property
    def longest(self) -> int:
        """The nodes of the longest path."""
        return int(np.diff(self.offsets).max())


def huffman(counts: NDArray[np.int64]) -> Huffman:
    """The tree of the least average path, by counts [V] in any order; ties as in word2vec.c.

    Cost: linear after sorting. Raises ConfigError without words.
    Source: [Huffman1952], [Leeuwen1976].
    """
    from ostinato.kernels import sampling as kernels

    words = len(counts)
    if not words:
        raise ConfigError("a Huffman tree needs words; give at least one count")
    counts = np.ascontiguousarray(counts, np.int64)
    order = np.argsort(-counts, kind="stable")
    parents, codes = np.empty(2 * words - 1, np.int64), np.zeros(2 * words - 1, np.uint8)
    kernels.join_nodes(counts, order, parents, codes, np.empty(words - 1, np.int64))
    depths = np.empty(2 * words - 1, np.int64)
    kernels.measure_paths(parents, depths)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(depths[:words])])
    nodes, path_codes = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.uint8)
    kernels.write_paths(parents, codes, offsets, nodes, path_codes)
    return Huffman(offsets, nodes, path_codes)
