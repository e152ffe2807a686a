"""Kernels that count pairs of neighbouring words in a text of ids (-1 ends a sentence) and join chosen ones.

Connectors are words that may stand inside a phrase: a pair is two other words with connectors or nothing between them,
and the connectors are part of what it is. A chain of connectors is a node of a tree whose root, 0, is no connector.

A table is `slots` [a power of two, 2], uint64, some of them free (key 0), searched from kernels/scan.home on. In that
of pairs the key is the two words, and the value the chain (24 bits) and a number (40 bits): how often the pair was
seen, or what it is joined to. In that of chains the key is a node and a word, and the value the node behind them.
The slow twin is gensim's Phrases.
"""

# mypy: ignore-errors
# (NumPy's integers and Python's are one type to the compiler)

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.prefetch import prefetch
from ostinato.kernels.scan import home

CONNECTS, BEGINS = 1, 2
"""Bits of a word's kind: it is a connector, or it begins a phrase."""

CHAIN_BITS, NUMBER_BITS = 24, 40
START, CHAIN, CHAINS = 0, 1, 2
"""Places in a cursor: the word a pair may begin with (-1: none), the chain behind it, how many chains there are."""

AHEAD = 16
"""So many pairs before a slot is looked at, its memory is asked for."""

ZERO, ONE, HALF, SHIFT = np.uint64(0), np.uint64(1), np.uint64(32), np.uint64(NUMBER_BITS)
LOW = np.uint64((1 << NUMBER_BITS) - 1)
SHARES = np.uint64(0xD6E8FEB86659FD93)  # odd, unlike the multiplier of `home`


@numba.njit(inline="always")
def key_of(first, second):
    """The key of two numbers, neither of which is below 0."""
    return ((np.uint64(first) + ONE) << HALF) | (np.uint64(second) + ONE)


@numba.njit(cache=True, nogil=True)
def find(slots, key, chain):
    """The slot of a key with that chain, or -1 - the free slot where it belongs."""
    slot = home(slots, key)
    while slots[slot, 0] != ZERO:
        if slots[slot, 0] == key and slots[slot, 1] >> SHIFT == chain:
            return slot
        slot = (slot + 1) & (slots.shape[0] - 1)
    return -1 - slot


@numba.njit(cache=True, nogil=True)
def gather(ids, at, kinds, part, parts, chains, cursor, keys, links):
    """Write the keys and chains of the pairs in ids[at:] whose share of `parts` is `part`; new chains are numbered.

    Returns where it stopped (the end, or before a connector for which `chains` has no room: half of the slots stay
    free) and how many pairs there are. keys, links: as long as ids. The cursor keeps what goes on in the next ids.
    """
    start, chain, known = cursor[START], cursor[CHAIN], cursor[CHAINS]
    found = 0
    while at < ids.size:
        word = ids[at]
        if word < 0:
            start = -1
        elif kinds[word] & CONNECTS:
            if start >= 0:
                slot = find(chains, key_of(chain, word), ZERO)
                if slot < 0:
                    if 2 * known >= chains.shape[0]:
                        break
                    slot = -1 - slot
                    chains[slot, 0], chains[slot, 1] = key_of(chain, word), np.uint64(known)
                    known += 1
                chain = np.int64(chains[slot, 1])
        else:
            if start >= 0:
                key = key_of(start, word)
                if np.int64((((key * SHARES) >> HALF) * np.uint64(parts)) >> HALF) == part:
                    keys[found], links[found] = key, chain
                    found += 1
            start, chain = word, 0
        at += 1
    cursor[START], cursor[CHAIN], cursor[CHAINS] = start, chain, known
    return at, found


@numba.njit(cache=True, nogil=True)
def count(slots, used, keys, links, begin, end):
    """Count the pairs `begin` to `end` - 1 in a table that has `used`; half of the slots stay free.

    Returns at which pair it stopped for want of room (`end`: it did not), and how many the table has then.
    """
    for pair in range(begin, end):
        prefetch(slots, 2 * home(slots, keys[min(pair + AHEAD, end - 1)]))
        slot = find(slots, keys[pair], np.uint64(links[pair]))
        if slot < 0:
            if 2 * used >= slots.shape[0]:
                return pair, used
            slot = -1 - slot
            slots[slot, 0], slots[slot, 1] = keys[pair], np.uint64(links[pair]) << SHIFT
            used += 1
        slots[slot, 1] += ONE
    return end, used


@numba.njit(cache=True, nogil=True)
def join(ids, kinds, chains, slots, out):
    """Write ids + 1, and 0 for a break, with the phrases of `slots` in the place of their words; how many there are.

    From left to right: what was joined does not begin another phrase. `chains` has the chains of the phrases.
    """
    start, chain, mark, written = -1, 0, 0, 0
    for word in ids:
        if word < 0:
            start = -1
        elif kinds[word] & CONNECTS:
            if start >= 0 and chain >= 0:
                slot = find(chains, key_of(chain, word), ZERO)
                chain = np.int64(chains[slot, 1]) if slot >= 0 else -1
        else:
            slot = -1
            if start >= 0 and chain >= 0:
                slot = find(slots, key_of(start, word), np.uint64(chain))
            if slot >= 0:
                out[mark] = (slots[slot, 1] & LOW) + ONE
                written, start = mark + 1, -1
                continue
            start, chain, mark = (word if kinds[word] & BEGINS else -1), 0, written
        out[written] = word + 1
        written += 1
    return written
