"""What is drawn while word vectors are trained: words to pass over, negatives, window sizes. All as tables of integers.

A random number is compared with a threshold, so a kernel needs no logarithm and no division:
keep word w if a random uint32 <= keep_thresholds(...)[w].
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError
from ostinato.core.registry import unknown

Formula: TypeAlias = Literal["word2vec.c", "published"]
"""How frequent words are passed over."""

Shrink: TypeAlias = Literal["uniform", "harmonic", "none"]
"""How the window of a word is made smaller than the largest one."""

_FULL = 1 << 32


def keep_thresholds(counts: NDArray[np.int64], sample: float, formula: Formula = "word2vec.c") -> NDArray[np.uint32]:
    """Thresholds [V]: an occurrence of a word is kept if a random uint32 is not above.

    With f the word's share of all words and t = `sample`, the chance to be kept is at most 1 and else
    "word2vec.c": (sqrt(f / t) + 1) t / f, as the authors' program and gensim have it;
    "published":  sqrt(t / f).
    counts: [V], not negative. sample: 0 keeps all.
    Raises ConfigError for a negative sample or an unknown formula.
    Source: [Mikolov2013b] eq. 5.
    """
    if formula not in ("word2vec.c", "published"):
        raise ConfigError(unknown("subsampling formula", formula, ["word2vec.c", "published"]))
    if not 0 <= sample < np.inf:
        raise ConfigError(f"sample must not be negative, got {sample}; 1e-3 is usual, 0 keeps all words")
    if sample == 0 or not counts.sum():
        return np.full(len(counts), _FULL - 1, np.uint32)
    with np.errstate(divide="ignore"):
        ratio = sample / (counts / counts.sum())  # t / f
    kept = np.sqrt(ratio) if formula == "published" else np.sqrt(ratio) + ratio
    steps = np.rint(np.minimum(kept, 1.0) * _FULL) - 1
    return np.asarray(np.clip(steps, 0, _FULL - 1), np.float64).astype(np.uint32)


def without_certain(thresholds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The thresholds up to the first of those at the end that keep every occurrence; it stands for all of them.

    Words are numbered by frequency, so few remain, which lie near the processor.
    """
    doubtful = np.flatnonzero(thresholds != _FULL - 1)
    return thresholds[: (doubtful[-1] + 2 if len(doubtful) else 1)]


def expected_share(counts: NDArray[np.int64], thresholds: NDArray[np.uint32]) -> float:
    """The share of all words that these thresholds keep, on average."""
    return float(counts @ (thresholds + 1.0)) / _FULL / max(1, int(counts.sum()))


def alias_table(counts: NDArray[np.int64], exponent: float = 0.75) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
    """Thresholds and others, [V] each, from which kernels/alias.draw draws words by count**exponent.

    A word never seen is not drawn (but for one draw in 2**32). Cost: time and memory in the number of words.
    Raises ConfigError if there are no words that were seen.
    Source: [Walker1974], built as in [Vose1991].
    """
    from ostinato.kernels import sampling as kernels

    seen = counts > 0
    if not seen.any():
        raise ConfigError("negatives are drawn by counts, but no word has one; give the words' counts")
    weights = np.zeros(len(counts))
    logs = exponent * np.log(counts[seen])
    weights[seen] = np.exp(logs - logs.max())
    weights *= len(counts) / weights.sum()
    thresholds, others = np.empty(len(counts), np.uint32), np.empty(len(counts), np.int32)
    kernels.fill_alias(weights, thresholds, others, np.empty(len(counts), np.int32))
    return thresholds, others


def window_table(window: int, shrink: Shrink = "uniform", size: int = 4096) -> NDArray[np.uint16]:
    """Window sizes [size] to take one from at random.

    "uniform": 1 to `window`, each as often, as word2vec does.
    "harmonic": a word at distance d is in the window with chance 1 / d, which is how GloVe weighs it.
    "none": always `window`.
    Shares are exact to 1 / size. Raises ConfigError for a window that is too small or too large.
    Source: [Mikolov2013a] section 3.2, [Pennington2014] section 4.2.
    """
    if not 1 <= window <= min(size, 65535):
        raise ConfigError(f"the window must lie between 1 and {min(size, 65535):,}, got {window}; 5 is usual")
    sizes = np.arange(1, window + 1)
    if shrink == "uniform":
        share = np.full(window, 1 / window)
    elif shrink == "harmonic":
        share = 1 / sizes - np.append(1 / sizes[1:], 0.0)
    elif shrink == "none":
        share = (sizes == window).astype(np.float64)
    else:
        raise ConfigError(unknown("way to shrink windows", shrink, ["uniform", "harmonic", "none"]))
    return np.repeat(sizes, _rounded(share * size, size)).astype(np.uint16)


def _rounded(shares: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Whole numbers that add up to `total`, each less than 1 from its share (largest remainders go up)."""
    down = np.floor(shares + 1e-9).astype(np.int64)
    order = np.argsort(down - shares, kind="stable")
    down[order[: total - int(down.sum())]] += 1
    return down
