"""Kernels that walk a back-off table: the blocks of ngram/table.py.

`rows` is always that of one valid table: rows of three int32; states are the rows of headers in it. Logs are
float32 bit for bit, so kernels look at the same memory twice. Suffixes are always shorter, so every walk ends
at row 0, the empty context, which has every word in order. The slow twins are in tests/references/.
"""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.blocks import home
from ostinato.kernels.prefetch import prefetch

LINE = 16
"""Numbers in a cache line; a block of a few children lies in two."""

NEAR = 6
"""Rows behind a header that are asked for with it."""

TOGETHER = 256
"""Single steps that are taken together."""

LANES = 16
"""Lines that are scored side by side, so that one's memory arrives while the others work."""


@numba.njit(cache=True, nogil=True, inline="always")
def first_row(rows, state, token):
    """Where the search for `token` in the block of `state` begins; in the empty context it ends there, too."""
    if state == 0:
        return np.int64(token + 1)
    info = -1 - rows[3 * state + 2]
    return np.int64(state + 1 + (home(token, info >> 1) if info & 1 else 0))


@numba.njit(cache=True, nogil=True, inline="always")
def ask_block(rows, state):
    """Ask for the memory of a header and the rows near it."""
    prefetch(rows, 3 * state)
    prefetch(rows, 3 * state + LINE)


