"""Kernels that read text as bytes: words found 64 bytes at a time, numbered by a hash table.

`data` is uint8 with at least 3 bytes before and 64 after the part that is read, and that part is whole lines,
the last one ended too. White space is that of `str.split`. A table of words is three arrays: word `n` is
blob[offsets[n] : offsets[n + 1] - 1], with a line feed after it, and `slots` [a power of two, 2] has its key
and `n`. The key of a word of up to 8 bytes is the word; that of a longer one is a hash, and its bytes are
compared. No word holds a zero byte, so key 0 is a free slot. `blob` has 8 bytes more than it uses.
Integers are little-endian. The slow twins are `str.split`, `bytes.decode`, `zlib.crc32` and a dictionary.
"""

# mypy: ignore-errors
# (an intrinsic is called without its first argument, which mypy cannot know)

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

ZERO, ONE, EIGHT, HALF, WIDTH = np.uint64(0), np.uint64(1), np.uint64(8), np.uint64(32), np.uint64(64)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
LONG = np.uint64(0xFF << 56)
"""Keys from here on are hashes: no UTF-8 has the byte 0xFF."""
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd, near 2**64 divided by the golden ratio

FEED, RETURN = 10, 13
POSITION, TOKENS, LINES, WORDS = 0, 1, 2, 3
"""Places in a cursor."""

_BYTE, _INDEX, _NUMBER = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_LANES, _PLACES = ir.VectorType(_BYTE, 64), ir.VectorType(_INDEX, 64)


def _loaded(context, builder, signature, arguments, kind):
    """What stands at an index of an array of bytes, read as `kind` wherever it begins."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())
    return builder.load(place, align=1)


def _repeated(builder, number):
    """A number in each of the 64 lanes."""
    nothing = ir.Constant(_LANES, ir.Undefined)
    first = builder.insert_element(nothing, builder.trunc(number, _BYTE), ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(_PLACES, [0] * 64))


@intrinsic
def within(typing, data, at, low, high):
    """Which of data[at : at + 64] lie between two bytes, as 64 bits, the lowest bit for data[at]."""

    def generate(context, builder, signature, arguments):
        lanes = _loaded(context, builder, signature, arguments, _LANES)
        low, high = (_repeated(builder, number) for number in arguments[2:])
        inside = builder.icmp_unsigned("<=", builder.sub(lanes, low), builder.sub(high, low))
        return builder.bitcast(inside, _NUMBER)

    return types.uint64(data, types.intp, types.intp, types.intp), generate


@intrinsic
def eight(typing, data, at):
    """data[at : at + 8] as one number, the first byte the lowest."""

    def generate(context, builder, signature, arguments):
        return _loaded(context, builder, signature, arguments, _NUMBER)

    return types.uint64(data, types.intp), generate


@intrinsic
def lowest(typing, bits):
    """The place of the lowest bit that is set; one must be."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@numba.njit(cache=True, nogil=True)
def sound(data, begin, end, longest):
    """Whether data[begin:end] is UTF-8 without a zero byte, in lines of at most `longest` bytes.

    A byte is a continuation exactly if one of the three before it asks for it; four leading bytes also say
    which ones may follow. Source: [Unicode] table 3-7.
    """
    line = begin
    for at in range(begin, end, 64):
        if within(data, at, 0, 0) != ZERO:
            return False
        if (within(data, at, 0x80, 0xFF) | within(data, at - 3, 0x80, 0xFF)) != ZERO:
            wanted = within(data, at - 1, 0xC2, 0xF4) | within(data, at - 2, 0xE0, 0xF4)
            wanted |= within(data, at - 3, 0xF0, 0xF4)
            wrong = wanted ^ within(data, at, 0x80, 0xBF)
            wrong |= within(data, at, 0xC0, 0xC1) | within(data, at, 0xF5, 0xFF)
            wrong |= within(data, at - 1, 0xE0, 0xE0) & within(data, at, 0x80, 0x9F)
            wrong |= within(data, at - 1, 0xED, 0xED) & within(data, at, 0xA0, 0xBF)
            wrong |= within(data, at - 1, 0xF0, 0xF0) & within(data, at, 0x80, 0x8F)
            wrong |= within(data, at - 1, 0xF4, 0xF4) & within(data, at, 0x90, 0xBF)
            if wrong != ZERO:
                return False
        feeds = within(data, at, FEED, FEED)
        while feeds != ZERO:
            place = at + lowest(feeds)
            if place < end and place - line > longest:
                return False
            line = place + 1
            feeds &= feeds - ONE
    return True


@numba.njit(cache=True, nogil=True)
def space(data, at):
    """The bytes of the white space beyond ASCII that begins at `at`, 0 if none does."""
    first, second, third = data[at], data[at + 1], data[at + 2]
    if first == 0xC2:
        return 2 if second == 0x85 or second == 0xA0 else 0
    if first == 0xE1:
        return 3 if second == 0x9A and third == 0x80 else 0
    if first == 0xE3:
        return 3 if second == 0x80 and third == 0x80 else 0
    if second == 0x81:
        return 3 if third == 0x9F else 0
    return 3 if second == 0x80 and (third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF) else 0


