"""An n-gram model made into another: smaller, mixed, in another format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from ostinato.core.errors import ConfigError, MismatchError
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.arpa_write import write_arpa
from ostinato.ngram.compact import CompactTable
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.counts import Counts
from ostinato.ngram.files import open_any
from ostinato.ngram.filter import Lost, filter_vocabulary
from ostinato.ngram.merge import ids_in, renumbered
from ostinato.ngram.model import NGramModel
from ostinato.ngram.store import OWN, Model, Stored, open_counts, save_model
from ostinato.runs import RunDir
from ostinato.tasks.language.load import load
from ostinato.text.read import read_lines
from ostinato.text.stream import encode_files

ARPA_ENDINGS = (".arpa", ".arpa.gz", ".arpa.zst")

MOST_WORDS = 256
"""Words from which `check` walks to add distributions up."""


def opened(path: Path, watch: Watch = unwatched) -> Stored:
    """The n-gram model in a file of any format (see `open_any`) or in a run directory.

    Raises MismatchError for a run of another kind, and as `open_any` and `load` do.
    """
    if not path.is_dir():
        return open_any(path, watch)
    kind = RunDir.open(path).model_kind()
    if not kind.startswith("ngram"):
        raise MismatchError(f"{path}: a run of kind {kind}; only n-gram models have n-grams to work on")
    loaded = load(path)
    model: Any = loaded.model
    return Stored(model, loaded.pipeline, loaded.about, loaded.words)


def plain(stored: Stored) -> NGramModel:
    """The model with its numbers unpacked."""
    model = stored.model
    return model if isinstance(model, NGramModel) else NGramModel(model.table.expand(), model.vocabulary)


def aligned(counts: Counts, counted: Vocabulary, vocabulary: Vocabulary) -> Counts:
    """The counts under the ids of another vocabulary; n-grams with words that it lacks are left out.

    Raises MismatchError if the counts lack a word of it.
    """
    if counted == vocabulary:
        return counts
    lacking = [piece for piece in vocabulary.pieces[2:-2] if piece not in counted]
    if lacking:
        raise MismatchError(
            f"the counts lack {lacking[0]!r}, a word of the model (and {len(lacking) - 1:,} more); "
            "give the counts that the model was made from"
        )
    trie, nodes = renumbered(counts.trie, ids_in(counted, vocabulary), vocabulary.outputs)
    return Counts(trie, counts.count[nodes], counts.tokens, counts.lines)


def counts_for(path: Path, vocabulary: Vocabulary) -> Counts:
    """The counts in a file under the ids of a model's vocabulary. Raises FormatError, MismatchError."""
    counts, label = open_counts(path)
    return aligned(counts, label.vocabulary, vocabulary)


def prune(
    stored: Stored,
    counts: Path | None = None,
    threshold: float | None = None,
    ngrams: int | None = None,
    min_counts: Sequence[int] = (),
) -> NGramModel:
    """The model without the n-grams it misses least, or that are rare (see ngram/prune.py).

    Raises ConfigError unless exactly one of threshold, ngrams and min_counts is given.
    """
    from ostinato.ngram import prune as pruning

    if sum((threshold is not None, ngrams is not None, bool(min_counts))) != 1:
        raise ConfigError("give one of --threshold, --ngrams and --min-counts")
    if min_counts and counts is None:
        raise ConfigError("--min-counts needs --counts COUNTS: a model does not hold the counts of its text")
    model = plain(stored)
    known = None if counts is None else counts_for(counts, model.vocabulary)
    if threshold is not None:
        table = pruning.prune_by_entropy(model.table, threshold, known)
    elif ngrams is not None:
        table = pruning.prune_to(model.table, ngrams, known)
    else:
        assert known is not None
        table = pruning.prune_by_count(model.table, known, min_counts)
    return NGramModel(table, model.vocabulary)


def quantise(stored: Stored, prob_bits: int = 8, backoff_bits: int = 16) -> CompactModel:
    """The model with its numbers rounded to codes of so many bits, packed. Raises ConfigError."""
    model = plain(stored)
    return CompactModel(CompactTable.from_table(model.table, prob_bits, backoff_bits), model.vocabulary)


def filter_words(stored: Stored, words: Path, unknown: Lost = "keep") -> NGramModel:
    """The model of the words that a file lists, white space between them. Raises as `filter_vocabulary` does."""
    model = plain(stored)
    listed = (word for line in read_lines(words) for word in line.split())
    return NGramModel(*filter_vocabulary(model.table, model.vocabulary, listed, unknown))


