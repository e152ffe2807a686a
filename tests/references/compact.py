"""A slow reader of the compact table's format, from its description: big integers, dictionaries, no kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Gram = tuple[int, ...]
BLOCK, HINT = 256, 32


def whole_words(bits: int) -> int:
    """Bits of the blocks that hold so many."""
    return -(-bits // BLOCK) * BLOCK


class Bits:
    """A row of bits as one big integer, read from the lowest on."""

    def __init__(self, packed: np.ndarray):
        self.rest = int.from_bytes(packed.astype("<u8").tobytes(), "little")

    def cut(self, number: int) -> int:
        """The next so many bits, as a number."""
        found = self.rest & ((1 << number) - 1)
        self.rest >>= number
        return found


def decode(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> tuple[dict[Gram, float], dict[Gram, float]]:
    """The log-prob of every n-gram and the log back-off of every context that a compact table holds."""
    ngrams, number = about["ngrams"], about["contexts"]
    outputs, nodes = ngrams[0] - 1, 1 + sum(ngrams)
    inner, above = nodes - ngrams[-1], nodes - 1 - ngrams[0]
    word_bits, prob_bits, backoff_bits = (outputs - 1).bit_length(), about["prob_bits"], about["backoff_bits"]

    packed = Bits(arrays["packed"])
    is_context = [packed.cut(1) for _ in range(whole_words(inner))]
    unary = [packed.cut(1) for _ in range(whole_words(nodes + number + 1))]
    records = [packed.cut(word_bits + prob_bits) for _ in range(above)]
    packed.cut(-above * (word_bits + prob_bits) % 64 + 64)
    backoff_codes = [packed.cut(backoff_bits) for _ in range(number)]

    blocks = (len(is_context) + len(unary)) // BLOCK + 2
    hints = number // HINT + 2
    scaled = arrays["counts"][blocks + hints + 2 * len(ngrams) :].tolist()
    logs = arrays["logs"]
    probs = np.cumsum([outputs + 2, *about["prob_sizes"]])
    backoffs = np.cumsum([probs[-1], *about["backoff_sizes"]])
    scales = dict(zip(scaled, logs[backoffs[-1] :], strict=True))

    grams: list[Gram] = [()]
    log_probs: dict[Gram, float] = {}
    log_backoffs: dict[Gram, float] = {}
    at, context = 2, 0
    for node in range(inner):
        if not is_context[node]:
            continue
        gram = grams[node]
        log_backoffs[gram] = float(logs[backoffs[len(gram)] + backoff_codes[context]])
        while not unary[at]:
            if node == 0:
                word, value = len(grams) - 1, logs[len(grams)]
            else:
                word, code = divmod(records[len(grams) - outputs - 2], 1 << prob_bits)
                value = logs[probs[len(gram)] + code] + scales.get(context, np.float32(0))
            grams.append((*gram, word))
            log_probs[grams[-1]] = float(value)
            at += 1
        at, context = at + 1, context + 1
    assert len(grams) == nodes
    assert not any(unary[at:])
    return log_probs, log_backoffs


def katz(log_probs: Mapping[Gram, float], log_backoffs: Mapping[Gram, float], context: Gram, word: int) -> float:
    """log p(w | h): what is stored for hw, else the back-off of h and the same without its oldest word."""
    if (*context, word) in log_probs:
        return log_probs[(*context, word)]
    return log_backoffs.get(context, 0.0) + katz(log_probs, log_backoffs, context[1:], word)
