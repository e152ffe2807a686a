"""Kernels that make the tables of kernels/alias.py and kernels of hierarchical softmax."""

from __future__ import annotations

import numba
import numpy as np

FULL = 4294967296.0


@numba.njit(cache=True, nogil=True)
def fill_alias(weights, thresholds, others, work):
    """Fill an alias table for drawing by `weights` [V], which add up to V and are changed.

    A slot keeps its own word with chance (threshold + 1) / 2**32, else it gives the other. Slots of too little weight
    are filled up from those of too much. work: scratch [V], small slots from the left, large ones from the right.
    Source: [Vose1991].
    """
    small, large = 0, work.size
    for word in range(weights.size):
        thresholds[word] = np.uint32(0xFFFFFFFF)
        others[word] = word
        if weights[word] < 1.0:
            work[small] = word
            small += 1
        else:
            large -= 1
            work[large] = word
    while small > 0 and large < work.size:
        small -= 1
        poor, rich = work[small], work[large]
        thresholds[poor] = np.uint32(max(0.0, np.rint(weights[poor] * FULL) - 1.0))
        others[poor] = rich
        weights[rich] -= 1.0 - weights[poor]
        if weights[rich] < 1.0:
            large += 1
            work[small] = rich
            small += 1


@numba.njit(cache=True, nogil=True)
def join_nodes(counts, order, parents, codes, weights):
    """The Huffman tree of `counts` [V], visited in `order`, by falling count.

    Fills parents and codes [2V - 1] of leaves (0 to V - 1) and inner nodes (V to 2V - 2, in the order they are made,
    the root last); the lighter child has code 0, and between equals an inner node is taken first, as word2vec.c does.
    weights: scratch [V - 1] int64. Cost: linear. Source: [Leeuwen1976].
    """
    leaf, inner = order.size - 1, 0
    for made in range(order.size - 1):
        weight = 0
        for code in range(2):
            if leaf >= 0 and (inner >= made or counts[order[leaf]] < weights[inner]):
                child = order[leaf]
                weight += counts[child]
                leaf -= 1
            else:
                child = order.size + inner
                weight += weights[inner]
                inner += 1
            parents[child] = order.size + made
            codes[child] = code
        weights[made] = weight
    parents[2 * order.size - 2] = -1


@numba.njit(cache=True, nogil=True)
def measure_paths(parents, depths):
    """Fill the depths [2V - 1] of leaves and inner nodes; the root has 0."""
    words = depths.size // 2 + 1
    depths[depths.size - 1] = 0
    for node in range(depths.size - 2, -1, -1):
        if node >= words:
            depths[node] = depths[parents[node]] + 1
    for node in range(words):
        if parents[node] >= 0:
            depths[node] = depths[parents[node]] + 1


@numba.njit(cache=True, nogil=True)
def write_paths(parents, codes, offsets, nodes, path_codes):
    """Write for each word the inner nodes (numbered from 0) from the root to it, and which way to go there."""
    words = offsets.size - 1
    for word in range(words):
        node = word
        for place in range(offsets[word + 1] - 1, offsets[word] - 1, -1):
            path_codes[place] = codes[node]
            node = parents[node]
            nodes[place] = node - words