@numba.njit(cache=True, nogil=True, inline="always")
def ask_entry(rows, row):
    """Ask for the memory of a row and the next ones."""
    prefetch(rows, 3 * row)
    prefetch(rows, 3 * row + LINE // 2)


@numba.njit(cache=True, nogil=True, inline="always")
def walk(rows, state, row, token):
    """The row of `token` among the entries from `row` on, -1 if the block of `state` does not have it."""
    if state == 0:
        return row
    info = -1 - rows[3 * state + 2]
    if info & 1:
        while rows[3 * row] != token:
            if rows[3 * row] < 0:
                return np.int64(-1)
            row += 1
        return row
    end = row + (info >> 1)
    while row < end and rows[3 * row] < token:
        row += 1
    return row if row < end and rows[3 * row] == token else np.int64(-1)


@numba.njit(cache=True, nogil=True, inline="always")
def find_entry(rows, state, token):
    """The row of the child of `state` for `token`, or -1."""
    return walk(rows, state, first_row(rows, state, token), token)


@numba.njit(cache=True, nogil=True)
def advance(rows, state, token):
    """Read `token`, a word that can be predicted, after `state`: its log-prob (nats) and the next state.

    p(w | h) = p*(w | h) if hw was seen, else backoff(h) * p(w | h without its oldest word).
    Cost: one search a suffix tried. Source: [Katz1987]; sums are float64.
    """
    logs = rows.view(np.float32)
    log_p = 0.0
    entry = find_entry(rows, state, token)
    while entry < 0:
        log_p += logs[3 * state + 1]
        state = np.int64(rows[3 * state])
        entry = find_entry(rows, state, token)
    return log_p + logs[3 * entry + 1], np.int64(rows[3 * entry + 2])


@numba.njit(cache=True, nogil=True)
def read(rows, stop, pad, state, token):
    """The state after reading any id: padding changes nothing, start and stop both begin a sentence."""
    if token == pad:
        return np.int64(state)
    if token == stop or token == pad - 1:
        return np.int64(rows[3 * pad + 2])
    return advance(rows, state, token)[1]


@numba.njit(cache=True, nogil=True)
def read_each(rows, stop, pad, states, tokens, after):
    """Fill `after` [B] with the state each row of `states` [B] comes to by reading its token of `tokens` [B]."""
    for row in range(states.size):
        after[row] = read(rows, stop, pad, states[row], tokens[row])


@numba.njit(cache=True, nogil=True)
def score(rows, stop, pad, states, inputs, targets, out, after):
    """Fill `out` [B, T] with the log-prob of each target after its input (nats), `after` [B] with the last state.

    A target that is the next input too, as in running text, is walked once, not twice. The rows take turns, a
    place each, so that the memory of one arrives while the others work. Cost: one `advance` a place.
    """
    known, ahead = np.full(states.size, -1), np.zeros(states.size, np.int64)
    after[:] = states
    for place in range(inputs.shape[1]):
        for row in range(states.size):
            token, target = inputs[row, place], targets[row, place]
            state = after[row]
            if token == known[row] and token != stop:
                state = ahead[row]
            else:
                state = read(rows, stop, pad, state, token)
            log_p, ahead[row] = advance(rows, state, target)
            ask_block(rows, ahead[row])
            out[row, place], after[row], known[row] = log_p, state, target


@numba.njit(cache=True, nogil=True)
def advance_each(rows, outputs, stop, states, tokens, out, after):
    """Fill `out` [B] with the log-prob of each token of `tokens` [B] after its state, `after` with the next states.

    After the stop symbol comes the state of a new line. Returns -1, or the first row whose state or token this
    table does not have; then nothing is filled. The rows take turns, so that memory arrives in time.
    """
    for row in range(states.size):
        if not (0 <= states[row] < rows.size // 3 and 0 <= tokens[row] < outputs):
            return row
        ask_block(rows, states[row])
    for row in range(states.size):
        if rows[3 * states[row] + 2] >= 0:
            return row
    logs, start = rows.view(np.float32), rows[3 * (outputs + 1) + 2]
    waiting, debt, entry = np.empty(TOGETHER, np.int64), np.empty(TOGETHER), np.empty(TOGETHER, np.int64)
    for begin in range(0, states.size, TOGETHER):
        live = min(TOGETHER, states.size - begin)
        for lane in range(live):
            row = begin + lane
            waiting[lane], debt[lane], after[row] = row, 0.0, states[row]
        while live:
            for lane in range(live):
                row = waiting[lane]
                entry[lane] = first_row(rows, after[row], tokens[row])
                if entry[lane] - after[row] > NEAR:
                    ask_entry(rows, entry[lane])
            still = 0
            for lane in range(live):
                row = waiting[lane]
                state = after[row]
                found = walk(rows, state, entry[lane], tokens[row])
                if found < 0:
                    after[row] = rows[3 * state]
                    ask_block(rows, after[row])
                    waiting[still], debt[still] = row, debt[lane] + logs[3 * state + 1]
                    still += 1
                else:
                    out[row] = debt[lane] + logs[3 * found + 1]
                    after[row] = start if tokens[row] == stop else rows[3 * found + 2]
            live = still
    return -1


@numba.njit(cache=True, nogil=True)
def score_lines(rows, start, ids, ends, out):
    """Fill `out` [T] with the log-prob (nats) of each id of lines, each read from `start` on, its stop included.

    ids: [T], all of which can be predicted; ends: [L], one after each line's stop symbol. LANES lines take turns
    step by step, and what the next step of a line reads is asked for before the others take theirs.
    """
    logs = rows.view(np.float32)
    state, at, until = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    entry, debt = np.zeros(LANES, np.int64), np.zeros(LANES)
    line, live = 0, 0
    while line < ends.size and live < LANES:
        state[live], at[live], until[live] = start, ends[line - 1] if line else 0, ends[line]
        line, live = line + 1, live + 1
    while live:
        lane = 0
        while lane < live:
            token, here = ids[at[lane]], state[lane]
            row = entry[lane]
            if row == 0:
                row = first_row(rows, here, token)
                if row - here > NEAR:
                    ask_entry(rows, row)
                    entry[lane] = row
                    lane += 1
                    continue
            row = walk(rows, here, row, token)
            entry[lane] = 0
            if row < 0:
                debt[lane] += logs[3 * here + 1]
                state[lane] = rows[3 * here]
            else:
                out[at[lane]] = debt[lane] + logs[3 * row + 1]
                debt[lane] = 0.0
                state[lane] = rows[3 * row + 2]
                at[lane] += 1
                if at[lane] == until[lane]:
                    if line < ends.size:
                        state[lane], at[lane], until[lane] = start, ends[line - 1], ends[line]
                        line += 1
                    else:
                        live -= 1
                        state[lane], at[lane], until[lane] = state[live], at[live], until[live]
                        entry[lane], debt[lane] = entry[live], debt[live]
                        continue
            ask_block(rows, state[lane])
            lane += 1


@numba.njit(cache=True, nogil=True)
def distribution(rows, words, states, chain, owed, out):
    """Fill each row of `out` [B, outputs] with the log-prob of every word after its state of `states` [B] (nats).

    All words get what the empty context says times every back-off; then each context, the shortest first,
    overwrites the words seen after it. The same sums as `advance`, in the same order.
    words: [outputs], what the empty context says, in one piece, since it is all read. chain, owed: scratch, as long
        as the order. Cost: outputs + rows of the contexts' blocks, a row.
    """
    logs = rows.view(np.float32)
    for number in range(states.size):
        state, depth, debt = states[number], 0, 0.0
        while state != 0:
            chain[depth], owed[depth] = state, debt
            debt += logs[3 * state + 1]
            state = np.int64(rows[3 * state])
            depth += 1
        for token in range(out.shape[1]):
            out[number, token] = debt + words[token]
        for place in range(depth - 1, -1, -1):
            row, debt = chain[place] + 1, owed[place]
            while 3 * row < rows.size and rows[3 * row + 2] >= 0:
                if rows[3 * row] >= 0:
                    out[number, rows[3 * row]] = debt + logs[3 * row + 1]
                row += 1
