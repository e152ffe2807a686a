"""Kernels for files of word vectors (embed/word2vec_text.py, embed/word2vec_binary.py).

`data` is a row of bytes; that of a text is whole lines, the last one ended. `words` holds words one after another,
a line feed after each; it has room, and PAD bytes more. A cursor says where a kernel begins and where it stopped.
The slow twins are in tests/test_embed_files.py, and gensim.
"""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.arpa import BLANK, LINE_END, RETURN, TAB, put
from ostinato.kernels.decimals import NO_NUMBER, UNSURE, put_float32, read_float32, skip_blanks

ENDED, FAULT, FULL, MORE, LONG, NO_FEED = range(6)
"""Why a kernel stopped: all is done; a line is faulty; there is no room; a record goes on after the data; a word is
too long; a vector is not followed by a line feed as the others are."""

AT, LINE, ROWS, SIZE, ASKED = range(5)
"""Places of a cursor that reads: in the data, its line, rows filled, bytes of words, numbers asked for."""

WORD, ROW, COLUMN, FILLED = range(4)
"""Places of a cursor that prints: in the words, the row and column that come next, bytes filled."""

LONGEST_WORD = 1 << 16
"""Bytes after which a binary file without a blank is none."""
LONGEST_ODD = 1 << 10
"""Bytes within which the end of a word with blanks inside is looked for."""


@numba.njit(cache=True, nogil=True)
def read_numbers(data, at, values, row, asked, count):
    """Fill `values` [D], that row, with the numbers at `at`, each after a blank; the place after them.

    The place is -1 unless a line ends there.
    Those that float64 cannot tell are added to `asked`, as row, column, begin and end, behind the `count` there are;
    how many there are then is returned too.
    """
    for column in range(values.size):
        first = skip_blanks(data, at)
        value, end, state = read_float32(data, first)
        if first == at or state == NO_NUMBER or not abs(value) < np.inf:
            return -1, count
        values[column] = value
        if state == UNSURE:
            asked[count, 0], asked[count, 1], asked[count, 2], asked[count, 3] = row, column, first, end
            count += 1
        at = end
    at = skip_blanks(data, at)
    return (at if data[at] == LINE_END else -1), count


@numba.njit(cache=True, nogil=True)
def before_last(data, begin, end, fields):
    """Where in data[begin:end] the blanks before the last `fields` fields begin; -1 if there are fewer."""
    at = end
    for field in range(fields + 1):
        while at > begin and (data[at - 1] == BLANK or data[at - 1] == TAB or data[at - 1] == RETURN):
            at -= 1
        if field == fields:
            return at
        if at == begin:
            return -1
        while at > begin and data[at - 1] != BLANK and data[at - 1] != TAB:
            at -= 1
    return at


@numba.njit(cache=True, nogil=True)
def read_rows(data, values, words, lines, asked, cursor):
    """Read lines of a word and as many numbers as `values` [rows, D] has columns; those of white space are passed over.

    The word is what stands before the last D numbers, blanks inside it included. Fills `lines` with each row's line.
    `asked` [D or more, 4]: the numbers whose value must be asked for. Stops with ENDED, FULL (of those) or FAULT.
    """
    at, line, row, size, count = cursor[AT], cursor[LINE], cursor[ROWS], cursor[SIZE], 0
    why, columns = ENDED, values.shape[1]
    while at < data.size:
        if count + columns > len(asked):
            why = FULL
            break
        begin = at
        first = skip_blanks(data, at)
        if data[first] == LINE_END:
            at, line = first + 1, line + 1
            continue
        stop = begin
        while data[stop] != BLANK and data[stop] != TAB and data[stop] != LINE_END:
            stop += 1
        before = count
        end, count = read_numbers(data, stop, values[row], row, asked, count)
        if end < 0:
            end = stop
            while data[end] != LINE_END:
                end += 1
            stop = before_last(data, begin, end, columns)
            end = -1
            if stop >= 0:
                end, count = read_numbers(data, stop, values[row], row, asked, before)
                while begin < stop and (data[begin] == BLANK or data[begin] == TAB):
                    begin += 1
        if end < 0:
            why, count = FAULT, before
            break
        for place in range(begin, stop):
            words[size] = data[place]
            size += 1
        words[size] = LINE_END
        lines[row] = line
        size, row, at, line = size + 1, row + 1, end + 1, line + 1
    cursor[AT], cursor[LINE], cursor[ROWS], cursor[SIZE], cursor[ASKED] = at, line, row, size, count
    return why