@numba.njit(cache=True, nogil=True)
def cut(data, begin, end, firsts, lasts):
    """Find the words of data[begin:end], and the line feeds as words without bytes, in order.

    Fills `firsts` and `lasts` (where each begins and ends), which have room for 128 at least; returns how many
    were found and where to go on: `end`, or the beginning of a word if there was no room.
    """
    found, spilled = 0, ZERO
    for at in range(begin, end, 64):
        if found > firsts.size - 128:
            return found, begin + np.int64((spilled & ONE) + (spilled >> ONE))
        blanks = within(data, at, 9, 13) | within(data, at, 28, 32) | spilled
        spilled = ZERO
        leads = within(data, at, 0xC2, 0xC2) | within(data, at, 0xE1, 0xE3)
        while leads != ZERO:
            place = lowest(leads)
            size = space(data, at + place)
            bits = (ONE << np.uint64(size)) - ONE
            blanks |= bits << np.uint64(place)
            if place + size > 64:
                spilled = bits >> np.uint64(64 - place)
            leads &= leads - ONE
        if end - at < 64:
            blanks &= ALL >> np.uint64(64 - (end - at))
        while blanks != ZERO:
            place = at + lowest(blanks)
            firsts[found], lasts[found] = begin, place
            found += place > begin
            firsts[found], lasts[found] = place, place
            found += data[place] == FEED
            begin = place + 1
            blanks &= blanks - ONE
    return found, end


@numba.njit(cache=True, nogil=True)
def key_of(data, first, last):
    """The key of the word data[first:last]. Hashes only need to differ, so any good mixing would do."""
    if last - first <= 8:
        return eight(data, first) & (ALL >> np.uint64(64 - 8 * (last - first)))
    key = ZERO
    for at in range(first, last, 8):
        part = eight(data, at)
        if last - at < 8:
            part &= ALL >> np.uint64(64 - 8 * (last - at))
        key = (key ^ part) * SPREAD
        key ^= key >> HALF
    return key | LONG


@numba.njit(cache=True, nogil=True)
def home(slots, key):
    """The slot where the search for a key begins."""
    return np.int64((((key ^ (key >> HALF)) * SPREAD) >> HALF) & np.uint64(slots.shape[0] - 1))


@numba.njit(cache=True, nogil=True)
def spelled(offsets, blob, number, data, first, last):
    """Whether the word of that number is data[first:last], which has 8 bytes or more."""
    place, end = offsets[number], offsets[number + 1] - 1
    if end - place != last - first:
        return False
    while last - first > 8:
        if eight(blob, place) != eight(data, first):
            return False
        place += 8
        first += 8
    return eight(blob, end - 8) == eight(data, last - 8)


@numba.njit(cache=True, nogil=True)
def find(slots, offsets, blob, data, firsts, lasts, begin, end, places):
    """Fill `places` with the slot of each word `begin` to `end` - 1; -1 - the free slot where a new word belongs.

    One slot at least must be free. A word without bytes gets slot 0. Cost: about one slot looked at a word.
    Many words at once, since every call counts references to arrays, which takes longer than a search.
    """
    for word in range(begin, end):
        first, last = firsts[word], lasts[word]
        slot = 0
        if last > first:
            key = key_of(data, first, last)
            slot = home(slots, key)
            while slots[slot, 0] != ZERO:
                if slots[slot, 0] == key and (
                    key < LONG or spelled(offsets, blob, np.int64(slots[slot, 1]), data, first, last)
                ):
                    break
                slot = (slot + 1) & (slots.shape[0] - 1)
            if slots[slot, 0] == ZERO:
                slot = -1 - slot
        places[word] = slot


@numba.njit(cache=True, nogil=True)
def append(slots, slot, offsets, blob, words, data, first, last):
    """Write a new word behind the `words` there are, and into its free slot; there must be room."""
    slots[slot, 0], slots[slot, 1] = key_of(data, first, last), words
    place = offsets[words]
    for at in range(first, last):
        blob[place] = data[at]
        place += 1
    blob[place] = FEED
    offsets[words + 1] = place + 1


@numba.njit(cache=True, nogil=True)
def rehash(old, new):
    """Put every key of `old` into `new`, which is empty and larger."""
    for at in range(old.shape[0]):
        if old[at, 0] != ZERO:
            slot = home(new, old[at, 0])
            while new[slot, 0] != ZERO:
                slot = (slot + 1) & (new.shape[0] - 1)
            new[slot, 0], new[slot, 1] = old[at, 0], old[at, 1]


