"""Vectors from and to gensim's KeyedVectors, in memory: no file, no pickle, equal to the bit."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError
from ostinato.embed.vectors import Vectors


def from_gensim(keyed_vectors: Any) -> Vectors:
    """The words, vectors and counts of a gensim KeyedVectors (4.0 or later), copied.

    Those of a FastTextKeyedVectors are what its n-grams make too; its n-grams are left behind.
    Raises DataError for anything else, for words that are numbers, and for vectors of another type than float32 or
    float16.
    """
    if not hasattr(keyed_vectors, "index_to_key"):
        hint = "give its .wv" if hasattr(keyed_vectors, "wv") else "KeyedVectors of gensim 4.0 or later are"
        raise DataError(f"a {type(keyed_vectors).__name__} is not what can be read here; {hint}")
    words = list(keyed_vectors.index_to_key)
    for word in words:
        if not isinstance(word, str):
            raise DataError(f"the key {word!r} is no word but a {type(word).__name__}; name every vector by a string")
    array = np.array(keyed_vectors.vectors)
    if array.dtype not in (np.float32, np.float16):
        raise DataError(f"these vectors are {array.dtype}; make them float32 with kv.vectors.astype('float32') first")
    return Vectors(words, array, counts_of(keyed_vectors))


def counts_of(keyed_vectors: Any) -> NDArray[np.int64] | None:
    """The counts that gensim keeps, None if it has none, or not of every word."""
    counts = keyed_vectors.expandos.get("count")
    if counts is None or len(counts) != len(keyed_vectors.index_to_key):
        return None
    counts = np.asarray(counts)
    return counts.astype(np.int64) if counts.dtype.kind in "iu" else None


def to_gensim(vectors: Vectors) -> Any:
    """A gensim KeyedVectors with the words, vectors (float32) and counts, copied.

    Subwords are left behind: gensim has them in a class of its own. Raises ConfigError if gensim is not installed.
    """
    try:
        keyed: Any = import_module("gensim.models").KeyedVectors
    except ImportError:
        raise ConfigError("gensim is not installed; `pip install gensim` does") from None
    made = keyed(vectors.dimensions, len(vectors))
    made.index_to_key = list(vectors.words)
    made.key_to_index = {word: place for place, word in enumerate(vectors.words)}
    made.next_index = len(vectors)
    made.vectors[:] = vectors.array
    if vectors.counts is not None:
        made.allocate_vecattrs(["count"], [int])
        made.expandos["count"][:] = vectors.counts
    return made
