"""From counts to a model on disk: smoothed numbers go to their files as they come, and are never held whole."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError
from ostinato.core.progress import Watch, unwatched
from ostinato.ngram.arpa_write import Ngrams, write_arpa, write_ngrams
from ostinato.ngram.blocks import Bits, Layout
from ostinato.ngram.counts import Counts
from ostinato.ngram.interpolation import Discounts, Write, interpolate_into
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing import Smoothing
from ostinato.ngram.smoothing.discounts import Discounted
from ostinato.ngram.smoothing.witten_bell import WittenBell
from ostinato.ngram.store import Label, finish_model, new_model, open_model, save_model, word_arrays
from ostinato.ngram.table import described


def write_model(
    counts: Counts,
    smoothing: Smoothing,
    label: Label,
    path: Path,
    heldout: NDArray[Any] | None = None,
    thresholds: tuple[int, ...] = (),
    arpa: str | IO[bytes] | None = None,
    watch: Watch = unwatched,
) -> NGramModel:
    """Smooth counts and write the model file, and an ARPA file if one is named or open; return the mapped model.

    heldout, thresholds: as in `Smoothing.fit`. Interpolated discounting without pruning goes straight to the
    files; everything else is made in memory first. Raises StorageError, and what `fit` raises.
    """
    check_unknown(counts, smoothing)
    if not isinstance(smoothing, Discounted) or not smoothing.interpolated or any(thresholds):
        model = NGramModel(smoothing.fit(counts, heldout, thresholds), label.vocabulary)
        save_model(path, model, label.pipeline, **label.more)
        if arpa is not None:
            write_arpa(model, arpa, watch)
        return opened(path)
    found = smoothing.discounts(counts)
    layout = Layout(counts.trie, space=counts.space)
    with new_model(path, layout.rows) as (file, sink), ThreadPoolExecutor(1) as beside:
        words = beside.submit(word_arrays, label.vocabulary)
        collected = None
        writers: list[Write] = [partial(layout.write, sink=sink)]
        if arpa is not None:
            collected, collect = collector(counts)
            writers.append(collect)
        interpolate_into(counts, found, to_all(writers), smoothing.continuation)
        about = described(counts.trie.ngrams, smoothing.name, True, *frozen(found))
        finish_model(file, label, about, words.result())
    if arpa is not None and collected is not None:
        write_ngrams(collected, label.vocabulary, arpa, watch)
    return opened(path)


def write_arpa_only(
    counts: Counts, smoothing: Discounted, label: Label, arpa: str | IO[bytes], watch: Watch = unwatched
) -> Discounts:
    """Smooth counts and write nothing but an ARPA file; return the discounts. Raises DataError, StorageError."""
    check_unknown(counts, smoothing)
    found = smoothing.discounts(counts)
    collected, collect = collector(counts)
    interpolate_into(counts, found, collect, smoothing.continuation)
    write_ngrams(collected, label.vocabulary, arpa, watch)
    return found


def check_unknown(counts: Counts, smoothing: Smoothing) -> None:
    """Raise ConfigError if this smoothing does not look at how the mass of unseen words is to be shared out."""
    if counts.unknown != "kenlm" and not isinstance(smoothing, Discounted | WittenBell):
        raise ConfigError(
            f"unknown {counts.unknown!r} is for witten-bell, absolute discounting and Kneser-Ney, not for "
            f"{type(smoothing).__name__}; leave it out"
        )


def frozen(found: Discounts) -> tuple[tuple[tuple[float, ...], ...], tuple[str, ...]]:
    """Discounts and notes as a table keeps them."""
    return tuple(found.values), tuple(found.notes)


def opened(path: Path) -> NGramModel:
    """The model that was just written, which need not be checked."""
    model = open_model(path, check=False).model
    assert isinstance(model, NGramModel)
    return model


def to_all(writers: list[Write]) -> Write:
    """Give everything to each writer."""

    def write(begin: int, end: int, log_prob: Bits, log_backoff: Bits) -> None:
        for writer in writers:
            writer(begin, end, log_prob, log_backoff)

    return write


def collector(counts: Counts) -> tuple[Ngrams, Write]:
    """The n-grams of the counts, their numbers yet unknown, and what fills those in."""
    trie = counts.trie
    log_prob = counts.space.empty(trie.nodes, np.int32)
    log_backoff = counts.space.empty(trie.inner, np.int32)
    log_prob[0] = 0

    def collect(begin: int, end: int, log_probs: Bits, log_backoffs: Bits) -> None:
        log_prob[trie.first_child[begin] : trie.first_child[end]] = log_probs
        log_backoff[begin:end] = log_backoffs
        counts.space.relieve()

    return Ngrams(trie, log_prob.view(np.float32), log_backoff.view(np.float32)), collect
