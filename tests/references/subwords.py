"""Character n-grams and the Huffman tree, slowly, from their papers."""

from __future__ import annotations

import heapq


def fnv(text: str) -> int:
    """FNV-1a of 32 bits, in which a byte from 128 on counts as a negative number."""
    code = 2166136261
    for byte in text.encode():
        code ^= byte if byte < 128 else byte | 0xFFFFFF00
        code = code * 16777619 % 2**32
    return code


def ngrams(word: str, least: int, most: int) -> list[str]:
    """The substrings of <word> of that many characters, by where they begin; the marks alone are none."""
    marked = f"<{word}>"
    found = []
    for first in range(len(marked)):
        for length in range(least, most + 1):
            part = marked[first : first + length]
            if len(part) == length and not (length == 1 and first in (0, len(marked) - 1)):
                found.append(part)
    return found


def least_cost(counts: list[int]) -> int:
    """The sum over words of count times path length in the best tree: the weights of all inner nodes."""
    heap = list(counts)
    heapq.heapify(heap)
    total = 0
    while len(heap) > 1:
        weight = heapq.heappop(heap) + heapq.heappop(heap)
        total += weight
        heapq.heappush(heap, weight)
    return total
