"""Kernels that sort the positions of a text by the n-gram beginning there, and lay the sorted n-grams out as a trie.

A text is `words` [P], each line the start symbol, its words, the stop symbol; an n-gram ends at the stop symbol
at the latest. Positions are first put into buckets by their word; a shard is a range of buckets that one
thread sorts in its cache. Arrays in, arrays out; nothing is checked here. The caller is ngram/counting.py, the
slow twin the dictionary counts in tests/references/kneser_ney.py.
"""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.prefetch import prefetch

FEW = 48
"""Up to so many keys, insertion beats counting."""

AHEAD = 16
"""So many places before it is read, memory is asked for: a position's words lie anywhere."""


@numba.njit(cache=True, nogil=True)
def frame(piece, before, stop, start, at, out):
    """Copy a piece of a stream to `out` from `at` on, with the start symbol before each line; return where it ends.

    before: the id before the piece; after a stop symbol a line begins.
    """
    for token in piece:
        if before == stop:
            out[at] = start
            at += 1
        out[at] = before = token
        at += 1
    return at


@numba.njit(cache=True, nogil=True)
def count_words(words, begin, end, times):
    """Add to `times` [V] how often each word stands in words[begin:end]."""
    for place in range(begin, end):
        times[words[place]] += 1


@numba.njit(cache=True, nogil=True)
def place_words(words, begin, end, stop, at, out):
    """Put the positions of words[begin:end], all but the stop symbols', into the buckets that begin at `at` [V]."""
    for place in range(begin, end):
        word = words[place]
        if word != stop:
            out[at[word]] = place
            at[word] += 1


@numba.njit(cache=True, nogil=True)
def radix_sort(keys, places, keys2, places2, begin, end, bits, times):
    """Sort keys[begin:end], below 2**bits, and their places, keeping the order of equals.

    keys2, places2: scratch of the same size. times: scratch [256]. Cost: a pass for every 8 bits that differ.
    """
    size = end - begin
    flipped = False
    shift, mask = np.uint64(0), np.uint64(255)
    while shift < bits:
        source, source_places = (keys2, places2) if flipped else (keys, places)
        target, target_places = (keys, places) if flipped else (keys2, places2)
        times[:] = 0
        for i in range(begin, end):
            times[(source[i] >> shift) & mask] += 1
        if times[(source[begin] >> shift) & mask] != size:
            total = begin
            for bucket in range(256):
                count = times[bucket]
                times[bucket] = total
                total += count
            for i in range(begin, end):
                bucket = (source[i] >> shift) & mask
                at = times[bucket]
                target[at] = source[i]
                target_places[at] = source_places[i]
                times[bucket] = at + 1
            flipped = not flipped
        shift += np.uint64(8)
    if flipped:
        keys[begin:end] = keys2[begin:end]
        places[begin:end] = places2[begin:end]


@numba.njit(cache=True, nogil=True)
def insertion_sort(keys, places, begin, end):
    """Sort a few keys[begin:end] and their places, keeping the order of equals."""
    for i in range(begin + 1, end):
        key, place = keys[i], places[i]
        j = i - 1
        while j >= begin and keys[j] > key:
            keys[j + 1], places[j + 1] = keys[j], places[j]
            j -= 1
        keys[j + 1], places[j + 1] = key, place


@numba.njit(cache=True, nogil=True)
def fill_key(words, stop, place, depth, take, bits):
    """Words `depth` to `depth` + `take` - 1 from a place on as one number, 0 for those behind the end of the line.

    The word before them, at `depth` - 1, must be in the line.
    """
    key = np.uint64(0)
    ended = words[place + depth - 1] == stop
    for ahead in range(depth, depth + take):
        key <<= bits
        if not ended:
            word = words[place + ahead]
            key |= np.uint64(word + 1)
            ended = word == stop
    return key


@numba.njit(cache=True, nogil=True)
def sort_keys(keys, places, keys2, places2, tied, begin, end, bits, used, times):
    """Sort places[begin:end] by their keys, below 2**used; say which are `tied` with the one before and go on.

    bits: of one word; a key whose last word is 0 has ended, and its equals are not told apart any more.
    """
    if end - begin <= FEW:
        insertion_sort(keys, places, begin, end)
    else:
        radix_sort(keys, places, keys2, places2, begin, end, used, times)
    last = (np.uint64(1) << bits) - np.uint64(1)
    tied[begin] = False
    for i in range(begin + 1, end):
        tied[i] = keys[i] == keys[i - 1] and (keys[i] & last) != 0


