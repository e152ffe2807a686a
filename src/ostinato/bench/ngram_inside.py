"""Our side of what is timed inside a process: `python -m ostinato.bench.ngram_inside CASE ...`, one JSON object out."""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.bench.kenlm_user import lines_of, usual_seconds
from ostinato.ngram.compact import CompactTable
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.counts import count
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing.kneser_ney import ModifiedKneserNey
from ostinato.ngram.store import Stored, open_model, save_model
from ostinato.text.corpora import prepare_whole
from ostinato.text.options import DataOptions

STREAMS = 128
"""Sentences walked side by side."""

CONTEXTS = 200
"""After which the whole distribution is asked for."""


def opened(path: str) -> tuple[Stored, NGramModel]:
    """A model file and its model."""
    stored = open_model(Path(path))
    assert isinstance(stored.model, NGramModel)
    return stored, stored.model


def encoded(stored: Stored, lines: list[str], threads: int = 1) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The ids of lines and where each line ends."""
    return stored.encoder().ids("\n".join(lines).encode() + b"\n", threads)


def fit(text: str, order: str) -> dict[str, float]:
    """Seconds from ids in memory to a smoothed table in memory."""
    options = DataOptions(text=(text,), tokeniser="blank", min_count=1, normalise=(), empty_lines="keep")
    with tempfile.TemporaryDirectory() as folder:
        whole = prepare_whole(options, Path(folder) / "text")
    return {"s": usual_seconds(lambda: ModifiedKneserNey().fit(count(whole.ids, whole.vocabulary, int(order))))}


def score(path: str, text: str, threads: str) -> dict[str, float]:
    """Every line scored: a list of strings in, an array of scores out."""
    (stored, model), lines = opened(path), lines_of(text)
    encoder = stored.encoder()

    def scores() -> NDArray[Any]:
        ids, ends = encoder.ids("\n".join(lines).encode() + b"\n", int(threads))
        log_probs = model.score_lines(ids, ends, int(threads))
        return np.add.reduceat(log_probs, ends - np.diff(ends, prepend=0), dtype=np.float64) / math.log(10)

    tokens = sum(len(line.split()) + 1 for line in lines)
    return {"tokens/s": tokens / usual_seconds(scores), "log10": float(scores().sum())}


def step(path: str, text: str) -> dict[str, float]:
    """The sentences walked side by side, a word of each at a time; one that ends makes room for the next."""
    stored, model = opened(path)
    ids, ends = encoded(stored, lines_of(text))
    lines = np.split(ids.astype(np.int64), ends[:-1])
    streams = [np.concatenate(lines[place::STREAMS]) for place in range(min(STREAMS, len(lines)))]
    streams.sort(key=len, reverse=True)  # those that have ended are the last rows
    columns = [np.array([words[at] for words in streams if at < len(words)]) for at in range(len(streams[0]))]
    start = model.table.sentence_start

    def walk() -> float:
        states, found = np.full(len(streams), start, np.int64), []
        for words in columns:
            log_probs, states = model.score_each(states[: len(words)], words)
            found.append(log_probs)
        return float(np.concatenate(found).sum(dtype=np.float64))

    return {"tokens/s": len(ids) / usual_seconds(walk), "log10": walk() / math.log(10)}


def next_word(path: str, text: str) -> dict[str, float]:
    """The log-probs of all words after a context, and the best of them."""
    stored, model = opened(path)
    contexts = [encoded(stored, [line])[0][:-1][:3].astype(np.int64) for line in lines_of(text)[:CONTEXTS]]
    before = []
    for context in contexts:
        state, words = model.init_state(1), [model.vocabulary.start, *context]
        for word in words[:-1]:
            _, state = model.step(state, np.array([word]))
        before.append((state, np.array(words[-1:], np.int64)))

    def distributions() -> float:
        return sum([float(model.step(state, word)[0].max()) for state, word in before])

    first = sum(float(model.step(*pair)[0].max()) for pair in before[:5])
    return {"distributions/s": len(contexts) / usual_seconds(distributions), "log10": first / math.log(10)}


def opening(path: str, text: str) -> dict[str, float]:
    """Milliseconds from the imported module to the open model, and to its first score."""
    line = lines_of(text)[:1]
    begin = time.perf_counter()
    stored, model = opened(path)
    ready = time.perf_counter()
    model.score_lines(*encoded(stored, line))
    return {"open": 1e3 * (ready - begin), "first": 1e3 * (time.perf_counter() - begin)}


def compact(path: str, out: str) -> dict[str, float]:
    """How many n-grams a model has; it is written in the compact form, too."""
    stored, model = opened(path)
    save_model(Path(out), CompactModel(CompactTable.from_table(model.table), model.vocabulary), stored.pipeline)
    return {"n-grams": sum(model.table.ngrams)}


CASES: dict[str, Callable[..., dict[str, float]]] = {
    "fit": fit,
    "score": score,
    "step": step,
    "next": next_word,
    "open": opening,
    "compact": compact,
}

if __name__ == "__main__":
    case, *words = sys.argv[1:]
    print(json.dumps(CASES[case](*words)))
