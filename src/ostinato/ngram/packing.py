"""Where the parts of a compact table lie in its three arrays, and how numbers and bits are packed into them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.ngram.trie import Nodes, damaged

if TYPE_CHECKING:
    from ostinato.kernels.compact import Layout

Packed: TypeAlias = NDArray[np.uint64]

ARRAYS = {"packed": np.uint64, "counts": np.int32, "logs": np.float32}
"""The arrays of a table, each one row."""

PROB_BITS, BACKOFF_BITS = range(4, 17), range(8, 17)
"""How long codes may be."""

BLOCK, HINT = 256, 32
"""Ones are counted before every so many bits; of every so many-th one of `children` the place is noted."""


@dataclass(frozen=True)
class Shape:
    """The sizes that say where everything lies; raises FormatError if they do not agree.

    ngrams: how many there are of each order. contexts: how many nodes have children or a back-off.
    prob_bits, backoff_bits: how long codes are. prob_sizes, backoff_sizes: how many codes the book of each
    length of context has. scales: how many contexts have their children's log-probs shifted.
    """

    ngrams: tuple[int, ...]
    contexts: int
    prob_bits: int
    backoff_bits: int
    prob_sizes: tuple[int, ...]
    backoff_sizes: tuple[int, ...]
    scales: int

    def __post_init__(self) -> None:
        if not self.ngrams or min(self.ngrams) < 0 or self.ngrams[0] < 2 or not 1 <= self.contexts <= self.inner:
            raise damaged(f"{self.contexts} contexts and n-gram numbers {self.ngrams} do not agree")
        if self.prob_bits not in PROB_BITS or self.backoff_bits not in BACKOFF_BITS:
            raise damaged(f"codes of {self.prob_bits} and {self.backoff_bits} bits")
        for books, bits in ((self.prob_sizes, self.prob_bits), (self.backoff_sizes, self.backoff_bits)):
            if len(books) != self.order or not all(0 <= size <= 1 << bits for size in books):
                raise damaged(f"codebooks of {books} numbers for {self.order} orders and codes of {bits} bits")
        if self.prob_sizes[0] or not 0 <= self.scales < self.contexts:
            raise damaged(f"{self.scales} scales for {self.contexts} contexts, or codes for words")

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.ngrams)

    @property
    def outputs(self) -> int:
        """How many words can be predicted."""
        return self.ngrams[0] - 1

    @property
    def nodes(self) -> int:
        """How many nodes there are, the empty context included."""
        return 1 + sum(self.ngrams)

    @property
    def inner(self) -> int:
        """How many nodes are below the highest order."""
        return self.nodes - self.ngrams[-1]

    @property
    def word_bits(self) -> int:
        """Bits of a word that can be predicted."""
        return (self.outputs - 1).bit_length()

    @property
    def record_bits(self) -> int:
        """Bits of a node above order 1: its word and the code of its log-prob."""
        return self.word_bits + self.prob_bits

    @property
    def bits(self) -> dict[str, int]:
        """How many bits say which nodes are contexts, and where the children of each context end."""
        return {"contexts": self.inner, "children": self.nodes + self.contexts + 1}

    @cached_property
    def parts(self) -> dict[str, dict[str, slice]]:
        """The places of the parts of each array."""
        blocks = {name: -(-number // BLOCK) for name, number in self.bits.items()}
        sizes = {
            "packed": {
                **{name: number * BLOCK // 64 for name, number in blocks.items()},
                "records": packed_size(self.nodes - self.outputs - 2, self.record_bits),
                "backoffs": packed_size(self.contexts, self.backoff_bits),
            },
            "counts": {
                **{f"{name}_rank": number + 1 for name, number in blocks.items()},
                "children_hint": self.contexts // HINT + 2,
                "prob_begin": self.order,
                "backoff_begin": self.order,
                "scaled": self.scales,
            },
            "logs": {
                "unigrams": self.outputs + 2,
                "prob_book": sum(self.prob_sizes),
                "backoff_book": sum(self.backoff_sizes),
                "scale": self.scales,
            },
        }
        return {array: consecutive(lengths) for array, lengths in sizes.items()}

    @property
    def size(self) -> dict[str, int]:
        """The length of each array."""
        return {array: max(part.stop for part in parts.values()) for array, parts in self.parts.items()}

    @cached_property
    def layout(self) -> Layout:
        """The same for the kernels."""
        from ostinato.kernels.compact import Layout

        begins = {name: part.start for parts in self.parts.values() for name, part in parts.items()}
        del begins["unigrams"]
        return Layout(
            **begins,
            order=self.order,
            start=self.outputs,
            contexts_blocks=-(-self.bits["contexts"] // BLOCK),
            children_blocks=-(-self.bits["children"] // BLOCK),
            scales=self.scales,
            word_bits=self.word_bits,
            prob_bits=self.prob_bits,
            backoff_bits=self.backoff_bits,
        )


def consecutive(lengths: Mapping[str, int]) -> dict[str, slice]:
    """The places of parts of these lengths that lie one after the other."""
    ends = np.cumsum(list(lengths.values())).tolist()
    return {name: slice(end - lengths[name], end) for name, end in zip(lengths, ends, strict=True)}


def packed_size(number: int, width: int) -> int:
    """Words that so many numbers of so many bits take, and one more, which lets a kernel read two at a time."""
    return -(-number * width // 64) + 1


def packed_numbers(values: NDArray[Any], width: int) -> Packed:
    """Numbers below 2^width, side by side, the lowest bits first."""
    from ostinato.kernels import bits as kernel

    packed = np.zeros(packed_size(len(values), width), np.uint64)
    kernel.pack(values, width, packed)
    return packed


def unpacked_numbers(packed: Packed, width: int, number: int, shift: int = 0, mask: int = -1) -> Nodes:
    """The first numbers that were packed, each shifted right and masked."""
    from ostinato.kernels import bits as kernel

    values = np.empty(number, np.int32)
    kernel.unpack(packed, 0, width, shift, mask, values)
    return values


def packed_bits(bits: NDArray[np.bool_]) -> Packed:
    """Bits in words, the lowest first, filled up with zeros to whole blocks."""
    octets = np.zeros(-(-len(bits) // BLOCK) * (BLOCK // 8), np.uint8)
    octets[: -(-len(bits) // 8)] = np.packbits(bits, bitorder="little")
    return octets.view("<u8").astype(np.uint64, copy=False)


def unpacked_bits(packed: Packed, number: int) -> NDArray[np.bool_]:
    """The first `number` bits; FormatError if one of the rest is not zero."""
    octets = packed.astype("<u8", copy=False).view(np.uint8)
    bits = np.unpackbits(octets, bitorder="little").view(np.bool_)
    if np.any(bits[number:]):
        raise damaged("bits go on after their end")
    return bits[:number]


def ranks_of(packed: Packed) -> Nodes:
    """How many ones come before each block, and in all."""
    ones = np.bitwise_count(packed).reshape(-1, BLOCK // 64).sum(axis=1, dtype=np.int64)
    return np.concatenate(([0], np.cumsum(ones))).astype(np.int32)


def hints_of(ones: NDArray[np.int64]) -> Nodes:
    """The place of the first one and of every 32nd after it, and of the last; unsigned, whatever the type."""
    return np.concatenate((ones[::HINT], ones[-1:])).astype(np.uint32).view(np.int32)


def begins_of(sizes: tuple[int, ...]) -> Nodes:
    """Where each of several books put one after the other begins."""
    return np.cumsum((0, *sizes))[:-1].astype(np.int32)