@numba.njit(cache=True, nogil=True)
def adopt(from_offsets, from_blob, begin, end, slots, offsets, blob, words, numbers):
    """Add words `begin` to `end` - 1 of one table to another that has `words`; returns how many it has then.

    Fills `numbers`, by the word's number in the first table, with that in the second. An empty word gets
    a number and no slot. There must be room for all of them.
    """
    lasts, places = from_offsets[1 : end + 1] - 1, np.zeros(end, np.int64)
    for word in range(begin, end):
        first, last = from_offsets[word], lasts[word]
        if last == first:
            blob[offsets[words]] = FEED
            offsets[words + 1] = offsets[words] + 1
        else:
            find(slots, offsets, blob, from_blob, from_offsets, lasts, word, word + 1, places)
            if places[word] >= 0:
                numbers[word] = slots[places[word], 1]
                continue
            append(slots, -1 - places[word], offsets, blob, words, from_blob, first, last)
        numbers[word] = words
        words += 1
    return words


@numba.njit(cache=True, nogil=True)
def crc32(tables, data, first, last):
    """The CRC-32 of data[first:last], as zlib.crc32. Source: [Kounavis2008], slicing by 8."""
    crc = np.uint64(0xFFFFFFFF)
    low = np.uint64(0xFF)
    while last - first >= 8:
        part = eight(data, first) ^ crc
        crc = ZERO
        for table in range(8):
            crc ^= tables[7 - table, (part >> np.uint64(8 * table)) & low]
        first += 8
    for at in range(first, last):
        crc = tables[0, (crc ^ np.uint64(data[at])) & low] ^ (crc >> EIGHT)
    return crc ^ np.uint64(0xFFFFFFFF)


@numba.njit(cache=True, nogil=True)
def characters(data, first, last):
    """How many characters data[first:last] holds: the bytes that do not continue one."""
    count = 0
    for at in range(first, last):
        count += (data[at] & 0xC0) != 0x80
    return count


@numba.njit(cache=True, nogil=True)
def scan(data, end, keep, slots, offsets, blob, room, scratch, tables, ids, facts, cursor):
    """Number the words from data[cursor[POSITION]] to `end`, new ones in the order they come.

    Writes ids (0 ends a line) and per line the tokens, characters, bytes and CRC-32, from where the cursor
    says on. Lines without words are passed over unless `keep`. True when all was read; False if there are
    `room` words and another came: the cursor then stands at the beginning of its line.
    scratch: [3, 256 or more] int64. facts: without rows if nobody asks for them.
    """
    firsts, lasts, _ = scratch
    at, tokens, lines, words = cursor[POSITION], cursor[TOKENS], cursor[LINES], cursor[WORDS]
    line, begun = at, tokens
    while at < end:
        found, at = cut(data, at, end, firsts, lasts)
        for word in range(found):
            first, last = firsts[word], lasts[word]
            if last > first:
                key = key_of(data, first, last)
                slot = home(slots, key)
                while slots[slot, 0] != ZERO:
                    if slots[slot, 0] == key and (
                        key < LONG or spelled(offsets, blob, np.int64(slots[slot, 1]), data, first, last)
                    ):
                        break
                    slot = (slot + 1) & (slots.shape[0] - 1)
                if slots[slot, 0] == ZERO:
                    if words >= room:
                        cursor[POSITION], cursor[TOKENS], cursor[LINES], cursor[WORDS] = line, begun, lines, words
                        return False
                    append(slots, slot, offsets, blob, words, data, first, last)
                    words += 1
                ids[tokens] = slots[slot, 1]
                tokens += 1
                continue
            if keep or tokens > begun:
                ids[tokens] = 0
                tokens += 1
                if facts.shape[0]:
                    size = first - line - (data[first - 1] == RETURN)
                    facts[lines, 0] = tokens - begun
                    facts[lines, 1] = characters(data, line, line + size) + 1
                    facts[lines, 2] = size + 1
                    facts[lines, 3] = crc32(tables, data, line, line + size)
                lines += 1
            line, begun = first + 1, tokens
    cursor[POSITION], cursor[TOKENS], cursor[LINES], cursor[WORDS] = end, tokens, lines, words
    return True


@numba.njit(cache=True, nogil=True)
def encode(data, begin, end, words, scratch, ids, line_ends):
    """Write the id of every word of data[begin:end], that of unknown words for a new one, and stop for a line end.

    words: slots, offsets and blob of a table, the id of unknown words, and stop.
    Fills `line_ends` with the tokens up to each line's end; returns how many tokens and lines there are.
    """
    slots, offsets, blob, unknown, stop = words
    firsts, lasts, places = scratch
    tokens = lines = 0
    while begin < end:
        found, begin = cut(data, begin, end, firsts, lasts)
        find(slots, offsets, blob, data, firsts, lasts, 0, found, places)
        for word in range(found):
            ids[tokens] = slots[places[word], 1] if places[word] >= 0 else unknown
            tokens += 1
            if lasts[word] == firsts[word]:
                ids[tokens - 1] = stop
                line_ends[lines] = tokens
                lines += 1
    return tokens, lines


@numba.njit(cache=True, nogil=True)
def rename(ids, numbers):
    """Replace every id by its entry of `numbers`."""
    for place in range(ids.size):
        ids[place] = numbers[ids[place]]


@numba.njit(cache=True, nogil=True)
def tally(ids, counts):
    """Add one to the entry of `counts` of every id."""
    for place in range(ids.size):
        counts[ids[place]] += 1