def interpolate(
    members: Sequence[Stored],
    weights: Sequence[float] = (),
    texts: Sequence[str] = (),
    watch: Watch = unwatched,
) -> tuple[NGramModel, tuple[float, ...]]:
    """One model that is the weighted sum of several, and the weights: those given, or those that suit the texts best.

    Vocabularies are united (see `widened`). Raises ConfigError unless there are several members and either weights
    or texts, MismatchError for members that cut text differently.
    """
    from ostinato.mix import fit_weights
    from ostinato.ngram.combine import check_weights, interpolate_tables, widened
    from ostinato.ngram.merge import unite_vocabularies

    if len(members) < 2:
        raise ConfigError("name at least two models")
    if bool(weights) == bool(texts):
        raise ConfigError("give either --text HELDOUT, to find the weights, or --weights, one a model")
    check_pieces(members)
    models = [plain(member) for member in members]
    vocabulary = unite_vocabularies(model.vocabulary for model in models)
    wide = [NGramModel(widened(model.table, model.vocabulary, vocabulary), vocabulary) for model in models]
    if texts:
        empty_lines = members[0].about.get("empty_lines", "keep")
        stream = encode_files(texts, members[0].pipeline, vocabulary, None, watch, empty_lines)
        ids = stream.ids.astype(np.int32)
        ends = np.flatnonzero(ids == vocabulary.stop) + 1
        watch(Progress("weighing", len(ids)))
        weights = fit_weights(np.stack([model.score_lines(ids, ends, None) for model in wide])).tolist()
    shares = tuple(check_weights(weights, len(wide)).tolist())
    watch(Progress("interpolating", 0))
    return NGramModel(interpolate_tables([model.table for model in wide], shares), vocabulary), shares


def check_pieces(members: Sequence[Stored]) -> None:
    """Raise MismatchError unless all members cut text alike."""
    for place, member in enumerate(members):
        if member.pipeline.signature != members[0].pipeline.signature:
            raise MismatchError(
                f"models 1 and {place + 1} read pieces {members[0].pipeline.signature} and "
                f"{member.pipeline.signature}; only models that cut text alike can be interpolated"
            )


def next_words(stored: Stored, context: str, number: int) -> tuple[list[tuple[str, float]], list[str]]:
    """The most likely words after the beginning of a sentence with their log-probs (nats), and the unknown words in it.

    Raises ConfigError for a number below 1.
    """
    if number < 1:
        raise ConfigError(f"-k {number}: ask for at least one word")
    model, vocabulary = stored.model, stored.model.vocabulary
    pieces = stored.pipeline.pieces(context)
    ids = [vocabulary.start, *vocabulary.ids(pieces).tolist()]
    state, log_probs = model.init_state(1), np.zeros((1, model.outputs), np.float32)
    for token in ids:
        log_probs, state = model.step(state, np.array([token]))
    best = np.argsort(-log_probs[0], kind="stable")[:number]
    found = [(vocabulary.pieces[word], float(log_probs[0, word])) for word in best.tolist()]
    return found, [piece for piece, word in zip(pieces, ids[1:], strict=True) if word == vocabulary.unknown]


def check(stored: Stored) -> dict[str, Any]:
    """What a model that was read whole and found sound consists of, and how far from one its distributions sum.

    `sum_off`: see `farthest_from_one`; None for a table of mere scores.
    """
    model, table = stored.model, stored.model.table
    return {
        "kind": "ngram" if isinstance(model, NGramModel) else "ngram-compact",
        "order": table.order,
        "ngrams": list(table.ngrams),
        "parameters": model.parameters,
        "smoothing": table.smoothing,
        "normalised": table.normalised,
        "vocabulary": model.vocabulary.fingerprint,
        "pieces": stored.pipeline.signature,
        "notes": list(table.notes),
        "sum_off": farthest_from_one(model) if table.normalised else None,
    }


def farthest_from_one(model: Model) -> float:
    """How far the sum of a distribution is from one at most, along the likeliest words after words far apart."""
    words = np.unique(np.linspace(0, model.outputs - 1, MOST_WORDS).astype(np.int64))
    words[0] = model.vocabulary.start
    worst = 0.0
    for first in words.tolist():
        state, word = model.init_state(1), first
        for _ in range(model.table.order):
            log_probs, state = model.step(state, np.array([word]))
            worst = max(worst, abs(float(np.exp(log_probs.astype(np.float64)).sum()) - 1))
            word = int(np.argmax(log_probs))
    return worst


def is_arpa_name(path: Path) -> bool:
    """Whether a file of that name is to be an ARPA file."""
    return path.name.lower().endswith(ARPA_ENDINGS)


def write(model: Model, stored: Stored, out: Path | IO[bytes], watch: Watch = unwatched) -> None:
    """Write a model as its name ends: an ARPA file (.arpa, .arpa.gz, .arpa.zst), else a model file; atomically.

    stored: what it was made from, whose pipeline and facts it keeps. An open binary file gets ARPA. Raises
    DataError for words that no ARPA file can hold, StorageError.
    """
    if not isinstance(out, Path) or is_arpa_name(out):
        target = out if not isinstance(out, Path) else str(out)
        write_arpa(plain(Stored(model, stored.pipeline, {}, {})), target, watch)
    else:
        save_model(out, model, stored.pipeline, **kept(stored.about))


def kept(about: Mapping[str, Any]) -> dict[str, Any]:
    """What a model file says of itself and the next one says too."""
    return {name: value for name, value in about.items() if name not in OWN}