@numba.njit(cache=True, nogil=True)
def sort_shard(words, stop, order, word_bits, places, keys, keys2, places2, tied, times):
    """Sort `places` [m], those of a range of words and by word, by the n-gram of length `order` that begins there.

    Round by round the next few words, as many as fit into 64 bits, sort what was equal before. keys, keys2,
    places2, tied: scratch [m]; times: scratch [256].
    """
    size, bits, one = places.size, np.uint64(word_bits), np.uint64(1)
    first, span = words[places[0]], np.uint64(0)
    while (words[places[size - 1]] - first) >> span:
        span += one
    depth = min(order, 1 + int((np.uint64(64) - span) // bits))
    used = bits * np.uint64(depth - 1)
    for i in range(size):
        if i + AHEAD < size:
            prefetch(words, places[i + AHEAD])
        place = places[i]
        keys[i] = (np.uint64(words[place] - first) << used) | fill_key(words, stop, place, 1, depth - 1, bits)
    sort_keys(keys, places, keys2, places2, tied, 0, size, bits, used + span, times)
    changed = True
    while depth < order and changed:
        take, changed = min(64 // word_bits, order - depth), False
        end = 0
        while end < size:
            begin = end
            end += 1
            while end < size and tied[end]:
                end += 1
            if end - begin > 1:
                changed = True
                for i in range(begin, end):
                    if i + AHEAD < size:
                        prefetch(words, places[i + AHEAD])
                    keys[i] = fill_key(words, stop, places[i], depth, take, bits)
                sort_keys(keys, places, keys2, places2, tied, begin, end, bits, bits * np.uint64(take), times)
        depth += take


@numba.njit(cache=True, nogil=True)
def compare_neighbours(words, stop, order, places, shared, lengths, fresh):
    """Fill `shared` [m] with how many words the n-gram at each of the sorted places shares with the one before.

    The first shares none. lengths: [m], filled with how many words each n-gram has: fewer than `order` where the
        line ends. fresh: [order + 1], counts the n-grams of each length that are the first of their kind.
    """
    before = -1
    for i in range(places.size):
        if i + AHEAD < places.size:
            prefetch(words, places[i + AHEAD])
        place, same = places[i], 0
        if before >= 0:
            while same < order and words[place + same] == words[before + same]:
                same += 1
                if words[place + same - 1] == stop:
                    break
        shared[i] = same
        length = same
        while length < order and (length == 0 or words[place + length - 1] != stop):
            length += 1
            fresh[length] += 1
        lengths[i] = length
        before = place


@numba.njit(cache=True, nogil=True)
def lay_out(words, order, places, shared, lengths, row, current, word, first_child, count, standing):
    """Write the n-grams of the sorted places, of length 2 and more, as nodes of the trie.

    shared, lengths: of `compare_neighbours`. row: [order + 2] the next free node of each length; advanced. current:
        scratch [order + 2]. Fills word, first_child (of inner nodes) and count; first_child of a word, too.
    standing: [P, order - 2], filled with the nodes of the n-grams of length 2, 3, ... that begin at each place;
        if it has no columns, it is left alone.
    """
    for i in range(places.size):
        if i + AHEAD < places.size:
            prefetch(words, places[i + AHEAD])
        place, same = places[i], shared[i]
        for length in range(2, same + 1):
            count[current[length]] += 1
        if same == 0 and order > 1:
            first_child[words[place] + 1] = row[2]
        for length in range(max(2, same + 1), lengths[i] + 1):
            node = row[length]
            row[length] += 1
            current[length] = node
            word[node] = words[place + length - 1]
            count[node] = 1
            if length < order:
                first_child[node] = row[length + 1]
        for column in range(min(lengths[i] - 1, standing.shape[1])):
            standing[place, column] = current[column + 2]


@numba.njit(cache=True, nogil=True)
def link_places(words, places, shared, lengths, row, standing, flat, suffix):
    """Fill `suffix` of the nodes that `lay_out` made of these places, once `standing` is known for every place.

    The n-gram without its first word begins one place later. row: as `lay_out` was given it. flat: `standing` as
    one row. Cost: a cache line a place.
    """
    columns = standing.shape[1]
    for i in range(places.size):
        if i + AHEAD < places.size:
            prefetch(flat, (places[i + AHEAD] + 1) * columns)
        place = places[i]
        for length in range(max(2, shared[i] + 1), lengths[i] + 1):
            suffix[row[length]] = words[place + 1] + 1 if length == 2 else standing[place + 1, length - 3]
            row[length] += 1