@numba.njit(cache=True, nogil=True)
def print_row(values, bits, out, column, size):
    """Write a row's numbers [D] from `column` on at out[size], a blank before each.

    Returns the column that comes next, which the caller must print if there is one, and the place for it.
    """
    for place in range(column, values.size):
        out[size] = BLANK
        after = put_float32(out, size + 1, values[place], bits[place])
        if after < 0:
            return place, size + 1
        size = after
    return values.size, size


@numba.njit(cache=True, nogil=True)
def print_rows(words, values, bits, out, cursor):
    """Fill `out` with a line a row of `values` [rows, D]: its word and its numbers, with a blank before each.

    bits: the same as uint32. Returns ENDED, or FULL where the number that comes next must be printed by the caller.
    """
    word, row, column, size = cursor
    while row < len(values):
        if column == 0:
            end = word
            while words[end] != LINE_END:
                end += 1
            size = put(out, size, words, word, end)
            word = end + 1
        column, size = print_row(values[row], bits[row], out, column, size)
        if column < values.shape[1]:
            break
        out[size] = LINE_END
        size, row, column = size + 1, row + 1, 0
    cursor[WORD], cursor[ROW], cursor[COLUMN], cursor[FILLED] = word, row, column, size
    return FULL if row < len(values) else ENDED


@numba.njit(cache=True, nogil=True)
def end_of_word(data, begin, width, fed, ended):
    """The blank that ends the word at `begin`, whose vector has `width` bytes, and why there is none.

    fed: a line feed follows each vector, which tells a blank inside a word from the one after it.
    ended: nothing follows the data.
    """
    first = -1
    last = min(begin + (LONGEST_ODD if fed else LONGEST_WORD), data.size)
    for blank in range(begin, min(begin + LONGEST_WORD, data.size)):
        if data[blank] != BLANK:
            continue
        if first >= 0 and blank >= last:
            break
        after = blank + 1 + width
        if after > data.size or (after == data.size and not ended):
            return (first, NO_FEED) if ended and first >= 0 else (-1, MORE)
        if not fed or after == data.size or data[after] == LINE_END:
            return blank, ENDED
        first = blank if first < 0 else first
    if first >= 0:
        return (first, NO_FEED) if ended or begin + LONGEST_ODD <= data.size else (-1, MORE)
    return (-1, LONG) if begin + LONGEST_WORD <= data.size else (-1, MORE)


@numba.njit(cache=True, nogil=True)
def read_records(data, values, words, places, fed, ended, cursor):
    """Read words and their vectors, given as bytes: values [rows, 4 D]; fills `places` [rows, 2] with where each begins
    in the data, and the next one in `words`.

    Line feeds before a word are passed over. fed: whether one follows each vector. ended: nothing follows the data.
    Stops with ENDED (no row is left to fill), MORE, LONG or NO_FEED.
    """
    at, row, size, width = cursor[AT], cursor[ROWS], cursor[SIZE], values.shape[1]
    why = ENDED
    while row < len(values):
        begin = at
        while begin < data.size and data[begin] == LINE_END:
            begin += 1
        blank, why = end_of_word(data, begin, width, fed, ended)
        if why != ENDED:
            break
        for place in range(begin, blank):
            words[size] = data[place]
            size += 1
        words[size] = LINE_END
        places[row, 0], places[row, 1] = begin, size + 1
        for place in range(width):
            values[row, place] = data[blank + 1 + place]
        size, row, at = size + 1, row + 1, blank + 1 + width
    cursor[AT], cursor[ROWS], cursor[SIZE] = at, row, size
    return why


@numba.njit(cache=True, nogil=True)
def join_records(words, values, out):
    """Fill `out` with each word, a blank, its vector, given as bytes [rows, 4 D], and a line feed; the bytes filled."""
    word, size, width = 0, 0, values.shape[1]
    for row in range(len(values)):
        while words[word] != LINE_END:
            out[size] = words[word]
            size, word = size + 1, word + 1
        word += 1
        out[size] = BLANK
        for place in range(width):
            out[size + 1 + place] = values[row, place]
        out[size + 1 + width] = LINE_END
        size += width + 2
    return size
